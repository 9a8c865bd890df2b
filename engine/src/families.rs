//! All commands: the families of the floors below, and the tables that lead to their rows.
//!
//! **Invariant:** [`FAMILIES`] is the only registration there is.
use polder_admin::{
    client, cluster, commandlog, config, debug, helps, hot_keys, info, introspect, latency, lolwut, memory,
    migrate, monitor, nats_pages, server,
};
use polder_calls::Command;
use polder_commands::{
    array, bitmap, database, dump, durability, expiry, flush, geo, hash, hyperloglog, item, key, list,
    object, set, sort, sorted_set, stream, string, view,
};
use polder_persist::persistence;
use polder_runtime::family::{self, Family};
use polder_runtime::lookup::{Commands, FamilyName, NameTable};
use polder_runtime::row::Work;
use polder_runtime::{acl, connection, fieldsets, pubsub, scripting, subjects, transaction};

/// Every family, in the order of the documentation. Adding a command touches one family's file only.
pub const FAMILIES: &[Family] = &[
    Family::plain("generic", "keyspace", key::COMMANDS),
    Family::plain("generic", "keyspace", expiry::COMMANDS),
    Family::plain("generic", "keyspace", database::WALKS),
    Family::both("generic", "keyspace", object::COMMANDS, helps::OBJECT),
    Family::both("generic", "keyspace", dump::COMMANDS, migrate::COMMANDS),
    Family::plain("generic", "keyspace", view::COMMANDS),
    Family::plain("generic", "", sort::COMMANDS),
    Family::plain("generic", "connection", durability::COMMANDS),
    Family::hosted("connection", "connection", connection::COMMANDS),
    Family::hosted("connection", "connection", client::COMMANDS),
    Family::hosted("cluster", "connection", cluster::CONNECTION),
    Family::hosted("cluster", "", cluster::COMMANDS),
    Family::both("server", "", database::COMMANDS, server::TIME),
    Family::plain("server", "", flush::COMMANDS),
    Family::plain("string", "string", string::COMMANDS),
    Family::plain("string", "string", item::COMMANDS),
    Family::plain("bitmap", "bitmap", bitmap::COMMANDS),
    Family::plain("list", "list", list::COMMANDS),
    Family::both("hash", "hash", hash::COMMANDS, fieldsets::COMMANDS),
    Family::plain("set", "set", set::COMMANDS),
    Family::plain("sorted-set", "sortedset", sorted_set::COMMANDS),
    Family::plain("geo", "geo", geo::COMMANDS),
    Family::both("stream", "stream", stream::COMMANDS, helps::STREAM),
    Family::plain("array", "array", array::COMMANDS),
    Family::plain("hyperloglog", "hyperloglog", hyperloglog::COMMANDS),
    Family::hosted("pubsub", "pubsub", pubsub::COMMANDS),
    Family::hosted("pubsub", "pubsub", subjects::COMMANDS),
    Family::hosted("pubsub", "", nats_pages::COMMANDS),
    Family::hosted("pubsub", "", pubsub::HELP),
    Family::hosted("scripting", "scripting", scripting::COMMANDS),
    Family::hosted("transactions", "transaction", transaction::COMMANDS),
    Family::hosted("server", "", acl::COMMANDS),
    Family::hosted("server", "", persistence::COMMANDS),
    Family::hosted("server", "admin", persistence::LAST),
    Family::hosted("server", "connection", introspect::COMMANDS),
    Family::hosted("server", "", config::COMMANDS),
    Family::hosted("server", "", info::COMMANDS),
    Family::hosted("server", "", memory::COMMANDS),
    Family::hosted("server", "", server::COMMANDS),
    Family::hosted("server", "", polder_replica::COMMANDS),
    Family::hosted("server", "admin", polder_replica::ROLE),
    Family::hosted("server", "", monitor::COMMANDS),
    Family::hosted("server", "", debug::COMMANDS),
    Family::hosted("server", "", lolwut::COMMANDS),
    Family::hosted("server", "", commandlog::COMMANDS),
    Family::hosted("server", "", hot_keys::COMMANDS),
    Family::hosted("server", "", latency::COMMANDS),
];

const COUNT: usize = family::count(FAMILIES);
static NAMES: [FamilyName; FAMILIES.len()] = family::names(FAMILIES);
/// All rows, numbered.
static ROWS: [Command; COUNT] = family::rows(FAMILIES);
static WORKS: [Work; COUNT] = family::works(FAMILIES);
static TABLE: NameTable<COUNT> = NameTable::of(&ROWS);

/// The commands of every process that has an engine.
pub static COMMANDS: Commands = Commands::of(&NAMES, &ROWS, &TABLE);

/// Has the floors below find their commands in [`COMMANDS`]. [`crate::Memory`] does so when it is attached; what reads settings or looks
/// for commands before calls this first. Further calls have no effect.
pub fn register() {
    family::register(&COMMANDS, &WORKS);
}

/// The row of a name that a program of this workspace states in its source, in upper case. To be called in a constant: a name without a row does
/// not compile then.
pub const fn row_named(name: &str) -> &'static Command {
    let mut number = 0;
    while number < COUNT {
        if polder_base::bytes::same(ROWS[number].facts.name.as_bytes(), name.as_bytes()) {
            return &ROWS[number];
        }
        number += 1;
    }
    panic!("there is no command of this name")
}

#[cfg(test)]
mod tests {
    use polder_runtime::lookup::{all, find, find_subcommand, groups, rows_of};

    use super::*;

    #[test]
    fn short_and_long_names_lead_to_the_same_rows() {
        register();
        for (_, command) in all() {
            for name in [command.name.to_owned(), command.name.to_ascii_lowercase()] {
                assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(command.name));
                assert_eq!(COMMANDS.find_long(name.as_bytes()).map(|found| found.name), Some(command.name));
            }
        }
        for stranger in [&b"GE\x94"[..], b"\x47\x45\xd4", b"G\0T", b"GET\0", b"", b"SORT\x7fRO", b"zzz"] {
            assert!(find(stranger).is_none());
        }
    }

    #[test]
    fn every_row_is_found_by_its_name_in_any_case() {
        register();
        for (number, (_, command)) in all().enumerate() {
            for name in [command.name.to_string(), command.label()] {
                let found = find(name.as_bytes()).unwrap_or_else(|| panic!("{name} is not found"));
                assert_eq!((found.name, usize::from(found.number())), (command.name, number));
            }
        }
    }

    #[test]
    fn every_row_is_in_one_group() {
        register();
        let rows: usize = groups().into_iter().map(|group| rows_of(group).len()).sum();
        assert_eq!(rows, COUNT);
    }

    #[test]
    fn other_names_find_nothing() {
        register();
        let long = "x".repeat(41);
        for name in ["", "GE", "GETS", "GET\0", "client list", long.as_str()] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn a_subcommand_belongs_to_its_container() {
        register();
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
