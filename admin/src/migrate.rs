//! MIGRATE: keys go to another server, and from here when they are there.
//!
//! ```text
//!   this thread            read values and versions -> ...            ... -> take away what has not changed since
//!   a thread of its own    connect -> AUTH, SELECT, RESTORE ... -> replies
//! ```
//! The network is the business of a thread of its own: the client's own thread is told that the call waits (as for a lock) and asks again
//! now and then, so that no event loop stands still. A key that has changed meanwhile is sent once more before it goes from here.
//! Inside EXEC and scripts, which cannot wait, it is refused.
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use polder_base::number;
use polder_table::{Db, Mode, Replaces, Stop};
use polder_wire::resp::{Replies, Value, command};

use polder_calls::call::{NOT_AN_INTEGER, Outcome, SYNTAX, is};
use polder_calls::command::{DANGEROUS, WRITE};
use polder_calls::facts::Tells::Own;
use polder_calls::facts::secrets_of_options;
use polder_calls::settings::id;
use polder_commands::dump::{Source, encode, writer};
use polder_runtime::retry::retry;
use polder_runtime::row::{Row, SessionCall, session};
use polder_runtime::run::begin;

/// The family's rows.
pub const COMMANDS: &[Row] = &[session(
    "MIGRATE",
    "host port key destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username password] [KEYS key [key ...]]",
    migrate,
)
.tells(Own("`DEL key ...`"))
.locates(locate)
.with(WRITE | DANGEROUS)
.secrets(|args, hide| secrets_of_options(args, 6, &[("AUTH", 1, true), ("AUTH2", 2, true)], hide))
.touches(&["RW access delete"])
.tips(&["nondeterministic_output"])
.since("2.6.0")
.costs("That of DUMP and DEL here and of RESTORE in the target instance, and O(N) for the transfer.")
.changed(&[("3.0.0", "Takes `COPY` and `REPLACE`."), ("3.0.6", "Takes `KEYS`."), ("4.0.7", "Takes `AUTH`."), ("6.0.0", "Takes `AUTH2`.")])
.about("Transfers keys to another server, and takes them away here.")];

const CONNECTING: &str = "IOERR error or timeout connecting to the client";
const WRITING: &str = "IOERR error or timeout writing to target instance";
const READING: &str = "IOERR error or timeout reading to target instance";

/// How often a key is sent that changes all the time.
const ATTEMPTS_MAX: u32 = 100;

/// What a call asks for.
#[derive(Clone, Debug, Default)]
struct Order {
    host: String,
    port: u16,
    db: i64,
    timeout: Duration,
    copies: bool,
    replaces: bool,
    login: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
}

/// A value on its way.
#[derive(Clone, Debug)]
struct MigrateBatch {
    key: Vec<u8>,
    version: u64,
    left_ms: u64,
    payload: Vec<u8>,
}

/// A call of MIGRATE, which its session keeps while it waits.
pub struct MigrateJob {
    order: Order,
    batches: Vec<MigrateBatch>,
    attempts: u32,
    is_done: AtomicBool,
    /// Which batches have come to their end, and what went wrong first.
    outcome: Mutex<(Vec<bool>, Option<String>)>,
}

fn migrate(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.caller.atomic {
        return Err("ERR MIGRATE waits for another server, which EXEC and scripts cannot".into());
    }
    let mut job = match call.session.migration.take().and_then(|job| job.downcast::<MigrateJob>().ok()) {
        Some(job) => job,
        None => match depart(call, read_order(call)?, 0)? {
            Some(job) => job,
            None => {
                call.reply.status("NOKEY");
                return Ok(());
            }
        },
    };
    loop {
        while !job.is_done.load(Ordering::Acquire) {
            if call.session.clock.patience_us != 0 {
                call.session.migration = Some(job);
                return Err(Stop::Busy);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let changed = match arrive(call, &job) {
            Err(Stop::Busy) => {
                call.session.migration = Some(job);
                return Err(Stop::Busy);
            }
            changed => changed?,
        };
        if let Some(why) = &job.outcome.lock().unwrap_or_else(PoisonError::into_inner).1 {
            return Err(why.clone().into());
        }
        if changed.is_empty() {
            call.reply.ok();
            return Ok(());
        }
        if job.attempts >= ATTEMPTS_MAX {
            return Err("IOERR the keys change faster than they can be sent".into());
        }
        // They are there already, as they were.
        let order = Order { keys: changed, replaces: true, ..job.order.clone() };
        match depart(call, order, job.attempts + 1)? {
            Some(again) => job = again,
            None => {
                call.reply.ok();
                return Ok(());
            }
        }
    }
}

fn read_order(call: &SessionCall<'_>) -> Result<Order, Stop> {
    let args = call.args;
    let mut order = Order { keys: vec![args[3].to_vec()], ..Order::default() };
    let mut at = 6;
    while at < args.len() {
        let more = args.len() - at - 1;
        match () {
            () if is(args[at], "COPY") => order.copies = true,
            () if is(args[at], "REPLACE") => order.replaces = true,
            () if is(args[at], "AUTH") && more >= 1 => {
                order.login = vec![b"AUTH".to_vec(), args[at + 1].to_vec()];
                at += 1;
            }
            () if is(args[at], "AUTH2") && more >= 2 => {
                order.login = vec![b"AUTH".to_vec(), args[at + 1].to_vec(), args[at + 2].to_vec()];
                at += 2;
            }
            () if is(args[at], "KEYS") => {
                if !args[3].is_empty() {
                    return Err("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string".into());
                }
                order.keys = args[at + 1..].iter().map(|key| key.to_vec()).collect();
                break;
            }
            () => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    let timeout = number::integer(args[5]).ok_or(NOT_AN_INTEGER)?;
    order.db = number::integer(args[4]).ok_or(NOT_AN_INTEGER)?;
    order.timeout = Duration::from_millis(if timeout <= 0 { 1000 } else { timeout as u64 });
    order.host = String::from_utf8_lossy(args[1]).into_owned();
    // What is no port number becomes port 0, where no server listens.
    order.port = number::integer(args[2]).and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    Ok(order)
}

/// Reads the values and sends them off; `None` where none of the keys is there.
fn depart(call: &SessionCall<'_>, order: Order, attempts: u32) -> Result<Option<Arc<MigrateJob>>, Stop> {
    let (db, settings) = (call.session.caller.db, call.host.settings());
    let txn = begin(call.table, call.session, Mode::Read)?;
    let mut batches = Vec::new();
    retry(&txn, || {
        batches.clear();
        for key in &order.keys {
            let Some(found) = txn.find(db, key)? else { continue };
            let mut writer = writer(settings);
            let drops_expiries = settings.is_on(const { id("rdb-drop-field-expiries") });
            let source = Source { nodes: &txn, now_ms: txn.now_ms(), drops_expiries };
            encode(&mut writer, &source, found.kind, &found.value, &mut |_| Ok(()))?;
            let left_ms =
                found.expiry_ms.map_or(0, |expiry_ms| expiry_ms.saturating_sub(txn.now_ms()).max(1));
            batches.push(MigrateBatch {
                key: key.clone(),
                version: found.version,
                left_ms,
                payload: writer.seal(),
            });
        }
        Ok(())
    })?;
    drop(txn);
    if batches.is_empty() {
        return Ok(None);
    }
    let outcome = Mutex::new((vec![false; batches.len()], None));
    let job = Arc::new(MigrateJob { order, batches, attempts, is_done: AtomicBool::new(false), outcome });
    let traveller = job.clone();
    let thread = std::thread::Builder::new().name("polder-migrate".into()).spawn(move || {
        let outcome = travel(&traveller);
        *traveller.outcome.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        traveller.is_done.store(true, Ordering::Release);
    });
    thread.map_err(|error| Stop::from(format!("IOERR {error}")))?;
    Ok(Some(job))
}

/// Removes the keys that have arrived there. Returns those that have changed since they were read.
fn arrive(call: &SessionCall<'_>, job: &MigrateJob) -> Result<Vec<Vec<u8>>, Stop> {
    let mut changed = Vec::new();
    if job.order.copies {
        return Ok(changed);
    }
    let db = call.session.caller.db;
    let arrived = job.outcome.lock().unwrap_or_else(PoisonError::into_inner).0.clone();
    let batches: Vec<&MigrateBatch> =
        job.batches.iter().zip(&arrived).filter(|(_, is_there)| **is_there).map(|(batch, _)| batch).collect();
    let txn = begin(call.table, call.session, Mode::Write)?;
    let declared: Vec<(Db, &[u8])> = batches.iter().map(|batch| (db, &batch.key[..])).collect();
    retry(&txn, || {
        changed.clear();
        txn.declare(&declared)?;
        for batch in &batches {
            match txn.peek(db, &batch.key)? {
                Some(found) if found.version == batch.version => {
                    let mark = txn.mark();
                    txn.remove(db, &batch.key, Replaces::Whole)?;
                    txn.tell(db, &[b"DEL", &batch.key]);
                    txn.account(mark);
                }
                Some(_) => changed.push(batch.key.clone()),
                None => {}
            }
        }
        Ok(())
    })?;
    Ok(changed)
}

/// Sends all batches and hears what the other server says: which have arrived, and what went wrong first.
fn travel(job: &MigrateJob) -> (Vec<bool>, Option<String>) {
    let mut arrived = vec![false; job.batches.len()];
    let trouble = go(job, &mut arrived).err();
    (arrived, trouble)
}

fn go(job: &MigrateJob, arrived: &mut [bool]) -> Result<(), String> {
    let Order { host, port, db, timeout, replaces, login, .. } = &job.order;
    let mut socket = connect(host, *port, *timeout).ok_or(CONNECTING)?;
    let mut request = Vec::new();
    let mut steps = vec![b"SELECT".to_vec(), db.to_string().into_bytes()];
    if !login.is_empty() {
        command(login, &mut request);
    }
    command(&steps, &mut request);
    for MigrateBatch { key, left_ms, payload, .. } in &job.batches {
        steps = vec![b"RESTORE".to_vec(), key.clone(), left_ms.to_string().into_bytes(), payload.clone()];
        if *replaces {
            steps.push(b"REPLACE".to_vec());
        }
        command(&steps, &mut request);
    }
    socket.write_all(&request).map_err(|_| WRITING)?;
    let mut hearing = Hearing { socket, replies: Replies::default(), input: Vec::new() };
    let said =
        |text: Vec<u8>| format!("ERR Target instance replied with error: {}", String::from_utf8_lossy(&text));
    let mut trouble = None;
    for _ in 0..1 + usize::from(!login.is_empty()) {
        if let Value::Error(text) = hearing.next().ok_or(READING)? {
            trouble.get_or_insert_with(|| said(text));
        }
    }
    // Without the right database it would be anywhere.
    let is_home = trouble.is_none();
    for is_there in arrived {
        match hearing.next().ok_or(READING)? {
            Value::Error(text) => trouble = trouble.or(Some(said(text))),
            _ => *is_there = is_home,
        }
    }
    trouble.map_or(Ok(()), Err)
}

fn connect(host: &str, port: u16, timeout: Duration) -> Option<TcpStream> {
    let places = (host, port).to_socket_addrs().ok()?;
    let socket = places.into_iter().find_map(|place| TcpStream::connect_timeout(&place, timeout).ok())?;
    socket.set_nodelay(true).ok()?;
    socket.set_read_timeout(Some(timeout)).ok()?;
    socket.set_write_timeout(Some(timeout)).ok()?;
    Some(socket)
}

/// The other server's replies.
struct Hearing {
    socket: TcpStream,
    replies: Replies,
    input: Vec<u8>,
}

impl Hearing {
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut rest = &self.input[..];
            let read = self.replies.read(&mut rest);
            let taken = self.input.len() - rest.len();
            self.input.drain(..taken);
            if let Some(value) = read.ok()? {
                return Some(value);
            }
            let mut chunk = [0; 16 << 10];
            match self.socket.read(&mut chunk) {
                Ok(count @ 1..) => self.input.extend_from_slice(&chunk[..count]),
                _ => return None,
            }
        }
    }
}

/// Where a call's keys stand: behind KEYS if the fourth word is empty, else there.
fn locate(args: &[&[u8]], show: &mut dyn FnMut(usize, usize)) {
    let Some(key) = args.get(3) else { return };
    if !key.is_empty() {
        return show(3, 0);
    }
    let mut at = 6;
    while let Some(word) = args.get(at) {
        at += match () {
            () if is(word, "KEYS") => return (at + 1..args.len()).for_each(|at| show(at, 0)),
            // A password may be any word.
            () if is(word, "AUTH") => 2,
            () if is(word, "AUTH2") => 3,
            () => 1,
        };
    }
    show(3, 0);
}
