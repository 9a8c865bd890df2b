//! The commands of a log, or of a primary, made here again: P1 to P3 of `replay.rs`.
use polder_base::Protocol;
use polder_table::Table;
use polder_wire::Output;

use crate::effects::{self, Effect};
use crate::saves::Saves;
use polder_runtime::configuration::Configuration;
use polder_runtime::execute::{Progress, execute};
use polder_runtime::recorder::Recorder;
use polder_runtime::saves::{SaveControl, SaveSignals};
use polder_runtime::scripting::Scripting;
use polder_runtime::session::{Host, Session};

/// The longest part of a reply that is told when a command is refused.
const TOLD_BYTES_MAX: usize = 200;

/// Beginnings of replies to commands that another version has made, or that are refused for reasons that a primary does not have.
const NOT_UNDERSTOOD: [&str; 10] = [
    "READONLY",
    "NOSCRIPT",
    "ERR syntax error",
    "ERR wrong number of arguments",
    "ERR unknown subcommand",
    "ERR Unknown subcommand",
    "ERR DB index",
    "ERR the memory follows",
    "ERR the segment",
    "ERR the change log",
];

/// Beginnings of replies that refuse a command for another reason than what it meets.
const NOT_OF_DATA: [&str; 11] = [
    "OOM",
    // A cold value that does not come (`runtime/src/cold.rs`): the command is right, and is to be made again.
    "TRYAGAIN",
    "ERR the tier",
    "EXECABORT",
    "NOREPLICAS",
    "MISCONF",
    "NOPERM",
    "NOAUTH",
    "LOADING",
    "ERR unknown command",
    "ERR string exceeds maximum allowed size",
];

/// The process as commands see it that are made again.
pub struct Loader<'s> {
    settings: &'s Configuration,
    recorder: Recorder,
    saves: Saves,
    scripting: &'s Scripting,
}

impl<'s> Loader<'s> {
    /// The process with these settings, which are those of a replay (P2 of `replay.rs`).
    pub fn new(settings: &'s Configuration, scripting: &'s Scripting) -> Loader<'s> {
        Loader { settings, recorder: Recorder::default(), saves: Saves::resting(), scripting }
    }
}

impl Host for Loader<'_> {
    fn settings(&self) -> &Configuration {
        self.settings
    }
    fn recorder(&self) -> &Recorder {
        &self.recorder
    }
    fn save_signals(&self) -> &SaveSignals {
        self.saves.signals()
    }
    fn saves(&self) -> &dyn SaveControl {
        &self.saves
    }
    fn scripting(&self) -> Option<&Scripting> {
        Some(self.scripting)
    }
}

/// The outcome of the commands.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    pub commands: u64,
    /// Commands that were refused, and the first of them.
    pub refused: u64,
    pub first_refused: Option<String>,
}

/// Makes commands again, one after another.
pub struct Applier<'a> {
    table: &'a Table,
    host: &'a dyn Host,
    pub session: Session,
    output: Output,
    /// Errors end the work that show that this program reads the command in another way than the one that made it.
    pub is_strict: bool,
    /// Something may have an expiry by now. Before that all commands may take the fast paths, which do not see what has expired.
    pub expires: bool,
    pub done: Applied,
}

impl<'a> Applier<'a> {
    pub fn new(table: &'a Table, host: &'a dyn Host) -> Applier<'a> {
        Applier {
            table,
            host,
            session: Session::default(),
            output: Output::new(Protocol::Resp2),
            is_strict: false,
            expires: false,
            done: Applied::default(),
        }
    }

    /// Makes one call, or passes over what changes nothing.
    ///
    /// # Errors
    /// The reason that ends the load (P3).
    pub fn run(&mut self, words: &[&[u8]]) -> Result<(), String> {
        match effects::read(words)? {
            Effect::Nothing => Ok(()),
            Effect::Select(_) | Effect::Multi | Effect::Exec | Effect::Command => self.execute(words),
            Effect::Instead(words) => self.execute(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        }
    }

    /// Makes a call as it stands.
    ///
    /// # Errors
    /// Those of [`Applier::run`].
    pub fn execute(&mut self, words: &[&[u8]]) -> Result<(), String> {
        self.expires |= may_set_expiry(words);
        self.session.imports = self.expires;
        let mark = self.output.mark();
        // Nothing limits a caller's patience here; it is another process's lock that is waited for.
        while execute(self.table, &mut self.session, self.host, words, &mut self.output) == Progress::Busy {}
        self.done.commands += 1;
        let reply = self.output.bytes();
        self.output.rewind(mark);
        match reply.first() {
            Some(b'-') => self.refused(words[0], &reply),
            // The calls of a transaction are refused one by one.
            Some(b'*') if words[0].eq_ignore_ascii_case(b"EXEC") => {
                errors(&reply).try_for_each(|error| self.refused(b"a call of a transaction", error))
            }
            _ => Ok(()),
        }
    }

    /// Counts a command that was refused, or ends the load (P3).
    #[cold]
    fn refused(&mut self, name: &[u8], reply: &[u8]) -> Result<(), String> {
        let line = String::from_utf8_lossy(&reply[1..reply.len().min(TOLD_BYTES_MAX)]).trim_end().to_owned();
        let name = String::from_utf8_lossy(name).into_owned();
        let leads = ["SELECT", "MULTI", "EXEC"].iter().any(|leading| name.eq_ignore_ascii_case(leading));
        let is_other = |begin: &&str| line.starts_with(begin);
        if leads || NOT_OF_DATA.iter().any(is_other) || self.is_strict && NOT_UNDERSTOOD.iter().any(is_other)
        {
            return Err(format!("{name}: {line}"));
        }
        self.done.refused += 1;
        self.done.first_refused.get_or_insert_with(|| format!("{name}: {line}"));
        Ok(())
    }
}

/// The errors in a reply of RESP2, wherever they stand in it. It is one of ours, so it is well-formed.
fn errors(reply: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = reply;
    let lines = std::iter::from_fn(move || {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let (line, behind) = rest.split_at(end);
        // The bytes of a string are no lines; a length of -1 has none.
        let bytes = match line.split_first() {
            Some((b'$', length)) => {
                std::str::from_utf8(length).ok()?.parse::<usize>().map_or(0, |length| length + 2)
            }
            _ => 0,
        };
        rest = behind.get(2 + bytes..)?;
        Some(line)
    });
    lines.filter(|line| line.starts_with(b"-"))
}

/// Returns true if a command may give something an expiry. Names with an X in them are those of all families that can (`PEXPIREAT`, `GETEX`,
/// `HSETEX`, ...), and some that cannot.
fn may_set_expiry(words: &[&[u8]]) -> bool {
    let name = words[0];
    match name.len() {
        3 if name.eq_ignore_ascii_case(b"SET") => words.len() > 3,
        4 if name.eq_ignore_ascii_case(b"EXEC") => false,
        4 if name.eq_ignore_ascii_case(b"EVAL") => true,
        _ => {
            let others: [&[u8]; 3] = [b"RESTORE", b"EVALSHA", b"FCALL"];
            name.len() >= 4 && name[..4].eq_ignore_ascii_case(b"ITEM")
                || name.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'))
                || others.iter().any(|other| name.eq_ignore_ascii_case(other))
        }
    }
}
