//! DUMP, RESTORE, MIGRATE: one value as a payload that Redis understands.
//!
//! ```text
//!   value --encode--> rdb::Writer --> payload --> rdb::Reader --build--> value
//! ```
//! A payload of a stranger is read to its end before the first node is made of it (C1); only that an element comes twice shows
//! later, and then what was made is given back.
mod build;

use std::sync::atomic::{AtomicBool, Ordering};

use polder_table::{Db, New, Stop, Table, Txn, clock};
use polder_values::{Kind, Value};
use polder_wire::rdb::{self, Form, Item, Thresholds, Writer};
use polder_wire::rebuild::ValueWriter;

use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::command::{ASKING, Command, DANGEROUS, EXPLAINS, GROWS, read, write};
use polder_calls::facts::Tells::Own;
use polder_calls::settings::{Id, Settings, id};

use crate::types;

pub use crate::encode::{Drain, LOST_ARRAY, LOST_EXPIRIES, Source};
pub use build::{Builder, Problem};

const BUSY_KEY: &str = "BUSYKEY Target key name already exists.";
const WRONG_FOOTER: &str = "ERR DUMP payload version or checksum are wrong";
const BAD_FORMAT: &str = "ERR Bad data format";
const NO_VALUE: &str = "there are no elements";

static CHECKSUMS_REST: AtomicBool = AtomicBool::new(false);

/// Whether checksums of RDB files and payloads are not compared (`DEBUG SET-SKIP-CHECKSUM-VALIDATION`).
pub fn checksums_rest() -> bool {
    CHECKSUMS_REST.load(Ordering::Relaxed)
}

/// Compares them no more, or again.
pub fn skip_checksums(skips: bool) {
    CHECKSUMS_REST.store(skips, Ordering::Relaxed);
}

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    read("DUMP", "key", dump)
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .costs("O(N) where N is the size of the value.")
        .about("Returns a serialized representation of the value stored at a key."),
    write(
        "RESTORE",
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        restore,
    )
    .tells(Own("`RESTORE key ms payload REPLACE ABSTTL`"))
    .with(GROWS | DANGEROUS | EXPLAINS)
    .touches(&["OW update"])
    .since("2.6.0")
    .costs("O(N*log(N)) where N is the number of elements of the value.")
    .changed(&[
        ("3.0.0", "Takes `REPLACE`."),
        ("5.0.0", "Takes `ABSTTL`."),
        ("5.0.0", "Takes `IDLETIME` and `FREQ`."),
    ])
    .about("Creates a key from the serialized representation of a value."),
    write(
        "RESTORE-ASKING",
        "key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
        restore,
    )
    .tells(Own("`RESTORE key ms payload REPLACE ABSTTL`"))
    .with(GROWS | ASKING | DANGEROUS | EXPLAINS)
    .touches(&["OW update"])
    .since("3.0.0")
    .costs("O(N*log(N)) where N is the number of elements of the value.")
    .changed(&[
        ("3.0.0", "Takes `REPLACE`."),
        ("5.0.0", "Takes `ABSTTL`."),
        ("5.0.0", "Takes `IDLETIME` and `FREQ`."),
    ])
    .internal()
    .about("An internal command for migrating keys in a cluster."),
];

/// The version in which values are written.
pub fn form(settings: &Settings) -> Form {
    // In the order of the setting's words.
    const FORMS: [Form; 7] = [
        Form::Lowest,
        Form::Fixed(10),
        Form::Fixed(11),
        Form::Fixed(12),
        Form::Fixed(13),
        Form::Fixed(14),
        Form::Fixed(80),
    ];
    FORMS[settings.number(const { id("rdb-version") }) as usize % FORMS.len()]
}

/// A writer as the settings want it.
pub fn writer(settings: &Settings) -> Writer {
    writer_of(settings, form(settings))
}

/// The same, in another version.
pub fn writer_of(settings: &Settings, form: Form) -> Writer {
    let number = |id: Id| settings.number(id).max(0) as u64;
    let thresholds = Thresholds {
        hash_entries: number(const { id("hash-max-listpack-entries") }),
        hash_value: number(const { id("hash-max-listpack-value") }),
        set_integers: number(const { id("set-max-intset-entries") }),
        set_entries: number(const { id("set-max-listpack-entries") }),
        set_value: number(const { id("set-max-listpack-value") }),
        scores_entries: number(const { id("zset-max-listpack-entries") }),
        scores_value: number(const { id("zset-max-listpack-value") }),
    };
    Writer::new(form, settings.is_on(const { id("rdbcompression") }), thresholds)
}

/// Tells the writer a value, whose key it knows already.
///
/// # Errors
/// What the memory or `drain` says; a refusal where expiries of fields would be lost and that is not allowed.
pub fn encode(
    writer: &mut dyn ValueWriter,
    source: &Source<'_>,
    kind: Kind,
    value: &Value<'_>,
    drain: Drain<'_>,
) -> Outcome {
    (types::of(kind).encode)(writer, source, value, drain)?;
    writer.end();
    drain(writer)
}

fn dump(call: &mut Call<'_>) -> Outcome {
    match call.find(call.args[1])? {
        Some(found) => {
            let settings = call.settings;
            let mut writer = writer(settings);
            let drops_expiries = settings.is_on(const { id("rdb-drop-field-expiries") });
            let source = Source { nodes: call.txn, now_ms: call.txn.now_ms(), drops_expiries };
            encode(&mut writer, &source, found.kind, &found.value, &mut |_| Ok(()))?;
            call.reply.bulk(&writer.seal());
        }
        None => call.reply.null(),
    }
    Ok(())
}

/// What RESTORE is told besides key, time and payload.
#[derive(Default)]
struct Options {
    replaces: bool,
    absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

fn read_options(words: &[&[u8]]) -> Result<Options, Stop> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match () {
            () if is(word, "REPLACE") => options.replaces = true,
            () if is(word, "ABSTTL") => options.absolute = true,
            () if is(word, "IDLETIME") && options.frequency.is_none() && words.len() > 0 => {
                let idle = words.next().map_or(Ok(0), |idle| integer(idle))?;
                options.idle_seconds =
                    Some(u64::try_from(idle).map_err(|_| "ERR Invalid IDLETIME value, must be >= 0")?);
            }
            () if is(word, "FREQ") && options.idle_seconds.is_none() && words.len() > 0 => {
                let frequency = words.next().map_or(Ok(0), |frequency| integer(frequency))?;
                options.frequency = Some(
                    u8::try_from(frequency).map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?,
                );
            }
            () => return Err(SYNTAX.into()),
        }
    }
    Ok(options)
}

fn restore(call: &mut Call<'_>) -> Outcome {
    let (key, time, payload) = (call.args[1], call.args[2], call.args[3]);
    let options = read_options(&call.args[4..])?;
    let is_there = call.txn.peek(call.db(), key)?.is_some();
    if is_there && !options.replaces {
        return Err(BUSY_KEY.into());
    }
    let time = u64::try_from(integer(time)?).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
    let relaxed = call.settings.number(const { id("rdb-version-check") }) == 1;
    let payload = match rdb::open_as(payload, relaxed, !checksums_rest()) {
        Ok(payload) => payload,
        Err(malformed) => {
            call.caller.complaint = Some(malformed.0);
            return Err(WRONG_FOOTER.into());
        }
    };
    check(&payload).map_err(|problem| refused(call, problem))?;
    let now_ms = call.txn.now_ms();
    let expiry_ms = (time > 0).then(|| if options.absolute { time } else { time.saturating_add(now_ms) });
    if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now_ms) && !call.table.imports() {
        if call.remove(key)? {
            call.tell(&[b"DEL", key]);
            call.notify('g', "del", key);
        }
        call.reply.ok();
        return Ok(());
    }
    let Some(mut builder) = build(call, &payload).map_err(|problem| refused(call, problem))? else {
        // All fields of a hash have expired.
        if call.remove(key)? {
            call.tell(&[b"DEL", key]);
        }
        call.reply.ok();
        return Ok(());
    };
    let new = builder.finish(call.txn).map_err(|problem| refused(call, problem))?.ok_or(BAD_FORMAT)?;
    let (old, kind) = (call.old_kind(call.db(), key)?, new.kind);
    call.put(key, &New { expiry_ms, ..new })?;
    if call.tells_itself() {
        call.tell(&[
            b"RESTORE",
            key,
            expiry_ms.unwrap_or(0).to_string().as_bytes(),
            call.args[3],
            b"REPLACE",
            b"ABSTTL",
        ]);
    }
    set_clock(call.table, call.txn, call.db(), key, options.idle_seconds, options.frequency)?;
    call.notify('g', "restore", key);
    call.notify_replaced(call.db(), key, old, kind);
    call.reply.ok();
    Ok(())
}

/// Builds the value of a payload that was found readable; `None` where nothing is left of it.
fn build(call: &Call<'_>, payload: &rdb::Payload<'_>) -> Result<Option<Builder>, Problem> {
    let mut builder = None;
    let built = each_item(payload, &mut |item| match item {
        Item::Begin(begin) => {
            builder = Some(Builder::new(begin.kind, begin.count, call.settings, call.txn.now_ms()));
            Ok(())
        }
        Item::End => Ok(()),
        item => builder.as_mut().map_or(Ok(()), |builder| builder.add(call.txn, item)),
    });
    let mut builder = builder.ok_or(NO_VALUE)?;
    match built.and_then(|()| builder.finish(call.txn).map(|new| new.is_some())) {
        Ok(true) => Ok(Some(builder)),
        Ok(false) => Ok(None),
        Err(problem) => {
            builder.discard(call.txn);
            Err(problem)
        }
    }
}

/// What a client hears of a value that cannot be built; the log hears why.
fn refused(call: &mut Call<'_>, problem: Problem) -> Stop {
    match problem {
        Problem::Malformed(why) => {
            call.caller.complaint = Some(why.0);
            BAD_FORMAT.into()
        }
        Problem::Fault(fault) => fault.into(),
    }
}

/// Puts the access clock to where it was when the value was written, if the policy of eviction counts in the same way.
pub fn set_clock(
    table: &Table,
    txn: &Txn<'_>,
    db: Db,
    key: &[u8],
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
) -> Outcome {
    let (now_ms, counts) = (txn.now_ms(), table.counts_frequency());
    let clock = match (idle_seconds, frequency) {
        (_, Some(frequency)) if counts => clock::lfu(frequency, now_ms),
        (Some(idle), _) if !counts => clock::lru(now_ms.saturating_sub(idle.saturating_mul(1000))),
        _ => return Ok(()),
    };
    txn.set_clock(db, key, clock)
}

/// Reads a payload to its end.
///
/// # Errors
/// What is wrong with it, and what `show` says.
fn each_item(
    payload: &rdb::Payload<'_>,
    show: &mut dyn FnMut(Item<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let (mut reader, mut taken) = (payload.reader(), 0);
    while let Some(item) = reader.read(payload.body, &mut taken).map_err(Problem::Malformed)? {
        show(item)?;
    }
    if !reader.is_done() {
        return Err("the value is longer than the payload".into());
    }
    if taken == payload.body.len() { Ok(()) } else { Err("the value is shorter than the payload".into()) }
}

/// Whether a payload can be read and holds something.
fn check(payload: &rdb::Payload<'_>) -> Result<(), Problem> {
    let (mut elements, mut may_be_empty) = (0u64, false);
    each_item(payload, &mut |item| {
        match item {
            Item::Begin(begin) => may_be_empty = matches!(begin.kind, rdb::Kind::String | rdb::Kind::Stream),
            Item::Foreign { .. } => return Err("it is a module's value".into()),
            Item::End | Item::Cursor(_) => {}
            _ => elements += 1,
        }
        Ok(())
    })?;
    if elements > 0 || may_be_empty { Ok(()) } else { Err(NO_VALUE.into()) }
}
