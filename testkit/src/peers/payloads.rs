//! Damaged payloads of DUMP for Polder and for a real server: both refuse one, or both hold the same value afterwards.
//!
//! ```text
//!   shapes --> DUMP (the peer's, and ours) --> one byte changed, checksum right --> RESTORE on both --> equal?
//! ```
//! Polder may refuse what the peer takes, or mend it, if the peer's own value contradicts itself ([`contradiction`]). It may
//! refuse what the peer takes if the value does not end where the payload's footer begins, or for one of the reasons in
//! [`STRICTER`], also if it is met in the footer.
use std::collections::BTreeSet;

use polder_wire::rdb;

use crate::answer::Answer;
use crate::door::Door;
use crate::random::Random;

mod reading;
mod shapes;

pub use reading::{Reading, contradiction};
pub use shapes::{SHAPES, Shape};

/// What only Polder finds wrong: the words of its refusal, and what peers do in its place.
pub const STRICTER: [(&str, &str); 10] = [
    ("a special form of string in place of a count", "they take the lower six bits of its first byte"),
    ("a length of an unknown form", "in a stream they take it for the greatest of all numbers"),
    ("a group has read fewer entries than none", "they keep a number below zero"),
    ("the entries of a stream are not in order", "they sort its nodes by their first ids"),
    ("a moment is before 1970", "they keep it"),
    ("a compressed string is damaged", "they take one of no length, whatever it holds"),
    ("a score is not a number", "they take the number that it begins with, or zero"),
    ("the elements are not as many as was said", "they do not count the elements of a stream's node"),
    ("a listpack is damaged", "they read a length backwards beyond the entry that it belongs to"),
    ("a stream that contradicts itself", "they believe the length that is written"),
];

/// The key under which values are made and restored.
pub const KEY: &[u8] = b"payload";

/// Bytes of a payload up to which each of them is changed; of a longer one, as many are drawn.
const CHANGED_MAX: usize = 400;

/// What became of a payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    Refused(String),
    /// The value, or none of it: all that it held had expired.
    Taken(Reading),
}

/// One payload, and what makes it different from the one that it was.
pub struct Sample {
    pub name: String,
    pub payload: Vec<u8>,
}

/// Calls a command given by words.
///
/// # Errors
/// Those of the door.
pub fn ask(door: &mut dyn Door, words: &[&[u8]]) -> Result<Answer, String> {
    door.call("a", &words.iter().map(|word| word.to_vec()).collect::<Vec<_>>())
}

/// The payloads of all shapes that a door can make.
///
/// # Errors
/// Those of the door.
pub fn dumped(door: &mut dyn Door, whose: &str) -> Result<Vec<Sample>, String> {
    let mut samples = Vec::new();
    for shape in SHAPES {
        ask(door, &[b"DEL", KEY])?;
        let mut is_made = true;
        for line in shape.lines.lines() {
            let words: Vec<Vec<u8>> = line.split_whitespace().map(shapes::word).collect();
            let slices: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            // A setting or command that the server does not have: it has no such shape.
            is_made &= !matches!(ask(door, &slices)?, Answer::Error(_));
        }
        if is_made && let Answer::Bulk(payload) = ask(door, &[b"DUMP", KEY])? {
            samples.push(Sample { name: format!("{} of {whose}", shape.name), payload });
        }
        for (setting, value) in shapes::SETTINGS {
            ask(door, &[b"CONFIG", b"SET", setting.as_bytes(), value.as_bytes()])?;
        }
    }
    Ok(samples)
}

/// The payloads that no living server writes any more.
pub fn historic() -> Vec<Sample> {
    let sealed = |(name, body): &(&str, &[u8])| {
        let mut payload = body.to_vec();
        rdb::seal(9, &mut payload);
        Sample { name: (*name).to_owned(), payload }
    };
    shapes::HISTORIC.iter().map(sealed).collect()
}

/// The payloads whose parts are right and do not belong together.
pub fn crafted() -> Vec<Sample> {
    let sealed = |(name, version, body): &(&str, u32, Vec<u8>)| {
        let mut payload = body.clone();
        rdb::seal(*version, &mut payload);
        Sample { name: (*name).to_owned(), payload }
    };
    shapes::crafted().iter().map(sealed).collect()
}

/// The payload with other bytes than its own, one at a time, and cut short.
pub fn damaged(sample: &Sample, random: &mut Random) -> Vec<Sample> {
    let Ok(whole) = rdb::open(&sample.payload, true) else { return Vec::new() };
    let body = whole.body;
    let sealed = |body: Vec<u8>, what: String| {
        let mut payload = body;
        rdb::seal(whole.version, &mut payload);
        Sample { name: format!("{}, {what}", sample.name), payload }
    };
    let mut made = vec![sealed(body.to_vec(), "whole".to_owned())];
    for number in 0..body.len().min(CHANGED_MAX) {
        let at = if body.len() > CHANGED_MAX { random.below(body.len()) } else { number };
        let old = body[at];
        let mut others = vec![0, 0xff, old ^ 0x80, old.wrapping_add(1), old.wrapping_sub(1), 1];
        others.push(random.bits() as u8);
        others.push(random.bits() as u8);
        others.retain(|other| *other != old);
        others.dedup();
        for _ in 0..4 {
            let other = others.swap_remove(random.below(others.len()));
            let mut bytes = body.to_vec();
            bytes[at] = other;
            made.push(sealed(bytes, format!("byte {at} {old:02x} made {other:02x}")));
        }
        made.push(sealed(body[..at].to_vec(), format!("cut at {at}")));
    }
    made
}

/// Restores a payload and reads what is there then.
///
/// # Errors
/// Those of the door; what the door says when the value cannot be read back.
pub fn restored(door: &mut dyn Door, payload: &[u8]) -> Result<Fate, String> {
    match ask(door, &[b"RESTORE", KEY, b"0", payload, b"REPLACE"])? {
        Answer::Error(text) => {
            ask(door, &[b"DEL", KEY])?;
            Ok(Fate::Refused(text))
        }
        _ => {
            let reading = Reading::of(door)?;
            ask(door, &[b"DEL", KEY])?;
            Ok(Fate::Taken(reading))
        }
    }
}

/// Tells a payload that a peer may take although it is wrong: read on into its footer, as peers do, the value ends elsewhere than
/// where the footer begins, or is refused for a reason of [`STRICTER`].
fn is_lax_there(payload: &[u8]) -> bool {
    let Ok(whole) = rdb::open(payload, true) else { return false };
    let (mut reader, mut taken) = (whole.reader(), 0);
    loop {
        match reader.read(payload, &mut taken) {
            Ok(Some(_)) => {}
            Ok(None) => return reader.is_done() && taken != whole.body.len(),
            Err(malformed) => return STRICTER.iter().any(|(reason, _)| malformed.0 == *reason),
        }
    }
}

/// Restores a payload here and there. Returns what is wrong with that. The peer knows `types`, first bytes of payloads.
///
/// # Errors
/// Those of the doors.
pub fn compare(
    sample: &Sample,
    ours: &mut dyn Door,
    theirs: &mut dyn Door,
    types: &BTreeSet<u8>,
) -> Result<Option<String>, String> {
    let (mine, other) = (restored(ours, &sample.payload)?, restored(theirs, &sample.payload)?);
    let is_right = match (&mine, &other) {
        (Fate::Refused(_), Fate::Refused(_)) => true,
        (Fate::Refused(_), Fate::Taken(reading)) => {
            contradiction(reading).is_some() || is_lax_there(&sample.payload)
        }
        (Fate::Taken(mine), Fate::Taken(other)) => {
            contradiction(mine).is_none() && (mine == other || contradiction(other).is_some())
        }
        // A version or type that the peer does not know says nothing about the payload.
        (Fate::Taken(_), Fate::Refused(why)) => {
            why.contains("version") || !types.contains(&sample.payload[0])
        }
    };
    let told = || {
        format!(
            "{}\n  payload {}\n  polder: {mine:?}\n  peer:   {other:?}",
            sample.name,
            sample.payload.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        )
    };
    Ok((!is_right).then(told))
}
