//! What the commands of a change log mean: the one reader of effects, for logs that are read into a memory or shown, and for streams that are followed.
//!
//! A log may come from a Redis or a Valkey, or hold what a primary has sent: names in any case, and commands that change no key.
//!
//! | command | it |
//! |---|---|
//! | SELECT, MULTI, EXEC | says to what, and to which transaction, the commands behind it belong |
//! | PING, PUBLISH, SPUBLISH, REPLCONF, ECHO of a text that is not ours | changes nothing |
//! | ECHO of a text of ours ([`Aside`]) | is a command of this program |
//! | any other | is a command, as it stands |
use polder_base::aside::unframe;
use polder_table::{ASIDE_NAME, Aside, Db, ItemExtras};

/// What a command of the log means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// What follows is of this database; none: one that is no number of a database.
    Select(Option<Db>),
    /// What follows, up to [`Effect::Exec`], is one transaction.
    Multi,
    Exec,
    /// Nothing has changed.
    Nothing,
    /// The command itself.
    Command,
    /// This command, instead of the one that stands there.
    Instead(Vec<Vec<u8>>),
}

/// Reads a command.
///
/// # Errors
/// What a later version has written: see [`Aside`]; a command without words.
pub fn read(words: &[&[u8]]) -> Result<Effect, String> {
    let Some((name, rest)) = words.split_first() else { return Err("a command has no words".into()) };
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    // The lengths tell most commands apart.
    Ok(match (name.len(), rest) {
        (6, [number]) if is(b"SELECT") => {
            Effect::Select(std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()))
        }
        (5, []) if is(b"MULTI") => Effect::Multi,
        (4, []) if is(b"EXEC") => Effect::Exec,
        (4, _) if is(b"PING") => Effect::Nothing,
        (7, [_, _]) if is(b"PUBLISH") => Effect::Nothing,
        (8, [_, _]) if is(b"SPUBLISH") => Effect::Nothing,
        (8, _) if is(b"REPLCONF") => Effect::Nothing,
        (4, [text]) if is(ASIDE_NAME) => match Aside::read(text) {
            Ok(None) => Effect::Nothing,
            Ok(Some(aside)) => Effect::Instead(command_of(&aside)),
            Err(_) => {
                let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES_MAX)]);
                return Err(format!(
                    "a later version of polder has written '{shown}': read the log with that version"
                ));
            }
        },
        _ => Effect::Command,
    })
}

/// The longest part of a text that an error shows.
const SHOWN_BYTES_MAX: usize = 100;

/// The command that does what an aside says.
fn command_of(aside: &Aside<'_>) -> Vec<Vec<u8>> {
    let word = |text: &str| text.as_bytes().to_vec();
    let (key, flags, extras) = match *aside {
        Aside::Item { key, flags, extras } => (key, flags, extras),
        Aside::Flush { moment_ms } => {
            return vec![word("ITEM.FLUSH"), word("PXAT"), moment_ms.to_string().into_bytes()];
        }
        Aside::Call { words } => {
            return unframe(words).unwrap_or_default().into_iter().map(<[u8]>::to_vec).collect();
        }
    };
    let ItemExtras { stale, won, cas, content_type, .. } = extras;
    let mut words = vec![word("ITEM.MARK"), key.to_vec()];
    if flags != 0 {
        words.extend([word("FLAGS"), flags.to_string().into_bytes()]);
    }
    if let Some(cas) = cas {
        words.extend([word("NEWCAS"), cas.to_string().into_bytes()]);
    }
    if !content_type.is_empty() {
        words.extend([word("TYPE"), content_type.to_vec()]);
    }
    words.extend(
        [(stale, "STALE"), (won, "WON")]
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, mark)| word(mark)),
    );
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Effect, String> {
        read(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_read_in_any_case() {
        for (line, effect) in [
            ("select 3", Effect::Select(Some(3))),
            ("SELECT x", Effect::Select(None)),
            ("Multi", Effect::Multi),
            ("exec", Effect::Exec),
            ("ping", Effect::Nothing),
            ("PING text", Effect::Nothing),
            ("publish channel text", Effect::Nothing),
            ("SPUBLISH channel text", Effect::Nothing),
            ("replconf GETACK *", Effect::Nothing),
            ("ECHO text", Effect::Nothing),
            ("set k v", Effect::Command),
            ("PUBLISH", Effect::Command),
        ] {
            assert_eq!(of(line), Ok(effect), "{line}");
        }
    }

    #[test]
    fn our_texts_are_commands_of_ours() {
        let extras = ItemExtras {
            stale: true,
            won: true,
            cas: Some(7),
            content_type: b"text/html; a=b",
            ..ItemExtras::default()
        };
        let text = Aside::Item { key: b"a\r\n k", flags: 5, extras }.text();
        let expected: [&[u8]; 10] = [
            b"ITEM.MARK",
            b"a\r\n k",
            b"FLAGS",
            b"5",
            b"NEWCAS",
            b"7",
            b"TYPE",
            b"text/html; a=b",
            b"STALE",
            b"WON",
        ];
        assert_eq!(read(&[b"echo", &text]), Ok(Effect::Instead(expected.map(<[u8]>::to_vec).to_vec())));
        let text = Aside::Flush { moment_ms: 12 }.text();
        let expected: [&[u8]; 3] = [b"ITEM.FLUSH", b"PXAT", b"12"];
        assert_eq!(read(&[b"ECHO", &text]), Ok(Effect::Instead(expected.map(<[u8]>::to_vec).to_vec())));
        let text = Aside::Call { words: b"7 XCFGSET 1 k" }.text();
        let expected: [&[u8]; 2] = [b"XCFGSET", b"k"];
        assert_eq!(read(&[b"ECHO", &text]), Ok(Effect::Instead(expected.map(<[u8]>::to_vec).to_vec())));
        assert!(read(&[b"ECHO", b"polder:later 1"]).is_err_and(|error| error.contains("polder:later 1")));
    }
}
