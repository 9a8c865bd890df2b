//! Polder in your process: a Redis-compatible key-value store in shared memory.
//!
//! [`Memory::attach`] maps a segment of shared memory, and makes it if there is none. Every process of the machine that attaches the same
//! name sees the same keys, with or without a server; a call is a function call. A process may be killed at any instruction: no
//! acknowledged write is lost, and no other process waits for it.
//!
//! ```
//! # let name = format!("shm:polder-doc-front-{}", std::process::id());
//! use polder_engine::{Caller, Item, Memory, Options};
//! use std::sync::Arc;
//!
//! // Every process that attaches this name ("shm:app") works on the same keys.
//! let options = Options { segment: name.clone(), ..Options::default() };
//! let memory = Arc::new(Memory::attach(&options)?);
//!
//! // Typed calls, the fastest ones.
//! let db = memory.database(0);
//! db.set("greeting", "hello")?;
//! db.rpush("jobs", &["first", "second"])?;
//! assert_eq!(db.get("greeting")?.as_deref(), Some(&b"hello"[..]));
//!
//! // Every command of Redis, by its words.
//! let mut caller = Caller::new(&memory);
//! caller.run(&["ZADD", "board", "7", "ann", "3.5", "bob"])?;
//! assert_eq!(caller.run(&["ZREVRANK", "board", "bob"])?.item(), Item::Integer(1));
//!
//! // Two keys change together or not at all, also if this process is killed.
//! db.transaction(&["from", "to"], |keys| {
//!     keys.decrby("from", 5)?;
//!     keys.incrby("to", 5)
//! })?;
//! # Memory::remove(&name)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | you want | use |
//! |---|---|
//! | all types by typed calls, transactions | [`Database`], from [`Memory::database`] |
//! | any command, blocking calls, MULTI, scripts | [`Caller`]; its replies are [`Answer`]s of [`Item`]s |
//! | many calls at once | [`Batch`], [`Database::read_batch`], [`Database::set_batch`] |
//! | messages by callback | [`Listener`] |
//! | a server on the same memory | the program `polder serve --segment NAME` |
//!
//! The segment stays when the last process ends; [`Memory::remove`] removes it. A process that can write to a segment is fully trusted:
//! passwords and access lists hold for clients of a server only. Linux on x86-64 and aarch64.
//!
//! Examples that run: `leaderboard`, `rate_limiter`, `job_queue` and `shared_cache` in `engine/examples`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod batch;
mod caller;
mod changes;
mod database;
mod embedded;
mod families;
mod listener;
mod presence;
mod reply;
mod thread_state;
mod typed;
mod waiting;
mod wakeup;

pub use answer::{Answer, Item, Items};
pub use batch::Batch;
pub use caller::{Caller, Error};
pub use changes::{ChangeCommand, Changed, Changes, Follower, Position, Transactions};
pub use database::{Alone, Database, Inside, Keys, Scope};
#[doc(hidden)]
pub use embedded::EmbeddedHost;
#[doc(hidden)]
pub use families::{COMMANDS, FAMILIES, register, row_named};
pub use listener::Listener;
#[doc(hidden)]
pub use polder_base::Ref;
#[doc(inline)]
pub use polder_base::options::{
    Aggregate, ExpireIf, Expiry, HsetexOptions, LposOptions, ScanOptions, SetOptions, Trim, XaddOptions,
    ZaddOptions, ZcombineOptions,
};
use polder_base::time::{coarse_ms, now_ms};
#[doc(inline)]
pub use polder_base::{Fault, Protocol, Reply};
use polder_calls::command::{ADMIN, BLOCKING, CONTAINER, DANGEROUS, NOSCRIPT, Run, SCRIPTS};
use polder_calls::waiting::Copies;
use polder_calls::{BatchKey, Command};
use polder_persist::opened;
use polder_persist::storage_process::holds_replies;
use polder_runtime::scripting::Scripting;
use polder_runtime::switches;
use polder_runtime::{CallHint, execute};
use polder_table::Db;
pub use typed::{
    Claimed, End, Extreme, Field, FieldExpiry, Keyed, Lifetime, PendingEntry, PendingSummary, Scored, Side,
    Step, StreamEntry, StreamId, Zrange,
};
// What the server and the tools need beside an embedder's part.
#[doc(hidden)]
pub use polder_calls::settings;
#[doc(hidden)]
pub use polder_runtime::{
    Host, Progress, Session,
    configuration::Configuration,
    session::{Clock, Identity},
};
use polder_shm::fork;
#[doc(hidden)]
pub use polder_shm::fork::{Shelter, generation, watch as watch_forks};
use polder_shm::layout::header;
use polder_shm::mapping::Residence;
use polder_shm::opening::{AttachError, CreateError};
use polder_shm::owner::Admission;
#[doc(inline)]
pub use polder_shm::owner::{NoSuchUser, Owner};
#[doc(inline)]
pub use polder_shm::pages::PageChoice;
use polder_shm::{AttachOptions, Segment, SegmentName, SegmentOptions};
use polder_table::Location;
#[doc(hidden)]
pub use polder_table::{Copies as TierCopies, Counter, Limits, Name, Policy, Table, Usage};
#[doc(inline)]
pub use polder_table::{Report, Stop};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// An attached segment. Threads share it by reference or in an [`Arc`]; each thread that calls gets a registered place (a *seat*)
/// in the segment, up to 1,024 for all processes together.
pub struct Memory {
    table: Table,
    origin: Origin,
    /// What its callers share where there is no server; made with the first of them.
    hosts: OnceLock<Box<Hosts>>,
    callers: presence::Callers,
    /// When the memory's maintenance is due, if no other thread has done it; `u64::MAX` while one
    /// does it.
    maintenance_due_ms: AtomicU64,
    /// The time of the last maintenance that the segment names, if this process did it.
    tended_ms: AtomicU64,
    /// See [`Memory::permit_writes`].
    wary: AtomicBool,
}

/// Where an attached segment came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was there.
    Found,
    /// This call has made it.
    Made,
    /// It is a file of an earlier boot of the machine, was walked and found whole.
    Renewed {
        /// Whether its last process had closed it in order.
        closed: bool,
    },
}

/// What is known of a command before it is called; see [`nature`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nature {
    /// In upper case.
    pub name: &'static str,
    /// It works on keys alone: it never waits, and neither needs nor changes what a caller remembers from call to call.
    pub plain: bool,
    /// It may take long (a script, KEYS, a save): a program that holds a lock of its own should release it meanwhile.
    pub long: bool,
}

impl Nature {
    fn of(command: &Command) -> Nature {
        let plain = matches!(command.run, Run::Table(..))
            && !command.has(BLOCKING | CONTAINER | NOSCRIPT)
            && command.subcommand().is_none();
        let long = command.has(SCRIPTS) || command.has(DANGEROUS) || command.has(ADMIN);
        Nature { name: command.name, plain: plain && !long, long }
    }
}

/// What is known of a command by its name; `None` where there is no such command.
pub fn nature(name: &[u8]) -> Option<Nature> {
    COMMANDS.find(name).map(Nature::of)
}

/// What is known of each command.
pub fn natures() -> impl Iterator<Item = Nature> {
    COMMANDS.all().map(|(_, command)| Nature::of(command))
}

/// What the callers of a process share, and what those of its forked children do: a child takes nothing over of which another thread may have held
/// a lock.
struct Hosts {
    generation: u64,
    host: EmbeddedHost,
    next: OnceLock<Box<Hosts>>,
}

/// What runs scripts in a process with these settings.
#[doc(hidden)]
pub fn scripting(settings: &settings::Settings) -> Scripting {
    let lua = polder_script::Lua::new(&settings.string(const { settings::id("redis-version") }));
    Scripting::new(Box::new(lua))
}

/// A process without clients or listeners that runs scripts, with settings of its own.
#[doc(hidden)]
pub fn embedder(settings: Configuration) -> EmbeddedHost {
    let scripting = scripting(&settings);
    EmbeddedHost::with(settings).scripted(scripting)
}

/// How to attach: which segment, and with which properties it is made when it does not exist.
///
/// ```
/// # use polder_engine::Options;
/// let options = Options { segment: "shm:app".into(), ceiling: 4 << 30, ..Options::default() };
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`; a bare name means `shm:`.
    pub segment: String,
    /// The most bytes the segment may grow to; it counts only when the segment is made.
    pub ceiling: u64,
    /// Whether to make the segment if there is none.
    pub create: bool,
    /// The page size to ask for; it counts only when the segment is made.
    pub pages: PageChoice,
    /// The permission bits, 0600 by default; they count only when the segment is made.
    pub mode: u32,
    /// The number of the segment's group; it counts only when the segment is made.
    pub group: Option<u32>,
    /// Which user's segment is attached, beside those of this process's own user and of root. What every user may write to
    /// is attached only by [`Owner::Any`] or a `mode` that allows it.
    pub owner: Owner,
}

impl Default for Options {
    fn default() -> Options {
        let SegmentOptions { ceiling, pages, mode, group, .. } = SegmentOptions::default();
        Options { segment: "shm:polder".into(), ceiling, create: true, pages, mode, group, owner: Owner::Own }
    }
}

impl Options {
    fn to_attach(&self) -> AttachOptions {
        let admission = Admission { owner: self.owner, writable_by_all: self.mode & 0o002 != 0 };
        AttachOptions { residence: Residence::default(), admission }
    }

    fn to_make(&self) -> SegmentOptions {
        let Options { ceiling, pages, mode, group, .. } = *self;
        SegmentOptions { ceiling, pages, mode, group, residence: Residence::default() }
    }
}

/// How often callers check whether maintenance is due, and how much of it one does at a time.
const MAINTENANCE_PAUSE_MS: u64 = 100;
/// After this time a thread that runs maintenance is not waited for. It may be a thread of the
/// parent process: a fork may copy this memory while that thread is at work.
const MAINTENANCE_MS_MAX: u64 = 10_000;
const MAINTENANCE_US: u64 = 200;
/// An end of a pause that comes early is seen within this time.
pub(crate) const PAUSE_NAP: Duration = Duration::from_millis(20);

thread_local! {
    /// How many short calls the thread makes, of any memory, before one looks whether something is due.
    static CALLS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// If a batch has more keys than this, those of its calls with several keys are not prefetched: the
/// first ones would have left the cache before they are used, and what is known of them takes
/// memory that stays.
const PREFETCH_KEYS_MAX: usize = 1024;

/// What is known of many calls before the first is made: their rows, and where their keys belong. Its memory is used again.
#[doc(hidden)]
#[derive(Default)]
pub struct BatchPlan {
    /// Each call's row, and which of the locations is that of its only key.
    calls: Vec<(Option<&'static Command>, usize)>,
    locations: Vec<Option<Location>>,
}

impl BatchPlan {
    /// The row of a call.
    pub fn command(&self, number: usize) -> Option<&'static Command> {
        self.calls.get(number).and_then(|(command, _)| *command)
    }
}

impl Memory {
    /// Attaches the segment that `options` names.
    ///
    /// # Errors
    /// [`Fault::System`] with a text that says what to do: the segment does not exist and `create` is false, has another layout, belongs to another
    /// user, or there is no memory for it; a process reads its data from a file at present, or has died while it did.
    pub fn attach(options: &Options) -> Result<Memory, Fault> {
        let memory = Memory::attach_unread(options)?;
        opened::check_open(&memory.table).map_err(Fault::System)?;
        Ok(memory)
    }

    /// As [`Memory::attach`], also while the data is being read, or where a process has died that read it: for those that read it, and for tools
    /// that look at the segment only.
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    pub fn attach_unread(options: &Options) -> Result<Memory, Fault> {
        Memory::attach_with(options, &mut |report| match report.findings.first() {
            None => Ok(()),
            Some(first) => Err(Fault::System(format!(
                "{} is damaged: {} findings, the first: {first}; the machine went down before all changes were on the disk. 'polder verify \
                 {}' lists them; remove the segment and import the last RDB file into a new one",
                options.segment,
                report.findings.len(),
                options.segment
            ))),
        })
    }

    /// Walks everything in a segment: as [`Memory::attach`] and [`Table::verify`], also where a file of an earlier boot is damaged and
    /// may not be attached.
    ///
    /// # Errors
    /// When it cannot be attached, or not be walked.
    pub fn verify(options: &Options) -> Result<Report, Fault> {
        let mut seen = None;
        let attached = Memory::attach_with(options, &mut |report| {
            seen = Some(report.clone());
            if report.is_clean() { Ok(()) } else { Err(Fault::Damaged { what: "what verify lists" }) }
        });
        match (seen, attached) {
            (Some(report), _) => Ok(report),
            (None, attached) => attached?.table().verify(),
        }
    }

    fn attach_with(
        options: &Options,
        judge: &mut dyn FnMut(&Report) -> Result<(), Fault>,
    ) -> Result<Memory, Fault> {
        let name: SegmentName = options.segment.parse().map_err(|error| Fault::System(format!("{error}")))?;
        loop {
            let mut renewed = None;
            let mut check = |segment: &Arc<Segment>, closed: bool| {
                renewed = Some(closed);
                judge(&Table::over(segment.clone()).verify()?)
            };
            match Segment::attach(&name, &options.to_attach(), &mut check) {
                Ok(segment) => {
                    let origin = renewed.map_or(Origin::Found, |closed| Origin::Renewed { closed });
                    return Ok(Memory::over(Table::over(segment), origin));
                }
                Err(AttachError::Absent(_)) if options.create => {}
                Err(AttachError::Absent(name)) => {
                    return Err(Fault::System(format!(
                        "there is no segment {name}: start a server on it or make it"
                    )));
                }
                Err(AttachError::Fault(fault)) => return Err(fault),
            }
            match Segment::create(&name, &options.to_make()) {
                Ok(segment) => return Ok(Memory::over(Table::over(segment), Origin::Made)),
                // Another process was faster: attach its segment.
                Err(CreateError::AlreadyExists(_)) => {}
                Err(CreateError::Fault(fault)) => return Err(fault),
            }
        }
    }

    /// Where the segment came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Takes a segment away that this call of [`Memory::attach`] has made and that no other process uses: for a start that failed.
    /// Returns whether it is gone.
    pub fn abandon(&self) -> bool {
        let segment = self.table.segment();
        self.origin == Origin::Made
            && segment.is_alone_here()
            && Segment::remove(segment.mapping().name()).is_ok()
    }

    /// As [`Memory::attach`]; a segment that it makes has a hash secret that follows from `seed`, as the random numbers of this process do, so
    /// that two runs of the same calls take the same steps. For tests that count instructions, never for data: clients that know the secret can choose keys that collide.
    ///
    /// # Errors
    /// As [`Memory::attach`].
    #[doc(hidden)]
    pub fn predictable(options: &Options, seed: u64) -> Result<Memory, Fault> {
        let mut secret = [0; header::SECRET_BYTES];
        let mut drawn = seed;
        for part in secret.chunks_exact_mut(8) {
            // The constants are Knuth's, of MMIX; its upper half is the random one.
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            part.copy_from_slice(&(drawn ^ drawn >> 32).to_ne_bytes());
        }
        let name: SegmentName = options.segment.parse().map_err(|error| Fault::System(format!("{error}")))?;
        let (segment, origin) = match Segment::attach(&name, &options.to_attach(), &mut |_, _| Ok(())) {
            Ok(segment) => (segment, Origin::Found),
            Err(AttachError::Fault(fault)) => return Err(fault),
            Err(AttachError::Absent(_)) => {
                let made =
                    Segment::create_with_secret(&name, &options.to_make(), &secret).map_err(|error| {
                        match error {
                            CreateError::AlreadyExists(name) => Fault::System(format!(
                                "there is a segment {name} already: choose another name"
                            )),
                            CreateError::Fault(fault) => fault,
                        }
                    })?;
                (made, Origin::Made)
            }
        };
        Ok(Memory::over(Table::seeded(segment, seed | 1), origin))
    }

    fn over(table: Table, origin: Origin) -> Memory {
        register();
        table.listen(&polder_hub::SINK);
        table.dumps_by(polder_runtime::changes::dump_whole);
        Memory {
            table,
            origin,
            hosts: OnceLock::new(),
            callers: presence::Callers::default(),
            maintenance_due_ms: AtomicU64::new(0),
            tended_ms: AtomicU64::new(0),
            wary: AtomicBool::new(false),
        }
    }

    /// The process around the callers of this memory, where that is no server.
    #[doc(hidden)]
    #[inline]
    pub fn host(&self) -> &EmbeddedHost {
        let generation = fork::generation();
        match self.hosts.get() {
            Some(hosts) if hosts.generation == generation => &hosts.host,
            _ => self.host_of(generation),
        }
    }

    /// [`Memory::host`] for the first call of a process, and for those of a forked one.
    #[cold]
    fn host_of(&self, generation: u64) -> &EmbeddedHost {
        let mut place = &self.hosts;
        loop {
            match place.get() {
                Some(hosts) if hosts.generation == generation => return &hosts.host,
                Some(hosts) => place = &hosts.next,
                None => {
                    let host = embedder(Configuration::default());
                    // What the segment says of settings is read again with each round of
                    // maintenance.
                    let _ = host.settings().join(&self.table);
                    host.recorder().belong(&self.table);
                    // The first thread sets it. No lock is held while it is made, since a fork may
                    // come then.
                    let _ = place.set(Box::new(Hosts { generation, host, next: OnceLock::new() }));
                }
            }
        }
    }

    pub(crate) fn callers(&self) -> &presence::Callers {
        &self.callers
    }

    /// Does a little of what is due in the memory where no server does it.
    fn maintain(&self) {
        self.tend_at(coarse_ms());
    }

    /// The same, at a time that has been looked at.
    #[inline]
    fn tend_at(&self, now_ms: u64) {
        let due_ms = self.maintenance_due_ms.load(Ordering::Relaxed);
        if now_ms >= due_ms
            && self
                .maintenance_due_ms
                .compare_exchange(due_ms, now_ms + MAINTENANCE_MS_MAX, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            let pause_ms = self.do_maintenance(now_ms);
            self.maintenance_due_ms.store(now_ms + pause_ms, Ordering::Release);
        }
    }

    #[cold]
    fn do_maintenance(&self, now_ms: u64) -> u64 {
        let host = self.host();
        // A setting of the segment that cannot be read stays as it was; the call that reads the settings says why.
        let _ = host.settings().join(&self.table);
        host.recorder().sample(&self.table, now_ms);
        host.saves().attend(&self.table, host.settings());
        host.saves().watch_log(&self.table, host.settings());
        self.look_at_writes();
        let maintained_ms = || self.table.segment().load(header::MAINTAINED);
        let others = maintained_ms() != self.tended_ms.load(Ordering::Relaxed);
        if switches::maintenance_rests()
            || others && now_ms.saturating_sub(maintained_ms()) < MAINTENANCE_PAUSE_MS
        {
            return MAINTENANCE_PAUSE_MS;
        }
        // Otherwise the subscriptions of dead seats would cost every change something, where no
        // live seat listens.
        polder_hub::sweep::some(&self.table);
        let pause_ms = self.table.run_maintenance(MAINTENANCE_US).clamp(1, MAINTENANCE_PAUSE_MS);
        self.tended_ms.store(maintained_ms(), Ordering::Relaxed);
        pause_ms
    }

    /// Removes a segment: its name is free at once, and each process that is attached gets an error at its next call.
    ///
    /// # Errors
    /// [`Fault::System`] when there is no such segment or it may not be removed.
    pub fn remove(segment: &str) -> Result<(), Fault> {
        let name: SegmentName = segment.parse().map_err(|error| Fault::System(format!("{error}")))?;
        Segment::remove(&name)
    }

    /// Checks whether short calls may have to be refused their writes: with each round of
    /// maintenance, and after a change of settings.
    pub(crate) fn look_at_writes(&self) {
        self.wary.store(execute::writes_restricted(self.host()), Ordering::Relaxed);
    }

    /// Whether writes may have to be refused. One load.
    #[inline(always)]
    pub(crate) fn writes_restricted(&self) -> bool {
        self.wary.load(Ordering::Relaxed)
    }

    /// Refuses a write of a short call where the same command would be refused it: too few replicas, a save that failed.
    #[inline(always)]
    pub(crate) fn permit_writes(&self) -> Result<(), Stop> {
        if self.writes_restricted() { self.look_at_permit() } else { Ok(()) }
    }

    #[cold]
    fn look_at_permit(&self) -> Result<(), Stop> {
        execute::permit_writes(self.host())
    }

    /// Waits until all that was committed before this call, by whatever program, has been acknowledged by this many replicas and, where the memory has an
    /// append-only log, is on the disk. Returns false if it is not when the time is over: it stands in the memory, and a failover may lose it. Servers hold
    /// their replies to writes by themselves (`replies-await-replicas`); typed calls and [`Caller`]s return at once, and this is their means.
    ///
    /// # Errors
    /// [`Fault::System`] in a memory that is a replica, or becomes one meanwhile: what it has was written elsewhere.
    pub fn sync(&self, replicas: u64, timeout: Duration) -> Result<bool, Fault> {
        let segment = self.table.segment();
        let (role, begun) = (self.table.role(), Instant::now());
        let in_file = holds_replies(&self.table);
        let copies = Copies { csn: segment.replicas().seen(), in_file, replicas, in_files: false };
        copies.want(segment);
        loop {
            if role.is_replica() || self.table.role() != role {
                return Err(Fault::System("the memory is a replica: its primary tells what is kept".into()));
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if copies.are_made(segment) || left.is_zero() {
                // A role that has changed twice meanwhile would have made other copies of it.
                return Ok(copies.are_made(segment) && self.table.role() == role);
            }
            thread_state::nap(&self.table, left.min(waiting::COPIES_NAP));
        }
    }

    /// How long a CLIENT PAUSE still holds back writes, or reads.
    pub fn paused_for(&self, writes: bool) -> Duration {
        match polder_hub::query::paused(&self.table) {
            (0, _) => Duration::ZERO,
            (until_ms, writers_only) if writers_only && !writes && until_ms > now_ms() => Duration::ZERO,
            (until_ms, _) => {
                let left_ms = until_ms.saturating_sub(now_ms());
                if left_ms == 0 {
                    polder_hub::query::forget_pause(&self.table);
                }
                Duration::from_millis(left_ms)
            }
        }
    }

    /// Whether there may be a pause, or maintenance may be due: for calls that are too short to
    /// look at a clock.
    #[inline(always)]
    fn is_due(&self) -> bool {
        let left = CALLS_LEFT.get();
        CALLS_LEFT.set(left.wrapping_sub(1));
        left == 0 || self.may_be_paused()
    }

    /// Has the thread's next short call look whether something is due.
    #[cold]
    pub(crate) fn make_due() {
        CALLS_LEFT.set(0);
    }

    #[inline(always)]
    pub(crate) fn may_be_paused(&self) -> bool {
        self.table.segment().load(header::PAUSE) != 0
    }

    /// Draws after how many calls the thread looks again. It is random, so that a thread that goes
    /// round between several memories looks after all of them.
    fn draw_calls_left() {
        /// This many calls are shorter than the pause between two rounds of maintenance.
        const CALLS: u32 = 32;
        thread_local! {
            static DRAWN: Cell<u32> = const { Cell::new(1) };
        }
        // The constants are those of Numerical Recipes.
        let drawn = DRAWN.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        DRAWN.set(drawn);
        CALLS_LEFT.set(CALLS + (drawn >> 16) % (2 * CALLS));
    }

    /// What is due before a short call.
    #[cold]
    #[inline(never)]
    fn see_to(&self, writes: bool, waits: bool) -> Result<(), Stop> {
        Memory::draw_calls_left();
        // Inside a transaction no other work is begun, and nothing is waited for while locks are
        // held.
        let free = self.table.seat().is_ok_and(|seat| {
            let free = seat.enter();
            if free {
                seat.leave();
            }
            free
        });
        if !free {
            return Ok(());
        }
        self.maintain();
        loop {
            let left = self.paused_for(writes);
            if left.is_zero() {
                return Ok(());
            }
            if !waits {
                return Err(Stop::Busy);
            }
            std::thread::sleep(left.min(PAUSE_NAP));
        }
    }

    /// Typed calls on the database with this number (0 to 255).
    pub fn database(&self, number: u8) -> Database<'_> {
        Database::of(self, number.into())
    }

    /// The table, for programs that work below commands (verify, inspect).
    #[doc(hidden)]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Prefetches what the calls will touch, all at once, and finds out where it is; for callers
    /// that have many calls to make. `plan` is for [`Memory::execute_foreseen`], by the number
    /// of the call. With a pin (`Table::pinned`), what it says of keys stays valid for longer.
    #[doc(hidden)]
    pub fn prefetch<'c>(&self, calls: impl Iterator<Item = (Db, &'c [&'c [u8]])>, plan: &mut BatchPlan) {
        plan.calls.clear();
        plan.locations.clear();
        let mut keys: SmallVec<[(Db, &[u8]); 64]> = SmallVec::new();
        for (db, args) in calls {
            let command = args.first().and_then(|name| COMMANDS.find(name));
            let mut only = usize::MAX;
            // One that is named again and again is looked up once.
            let mut add = |key, most| {
                if keys.last() != Some(&(db, key)) && keys.len() < most {
                    keys.push((db, key));
                }
                keys.len() - 1
            };
            match (command, args) {
                (Some(command), [_, key, ..]) if command.has_one_key() => only = add(*key, usize::MAX),
                (Some(command), _) => command.each_key(args, |at, _| _ = add(args[at], PREFETCH_KEYS_MAX)),
                (None, _) => {}
            }
            plan.calls.push((command, only));
        }
        self.table.prefetch(keys.iter().copied(), &mut plan.locations);
    }

    /// As [`Memory::execute`], for call `number` of those that `plan` was made for.
    #[doc(hidden)]
    pub fn execute_foreseen(
        &self,
        session: &mut Session,
        host: &dyn Host,
        plan: &BatchPlan,
        number: usize,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Progress {
        let foresight = plan.calls.get(number).and_then(|(command, key)| {
            command.map(|command| CallHint {
                command,
                location: plan.locations.get(*key).and_then(Option::as_ref),
            })
        });
        let progress = polder_runtime::execute_foreseen(&self.table, session, host, foresight, args, reply);
        self.see_through(progress, session, host, reply)
    }

    /// What a call of a batch has in common with those around it that share its transaction: see [`Memory::execute_together`].
    #[doc(hidden)]
    #[inline]
    pub fn batch_key<'a>(&self, plan: &BatchPlan, number: usize, args: &[&'a [u8]]) -> Option<BatchKey<'a>> {
        plan.command(number).and_then(|command| command.batch_key(args))
    }

    /// Whether a session's calls that have this in common may share a transaction now.
    #[doc(hidden)]
    pub fn may_share(&self, session: &Session, host: &dyn Host, batch_key: BatchKey<'_>) -> bool {
        polder_runtime::may_share(&self.table, session, host, batch_key)
    }

    /// Runs the first of `calls` and those directly behind it that change the same key, or read it,
    /// as far as they may share a transaction. Returns how many have been run and have their
    /// replies; none if the session's patience was at its end.
    #[doc(hidden)]
    pub fn execute_together(
        &self,
        session: &mut Session,
        host: &dyn Host,
        calls: &[&[&[u8]]],
        reply: &mut dyn Reply,
    ) -> (usize, Progress) {
        polder_runtime::execute_together(&self.table, session, host, calls, reply)
    }

    /// Runs calls of one command as one transaction: see [`polder_runtime::execute_group`].
    #[doc(hidden)]
    pub fn execute_group(
        &self,
        session: &mut Session,
        host: &dyn Host,
        calls: &[&[&[u8]]],
        reply: &mut dyn Reply,
    ) -> bool {
        polder_runtime::execute_group(&self.table, session, host, calls, reply)
    }

    /// Runs one call and writes exactly one reply, unless the session's patience has a limit and that is reached.
    #[doc(hidden)]
    pub fn execute(
        &self,
        session: &mut Session,
        host: &dyn Host,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Progress {
        let command = args.first().and_then(|name| COMMANDS.find(name));
        let hint = command.map(|command| CallHint { command, location: None });
        let progress = polder_runtime::execute_foreseen(&self.table, session, host, hint, args, reply);
        self.see_through(progress, session, host, reply)
    }

    /// Waits with a call that waits, if its caller has no event loop to do so.
    #[inline]
    fn see_through(
        &self,
        progress: Progress,
        session: &mut Session,
        host: &dyn Host,
        reply: &mut dyn Reply,
    ) -> Progress {
        if progress == Progress::Waiting && !session.caller.parks {
            return waiting::wait(self, session, host, reply);
        }
        if progress == Progress::Busy && !session.caller.parks {
            // It may have stopped at stubs. A caller that has an event loop asks for all its calls together.
            polder_hub::tier::send(&self.table, false);
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_alternates_between_memories_maintains_all_of_them() {
        for count in [2, 3, 4, 8, 64] {
            let names: Vec<String> = (0..count)
                .map(|number| format!("shm:polder-round-{number}-{}", std::process::id()))
                .collect();
            let attach = |name: &String| {
                Memory::attach(&Options { segment: name.clone(), ceiling: 16 << 20, ..Options::default() })
            };
            let memories: Vec<Memory> = names.iter().map(|name| attach(name).expect("a segment")).collect();
            for _ in 0..2_000 {
                memories.iter().for_each(|memory| {
                    assert!(memory.database(0).read(b"key", |value| value.is_none()).expect("readable"))
                });
            }
            let idle = memories
                .iter()
                .filter(|memory| memory.maintenance_due_ms.load(Ordering::Relaxed) == 0)
                .count();
            names.iter().for_each(|name| Memory::remove(name).expect("it is there"));
            assert_eq!(idle, 0, "of {count}");
        }
    }

    #[test]
    fn a_call_with_very_many_keys_leaves_little_behind() {
        let segment = format!("shm:polder-plan-{}", std::process::id());
        let memory =
            Memory::attach(&Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() })
                .expect("a segment");
        memory.database(0).set(b"key", b"value").expect("room");
        let names: Vec<String> = (0..100_000).map(|number| format!("key{number}")).collect();
        let many: Vec<&[u8]> =
            std::iter::once(&b"DEL"[..]).chain(names.iter().map(String::as_bytes)).collect();
        let mut plan = BatchPlan::default();
        memory.prefetch([(0, &many[..]), (0, &[&b"GET"[..], b"key"])].into_iter(), &mut plan);
        assert!(plan.locations.capacity() <= 2 * PREFETCH_KEYS_MAX, "{}", plan.locations.capacity());
        // The call after it is prefetched nevertheless.
        assert_eq!(plan.locations.len() - 1, plan.calls[1].1);
        Memory::remove(&segment).expect("it is there");
    }
}
