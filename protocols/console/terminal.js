// The terminal: lines over the sub-protocol `term`, with a history, completion and hints from the command table.
import { make } from "/console/view.js"

const LINES_MAX = 2000
const HISTORY_MAX = 200
const history = []
let commands = null

// The arguments of a command as its documentation writes them.
function syntax(list = []) {
  return list.map(argument => {
    const flags = argument.flags ?? []
    let text = argument.display_text ?? argument.name
    if (argument.type === "oneof") text = argument.arguments.map(one => syntax([one])).join("|")
    if (argument.type === "block") text = syntax(argument.arguments)
    if (argument.type === "pure-token") text = argument.token
    else if (argument.token) text = `${argument.token} ${text}`
    if (flags.includes("multiple")) text = `${text} [${text} ...]`
    return flags.includes("optional") ? `[${text}]` : argument.type === "oneof" ? `<${text}>` : text
  }).join(" ")
}

async function load(link) {
  const found = new Map()
  for (const [name, doc] of Object.entries(await link.ask("COMMAND", "DOCS"))) {
    found.set(name.toUpperCase(), doc)
    for (const [inner, more] of Object.entries(doc.subcommands ?? {})) found.set(inner.replace("|", " ").toUpperCase(), more)
  }
  return found
}

export function terminal(link) {
  const log = make("div", { id: "log", role: "log", "aria-live": "polite", tabindex: "0" })
  const hint = make("div", { id: "hint" })
  const line = make("input", { id: "line", "aria-label": "Command", autocomplete: "off", autocapitalize: "off", spellcheck: "false" })
  let place = history.length
  let skips = 0
  let socket = null

  function write(text, kind) {
    const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 30
    log.append(make("div", { class: kind }, text))
    while (log.childElementCount > LINES_MAX) log.firstChild.remove()
    if (isAtEnd) log.scrollTop = log.scrollHeight
  }

  function connect() {
    socket = new WebSocket(`${link.socket.url}?columns=0`, "term")
    const quoted = word => JSON.stringify(word)
    socket.onopen = () => {
      const first = link.login ? [`AUTH ${link.login.map(quoted).join(" ")}`] : []
      if (link.database) first.push(`SELECT ${link.database}`)
      skips = first.length
      first.forEach(text => socket.send(text))
    }
    socket.onmessage = event => {
      if (skips > 0) return void skips--
      write(event.data.replace(/\n$/, ""), event.data.startsWith("(error)") ? "wrong" : null)
    }
    socket.onclose = () => write("The connection is closed. The next command opens another one.", "wrong")
  }

  function send(text) {
    if (!text.trim()) return
    write(`> ${/^\s*auth\b/i.test(text) ? "AUTH ***" : text}`, "said")
    log.scrollTop = log.scrollHeight
    if (!/^\s*auth\b/i.test(text) && history.at(-1) !== text) history.push(text)
    if (history.length > HISTORY_MAX) history.shift()
    place = history.length
    if (/^\s*clear\s*$/i.test(text)) return log.replaceChildren()
    if (socket.readyState === WebSocket.OPEN) return socket.send(text)
    if (socket.readyState !== WebSocket.CONNECTING) connect()
    socket.addEventListener("open", () => socket.send(text))
  }

  const typed = () => line.value.trimStart().toUpperCase()
  const candidates = () => commands ? [...commands.keys()].filter(name => name.startsWith(typed())).sort() : []

  function advise() {
    const text = typed()
    const words = text.split(/\s+/)
    const name = [words.slice(0, 2).join(" "), words[0]].find(name => commands?.has(name))
    if (text && name) {
      const doc = commands.get(name)
      hint.replaceChildren(make("b", {}, name), ` ${syntax(doc.arguments)} — ${doc.summary ?? ""}`)
    } else {
      hint.textContent = text ? listed(candidates()) : ""
    }
  }

  const listed = found => found.slice(0, 12).join("  ") + (found.length > 12 ? " …" : "")

  function complete() {
    const found = candidates()
    if (!found.length) return
    let shared = found[0]
    for (const name of found) while (!name.startsWith(shared)) shared = shared.slice(0, -1)
    const isWhole = shared === typed()
    line.value = found.length === 1 ? shared + " " : shared
    advise()
    // A second Tab lists what begins alike.
    if (isWhole && found.length > 1) hint.textContent = listed(found)
  }

  line.oninput = advise
  line.onkeydown = event => {
    if (event.key === "Enter") {
      send(line.value)
      line.value = ""
    } else if (event.key === "Tab" && typed() && candidates().length && !event.shiftKey) {
      event.preventDefault()
      return complete()
    } else if (event.key === "ArrowUp" && place > 0) {
      line.value = history[--place]
    } else if (event.key === "ArrowDown" && place < history.length) {
      line.value = history[++place] ?? ""
    } else return
    if (event.key !== "Enter") event.preventDefault()
    advise()
  }
  write("Commands of Redis and Polder, as in polder cli. Tab completes a name, the arrows call up lines, a hint shows the syntax; clear empties the screen.", "faint")
  if (commands === null) load(link).then(found => { commands = found; advise() }, failure => { hint.textContent = failure.message })
  connect()
  const page = make("section", { class: "card terminal" }, log, hint, make("div", { class: "prompt" }, make("span", { class: "mono" }, ">"), line))
  return { page, focus: line, leave: () => { socket.onclose = null; socket.close() } }
}
