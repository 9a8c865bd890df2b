//! LATENCY: spikes above `latency-monitor-threshold`, and the distribution of every command's time.
//!
//! A spike belongs to an event: `command`, or `fast-command` for the commands that are flagged so. The worst of each
//! second is one sample; an event keeps the last 160.

use polder_base::time;
use polder_table::Stop;

use crate::metrics::report::Whole;
use polder_calls::call::Outcome;
use polder_calls::command::{ADMIN, Command, LOADING, NOSCRIPT, STALE};
use polder_calls::settings::id;
use polder_runtime::cross_process::{self, number};
use polder_runtime::help::help;
use polder_runtime::locks::lock;
use polder_runtime::lookup::{find, subcommands};
use polder_runtime::notes::{Event, Events, Sample};
use polder_runtime::row::{Row, SessionCall, container, session};
use polder_runtime::session::Host;

const SPECIAL: &[&str] = &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("LATENCY")
        .since("2.8.13")
        .costs("Depends on subcommand.")
        .about("A container for latency diagnostics commands."),
    session("LATENCY|DOCTOR", "", doctor)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(SPECIAL)
        .since("2.8.13")
        .about("Returns a human-readable latency analysis report."),
    session("LATENCY|GRAPH", "event", graph)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(SPECIAL)
        .since("2.8.13")
        .about("Returns a latency graph for an event."),
    session("LATENCY|HELP", "", help)
        .with(LOADING | STALE)
        .since("2.8.13")
        .about("Returns helpful text about the different subcommands."),
    session("LATENCY|HISTOGRAM", "[command ...]", histogram)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(SPECIAL)
        .since("7.0.0")
        .costs("O(N) where N is the number of commands with latency information being retrieved.")
        .about("Returns the cumulative distribution of latencies of a subset or all commands."),
    session("LATENCY|HISTORY", "event", history)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(SPECIAL)
        .since("2.8.13")
        .about("Returns timestamp-latency samples for an event."),
    session("LATENCY|LATEST", "", latest)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(SPECIAL)
        .since("2.8.13")
        .about("Returns the latest latency samples for all events."),
    session("LATENCY|RESET", "[event ...]", reset)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(&["request_policy:all_nodes", "response_policy:agg_sum"])
        .since("2.8.13")
        .about("Resets the latency data for one or more events."),
];

/// What all processes have sampled.
fn gathered(call: &mut SessionCall<'_>) -> Result<Events, Stop> {
    let answers = cross_process::ask(call.table, call.session, call.host, &[b"LATENCY", b"SAMPLES"])?;
    let mut events = lock(&call.host.recorder().monitor).events.clone();
    for words in cross_process::lines(&answers) {
        let [name, worst, samples @ ..] = words.as_slice() else { continue };
        let samples = samples
            .chunks_exact(2)
            .map(|pair| Sample { time: number(&pair[0]), milliseconds: number(&pair[1]) });
        let told = Event { samples: samples.collect(), worst: number(worst) };
        events.entry(String::from_utf8_lossy(name).into_owned()).or_default().join(&told);
    }
    Ok(events)
}

/// The reply to another process: a line for each event, or the names of those that were forgotten.
pub fn answer(host: &dyn Host, words: &[&[u8]]) -> String {
    let mut monitor = lock(&host.recorder().monitor);
    let line = |(name, event): (&String, &Event)| {
        let samples: String =
            event.samples.iter().map(|sample| format!(" {} {}", sample.time, sample.milliseconds)).collect();
        format!("{name} {}{samples}\n", event.worst)
    };
    match words {
        [b"SAMPLES"] => monitor.events.iter().map(line).collect(),
        [b"RESET", names @ ..] => monitor.forget(names).iter().map(|name| format!("{name}\n")).collect(),
        _ => String::new(),
    }
}

fn latest(call: &mut SessionCall<'_>) -> Outcome {
    let events = gathered(call)?;
    call.reply.array(events.len());
    for (name, event) in &events {
        let last = event.samples.back().map_or((0, 0), |last| (last.time, last.milliseconds));
        call.reply.array(4);
        call.reply.bulk(name.as_bytes());
        [last.0, last.1, event.worst].into_iter().for_each(|number| call.reply.integer(number as i64));
    }
    Ok(())
}

fn history(call: &mut SessionCall<'_>) -> Outcome {
    let events = gathered(call)?;
    let event = std::str::from_utf8(call.args[2]).ok().and_then(|name| events.get(name));
    call.reply.array(event.map_or(0, |event| event.samples.len()));
    for sample in event.iter().flat_map(|event| &event.samples) {
        call.reply.array(2);
        call.reply.integer(sample.time as i64);
        call.reply.integer(sample.milliseconds as i64);
    }
    Ok(())
}

fn reset(call: &mut SessionCall<'_>) -> Outcome {
    let names = &call.args[2..];
    let answers = cross_process::ask(
        call.table,
        call.session,
        call.host,
        &[&[&b"LATENCY"[..], b"RESET"], names].concat(),
    )?;
    let mut gone = lock(&call.host.recorder().monitor).forget(names);
    gone.extend(
        cross_process::lines(&answers).flatten().map(|name| String::from_utf8_lossy(&name).into_owned()),
    );
    call.reply.integer(gone.len() as i64);
    Ok(())
}

fn graph(call: &mut SessionCall<'_>) -> Outcome {
    let events = gathered(call)?;
    let name = String::from_utf8_lossy(call.args[2]);
    let Some(event) = events.get(&*name) else {
        return Err(format!("ERR No samples available for event '{name}'").into());
    };
    let drawing = draw(&name, event, time::now_ms() / 1000);
    call.reply.verbatim("txt", drawing.as_bytes());
    Ok(())
}

const COLUMNS: usize = 80;
const ROWS: usize = 4;
/// How full a cell is, from hardly to fully; what is above it is empty, below it a bar.
const LEVELS: [char; 3] = ['_', 'o', '#'];

/// Bars over time, four rows high, with each sample's age written downwards below it.
fn draw(name: &str, event: &Event, now: u64) -> String {
    let values: Vec<u64> = event.samples.iter().map(|sample| sample.milliseconds).collect();
    let (high, low) = (values.iter().max().copied().unwrap_or(0), values.iter().min().copied().unwrap_or(0));
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.worst,
        "-".repeat(COLUMNS)
    );
    let steps = ROWS * LEVELS.len();
    let step = |value: u64| ((value - low) as usize * steps / ((high - low).max(1) as usize)).min(steps - 1);
    let samples: Vec<(usize, Vec<char>)> = event
        .samples
        .iter()
        .map(|sample| (step(sample.milliseconds), age(now.saturating_sub(sample.time))))
        .collect();
    for chunk in samples.chunks(COLUMNS) {
        for row in (0..ROWS).rev() {
            let cell = |step: usize| match step.checked_sub(row * LEVELS.len()) {
                None => ' ',
                Some(level) => LEVELS.get(level).copied().unwrap_or('|'),
            };
            text.extend(chunk.iter().map(|(step, _)| cell(*step)).chain(['\n']));
        }
        text.extend(std::iter::repeat_n(' ', chunk.len()).chain(['\n']));
        let longest = chunk.iter().map(|(_, age)| age.len()).max().unwrap_or(0);
        for at in 0..longest {
            text.extend(chunk.iter().map(|(_, age)| age.get(at).copied().unwrap_or(' ')).chain(['\n']));
        }
    }
    text
}

fn age(seconds: u64) -> Vec<char> {
    let text = match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    };
    text.chars().collect()
}

fn doctor(call: &mut SessionCall<'_>) -> Outcome {
    let events = gathered(call)?;
    let settings = call.host.settings();
    let threshold = settings.number(const { id("latency-monitor-threshold") });
    let mut report = String::new();
    if threshold == 0 && events.is_empty() {
        report.push_str("Latency is not monitored. 'CONFIG SET latency-monitor-threshold <milliseconds>' begins to watch.\n");
    } else if events.is_empty() {
        report.push_str("No call has taken longer than the monitor's threshold.\n");
    }
    for (name, event) in &events {
        let count = event.samples.len() as u64;
        let mean = event.samples.iter().map(|sample| sample.milliseconds).sum::<u64>() / count.max(1);
        let deviation =
            event.samples.iter().map(|sample| sample.milliseconds.abs_diff(mean)).sum::<u64>() / count.max(1);
        report.push_str(&format!(
            "{name}: {count} spikes, {mean} ms on average, mean deviation {deviation} ms, worst {} ms.\n",
            event.worst
        ));
    }
    if events.contains_key("fast-command") {
        report.push_str("- Even fast commands were slow: look at the machine (other processes, swapping, a frozen virtual machine).\n");
    }
    if !events.is_empty() {
        let slower = settings.number(const { id("slowlog-log-slower-than") });
        if slower < 0 || slower > threshold * 1000 {
            let advice = threshold * 1000;
            report.push_str(&format!(
                "- 'CONFIG SET slowlog-log-slower-than {advice}' lets the slow log name the commands.\n"
            ));
        } else {
            report.push_str("- 'SLOWLOG GET' names the commands.\n");
        }
    }
    call.reply.verbatim("txt", report.as_bytes());
    Ok(())
}

fn histogram(call: &mut SessionCall<'_>) -> Outcome {
    let wanted: Vec<&Command> =
        call.args[2..].iter().filter_map(|name| find(name)).flat_map(with_subcommands).collect();
    let answers = cross_process::ask_reports(call.table, call.session, call.host)?;
    let mut whole = Whole::of(call.host);
    whole.add(&answers);
    let mut totals = whole.calls;
    totals.retain(|(command, total)| {
        total.latency.total() > 0
            && (call.args.len() == 2 || wanted.iter().any(|own| std::ptr::eq(*own, *command)))
    });
    call.reply.map(totals.len());
    for (command, total) in totals {
        call.reply.bulk(command.label().as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(total.latency.total() as i64);
        call.reply.bulk(b"histogram_usec");
        let steps = total.latency.doubling();
        call.reply.map(steps.len());
        for (bound, below) in steps {
            call.reply.integer((bound / 1000) as i64);
            call.reply.integer(below as i64);
        }
    }
    Ok(())
}

fn with_subcommands(command: &'static Command) -> Vec<&'static Command> {
    std::iter::once(command).chain(subcommands(command)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_runtime::notes::SAMPLES_MAX;

    #[test]
    fn an_event_keeps_the_worst_of_each_second() {
        let mut event = Event::default();
        event.add(1, 5);
        event.add(1, 3);
        event.add(2, 4);
        assert_eq!(event.samples, [Sample { time: 1, milliseconds: 5 }, Sample { time: 2, milliseconds: 4 }]);
        (3..300).for_each(|time| event.add(time, 1));
        assert_eq!((event.samples.len(), event.worst), (SAMPLES_MAX, 5));
    }

    #[test]
    fn a_graph_shows_heights_and_ages() {
        let mut event = Event::default();
        [(1, 10), (2, 20), (3, 31)]
            .into_iter()
            .for_each(|(time, milliseconds)| event.add(time, milliseconds));
        let drawing = draw("command", &event, 61);
        let lines: Vec<&str> = drawing.lines().collect();
        assert_eq!(lines[0], "command - high 31 ms, low 10 ms (all time high 31 ms)");
        assert_eq!(lines[2..], ["  #", "  |", " #|", "_||", "   ", "155", "m98", " ss"]);
    }
}
