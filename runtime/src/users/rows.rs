//! Commands and their categories as rules name them.
use std::sync::LazyLock;

use crate::categories::{CATEGORIES, categories};
use crate::lookup::{all, find_original, subcommands};
use polder_calls::command::{CONTAINER, Command};

/// What a rule's name stands for.
pub enum Named {
    Here(&'static Command),
    /// A command of Redis that Polder does not have: a rule about it is kept and means nothing.
    Absent,
}

/// Commands of Redis 7.4 that have no row here, so that the rules of its users can be taken over.
const ABSENT: &[&str] = &[
    "failover",
    "module",
    "module|help",
    "module|list",
    "module|load",
    "module|loadex",
    "module|unload",
    "monitor",
    "psync",
    "replconf",
    "restore-asking",
    "sync",
];

/// The command that a name in lower case means.
pub fn named(name: &[u8]) -> Option<Named> {
    match find_original(name) {
        Some(command) => Some(Named::Here(command)),
        None => ABSENT.iter().any(|absent| absent.as_bytes() == name).then_some(Named::Absent),
    }
}

/// How many rows there are.
pub fn count() -> usize {
    static COUNT: LazyLock<usize> = LazyLock::new(|| all().count());
    *COUNT
}

/// The number of a row.
pub fn number(command: &Command) -> usize {
    command.number().into()
}

/// Whether a command has subcommands.
pub fn is_container(command: &'static Command) -> bool {
    command.has(CONTAINER)
}

/// A command and its subcommands.
pub fn with_subcommands(command: &'static Command) -> impl Iterator<Item = &'static Command> {
    let inner = command.has(CONTAINER).then(|| subcommands(command));
    std::iter::once(command).chain(inner.into_iter().flatten())
}

/// The rows of a category, without its `@`.
pub fn of_category(name: &[u8]) -> Option<&'static [&'static Command]> {
    static ROWS: LazyLock<Vec<Vec<&'static Command>>> = LazyLock::new(|| {
        let holding = |category: &&str| {
            all()
                .map(|(_, command)| command)
                .filter(|command| categories(command).any(|name| name == *category))
                .collect()
        };
        CATEGORIES.iter().map(holding).collect()
    });
    let at = CATEGORIES.iter().position(|category| category.as_bytes().eq_ignore_ascii_case(name))?;
    Some(&ROWS[at])
}
