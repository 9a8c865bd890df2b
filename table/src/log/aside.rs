//! What no command of Redis says: the change log tells it by ECHO, whose text stock servers pass over, in a log as in a stream.
//!
//! ```text
//!   polder:item FLAGS CAS MARK BYTES TYPE KEY     what an item has beside value and expiry: all of it, in the place of what it had
//!   polder:flush MS                               the selected database is emptied at this moment, in milliseconds since the epoch
//!   polder:call LENGTH WORD ...                   a command that stock servers do not know (polder_base::aside)
//! ```
//!
//! CAS is `-` unless a client has chosen one. MARK is `-`, `stale`, `won` or `stale+won`. TYPE has BYTES bytes, and KEY is the rest: so both may hold any
//! bytes. A text that begins with `polder:` and is none of these was written by a later version: a reader fails, since it would lose what that says.
use std::io::Write;

use polder_base::aside::{CALL, unframe};
use polder_base::number::unsigned;

use crate::layout::extras::{CONTENT_TYPE_BYTES_MAX, ItemExtras};

/// The command that says one of these.
pub const NAME: &[u8] = b"ECHO";
/// How each text begins.
const PREFIX: &[u8] = b"polder:";

/// What the log says beside the commands of stock servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aside<'a> {
    /// What an item has.
    Item { key: &'a [u8], flags: u32, extras: ItemExtras<'a> },
    /// When the selected database is emptied.
    Flush { moment_ms: u64 },
    /// A command: its words, put together.
    Call { words: &'a [u8] },
}

/// A text that begins as one of ours and says nothing that this version knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unknown;

impl<'a> Aside<'a> {
    /// The text, which [`Aside::read`] reads.
    pub fn text(&self) -> Vec<u8> {
        let mut text = PREFIX.to_vec();
        let written = match self {
            Aside::Item { key, flags, extras } => {
                let mark = match (extras.stale, extras.won) {
                    (false, false) => "-",
                    (true, false) => "stale",
                    (false, true) => "won",
                    (true, true) => "stale+won",
                };
                let cas = extras.cas.map_or("-".to_owned(), |cas| cas.to_string());
                let content_type =
                    &extras.content_type[..extras.content_type.len().min(CONTENT_TYPE_BYTES_MAX)];
                write!(text, "item {flags} {cas} {mark} {} ", content_type.len())
                    .and_then(|()| text.write_all(content_type))
                    .and_then(|()| text.write_all(b" "))
                    .and_then(|()| text.write_all(key))
            }
            Aside::Flush { moment_ms } => write!(text, "flush {moment_ms}"),
            Aside::Call { words } => return [CALL, words].concat(),
        };
        written.expect("memory takes all bytes");
        text
    }

    /// What a text says; `None`: it is none of ours.
    ///
    /// # Errors
    /// [`Unknown`].
    pub fn read(text: &'a [u8]) -> Result<Option<Aside<'a>>, Unknown> {
        match text.strip_prefix(PREFIX) {
            Some(text) => Aside::parse(text).map(Some).ok_or(Unknown),
            None => Ok(None),
        }
    }

    fn parse(text: &'a [u8]) -> Option<Aside<'a>> {
        let mut rest = text;
        match word(&mut rest)? {
            b"item" => {
                let flags = unsigned(word(&mut rest)?).and_then(|flags| u32::try_from(flags).ok())?;
                let cas = match word(&mut rest)? {
                    b"-" => None,
                    digits => Some(unsigned(digits)?),
                };
                let (stale, won) = match word(&mut rest)? {
                    b"-" => (false, false),
                    b"stale" => (true, false),
                    b"won" => (false, true),
                    b"stale+won" => (true, true),
                    _ => return None,
                };
                let bytes = unsigned(word(&mut rest)?).and_then(|bytes| usize::try_from(bytes).ok())?;
                let (content_type, behind) = rest.split_at_checked(bytes)?;
                let key = behind.strip_prefix(b" ").filter(|_| bytes <= CONTENT_TYPE_BYTES_MAX)?;
                Some(Aside::Item {
                    key,
                    flags,
                    extras: ItemExtras { stale, won, cas, content_type, is_drawn: false },
                })
            }
            b"flush" => Some(Aside::Flush { moment_ms: unsigned(rest)? }),
            b"call" => unframe(rest).map(|_| Aside::Call { words: rest }),
            _ => None,
        }
    }
}

/// Takes a word and the blank behind it.
fn word<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|byte| *byte == b' ')?;
    let (word, behind) = rest.split_at(end);
    *rest = &behind[1..];
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_as_it_was_written_whatever_bytes_key_and_type_hold() {
        for key in [&b""[..], b"k", b"a b  c", b"\r\n\0\xff", b" 3 x"] {
            for content_type in [&b""[..], b"text/html; charset=utf-8", b" ", b"\r\n \xff"] {
                for (flags, cas, stale, won) in [
                    (0, None, false, false),
                    (u32::MAX, Some(u64::MAX), true, true),
                    (5, Some(0), true, false),
                    (1, None, false, true),
                ] {
                    let extras = ItemExtras { stale, won, cas, content_type, is_drawn: false };
                    let aside = Aside::Item { key, flags, extras };
                    assert_eq!(
                        Aside::read(&aside.text()),
                        Ok(Some(aside)),
                        "{}",
                        aside.text().escape_ascii()
                    );
                }
            }
        }
    }

    #[test]
    fn the_form_of_a_text_stays() {
        let extras = ItemExtras {
            stale: true,
            won: false,
            cas: Some(7),
            content_type: b"text/css",
            ..ItemExtras::default()
        };
        let item = Aside::Item { key: b"a key", flags: 5, extras };
        assert_eq!(item.text(), b"polder:item 5 7 stale 8 text/css a key");
        let plain = Aside::Item { key: b"k", flags: 0, extras: ItemExtras::default() };
        assert_eq!(plain.text(), b"polder:item 0 - - 0  k");
        assert_eq!(Aside::Flush { moment_ms: 12 }.text(), b"polder:flush 12");
        let call = Aside::Call { words: b"4 XADD 1 k" };
        assert_eq!(call.text(), b"polder:call 4 XADD 1 k");
        assert_eq!(Aside::read(&call.text()), Ok(Some(call)));
        assert_eq!(Aside::read(b"polder:call 4 XADD 2 k"), Err(Unknown));
        assert_eq!(Aside::read(b"polder:flush 12"), Ok(Some(Aside::Flush { moment_ms: 12 })));
    }

    #[test]
    fn texts_of_others_are_passed_over_and_unknown_ones_of_ours_are_not() {
        assert_eq!((Aside::read(b"hello"), Aside::read(b"")), (Ok(None), Ok(None)));
        for text in [
            &b"polder:"[..],
            b"polder:new 1",
            b"polder:flush",
            b"polder:flush x",
            b"polder:item",
            b"polder:item 5 - - 0 ",
            b"polder:item 4294967296 - - 0  k",
            b"polder:item 5 x - 0  k",
            b"polder:item 5 - lost 0  k",
            b"polder:item 5 - - 9 text/css k",
            b"polder:item 5 - - 7 text/css k",
        ] {
            assert_eq!(Aside::read(text), Err(Unknown), "{}", text.escape_ascii());
        }
    }
}
