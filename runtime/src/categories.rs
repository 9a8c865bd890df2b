//! The ACL categories of commands, from their flags and families.
use crate::lookup::family_of;
use polder_calls::command::{
    ADMIN, BLOCKING, COLLECTIONS, Command, DANGEROUS, FAST, KEYSPACE, PUBSUB, READONLY, Run, WRITE,
};

/// Redis's ACL categories, in the order of ACL CAT.
pub const CATEGORIES: [&str; 22] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "array",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The ACL categories of a row, without `@`.
pub fn categories(command: &Command) -> impl Iterator<Item = &'static str> {
    let family = if matches!(command.run, Run::Container) { "" } else { family_of(command).category };
    let fast = if command.has(FAST) { "fast" } else { "slow" };
    let flags = command.flags;
    let holds = move |name: &&'static str| match *name {
        "keyspace" if flags & KEYSPACE != 0 => true,
        "read" => flags & READONLY != 0 && family != "scripting",
        "write" => flags & WRITE != 0,
        "admin" if flags & ADMIN != 0 => true,
        "dangerous" => flags & (ADMIN | DANGEROUS) != 0,
        "blocking" => flags & BLOCKING != 0,
        "list" | "set" | "sortedset" if flags & COLLECTIONS != 0 => true,
        "pubsub" if flags & PUBSUB != 0 => true,
        name => name == fast || name == family,
    };
    CATEGORIES.into_iter().filter(holds)
}
