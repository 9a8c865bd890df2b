// The live page: what INFO says, once a second, behind the hour that the server has kept.
import { Chart, bytes, duration, make, number, table } from "/console/view.js"

const SPANS = [["Last hour", 3600000], ["2 minutes", 120000]]
// This page asks for them; on an idle server they would be most of what is done.
const ASKING = ["info", "metrics"]
const rate = unit => value => [number(value), unit]
const percent = value => [value.toFixed(1), "%"]

function charts() {
  const chart = (title, write) => new Chart(title, write, SPANS[0][1])
  return {
    operations: chart("Throughput", rate("operations/s")),
    latency: chart("Mean time of a command", value => [value.toFixed(value < 10 ? 2 : 0), "µs"]),
    traffic: chart("Network, in and out", value => { const [text, unit] = bytes(value); return [text, unit + "/s"] }),
    memory: chart("Memory used", bytes),
    hits: chart("Hit rate", percent),
    keys: chart("Keys, all databases", rate("keys")),
    clients: chart("Clients", rate("connected")),
    evicted: chart("Evictions", rate("keys/s")),
    processor: chart("Processor", percent),
  }
}

// The fields of INFO: names to texts.
export function fields(info) {
  const lines = info.split(/\r?\n/).filter(line => line && !line.startsWith("#"))
  return Object.fromEntries(lines.map(line => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]))
}

// The numbers of a field such as `keys=3,expires=0`.
function parts(text) {
  return Object.fromEntries(text.split(",").map(part => part.split("=")).map(([name, value]) => [name, Number(value)]))
}

function sample(info) {
  const found = fields(info)
  const count = name => Number(found[name] ?? 0)
  const databases = Object.keys(found).filter(name => /^db\d+$/.test(name)).map(name => [name, parts(found[name])])
  const commands = Object.keys(found).filter(name => name.startsWith("cmdstat_")).map(name => [name.slice(8), parts(found[name])])
  const timed = commands.filter(([name]) => !ASKING.includes(name))
  return {
    at: Date.now(), found, databases, commands,
    timed: timed.reduce((sum, [, stat]) => sum + stat.calls, 0),
    spent: timed.reduce((sum, [, stat]) => sum + stat.usec, 0),
    processed: count("total_commands_processed"), evicted: count("evicted_keys"),
    bytes: count("total_net_input_bytes") + count("total_net_output_bytes"),
    memory: count("used_memory"), hits: count("keyspace_hits"), misses: count("keyspace_misses"),
    keys: databases.reduce((sum, [, stat]) => sum + stat.keys, 0), clients: count("connected_clients"),
    processor: (count("used_cpu_sys") + count("used_cpu_user")) * 1e6,
  }
}

// The samples of the last hour that the server has kept; none if the user may not see them.
async function hour(link) {
  const [names, ...rows] = await link.ask("METRICS", "HISTORY").catch(() => [[]])
  return rows.map(row => {
    const figure = name => row[names.indexOf(name)] ?? 0
    return {
      at: figure("time_ms"), timed: figure("timed_calls"), spent: figure("timed_us"), processed: figure("commands"), bytes: figure("net_bytes"),
      memory: figure("used_memory"), hits: figure("keyspace_hits"), misses: figure("keyspace_misses"), keys: figure("keys"),
      clients: figure("clients"), evicted: figure("evicted_keys"), processor: figure("cpu_us"),
    }
  })
}

// Adds what two samples show.
function add(all, before, now) {
  const seconds = (now.at - before.at) / 1000
  const rose = name => Math.max(0, now[name] - before[name])
  const asked = rose("hits") + rose("misses")
  all.operations.add(now.at, rose("processed") / seconds)
  all.traffic.add(now.at, rose("bytes") / seconds)
  all.latency.add(now.at, rose("timed") > 0 ? rose("spent") / rose("timed") : null)
  all.hits.add(now.at, asked > 0 ? rose("hits") * 100 / asked : null)
  all.evicted.add(now.at, rose("evicted") / seconds)
  all.processor.add(now.at, rose("processor") / seconds / 1e4)
  for (const name of ["memory", "keys", "clients"]) all[name].add(now.at, now[name])
}

// It goes on while another page is shown, so that its charts have no gaps.
let kept = null

export function live(link) {
  kept ??= begin(link)
  return { page: kept, leave() {} }
}

function begin(link) {
  const all = charts()
  const facts = make("dl", { class: "facts card wide" })
  const databases = make("section", { class: "card" })
  const commands = make("section", { class: "card" })
  const replication = make("section", { class: "card wide" })
  const error = make("p", { class: "error", role: "alert" })
  let before = null

  function show(now) {
    if (before && now.at > before.at) add(all, before, now)
    before = now
    const of = name => now.found[name] ?? "–"
    const list = [["Version", of("polder_version") === "–" ? of("redis_version") : of("polder_version")], ["Up", duration(Number(of("uptime_in_seconds")) * 1000)],
      ["Peak memory", bytes(Number(now.found.used_memory_peak ?? 0)).join(" ")], ["Evicted", number(Number(now.found.evicted_keys ?? 0))],
      ["Expired", number(Number(now.found.expired_keys ?? 0))], ["Connections", number(Number(now.found.total_connections_received ?? 0))]]
    facts.replaceChildren(...list.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))))
    const rows = now.databases.map(([name, stat]) => [name, number(stat.keys), number(stat.expires)])
    databases.replaceChildren(make("h2", {}, "Keyspace"),
      table([["Database"], ["Keys", "number"], ["With expiry", "number"]], rows, "No database has keys."))
    replication.replaceChildren(...replicationOf(now.found))
    const top = now.commands.toSorted((one, other) => other[1].usec - one[1].usec).slice(0, 10)
    const latencies = top.map(([name]) => parts(now.found[`latency_percentiles_usec_${name}`] ?? ""))
    // Which percentiles there are is a setting: latency-tracking-info-percentiles.
    const percentiles = Object.keys(latencies.find(latency => Object.keys(latency)[0]) ?? {})
    const most = top.map(([name, stat], at) => [name, number(stat.calls), (stat.usec / 1000).toFixed(1), (stat.usec / stat.calls).toFixed(2),
      ...percentiles.map(percentile => latencies[at][percentile]?.toFixed(2) ?? "–")])
    commands.replaceChildren(make("h2", {}, "Commands by time"),
      table([["Command"], ["Calls", "number"], ["Total, ms", "number"], ["Mean, µs", "number"], ...percentiles.map(percentile => [`${percentile}, µs`, "number"])],
        most, "No command has been called."))
  }

  async function poll() {
    try {
      show(sample(await link.ask("INFO", "everything")))
      error.textContent = ""
    } catch (failure) {
      error.textContent = failure.message
    }
  }
  async function start() {
    const samples = await hour(link)
    samples.forEach((now, at) => { if (at > 0) add(all, samples[at - 1], now) })
    before = null
    setInterval(poll, 1000)
    poll()
  }
  start()
  const spans = SPANS.map(([name, spanMs]) => make("button", { type: "button", "aria-pressed": String(spanMs === SPANS[0][1]), onclick: event => {
    Object.values(all).forEach(chart => chart.show(spanMs))
    for (const one of spans) one.setAttribute("aria-pressed", String(one === event.currentTarget))
  } }, name))
  return make("div", {}, error, make("div", { class: "spans", role: "group", "aria-label": "Span of the charts" }, ...spans), make("div", { class: "cards" }, ...Object.values(all).map(chart => chart.element), facts),
    make("div", { class: "pair" }, databases, commands), replication)
}

// The role of the memory, its link to a primary, and its replicas: nothing where there are neither.
function replicationOf(found) {
  const end = Number(found.master_repl_offset ?? 0)
  const replicas = Object.keys(found).filter(name => /^slave\d+$/.test(name)).map(name =>
    Object.fromEntries(found[name].split(",").map(pair => pair.split("="))))
  const rows = replicas.map(({ ip, port, state, offset, lag }) => [`${ip}:${port}`, state === "online" ? "online" : "takes a copy",
    bytes(Math.max(0, end - Number(offset))).join(" "), lag === "-1" ? "–" : lag])
  if (found.role !== "slave" && rows.length === 0) return []
  const link = found.master_sync_in_progress === "1" ? `copies the data, ${found.master_sync_perc ?? "0"} %`
    : found.master_link_status === "up" ? "up" : `down: ${found.master_link_error ?? "no server follows"}`
  const role = found.role === "slave" ? `Replica of ${found.master_host}:${found.master_port}, link ${link}` : "Primary"
  return [make("h2", {}, "Replication"), make("p", {}, role),
    table([["Replica"], ["State"], ["Behind", "number"], ["Last acknowledged, s", "number"]], rows, "No replicas.")]
}
