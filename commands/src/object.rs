//! OBJECT: what Redis would say of the inside of a value.
//!
//! The layouts here are others than Redis's, but programs look at these names to learn whether a value is small or large;
//! so a packed value goes by the name of Redis's small layout and a tree by that of its large one.
use polder_table::{Found, Limits, Policy, clock};

use polder_calls::call::{Call, Outcome};
use polder_calls::command::{Command, container, read};

use crate::types::{encoding, integer};

const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];
const LOOKS: &[&str] = &["RO"];

/// Redis shares one object for each of the numbers below this, and counts its references as this many.
const SHARED_NUMBERS: i64 = 10_000;
const SHARED_COUNT: i64 = i32::MAX as i64;

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    container("OBJECT")
        .since("2.2.3")
        .costs("Depends on subcommand.")
        .about("A container for object introspection commands."),
    read("OBJECT|ENCODING", "key", show_encoding)
        .touches(LOOKS)
        .tips(NONDETERMINISTIC)
        .since("2.2.3")
        .about("Returns the internal encoding of a Redis object."),
    read("OBJECT|FREQ", "key", show_frequency)
        .touches(LOOKS)
        .tips(NONDETERMINISTIC)
        .since("4.0.0")
        .about("Returns the logarithmic access frequency counter of a Redis object."),
    read("OBJECT|IDLETIME", "key", show_idle_time)
        .touches(LOOKS)
        .tips(NONDETERMINISTIC)
        .since("2.2.3")
        .about("Returns the time since the last access to a Redis object."),
    read("OBJECT|REFCOUNT", "key", show_references)
        .touches(LOOKS)
        .tips(NONDETERMINISTIC)
        .since("2.2.3")
        .about("Returns the reference count of a value of a key."),
];

/// Replies with what `shown` makes of the key's state, or with nothing without the key.
fn show(call: &mut Call<'_>, shown: impl Fn(&mut Call<'_>, &Found<'_>) -> Outcome) -> Outcome {
    match call.peek(call.args[2])? {
        Some(found) => shown(call, &found),
        None => {
            call.reply.null();
            Ok(())
        }
    }
}

fn show_encoding(call: &mut Call<'_>) -> Outcome {
    show(call, |call, found| {
        call.reply.bulk(encoding(found).as_bytes());
        Ok(())
    })
}

fn counts_frequency(limits: &Limits) -> bool {
    matches!(limits.policy, Policy::AllkeysLfu | Policy::VolatileLfu)
}

fn show_frequency(call: &mut Call<'_>) -> Outcome {
    show(call, |call, found| {
        let limits = call.table.limits();
        if !counts_frequency(&limits) {
            return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                        switching between policies at runtime LRU and LFU data will take some time to adjust."
                .into());
        }
        let frequency = clock::frequency(found.clock, call.txn.now_ms(), limits.lfu_decay_minutes);
        call.reply.integer(frequency.into());
        Ok(())
    })
}

fn show_idle_time(call: &mut Call<'_>) -> Outcome {
    show(call, |call, found| {
        if counts_frequency(&call.table.limits()) {
            return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching \
                        between policies at runtime LRU and LFU data will take some time to adjust."
                .into());
        }
        call.reply.integer(clock::idle_seconds(found.clock, call.txn.now_ms()) as i64);
        Ok(())
    })
}

/// One, but for the numbers that Redis would share (which it does not while each key's access counts).
fn show_references(call: &mut Call<'_>) -> Outcome {
    show(call, |call, found| {
        let limits = call.table.limits();
        let tracked = counts_frequency(&limits) || limits.policy.goes_by_time();
        let shared = integer(found).is_some_and(|number| (0..SHARED_NUMBERS).contains(&number))
            && !(tracked && limits.memory_max != 0);
        call.reply.integer(if shared { SHARED_COUNT } else { 1 });
        Ok(())
    })
}
