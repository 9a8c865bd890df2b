//! The versions of Redis and Valkey that brought each command, for the command reference.
//!
//! A row's `since` is Redis's, or Valkey's where Redis has no such command. Valkey has all commands of Redis 7.2, from which it comes, and
//! those of later versions that [`VALKEY`] names. The list is what COMMAND DOCS of a valkey-server 9.1 says beside that of a redis-server 8.6.
use polder_calls::command::Command;

/// Commands that are in Valkey and later than Redis 7.2, with Valkey's version.
const VALKEY: &[(&str, &str)] = &[
    ("CLIENT|CAPA", "8.0.0"),
    ("CLIENT|IMPORT-SOURCE", "8.1.0"),
    ("COMMANDLOG|GET", "8.1.0"),
    ("COMMANDLOG|HELP", "8.1.0"),
    ("COMMANDLOG|LEN", "8.1.0"),
    ("COMMANDLOG|RESET", "8.1.0"),
    ("DELIFEQ", "9.0.0"),
    ("HEXPIRE", "9.0.0"),
    ("HEXPIREAT", "9.0.0"),
    ("HEXPIRETIME", "9.0.0"),
    ("HGETDEL", "9.1.0"),
    ("HGETEX", "9.0.0"),
    ("HPERSIST", "9.0.0"),
    ("HPEXPIRE", "9.0.0"),
    ("HPEXPIREAT", "9.0.0"),
    ("HPEXPIRETIME", "9.0.0"),
    ("HPTTL", "9.0.0"),
    ("HSETEX", "9.0.0"),
    ("HTTL", "9.0.0"),
    ("MSETEX", "9.1.0"),
    ("SCRIPT|SHOW", "8.0.0"),
];

/// Those of them that Redis does not have.
const NOT_REDIS: [&str; 8] = [
    "CLIENT|CAPA",
    "CLIENT|IMPORT-SOURCE",
    "COMMANDLOG|GET",
    "COMMANDLOG|HELP",
    "COMMANDLOG|LEN",
    "COMMANDLOG|RESET",
    "DELIFEQ",
    "SCRIPT|SHOW",
];

/// The version of Redis from which Valkey comes.
const COMMON: (u32, u32) = (7, 2);

/// Returns true if a command is Polder's own.
fn is_own(command: &Command) -> bool {
    command.name.contains('.') || command.name == "METRICS"
}

/// The version of Redis that brought a command, if there is one.
pub fn redis(command: &Command) -> Option<&'static str> {
    (!is_own(command) && !NOT_REDIS.contains(&command.name)).then_some(command.since)
}

/// The version of Valkey that brought a command, if there is one.
pub fn valkey(command: &Command) -> Option<&'static str> {
    let mut numbers = command.since.split('.').map(|number| number.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match VALKEY.iter().find(|(name, _)| *name == command.name) {
        Some((_, version)) => Some(version),
        None => (!is_own(command) && version <= COMMON).then_some(command.since),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_runtime::lookup::{groups, rows_of};

    #[test]
    fn each_name_is_that_of_a_command() {
        polder_engine::register();
        let rows: Vec<&Command> = groups().into_iter().flat_map(rows_of).collect();
        for name in VALKEY.iter().map(|(name, _)| name).chain(&NOT_REDIS) {
            assert!(rows.iter().any(|row| row.name == *name), "{name}");
        }
        let of = |name: &str| rows.iter().find(|row| row.name == name).expect("a command");
        assert_eq!((redis(of("GET")), valkey(of("GET"))), (Some("1.0.0"), Some("1.0.0")));
        assert_eq!((redis(of("ARSET")), valkey(of("ARSET"))), (Some("8.8.0"), None));
        assert_eq!((redis(of("DELIFEQ")), valkey(of("DELIFEQ"))), (None, Some("9.0.0")));
        assert_eq!((redis(of("ITEM.GET")), valkey(of("ITEM.GET"))), (None, None));
    }
}
