//! A user: how it authenticates, and what it may do. The rules are read and written here, as Redis
//! reads and writes them.
//!
//! ```text
//!   user ann on #<sha256> ~app:* resetchannels &news -@all +@read (%R~log:* resetchannels -@all +get)
//!            |      |        |          |                 |         |
//!            |      |        keys       channels          commands  more selectors: each is enough by itself
//!            switch passwords                             in the order in which they were given
//! ```
//!
//! A user's text ([`User::text`]) is canonical, and its rules make the same user again: the ACL file and the configuration file hold it, and
//! the segment nearly so. The bits that a check looks at are made from it in each process, since the numbers of commands are a build's own.
use std::collections::{BTreeMap, BTreeSet};

use polder_base::words;
use sha2::{Digest, Sha256};

use super::rows::{self, Named};
use super::unique::Unique;
use polder_calls::command::Command;

/// The SHA-256 of a password.
pub type Secret = [u8; 32];

/// What may be done with the keys that a pattern matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    pub read: bool,
    pub write: bool,
}

/// A set of commands, keys and channels; a call is allowed if one selector of its user allows all of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selector {
    pub all_keys: bool,
    pub all_channels: bool,
    /// Every command is allowed; false as soon as one was taken away.
    pub all_commands: bool,
    /// What begins the text of the commands: `+@all` or `-@all`.
    from_all: bool,
    /// A bit for each row, by its number.
    bits: Vec<u64>,
    /// The first arguments with which a command is allowed that is not allowed as such, by the command's number.
    first_words: BTreeMap<usize, BTreeSet<Vec<u8>>>,
    /// Patterns of keys.
    pub keys: Unique<Access>,
    /// Patterns of channels.
    pub channels: Unique<()>,
    /// The rules about commands since the last `+@all` or `-@all`: what, and whether it is allowed.
    rules: Unique<bool>,
}

/// One user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    pub name: Vec<u8>,
    /// Never the same for two users, of one name or of two. A session whose user has another serial
    /// by now acts for a user that is gone.
    pub serial: u64,
    pub on: bool,
    pub open: bool,
    sanitizes: bool,
    passwords: Unique<()>,
    /// The first one is the user's own, the others stand in parentheses.
    selectors: Vec<Selector>,
}

/// Why a rule cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    Syntax,
    Unknown,
    KeysAlready,
    ChannelsAlready,
    Hash,
    NoSuchPassword,
    WordOfSubcommand,
}

impl Wrong {
    /// Redis's words for it.
    pub fn text(self) -> &'static str {
        match self {
            Wrong::Syntax => "Syntax error",
            Wrong::Unknown => "Unknown command or category name in ACL",
            Wrong::KeysAlready => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
                 Try 'resetkeys' to start with an empty list of patterns"
            }
            Wrong::ChannelsAlready => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
                 Try 'resetchannels' to start with an empty list of channels"
            }
            Wrong::Hash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Wrong::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Wrong::WordOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

type Done = Result<(), Wrong>;

/// Whether a name, pattern or channel has what cannot stand in a line of words.
pub fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0))
}

impl User {
    /// A user of whom nothing is known: off, without passwords, with no right.
    pub fn new(name: &[u8], serial: u64, all_channels: bool) -> User {
        let selectors = vec![Selector::new(all_channels)];
        User {
            name: name.to_vec(),
            serial,
            on: false,
            open: false,
            sanitizes: true,
            passwords: Unique::default(),
            selectors,
        }
    }

    /// The user `default` as it is before any change.
    pub fn first() -> User {
        let mut user = User::new(super::DEFAULT_USER, 0, true);
        user.on = true;
        user.open = true;
        user.selectors[0].all_keys = true;
        user.selectors[0].allow_all(true);
        user
    }

    /// The user whose [`User::stored`] form this is. If this build cannot read some rules (its
    /// commands are older), those that allow are left out, and one that forbids removes every
    /// right.
    pub fn read(name: &[u8], serial: u64, stored: &[u8]) -> User {
        let mut user = User::new(name, serial, false);
        let mut lines = stored.split(|byte| *byte == b'\n');
        for rule in lines.next().unwrap_or_default().split(|byte| *byte == b' ') {
            if user.apply(rule, false).is_err() && rule.starts_with(b"-") {
                user.selectors[0].allow_all(false);
            }
        }
        for line in lines {
            let mut selector = Selector::new(false);
            for rule in line.split(|byte| *byte == b' ') {
                if selector.apply(rule).is_err() && rule.starts_with(b"-") {
                    selector.allow_all(false);
                }
            }
            user.selectors.push(selector);
        }
        user
    }

    /// What the segment keeps: the rules, and a line for each further selector, so that no pattern can be taken for its end.
    pub fn stored(&self) -> Vec<u8> {
        let selectors = self.selectors.iter().map(Selector::stored).collect::<Vec<_>>().join(&b'\n');
        let mut words = self.words();
        words.push(selectors);
        words.join(&b' ')
    }

    /// Switches and passwords.
    fn words(&self) -> Vec<Vec<u8>> {
        let flags = self.flags().into_iter().map(|flag| flag.as_bytes().to_vec());
        flags.chain(self.hashes().map(|hash| format!("#{hash}").into_bytes())).collect()
    }

    /// What begins with the own selector and is followed by the others.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Whether the user may do everything.
    pub fn is_free(&self) -> bool {
        self.selectors
            .iter()
            .any(|selector| selector.all_commands && selector.all_keys && selector.all_channels)
    }

    /// Whether the user authenticates with this password.
    pub fn admits(&self, password: &[u8]) -> bool {
        let given = digest(password);
        let known = self.passwords.iter().fold(false, |known, (secret, ())| known | same(secret, &given));
        self.on && (self.open || known)
    }

    /// Applies one rule; one that is refused changes nothing. `all_channels` is what a new selector begins with.
    ///
    /// # Errors
    /// Why there can be no such rule.
    pub fn apply(&mut self, rule: &[u8], all_channels: bool) -> Done {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.on = true,
            b"off" => self.on = false,
            b"nopass" => {
                self.open = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.open = false;
                self.passwords.clear();
            }
            b"skip-sanitize-payload" => self.sanitizes = false,
            b"sanitize-payload" => self.sanitizes = true,
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => *self = User::new(&self.name, self.serial, all_channels),
            _ => return self.apply_other(rule, all_channels),
        }
        Ok(())
    }

    fn apply_other(&mut self, rule: &[u8], all_channels: bool) -> Done {
        match rule {
            [b'>', password @ ..] => self.add_secret(digest(password)),
            [b'#', hash @ ..] => self.add_secret(secret(hash)?),
            [b'<', password @ ..] => self.remove_secret(digest(password))?,
            [b'!', hash @ ..] => self.remove_secret(secret(hash)?)?,
            [b'(', inside @ .., b')'] => self.selectors.push(Selector::read(inside, all_channels)?),
            _ => self.selectors[0].apply(rule)?,
        }
        Ok(())
    }

    fn add_secret(&mut self, secret: Secret) {
        self.passwords.add(&secret, ());
        self.open = false;
    }

    fn remove_secret(&mut self, secret: Secret) -> Done {
        if self.passwords.remove(&secret) { Ok(()) } else { Err(Wrong::NoSuchPassword) }
    }

    /// The words for the user's switches, as ACL GETUSER lists them.
    pub fn flags(&self) -> Vec<&'static str> {
        let switch = if self.on { "on" } else { "off" };
        let sanitizing = if self.sanitizes { "sanitize-payload" } else { "skip-sanitize-payload" };
        [Some(switch), self.open.then_some("nopass"), Some(sanitizing)].into_iter().flatten().collect()
    }

    /// The hashes of the user's passwords, in hexadecimal.
    pub fn hashes(&self) -> impl Iterator<Item = String> {
        self.passwords.iter().map(|(secret, ())| secret.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// All rules of the user, each selector in parentheses as one.
    pub fn rules(&self) -> Vec<Vec<u8>> {
        self.rules_by(Selector::text)
    }

    fn rules_by(&self, text: fn(&Selector) -> Vec<u8>) -> Vec<Vec<u8>> {
        let (own, others) = self.selectors.split_first().expect("a user has a selector");
        let own = text(own);
        let own = own.split(|byte| *byte == b' ').map(<[u8]>::to_vec);
        let others = others.iter().map(|selector| [b"(", &quoted(&text(selector))[..], b")"].concat());
        self.words().into_iter().chain(own).chain(others).collect()
    }

    /// All rules of the user, as ACL LIST shows them behind its name.
    pub fn text(&self) -> Vec<u8> {
        self.rules().join(&b' ')
    }

    /// The line that stands for the user in ACL LIST.
    pub fn line(&self) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.text()].concat()
    }

    /// The line that stands for the user in a file: as [`User::line`], but such that it can always be read back. (Redis writes `%RW~* ~a` as
    /// `~* ~a`, and refuses to start with that file.)
    pub fn line_in_file(&self) -> Vec<u8> {
        [b"user ", &self.name[..], b" ", &self.rules_in_file().join(&b' ')].concat()
    }

    /// The rules of [`User::line_in_file`].
    pub fn rules_in_file(&self) -> Vec<Vec<u8>> {
        self.rules_by(Selector::stored)
    }
}

impl Selector {
    /// Allows nothing but, perhaps, all channels.
    fn new(all_channels: bool) -> Selector {
        Selector { all_channels, bits: vec![0; rows::count().div_ceil(64)], ..Selector::default() }
    }

    fn read(inside: &[u8], all_channels: bool) -> Result<Selector, Wrong> {
        let mut selector = Selector::new(all_channels);
        for rule in words::split(inside).unwrap_or_default() {
            selector.apply(&rule)?;
        }
        Ok(selector)
    }

    fn apply(&mut self, rule: &[u8]) -> Done {
        match rule.to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.allow_all(true),
            b"nocommands" | b"-@all" => self.allow_all(false),
            _ => return self.apply_pattern(rule),
        }
        Ok(())
    }

    fn apply_pattern(&mut self, rule: &[u8]) -> Done {
        match rule {
            [b'~' | b'%', ..] if self.all_keys => Err(Wrong::KeysAlready),
            [b'~', pattern @ ..] => self.add_keys(pattern, true, true),
            [b'%', rest @ ..] => {
                let end = rest.iter().position(|byte| *byte == b'~').unwrap_or(rest.len());
                let (read, write) = directions(&rest[..end])?;
                self.add_keys(rest.get(end + 1..).unwrap_or_default(), read, write)
            }
            [b'&', ..] if self.all_channels => Err(Wrong::ChannelsAlready),
            [b'&', channel @ ..] if has_spaces(channel) => Err(Wrong::Syntax),
            [b'&', channel @ ..] => {
                self.channels.add(channel, ());
                Ok(())
            }
            [sign @ (b'+' | b'-'), b'@', ..] => self.apply_category(*sign == b'+', &rule[1..]),
            [b'+', name @ ..] => self.allow(name),
            [b'-', name @ ..] => self.forbid(name),
            _ => Err(Wrong::Syntax),
        }
    }

    fn add_keys(&mut self, pattern: &[u8], read: bool, write: bool) -> Done {
        if has_spaces(pattern) {
            return Err(Wrong::Syntax);
        }
        match self.keys.get_mut(pattern) {
            Some(known) => {
                known.read |= read;
                known.write |= write;
            }
            None => self.keys.add(pattern, Access { read, write }),
        }
        Ok(())
    }

    /// `+@all` and `-@all`: what was said before about commands does not matter any more.
    fn allow_all(&mut self, allowed: bool) {
        self.all_commands = allowed;
        self.from_all = allowed;
        self.bits.fill(if allowed { u64::MAX } else { 0 });
        self.first_words.clear();
        self.rules.clear();
    }

    fn apply_category(&mut self, allowed: bool, category: &[u8]) -> Done {
        let category = category.to_ascii_lowercase();
        for command in rows::of_category(&category[1..]).ok_or(Wrong::Unknown)? {
            self.set(command, allowed);
        }
        self.remember(allowed, &category);
        Ok(())
    }

    /// `+command`, `+container|subcommand`, or `+command|word` where the command has no subcommands.
    fn allow(&mut self, name: &[u8]) -> Done {
        let name = name.to_ascii_lowercase();
        let bar = name.iter().rposition(|byte| *byte == b'|');
        match (rows::named(&name), bar) {
            (Some(Named::Here(command)), _) => self.set(command, true),
            (Some(Named::Absent), _) => {}
            (None, None) => return Err(Wrong::Unknown),
            (None, Some(bar)) => self.allow_word(&name[..bar], &name[bar + 1..])?,
        }
        self.remember(true, &name);
        Ok(())
    }

    fn allow_word(&mut self, name: &[u8], word: &[u8]) -> Done {
        let Some(Named::Here(command)) = rows::named(name) else { return Err(Wrong::Unknown) };
        if command.subcommand().is_some() {
            return Err(Wrong::WordOfSubcommand);
        }
        if word.is_empty() || has_spaces(word) {
            return Err(Wrong::Syntax);
        }
        if rows::is_container(command) {
            return Err(Wrong::Unknown);
        }
        self.first_words.entry(rows::number(command)).or_default().insert(word.to_vec());
        Ok(())
    }

    fn forbid(&mut self, name: &[u8]) -> Done {
        let name = name.to_ascii_lowercase();
        if let Named::Here(command) = rows::named(&name).ok_or(Wrong::Unknown)? {
            self.set(command, false);
        }
        self.remember(false, &name);
        Ok(())
    }

    /// Allows a command with all its subcommands, or forbids it.
    fn set(&mut self, command: &'static Command, allowed: bool) {
        self.first_words.remove(&rows::number(command));
        for command in rows::with_subcommands(command) {
            let number = rows::number(command);
            let word = &mut self.bits[number / 64];
            *word = if allowed { *word | 1 << (number % 64) } else { *word & !(1 << (number % 64)) };
        }
        self.all_commands &= allowed;
    }

    /// Notes a rule in place of what was said of the same before, or of its subcommands.
    fn remember(&mut self, allowed: bool, what: &[u8]) {
        // From `what|` to the last of its subcommands.
        self.rules.remove_range([what, b"|"].concat()..[what, b"}"].concat());
        self.rules.remove(what);
        self.rules.add(what, allowed);
    }

    /// Whether a call of this command with these arguments is allowed, whatever its keys are.
    pub fn allows(&self, command: &Command, args: &[&[u8]]) -> bool {
        let number = rows::number(command);
        if self.all_commands || self.bits.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
        {
            return true;
        }
        let (Some(words), Some(first)) = (self.first_words.get(&number), args.get(1)) else { return false };
        words.iter().any(|word| first.eq_ignore_ascii_case(word))
    }

    /// The commands, as ACL GETUSER shows them.
    pub fn commands_text(&self) -> Vec<u8> {
        let first = if self.from_all { "+@all" } else { "-@all" };
        let mut text = first.as_bytes().to_vec();
        for (what, allowed) in self.rules.iter() {
            text.extend_from_slice(if *allowed { b" +" } else { b" -" });
            text.extend_from_slice(what);
        }
        text
    }

    /// The patterns of keys, each with its mark.
    pub fn keys_text(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let mark = |access: &Access| match (access.read, access.write) {
            (true, false) => &b"%R~"[..],
            (false, true) => b"%W~",
            _ => b"~",
        };
        let words: Vec<Vec<u8>> =
            self.keys.iter().map(|(pattern, access)| [mark(access), pattern].concat()).collect();
        words.join(&b' ')
    }

    /// The channels, each with its mark.
    pub fn channels_text(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let words: Vec<Vec<u8>> =
            self.channels.iter().map(|(channel, ())| [b"&", channel].concat()).collect();
        words.join(&b' ')
    }

    /// As [`Selector::text`], but that a pattern `*` stays one: it is not the same as `allkeys` when others are added.
    fn stored(&self) -> Vec<u8> {
        let keys = self.keys_text();
        let words = keys
            .split(|byte| *byte == b' ')
            .map(|word| if word == b"~*" && !self.all_keys { b"%RW~*" } else { word });
        self.text_with(words.collect::<Vec<_>>().join(&b' '))
    }

    fn text(&self) -> Vec<u8> {
        self.text_with(self.keys_text())
    }

    fn text_with(&self, keys: Vec<u8>) -> Vec<u8> {
        let reset = if self.all_channels { &b""[..] } else { b"resetchannels" };
        let words = [keys, reset.to_vec(), self.channels_text(), self.commands_text()];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' ')
    }
}

/// A selector's text for between parentheses: rules are split there as a command line is, and a parenthesis ends them.
fn quoted(text: &[u8]) -> Vec<u8> {
    let is_plain =
        |word: &[u8]| !word.ends_with(b")") && !word.iter().any(|byte| matches!(byte, b'"' | b'\'' | b'\\'));
    let shown = |word: &[u8]| match words::quote(word).into_bytes() {
        _ if is_plain(word) => word.to_vec(),
        quoted if quoted.starts_with(b"\"") => quoted,
        bare => [b"\"", &bare[..], b"\""].concat(),
    };
    text.split(|byte| *byte == b' ').map(shown).collect::<Vec<_>>().join(&b' ')
}

/// What stands between `%` and `~`: each letter once, at least one.
fn directions(letters: &[u8]) -> Result<(bool, bool), Wrong> {
    let (mut read, mut write) = (false, false);
    for letter in letters {
        match letter.to_ascii_uppercase() {
            b'R' if !read => read = true,
            b'W' if !write => write = true,
            _ => return Err(Wrong::Syntax),
        }
    }
    if read || write { Ok((read, write)) } else { Err(Wrong::Syntax) }
}

fn digest(password: &[u8]) -> Secret {
    Sha256::digest(password).into()
}

/// The hash that is written in hexadecimal.
fn secret(hash: &[u8]) -> Result<Secret, Wrong> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut secret = Secret::default();
    if hash.len() != 2 * secret.len() {
        return Err(Wrong::Hash);
    }
    for (byte, pair) in secret.iter_mut().zip(hash.chunks_exact(2)) {
        *byte = digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low).ok_or(Wrong::Hash)?;
    }
    Ok(secret)
}

/// Compares without telling by the time it takes how much was right.
fn same(one: &[u8], two: &Secret) -> bool {
    one.iter().zip(two).fold(0, |sum, (one, two)| sum | (one ^ two)) == 0
}

/// Joins the words of each selector in parentheses.
///
/// # Errors
/// The word at which a selector begins that does not end.
pub fn merged(words: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<u8>>, Vec<u8>> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, word) in words.iter().map(AsRef::as_ref).enumerate() {
        match &mut open {
            None if word.starts_with(b"(") && !word.ends_with(b")") => open = Some((at, word.to_vec())),
            None => rules.push(word.to_vec()),
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
                if word.ends_with(b")") {
                    rules.extend(open.take().map(|(_, selector)| selector));
                }
            }
        }
    }
    match open {
        Some((at, _)) => Err(words[at].as_ref().to_vec()),
        None => Ok(rules),
    }
}
