//! From a name to its row: an open-addressed table made at compile time.
//!
//! Names are compared with their letters folded to upper case. Two rows of one name do not compile: the second would land
//! on the first while the table is made.
//!
//! A server may rename or remove commands before it starts (`rename-command`): [`find`] then knows a row by its new name only. Rules of users,
//! statistics and documentation go on with the rows' own names, as in Redis: [`find_original`]. It costs the lookup of a short name nothing: the
//! hidden row's word becomes one that no name has, and new names are looked up where no row was found.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use polder_base::bytes;

use crate::{FAMILIES, Family};
use polder_calls::command::{CONTAINER, Command};
use polder_calls::facts::Facts;
use polder_table::Stop;

/// Slots of the table, a power of two of at least twice the number of rows.
const SLOTS: usize = 2048;

/// The longest name of a row; longer input names no command.
const NAME_MAX: usize = 40;

/// How many rows there are.
pub const COUNT: usize = count();

const fn count() -> usize {
    let (mut sum, mut family) = (0, 0);
    while family < FAMILIES.len() {
        sum += FAMILIES[family].commands.len() + FAMILIES[family].rows.len();
        family += 1;
    }
    assert!(sum * 2 <= SLOTS, "more slots, please");
    sum
}

/// All rows, numbered.
static ROWS: [Command; COUNT] = rows();

const fn rows() -> [Command; COUNT] {
    let mut rows = [FAMILIES[0].commands[0]; COUNT];
    let (mut number, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let mut row = 0;
        while row < FAMILIES[family].commands.len() {
            rows[number] = FAMILIES[family].commands[row].placed(number as u16, family as u8);
            number += 1;
            row += 1;
        }
        row = 0;
        while row < FAMILIES[family].rows.len() {
            rows[number] = FAMILIES[family].rows[row].command.placed(number as u16, family as u8);
            number += 1;
            row += 1;
        }
        family += 1;
    }
    rows
}

/// The number of a row plus one in the slot of its name or the next free one; 0 in an empty slot.
static TABLE: [u16; SLOTS] = table();

const fn table() -> [u16; SLOTS] {
    let mut slots = [0; SLOTS];
    let mut number = 0;
    while number < COUNT {
        let name = ROWS[number].facts.name.as_bytes();
        assert!(name.len() <= NAME_MAX, "a command's name is too long");
        let mut slot = hash(name) as usize % SLOTS;
        while slots[slot] != 0 {
            assert!(
                !bytes::same(ROWS[slots[slot] as usize - 1].facts.name.as_bytes(), name),
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

/// The folded word of each row's name as [`find`] compares it, 0 for a long one.
static WORDS: [AtomicU64; COUNT] = {
    // A constant that is repeated in an array literal makes each element anew.
    let mut words = [const { AtomicU64::new(0) }; COUNT];
    let mut number = 0;
    while number < COUNT {
        words[number] = AtomicU64::new(OWN_WORDS[number]);
        number += 1;
    }
    words
};

/// The word of a hidden row: folded words hold no lower-case letters.
const HIDDEN_WORD: u64 = u64::from_le_bytes(*b"aaaaaaaa");

/// Rows that are not found by their own names.
static HIDDEN: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// The names that take the place of hidden rows' own, in upper case; and rows that have no name any more.
static RENAMED: OnceLock<Vec<(Vec<u8>, u16)>> = OnceLock::new();

const OWN_WORDS: [u64; COUNT] = words();

const fn words() -> [u64; COUNT] {
    let mut words = [0; COUNT];
    let mut number = 0;
    while number < COUNT {
        let name = ROWS[number].facts.name.as_bytes();
        let mut at = 0;
        while name.len() <= SHORT && at < name.len() {
            words[number] |= (name[at] as u64) << (at * 8);
            at += 1;
        }
        number += 1;
    }
    words
}

/// As [`TABLE`], of the short names, by their words.
static SHORT_TABLE: [u16; SHORT_SLOTS] = short_table();

const fn short_table() -> [u16; SHORT_SLOTS] {
    let mut slots = [0; SHORT_SLOTS];
    let mut number = 0;
    while number < COUNT {
        if OWN_WORDS[number] != 0 {
            let mut slot = slot_of(OWN_WORDS[number]);
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

/// The row of a command by its name in any case; `container|name` finds a subcommand.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    if name.len() > SHORT || name.is_empty() {
        return find_long(name);
    }
    let word = folded(name);
    let mut slot = slot_of(word);
    loop {
        let Some(number) = (SHORT_TABLE[slot] as usize).checked_sub(1) else { return find_renamed(name) };
        // A byte 0 in a name would make it another, shorter name's word.
        if WORDS[number].load(Ordering::Relaxed) == word && ROWS[number].facts.name.len() == name.len() {
            return Some(&ROWS[number]);
        }
        slot = (slot + 1) % SHORT_SLOTS;
    }
}

fn find_long(name: &[u8]) -> Option<&'static Command> {
    match find_original(name) {
        Some(row) if !HIDDEN[usize::from(row.number())].load(Ordering::Relaxed) => Some(row),
        _ => find_renamed(name),
    }
}

/// The row whose own name this is, whatever it is called in this process.
pub fn find_original(name: &[u8]) -> Option<&'static Command> {
    if name.len() > NAME_MAX {
        return None;
    }
    let mut slot = hash(name) as usize % SLOTS;
    loop {
        let command = &ROWS[(TABLE[slot] as usize).checked_sub(1)?];
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The whole row of what a call sees of it.
pub(crate) fn row_of(facts: &Facts) -> &'static Command {
    &ROWS[facts.number() as usize]
}

/// The row of a name that a program of this workspace states in its source, in upper case. To be called in a constant: a name without a row does
/// not compile then.
pub const fn row_named(name: &str) -> &'static Command {
    let mut number = 0;
    while number < COUNT {
        if bytes::same(ROWS[number].facts.name.as_bytes(), name.as_bytes()) {
            return &ROWS[number];
        }
        number += 1;
    }
    panic!("there is no command of this name")
}

/// Redis's groups of commands, each once, in the order of the families.
pub fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for family in FAMILIES {
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

#[cold]
fn find_renamed(name: &[u8]) -> Option<&'static Command> {
    let (_, number) = RENAMED.get()?.iter().find(|(own, _)| own.eq_ignore_ascii_case(name))?;
    Some(&ROWS[usize::from(*number)])
}

/// Whether a row, or the container that it belongs to, has no name in this process.
pub fn is_removed(command: &Command) -> bool {
    let Some(renamed) = RENAMED.get() else { return false };
    let is_nameless = |number: u16| {
        HIDDEN[usize::from(number)].load(Ordering::Relaxed) && renamed.iter().all(|(_, own)| *own != number)
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
    let mut hidden = vec![false; COUNT];
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
    for number in (0..COUNT).filter(|number| hidden[*number]) {
        HIDDEN[number].store(true, Ordering::Relaxed);
        WORDS[number].store(HIDDEN_WORD, Ordering::Relaxed);
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
pub fn all() -> impl Iterator<Item = (&'static Family, &'static Command)> {
    ROWS.iter().map(|command| (family_of(command), command))
}

/// The family that a row belongs to.
pub fn family_of(command: &Command) -> &'static Family {
    &FAMILIES[command.family() as usize]
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

    #[test]
    fn short_and_long_names_lead_to_the_same_rows() {
        for (_, command) in all() {
            for name in [command.name.to_owned(), command.name.to_ascii_lowercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(command.name));
                assert_eq!(find_long(name.as_bytes()).map(|found| found.name), Some(command.name));
            }
        }
        for stranger in [&b"GE\x94"[..], b"\x47\x45\xd4", b"G\0T", b"GET\0", b"", b"SORT\x7fRO", b"zzz"] {
            assert!(find(stranger).is_none());
        }
    }

    #[test]
    fn every_row_is_found_by_its_name_in_any_case() {
        for (number, (_, command)) in all().enumerate() {
            for name in [command.name.to_string(), command.label()] {
                let found = find(name.as_bytes()).unwrap_or_else(|| panic!("{name} is not found"));
                assert_eq!((found.name, usize::from(found.number())), (command.name, number));
            }
        }
    }

    #[test]
    fn every_row_is_in_one_group() {
        let rows: usize = groups().into_iter().map(|group| rows_of(group).len()).sum();
        assert_eq!(rows, COUNT);
    }

    #[test]
    fn other_names_find_nothing() {
        let long = "x".repeat(NAME_MAX + 1);
        for name in ["", "GE", "GETS", "GET\0", "client list", long.as_str()] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn a_subcommand_belongs_to_its_container() {
        let client = find(b"client").unwrap();
        assert_eq!(find_subcommand(client, b"List").map(|command| command.name), Some("CLIENT|LIST"));
        assert!(
            find_subcommand(client, b"ENCODING").is_none() && find_subcommand(client, &[b'x'; 100]).is_none()
        );
        let containers = all()
            .filter(|(_, command)| command.subcommand().is_some())
            .map(|(_, command)| command.container());
        assert!(containers.into_iter().all(|name| find(name.as_bytes()).is_some()));
    }
}
