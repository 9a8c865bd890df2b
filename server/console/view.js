// Pieces that all pages are made of.

// An element: `make("td", {class: "mono"}, "text", child)`. A property that is a function hears an event: {onclick}.
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") element[key] = value
    else if (value === true) element.setAttribute(key, "")
    else if (value !== false && value != null) element.setAttribute(key, value)
  }
  element.append(...children.filter(child => child != null))
  return element
}

// A table; a column is `[title, class]`, a row a list of texts and elements.
export function table(columns, rows, empty) {
  const head = columns.map(([title, kind]) => make("th", { class: kind === "number" ? "number" : null, scope: "col" }, title))
  const cells = row => row.map((cell, at) => make("td", { class: columns[at][1] }, cell ?? ""))
  const body = rows.map(row => make("tr", {}, ...cells(row)))
  if (!rows.length) body.push(make("tr", {}, make("td", { colspan: columns.length, class: "faint" }, empty)))
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)))
}

// Bytes as they are shown. What is not UTF-8 comes as {base64}, and goes back as it came.
export function shown(value) {
  if (value === null || value === undefined) return "(nil)"
  if (typeof value === "object" && "base64" in value) {
    return Array.from(atob(value.base64), byte => {
      const code = byte.charCodeAt(0)
      return code >= 32 && code < 127 ? byte : `\\x${code.toString(16).padStart(2, "0")}`
    }).join("")
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value)
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"]
  let unit = 0
  for (; count >= 1024 && unit < units.length - 1; unit++) count /= 1024
  return [unit === 0 || count >= 100 ? count.toFixed(0) : count.toFixed(1), units[unit]]
}

export function number(count) {
  if (count >= 1e6) return (count / 1e6).toFixed(count >= 1e7 ? 1 : 2) + " M"
  return Math.round(count).toLocaleString("en")
}

export function duration(ms) {
  if (ms < 0) return "no expiry"
  const seconds = ms / 1000
  if (seconds < 120) return `${seconds.toFixed(0)} s`
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`
  return `${(seconds / 86400).toFixed(1)} days`
}

// Asks before something is done that cannot be undone.
export function confirmed(text, action = "Delete") {
  const dialog = document.getElementById("confirm")
  dialog.querySelector("p").textContent = text
  dialog.querySelector("[value=yes]").textContent = action
  dialog.returnValue = "no"
  dialog.showModal()
  return new Promise(done => {
    // The event comes some time after a close: one that comes while the dialog is open is of the question before.
    dialog.onclose = () => { if (!dialog.open) done(dialog.returnValue === "yes") }
  })
}

const SVG = "http://www.w3.org/2000/svg"

// A line chart of the last values, with its largest value beside it.
export class Chart {
  constructor(title, write, span) {
    this.write = write
    this.span = span
    this.values = []
    this.value = make("span", { class: "value" }, "–")
    this.unit = make("span", { class: "unit" })
    this.most = make("span", {}, "")
    this.svg = document.createElementNS(SVG, "svg")
    for (const [key, value] of [["class", "chart"], ["viewBox", "0 0 100 48"], ["preserveAspectRatio", "none"], ["role", "img"]]) {
      this.svg.setAttribute(key, value)
    }
    this.svg.setAttribute("aria-label", title)
    this.element = make("section", { class: "card" }, make("h2", {}, title), make("div", {}, this.value, this.unit), this.svg,
      make("div", { class: "axis" }, make("span", {}, `${span} s ago`), this.most, make("span", {}, "now")))
  }

  add(value) {
    this.values.push(value)
    if (this.values.length > this.span + 1) this.values.shift()
    const last = this.values.findLast(value => value !== null) ?? 0
    const [text, unit] = this.write(last)
    this.value.textContent = text
    this.unit.textContent = unit
    const most = Math.max(...this.values.map(value => value ?? 0), 0)
    this.most.textContent = `0 to ${this.write(most).join(" ")}`
    this.#draw(most || 1)
  }

  #draw(most) {
    const from = this.span + 1 - this.values.length
    // Where there was no value is a gap between two runs.
    const runs = [[]]
    this.values.forEach((value, at) => {
      if (value === null) runs.push([])
      else runs.at(-1).push([(from + at) * 100 / this.span, 46 - value * 42 / most].map(place => place.toFixed(2)))
    })
    const parts = [["line", { class: "grid", x1: 0, x2: 100, y1: 46, y2: 46 }], ["line", { class: "grid", x1: 0, x2: 100, y1: 4, y2: 4 }]]
    for (const run of runs.filter(run => run.length)) {
      const text = run.map(point => point.join(",")).join(" ")
      parts.push(["polygon", { class: "area", points: `${run[0][0]},46 ${text} ${run.at(-1)[0]},46` }], ["polyline", { class: "line", points: text }])
    }
    this.svg.replaceChildren(...parts.map(([name, attributes]) => {
      const part = document.createElementNS(SVG, name)
      for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value)
      return part
    }))
  }
}
