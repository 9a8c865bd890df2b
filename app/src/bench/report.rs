//! What a benchmark found: throughput and latency, as a table for people or as JSON.
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Latencies from 1 ns to 1 minute, with three significant digits.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// The quantiles of a report.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.50), ("p90", 0.90), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// What one worker measured, or several together.
pub struct Measured {
    pub calls: u64,
    pub errors: u64,
    /// Reads that found nothing.
    pub misses: u64,
    pub wall: Duration,
    /// Nanoseconds.
    pub latency: Histogram<u64>,
}

impl Measured {
    pub fn new() -> Measured {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are constants");
        Measured { calls: 0, errors: 0, misses: 0, wall: Duration::ZERO, latency }
    }

    /// Counts `calls` calls that took `time` together.
    #[inline]
    pub fn record(&mut self, time: Duration, calls: u64) {
        let each = (time.as_nanos() as u64 / calls.max(1)).clamp(1, LATENCY_MAX_NS);
        self.latency.saturating_record_n(each, calls);
        self.calls += calls;
    }

    /// Takes in what another worker measured at the same time.
    pub fn add(&mut self, other: &Measured) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.misses += other.misses;
        self.wall = self.wall.max(other.wall);
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
    }

    fn per_second(&self) -> f64 {
        self.calls as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// For another process: everything that [`Measured::from_wire`] needs.
    pub fn to_wire(&self) -> Value {
        let recorded: Vec<_> = self
            .latency
            .iter_recorded()
            .map(|step| json!([step.value_iterated_to(), step.count_at_value()]))
            .collect();
        json!({ "calls": self.calls, "errors": self.errors, "misses": self.misses, "wall_ns": self.wall.as_nanos() as u64, "latency": recorded })
    }

    /// What another process measured.
    pub fn from_wire(value: &Value) -> Option<Measured> {
        let mut measured = Measured::new();
        measured.calls = value["calls"].as_u64()?;
        measured.errors = value["errors"].as_u64()?;
        measured.misses = value["misses"].as_u64()?;
        measured.wall = Duration::from_nanos(value["wall_ns"].as_u64()?);
        for step in value["latency"].as_array()? {
            measured.latency.saturating_record_n(step[0].as_u64()?, step[1].as_u64()?);
        }
        Some(measured)
    }
}

/// One line of the report: what was run, and what came out.
pub struct Line {
    pub op: String,
    pub measured: Measured,
}

/// Prints the report. `setting` is what all lines have in common.
pub fn print(setting: &Value, lines: &[Line], as_json: bool) {
    if as_json {
        let lines: Vec<_> = lines.iter().map(json_line).collect();
        println!("{}", json!({ "setting": setting, "results": lines }));
        return;
    }
    let setting: Vec<String> = setting
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name} {}", plain(value)))
        .collect();
    println!("{}\n", setting.join(", "));
    print!("{:<14}{:>12}{:>12}{:>9}", "op", "calls", "per second", "mean");
    QUANTILES.iter().for_each(|(name, _)| print!("{name:>9}"));
    println!();
    for line in lines {
        let measured = &line.measured;
        print!(
            "{:<14}{:>12}{:>12}{:>9}",
            line.op,
            measured.calls,
            measured.per_second() as u64,
            time(measured.latency.mean())
        );
        for (_, quantile) in QUANTILES {
            print!("{:>9}", time(measured.latency.value_at_quantile(quantile) as f64));
        }
        println!();
        if measured.errors > 0 {
            println!("{:<14}{:>12} of them were answered with errors", "", measured.errors);
        }
        if measured.misses > 0 {
            println!("{:<14}{:>12} of them found nothing", "", measured.misses);
        }
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn json_line(line: &Line) -> Value {
    let measured = &line.measured;
    let quantiles = QUANTILES
        .iter()
        .map(|(name, quantile)| (name.to_string(), json!(measured.latency.value_at_quantile(*quantile))));
    let mut latency: serde_json::Map<String, Value> = quantiles.collect();
    latency.insert("mean".into(), json!(measured.latency.mean()));
    json!({
        "op": line.op,
        "calls": measured.calls,
        "errors": measured.errors,
        "misses": measured.misses,
        "seconds": measured.wall.as_secs_f64(),
        "per_second": measured.per_second(),
        "latency_ns": latency,
    })
}

/// `65ns`, `1.20us`, `3.40ms`, `2.00s`
fn time(nanos: f64) -> String {
    match nanos {
        short if short < 1e3 => format!("{short:.0}ns"),
        micros if micros < 1e6 => format!("{:.2}us", micros / 1e3),
        millis if millis < 1e9 => format!("{:.2}ms", millis / 1e6),
        seconds => format!("{:.2}s", seconds / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_survives_the_way_between_processes() {
        let mut measured = Measured::new();
        measured.record(Duration::from_nanos(1600), 16);
        measured.record(Duration::from_millis(3), 1);
        measured.errors = 2;
        measured.misses = 1;
        measured.wall = Duration::from_secs(1);
        let back = Measured::from_wire(&measured.to_wire()).unwrap();
        assert_eq!((back.calls, back.errors, back.misses, back.wall), (17, 2, 1, Duration::from_secs(1)));
        assert_eq!(back.latency.value_at_quantile(0.5), measured.latency.value_at_quantile(0.5));
        assert_eq!(back.latency.max(), measured.latency.max());
    }

    #[test]
    fn workers_add_up_and_the_slowest_counts() {
        let (mut one, mut two) = (Measured::new(), Measured::new());
        one.record(Duration::from_nanos(100), 10);
        one.wall = Duration::from_secs(2);
        two.record(Duration::from_nanos(100), 10);
        two.wall = Duration::from_secs(4);
        one.add(&two);
        assert_eq!((one.calls, one.per_second()), (20, 5.0));
    }
}
