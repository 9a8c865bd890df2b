// The console: log-in, the pages, and the connection that they share.
import { analysis } from "/console/analysis.js"
import { keys } from "/console/keys.js"
import { Link } from "/console/link.js"
import { live } from "/console/live.js"
import { terminal } from "/console/terminal.js"
import { channels, clients, slow } from "/console/watch.js"

const PAGES = { live, keys, analysis, terminal, channels, slow, clients }
const RETRY_MS = 2000

const main = document.getElementById("page")
const status = document.getElementById("status")
const database = document.getElementById("database")
const login = document.getElementById("login")
let shown = null

const link = new Link({
  push() {},
  state(isOpen) {
    status.className = isOpen ? "open" : ""
    status.textContent = isOpen ? "connected" : "not connected"
    if (!isOpen) setTimeout(start, RETRY_MS)
  },
})

function show() {
  const name = location.hash.slice(1) in PAGES ? location.hash.slice(1) : "live"
  for (const item of document.querySelectorAll("nav a")) {
    if (item.hash === `#${name}`) item.setAttribute("aria-current", "page")
    else item.removeAttribute("aria-current")
  }
  shown?.leave()
  shown = PAGES[name](link)
  main.replaceChildren(shown.page)
  shown.focus?.focus()
}

// Asks for a user and a password; the browser keeps neither beyond this page.
function ask(why) {
  login.querySelector(".error").textContent = why
  login.oncancel = event => event.preventDefault()
  login.onclose = () => {
    const given = new FormData(login.querySelector("form"))
    link.login = [given.get("user") || "default", given.get("password")]
    start()
  }
  if (!login.open) login.showModal()
}

async function start() {
  try {
    await link.open()
    login.querySelector("form").reset()
    show()
  } catch (failure) {
    if (/^(NOAUTH|WRONGPASS|NOPERM)/.test(failure.message)) {
      const first = link.login === null
      link.close()
      link.login = null
      status.textContent = "not logged in"
      return ask(first ? "" : failure.message)
    }
    status.className = ""
    status.textContent = failure.message
    setTimeout(start, RETRY_MS)
  }
}

database.onchange = async () => {
  const number = Math.max(0, Math.trunc(Number(database.value) || 0))
  try {
    await link.ask("SELECT", number)
    link.database = number
    show()
  } catch (failure) {
    status.textContent = failure.message
    database.value = link.database
  }
}
addEventListener("hashchange", () => { if (status.className === "open") show() })
start()
