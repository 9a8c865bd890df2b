// The key browser: keys that match a pattern, and the value of one in pages.
import { bytes, confirmed, duration, make, number, shown, table } from "/console/view.js"

const PAGE = 100
const SCAN = 500
// A longer string is shown and not edited.
const EDIT_BYTES_MAX = 256 * 1024

const isText = value => typeof value === "string"
const input = (label, kind = "text") => make("input", { "aria-label": label, placeholder: label.toLowerCase(), type: kind, step: "any", spellcheck: "false" })

// How each type is read in pages: from where (a number or a cursor) to rows, and where the next page begins (null: nowhere). A row has its `cells`
// and what can be done with it:
//   edit: the cell that is edited, and its text      look, seen: a command whose reply was `seen` when the page was read
//   set(text), remove: the commands of a change      name: what a question calls the row
// `add` has the labels of what a new element takes, and its command.
const TYPES = {
  hash: {
    columns: [["Field", "mono"], ["Value", "mono"]], length: "HLEN",
    page: async (link, key, from) => {
      const [cursor, flat] = await link.ask("HSCAN", key, from ?? "0", "COUNT", PAGE)
      const rows = []
      for (let at = 0; at < flat.length; at += 2) {
        const [field, value] = [flat[at], flat[at + 1]]
        rows.push({
          cells: [shown(field), shown(value)], name: `the field ${shown(field)}`, look: ["HGET", key, field], seen: value,
          edit: isText(value) ? [1, value] : null, set: text => [["HSETEX", key, "KEEPTTL", "FIELDS", "1", field, text]],
          remove: [["HDEL", key, field]],
        })
      }
      return [rows, cursor === "0" ? null : cursor]
    },
    add: { labels: ["Field", "Value"], command: (key, field, value) => ["HSETNX", key, field, value], exists: "that field is there already" },
  },
  set: {
    columns: [["Member", "mono"]], length: "SCARD",
    page: async (link, key, from) => {
      const [cursor, members] = await link.ask("SSCAN", key, from ?? "0", "COUNT", PAGE)
      const rows = members.map(member => ({
        cells: [shown(member)], name: `the member ${shown(member)}`, look: ["SISMEMBER", key, member], seen: 1,
        edit: isText(member) ? [0, member] : null, set: text => [["SREM", key, member], ["SADD", key, text]], remove: [["SREM", key, member]],
      }))
      return [rows, cursor === "0" ? null : cursor]
    },
    add: { labels: ["Member"], command: (key, member) => ["SADD", key, member], exists: "that member is there already" },
  },
  list: {
    columns: [["Index", "number"], ["Element", "mono"]], length: "LLEN",
    page: async (link, key, from = 0) => {
      const items = await link.ask("LRANGE", key, from, from + PAGE - 1)
      const rows = items.map((item, at) => {
        const index = from + at
        // An element goes by its value only: it gets one that no other has.
        const mark = `polder-console-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`
        return {
          cells: [String(index), shown(item)], name: `element ${index}`, look: ["LINDEX", key, index], seen: item,
          edit: isText(item) ? [1, item] : null, set: text => [["LSET", key, index, text]],
          remove: [["LSET", key, index, mark], ["LREM", key, "1", mark]],
        }
      })
      return [rows, items.length < PAGE ? null : from + PAGE]
    },
    add: { labels: ["Element"], command: (key, element) => ["RPUSHX", key, element] },
  },
  zset: {
    columns: [["Rank", "number"], ["Member", "mono"], ["Score", "number"]], length: "ZCARD",
    page: async (link, key, from = 0) => {
      const items = await link.ask("ZRANGE", key, from, from + PAGE - 1, "WITHSCORES")
      const rows = items.map(([member, score], at) => ({
        cells: [String(from + at), shown(member), String(score)], name: `the member ${shown(member)}`, look: ["ZSCORE", key, member], seen: score,
        edit: [2, String(score)], set: text => [["ZADD", key, "XX", text, member]], remove: [["ZREM", key, member]],
      }))
      return [rows, items.length < PAGE ? null : from + PAGE]
    },
    add: { labels: ["Member", "Score"], command: (key, member, score) => ["ZADD", key, "NX", score, member], exists: "that member is there already" },
  },
  stream: {
    columns: [["ID", "mono"], ["Fields", "mono"]], length: "XLEN",
    page: async (link, key, from) => {
      const entries = await link.ask("XRANGE", key, from ?? "-", "+", "COUNT", PAGE)
      const rows = entries.map(([id, flat]) => {
        const pairs = []
        for (let at = 0; at < flat.length; at += 2) pairs.push(`${shown(flat[at])}: ${shown(flat[at + 1])}`)
        return { cells: [id, pairs.join("\n")] }
      })
      return [rows, entries.length < PAGE ? null : "(" + entries.at(-1)[0]]
    },
  },
}

// Runs commands as one transaction, if nothing has changed the key since `look` was replied to with `seen`.
async function change(link, key, { look, seen }, commands) {
  const refused = new Error("another client has changed it; this is how it is now")
  await link.ask("WATCH", key)
  if (shown(await link.ask(...look)) !== shown(seen)) {
    await link.ask("UNWATCH")
    throw refused
  }
  // In one go: what other pages ask for must not come in between.
  const replies = await Promise.all([["MULTI"], ...commands, ["EXEC"]].map(words => link.ask(...words)))
  const done = replies.at(-1)
  if (done === null) throw refused
  const failed = done.find(reply => reply?.error)
  if (failed) throw new Error(failed.error)
}

// What the page shows when it opens next: a key, or a pattern of keys.
let wanted = null
export function openLater(what) {
  wanted = what
  location.hash = "#keys"
}

const typeBadge = type => make("span", { class: "type" }, type)

export function keys(link) {
  const filter = make("input", { type: "search", placeholder: "user:*", "aria-label": "Pattern of keys", id: "filter" })
  const kind = make("select", { "aria-label": "Type" }, make("option", { value: "" }, "any type"),
    ...["string", ...Object.keys(TYPES)].map(type => make("option", { value: type }, type)))
  const list = make("div", {})
  const count = make("span", { class: "faint", role: "status" })
  const more = make("button", { type: "button", onclick: () => scan(false) }, "More")
  const error = make("p", { class: "error notice", role: "alert" })
  const detail = make("section", { class: "card", id: "detail", "aria-live": "polite" }, make("p", { class: "faint" }, "Choose a key."))
  let cursor = "0"
  let found = []
  let turn = 0

  // Runs what may fail; the error stays in sight.
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
    const count = make("span", {}, length === null ? "–" : number(length))
    const facts = [["Type", typeBadge(type)], ["Expires in", duration(ttl)], ["Encoding", shown(encoding)], ["Memory", size],
      [TYPES[type] ? "Elements" : "Bytes", count]]
    const recount = async () => { count.textContent = number(await link.ask(TYPES[type].length, key)) }
    const value = type === "string" ? await string(key, length) : TYPES[type] ? await pages(key, TYPES[type], recount)
      : make("p", { class: "faint" }, "This type has no view.")
    detail.replaceChildren(make("h2", { class: "mono" }, shown(key)),
      make("dl", { class: "facts" }, ...facts.map(([name, fact]) => make("div", {}, make("dt", {}, name), make("dd", {}, fact)))),
      value, actions(key, ttl))
    showList(key)
    // Below the list, on a narrow page.
    if (detail.getBoundingClientRect().top > innerHeight / 2) detail.scrollIntoView()
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

  async function pages(key, type, recount) {
    const place = make("div", {})
    const starts = [undefined]
    const canChange = type.add !== undefined
    const columns = canChange ? [...type.columns, ["", "rowactions"]] : type.columns

    // After a change: the page as it is now. An error is still shown.
    const again = async () => {
      if (await link.ask("EXISTS", key)) await Promise.all([show(), recount()])
      else await open(key)
    }
    const changes = run => tried(async () => {
      try {
        await run()
      } finally {
        await again()
      }
    })

    function cellsOf(row) {
      const cells = row.cells.slice()
      if (!canChange) return cells
      const edit = row.edit && make("button", { type: "button", onclick: event => begin(row, event.target.closest("tr")), "aria-label": `Edit ${row.name}` }, "Edit")
      const remove = make("button", {
        type: "button", class: "danger", "aria-label": `Delete ${row.name}`,
        onclick: async () => { if (await confirmed(`Delete ${row.name}?`)) await changes(() => change(link, key, row, row.remove)) },
      }, "Delete")
      return [...cells, make("div", { class: "buttons" }, edit, remove)]
    }

    // Puts a field in the place of a cell.
    function begin(row, line) {
      const [at, text] = row.edit
      const field = input(`New value of ${row.name}`)
      field.value = text
      const save = () => field.value === text ? show() : changes(() => change(link, key, row, row.set(field.value)))
      field.onkeydown = event => {
        if (event.key === "Enter") save()
        if (event.key === "Escape") tried(show)
      }
      line.cells[at].replaceChildren(field)
      line.lastChild.replaceChildren(make("div", { class: "buttons" }, make("button", { type: "button", class: "primary", onclick: save }, "Save"),
        make("button", { type: "button", onclick: () => tried(show) }, "Cancel")))
      field.focus()
    }

    function adding({ labels, command, exists }) {
      const fields = labels.map(label => input(`New ${label.toLowerCase()}`))
      const add = () => changes(async () => {
        if (await link.ask(...command(key, ...fields.map(field => field.value))) === 0) throw new Error(exists ?? "the key is not there any more")
        fields.forEach(field => { field.value = "" })
        fields[0].focus()
      })
      fields.forEach(field => { field.onkeydown = event => { if (event.key === "Enter") add() } })
      return make("div", { class: "actions add" }, ...fields, make("button", { type: "button", onclick: add }, "Add"))
    }

    const body = make("div", {})
    const show = async () => {
      const [rows, next] = await type.page(link, key, starts.at(-1))
      const back = make("button", { type: "button", disabled: starts.length === 1, onclick: () => { starts.pop(); tried(show) } }, "Previous")
      const on = make("button", { type: "button", disabled: next === null, onclick: () => { starts.push(next); tried(show) } }, "Next")
      const isAll = starts.length === 1 && next === null
      body.replaceChildren(table(columns, rows.map(cellsOf), "Nothing on this page."),
        ...isAll ? [] : [make("div", { class: "actions" }, back, on, make("span", { class: "faint" }, `page ${starts.length}`))])
    }
    place.append(...canChange ? [adding(type.add), body] : [body])
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
  const { key, pattern } = wanted ?? {}
  wanted = null
  if (pattern !== undefined) filter.value = pattern
  const scanned = scan(true)
  if (key !== undefined) scanned.then(() => open(key))
  const split = make("div", { class: "split" },
    make("section", { class: "card" }, make("div", { class: "filter" }, filter, kind, make("button", { type: "button", class: "primary", onclick: () => scan(true) }, "Find")),
      list, make("div", { class: "actions" }, more, count)), detail)
  const page = make("div", {}, error, split)
  return { page, focus: filter, leave: () => { turn++ } }
}
