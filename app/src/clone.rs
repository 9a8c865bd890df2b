//! `polder clone`: a segment, copied into a new one, while all that use it go on.
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder_calls::settings::value;
use polder_engine::{Memory, Options, PageChoice, Table};
use polder_persist::copying::{Plan, add_rest, copy};
use polder_persist::opened::{self, Source};
use polder_persist::saves::save::Progress;
use polder_shm::opening::CreateError;
use polder_shm::{Segment, SegmentName, SegmentOptions};
use polder_table::SYSTEM;

use crate::peer;
use crate::text::{self, Failed};

/// The time for which another snapshot of the memory, and transactions that were begun before, are waited
/// for.
const PATIENCE: Duration = Duration::from_secs(60);
/// The period in which the bar moves.
const BAR_PERIOD: Duration = Duration::from_millis(20);
/// Threads that copy, if none are named: each writes as much as the memory bus of a small machine carries.
const COPIERS_MAX: usize = 4;

/// Copies a segment into a new one, of another size, page size or kind if that is wanted. All that use the
/// segment may go on working, and give nothing for it but memory for what they overwrite meanwhile: the new
/// segment holds all databases as they were at one instant, with expiries, users, settings and functions.
///
/// The new segment appears when it is whole. If this is killed, there is none, and the other one is as it
/// was.
#[derive(clap::Args)]
pub struct Arguments {
    /// The segment that is copied.
    from: String,
    /// The new segment.
    to: String,
    #[command(flatten)]
    whose: text::Whose,
    /// The most that the new one may grow to, as `512mb` or `8gb` [default: as the other].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// The pages of the new one: auto, 4kb, 2mb, 1gb.
    #[arg(long, value_name = "SIZE", default_value = "auto", value_parser = ["auto", "4kb", "2mb", "1gb"])]
    pages: String,
    /// Threads that copy [default: one for each core, at most 4].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = value::bytes(text.as_bytes());
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(|| "a number with kb, mb or gb".into())
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    match clone(arguments) {
        Ok(keys) => {
            let seconds = began.elapsed().as_secs_f64();
            println!("{} keys copied to {} in {seconds:.2} s", text::count(keys), arguments.to);
            ExitCode::SUCCESS
        }
        Err(failed) => failed.tell(),
    }
}

fn clone(arguments: &Arguments) -> Result<u64, Failed> {
    let Arguments { from, to, whose, .. } = arguments;
    let name: SegmentName = to.parse().map_err(|error| format!("{error}"))?;
    let options = Options { segment: from.clone(), create: false, owner: whose.owner, ..Options::default() };
    let memory = text::attached(&options)?;
    let source = memory.table();
    opened::check_open(source)?;
    if source.is_tiered() {
        return Err(format!(
            "values of {from} may lie in a tier, which only the server that has it can read: let it save a file (BGSAVE), and import that"
        )
        .into());
    }
    let ceiling = arguments.size.unwrap_or(source.usage().ceiling);
    check_size(source, arguments, ceiling)?;
    let pages = match arguments.pages.as_str() {
        "1gb" => PageChoice::Huge,
        "2mb" => PageChoice::Large,
        _ => PageChoice::Default,
    };
    let options = SegmentOptions { ceiling, pages, ..SegmentOptions::default() };
    // Under the same secret keys lie in the same order, and are written where the last ones were.
    let draft =
        Segment::draft(&name, &options, source.segment().secret()).map_err(|error| refused(error, to))?;
    let target = Table::over(draft.segment().clone());
    let keys = fill(&memory, &target, arguments).map_err(|why| format!("{why}; nothing was made"))?;
    draft.publish().map_err(|error| refused(error, to))?;
    Ok(keys)
}

/// Refuses a new segment that cannot hold the data, before anything is done.
fn check_size(source: &Table, arguments: &Arguments, ceiling: u64) -> Result<(), String> {
    let usage = source.usage();
    let wanted = usage.used.saturating_sub(usage.fixed).saturating_sub(usage.retired);
    if wanted <= ceiling {
        return Ok(());
    }
    let Arguments { from, to, .. } = arguments;
    let (wanted, ceiling) = (text::bytes(wanted), text::bytes(ceiling));
    Err(format!(
        "{to} would be too small: {from} holds {wanted}, and {ceiling} were asked for; give a larger --size"
    ))
}

fn refused(error: CreateError, to: &str) -> Failed {
    match error {
        CreateError::AlreadyExists(_) => format!(
            "there is a segment {to} already: choose another name, or remove it ('polder segment remove {to}')"
        ),
        CreateError::Fault(fault) => text::plain(&fault),
    }
    .into()
}

/// Copies all that there is into a segment that no other process sees yet.
fn fill(memory: &Memory, target: &Table, arguments: &Arguments) -> Result<u64, String> {
    let source = memory.table();
    let end = Instant::now() + PATIENCE;
    let snapshot = source.snapshot(&mut || Instant::now() < end).map_err(|fault| text::plain(&fault))?;
    target.prepare_for(source);
    // Access clocks count in the same way then. Nothing is evicted or expires before the segment has a name.
    target.set_limits(source.limits());
    let loading = target.begin_loading().map_err(|fault| text::plain(&fault))?;
    for captured in snapshot.databases().iter().filter(|captured| captured.db != SYSTEM) {
        let extents = source.shape(captured.db).extents;
        target.make_database(captured.db, extents).map_err(|stop| text::plain(&stop))?;
    }
    let progress = Progress::default();
    let copiers = arguments.threads.map_or_else(cores, usize::from);
    let plan = Plan { to: target, staged_for: None, system: belongs_to_data, copiers, progress: &progress };
    let bar = peer::bar(snapshot.databases().iter().map(|captured| captured.keys).sum(), "keys");
    let is_over = AtomicBool::new(false);
    let copied = std::thread::scope(|scope| {
        let shows = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                bar.set_position(progress.keys.load(Ordering::Relaxed));
                std::thread::park_timeout(BAR_PERIOD);
            }
            bar.finish_and_clear();
        });
        let copied = copy(&snapshot, &plan);
        is_over.store(true, Ordering::Relaxed);
        shows.thread().unpark();
        copied
    })?;
    drop(snapshot);
    add_rest(target, &copied).map_err(|stop| text::plain(&stop))?;
    // It is open: no server reads a file into it.
    opened::claim(target, &Source::Nothing).map_err(|stop| text::plain(&stop))?;
    drop(loading);
    Ok(copied.keys)
}

/// Says what of the hidden database goes with the data: settings, users and cached scripts.
fn belongs_to_data(key: &[u8]) -> bool {
    [&b"setting:"[..], b"user:", b"script:"].iter().any(|begin| key.starts_with(begin))
        || [&b"settings"[..], b"users", b"users:names", b"scripts"].contains(&key)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(COPIERS_MAX)
}
