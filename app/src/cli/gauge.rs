//! Watching a memory from outside: `--latency` measures PING, `--stat` prints figures of INFO.
use std::io::{self, Write};
use std::time::{Duration, Instant};

use polder_wire::resp::Value;

use super::arguments::Arguments;
use super::client::{Client, reason};
use super::format::Form;
use super::link::Link;
use crate::text;

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

    /// One line. Programs get redis-cli's whole milliseconds; people see fractions, since most answers take less than one.
    fn text(&self, form: Form) -> String {
        let (min, max, mean) = (self.min / 1000, self.max / 1000, self.sum as f64 / self.count as f64 / 1000.0);
        let millis = |micros: u64| micros as f64 / 1000.0;
        match form {
            Form::Standard => {
                format!("min: {:.3}, max: {:.3}, avg: {mean:.3} ms ({} samples)", millis(self.min), millis(self.max), self.count)
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
    let window = Duration::try_from_secs_f64(arguments.interval.unwrap_or(usual)).map_err(|error| error.to_string())?;
    let link = client.connected()?;
    let mut out = io::stdout();
    let mut wrote = |text: String| out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| reason(&error));
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
            (Form::Standard, _) => wrote(format!(" -- {:.2} seconds range\n", started.elapsed().as_secs_f64()))?,
            (_, true) => wrote(format!("{}\n", spread.text(form)))?,
            (_, false) => return wrote(format!("{}\n", spread.text(form))),
        }
    }
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
    let pause = Duration::try_from_secs_f64(arguments.interval.unwrap_or(1.0)).map_err(|error| error.to_string())?;
    // `-r` counts lines; its usual value of one means "for ever" here, as in redis-cli.
    let lines = if arguments.repeat > 1 { arguments.repeat.cast_unsigned() } else { u64::MAX };
    let link = client.connected()?;
    let mut before = None;
    for line in 0..lines {
        let info = info(link)?;
        let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or("0").trim();
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
