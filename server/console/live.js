// The live page: what INFO says, once a second.
import { Chart, bytes, duration, make, number, table } from "/console/view.js"

const SPAN = 120
const rate = unit => value => [number(value), unit]

function charts() {
  return {
    operations: new Chart("Throughput", rate("operations/s"), SPAN),
    latency: new Chart("Mean time of a command", value => [value.toFixed(value < 10 ? 2 : 0), "µs"], SPAN),
    traffic: new Chart("Network, in and out", value => { const [text, unit] = bytes(value); return [text, unit + "/s"] }, SPAN),
    memory: new Chart("Memory used", bytes, SPAN),
    hits: new Chart("Hit rate", value => [value.toFixed(1), "%"], SPAN),
    keys: new Chart("Keys, all databases", rate("keys"), SPAN),
    clients: new Chart("Clients", rate("connected"), SPAN),
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
  return {
    at: performance.now(), found, databases, commands,
    calls: commands.reduce((sum, [, stat]) => sum + stat.calls, 0),
    spent: commands.reduce((sum, [, stat]) => sum + stat.usec, 0),
    processed: count("total_commands_processed"),
    bytes: count("total_net_input_bytes") + count("total_net_output_bytes"),
    memory: count("used_memory"), hits: count("keyspace_hits"), misses: count("keyspace_misses"),
    keys: databases.reduce((sum, [, stat]) => sum + stat.keys, 0), clients: count("connected_clients"),
  }
}

// It goes on while another page is shown, so that its charts have no gaps.
let kept = null

export function live(link) {
  kept ??= begin(link)
  return { page: kept, leave() {} }
}

function begin(link) {
  const all = charts()
  const facts = make("dl", { class: "facts card" })
  const databases = make("section", { class: "card" })
  const commands = make("section", { class: "card" })
  const error = make("p", { class: "error", role: "alert" })
  let before = null

  function show(now) {
    all.memory.add(now.memory)
    all.keys.add(now.keys)
    all.clients.add(now.clients)
    if (before) {
      const seconds = (now.at - before.at) / 1000
      const asked = now.hits + now.misses - before.hits - before.misses
      const calls = now.calls - before.calls
      all.operations.add(Math.max(0, now.processed - before.processed) / seconds)
      all.traffic.add(Math.max(0, now.bytes - before.bytes) / seconds)
      all.latency.add(calls > 0 ? (now.spent - before.spent) / calls : null)
      all.hits.add(asked > 0 ? (now.hits - before.hits) * 100 / asked : null)
    }
    before = now
    const of = name => now.found[name] ?? "–"
    const list = [["Version", of("polder_version") === "–" ? of("redis_version") : of("polder_version")], ["Up", duration(Number(of("uptime_in_seconds")) * 1000)],
      ["Peak memory", bytes(Number(now.found.used_memory_peak ?? 0)).join(" ")], ["Evicted", number(Number(now.found.evicted_keys ?? 0))],
      ["Expired", number(Number(now.found.expired_keys ?? 0))], ["Connections", number(Number(now.found.total_connections_received ?? 0))]]
    facts.replaceChildren(...list.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))))
    const rows = now.databases.map(([name, stat]) => [name, number(stat.keys), number(stat.expires)])
    databases.replaceChildren(make("h2", {}, "Keyspace"),
      table([["Database"], ["Keys", "number"], ["With expiry", "number"]], rows, "No database has keys."))
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
  setInterval(poll, 1000)
  poll()
  return make("div", {}, error, make("div", { class: "cards" }, ...Object.values(all).map(chart => chart.element), facts),
    make("div", { class: "pair" }, databases, commands))
}
