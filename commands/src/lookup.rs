//! From a name to its row: an open-addressed table made at compile time.
//!
//! Names are compared with their letters folded to upper case. Two rows of one name do not compile: the second would land
//! on the first while the table is made.
use crate::FAMILIES;
use crate::command::Command;

/// Slots of the table, a power of two of at least twice the number of rows.
const SLOTS: usize = 2048;

/// The longest name of a row; longer input names no command.
const NAME_MAX: usize = 40;

/// The number of the family and of the row in it, each plus one; zeros in an empty slot.
type Slot = (u8, u8);

static TABLE: [Slot; SLOTS] = table();

const fn table() -> [Slot; SLOTS] {
    let mut slots = [(0, 0); SLOTS];
    let mut family = 0;
    while family < FAMILIES.len() {
        let rows = FAMILIES[family].commands;
        assert!(rows.len() < 255 && family < 255, "a slot's numbers are bytes");
        let mut row = 0;
        while row < rows.len() {
            let name = rows[row].name.as_bytes();
            assert!(name.len() <= NAME_MAX, "a command's name is too long");
            let mut slot = hash(name) as usize % SLOTS;
            while slots[slot].0 != 0 {
                let (f, r) = slots[slot];
                assert!(!equal(FAMILIES[f as usize - 1].commands[r as usize - 1].name.as_bytes(), name), "two commands of one name");
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = (family as u8 + 1, row as u8 + 1);
            row += 1;
        }
        family += 1;
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

const fn equal(one: &[u8], two: &[u8]) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != two[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The row of a command by its name in any case; `container|name` finds a subcommand.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    if name.len() > NAME_MAX {
        return None;
    }
    let mut slot = hash(name) as usize % SLOTS;
    loop {
        let (family, row) = TABLE[slot];
        let command = &FAMILIES[(family as usize).checked_sub(1)?].commands[row as usize - 1];
        if command.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(command);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The row of a subcommand of `container`.
pub fn find_subcommand(container: &Command, name: &[u8]) -> Option<&'static Command> {
    let mut whole = [0; NAME_MAX];
    let length = container.name.len() + 1 + name.len();
    let whole = whole.get_mut(..length)?;
    whole[..container.name.len()].copy_from_slice(container.name.as_bytes());
    whole[container.name.len()] = b'|';
    whole[container.name.len() + 1..].copy_from_slice(name);
    find(whole)
}

/// Every row, families in the documentation's order.
pub fn all() -> impl Iterator<Item = (&'static crate::Family, &'static Command)> {
    FAMILIES.iter().flat_map(|family| family.commands.iter().map(move |command| (family, command)))
}

/// The family that a row belongs to.
pub fn family_of(command: &Command) -> &'static crate::Family {
    let own = |family: &&crate::Family| family.commands.iter().any(|other| std::ptr::eq(other, command));
    FAMILIES.iter().find(own).expect("every row belongs to a family")
}

/// The subcommands of a container, in the order of their rows.
pub fn subcommands(container: &'static Command) -> impl Iterator<Item = &'static Command> {
    all().map(|(_, command)| command).filter(move |command| command.subcommand().is_some() && command.family() == container.name)
}
