//! From a name to its row: open-addressed tables made at compile time, of the rows that the engine registers.
//!
//! ```text
//!   engine   FAMILIES --> static rows, NameTable --> Commands --register--> this process
//!   runtime, persist, replica, admin                 find(name), all(), ...  <--'
//! ```
//!
//! Names are compared with their letters folded to upper case. Two rows of one name do not compile: the second would land
//! on the first while the table is made.
//!
//! A server may rename or remove commands before it starts (`rename-command`): [`find`] then knows a row by its new name only. Rules of users,
//! statistics and documentation go on with the rows' own names, as in Redis: [`find_original`]. It costs the lookup of a short name nothing: the
//! hidden row's word becomes one that no name has, and new names are looked up where no row was found.
//!
//! **Invariant:** a process has one table of commands, registered before the first lookup.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polder_base::bytes;

use polder_calls::command::{CONTAINER, Command};
use polder_calls::facts::Facts;
use polder_table::Stop;

/// Slots of the table, a power of two of at least twice the number of rows.
const SLOTS: usize = 2048;

/// The longest name of a row; longer input names no command.
const NAME_MAX: usize = 40;

/// The name of a family in COMMAND DOCS, and the ACL category of its commands.
#[derive(Clone, Copy)]
pub struct FamilyName {
    /// `string`, `sorted-set`, ...
    pub group: &'static str,
    /// Without the `@`; empty for none.
    pub category: &'static str,
}

/// The index from names to the numbers of `COUNT` rows.
pub struct NameTable<const COUNT: usize> {
    /// The number of a row plus one in the slot of its name or the next free one; 0 in an empty slot.
    slots: [u16; SLOTS],
    /// The short names, by their words.
    short_slots: [u16; SHORT_SLOTS],
    /// The folded word of each row's name as [`find`] compares it, 0 for a long one.
    words: [AtomicU64; COUNT],
    /// Rows that are not found by their own names.
    hidden: [AtomicBool; COUNT],
}

impl<const COUNT: usize> NameTable<COUNT> {
    /// The table of these rows, whose numbers are their places.
    pub const fn of(rows: &[Command; COUNT]) -> NameTable<COUNT> {
        assert!(COUNT * 2 <= SLOTS, "more slots, please");
        let own = own_words(rows);
        // A constant that is repeated in an array literal makes each element anew.
        let mut words = [const { AtomicU64::new(0) }; COUNT];
        let mut number = 0;
        while number < COUNT {
            words[number] = AtomicU64::new(own[number]);
            number += 1;
        }
        NameTable {
            slots: slots(rows),
            short_slots: short_slots(&own),
            words,
            hidden: [const { AtomicBool::new(false) }; COUNT],
        }
    }
}

/// The commands of a process.
pub struct Commands {
    families: &'static [FamilyName],
    rows: &'static [Command],
    slots: &'static [u16; SLOTS],
    short_slots: &'static [u16; SHORT_SLOTS],
    words: &'static [AtomicU64],
    hidden: &'static [AtomicBool],
}

const fn slots<const COUNT: usize>(rows: &[Command; COUNT]) -> [u16; SLOTS] {
    let mut slots = [0; SLOTS];
    let mut number = 0;
    while number < COUNT {
        let name = rows[number].facts.name.as_bytes();
        assert!(name.len() <= NAME_MAX, "a command's name is too long");
        let mut slot = hash(name) as usize % SLOTS;
        while slots[slot] != 0 {
            assert!(
                !bytes::same(rows[slots[slot] as usize - 1].facts.name.as_bytes(), name),
                "two commands of one name"
            );
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = number as u16 + 1;
        number += 1;
    }
    slots
}

/// A hash of a name in which case does not count: eight bytes a step.
const fn hash(name: &[u8]) -> u64 {
    let (mut sum, mut word, mut at) = (name.len() as u64, 0u64, 0);
    while at < name.len() {
        word = word << 8 | (name[at] & 0xdf) as u64;
        at += 1;
        if at % 8 == 0 {
            sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sum ^= sum >> 29;
            word = 0;
        }
    }
    sum = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sum >> 32
}

/// Names of at most this many bytes are found as one word.
const SHORT: usize = 8;

/// Slots of the table of short names.
const SHORT_SLOTS: usize = 1024;

/// The word of a hidden row: folded words hold no lower-case letters.
const HIDDEN_WORD: u64 = u64::from_le_bytes(*b"aaaaaaaa");

/// The names that take the place of hidden rows' own, in upper case; and rows that have no name any more.
static RENAMED: OnceLock<Vec<(Vec<u8>, u16)>> = OnceLock::new();

/// The folded words of the rows' names, 0 for a long one.
const fn own_words<const COUNT: usize>(rows: &[Command; COUNT]) -> [u64; COUNT] {
    let mut words = [0; COUNT];
    let mut number = 0;
    while number < COUNT {
        let name = rows[number].facts.name.as_bytes();
        let mut at = 0;
        while name.len() <= SHORT && at < name.len() {
            words[number] |= (name[at] as u64) << (at * 8);
            at += 1;
        }
        number += 1;
    }
    words
}

const fn short_slots(own: &[u64]) -> [u16; SHORT_SLOTS] {
    let mut slots = [0; SHORT_SLOTS];
    let mut number = 0;
    while number < own.len() {
        if own[number] != 0 {
            let mut slot = slot_of(own[number]);
            while slots[slot] != 0 {
                slot = (slot + 1) % SHORT_SLOTS;
            }
            slots[slot] = number as u16 + 1;
        }
        number += 1;
    }
    slots
}

const fn slot_of(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

/// A short name as a word, its letters folded to upper case, all eight at once.
#[inline]
fn folded(name: &[u8]) -> u64 {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let word = bytes::word(name);
    let rest = word & (LOW * 0x7f);
    // The high bits of the bytes from 'a' on, without those past 'z' and those that are not ASCII.
    let lower =
        (rest + LOW * (0x80 - b'a' as u64)) & !(rest + LOW * (0x7f - b'z' as u64)) & !word & (LOW * 0x80);
    word - (lower >> 2)
}

impl Commands {
    /// The commands in `rows`, which `names` leads to.
    pub const fn of<const COUNT: usize>(
        families: &'static [FamilyName],
        rows: &'static [Command; COUNT],
        names: &'static NameTable<COUNT>,
    ) -> Commands {
        Commands {
            families,
            rows,
            slots: &names.slots,
            short_slots: &names.short_slots,
            words: &names.words,
            hidden: &names.hidden,
        }
    }

    /// The row of a command by its name in any case; `container|name` finds a subcommand.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Command> {
        if name.len() > SHORT || name.is_empty() {
            return self.find_long(name);
        }
        let word = folded(name);
        let mut slot = slot_of(word);
        loop {
            let Some(number) = (self.short_slots[slot] as usize).checked_sub(1) else {
                return self.find_renamed(name);
            };
            // A byte 0 in a name would make it another, shorter name's word.
            if self.words[number].load(Ordering::Relaxed) == word
                && self.rows[number].facts.name.len() == name.len()
            {
                return Some(&self.rows[number]);
            }
            slot = (slot + 1) % SHORT_SLOTS;
        }
    }

    /// Finds a row as [`Commands::find`] does, by the table of names of any length.
    pub fn find_long(&self, name: &[u8]) -> Option<&'static Command> {
        match self.find_original(name) {
            Some(row) if !self.is_hidden(row) => Some(row),
            _ => self.find_renamed(name),
        }
    }

    /// The row whose own name this is, whatever it is called in this process.
    pub fn find_original(&self, name: &[u8]) -> Option<&'static Command> {
        if name.len() > NAME_MAX {
            return None;
        }
        let mut slot = hash(name) as usize % SLOTS;
        loop {
            let command = &self.rows[(self.slots[slot] as usize).checked_sub(1)?];
            if command.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(command);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    #[cold]
    fn find_renamed(&self, name: &[u8]) -> Option<&'static Command> {
        let (_, number) = RENAMED.get()?.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(&self.rows[usize::from(*number)])
    }

    fn is_hidden(&self, row: &Command) -> bool {
        self.hidden[usize::from(row.number())].load(Ordering::Relaxed)
    }

    /// Every row with its family, in the documentation's order.
    pub fn all(&self) -> impl Iterator<Item = (&'static FamilyName, &'static Command)> + use<> {
        let families = self.families;
        self.rows.iter().map(move |command| (&families[command.family() as usize], command))
    }
}

static REGISTERED: OnceLock<&'static Commands> = OnceLock::new();

/// Makes these the commands of this process. Only the first call has an effect.
pub fn register(commands: &'static Commands) {
    _ = REGISTERED.set(commands);
}

/// The commands of this process.
#[cfg(not(test))]
#[inline]
pub fn commands() -> &'static Commands {
    REGISTERED.get().expect("the commands of this process are registered: polder_engine::register")
}

#[cfg(test)]
pub use tests::commands;

/// Like [`Commands::find`], in the table of this process.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    commands().find(name)
}

/// Like [`Commands::find_original`], in the table of this process.
pub fn find_original(name: &[u8]) -> Option<&'static Command> {
    commands().find_original(name)
}

/// How many rows there are.
pub fn count() -> usize {
    commands().rows.len()
}

/// The whole row of what a call sees of it.
pub(crate) fn row_of(facts: &Facts) -> &'static Command {
    &commands().rows[facts.number() as usize]
}

/// Redis's groups of commands, each once, in the order of the families.
pub fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for family in commands().families {
        if !groups.contains(&family.group) {
            groups.push(family.group);
        }
    }
    groups
}

/// The rows of a group, by name.
pub fn rows_of(group: &str) -> Vec<&'static Command> {
    let mut rows: Vec<_> =
        all().filter(|(family, _)| family.group.eq_ignore_ascii_case(group)).map(|(_, row)| row).collect();
    rows.sort_by_key(|row| row.name);
    rows
}

/// Whether a row, or the container that it belongs to, has no name in this process.
pub fn is_removed(command: &Command) -> bool {
    let Some(renamed) = RENAMED.get() else { return false };
    let is_nameless = |number: u16| {
        commands().hidden[usize::from(number)].load(Ordering::Relaxed)
            && renamed.iter().all(|(_, own)| *own != number)
    };
    let container = command.subcommand().and_then(|_| find_original(command.container().as_bytes()));
    is_nameless(container.unwrap_or(command).number())
}

/// Renames commands for this whole process, one pair of old and new name after the other; an empty new name removes the command. To be called once, before the
/// first lookup on another thread.
///
/// # Errors
/// The number of the first pair that cannot be, and why. Nothing is renamed then.
pub fn rename(pairs: &[(&[u8], &[u8])]) -> Result<(), (usize, String)> {
    let mut renamed: Vec<(Vec<u8>, u16)> = Vec::new();
    let mut hidden = vec![false; count()];
    for (at, (old, new)) in pairs.iter().enumerate() {
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let number = match renamed.iter().position(|(own, _)| own.eq_ignore_ascii_case(old)) {
            Some(earlier) => renamed.remove(earlier).1,
            None => {
                let row = find_original(old)
                    .filter(|row| !hidden[usize::from(row.number())] && row.subcommand().is_none());
                row.ok_or_else(|| (at, format!("there is no command '{}' to rename", shown(old))))?.number()
            }
        };
        hidden[usize::from(number)] = true;
        let is_own = find_original(new).is_some_and(|row| !hidden[usize::from(row.number())]);
        if is_own || renamed.iter().any(|(own, _)| own.eq_ignore_ascii_case(new)) {
            return Err((at, format!("there is a command '{}' already: choose another name", shown(new))));
        }
        match find_original(new) {
            // It has its own name again.
            Some(row) if row.number() == number => hidden[usize::from(number)] = false,
            _ if new.is_empty() => {}
            _ => renamed.push((new.to_ascii_uppercase(), number)),
        }
    }
    if RENAMED.set(renamed).is_err() {
        return Err((0, "commands have been renamed before".into()));
    }
    let commands = commands();
    for number in (0..hidden.len()).filter(|number| hidden[*number]) {
        commands.hidden[number].store(true, Ordering::Relaxed);
        commands.words[number].store(HIDDEN_WORD, Ordering::Relaxed);
    }
    Ok(())
}

/// The row of a subcommand of `container`.
pub fn find_subcommand(container: &Command, name: &[u8]) -> Option<&'static Command> {
    let mut whole = [0; NAME_MAX];
    let length = container.name.len() + 1 + name.len();
    let whole = whole.get_mut(..length)?;
    whole[..container.name.len()].copy_from_slice(container.name.as_bytes());
    whole[container.name.len()] = b'|';
    whole[container.name.len() + 1..].copy_from_slice(name);
    find_original(whole)
}

/// Every row with its family, in the documentation's order.
pub fn all() -> impl Iterator<Item = (&'static FamilyName, &'static Command)> {
    commands().all()
}

/// The family that a row belongs to.
pub fn family_of(command: &Command) -> &'static FamilyName {
    &commands().families[command.family() as usize]
}

/// The subcommands of a container, in the order of their rows.
pub fn subcommands(container: &'static Command) -> impl Iterator<Item = &'static Command> {
    all()
        .map(|(_, command)| command)
        .filter(move |command| command.subcommand().is_some() && command.container() == container.name)
}

/// The row that a call's first words name.
///
/// # Errors
/// Redis's texts for an unknown command or subcommand.
pub fn resolve(args: &[&[u8]]) -> Result<&'static Command, Stop> {
    let Some(command) = args.first().and_then(|name| find(name)) else { return Err(unknown(args)) };
    if command.has(CONTAINER) && args.len() > 1 {
        return find_subcommand(command, args[1]).ok_or_else(|| unknown_subcommand(command, args[1]));
    }
    if command.subcommand().is_some() {
        return Err(unknown(args));
    }
    Ok(command)
}

#[cold]
fn unknown(args: &[&[u8]]) -> Stop {
    const SHOWN: usize = 128;
    let mut shown = String::new();
    for arg in args.iter().skip(1) {
        if shown.len() >= SHOWN {
            break;
        }
        let arg = &arg[..arg.len().min(SHOWN - shown.len())];
        shown.push_str(&format!("'{}' ", String::from_utf8_lossy(arg)));
    }
    let name = args.first().copied().unwrap_or_default();
    let name = String::from_utf8_lossy(&name[..name.len().min(SHOWN)]);
    format!("ERR unknown command '{name}', with args beginning with: {shown}").into()
}

#[cold]
fn unknown_subcommand(container: &Command, name: &[u8]) -> Stop {
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    format!("ERR unknown subcommand '{name}'. Try {} HELP.", container.name).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that tests of this crate see.
    pub fn commands() -> &'static Commands {
        crate::test_commands::register();
        REGISTERED.get().expect("registered right above")
    }
}
