//! What one process counts about its own calls: how many, how long, which errors, which were slow.
//!
//! ```text
//!   thread 1 --> its shard: calls, time, rejected, failed, histogram of each command   plain loads and stores
//!   thread 2 --> its shard                                                            nothing is shared on the hot path
//!   INFO, LATENCY --> sums over all shards
//! ```
//!
//! **What a call costs.** A few plain loads and stores. The exact clock (20 to 60 ns a look, and
//! two are needed) is read for the first [`EXACT_CALLS`] calls of a command and then for each
//! [`SAMPLE`]th, which counts as that many. The others look at the kernel's coarse clock (5 to 10
//! ns, in steps of 1 to 4 ms), so that a slow call is noticed: once if the thread has said when its
//! turn began, else twice. Commands that are flagged as fast do not look, and are noticed only when
//! they are timed. The same holds for calls on a command's fast path. If the slow log or the
//! latency monitor is set to less than [`COARSE_NS`], or large calls below some size are to be
//! noted, every call is timed exactly.
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use polder_shm::Segment;
use polder_shm::layout::header;
use polder_table::{Counter, Table};
use rustix::time::{ClockId, clock_gettime};

pub mod histogram;
pub mod rates;

use crate::denials;
use crate::hot_keys::Tracking;
use crate::key_sizes::KeySizes;
use crate::locks::lock;
use crate::notes::{Log, Monitor};
use histogram::{Distribution, Histogram};
use polder_calls::command::{Command, FAST};
use polder_calls::settings::{COARSE_NS, Settings, id};
use rates::{Rates, Track};

/// How many calls of a command each exactly timed one stands for, once it has been called often.
const SAMPLE: u64 = 64;
const EXACT_CALLS: u64 = 64;
/// Different errors that are counted apart, as in Redis.
const ERRORS_MAX: usize = 128;
/// What further errors are counted under.
const OTHER_ERRORS: &str = "OTHER";

/// The bytes of an error's text in which its code must end, as in Redis.
const ERROR_CODE_MAX: usize = 31;

/// What an error is counted under: its code, or `ERR` when its text begins with none. It goes into a line of INFO, so what means something
/// there is replaced, and scripts, which choose the text, can make it neither long nor several lines.
fn error_code(text: &str) -> Cow<'_, str> {
    let end = text.bytes().take(ERROR_CODE_MAX).position(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let code = end.map_or("", |end| &text[..end]);
    let unsafe_here = |shown: char| matches!(shown, '#' | ':') || shown.is_control();
    match code {
        "" => "ERR".into(),
        code if code.contains(unsafe_here) => code.replace(unsafe_here, "_").into(),
        code => code.into(),
    }
}

/// One command in one shard.
#[derive(Default)]
struct Row {
    calls: AtomicU64,
    nanoseconds: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    /// Made at the first timed call: most commands are never called.
    histogram: OnceLock<Histogram>,
}

/// One thread's counts.
struct Shard {
    rows: Box<[Row]>,
}

/// Everything a process counts about its calls.
pub struct Recorder {
    /// Tells recorders apart in [`CURRENT`].
    number: u64,
    shards: Mutex<Vec<Arc<Shard>>>,
    errors: Mutex<BTreeMap<String, u64>>,
    /// Slow calls, large requests, large replies.
    pub logs: [Mutex<Log>; 3],
    pub denials: Mutex<denials::Log>,
    pub monitor: Mutex<Monitor>,
    track: Mutex<Track>,
    /// The last part of this process in the history of the segment.
    pub told: Mutex<Told>,
    /// What other processes have told of themselves last, with their threads: see [`crate::cross_process::ask_reports`].
    pub reports: Mutex<Vec<(Vec<polder_hub::query::Thread>, Vec<u8>)>>,
    /// The sizes of values, as far as INFO keysizes has looked.
    pub key_sizes: Mutex<KeySizes>,
    /// Which keys cost most, while and after that is tracked.
    pub hot_keys: Mutex<Option<Tracking>>,
    started_ms: u64,
    run_id: String,
    /// The segment whose processes number what they note together; until it is known, this process numbers by itself.
    segment: OnceLock<Arc<Segment>>,
    notes: [AtomicU64; 4],
}

/// What is noted under a number.
#[derive(Clone, Copy)]
pub enum Note {
    SlowCall,
    Denial,
    LargeRequest,
    LargeReply,
}

/// What a thread remembers between calls.
struct Current {
    /// Whose shard it is.
    recorder: u64,
    shard: Option<Arc<Shard>>,
    /// The coarse clock when the turn began or its last call ended; 0 outside of turns.
    turn_ns: u64,
}

thread_local! {
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { recorder: 0, shard: None, turn_ns: 0 }) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Totals of this process, as they stood when it last added to the history of the segment.
#[derive(Clone, Copy, Default)]
pub struct Told {
    /// The time, in steps of the history.
    pub step: u64,
    pub cpu_us: u64,
    /// Calls of commands, and the time that they took.
    pub calls: u64,
    pub timed_us: u64,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            shards: Mutex::default(),
            errors: Mutex::default(),
            logs: Default::default(),
            denials: Mutex::default(),
            monitor: Mutex::default(),
            track: Mutex::default(),
            told: Mutex::default(),
            reports: Mutex::default(),
            key_sizes: Mutex::default(),
            hot_keys: Mutex::default(),
            started_ms: polder_base::time::now_ms(),
            run_id: fresh_id(),
            segment: OnceLock::new(),
            notes: Default::default(),
        }
    }
}

/// Forty hexadecimal digits that no other process has.
fn fresh_id() -> String {
    let random = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32)
}

/// The beginning of a call.
#[derive(Clone, Copy)]
pub struct Watch {
    command: &'static Command,
    start: Start,
}

/// How a call is timed.
#[derive(Clone, Copy)]
enum Start {
    /// Not at all.
    Unseen,
    /// By the coarse clock, in nanoseconds.
    Coarse(u64),
    /// Exactly, and counted as this many calls.
    Exact(Instant, u64),
}

/// What became of a call.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    pub nanoseconds: u64,
    /// Whether the call is worth a look at the slow log's and the monitor's thresholds.
    pub notable: bool,
}

/// The totals of one command.
#[derive(Default, Clone, Debug)]
pub struct Totals {
    pub calls: u64,
    pub nanoseconds: u64,
    pub rejected: u64,
    pub failed: u64,
    pub latency: Distribution,
}

fn coarse_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Adds to a count that only this thread writes.
fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

impl Recorder {
    /// Says which segment's process this is.
    pub fn belong(&self, table: &Table) {
        // It stays with its first one: there is a recorder for each.
        let _ = self.segment.set(table.segment().clone());
    }

    /// Returns how many replicas of the memory have acknowledged something within this many seconds.
    pub fn replicas_within(&self, seconds: u64) -> u64 {
        self.segment
            .get()
            .map_or(0, |segment| segment.replicas().count_within(seconds, polder_base::time::now_ms()))
    }

    /// Returns true if the memory is a replica, or becomes a primary just now.
    pub fn is_replica(&self) -> bool {
        self.segment.get().is_some_and(|segment| segment.refuses_writes())
    }

    /// A number that no process of the segment has given to anything else of the kind; from 0 on.
    pub fn next_note(&self, note: Note) -> u64 {
        let shared = self.segment.get().map(|segment| segment.word(header::NOTES + 8 * note as u64));
        shared.unwrap_or(&self.notes[note as usize]).fetch_add(1, Ordering::Relaxed)
    }

    /// A turn begins: its calls follow each other, so that the end of one is the beginning of the next.
    pub fn begin_turn(&self) {
        CURRENT.with_borrow_mut(|current| current.turn_ns = coarse_ns());
    }

    /// The turn is over, and the thread may sleep.
    pub fn end_turn(&self) {
        CURRENT.with_borrow_mut(|current| current.turn_ns = 0);
    }

    /// Counts a call on its command's fast path, which is too short to be slow. Returns false,
    /// having counted nothing, if the call is one of those that are timed.
    #[inline]
    pub fn pass(&self, settings: &Settings, command: &'static Command) -> bool {
        self.with_row(command, |row, _| {
            let calls = row.calls.load(Ordering::Relaxed);
            let untimed =
                calls >= EXACT_CALLS && !calls.is_multiple_of(SAMPLE) && !settings.wants_every_call();
            if untimed {
                row.calls.store(calls + 1, Ordering::Relaxed);
            }
            untimed
        })
    }

    /// The fast path did not complete: what [`Recorder::pass`] counted is counted again later.
    pub fn take_back(&self, command: &'static Command) {
        self.with_row(command, |row, _| {
            row.calls.store(row.calls.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed)
        });
    }

    /// A call that was counted by [`Recorder::pass`] has failed.
    pub fn fail(&self, command: &'static Command) {
        self.with_row(command, |row, _| add(&row.failed, 1));
    }

    /// A call begins.
    pub fn begin(&self, settings: &Settings, command: &'static Command) -> Watch {
        self.with_row(command, |row, turn_ns| {
            let calls = row.calls.load(Ordering::Relaxed);
            let start = match () {
                () if calls < EXACT_CALLS || settings.wants_every_call() => Start::Exact(Instant::now(), 1),
                () if calls.is_multiple_of(SAMPLE) => Start::Exact(Instant::now(), SAMPLE),
                () if command.has(FAST) => Start::Unseen,
                () if *turn_ns != 0 => Start::Coarse(*turn_ns),
                () => Start::Coarse(coarse_ns()),
            };
            Watch { command, start }
        })
    }

    /// A call ends.
    pub fn end(&self, settings: &Settings, watch: Watch, failed: bool) -> Lap {
        self.with_row(watch.command, |row, turn_ns| {
            add(&row.calls, 1);
            if failed {
                add(&row.failed, 1);
            }
            let nanoseconds = match watch.start {
                Start::Unseen => return Lap { nanoseconds: 0, notable: false },
                Start::Coarse(start_ns) => {
                    let now_ns = coarse_ns();
                    if *turn_ns != 0 {
                        *turn_ns = now_ns;
                    }
                    now_ns.saturating_sub(start_ns)
                }
                Start::Exact(start, weight) => {
                    let nanoseconds = start.elapsed().as_nanos() as u64;
                    add(&row.nanoseconds, nanoseconds * weight);
                    if settings.is_on(const { id("latency-tracking") }) {
                        row.histogram.get_or_init(Histogram::default).record(nanoseconds, weight);
                    }
                    if *turn_ns != 0 {
                        // What was timed exactly is not the next one's.
                        *turn_ns = coarse_ns();
                    }
                    nanoseconds
                }
            };
            Lap { nanoseconds, notable: nanoseconds >= COARSE_NS || settings.wants_every_call() }
        })
    }

    /// Calls begin that are run in one go; `None` where each is to be timed by itself.
    pub fn begin_many(&self, settings: &Settings) -> Option<Instant> {
        (!settings.wants_every_call()).then(Instant::now)
    }

    /// Calls end that were run in one go: each took the same part of the time.
    pub fn end_many(&self, settings: &Settings, command: &'static Command, start: Instant, calls: u64) {
        self.with_row(command, |row, _| {
            let nanoseconds = start.elapsed().as_nanos() as u64;
            add(&row.calls, calls);
            add(&row.nanoseconds, nanoseconds);
            if settings.is_on(const { id("latency-tracking") }) {
                row.histogram.get_or_init(Histogram::default).record(nanoseconds / calls, calls);
            }
        });
    }

    /// A call was refused before it began.
    pub fn reject(&self, command: &'static Command) {
        self.with_row(command, |row, _| add(&row.rejected, 1));
    }

    /// An error was answered; the text begins with its code.
    pub fn count_error(&self, text: &str) {
        let code = &*error_code(text);
        let mut errors = lock(&self.errors);
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else {
            let name = if errors.len() < ERRORS_MAX { code } else { OTHER_ERRORS };
            *errors.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// When the process began, in milliseconds since the epoch.
    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// What tells this run of the process from every other.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Notes the totals of now, if a tenth of a second has passed. Called by maintenance and by
    /// INFO.
    pub fn sample(&self, table: &Table, now_ms: u64) {
        let mut track = lock(&self.track);
        if track.is_due(now_ms) {
            let [calls, bytes_in, bytes_out] =
                [Counter::Calls, Counter::BytesIn, Counter::BytesOut].map(|which| table.counter(which));
            track.add(now_ms, rates::Totals { calls, bytes_in, bytes_out });
        }
    }

    /// What happened per second of late, in the whole segment.
    pub fn rates(&self) -> Rates {
        lock(&self.track).rates()
    }

    /// Every error code with its count.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        lock(&self.errors).clone()
    }

    /// The commands that were called or refused, with their totals, in the order of the rows.
    pub fn totals(&self) -> Vec<(&'static Command, Totals)> {
        let shards = lock(&self.shards);
        let rows = crate::lookup::all().map(|(_, command)| command).enumerate();
        let totals = rows.map(|(number, command)| {
            let mut total = Totals::default();
            for row in shards.iter().map(|shard| &shard.rows[number]) {
                total.calls += row.calls.load(Ordering::Relaxed);
                total.nanoseconds += row.nanoseconds.load(Ordering::Relaxed);
                total.rejected += row.rejected.load(Ordering::Relaxed);
                total.failed += row.failed.load(Ordering::Relaxed);
                if let Some(histogram) = row.histogram.get() {
                    histogram.add_to(&mut total.latency);
                }
            }
            (command, total)
        });
        totals.filter(|(_, total)| total.calls + total.rejected > 0).collect()
    }

    /// Forgets counts and errors (CONFIG RESETSTAT); the slow log and the monitor stay. A count that its thread is just
    /// adding to may survive.
    pub fn reset(&self) {
        lock(&self.errors).clear();
        lock(&self.denials).reset_counts();
        lock(&self.reports).clear();
        for row in lock(&self.shards).iter().flat_map(|shard| &shard.rows) {
            [&row.calls, &row.nanoseconds, &row.rejected, &row.failed]
                .into_iter()
                .for_each(|count| count.store(0, Ordering::Relaxed));
            row.histogram.get().into_iter().for_each(Histogram::reset);
        }
    }

    /// Does `work` with this thread's row of a command and the clock of its turn.
    #[inline]
    fn with_row<T>(&self, command: &'static Command, work: impl FnOnce(&Row, &mut u64) -> T) -> T {
        CURRENT.with_borrow_mut(|current| {
            if current.recorder != self.number {
                self.become_current(current);
            }
            let shard = current.shard.as_ref().expect("it was taken when the recorder was noted");
            work(&shard.rows[usize::from(command.number())], &mut current.turn_ns)
        })
    }

    /// Gives the thread a shard of this recorder.
    #[cold]
    fn become_current(&self, current: &mut Current) {
        // Let go of the other recorder's shard first: it counts as taken while it is held.
        current.shard = None;
        current.shard = Some(self.take_shard());
        current.recorder = self.number;
    }

    /// A shard that no thread holds, with whatever its last thread has counted.
    fn take_shard(&self) -> Arc<Shard> {
        let mut shards = lock(&self.shards);
        if let Some(free) = shards.iter().find(|shard| Arc::strong_count(shard) == 1) {
            return free.clone();
        }
        let shard = Arc::new(Shard { rows: crate::lookup::all().map(|_| Row::default()).collect() });
        shards.push(shard.clone());
        shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::find;

    #[test]
    fn every_row_has_a_number_of_its_own() {
        for (number, (_, command)) in crate::lookup::all().enumerate() {
            assert_eq!(usize::from(command.number()), number, "{}", command.name);
        }
    }

    #[test]
    fn calls_of_all_threads_are_counted_and_shards_are_used_again() {
        let (recorder, settings) = (Recorder::default(), Settings::default());
        let get = find(b"GET").unwrap();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        (0..100)
                            .for_each(|n| _ = recorder.end(&settings, recorder.begin(&settings, get), n == 0))
                    });
                }
            });
        }
        let totals = recorder.totals();
        assert_eq!(totals.len(), 1);
        let (command, total) = &totals[0];
        assert_eq!((command.name, total.calls, total.failed, total.rejected), ("GET", 600, 6, 0));
        assert!(total.nanoseconds > 0 && total.latency.total() > 0);
        assert!(lock(&recorder.shards).len() <= 6);
        recorder.reset();
        assert!(recorder.totals().is_empty());
    }

    #[test]
    fn a_slow_call_is_noticed_though_it_is_not_timed_exactly() {
        let (recorder, settings) = (Recorder::default(), Settings::default());
        let set = find(b"SET").unwrap();
        for _ in 0..EXACT_CALLS + 1 {
            recorder.end(&settings, recorder.begin(&settings, set), false);
        }
        for in_turn in [false, true] {
            if in_turn {
                recorder.begin_turn();
            }
            let watch = recorder.begin(&settings, set);
            assert!(matches!(watch.start, Start::Coarse(_)));
            std::thread::sleep(std::time::Duration::from_millis(25));
            assert!(recorder.end(&settings, watch, false).notable);
        }
        recorder.end_turn();
    }

    #[test]
    fn errors_are_counted_by_their_code() {
        let recorder = Recorder::default();
        recorder.count_error("ERR syntax error");
        recorder.count_error("ERR other");
        recorder.count_error("WRONGTYPE x");
        assert_eq!(
            recorder.errors().into_iter().collect::<Vec<_>>(),
            [("ERR".into(), 2), ("WRONGTYPE".into(), 1)]
        );
        (0..200).for_each(|n| recorder.count_error(&format!("E{n} x")));
        assert_eq!(recorder.errors().len(), ERRORS_MAX + 1);
    }

    #[test]
    fn a_script_chooses_no_line_of_info_by_the_text_of_its_error() {
        let cases = [
            ("", "ERR"),
            ("bare", "ERR"),
            (" x", "ERR"),
            ("ERR\r\n-ERR FAKE", "ERR"),
            ("\r\nBAD x", "ERR"),
            ("MY:#CODE\tis x", "MY__CODE_is"),
            ("NOSUCHTHINGASACODEOFTHIRTYBYTES x", "ERR"),
            ("NOSUCHTHINGASACODEOFTHIRTYBYTE x", "NOSUCHTHINGASACODEOFTHIRTYBYTE"),
            ("CÖDE x", "CÖDE"),
        ];
        for (text, code) in cases {
            assert_eq!(error_code(text), code, "{text:?}");
        }
    }
}
