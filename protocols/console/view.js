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

// Points of the last two minutes are kept as they come, older ones at this distance for an hour.
const RECENT_MS = 120000
const STEP_MS = 10000
const KEPT_MS = 3600000

// A line chart of values over time, with its largest value beside it.
export class Chart {
  constructor(title, write, spanMs) {
    this.write = write
    this.points = []
    this.value = make("span", { class: "value" }, "–")
    this.unit = make("span", { class: "unit" })
    this.most = make("span", {}, "")
    this.start = make("span", {}, "")
    this.svg = document.createElementNS(SVG, "svg")
    for (const [key, value] of [["class", "chart"], ["viewBox", "0 0 100 48"], ["preserveAspectRatio", "none"], ["role", "img"]]) {
      this.svg.setAttribute(key, value)
    }
    this.svg.setAttribute("aria-label", title)
    this.element = make("section", { class: "card" }, make("h2", {}, title), make("div", {}, this.value, this.unit), this.svg,
      make("div", { class: "axis" }, this.start, this.most, make("span", {}, "now")))
    this.show(spanMs)
  }

  // Shows another span of time, or as much of it as there are points.
  show(spanMs) {
    this.spanMs = spanMs
    this.#draw(this.points.at(-1)?.at ?? 0)
  }

  // Adds a value of a time in milliseconds; null is a gap.
  add(at, value) {
    this.points.push({ at, value })
    let last = -Infinity
    this.points = this.points.filter(point => {
      if (point.at < at - KEPT_MS) return false
      if (point.at < at - RECENT_MS && point.at - last < STEP_MS) return false
      last = point.at
      return true
    })
    this.#draw(at)
  }

  #draw(now) {
    const known = now - (this.points[0]?.at ?? now)
    const span = Math.min(this.spanMs, Math.max(known, RECENT_MS))
    this.start.textContent = span > RECENT_MS ? `${Math.round(span / 60000)} min ago` : `${span / 1000} s ago`
    const from = now - span
    const seen = this.points.filter(point => point.at >= from)
    const [text, unit] = this.write(seen.findLast(point => point.value !== null)?.value ?? 0)
    if (this.points.length) [this.value.textContent, this.unit.textContent] = [text, unit]
    const most = Math.max(...seen.map(point => point.value ?? 0), 0)
    this.most.textContent = `0 to ${this.write(most).join(" ")}`
    // Where there was no value, or no point for long, is a gap between two runs.
    const runs = [[]]
    let last = null
    for (const { at, value } of seen) {
      if (value === null || last !== null && at - last > 2.5 * STEP_MS) runs.push([])
      if (value !== null) runs.at(-1).push([(at - from) * 100 / span, 46 - value * 42 / (most || 1)].map(place => place.toFixed(2)))
      last = at
    }
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
