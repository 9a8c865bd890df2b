// Channels, slow log and clients: three pages that list what the server tells.
import { Link } from "/console/link.js"
import { confirmed, make, number, shown, table } from "/console/view.js"

const MESSAGES_MAX = 500

// Messages of channels, over a connection of their own.
export function channels(link) {
  const name = make("input", { id: "channel", placeholder: "news or orders.*", "aria-label": "Channel or pattern" })
  const target = make("input", { placeholder: "channel", "aria-label": "Channel to publish to" })
  const text = make("input", { placeholder: "message", "aria-label": "Message" })
  const heard = make("p", { class: "faint" }, "Nothing is subscribed.")
  const error = make("p", { class: "error", role: "alert" })
  const body = make("tbody", { id: "messages" })
  const names = new Set()

  function push(words) {
    const kind = shown(words[0])
    if (kind === "error") error.textContent = words[1]
    if (kind === "subscribe" || kind === "psubscribe") names.add(shown(words[1]))
    heard.textContent = names.size ? `Subscribed: ${[...names].join(", ")}` : "Nothing is subscribed."
    if (kind !== "message" && kind !== "pmessage") return
    const cells = [new Date().toLocaleTimeString("en-GB"), shown(words.at(-2)), shown(words.at(-1))]
    body.prepend(make("tr", {}, ...cells.map((cell, at) => make("td", { class: at ? "mono" : null }, cell))))
    while (body.childElementCount > MESSAGES_MAX) body.lastChild.remove()
  }
  const own = new Link({ push, state: isOpen => { if (!isOpen) error.textContent = "The connection is closed; open this page again." } })
  own.login = link.login
  const opened = own.open().catch(failure => { error.textContent = failure.message })

  async function subscribe() {
    error.textContent = ""
    await opened
    if (name.value) own.tell(/[*?[]/.test(name.value) ? "PSUBSCRIBE" : "SUBSCRIBE", name.value)
    name.value = ""
  }
  const publish = () => link.ask("PUBLISH", target.value, text.value).then(count => { error.textContent = ""; text.value = ""; sent.textContent = `${count} received it` },
    failure => { error.textContent = failure.message })
  const sent = make("span", { class: "faint", role: "status" })
  name.onkeydown = event => { if (event.key === "Enter") subscribe() }
  text.onkeydown = event => { if (event.key === "Enter") publish() }
  const head = make("tr", {}, ...["Time", "Channel", "Message"].map(title => make("th", { scope: "col" }, title)))
  const page = make("section", { class: "card" },
    make("div", { class: "actions" }, name, make("button", { type: "button", class: "primary", id: "subscribe", onclick: subscribe }, "Subscribe"), heard),
    make("div", { class: "actions" }, target, text, make("button", { type: "button", onclick: publish }, "Publish"), sent),
    error, make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), body)))
  return { page, focus: name, leave: () => own.close() }
}

// A page that asks every two seconds.
function polled(run) {
  const place = make("section", { class: "card" })
  const error = make("p", { class: "error", role: "alert" })
  const again = async () => {
    try {
      place.replaceChildren(...await run(again, failure => { error.textContent = failure.message }))
      error.textContent = ""
    } catch (failure) {
      error.textContent = failure.message
    }
  }
  const timer = setInterval(again, 2000)
  again()
  return { page: make("div", {}, error, place), leave: () => clearInterval(timer) }
}

export function slow(link) {
  return polled(async () => {
    const [entries, threshold] = await Promise.all([link.ask("SLOWLOG", "GET", 100), link.ask("CONFIG", "GET", "slowlog-log-slower-than").catch(() => null)])
    const rows = entries.map(([, seconds, micros, words, address, name]) =>
      [new Date(seconds * 1000).toLocaleString("en-GB"), number(micros), words.map(shown).join(" "), shown(address), shown(name)])
    const since = threshold?.["slowlog-log-slower-than"]
    return [make("h2", {}, since ? `Commands that took ${number(Number(since))} µs or more` : "Slow commands"),
      table([["Time"], ["Took, µs", "number"], ["Command", "mono"], ["Client"], ["Name"]], rows, "No command was slow.")]
  })
}

export function clients(link) {
  return polled(async (again, fail) => {
    const text = await link.ask("CLIENT", "LIST")
    const own = await link.ask("CLIENT", "ID")
    const rows = text.trim().split("\n").map(line => Object.fromEntries(line.split(" ").map(part => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)])))
    const kill = row => async () => {
      if (!await confirmed(`Close the connection of client ${row.id} (${row.addr})?`, "Kill")) return
      await link.ask("CLIENT", "KILL", "ID", row.id).catch(fail)
      again()
    }
    const cells = rows.map(row => [row.id, row.addr, row.name, row.user, row.protocol ?? "resp", row.db, `${row.age} s`, `${row.idle} s`, row.cmd,
      Number(row.id) === own ? "this page" : make("button", { type: "button", class: "danger", onclick: kill(row), "aria-label": `Kill client ${row.id}` }, "Kill")])
    return [make("h2", {}, `${rows.length} clients`),
      table([["ID", "number"], ["Address", "plain"], ["Name"], ["User"], ["Protocol"], ["db", "number"], ["Age", "number"], ["Idle", "number"], ["Last command", "mono"], [""]], cells, "")]
  })
}
