//! DEBUG DIGEST and DIGEST-VALUE, computed as Redis computes them, so that two servers' contents can be compared.
//!
//! ```text
//!   add(d, bytes)   d ^= SHA-1(bytes)            order does not count
//!   mix(d, bytes)   d  = SHA-1(d ^ SHA-1(bytes)) order counts
//!
//!   of a value      mix(type, 4 bytes big-endian), mix(contents), add("!!expire!!") if it expires
//!   of everything   for each database: mix(number, 4 bytes big-endian), then for each key: add(mix(mix(0, key), value))
//! ```
use polder_base::number;
use polder_commands::types;
use polder_table::{Db, Found, Mode, Scanned, Stop, Txn};
use polder_values::array::{Array, INDEX_MAX};
use polder_values::hash::Hash;
use polder_values::sequence::Sequence;
use polder_values::sorted_set::SortedSet;
use polder_values::stream::{Range, Stream};
use polder_values::{Kind, Value, string};
use sha1::{Digest, Sha1};

use polder_calls::call::Outcome;
use polder_runtime::retry::retry;
use polder_runtime::row::SessionCall;
use polder_runtime::run::begin;

const NONE: [u8; 20] = [0; 20];

/// Keys that a step of the walk looks at.
const STEP: usize = 1024;

fn add(digest: &mut [u8; 20], bytes: &[u8]) {
    let hash = Sha1::digest(bytes);
    digest.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
}

fn mix(digest: &mut [u8; 20], bytes: &[u8]) {
    add(digest, bytes);
    *digest = Sha1::digest(*digest).into();
}

/// Mixes a value into the digest of its key.
fn mix_value(txn: &Txn<'_>, digest: &mut [u8; 20], found: &Found<'_>) -> Result<(), Stop> {
    mix(digest, &types::of(found.kind).number.to_be_bytes());
    match found.kind {
        Kind::String => mix(digest, &string::contiguous(txn, &found.value)?),
        Kind::Hash => add_fields(txn, digest, &found.value)?,
        Kind::Set => {
            for member in Sequence::of(&found.value).iter(txn, 0) {
                add(digest, &member?.bytes(txn)?);
            }
        }
        Kind::SortedSet => add_sorted_set(txn, digest, found)?,
        Kind::List => {
            for element in Sequence::of(&found.value).iter(txn, 0) {
                mix(digest, &element?.bytes(txn)?);
            }
        }
        Kind::Stream => mix_entries(txn, digest, &found.value)?,
        Kind::Array => mix_items(txn, digest, &found.value)?,
    }
    if found.expiry_ms.is_some() {
        add(digest, b"!!expire!!");
    }
    Ok(())
}

/// Mixes in the entries of a stream: each id, then its fields and values.
fn mix_entries(txn: &Txn<'_>, digest: &mut [u8; 20], value: &Value<'_>) -> Result<(), Stop> {
    Stream::of(txn, value)?.walk(&Range::ALL, &mut |entry| {
        mix(digest, format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
        for (field, value) in entry.pairs() {
            mix(digest, field);
            mix(digest, value);
        }
    })?;
    Ok(())
}

/// Mixes in the values of an array, each with its index, and the index at which was inserted last. Redis's own way is not documented.
fn mix_items(txn: &Txn<'_>, digest: &mut [u8; 20], value: &Value<'_>) -> Result<(), Stop> {
    let array = Array::of(value);
    for item in array.items(txn, 0, INDEX_MAX)? {
        let item = item?;
        mix(digest, item.index.to_string().as_bytes());
        mix(digest, &item.value.bytes(txn)?);
    }
    if let Some(cursor) = array.cursor(txn)? {
        mix(digest, format!("cursor {cursor}").as_bytes());
    }
    Ok(())
}

/// Adds the fields of a hash: each with its value, and whether it expires.
fn add_fields(txn: &Txn<'_>, digest: &mut [u8; 20], value: &Value<'_>) -> Result<(), Stop> {
    for field in Hash::of(value).iter(txn, 0) {
        let field = field?;
        if field.lives(|| txn.field_clock_ms()) {
            let mut of_field = NONE;
            mix(&mut of_field, &field.name().bytes(txn)?);
            mix(&mut of_field, &field.value().bytes(txn)?);
            if field.expiry_ms().is_some() {
                add(&mut of_field, b"!!hexpire!!");
            }
            add(digest, &of_field);
        }
    }
    Ok(())
}

/// Each member with its score; their order does not count.
fn add_sorted_set(txn: &Txn<'_>, digest: &mut [u8; 20], found: &Found<'_>) -> Result<(), Stop> {
    for entry in SortedSet::of(&found.value).iter(txn, 0) {
        let entry = entry?;
        let mut element = NONE;
        mix(&mut element, entry.member());
        mix(&mut element, number::shortest_text(entry.value()).as_bytes());
        add(digest, &element);
    }
    Ok(())
}

pub(super) fn values(call: &mut SessionCall<'_>) -> Outcome {
    let txn = begin(call.table, call.session, Mode::Read)?;
    let mut digests = Vec::new();
    retry(&txn, || {
        digests.clear();
        for key in &call.args[2..] {
            let mut digest = NONE;
            if let Some(found) = txn.peek(call.session.caller.db, key)? {
                mix_value(&txn, &mut digest, &found)?;
            }
            digests.push(digest);
        }
        Ok(())
    })?;
    call.reply.array(digests.len());
    digests.iter().for_each(|digest| call.reply.status(&hex(digest)));
    Ok(())
}

pub(super) fn all(call: &mut SessionCall<'_>) -> Outcome {
    let txn = begin(call.table, call.session, Mode::Read)?;
    let mut total = NONE;
    retry(&txn, || {
        total = NONE;
        for db in (0..call.host.databases()).filter(|db| txn.keys(*db) > 0) {
            mix(&mut total, &u32::from(db).to_be_bytes());
            add_database(&txn, db, &mut total)?;
        }
        Ok(())
    })?;
    call.reply.status(&hex(&total));
    Ok(())
}

fn add_database(txn: &Txn<'_>, db: Db, total: &mut [u8; 20]) -> Result<(), Stop> {
    let mut cursor = 0;
    loop {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        cursor = txn.scan(db, cursor, STEP, &mut |scanned: Scanned<'_>| keys.push(scanned.key.to_vec()))?;
        for key in keys {
            if let Some(found) = txn.peek(db, &key)? {
                let mut digest = NONE;
                mix(&mut digest, &key);
                mix_value(txn, &mut digest, &found)?;
                add(total, &digest);
            }
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}

fn hex(digest: &[u8; 20]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
