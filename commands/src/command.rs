//! A command's row: a plain value from which everything else about the command is derived.
use crate::call::{Call, Outcome};

/// One command: its name, its grammar, its function, and what the documentation says.
pub struct Command {
    pub name: &'static str,
    pub grammar: &'static str,
    pub run: fn(&mut Call<'_>) -> Outcome,
    pub write: bool,
    pub since: &'static str,
    pub costs: &'static str,
    pub about: &'static str,
}

/// A command that changes nothing.
pub const fn read(name: &'static str, grammar: &'static str, run: fn(&mut Call<'_>) -> Outcome) -> Command {
    Command { name, grammar, run, write: false, since: "1.0.0", costs: "O(1)", about: "" }
}

/// A command that may change keys.
pub const fn write(name: &'static str, grammar: &'static str, run: fn(&mut Call<'_>) -> Outcome) -> Command {
    Command { name, grammar, run, write: true, since: "1.0.0", costs: "O(1)", about: "" }
}

impl Command {
    pub const fn since(mut self, version: &'static str) -> Command {
        self.since = version;
        self
    }
    pub const fn costs(mut self, complexity: &'static str) -> Command {
        self.costs = complexity;
        self
    }
    pub const fn about(mut self, summary: &'static str) -> Command {
        self.about = summary;
        self
    }
    pub fn is_write(&self) -> bool {
        self.write
    }
    pub fn arity_fits(&self, count: usize) -> bool {
        count > self.grammar.split_whitespace().take_while(|word| !word.starts_with('[')).count()
    }
    /// The positions of the keys among `args`.
    pub fn keys(&self, args: &[&[u8]]) -> impl Iterator<Item = usize> {
        let first = self.grammar.starts_with("key") && args.len() > 1;
        first.then_some(1).into_iter()
    }
}

/// The row of a command by its name in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    crate::FAMILIES.iter().flat_map(|family| family.iter()).find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}
