//! A replica's connection: a copy of the data, then the change log, until one side ends.
//!
//! - **F1** The record of the replica holds the log from before the cut of its copy on. So what follows the copy is there when the
//!   copy has been sent.
//! - **F2** The copy is a snapshot at an offset of the log. The bytes of the log from that offset on are sent as they are: a stock
//!   server counts them, and asks for the next one after a break.
//! - **F3** A replica without a sign of life for `repl-timeout` is given up, and so is one for which the log is no longer kept. Before its first
//!   acknowledgement the log is held from what it has been sent on. So what it takes is a sign, and a line feed is one while it loads its copy. From then
//!   on the log is held from what it has acknowledged on, and nothing but an acknowledgement is a sign: Redis takes any byte for one, and has no log
//!   for others to keep.
//! - **F4** A replica whose copy the log does not reach any more is given up, and the next copy is begun after a pause (C4 of `copies.rs`).
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use polder_base::time::now_ms;
use polder_calls::settings::id;
use polder_shm::machine::random_seed;
use polder_shm::replicas::Rest;
use polder_table::{Counter, Table};
use polder_wire::resp::{Limits, Request, Requests};

use super::attaching::{self, ATTACHED, REFUSED};
use super::copies::Copies;
use super::face::Face;
use super::lag::Lag;
use super::line::Line;
use super::records::{self, Record, State};
use polder_persist::followers::{self, Place};
use polder_runtime::configuration::Configuration;
use polder_runtime::session::{Replica, SyncRequest};
use polder_runtime::{acl, lookup};

/// Bytes that are sent at once.
const SEND_BYTES: usize = 256 << 10;
/// The period of writing the record, and of line feeds to a replica while its copy is made.
const NOTE_PERIOD: Duration = Duration::from_secs(1);
/// The pause between two looks at what another thread does: this long at first, then twice as long each time, up to the longest sleep without news.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// The time for which a server that ends goes on sending earlier commits.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// The share of a segment that the backlog may take at most.
const BACKLOG_SHARE: u64 = 8;
/// Bytes of requests that are kept: acknowledgements are short.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// A connection that only one thread uses.
pub trait Link {
    /// Sends what the peer takes at once; returns how many bytes these are.
    ///
    /// # Errors
    /// `WouldBlock` if it takes nothing; what the system says.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Takes what has come, without waiting; 0 is the peer's end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has come; what the system says.
    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Waits until the peer sends something, takes something if there is something to send, or `wakeup` becomes readable: no longer than `patience`.
    ///
    /// # Errors
    /// Errors of the system.
    fn wait(&mut self, sends: bool, wakeup: Option<BorrowedFd<'_>>, patience: Duration) -> io::Result<()>;
}

/// The surroundings of a feed.
pub struct Feed<'f> {
    pub table: &'f Table,
    pub settings: &'f Configuration,
    /// Counts replicas that were too far behind.
    pub limited: &'f AtomicU64,
    pub copies: &'f Copies,
    pub stops: &'f AtomicBool,
    /// The client, and the address from which it came.
    pub face: &'f Face,
    pub peer: String,
    /// The user by whose rights it gets the data, and what it has sent behind its request.
    pub user: Vec<u8>,
    pub rest: Vec<u8>,
}

/// The state of one feed.
struct Feeding<'f, 'l> {
    feed: &'f Feed<'f>,
    link: &'l mut dyn Link,
    record: Record,
    /// The record that an earlier feed of the replica has left, whose slot this one takes.
    earlier: Option<Place>,
    line: Line<'f>,
    /// It becomes readable when a writer wakes this thread.
    wakeup: Option<OwnedFd>,
    lag: Lag,
    identity: String,
    place: u64,
    noted: Instant,
    heard: Instant,
    /// The moment at which the log last moved.
    moved: Instant,
    /// The moment at which it has asked for a copy.
    asked: Option<Instant>,
    /// It has been sent a copy, or makes one, and has not acknowledged anything since.
    loads: bool,
    /// The end of the copy that it was to make: the offset of the cut, or that it makes none.
    attached: Option<Option<u64>>,
    input: Vec<u8>,
    requests: Requests,
    /// The version of RDB files that the replica is known to read.
    version: Option<u32>,
    timeout: Duration,
}

impl Feed<'_> {
    /// Feeds a replica until the connection, the log or the server ends.
    ///
    /// # Errors
    /// Why it has ended, in words, unless the server ends.
    pub fn run(&self, replica: &Replica, link: &mut dyn Link) -> Result<(), String> {
        let Some(order) = &replica.order else { return Ok(()) };
        let seat = self.table.seat().map_err(|fault| fault.to_string())?;
        seat.note_lost();
        let log = self.table.log();
        if !log.is_on() {
            log.turn_on().map_err(|fault| format!("the change log cannot be turned on: {fault}"))?;
        }
        let share = self.table.segment().geometry().ceiling / BACKLOG_SHARE;
        log.keep((self.settings.number(const { id("repl-backlog-size") }).max(0) as u64).min(share), 0);
        let now = Instant::now();
        let mut feeding = Feeding {
            record: Record {
                name: self.name_for(replica)?,
                seat: seat.index(),
                life: seat.life(),
                address: replica.address.clone().unwrap_or_else(|| self.peer.clone()),
                port: replica.port,
                state: State::Copies,
                acknowledged: 0,
                acknowledged_ms: 0,
            },
            earlier: None,
            line: Line::of(self.table),
            // Without one it looks by the clock.
            wakeup: seat.wakeup_fifo().ok(),
            lag: Lag::from(log.range().1, log.range().1),
            feed: self,
            link,
            identity: log.identity(),
            place: log.range().1,
            noted: now,
            heard: now,
            moved: now,
            asked: None,
            loads: false,
            attached: None,
            input: self.rest.clone(),
            requests: Requests::default(),
            version: replica.rdb_version,
            timeout: Duration::from_secs(self.settings.number(const { id("repl-timeout") }).max(1) as u64),
        };
        let fed = feeding.begin(order, replica).and_then(|()| feeding.stream());
        feeding.note_overrun();
        if feeding.record.acknowledged_ms == 0 {
            // One that has never followed does not come back for more.
            let forgotten = followers::forget(self.table, feeding.record.name.as_bytes());
            return fed.and(forgotten.map(drop).map_err(|stop| stop.to_string()));
        }
        // Its record holds the log for a while (`records::clear`).
        fed
    }

    /// The name of the record. One that a replica is to find in the memory is none that can be guessed (T1 of
    /// `attaching.rs`).
    fn name_for(&self, replica: &Replica) -> Result<String, String> {
        let name = format!("replica:{}:{}", std::process::id(), self.face.id());
        if !replica.attaches {
            return Ok(name);
        }
        let word = u128::from_le_bytes(random_seed().map_err(|fault| fault.to_string())?);
        Ok(format!("{name}:{word:032x}"))
    }

    /// Returns true if the replica's user may still get the data.
    fn is_permitted(&self) -> bool {
        let users = self.settings.users();
        users.refresh(self.table);
        let command = lookup::find(b"PSYNC").expect("it is a row");
        users.now().find(&self.user).is_some_and(|user| {
            user.on && acl::check::check_user(user, command, &[b"PSYNC", b"?", b"-1"]).is_ok()
        })
    }
}

impl Feeding<'_, '_> {
    /// F4. A feed has ended.
    fn note_overrun(&self) {
        let log = self.feed.table.log();
        let is_trimmed = log.is_on() && log.identity() == self.identity && self.place < log.range().0;
        if let Some(asked) = self.asked.filter(|_| self.record.acknowledged_ms == 0 && is_trimmed) {
            self.feed.table.count(Counter::SyncsOverrun, 1);
            self.feed.copies.overrun(asked);
        }
    }

    /// Goes on where the replica was, if the log is still kept from there on; else sends a copy.
    fn begin(&mut self, order: &SyncRequest, replica: &Replica) -> Result<(), String> {
        let table = self.feed.table;
        let continued = self.continued(order);
        self.earlier = records::earlier(table, &self.record, &self.identity, continued)
            .map_err(|stop| stop.to_string())?;
        if let Some(place) = continued {
            self.place = place;
            // It says that it has what lies before: its record stays if the connection ends at once.
            (self.record.acknowledged, self.record.acknowledged_ms) = (place, now_ms());
            self.lag = Lag::from(table.log().range().1, place);
            if self.note().is_ok() {
                let line = match replica.knows_identities {
                    true => format!("+CONTINUE {}\r\n", self.identity),
                    false => "+CONTINUE\r\n".into(),
                };
                table.count(Counter::SyncsPartial, 1);
                return self.send(line.as_bytes());
            }
        }
        (self.record.acknowledged, self.record.acknowledged_ms) = (0, 0);
        if order.from.as_ref().is_some_and(|(identity, _)| identity != "?") {
            table.count(Counter::SyncsRefused, 1);
        }
        table.count(Counter::SyncsFull, 1);
        self.hold_end()?;
        if replica.attaches && !order.is_sync && self.lend()? {
            return Ok(());
        }
        self.send_copy(order.is_sync)
    }

    /// Has a replica on this host read the memory by itself. Returns false where it cannot.
    fn lend(&mut self) -> Result<bool, String> {
        self.await_pause()?;
        self.asked = Some(Instant::now());
        (self.loads, self.heard) = (true, Instant::now());
        let order = attaching::order(self.feed.table, &self.record.name);
        self.send(order.as_bytes())?;
        let cut = loop {
            if let Some(cut) = self.attached.take() {
                break cut;
            }
            if self.is_over() {
                return Err("the server ends".into());
            }
            self.link.wait(false, None, PAUSE_MAX).map_err(|error| error.to_string())?;
            self.listen()?;
            self.check_patience()?;
            self.stay_awake()?;
        };
        (self.loads, self.heard) = (cut.is_some(), Instant::now());
        let Some(offset) = cut else { return Ok(false) };
        self.place = self.feed.table.log().place_of(offset);
        self.note()?;
        let Record { address, port, .. } = &self.record;
        tracing::info!(replica = address, port, "a replica on this host has copied the data by itself");
        // Behind the line feeds that it has not read.
        self.send(format!("+CONTINUE {}\r\n", self.identity).as_bytes())?;
        Ok(true)
    }

    /// The place from which the replica can go on. It names the first byte that it wants, counted from 1.
    fn continued(&self, order: &SyncRequest) -> Option<u64> {
        let (identity, offset) = order.from.as_ref()?;
        let log = self.feed.table.log();
        let (place, (first, end)) = (log.place_of(offset.checked_sub(1)?), log.range());
        let continues = self.feed.table.segment().log_continues(identity.as_bytes(), place);
        (continues && (first..=end).contains(&place)).then_some(place)
    }

    /// C4.
    fn await_pause(&mut self) -> Result<(), String> {
        while self.feed.copies.pauses() {
            if self.is_over() {
                return Err("the server ends".into());
            }
            self.link.wait(false, None, PAUSE_MAX).map_err(|error| error.to_string())?;
            self.listen()?;
            if self.noted.elapsed() >= NOTE_PERIOD {
                self.send(b"\n")?;
                self.hold_end()?;
            }
        }
        self.hold_end()
    }

    /// F1: holds the log from its end on.
    fn hold_end(&mut self) -> Result<(), String> {
        self.place = self.feed.table.log().range().1;
        self.note()
    }

    /// Has a replica that waits for its copy hear a line feed each second.
    fn stay_awake(&mut self) -> Result<(), String> {
        if self.noted.elapsed() >= NOTE_PERIOD {
            self.send(b"\n")?;
            self.noted = Instant::now();
            // A copy that cannot be followed is of no use.
            self.check()?;
        }
        Ok(())
    }

    /// Gets a copy, and sends it. Meanwhile the replica hears a line feed each second.
    fn send_copy(&mut self, is_sync: bool) -> Result<(), String> {
        let (table, settings) = (self.feed.table, self.feed.settings);
        self.await_pause()?;
        self.asked = Some(Instant::now());
        let made = {
            let ticket = self.feed.copies.join(table, settings, self.version, &self.identity)?;
            loop {
                // C1.
                if let Some(offset) = ticket.cut().filter(|offset| *offset != self.place) {
                    self.place = offset;
                    self.note()?;
                }
                if let Some(made) = ticket.wait(PAUSE_MAX)? {
                    break made;
                }
                if self.is_over() {
                    return Err("the server ends".into());
                }
                // One that has gone makes room for others at once.
                self.listen()?;
                self.stay_awake()?;
            }
        };
        self.place = made.offset;
        self.note()?;
        if !is_sync {
            self.send(format!("+FULLRESYNC {} {}\r\n", self.identity, made.stream_offset).as_bytes())?;
        }
        let length = made.file.metadata().map_err(|error| error.to_string())?.len();
        self.send(format!("${length}\r\n").as_bytes())?;
        let (mut at, mut bytes, mut asked) = (0, vec![0; SEND_BYTES], Instant::now());
        while at < length {
            if asked.elapsed() >= NOTE_PERIOD {
                self.check_rights()?;
                asked = Instant::now();
            }
            let count = made.file.read_at(&mut bytes, at).map_err(|error| error.to_string())?;
            if count == 0 || self.is_over() {
                return Err("the copy was not sent as a whole".into());
            }
            self.send(&bytes[..count])?;
            at += count as u64;
            // A copy that cannot be followed by the log is of no use.
            self.check()?;
        }
        tracing::info!(
            replica = self.record.address,
            port = self.record.port,
            keys = made.keys,
            bytes = length,
            "a replica has the data"
        );
        (self.loads, self.heard) = (true, Instant::now());
        Ok(())
    }

    /// F2.
    fn stream(&mut self) -> Result<(), String> {
        self.record.state = State::Online;
        self.line.go_online();
        self.note()?;
        let log = self.feed.table.log();
        let ping = Duration::from_secs(
            self.feed.settings.number(const { id("repl-ping-replica-period") }).max(1) as u64,
        );
        let (mut bytes, mut pause, mut ends) = (Vec::new(), PAUSE_MIN, None);
        loop {
            // Where there is no memory for the log, what is not merged stays where it is, and is merged later.
            let _ = log.merge();
            if let Some(wanted) = self.feed.table.segment().replicas().unasked() {
                // If another thread has the lock of the log, the next round tries again.
                let _ = log.ask(&[b"REPLCONF", b"GETACK", b"*"], wanted);
            }
            bytes.clear();
            let next = log.read(self.place, &mut bytes, SEND_BYTES).map_err(|error| error.to_string())?;
            if !log.is_on() || log.identity() != self.identity {
                return Err("the stream has ended, and another one has begun".into());
            }
            if next != self.place {
                self.send(&bytes)?;
                (self.place, self.moved, pause) = (next, Instant::now(), PAUSE_MIN);
            } else if self.is_over()
                && (self.has_all()
                    || *ends.get_or_insert_with(|| Instant::now() + END_PATIENCE) <= Instant::now())
            {
                return Ok(());
            } else {
                self.rest(&mut pause)?;
            }
            self.listen()?;
            self.check_patience()?;
            self.check_lag()?;
            if self.noted.elapsed() >= NOTE_PERIOD {
                self.check_rights()?;
                // Without memory for the record the log is kept as it was.
                self.note().or_else(|_| self.check())?;
            }
            if self.moved.elapsed() >= ping {
                self.moved = Instant::now();
                // Where there is no memory for it, the next one is tried as late.
                let _ = log.append_at(self.place, &[b"PING"]);
            }
        }
    }

    /// Sleeps until there is something to send or the replica sends something, and no longer than [`PAUSE_MAX`].
    fn rest(&mut self, pause: &mut Duration) -> Result<(), String> {
        if *pause == PAUSE_MIN {
            // Under load there is more by then, and no writer has to wake this thread for each of its commits.
            *pause *= 2;
            return self.link.wait(false, None, PAUSE_MIN).map_err(|error| error.to_string());
        }
        let seat = self.feed.table.seat().map_err(|fault| fault.to_string())?;
        let is_woken = self.wakeup.is_some() && seat.prepare_sleep();
        let patience = match self.feed.table.segment().replicas().await_writer(&seat, self.place) {
            Rest::Long if is_woken => PAUSE_MAX,
            _ => std::mem::replace(pause, (*pause * 2).min(PAUSE_MAX)),
        };
        let wakeup = self.wakeup.as_ref().map(AsFd::as_fd);
        let waited = self.link.wait(false, wakeup, patience).map_err(|error| error.to_string());
        seat.after_sleep();
        let mut bytes = [0; 256];
        while wakeup
            .is_some_and(|wakeup| rustix::io::read(wakeup, &mut bytes).is_ok_and(|count| count == 256))
        {
        }
        waited
    }

    /// Returns true if all that was committed has been sent.
    fn has_all(&self) -> bool {
        let log = self.feed.table.log();
        !log.has_more() && log.range().1 == self.place
    }

    /// Returns an error if the log is not kept from the place on.
    fn check(&self) -> Result<(), String> {
        let place = self.record.place(&self.identity, self.place);
        followers::check(self.feed.table, &place).map_err(|stop| stop.to_string())
    }

    /// Returns an error if the replica's user may not have the data any more.
    fn check_rights(&self) -> Result<(), String> {
        if self.feed.is_permitted() { Ok(()) } else { Err("its user may not use PSYNC any more".into()) }
    }

    /// F3.
    fn check_patience(&self) -> Result<(), String> {
        // Whole seconds, as in Redis: a replica acknowledges once a second.
        if self.heard.elapsed().as_secs() <= self.timeout.as_secs() {
            Ok(())
        } else {
            Err("it takes and acknowledges nothing (repl-timeout)".into())
        }
    }

    /// Returns an error if the replica has taken too little of the stream.
    fn check_lag(&mut self) -> Result<(), String> {
        let end = self.feed.table.log().range().1;
        self.feed.face.fall_behind(end.saturating_sub(self.place));
        if self.record.acknowledged_ms == 0 {
            self.lag = Lag::from(end, self.place);
            return Ok(());
        }
        self.lag.look(self.feed.settings, end, self.place).inspect_err(|_| {
            self.feed.limited.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn is_over(&self) -> bool {
        self.feed.stops.load(Ordering::Acquire) || self.feed.table.segment().removed()
    }

    /// Sends all bytes. Meanwhile it hears the line feeds of a replica that loads its copy and takes nothing.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.link.send(bytes) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    // F3.
                    if self.record.acknowledged_ms == 0 {
                        self.heard = Instant::now();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.link.wait(true, None, NOTE_PERIOD).map_err(|error| error.to_string())?;
                    self.listen()?;
                    self.check_patience()?;
                    self.check_lag()?;
                    if self.loads {
                        self.check()?;
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    /// Writes the record, which holds the log: from what the replica has acknowledged on, so that it can go on after a break, or else from the
    /// place on.
    fn note(&mut self) -> Result<(), String> {
        self.noted = Instant::now();
        let from = match self.record.acknowledged_ms {
            0 => self.place,
            _ => self.record.acknowledged.min(self.place),
        };
        let keep = |from| {
            let place = self.record.place(&self.identity, from);
            followers::keep_instead(self.feed.table, &place, self.earlier.as_ref())
        };
        let slot = keep(from).or_else(|_| keep(self.place)).map_err(|stop| stop.to_string())?;
        self.earlier = None;
        self.line.stand_in(slot);
        Ok(())
    }

    /// Takes acknowledgements.
    fn listen(&mut self) -> Result<(), String> {
        let mut bytes = [0; 4096];
        match self.link.receive(&mut bytes) {
            Ok(0) => return Err("it has closed the connection".into()),
            Ok(count) => {
                // F3. It sends line feeds.
                if self.loads {
                    self.heard = Instant::now();
                }
                self.input.extend_from_slice(&bytes[..count]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
        let limits = Limits { bulk_bytes_max: REQUEST_BYTES_MAX, stranger: true };
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        loop {
            let mut words = Vec::new();
            match self.requests.read(&mut rest, &limits, &mut words) {
                Ok(Some(Request::Bulks(_))) => self.hear(&words),
                Ok(Some(Request::Inline(_))) => {}
                Ok(None) => break,
                Err(_) => return Err("it sends something other than acknowledgements".into()),
            }
        }
        self.input = rest.to_vec();
        if self.input.len() > REQUEST_BYTES_MAX { Err("it sends a long request".into()) } else { Ok(()) }
    }

    fn hear(&mut self, words: &[&[u8]]) {
        let [name, pairs @ ..] = words else { return };
        if !name.eq_ignore_ascii_case(b"REPLCONF") {
            return;
        }
        if let [option, value] = pairs
            && *option == ATTACHED
        {
            let offset = polder_base::number::unsigned(value);
            self.attached = if *value == REFUSED { Some(None) } else { offset.map(Some).or(self.attached) };
            return;
        }
        let place_of = |option: &[u8]| {
            let pair = pairs.chunks_exact(2).find(|pair| pair[0].eq_ignore_ascii_case(option))?;
            // No honest replica acknowledges bytes that were never sent.
            let place = self.feed.table.log().place_of(polder_base::number::unsigned(pair[1])?);
            Some(place).filter(|place| *place <= self.place)
        };
        if let Some(place) = place_of(b"ACK") {
            // Before calls that wait for it go on, and look.
            self.feed.face.hear();
            if std::mem::take(&mut self.loads) {
                self.feed.copies.succeed();
            }
            self.heard = Instant::now();
            self.line.acknowledge(place, place_of(b"FACK"));
            if self.record.acknowledged_ms == 0 {
                // Its record is due: from now on it is kept for a while where the feed dies.
                self.noted = self.noted.checked_sub(NOTE_PERIOD).unwrap_or(self.noted);
            }
            (self.record.acknowledged, self.record.acknowledged_ms) = (place, now_ms());
        }
    }
}
