//! Families: a group of rows each, and how all of them become the commands of a process.
//!
//! The list of families stands in `polder-engine`, above the crates whose rows it names. Its tables are made at compile time by the functions here.
use crate::lookup::{self, Commands, FamilyName};
use crate::row::{self, Row, Work};
use polder_calls::Command;

/// A family: what COMMAND DOCS calls a group, the ACL category of its commands, and their rows.
pub struct Family {
    /// The names of its group and its category.
    pub name: FamilyName,
    /// Rows over a [`polder_calls::Call`].
    commands: &'static [Command],
    /// Rows over a session.
    rows: &'static [Row],
}

impl Family {
    /// A family whose commands know no session.
    pub const fn plain(group: &'static str, category: &'static str, commands: &'static [Command]) -> Family {
        Family { name: FamilyName { group, category }, commands, rows: &[] }
    }

    /// A family some of whose commands concern sessions; those stand behind the others.
    pub const fn both(
        group: &'static str,
        category: &'static str,
        commands: &'static [Command],
        rows: &'static [Row],
    ) -> Family {
        Family { name: FamilyName { group, category }, commands, rows }
    }

    /// A family whose commands concern sessions.
    pub const fn hosted(group: &'static str, category: &'static str, rows: &'static [Row]) -> Family {
        Family { name: FamilyName { group, category }, commands: &[], rows }
    }

    /// Its rows, in their order.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.commands.iter().chain(self.rows.iter().map(|row| &row.command))
    }
}

/// The number of rows of families.
pub const fn count(families: &[Family]) -> usize {
    let (mut sum, mut family) = (0, 0);
    while family < families.len() {
        sum += families[family].commands.len() + families[family].rows.len();
        family += 1;
    }
    sum
}

/// The names of families, by their numbers.
pub const fn names<const FAMILIES: usize>(families: &[Family]) -> [FamilyName; FAMILIES] {
    let mut names = [families[0].name; FAMILIES];
    let mut family = 0;
    while family < FAMILIES {
        names[family] = families[family].name;
        family += 1;
    }
    names
}

/// All rows of families, numbered.
pub const fn rows<const COUNT: usize>(families: &[Family]) -> [Command; COUNT] {
    let mut rows = [families[0].commands[0]; COUNT];
    let (mut number, mut family) = (0, 0);
    while family < families.len() {
        let mut row = 0;
        while row < families[family].commands.len() {
            rows[number] = families[family].commands[row].placed(number as u16, family as u8);
            number += 1;
            row += 1;
        }
        row = 0;
        while row < families[family].rows.len() {
            rows[number] = families[family].rows[row].command.placed(number as u16, family as u8);
            number += 1;
            row += 1;
        }
        family += 1;
    }
    rows
}

/// Functions of the rows of families, by their numbers.
pub const fn works<const COUNT: usize>(families: &[Family]) -> [Work; COUNT] {
    let mut works = [Work::Own; COUNT];
    let (mut number, mut family) = (0, 0);
    while family < families.len() {
        number += families[family].commands.len();
        let mut row = 0;
        while row < families[family].rows.len() {
            works[number] = families[family].rows[row].work;
            number += 1;
            row += 1;
        }
        family += 1;
    }
    works
}

/// Makes these the commands of this process, and what runs them. Only the first call has an effect.
pub fn register(commands: &'static Commands, works: &'static [Work]) {
    row::register(works);
    lookup::register(commands);
}
