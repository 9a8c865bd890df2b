//! What the processes of a segment tell each other about themselves: INFO, SLOWLOG, LATENCY and ACL LOG mean all of them.
//!
//! ```text
//!   a call here            asks the other processes that serve clients (hub's ask), and runs again once they have replied
//!   the others             [`crate::peer_replies`]: lines of words, one for each thing
//!   the call, run again    puts their lines to its own
//! ```
//!
//! What a process has noted ends with it, as in Redis. An embedder replies while one of its threads
//! rests in Polder.
use std::collections::VecDeque;

use polder_hub::query::{self, Replies, Thread};
use polder_table::{Stop, Table};

use crate::locks::lock;
use crate::row::SessionCall;
use crate::session::{Host, Session};
use polder_calls::settings::Id;

/// The replies of the other processes of the segment to a question; see [`crate::peer_replies`]. A
/// process that cannot hear them asks none.
///
/// # Errors
/// [`Stop::Busy`] as long as replies may still come: the call is to be run again.
pub fn ask(
    table: &Table,
    session: &mut Session,
    host: &dyn Host,
    words: &[&[u8]],
) -> Result<Vec<Vec<u8>>, Stop> {
    Ok(ask_all(table, session, host, words)?.told.into_iter().map(|(_, text)| text).collect())
}

/// The counts of the other processes. For a process that does not reply, those that it last told
/// this process.
///
/// # Errors
/// As [`ask`].
pub fn ask_reports(table: &Table, session: &mut Session, host: &dyn Host) -> Result<Vec<Vec<u8>>, Stop> {
    let Replies { told, silent } = ask_all(table, session, host, &[b"INFO"])?;
    let mut reports = lock(&host.recorder().reports);
    reports.retain(|(threads, _)| threads.iter().any(|thread| silent.contains(thread)));
    reports.extend(told);
    Ok(reports.iter().map(|(_, text)| text.clone()).collect())
}

/// The thread of another process that serves a client.
pub fn home_of(call: &mut SessionCall<'_>, id: u64) -> Result<Option<Thread>, Stop> {
    let answers = ask(call.table, call.session, call.host, &[b"HOME", id.to_string().as_bytes()])?;
    let thread = |answer: &Vec<u8>| {
        let (seat, life) = std::str::from_utf8(answer).ok()?.split_once(' ')?;
        Some((seat.parse().ok()?, life.parse().ok()?))
    };
    Ok(answers.iter().find_map(thread))
}

fn ask_all(table: &Table, session: &mut Session, host: &dyn Host, words: &[&[u8]]) -> Result<Replies, Stop> {
    let own = host.threads();
    if own.is_empty() {
        return Ok(Replies::default());
    }
    let answers =
        query::ask(table, (session.identity.id, session.tally.questions), words, &own).ok_or(Stop::Busy)?;
    if session.caller.atomic {
        // Should the transaction run again, they are there already.
        session.tally.questions += 1;
    } else {
        query::forget(table, session.identity.id);
    }
    Ok(answers)
}

/// The reply to another process about entries that it shows or forgets: a line for each of them, or
/// nothing.
pub fn answer_entries<Entry>(
    entries: &mut VecDeque<Entry>,
    words: &[&[u8]],
    line: impl Fn(&Entry) -> String,
) -> String {
    match words {
        [b"GET"] => entries.iter().map(line).collect(),
        [b"RESET"] => {
            entries.clear();
            String::new()
        }
        _ => String::new(),
    }
}

/// How many entries a log that is joined from several processes shows, if this process has `own` of them. A lower setting hides
/// none of those: as in Redis, the next entry that is added removes what is too many.
pub fn entries_max(host: &dyn Host, setting: Id, own: usize) -> usize {
    own.max(host.settings().number(setting) as usize)
}

/// The lines of several replies, taken apart.
pub fn lines(answers: &[Vec<u8>]) -> impl Iterator<Item = Vec<Vec<u8>>> {
    let lines = answers.iter().flat_map(|answer| answer.split(|byte| *byte == b'\n'));
    lines.filter(|line| !line.is_empty()).map(|line| line.split(|byte| *byte == b' ').map(word_of).collect())
}

/// The number that a word is; 0 where it is none.
pub fn number(word: &[u8]) -> u64 {
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Any bytes as one word of a line, which has neither blanks nor ends of lines in it, and is not empty.
pub fn word(bytes: &[u8]) -> String {
    let mut word = String::from("=");
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'%' => word.push(char::from(*byte)),
            _ => word.push_str(&format!("%{byte:02x}")),
        }
    }
    word
}

/// What [`word`] was made of; a plain word is itself.
fn word_of(word: &[u8]) -> Vec<u8> {
    let Some(word) = word.strip_prefix(b"=") else { return word.to_vec() };
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word);
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        let coded = (*first == b'%').then(|| more.split_at_checked(2)).flatten();
        let decoded = coded.and_then(|(digits, more)| {
            Some((u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, more))
        });
        match decoded {
            Some((byte, more)) => (bytes.push(byte), rest = more).0,
            None => bytes.push(*first),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_in_a_word() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&all[..], b"", b"=", b"%41", b" \n"] {
            let word = word(bytes);
            assert!(word.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(
                lines(&[format!("a {word}\n").into_bytes()]).collect::<Vec<_>>(),
                [[b"a".to_vec(), bytes.to_vec()]]
            );
        }
    }
}
