//! Hashes: fields with values under one key. What lets single fields expire has a file of its own, as have random picks
//! and walks.
//!
//! A field whose expiry has come is absent for every command, collected or not. A command that
//! changes a hash removes a few such fields on its way; the table's maintenance removes the others.
use polder_base::number::{self, Number};
use polder_table::{Counter, Found, New, Replaces, Stop};
use polder_values::Kind;
use polder_values::hash::{Draft, Expiry, Field, Hash, Spot, Thresholds};

use crate::collection::{named, reply_part};
use crate::string::number_mode;
use polder_calls::call::wrong_arity;
use polder_calls::call::{Call, Outcome, integer, is_whole};
use polder_calls::command::{Command, FAST, GROWS, container, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};
use polder_calls::settings::{Settings, id};

mod expiry;
mod import;
mod quick;
mod walk;

pub(crate) use walk::count;

const LOOKS: &[&str] = &["RO"];
const UPDATES: &[&str] = &["RW update"];
const UNORDERED: &[&str] = &["nondeterministic_output_order"];
const RANDOM: &[&str] = &["nondeterministic_output"];

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("HDEL", "key field [field ...]", hdel)
        .quick(quick::hdel)
        .shares_key()
        .tells(Verbatim)
        .with(FAST)
        .touches(&["RW delete"])
        .since("2.0.0")
        .costs("O(N*log(M)) with N being the number of fields to be removed and M that of the hash's.")
        .changed(&[("2.4.0", "Several of `field` may be given.")])
        .about("Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain."),
    read("HEXISTS", "key field", hexists)
        .quick(quick::hexists)
        .with(FAST)
        .touches(LOOKS)
        .since("2.0.0")
        .costs(LOG)
        .about("Determines whether a field exists in a hash."),
    write("HEXPIRE", "key seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]", expiry::hexpire)
        .tells(Own(
            "`HPEXPIREAT key ms FIELDS count field ...` of the fields that were set; `HDEL key field ...` where the time has passed",
        ))
        .with(FAST)
        .touches(UPDATES)
        .since("7.4.0")
        .costs(EACH)
        .about("Sets the expiration time of hash fields in seconds."),
    write("HEXPIREAT", "key unix-time-seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]", expiry::hexpireat)
        .tells(Own(
            "`HPEXPIREAT key ms FIELDS count field ...` of the fields that were set; `HDEL key field ...` where the time has passed",
        ))
        .with(FAST)
        .touches(UPDATES)
        .since("7.4.0")
        .costs(EACH)
        .about("Sets the expiration time of hash fields to a Unix timestamp in seconds."),
    read("HEXPIRETIME", "key FIELDS numfields field [field ...]", expiry::hexpiretime)
        .with(FAST)
        .since("7.4.0")
        .costs(EACH)
        .about("Returns the expiration time of hash fields as a Unix timestamp in seconds."),
    read("HGET", "key field", hget).quick(quick::hget).with(FAST).since("2.0.0").costs(LOG).many(hget_many).about("Returns the value of a field in a hash."),
    read("HGETALL", "key", hgetall)
        .tips(UNORDERED)
        .since("2.0.0")
        .costs("O(N) where N is the size of the hash.")
        .about("Returns all fields and values in a hash."),
    write("HGETDEL", "key FIELDS numfields field [field ...]", expiry::hgetdel)
        .tells(Own("`HDEL key field ...`"))
        .with(FAST)
        .touches(&["RW access delete"])
        .since("8.0.0")
        .costs(EACH)
        .about("Returns the values of hash fields and deletes these. Deletes the hash if no fields remain."),
    write(
        "HGETEX",
        "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] FIELDS numfields field [field ...]",
        expiry::hgetex,
    )
    .tells(Own(
        "`HPEXPIREAT key ms FIELDS count field ...`, `HPERSIST key FIELDS count field ...`; `HDEL key field ...` where the time has passed",
    ))
    .with(FAST)
    .touches(&["RW access update"])
    .since("8.0.0")
    .costs(EACH)
    .about("Returns the values of hash fields and sets their expiration time, or removes it."),
    container("HIMPORT").since("8.10.0").costs("Depends on subcommand.").about("A container for commands that import hashes with the same fields."),
    write("HIMPORT|SET", "key fieldset-name value [value ...]", import::set)
        .tells(Own("`DEL key` where there was one, `HSET key field value ...`"))
        .with(GROWS)
        .touches(&["OW update"])
        .since("8.10.0")
        .costs("O(N*log(N)) where N is the number of fields in the fieldset.")
        .about("Makes a hash of the fields that HIMPORT PREPARE has named and of these values, in the place of one that is there."),
    write("HINCRBY", "key field increment", hincrby)
        .quick(quick::hincrby)
        .shares_key()
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW access update"])
        .since("2.0.0")
        .costs(LOG)
        .about("Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist."),
    write("HINCRBYFLOAT", "key field increment", hincrbyfloat)
        .tells(Own("`HSET key field value`, and `HPEXPIREAT key ms FIELDS 1 field` where the field has an expiry"))
        .with(GROWS | FAST)
        .touches(&["RW access update"])
        .since("2.6.0")
        .costs(LOG)
        .about("Increments the number in a field by a number that need not be whole: in decimal, unless number-mode says otherwise."),
    read("HKEYS", "key", hkeys)
        .tips(UNORDERED)
        .since("2.0.0")
        .costs("O(N) where N is the size of the hash.")
        .about("Returns all fields in a hash."),
    read("HLEN", "key", hlen).with(FAST).touches(LOOKS).since("2.0.0").about("Returns the number of fields in a hash."),
    read("HMGET", "key field [field ...]", hmget)
        .with(FAST)
        .since("2.0.0")
        .costs(EACH)
        .about("Returns the values of hash fields, null for those that there are not."),
    write("HMSET", "key field value [field value ...]", hmset)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(UPDATES)
        .since("2.0.0")
        .costs(EACH)
        .replaced("4.0.0", "`HSET` with several fields")
        .about("Sets the values of multiple fields."),
    write("HPERSIST", "key FIELDS numfields field [field ...]", expiry::hpersist)
        .tells(Own("`HPERSIST key FIELDS count field ...` of the fields that had an expiry"))
        .with(FAST)
        .touches(UPDATES)
        .since("7.4.0")
        .costs(EACH)
        .about("Removes the expiration time of hash fields."),
    write("HPEXPIRE", "key milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]", expiry::hpexpire)
        .tells(Own(
            "`HPEXPIREAT key ms FIELDS count field ...` of the fields that were set; `HDEL key field ...` where the time has passed",
        ))
        .with(FAST)
        .touches(UPDATES)
        .since("7.4.0")
        .costs(EACH)
        .about("Sets the expiration time of hash fields in milliseconds."),
    write("HPEXPIREAT", "key unix-time-milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]", expiry::hpexpireat)
        .tells(Own(
            "`HPEXPIREAT key ms FIELDS count field ...` of the fields that were set; `HDEL key field ...` where the time has passed",
        ))
        .with(FAST)
        .touches(UPDATES)
        .since("7.4.0")
        .costs(EACH)
        .about("Sets the expiration time of hash fields to a Unix timestamp in milliseconds."),
    read("HPEXPIRETIME", "key FIELDS numfields field [field ...]", expiry::hpexpiretime)
        .with(FAST)
        .since("7.4.0")
        .costs(EACH)
        .about("Returns the expiration time of hash fields as a Unix timestamp in milliseconds."),
    read("HPTTL", "key FIELDS numfields field [field ...]", expiry::hpttl)
        .with(FAST)
        .tips(RANDOM)
        .since("7.4.0")
        .costs(EACH)
        .about("Returns the expiration time of hash fields in milliseconds."),
    read("HRANDFIELD", "key [count [WITHVALUES]]", walk::hrandfield)
        .tips(RANDOM)
        .since("6.2.0")
        .costs("O(N*log(M)) where N is the number of fields returned and M that of the hash's.")
        .about("Returns one or more random fields from a hash."),
    read("HSCAN", "key cursor [MATCH pattern] [COUNT count] [NOVALUES]", walk::hscan)
        .tips(RANDOM)
        .since("2.8.0")
        .costs("O(log(N)) for every call. O(N) for a complete iteration.")
        .about("Iterates over fields and values of a hash."),
    write("HSET", "key field value [field value ...]", hset)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(UPDATES)
        .since("2.0.0")
        .costs(EACH)
        .quick(quick::hset)
        .many(hset_many)
        .changed(&[("4.0.0", "Sets several fields at once.")])
        .about("Creates or modifies the value of a field in a hash."),
    write(
        "HSETEX",
        "key [NX|XX] [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL] FIELDS numfields \
         field value [field value ...]",
        expiry::hsetex,
    )
    .tells(Own("`HSET key field value ...`, `HPEXPIREAT key ms FIELDS count field ...`; `HDEL key field ...` where the time has passed"))
    .with(GROWS | FAST)
    .touches(UPDATES)
    .since("8.0.0")
    .costs(EACH)
    .about("Sets the values of hash fields with an expiration time."),
    write("HSETNX", "key field value", hsetnx)
        .tells(Verbatim)
        .with(GROWS | FAST)
        .touches(&["RW insert"])
        .since("2.0.0")
        .costs(LOG)
        .about("Sets the value of a field in a hash only when the field doesn't exist."),
    read("HSTRLEN", "key field", hstrlen)
        .with(FAST)
        .touches(LOOKS)
        .since("3.2.0")
        .costs(LOG)
        .about("Returns the length of the value of a field."),
    read("HTTL", "key FIELDS numfields field [field ...]", expiry::httl)
        .with(FAST)
        .tips(RANDOM)
        .since("7.4.0")
        .costs(EACH)
        .about("Returns the expiration time of hash fields in seconds."),
    read("HVALS", "key", hvals)
        .tips(UNORDERED)
        .since("2.0.0")
        .costs("O(N) where N is the size of the hash.")
        .about("Returns all values in a hash."),
];

const LOG: &str = "O(log(N)) where N is the number of fields.";
const EACH: &str = "O(N*log(M)) where N is the number of fields given and M that of the hash's.";

/// Fields that a command which changes a hash takes away on its way, at most.
const PURGED_PER_WRITE: u64 = 64;

/// Up to where OBJECT ENCODING calls a hash small.
pub(crate) fn thresholds(call: &Call<'_>) -> Thresholds {
    thresholds_of(call.settings)
}

fn thresholds_of(settings: &Settings) -> Thresholds {
    Thresholds {
        entries: settings.number(const { id("hash-max-listpack-entries") }) as u64,
        value: settings.number(const { id("hash-max-listpack-value") }) as u64,
    }
}

/// The hash that a key holds, if it is there.
fn open<'c>(call: &Call<'c>) -> Result<Option<Hash<'c>>, Stop> {
    Ok(call.find_kind(call.args[1], Kind::Hash)?.map(|found| Hash::of(&found.value)))
}

/// The fields that an event is about.
#[derive(Clone, Copy)]
enum Names<'n> {
    Each(&'n [&'n [u8]]),
    /// Those of fields with their values.
    OfPairs(&'n [[&'n [u8]; 2]]),
}

impl<'n> Names<'n> {
    fn iter(self) -> impl Iterator<Item = &'n [u8]> {
        let (names, pairs) = match self {
            Names::Each(names) => (names, &[][..]),
            Names::OfPairs(pairs) => (&[][..], pairs),
        };
        names.iter().copied().chain(pairs.iter().map(|[name, _]| *name))
    }
}

/// A hash that a command changes.
struct Edit<'c> {
    key: &'c [u8],
    found: Option<Found<'c>>,
    draft: Draft,
    /// Fields that had expired, and that the command has put anew or is to take away.
    expired: Vec<Vec<u8>>,
}

impl<'c> Edit<'c> {
    /// The hash of the call's key; an absent key is an empty one.
    ///
    /// # Errors
    /// WRONGTYPE when the key holds another kind.
    fn open(call: &Call<'c>) -> Result<Edit<'c>, Stop> {
        let (key, thresholds) = (call.args[1], thresholds(call));
        let found = call.find_kind(key, Kind::Hash)?;
        let draft =
            found.map_or_else(|| Draft::empty(thresholds), |found| Draft::of(&found.value, thresholds));
        Ok(Edit { key, found, draft, expired: Vec::new() })
    }

    /// Where a field is that is going to be changed. One that has expired is told as gone first: elsewhere it may not have expired yet.
    fn spot(&mut self, call: &Call<'_>, field: &[u8]) -> Result<Spot, Stop> {
        let spot = self.draft.find(call.txn, field, || call.txn.field_clock_ms())?;
        self.note_spot(call, &spot, field);
        Ok(spot)
    }

    fn note_spot(&mut self, call: &Call<'_>, spot: &Spot, field: &[u8]) {
        if spot.has_expired() {
            self.expired.push(field.to_vec());
            call.tell_first(&[b"HDEL", self.key, field]);
        }
    }

    /// Sets fields to values. Returns how many fields are new.
    fn set(&mut self, call: &Call<'_>, pairs: &[[&[u8]; 2]]) -> Result<i64, Stop> {
        let (txn, mut created) = (call.txn, 0);
        self.draft.expect(pairs.len() as u64);
        for [field, value] in pairs {
            let spot = self.spot(call, field)?;
            self.draft.put(txn, &spot, field, value, Expiry::None)?;
            created += i64::from(!spot.lives);
        }
        Ok(created)
    }

    /// Publishes what has become of the hash, and tells which events it was, of which fields. What had expired before goes first.
    fn publish(mut self, call: &Call<'_>, events: &[(&'static str, Names<'_>)]) -> Outcome {
        let (txn, key) = (call.txn, self.key);
        // While data is imported, what has expired stays.
        let now_ms = || if call.table.imports() { 0 } else { txn.now_ms() };
        let mut gone = std::mem::take(&mut self.expired);
        let purged = self.draft.purge(txn, now_ms, PURGED_PER_WRITE, &mut |field| {
            gone.push(field.to_vec());
            call.tell_first(&[b"HDEL", key, field]);
        })?;
        if purged > 0 {
            call.notify_parts("hexpired", key, gone.iter().map(Vec::as_slice));
            txn.count(Counter::ExpiredFields, purged);
        }
        events.iter().for_each(|(event, names)| call.notify_parts(event, key, names.iter()));
        if purged >= PURGED_PER_WRITE && self.draft.len(txn, || txn.field_clock_ms())? == 0 {
            self.draft.clear(txn)?;
        }
        if self.draft.count()? == 0 {
            // The draft has released the nodes. A key that was not there before came and went.
            txn.remove(call.db(), key, Replaces::Edited)?;
            call.notify('g', "del", key);
            return Ok(());
        }
        let (value, inner_expiry_ms) = self.draft.finish(txn)?;
        let old = self.found.map_or(New::of(Kind::Hash, value), New::from);
        call.edit(key, &New { value, inner_expiry_ms, ..old })
    }
}

fn hget(call: &mut Call<'_>) -> Outcome {
    let txn = call.txn;
    let field = match open(call)? {
        Some(hash) => hash.get(txn, call.args[2], || txn.field_clock_ms())?,
        None => None,
    };
    reply_value(call, field)
}

/// Replies with the value of a field, or with null when there is none.
fn reply_value(call: &mut Call<'_>, field: Option<Field<'_>>) -> Outcome {
    match field {
        Some(field) => reply_part(call.reply, call.txn, &field.value())?,
        None => call.reply.null(),
    }
    Ok(())
}

fn hget_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let (txn, Some(hash)) = (call.txn, open(call)?) else { return Ok(0) };
    for field in hash.get_all(txn, &named(calls), || txn.field_clock_ms())? {
        reply_value(call, field)?;
    }
    Ok(calls.len())
}

fn hmget(call: &mut Call<'_>) -> Outcome {
    let (txn, hash, names) = (call.txn, open(call)?, &call.args[2..]);
    call.reply.array(names.len());
    let fields = match &hash {
        Some(hash) => hash.get_all(txn, names, || txn.field_clock_ms())?,
        None => vec![None; names.len()],
    };
    fields.into_iter().try_for_each(|field| reply_value(call, field))
}

fn hgetall(call: &mut Call<'_>) -> Outcome {
    let (len, hash) = sized(call)?;
    call.reply.map(len);
    each(call, len, hash, |call, field| {
        reply_part(call.reply, call.txn, &field.name())?;
        reply_part(call.reply, call.txn, &field.value())
    })
}

fn hkeys(call: &mut Call<'_>) -> Outcome {
    let (len, hash) = sized(call)?;
    call.reply.array(len);
    each(call, len, hash, |call, field| reply_part(call.reply, call.txn, &field.name()))
}

fn hvals(call: &mut Call<'_>) -> Outcome {
    let (len, hash) = sized(call)?;
    call.reply.array(len);
    each(call, len, hash, |call, field| reply_part(call.reply, call.txn, &field.value()))
}

/// The hash with the number of its fields.
fn sized<'c>(call: &Call<'c>) -> Result<(usize, Option<Hash<'c>>), Stop> {
    let (txn, hash) = (call.txn, open(call)?);
    let len = hash.map_or(Ok(0), |hash| hash.len(txn, || txn.field_clock_ms()))?;
    Ok((len as usize, hash))
}

/// Shows every field that is there, `len` of them.
fn each<'c>(
    call: &mut Call<'c>,
    len: usize,
    hash: Option<Hash<'c>>,
    mut show: impl FnMut(&mut Call<'c>, Field<'c>) -> Outcome,
) -> Outcome {
    let (txn, mut shown) = (call.txn, 0);
    for field in hash.iter().flat_map(|hash| hash.iter(txn, 0)) {
        let field = field?;
        if field.lives(|| txn.field_clock_ms()) {
            show(call, field)?;
            shown += 1;
        }
    }
    is_whole(len, shown)
}

fn hlen(call: &mut Call<'_>) -> Outcome {
    let (len, _) = sized(call)?;
    call.reply.integer(len as i64);
    Ok(())
}

fn hexists(call: &mut Call<'_>) -> Outcome {
    let there = len_of_value(call)?.is_some();
    call.reply.integer(there.into());
    Ok(())
}

fn hstrlen(call: &mut Call<'_>) -> Outcome {
    let len = len_of_value(call)?.unwrap_or(0);
    call.reply.integer(len as i64);
    Ok(())
}

/// Bytes of the value of the field that the call names, if it is there.
fn len_of_value(call: &Call<'_>) -> Result<Option<u64>, Stop> {
    let (txn, Some(hash)) = (call.txn, open(call)?) else { return Ok(None) };
    let field = hash.get(txn, call.args[2], || txn.field_clock_ms())?;
    Ok(field.map(|field| field.value().len()))
}

fn hset(call: &mut Call<'_>) -> Outcome {
    let created = set_pairs(call)?;
    call.reply.integer(created);
    Ok(())
}

fn hmset(call: &mut Call<'_>) -> Outcome {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

fn hset_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let (mut edit, mut pairs) = (Edit::open(call)?, Vec::with_capacity(calls.len()));
    let groups = calls
        .iter()
        .map_while(|args| args[2..].as_chunks::<2>().1.is_empty().then(|| args[2..].as_chunks().0));
    let done = groups.clone().inspect(|group| pairs.extend_from_slice(group)).count();
    if done == 0 {
        return Ok(0);
    }
    let new = edit.draft.put_all(call.txn, &pairs)?;
    let mut new = new.as_ref().map(|new| new.iter());
    let events: Vec<_> = groups.clone().map(|group| ("hset", Names::OfPairs(group))).collect();
    for group in groups {
        let created = match &mut new {
            Some(new) => new.take(group.len()).map(|new| i64::from(*new)).sum(),
            None => edit.set(call, group)?,
        };
        call.reply.integer(created);
    }
    edit.publish(call, &events)?;
    Ok(done)
}

/// Sets the fields and values of a call. Returns how many fields are new.
fn set_pairs(call: &Call<'_>) -> Result<i64, Stop> {
    let (pairs, []) = call.args[2..].as_chunks() else { return Err(wrong_arity(call.command)) };
    let mut edit = Edit::open(call)?;
    let created = edit.set(call, pairs)?;
    edit.publish(call, &[("hset", Names::OfPairs(pairs))])?;
    Ok(created)
}

fn hsetnx(call: &mut Call<'_>) -> Outcome {
    let (txn, mut edit, field) = (call.txn, Edit::open(call)?, call.args[2]);
    let spot = edit.spot(call, field)?;
    if !spot.lives {
        edit.draft.put(txn, &spot, field, call.args[3], Expiry::None)?;
        edit.publish(call, &[("hset", Names::Each(&[field]))])?;
    }
    call.reply.integer((!spot.lives).into());
    Ok(())
}

fn hdel(call: &mut Call<'_>) -> Outcome {
    let (txn, mut edit, mut deleted) = (call.txn, Edit::open(call)?, Vec::new());
    for field in &call.args[2..] {
        let spot = edit.draft.find(txn, field, || txn.field_clock_ms())?;
        if spot.lives {
            edit.draft.remove(txn, &spot, field)?;
            deleted.push(*field);
        }
    }
    if !deleted.is_empty() {
        edit.publish(call, &[("hdel", Names::Each(&deleted))])?;
    }
    call.reply.integer(deleted.len() as i64);
    Ok(())
}

fn hincrby(call: &mut Call<'_>) -> Outcome {
    let (name, by) = (call.args[2], integer(call.args[3])?);
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let (spot, field) = edit.draft.look(txn, name, || txn.field_clock_ms())?;
    let old = match field {
        Some(field) => {
            number::integer(&field.value().bytes(txn)?).ok_or("ERR hash value is not an integer")?
        }
        None => 0,
    };
    edit.note_spot(call, &spot, name);
    let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    edit.draft.put(txn, &spot, name, itoa::Buffer::new().format(new).as_bytes(), Expiry::Keep)?;
    edit.publish(call, &[("hincrby", Names::Each(&[name]))])?;
    call.reply.integer(new);
    Ok(())
}

fn hincrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (name, mode) = (call.args[2], number_mode(call.settings));
    let by = Number::parse(mode, call.args[3]).ok_or("ERR value is not a valid float")?;
    if by.sum_text(Number::zero(mode)).is_none() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let (txn, mut edit) = (call.txn, Edit::open(call)?);
    let (spot, field) = edit.draft.look(txn, name, || txn.field_clock_ms())?;
    let old = match field {
        Some(field) => {
            Number::parse(mode, &field.value().bytes(txn)?).ok_or("ERR hash value is not a float")?
        }
        None => Number::zero(mode),
    };
    edit.note_spot(call, &spot, name);
    let sum = old.sum_text(by).ok_or("ERR increment would produce NaN or Infinity")?;
    edit.draft.put(txn, &spot, name, sum.as_bytes(), Expiry::Keep)?;
    call.tell(&[b"HSET", edit.key, name, sum.as_bytes()]);
    if let Some(expiry_ms) = spot.expiry_ms().filter(|_| call.tells_itself()) {
        call.tell_fields(&[b"HPEXPIREAT", edit.key, expiry_ms.to_string().as_bytes()], &[name]);
    }
    edit.publish(call, &[("hincrbyfloat", Names::Each(&[name]))])?;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}
