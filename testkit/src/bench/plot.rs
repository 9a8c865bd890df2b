//! Pictures and pages from bench/history.jsonl: `cargo x bench plot` writes docs/plots/throughput.svg, docs/plots/latency.svg and
//! docs/benchmarks.md. Each figure is the one that was measured last.
//!
//! The pictures are plain SVG, drawn here, with colours for light and for dark pages.
use std::fmt::Write;
use std::path::Path;

use super::history::{Entry, Figure, History};

/// Bars in the order of the legend: what a name in the history begins with, how it is shown, its class.
const SERVERS: [(&str, &str, &str); 3] =
    [("polder", "Polder", "polder"), ("redis", "Redis", "redis"), ("valkey", "Valkey", "valkey")];
const COMMANDS: [&str; 5] = ["GET", "SET", "INCR", "LPUSH", "ZADD"];
const PIPELINES: [u32; 3] = [1, 16, 128];

/// Text, grid and the three servers, on light pages and on dark ones.
const STYLE: &str = "<style>
  text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 } .small { font-size: 11px; fill: #59636e } .strong { font-weight: 600 }
  .grid { stroke: #d1d9e0; stroke-width: 1 } .axis { stroke: #818b98; stroke-width: 1 }
  .whisker { stroke: #1f2328; stroke-width: 1.2; fill: none }
  .polder { fill: #0969da } .redis { fill: #cf5a4e } .valkey { fill: #9a6fd0 } .ring { fill: none; stroke-width: 2.4 }
  .ring.polder { stroke: #0969da; fill: none } .ring.redis { stroke: #cf5a4e; fill: none } .ring.valkey { stroke: #9a6fd0; fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 } .grid { stroke: #3d444d } .axis { stroke: #656c76 } .whisker { stroke: #f0f6fc }
    .polder { fill: #4493f8 } .redis { fill: #f08070 } .valkey { fill: #b692e6 }
    .ring.polder { stroke: #4493f8; fill: none } .ring.redis { stroke: #f08070; fill: none } .ring.valkey { stroke: #b692e6; fill: none }
  }
</style>
";

/// Writes pictures and page.
///
/// # Errors
/// When the history cannot be read, lacks what is drawn, or a file cannot be written.
pub fn plot(root: &Path) -> Result<(), String> {
    let history = History::read(root)?;
    let folder = root.join("docs/plots");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let write = |path: &str, text: String| {
        println!("docs/{path}");
        std::fs::write(root.join("docs").join(path), text).map_err(|error| format!("docs/{path}: {error}"))
    };
    write("plots/throughput.svg", throughput(&history)?)?;
    write("plots/latency.svg", latency(&history)?)?;
    write("benchmarks.md", super::page::page(&history))
}

/// A server's name in the history, its newest version where there are several, and how it is shown.
fn newest(entry: &Entry, family: &str, shown: &str) -> Option<(String, String)> {
    let name = entry.servers().into_iter().filter(|name| name.split('-').next() == Some(family)).max()?;
    let version = name.strip_prefix(family).unwrap_or_default().trim_start_matches('-').to_string();
    Some((name, format!("{shown} {version}").trim().to_string()))
}

const WIDTH: f64 = 920.0;

fn opening(height: f64, title: &str, entry: &Entry) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n"
    );
    let _ = writeln!(
        svg,
        "<title>{title}</title>\n{STYLE}<text class=\"title\" x=\"16\" y=\"26\">{title}</text>"
    );
    let about = format!(
        "{}; {}, commit {}",
        entry.machine,
        entry.time.split('T').next().unwrap_or_default(),
        entry.commit
    );
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"16\" y=\"{}\">{}</text>",
        height - 12.0,
        about.replace('&', "&amp;").replace('<', "&lt;")
    );
    svg
}

/// Three panels, one for each pipeline, with bars for each command and server.
fn throughput(history: &History) -> Result<String, String> {
    const HEIGHT: f64 = 372.0;
    let entry =
        history.last("throughput").ok_or("there are no figures yet: run 'cargo x bench throughput'")?;
    let servers: Vec<(String, String, &str)> = SERVERS
        .iter()
        .filter_map(|(family, shown, class)| {
            newest(entry, family, shown).map(|(name, shown)| (name, shown, *class))
        })
        .collect();
    let mut svg =
        opening(HEIGHT, "Requests a second, one server thread, one million keys (more is better)", entry);
    let mut x = 16.0;
    for (_, shown, class) in &servers {
        let _ = writeln!(
            svg,
            "<rect class=\"{class}\" x=\"{x}\" y=\"40\" width=\"11\" height=\"11\" rx=\"2\"/><text x=\"{}\" y=\"50\">{shown}</text>",
            x + 16.0
        );
        x += 36.0 + shown.len() as f64 * 7.0;
    }
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"{x}\" y=\"50\">bars: median of {} rounds, whiskers: least and greatest; above: times the newest Redis</text>",
        entry.rounds
    );
    let width = (WIDTH - 32.0) / PIPELINES.len() as f64;
    for (at, pipeline) in PIPELINES.into_iter().enumerate() {
        panel(&mut svg, entry, &servers, pipeline, 16.0 + at as f64 * width, width - 14.0);
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// One panel: its axis begins at nothing and ends above the greatest of its figures.
fn panel(
    svg: &mut String,
    entry: &Entry,
    servers: &[(String, String, &str)],
    pipeline: u32,
    left: f64,
    width: f64,
) {
    const TOP: f64 = 96.0;
    const BOTTOM: f64 = 316.0;
    let figure =
        |command: &str, server: &str| entry.figure(&format!("{command} -P {pipeline} {server} ops/s"));
    let all =
        COMMANDS.iter().flat_map(|command| servers.iter().filter_map(|(name, ..)| figure(command, name)));
    let step = step_of(all.map(|figure| figure.max).fold(1.0, f64::max));
    let most = step * 4.0;
    let y = |value: f64| BOTTOM - (BOTTOM - TOP) * value / most;
    let head = if pipeline == 1 { "no pipelining".to_string() } else { format!("pipelines of {pipeline}") };
    let _ = writeln!(svg, "<text class=\"strong\" x=\"{left}\" y=\"76\">{head}</text>");
    let (from, axis) = (left + 38.0, left + width);
    (0..=4).for_each(|line| {
        grid(svg, (from, axis), y(step * f64::from(line)), line == 0, &short(step * f64::from(line)))
    });
    let group = (axis - from) / COMMANDS.len() as f64;
    let bar = group * 0.8 / servers.len() as f64;
    for (number, command) in COMMANDS.iter().enumerate() {
        let start = from + group * (number as f64 + 0.1);
        for (at, (name, _, class)) in servers.iter().enumerate() {
            let Some(figure) = figure(command, name) else { continue };
            let x = start + bar * at as f64;
            let (top, middle) = (y(figure.median), x + bar / 2.0);
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                x + 0.5,
                bar - 1.0,
                BOTTOM - top
            );
            whisker(svg, (middle, y(figure.max)), (middle, y(figure.min)));
        }
        let _ = writeln!(
            svg,
            "<text text-anchor=\"middle\" class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{command}</text>",
            start + group * 0.4,
            BOTTOM + 16.0
        );
        if let (Some(ours), Some(theirs)) =
            (figure(command, "polder"), servers.get(1).and_then(|(name, ..)| figure(command, name)))
        {
            let _ = writeln!(
                svg,
                "<text text-anchor=\"middle\" class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{:.1}×</text>",
                start + bar / 2.0 + 2.0,
                y(ours.max) - 5.0,
                ours.median / theirs.median
            );
        }
    }
}

/// A line of the grid with its figure beside it.
fn grid(svg: &mut String, (from, to): (f64, f64), y: f64, is_axis: bool, figure: &str) {
    let class = if is_axis { "axis" } else { "grid" };
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>"
    );
    let (x, y) = (from - 5.0, y + 4.0);
    let _ =
        writeln!(svg, "<text class=\"small\" text-anchor=\"end\" x=\"{x:.1}\" y=\"{y:.1}\">{figure}</text>");
}

/// From the least to the greatest, with an end mark at both.
fn whisker(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let end = |x: f64, y: f64| {
        if x1 == x2 { format!("M{:.1} {y:.1}h6", x - 3.0) } else { format!("M{x:.1} {:.1}v6", y - 3.0) }
    };
    let _ = writeln!(
        svg,
        "<path class=\"whisker\" d=\"{}M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}{}\"/>",
        end(x1, y1),
        end(x2, y2)
    );
}

/// The distance of four lines of which the last is above `most`: 1, 2, 2.5 or 5 times a power of ten.
fn step_of(most: f64) -> f64 {
    let power = 10_f64.powf((most / 4.0).log10().floor());
    [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5]
        .into_iter()
        .map(|step| step * power)
        .find(|step| step * 4.0 >= most * 1.08)
        .unwrap_or(power * 10.0)
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", (v / 1e4).round() / 100.0),
        v if v >= 1e3 => format!("{} k", (v / 1e3).round()),
        v => format!("{v}"),
    }
}

/// One line of the picture of latencies.
struct Row {
    shown: String,
    class: &'static str,
    get: Figure,
    set: Figure,
}

/// Points on a logarithmic axis, GET and SET for each way to call.
fn latency(history: &History) -> Result<String, String> {
    let entry = history.last("latency").ok_or("there are no figures yet: run 'cargo x bench latency'")?;
    let rows = rows(history, entry);
    let (top, line) = (78.0, 36.0);
    let bottom = top + line * rows.len() as f64;
    let mut svg = opening(
        bottom + 62.0,
        "How long one call takes: one caller, one call at a time (logarithmic, less is better)",
        entry,
    );
    let _ = writeln!(
        svg,
        "<circle class=\"polder\" cx=\"22\" cy=\"46\" r=\"5\"/><text x=\"33\" y=\"50\">GET</text>\
         <circle class=\"ring polder\" cx=\"76\" cy=\"46\" r=\"4.5\"/><text x=\"87\" y=\"50\">SET</text>\
         <text class=\"small\" x=\"128\" y=\"50\">median of {} rounds, whiskers: least and greatest; values of 16 bytes, 10,000 keys</text>",
        entry.rounds
    );
    let (left, right) = (196.0, WIDTH - 172.0);
    let (least, most) = (1.0, 5.0);
    let x = |ns: f64| left + (right - left) * ((ns.log10() - least) / (most - least)).clamp(0.0, 1.0);
    for (power, label) in [(1, "10 ns"), (2, "100 ns"), (3, "1 µs"), (4, "10 µs"), (5, "100 µs")] {
        let at = x(10_f64.powi(power));
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\"/>"
        );
        let _ = writeln!(
            svg,
            "<text class=\"small\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>",
            bottom + 18.0
        );
    }
    for (number, row) in rows.iter().enumerate() {
        let y = top + line * (number as f64 + 0.5);
        let _ = writeln!(
            svg,
            "<text text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            left - 14.0,
            y + 4.0,
            row.shown
        );
        for (figure, mark, y) in [(&row.get, "", y - 6.0), (&row.set, "ring ", y + 6.0)] {
            whisker(&mut svg, (x(figure.min), y), (x(figure.max), y));
            let _ = writeln!(
                svg,
                "<circle class=\"{mark}{}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\"/>",
                row.class,
                x(figure.median)
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{} · {}</text>",
            right + 14.0,
            y + 4.0,
            time(row.get.median),
            time(row.set.median)
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">GET · SET</text>",
        right + 14.0,
        top - 6.0
    );
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn rows(history: &History, entry: &Entry) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |shown: String, class, get: Option<Figure>, set: Option<Figure>| {
        if let (Some(get), Some(set)) = (get, set) {
            rows.push(Row { shown, class, get, set });
        }
    };
    add(
        "Rust, in-process".into(),
        "polder",
        entry.figure("GET in this process ns"),
        entry.figure("SET in this process ns"),
    );
    add("C library".into(), "polder", entry.figure("GET C library ns"), entry.figure("SET C library ns"));
    // Python says how many calls it makes.
    let inverse =
        |figure: Figure| Figure { median: 1e3 / figure.median, min: 1e3 / figure.max, max: 1e3 / figure.min };
    if let Some(python) = history.last("python") {
        let of = |name: &str| python.figure(name).map(inverse);
        add("Python".into(), "polder", of("memory get M/s"), of("memory set M/s"));
        add("Python, redis-py's methods".into(), "polder", of("client get M/s"), of("client set M/s"));
    }
    for (family, shown, class) in SERVERS {
        let Some((name, shown)) = newest(entry, family, shown) else { continue };
        let of = |command: &str| entry.figure(&format!("{command} {name}, Unix socket ns"));
        add(format!("{shown}, Unix socket"), class, of("GET"), of("SET"));
    }
    rows
}

fn time(ns: f64) -> String {
    if ns < 1e3 { format!("{ns:.0} ns") } else { format!("{:.1} µs", ns / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let line = |bench: &str, figures: &str| {
            format!(
                "{{\"bench\":\"{bench}\",\"commit\":\"abc\",\"divisor\":1,\"machine\":\"m & n\",\"rounds\":5,\"time\":\"2026-11-23T10:00:00Z\",\"figures\":{{{figures}}}}}\n"
            )
        };
        let figure = |name: &str, median: f64| {
            format!("\"{name}\":{median},\"{name} min\":{},\"{name} max\":{}", median * 0.9, median * 1.1)
        };
        let mut bars = Vec::new();
        for (at, pipeline) in PIPELINES.iter().enumerate() {
            for command in COMMANDS {
                for (server, rate) in
                    [("polder", 3e5), ("redis", 1e5), ("redis-8.6", 1.5e5), ("valkey-9.1", 2e5)]
                {
                    bars.push(figure(
                        &format!("{command} -P {pipeline} {server} ops/s"),
                        rate * f64::from(4_u32.pow(at as u32)),
                    ));
                }
            }
        }
        let mut points = vec![figure("GET in this process ns", 30.0), figure("SET in this process ns", 90.0)];
        for (server, ns) in [("polder", 9e3), ("redis-8.6", 1.2e4)] {
            points.extend(
                ["GET", "SET"].map(|command| figure(&format!("{command} {server}, Unix socket ns"), ns)),
            );
        }
        let text = line("throughput", &bars.join(",")) + &line("latency", &points.join(","));
        History::parse(&text).unwrap()
    }

    #[test]
    fn the_newest_of_each_server_is_drawn() {
        let svg = throughput(&history()).unwrap();
        assert!(
            svg.contains(">Redis 8.6</text>")
                && svg.contains(">Valkey 9.1</text>")
                && svg.contains(">2.0×</text>")
        );
        assert_eq!(svg.matches("<rect class=\"redis\"").count(), 1 + 15);
        assert!(svg.contains("m &amp; n"));
    }

    #[test]
    fn latencies_have_a_point_for_each_way_to_call() {
        let svg = latency(&history()).unwrap();
        assert_eq!(svg.matches("<circle class=\"ring").count(), 1 + 3);
        assert!(
            svg.contains("Redis 8.6, Unix socket") && svg.contains("30 ns · 90 ns") && svg.contains("9.0 µs")
        );
    }

    #[test]
    fn axes_end_above_what_they_show() {
        for most in [1.0, 9.9, 55_000.0, 3_000_000.0] {
            assert!(
                step_of(most) * 4.0 > most && step_of(most) * 4.0 < most * 2.0,
                "{most}: {}",
                step_of(most)
            );
        }
    }
}
