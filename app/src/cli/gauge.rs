//! Watching a memory from outside: `--latency` and its relatives measure PING, `--intrinsic-latency` the machine alone, `--stat` prints figures of INFO.
use std::io::{self, Write};
use std::time::{Duration, Instant};

use polder_wire::resp::Value;

use super::arguments::Arguments;
use super::client::Client;
use crate::link::Link;
use crate::text;
use crate::text::reason;
use polder_wire::resp::text::Form;

/// Between two PINGs.
const PING_PAUSE: Duration = Duration::from_millis(10);
/// Lines between two headers of `--stat`.
const HEADER_LINES: u64 = 20;

/// Latencies in microseconds.
struct Spread {
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Spread {
    fn new() -> Spread {
        Spread { count: 0, sum: 0, min: u64::MAX, max: 0 }
    }

    fn add(&mut self, sample: Duration) {
        let micros = sample.as_micros() as u64;
        self.count += 1;
        self.sum += micros;
        self.min = self.min.min(micros);
        self.max = self.max.max(micros);
    }

    /// One line. Programs get redis-cli's whole milliseconds; people see fractions, since most
    /// replies take less than one.
    fn text(&self, form: Form) -> String {
        let (min, max, mean) =
            (self.min / 1000, self.max / 1000, self.sum as f64 / self.count as f64 / 1000.0);
        let millis = |micros: u64| micros as f64 / 1000.0;
        match form {
            Form::Standard => {
                format!(
                    "min: {:.3}, max: {:.3}, avg: {mean:.3} ms ({} samples)",
                    millis(self.min),
                    millis(self.max),
                    self.count
                )
            }
            Form::Csv => format!("{min},{max},{mean:.2},{}", self.count),
            Form::Raw => format!("{min} {max} {mean:.2} {}", self.count),
            Form::Json | Form::QuotedJson => {
                format!("{{\"min\": {min}, \"max\": {max}, \"avg\": {mean:.2}, \"count\": {}}}", self.count)
            }
        }
    }
}

/// Measures PING. A person sees the figures change until Ctrl-C; a program gets one line after a second (or `-i`).
///
/// # Errors
/// A line that says what failed.
pub fn latency(mut client: Client, arguments: &Arguments, history: bool) -> Result<(), String> {
    let form = client.format.form;
    let usual = if history { 15.0 } else { 1.0 };
    let window = Duration::try_from_secs_f64(arguments.interval.unwrap_or(usual))
        .map_err(|error| error.to_string())?;
    let link = client.connected()?;
    let mut out = io::stdout();
    let mut wrote = |text: String| {
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| reason(&error))
    };
    loop {
        let (started, mut spread) = (Instant::now(), Spread::new());
        loop {
            spread.add(ping(link)?);
            if form == Form::Standard {
                wrote(format!("\x1b[0G\x1b[2K{}", spread.text(form)))?;
            }
            if started.elapsed() >= window && (history || form != Form::Standard) {
                break;
            }
            std::thread::sleep(PING_PAUSE);
        }
        match (form, history) {
            (Form::Standard, _) => {
                wrote(format!(" -- {:.2} seconds range\n", started.elapsed().as_secs_f64()))?
            }
            (_, true) => wrote(format!("{}\n", spread.text(form)))?,
            (_, false) => return wrote(format!("{}\n", spread.text(form))),
        }
    }
}

/// The upper ends of the spectrum's columns, in microseconds; what takes longer counts in the last one.
const COLUMNS_US: [u64; 24] = [
    50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 600, 800, 1_000, 1_500, 2_000, 3_000, 5_000, 10_000,
    20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
];

/// The first and the number of the terminal's grey tones (of 256 colours), from dark to bright.
const GREYS: (u64, u64) = (232, 24);

/// Shows the latencies of each second (or `-i`) as a line of a spectrum, until Ctrl-C.
///
/// # Errors
/// A line that says what failed.
pub fn spectrum(mut client: Client, arguments: &Arguments) -> Result<(), String> {
    let window =
        Duration::try_from_secs_f64(arguments.interval.unwrap_or(1.0)).map_err(|error| error.to_string())?;
    let link = client.connected()?;
    let mut out = io::stdout();
    let scale = |micros: u64| {
        if micros < 1000 { format!("{micros}us") } else { format!("{}ms", micros as f64 / 1000.0) }
    };
    let legend: Vec<String> = COLUMNS_US.iter().map(|end| format!("{:>6}", scale(*end))).collect();
    let mut wrote = |text: String| {
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| reason(&error))
    };
    for line in 0u64.. {
        if line % HEADER_LINES == 0 {
            wrote(format!("{}  (a PING took at most so long; brighter: more of them)\n", legend.concat()))?;
        }
        let (started, mut counts, mut all) = (Instant::now(), [0u64; COLUMNS_US.len()], 0);
        while started.elapsed() < window {
            let micros = ping(link)?.as_micros() as u64;
            counts[COLUMNS_US.partition_point(|end| *end < micros).min(COLUMNS_US.len() - 1)] += 1;
            all += 1;
            std::thread::sleep(PING_PAUSE / 10);
        }
        wrote(format!("{}\n", counts.map(|count| cell(count, all)).concat()))?;
    }
    Ok(())
}

/// One column of a line: nothing, or a field whose brightness is its share.
fn cell(count: u64, all: u64) -> String {
    let (first, tones) = GREYS;
    match (count * (tones - 1)).div_ceil(all.max(1)) {
        0 => " ".repeat(6),
        tone => format!("\x1b[48;5;{}m{}\x1b[0m", first + tone, " ".repeat(6)),
    }
}

/// Measures for `seconds` how long the machine keeps a program waiting that never sleeps: no server
/// can be faster than that.
///
/// # Errors
/// A line that says what failed.
pub fn intrinsic(seconds: u64) -> Result<(), String> {
    /// Looks at the clock between two looks at the end.
    const BURST: u64 = 10_000;
    let (started, window) = (Instant::now(), Duration::from_secs(seconds));
    let (mut longest, mut runs, mut before) = (Duration::ZERO, 0u64, Instant::now());
    while started.elapsed() < window {
        for _ in 0..BURST {
            let now = Instant::now();
            let took = now.duration_since(before);
            before = now;
            if took > longest {
                longest = took;
                println!("Max latency so far: {} microseconds.", longest.as_micros());
                // The line itself is not counted.
                before = Instant::now();
            }
        }
        runs += BURST;
    }
    let mean_us = started.elapsed().as_secs_f64() * 1e6 / runs.max(1) as f64;
    println!(
        "\n{runs} total runs (avg latency: {mean_us:.4} microseconds / {:.2} nanoseconds per run).",
        mean_us * 1e3
    );
    println!(
        "Worst run took {:.0}x longer than the average latency.",
        longest.as_secs_f64() * 1e6 / mean_us.max(f64::MIN_POSITIVE)
    );
    Ok(())
}

fn ping(link: &mut Link) -> Result<Duration, String> {
    let start = Instant::now();
    match link.call(&["PING"]).map_err(|error| reason(&error))? {
        Value::Error(text) => Err(String::from_utf8_lossy(&text).into_owned()),
        _ => Ok(start.elapsed()),
    }
}

/// Prints a line of figures every second (or `-i`), `-r` times or for ever.
///
/// # Errors
/// A line that says what failed.
pub fn stat(mut client: Client, arguments: &Arguments) -> Result<(), String> {
    let pause =
        Duration::try_from_secs_f64(arguments.interval.unwrap_or(1.0)).map_err(|error| error.to_string())?;
    // `-r` counts lines; its usual value of one means "for ever" here, as in redis-cli.
    let lines = if arguments.repeat > 1 { arguments.repeat.cast_unsigned() } else { u64::MAX };
    let link = client.connected()?;
    let mut before = None;
    for line in 0..lines {
        let info = info(link)?;
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("0").trim()
        };
        let number = |name: &str| field(name).parse::<u64>().unwrap_or(0);
        if line % HEADER_LINES == 0 {
            println!("------- data ------ --------------------- load -------------------- - child -");
            println!("keys       mem      clients blocked requests            connections          ");
        }
        let requests = number("total_commands_processed");
        let more = requests.saturating_sub(before.replace(requests).unwrap_or(requests));
        let child = match (number("aof_rewrite_in_progress"), number("rdb_bgsave_in_progress")) {
            (0, 0) => "",
            (0, _) => "SAVE",
            _ => "AOF",
        };
        println!(
            "{:<11}{:<9}{:<8}{:<8}{:<20}{:<12}{child}",
            keys(&info),
            text::bytes(number("used_memory")),
            field("connected_clients"),
            field("blocked_clients"),
            format!("{requests} (+{more})"),
            field("total_connections_received"),
        );
        std::thread::sleep(if line + 1 == lines { Duration::ZERO } else { pause });
    }
    Ok(())
}

fn info(link: &mut Link) -> Result<String, String> {
    match link.call(&["INFO"]).map_err(|error| reason(&error))? {
        Value::Bulk(text) | Value::Verbatim { text, .. } => Ok(String::from_utf8_lossy(&text).into_owned()),
        Value::Error(text) => Err(format!("ERROR: {}", String::from_utf8_lossy(&text))),
        _ => Err("INFO answers no text".into()),
    }
}

/// The keys of all databases.
fn keys(info: &str) -> u64 {
    let databases = info.lines().filter(|line| line.starts_with("db"));
    databases.filter_map(|line| line.split_once("keys=")?.1.split(',').next()?.parse::<u64>().ok()).sum()
}
