// The analysis page: what a sample of the keys takes, as a tree of their names and as lists of the largest.
//
// The page walks over the keys by SCAN, a piece at a time, and asks for TYPE and MEMORY USAGE of each, as the user who is logged in. Keys come in
// the order of their hashes, so that the first ones are a sample of all.
import { openLater } from "/console/keys.js"
import { bytes, make, number, shown, table } from "/console/view.js"

const PIECE = 200
const SIZES = [1000, 10000, 100000]
const LARGEST = 10
// A branch shows so many of its children.
const CHILDREN = 100

const total = () => ({ count: 0, size: 0, children: new Map() })
const largest = list => list.sort((one, other) => other.size - one.size)

// Adds a key to the tree: each part of its name but the last is a branch.
function grow(root, parts, found) {
  let node = root
  node.count++
  node.size += found.size
  parts.forEach((part, at) => {
    const isLeaf = at === parts.length - 1
    const name = isLeaf ? `${part}\0` : part
    if (!node.children.has(name)) node.children.set(name, isLeaf ? { count: 0, size: 0, key: found.key } : total())
    node = node.children.get(name)
    node.count++
    node.size += found.size
  })
}

export function analysis(link) {
  const separator = make("input", { value: ":", size: "4", "aria-label": "Separator", id: "separator" })
  const size = make("select", { "aria-label": "Keys to look at", id: "sample-size" }, ...SIZES.map(count => make("option", { value: count }, `${number(count)} keys`)))
  size.value = SIZES[1]
  const start = make("button", { type: "button", class: "primary", id: "sample" }, "Look at a sample")
  const status = make("span", { class: "faint", role: "status" })
  const error = make("p", { class: "error", role: "alert" })
  const result = make("div", {})
  let sample = null
  let turn = 0

  async function look() {
    const mine = ++turn
    error.textContent = ""
    start.textContent = "Stop"
    try {
      const all = await link.ask("DBSIZE")
      const found = new Map()
      let cursor = "0"
      do {
        const [next, keys] = await link.ask("SCAN", cursor, "COUNT", PIECE)
        const facts = await Promise.all(keys.flatMap(key => [link.ask("TYPE", key), link.ask("MEMORY", "USAGE", key)]))
        if (mine !== turn) return
        keys.forEach((key, at) => {
          if (facts[2 * at] !== "none") found.set(shown(key), { key, type: facts[2 * at], size: facts[2 * at + 1] ?? 0 })
        })
        cursor = next
        status.textContent = `${number(found.size)} of ${number(all)} keys`
      } while (cursor !== "0" && found.size < Number(size.value))
      sample = { found: [...found.values()], all, isWhole: cursor === "0" }
      show()
    } catch (failure) {
      if (mine === turn) error.textContent = failure.message
    }
    if (mine === turn) end()
  }

  function end() {
    turn++
    start.textContent = "Look at a sample"
  }

  const share = (part, whole) => whole ? `${(part * 100 / whole).toFixed(1)} %` : "–"
  const pick = (key, name) => make("button", { type: "button", class: "pick", onclick: () => openLater({ key }) }, name)

  // A branch whose children are made when it is opened.
  function branch(name, node, path, whole) {
    const mark = separator.value
    const text = name.endsWith("\0") ? name.slice(0, -1) || "(empty)" : `${name}${mark}`
    const figures = make("span", { class: "figures" }, make("span", {}, number(node.count)), make("span", {}, bytes(node.size).join(" ")), make("span", {}, share(node.size, whole)))
    if (!node.children) return make("div", { class: "leaf" }, pick(node.key, text), figures)
    const inner = make("div", { class: "inner" })
    const element = make("details", {}, make("summary", {}, make("span", { class: "mono name" }, text), figures), inner)
    element.ontoggle = () => {
      if (!element.open || inner.childElementCount) return
      inner.append(...children(node, `${path}${text}`, whole))
    }
    return element
  }

  function children(node, path, whole) {
    const list = largest([...node.children].map(([name, child]) => ({ name, child, size: child.size })))
    const rows = list.slice(0, CHILDREN).map(({ name, child }) => branch(name, child, path, whole))
    if (path) rows.push(make("div", { class: "leaf" }, make("button", { type: "button", class: "pick", onclick: () => openLater({ pattern: `${path.replace(/[*?[\]\\]/g, "\\$&")}*` }) }, `Show the keys of ${path}`)))
    if (list.length > CHILDREN) rows.push(make("div", { class: "leaf faint" }, `and ${number(list.length - CHILDREN)} more`))
    return rows
  }

  function show() {
    const { found, all, isWhole } = sample
    const root = total()
    for (const one of found) grow(root, separator.value ? shown(one.key).split(separator.value) : [shown(one.key)], one)
    const kinds = Object.entries(Object.groupBy(found, one => one.type)).map(([type, list]) => [type, list, list.reduce((sum, one) => sum + one.size, 0)])
    kinds.sort((one, other) => other[2] - one[2])
    const estimate = isWhole ? "All keys of the database." : `A sample: all ${number(all)} keys take about ${bytes(root.size * all / Math.max(1, found.length)).join(" ")}.`
    const tree = make("section", { class: "card tree", id: "tree" }, make("h2", {}, "Names"),
      make("p", { class: "faint" }, `${number(found.length)} keys, ${bytes(root.size).join(" ")}. ${estimate}`),
      make("div", { class: "leaf head faint" }, make("span", {}, "Name"), make("span", { class: "figures" }, make("span", {}, "Keys"), make("span", {}, "Memory"), make("span", {}, "Share"))),
      ...found.length ? children(root, "", root.size) : [make("p", { class: "faint" }, "No keys.")])
    const types = make("section", { class: "card" }, make("h2", {}, "Types"),
      table([["Type"], ["Keys", "number"], ["Memory", "number"], ["Mean", "number"]],
        kinds.map(([type, list, sum]) => [make("span", { class: "type" }, type), number(list.length), bytes(sum).join(" "), bytes(sum / list.length).join(" ")]), "No keys."))
    const lists = kinds.map(([type, list]) => make("section", { class: "card" }, make("h2", {}, `Largest of type ${type}`),
      table([["Key", "mono"], ["Memory", "number"]], largest(list.slice()).slice(0, LARGEST).map(one => [pick(one.key, shown(one.key)), bytes(one.size).join(" ")]), "")))
    result.replaceChildren(make("div", { class: "split" }, tree, make("div", { class: "stack", id: "largest" }, types, ...lists)))
  }

  start.onclick = () => start.textContent === "Stop" ? end() : look()
  separator.oninput = () => { if (sample) show() }
  const page = make("div", {}, error, make("section", { class: "card actions" }, start, make("label", { class: "faint" }, "of ", size),
    make("label", { class: "faint" }, "separator ", separator), status), result)
  result.append(make("p", { class: "card faint" }, "Walks over keys of this database by SCAN, and asks for TYPE and MEMORY USAGE of each. Nothing is changed."))
  return { page, focus: start, leave: () => { turn++ } }
}
