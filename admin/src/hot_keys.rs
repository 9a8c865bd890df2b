//! HOTKEYS: the keys that cost this process most time, or most bytes of requests and replies.
//!
//! Figures are those of the process that is asked, as INFO's are. What is counted: [`polder_runtime::hot_keys`].
use polder_base::number;
use polder_table::Stop;

use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{ADMIN, LOADING, NOSCRIPT, STALE};
use polder_runtime::help::help;
use polder_runtime::hot_keys::{COUNT_MAX, Request, Tracking};
use polder_runtime::locks::lock;
use polder_runtime::row::{Row, SessionCall, container, session};

const SPECIAL: &[&str] = &["request_policy:special"];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("HOTKEYS")
        .since("8.6.0")
        .costs("Depends on subcommand.")
        .about("A container for hotkeys tracking commands."),
    session("HOTKEYS|GET", "", get)
        .with(ADMIN | NOSCRIPT)
        .tips(&["nondeterministic_output", "request_policy:special", "response_policy:special"])
        .since("8.6.0")
        .costs("O(K) where K is the number of hotkeys returned.")
        .about(
            "Returns the keys that have cost this server most, by the metrics that HOTKEYS START has named.",
        ),
    session("HOTKEYS|HELP", "", help)
        .with(LOADING | STALE)
        .since("8.6.1")
        .about("Returns helpful text about the different subcommands."),
    session("HOTKEYS|RESET", "", reset)
        .with(ADMIN | NOSCRIPT)
        .tips(SPECIAL)
        .since("8.6.0")
        .about("Forgets what was tracked."),
    session(
        "HOTKEYS|START",
        "[METRICS count [CPU] [NET]] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]",
        start,
    )
    .with(ADMIN | NOSCRIPT)
    .tips(SPECIAL)
    .since("8.6.0")
    .about("Starts to track which keys cost this server most time or bytes. Each call is timed meanwhile."),
    session("HOTKEYS|STOP", "", stop)
        .with(ADMIN | NOSCRIPT)
        .tips(SPECIAL)
        .since("8.6.0")
        .about("Stops tracking. HOTKEYS GET still shows what was tracked."),
];

const DURATION_SECONDS_MAX: u64 = 1_000_000;

/// A number from 1 on, up to `most`.
fn positive(text: &[u8], most: u64, refusal: &'static str) -> Result<u64, Stop> {
    let number = number::integer(text).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| (1..=most).contains(number)).ok_or_else(|| refusal.into())
}

/// Reads what stands behind METRICS: their number, and their names. Returns what follows.
fn metrics<'r, 'a>(request: &mut Request, args: &'r [&'a [u8]]) -> Result<&'r [&'a [u8]], Stop> {
    let [word, count, rest @ ..] = args else { return Err("ERR METRICS parameter is required".into()) };
    if !is(word, "METRICS") {
        return Err("ERR METRICS parameter is required".into());
    }
    let count = positive(count, 2, "ERR METRICS count must be > 0 and <= 2")?;
    let (mut named, mut rest) = (0, rest);
    while named < count
        && let [word, later @ ..] = rest
    {
        let (flag, twice) = match word {
            word if is(word, "CPU") => (&mut request.by_time, "ERR METRICS CPU defined more than once!"),
            word if is(word, "NET") => (&mut request.by_bytes, "ERR METRICS NET defined more than once!"),
            _ => break,
        };
        if std::mem::replace(flag, true) {
            return Err(twice.into());
        }
        (named, rest) = (named + 1, later);
    }
    match named {
        0 if !rest.is_empty() => Err("ERR METRICS no valid metrics passed. Supported: CPU|NET".into()),
        named if named != count => {
            Err("ERR METRICS count does not match number of metric types provided".into())
        }
        _ => Ok(rest),
    }
}

fn start(call: &mut SessionCall<'_>) -> Outcome {
    let mut request = Request { by_time: false, by_bytes: false, count: 10, duration_ms: 0, sample: 1 };
    let mut rest = metrics(&mut request, &call.args[2..])?;
    while let [word, value, later @ ..] = rest {
        match word {
            word if is(word, "COUNT") => {
                request.count =
                    positive(value, COUNT_MAX as u64, "ERR COUNT must be between 1 and 64")? as usize;
            }
            word if is(word, "DURATION") => {
                const REFUSAL: &str = "ERR DURATION must be between 1 and 1000000";
                request.duration_ms = 1000 * positive(value, DURATION_SECONDS_MAX, REFUSAL)?;
            }
            word if is(word, "SAMPLE") => {
                request.sample = positive(value, i64::MAX as u64, "ERR SAMPLE ratio must be positive")?;
            }
            word if is(word, "SLOTS") => {
                return Err("ERR SLOTS parameter cannot be used in non-cluster mode".into());
            }
            _ => return Err(SYNTAX.into()),
        }
        rest = later;
    }
    if !rest.is_empty() {
        return Err(SYNTAX.into());
    }
    let mut tracked = lock(&call.host.recorder().hot_keys);
    if tracked.as_mut().is_some_and(Tracking::goes_on) {
        return Err("ERR hotkey tracking session already in progress".into());
    }
    *tracked = Some(Tracking::start(request));
    call.host.settings().watch_every_call(true);
    call.reply.ok();
    Ok(())
}

fn stop(call: &mut SessionCall<'_>) -> Outcome {
    match lock(&call.host.recorder().hot_keys).as_mut() {
        Some(tracking) => {
            tracking.stop();
            call.host.settings().watch_every_call(false);
            call.reply.ok();
        }
        None => call.reply.null(),
    }
    Ok(())
}

fn reset(call: &mut SessionCall<'_>) -> Outcome {
    let mut tracked = lock(&call.host.recorder().hot_keys);
    if tracked.as_mut().is_some_and(Tracking::goes_on) {
        return Err("ERR hotkey tracking session in progress, stop tracking first".into());
    }
    *tracked = None;
    // Its time may have been over before any call looked.
    call.host.settings().watch_every_call(false);
    call.reply.ok();
    Ok(())
}

fn get(call: &mut SessionCall<'_>) -> Outcome {
    let mut tracked = lock(&call.host.recorder().hot_keys);
    let Some(tracking) = tracked.as_mut() else {
        call.reply.null();
        return Ok(());
    };
    let goes_on = tracking.goes_on();
    let Request { by_time, by_bytes, sample, .. } = tracking.request;
    let [figures @ .., user, system, net_bytes] = tracking.figures();
    let (of_time, of_bytes) = (usize::from(by_time), usize::from(by_bytes));
    call.reply.array(1);
    call.reply.map(3 + figures.len() + 3 * of_time + 2 * of_bytes);
    let count = |call: &mut SessionCall<'_>, (name, figure): (&str, u64)| {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(i64::try_from(figure).unwrap_or(i64::MAX));
    };
    count(call, ("tracking-active", goes_on.into()));
    count(call, ("sample-ratio", sample));
    // There is no cluster: all slots.
    call.reply.bulk(b"selected-slots");
    call.reply.array(1);
    call.reply.array(2);
    [0, 16_383].into_iter().for_each(|slot| call.reply.integer(slot));
    figures.into_iter().for_each(|figure| count(call, figure));
    if by_time {
        [user, system].into_iter().for_each(|figure| count(call, figure));
    }
    if by_bytes {
        count(call, net_bytes);
    }
    let lists =
        [("by-cpu-time-us", by_time, tracking.by_time()), ("by-net-bytes", by_bytes, tracking.by_bytes())];
    for (name, _, top) in lists.into_iter().filter(|(_, shown, _)| *shown) {
        call.reply.bulk(name.as_bytes());
        call.reply.array(2 * top.len());
        for (key, cost) in top {
            call.reply.bulk(key);
            call.reply.integer(cost as i64);
        }
    }
    Ok(())
}
