//! The commands that unit tests of this crate see: those of its own and those over the table.
use polder_calls::Command;
use polder_calls::command::{ADMIN, LOADING, NOSCRIPT, STALE};
use polder_commands::{
    bitmap, database, dump, durability, expiry, flush, geo, hash, hyperloglog, item, key, list, object, set,
    sort, sorted_set, stream, string, view,
};

use crate::family::{self, Family};
use crate::help::help;
use crate::lookup::{Commands, FamilyName, NameTable};
use crate::row::{Row, Work, container, read, session};
use crate::{acl, connection, pubsub, scripting, transaction};

/// Rows as those of the floor above.
const ABOVE: &[Row] = &[
    session("DEBUG", "subcommand [arg ...]", help).with(ADMIN | NOSCRIPT | LOADING | STALE),
    container("CLIENT"),
    session("CLIENT|ID", "", help),
    session("CLIENT|SETNAME", "connection-name", help),
    container("MEMORY"),
    read("MEMORY|USAGE", "key [SAMPLES count]", |_| Ok(())).touches(&["RO"]),
    container("CONFIG"),
    session("CONFIG|GET", "parameter [parameter ...]", help).with(ADMIN | NOSCRIPT | LOADING | STALE),
    session("CONFIG|SET", "parameter value [parameter value ...]", help)
        .with(ADMIN | NOSCRIPT | LOADING | STALE),
];

const FAMILIES: &[Family] = &[
    Family::plain("generic", "keyspace", key::COMMANDS),
    Family::plain("generic", "keyspace", expiry::COMMANDS),
    Family::plain("generic", "keyspace", database::WALKS),
    Family::plain("generic", "keyspace", object::COMMANDS),
    Family::plain("generic", "keyspace", dump::COMMANDS),
    Family::plain("generic", "keyspace", view::COMMANDS),
    Family::plain("generic", "", sort::COMMANDS),
    Family::plain("generic", "connection", durability::COMMANDS),
    Family::hosted("connection", "connection", connection::COMMANDS),
    Family::plain("server", "", database::COMMANDS),
    Family::plain("server", "", flush::COMMANDS),
    Family::plain("string", "string", string::COMMANDS),
    Family::plain("string", "string", item::COMMANDS),
    Family::plain("bitmap", "bitmap", bitmap::COMMANDS),
    Family::plain("list", "list", list::COMMANDS),
    Family::plain("hash", "hash", hash::COMMANDS),
    Family::plain("set", "set", set::COMMANDS),
    Family::plain("sorted-set", "sortedset", sorted_set::COMMANDS),
    Family::plain("geo", "geo", geo::COMMANDS),
    Family::plain("stream", "stream", stream::COMMANDS),
    Family::plain("hyperloglog", "hyperloglog", hyperloglog::COMMANDS),
    Family::hosted("pubsub", "pubsub", pubsub::COMMANDS),
    Family::hosted("pubsub", "", pubsub::HELP),
    Family::hosted("scripting", "scripting", scripting::COMMANDS),
    Family::hosted("transactions", "transaction", transaction::COMMANDS),
    Family::hosted("server", "", acl::COMMANDS),
    Family::hosted("server", "", ABOVE),
];

const COUNT: usize = family::count(FAMILIES);
static NAMES: [FamilyName; FAMILIES.len()] = family::names(FAMILIES);
static ROWS: [Command; COUNT] = family::rows(FAMILIES);
static WORKS: [Work; COUNT] = family::works(FAMILIES);
static TABLE: NameTable<COUNT> = NameTable::of(&ROWS);
static COMMANDS: Commands = Commands::of(&NAMES, &ROWS, &TABLE);

/// Registers them.
pub fn register() {
    family::register(&COMMANDS, &WORKS);
}
