// The key browser: keys that match a pattern, and the value of one in pages.
import { bytes, confirmed, duration, make, number, shown, table } from "/console/view.js"

const PAGE = 100
const SCAN = 500
// A longer string is shown and not edited.
const EDIT_BYTES_MAX = 256 * 1024

// How each type is read in pages: from where (a number or a cursor) to rows, and where the next page begins (null: nowhere).
const TYPES = {
  hash: {
    columns: [["Field", "mono"], ["Value", "mono"]], length: "HLEN",
    page: async (link, key, from) => {
      const [cursor, flat] = await link.ask("HSCAN", key, from ?? "0", "COUNT", PAGE)
      const rows = []
      for (let at = 0; at < flat.length; at += 2) rows.push([shown(flat[at]), shown(flat[at + 1])])
      return [rows, cursor === "0" ? null : cursor]
    },
  },
  set: {
    columns: [["Member", "mono"]], length: "SCARD",
    page: async (link, key, from) => {
      const [cursor, members] = await link.ask("SSCAN", key, from ?? "0", "COUNT", PAGE)
      return [members.map(member => [shown(member)]), cursor === "0" ? null : cursor]
    },
  },
  list: {
    columns: [["Index", "number"], ["Element", "mono"]], length: "LLEN",
    page: async (link, key, from = 0) => {
      const items = await link.ask("LRANGE", key, from, from + PAGE - 1)
      return [items.map((item, at) => [String(from + at), shown(item)]), items.length < PAGE ? null : from + PAGE]
    },
  },
  zset: {
    columns: [["Rank", "number"], ["Member", "mono"], ["Score", "number"]], length: "ZCARD",
    page: async (link, key, from = 0) => {
      const items = await link.ask("ZRANGE", key, from, from + PAGE - 1, "WITHSCORES")
      return [items.map(([member, score], at) => [String(from + at), shown(member), String(score)]), items.length < PAGE ? null : from + PAGE]
    },
  },
  stream: {
    columns: [["ID", "mono"], ["Fields", "mono"]], length: "XLEN",
    page: async (link, key, from) => {
      const entries = await link.ask("XRANGE", key, from ?? "-", "+", "COUNT", PAGE)
      const rows = entries.map(([id, flat]) => {
        const pairs = []
        for (let at = 0; at < flat.length; at += 2) pairs.push(`${shown(flat[at])}: ${shown(flat[at + 1])}`)
        return [id, pairs.join("\n")]
      })
      return [rows, entries.length < PAGE ? null : "(" + entries.at(-1)[0]]
    },
  },
}

const typeBadge = type => make("span", { class: "type" }, type)

export function keys(link) {
  const filter = make("input", { type: "search", placeholder: "user:*", "aria-label": "Pattern of keys", id: "filter" })
  const kind = make("select", { "aria-label": "Type" }, make("option", { value: "" }, "any type"),
    ...["string", ...Object.keys(TYPES)].map(type => make("option", { value: type }, type)))
  const list = make("div", {})
  const count = make("span", { class: "faint", role: "status" })
  const more = make("button", { type: "button", onclick: () => scan(false) }, "More")
  const error = make("p", { class: "error", role: "alert" })
  const detail = make("section", { class: "card", id: "detail", "aria-live": "polite" }, make("p", { class: "faint" }, "Choose a key."))
  let cursor = "0"
  let found = []
  let turn = 0

  // Runs what may fail; the error is shown above the list.
  async function tried(run) {
    error.textContent = ""
    try {
      return await run()
    } catch (failure) {
      error.textContent = failure.message
    }
  }

  function showList(chosen) {
    found.sort((one, other) => shown(one.key) < shown(other.key) ? -1 : 1)
    const rows = found.map(({ key, type, ttl }) =>
      [make("button", { type: "button", class: "pick", onclick: () => open(key) }, shown(key)), typeBadge(type), ttl === -1 ? "–" : duration(ttl)])
    list.replaceChildren(table([["Key", "mono"], ["Type"], ["Expires in", "number"]], rows, "No key matches."))
    if (chosen !== undefined) {
      const at = found.findIndex(one => shown(one.key) === shown(chosen))
      list.querySelectorAll("tbody tr")[at]?.setAttribute("aria-selected", "true")
    }
    count.textContent = `${number(found.length)} shown${cursor === "0" ? ", all that match" : ""}`
    more.disabled = cursor === "0"
  }

  // Looks for keys from the beginning, or goes on until a page has come.
  const scan = begins => tried(async () => {
    const mine = ++turn
    if (begins) [cursor, found] = ["0", []]
    const text = filter.value.trim()
    const pattern = /[*?[\]]/.test(text) ? text : `*${text}*`
    const wanted = found.length + PAGE
    do {
      const words = ["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN, ...kind.value ? ["TYPE", kind.value] : []]
      const [next, some] = await link.ask(...words)
      const facts = await Promise.all(some.flatMap(key => [link.ask("TYPE", key), link.ask("PTTL", key)]))
      if (mine !== turn) return
      cursor = next
      const seen = new Set(found.map(one => shown(one.key)))
      some.forEach((key, at) => {
        const [type, ttl] = [facts[2 * at], facts[2 * at + 1]]
        if (type !== "none" && !seen.has(shown(key))) found.push({ key, type, ttl })
      })
    } while (cursor !== "0" && found.length < wanted)
    showList()
  })

  const open = key => tried(async () => {
    const [type, ttl] = await Promise.all([link.ask("TYPE", key), link.ask("PTTL", key)])
    if (type === "none") {
      detail.replaceChildren(make("p", { class: "faint" }, `${shown(key)} is not there any more.`))
      return scan(true)
    }
    const said = name => link.ask(...name, key).catch(() => null)
    const [encoding, memory, length] = await Promise.all([said(["OBJECT", "ENCODING"]), said(["MEMORY", "USAGE"]), said([TYPES[type]?.length ?? "STRLEN"])])
    const size = memory === null ? "–" : bytes(memory).join(" ")
    const facts = [["Type", typeBadge(type)], ["Expires in", duration(ttl)], ["Encoding", shown(encoding)], ["Memory", size],
      [TYPES[type] ? "Elements" : "Bytes", length === null ? "–" : number(length)]]
    const value = type === "string" ? await string(key, length) : TYPES[type] ? await pages(key, TYPES[type]) : make("p", { class: "faint" }, "This type has no view.")
    detail.replaceChildren(make("h2", { class: "mono" }, shown(key)),
      make("dl", { class: "facts" }, ...facts.map(([name, fact]) => make("div", {}, make("dt", {}, name), make("dd", {}, fact)))),
      value, actions(key, ttl))
    showList(key)
  })

  async function string(key, length) {
    if (length > EDIT_BYTES_MAX) {
      const start = await link.ask("GETRANGE", key, 0, EDIT_BYTES_MAX - 1)
      return make("div", {}, make("p", { class: "faint" }, `The first ${bytes(EDIT_BYTES_MAX).join(" ")}; it is too long to be edited here.`),
        make("textarea", { readonly: true, "aria-label": "Value" }, shown(start)))
    }
    const value = await link.ask("GET", key)
    const isText = typeof value === "string"
    const area = make("textarea", { id: "value", readonly: !isText, spellcheck: "false", "aria-label": "Value" })
    area.value = shown(value)
    if (!isText) return make("div", {}, make("p", { class: "faint" }, "These bytes are no text; they are shown and not edited."), area)
    const save = make("button", { type: "button", class: "primary", id: "save", disabled: true }, "Save")
    area.oninput = () => { save.disabled = area.value === value }
    save.onclick = () => tried(async () => {
      // Another client may have changed it since it was read; XX keeps a removed key from coming back.
      const now = await link.ask("GET", key)
      if (now !== value && !await confirmed("Another client has changed this key since you opened it. Overwrite it?", "Overwrite")) return open(key)
      if (await link.ask("SET", key, area.value, "XX", "KEEPTTL") === null) throw new Error("the key is not there any more")
      await open(key)
    })
    return make("div", {}, area, make("div", { class: "actions" }, save))
  }

  async function pages(key, type) {
    const place = make("div", {})
    const starts = [undefined]
    const show = async () => {
      const [rows, next] = await type.page(link, key, starts.at(-1))
      const back = make("button", { type: "button", disabled: starts.length === 1, onclick: () => { starts.pop(); tried(show) } }, "Previous")
      const on = make("button", { type: "button", disabled: next === null, onclick: () => { starts.push(next); tried(show) } }, "Next")
      place.replaceChildren(table(type.columns, rows, "Nothing on this page."),
        make("div", { class: "actions" }, back, on, make("span", { class: "faint" }, `page ${starts.length}`)))
    }
    await show()
    return place
  }

  function actions(key, ttl) {
    const seconds = make("input", { type: "number", min: "1", placeholder: "seconds", "aria-label": "Expiry in seconds" })
    const name = make("input", { placeholder: "new name", "aria-label": "New name" })
    const expire = () => tried(async () => {
      if (!(seconds.value > 0)) throw new Error("an expiry is a number of seconds above 0")
      await link.ask("EXPIRE", key, seconds.value)
      await open(key)
    })
    const persist = () => tried(async () => { await link.ask("PERSIST", key); await open(key) })
    const rename = () => tried(async () => {
      if (!name.value) throw new Error("type the new name first")
      if (await link.ask("RENAMENX", key, name.value) === 0) throw new Error(`a key ${name.value} is there already`)
      await scan(true)
      await open(name.value)
    })
    const remove = () => tried(async () => {
      if (!await confirmed(`Delete the key ${shown(key)}?`)) return
      await link.ask("UNLINK", key)
      detail.replaceChildren(make("p", { class: "faint" }, `${shown(key)} is deleted.`))
      await scan(true)
    })
    const button = (text, onclick, kind) => make("button", { type: "button", onclick, class: kind }, text)
    return make("div", {},
      make("div", { class: "actions" }, seconds, button("Set expiry", expire), ttl === -1 ? null : button("Keep for ever", persist)),
      make("div", { class: "actions" }, name, button("Rename", rename), button("Delete", remove, "danger")))
  }

  filter.onkeydown = event => { if (event.key === "Enter") scan(true) }
  kind.onchange = () => scan(true)
  scan(true)
  const page = make("div", { class: "split" },
    make("section", { class: "card" }, make("div", { class: "filter" }, filter, kind, make("button", { type: "button", class: "primary", onclick: () => scan(true) }, "Find")),
      error, list, make("div", { class: "actions" }, more, count)), detail)
  return { page, focus: filter, leave: () => { turn++ } }
}
