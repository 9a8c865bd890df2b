//! COMMAND: what the rows say about themselves.
use polder_base::{Reply, glob};
use polder_table::Stop;

use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{CONTAINER, Command, FLAG_NAMES, INTERNAL, LOADING, STALE};
use polder_calls::grammar::{Argument, Begin, Find, KeySpec, arguments};
pub use polder_runtime::categories::{CATEGORIES, categories};
use polder_runtime::help::help;
use polder_runtime::lookup::{all, family_of, find, find_subcommand, is_removed, subcommands};
use polder_runtime::row::{Row, SessionCall, container, session};

const UNORDERED: &[&str] = &["nondeterministic_output_order"];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("COMMAND")
        .runs(command)
        .with(LOADING | STALE)
        .tips(UNORDERED)
        .since("2.8.13")
        .about("Returns detailed information about all commands."),
    session("COMMAND|COUNT", "", count)
        .with(LOADING | STALE)
        .since("2.8.13")
        .about("Returns a count of commands."),
    session("COMMAND|DOCS", "[command-name ...]", docs)
        .with(LOADING | STALE)
        .tips(UNORDERED)
        .since("7.0.0")
        .costs("O(N) where N is the number of commands to look up")
        .about("Returns documentary information about one, multiple or all commands."),
    session("COMMAND|GETKEYS", "command [arg ...]", get_keys)
        .with(LOADING | STALE)
        .since("2.8.13")
        .costs("O(N) where N is the number of arguments to the command")
        .about("Extracts the key names from an arbitrary command."),
    session("COMMAND|GETKEYSANDFLAGS", "command [arg ...]", get_keys_and_flags)
        .with(LOADING | STALE)
        .since("7.0.0")
        .costs("O(N) where N is the number of arguments to the command")
        .about("Extracts the key names and access flags for an arbitrary command."),
    session("COMMAND|HELP", "", help).with(LOADING | STALE).since("5.0.0").about("Prints this help."),
    session("COMMAND|INFO", "[command-name ...]", info)
        .with(LOADING | STALE)
        .tips(UNORDERED)
        .since("2.8.13")
        .costs("O(N) where N is the number of commands to look up")
        .changed(&[("7.0.0", "Shows all commands when none is named.")])
        .about("Returns information about one, multiple or all commands."),
    session("COMMAND|LIST", "[FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern>]", list)
        .with(LOADING | STALE)
        .tips(UNORDERED)
        .since("7.0.0")
        .costs("O(N) where N is the total number of commands")
        .about("Returns a list of command names."),
];

/// The names of a row's flags, in COMMAND INFO's order.
pub fn flag_names(command: &Command) -> impl Iterator<Item = &'static str> {
    let flags = command.all_flags();
    FLAG_NAMES.iter().filter(move |(flag, _)| flags & flag != 0).map(|(_, name)| *name)
}

/// The row that COMMAND INFO and DOCS mean by a name, `container|subcommand` included.
fn named(name: &[u8]) -> Option<&'static Command> {
    find(name)
}

/// Rows that are not subcommands, without those that were taken away.
fn top() -> impl Iterator<Item = &'static Command> {
    all().map(|(_, command)| command).filter(|command| command.subcommand().is_none() && !is_removed(command))
}

fn command(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.array(top().count());
    top().for_each(|command| write_info(call.reply, command));
    Ok(())
}

fn count(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.integer(top().count() as i64);
    Ok(())
}

fn info(call: &mut SessionCall<'_>) -> Outcome {
    let names = &call.args[2..];
    if names.is_empty() {
        return command(call);
    }
    call.reply.array(names.len());
    for name in names {
        match named(name) {
            Some(command) => write_info(call.reply, command),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn write_info(reply: &mut dyn Reply, command: &'static Command) {
    let channels = shard_channels(command);
    let (first, last, step) = match channels {
        Some(KeySpec { find: Find::Range { last: 0, .. }, .. }) => (1, 1, 1),
        Some(_) => (1, -1, 1),
        None => command.shape.legacy(),
    };
    reply.array(10);
    reply.bulk(command.label().as_bytes());
    reply.integer(command.shape.arity.into());
    write_statuses(reply, flag_names(command).map(str::to_string).collect());
    reply.integer(first as i64);
    reply.integer(last as i64);
    reply.integer(step as i64);
    write_statuses(reply, categories(command).map(|name| format!("@{name}")).collect());
    reply.set(command.tips.len());
    command.tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    let specs = command.shape.specs();
    reply.set(specs.len() + usize::from(channels.is_some()));
    for (number, spec) in specs.iter().enumerate() {
        write_spec(reply, *spec, command.touched(number));
    }
    if let Some(spec) = channels {
        write_spec(reply, spec, "not_key");
    }
    let inner: Vec<_> = if command.has(CONTAINER) { subcommands(command).collect() } else { Vec::new() };
    if inner.is_empty() {
        reply.set(0);
    } else {
        reply.array(inner.len());
        inner.into_iter().for_each(|command| write_info(reply, command));
    }
}

fn write_statuses(reply: &mut dyn Reply, names: Vec<String>) {
    reply.set(names.len());
    names.iter().for_each(|name| reply.status(name));
}

/// Where a command has channels that are spread over a cluster as keys are.
fn shard_channels(command: &Command) -> Option<KeySpec> {
    let channels = command.channels.filter(|channels| channels.sharded)?;
    let last = if channels.all { -1 } else { 0 };
    Some(KeySpec { begin: Begin::Index(1), find: Find::Range { last, step: 1, limit: 0 } })
}

fn write_spec(reply: &mut dyn Reply, spec: KeySpec, touched: &str) {
    reply.map(3);
    reply.bulk(b"flags");
    write_statuses(reply, touched.split(' ').map(str::to_string).collect());
    reply.bulk(b"begin_search");
    match spec.begin {
        Begin::Index(index) => {
            write_kind(reply, "index", 1);
            write_number(reply, "index", index as i64);
        }
        Begin::Keyword(word, from) => {
            write_kind(reply, "keyword", 2);
            write_text(reply, "keyword", word);
            write_number(reply, "startfrom", from as i64);
        }
    }
    reply.bulk(b"find_keys");
    match spec.find {
        Find::Range { last, step, limit } => {
            write_kind(reply, "range", 3);
            write_number(reply, "lastkey", last as i64);
            write_number(reply, "keystep", step as i64);
            write_number(reply, "limit", limit as i64);
        }
        Find::Numkeys { step } => {
            write_kind(reply, "keynum", 3);
            write_number(reply, "keynumidx", 0);
            write_number(reply, "firstkey", 1);
            write_number(reply, "keystep", step as i64);
        }
    }
}

fn write_kind(reply: &mut dyn Reply, kind: &str, fields: usize) {
    reply.map(2);
    write_text(reply, "type", kind);
    reply.bulk(b"spec");
    reply.map(fields);
}

fn write_text(reply: &mut dyn Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn write_number(reply: &mut dyn Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.integer(value);
}

fn docs(call: &mut SessionCall<'_>) -> Outcome {
    let names = &call.args[2..];
    let rows: Vec<_> = if names.is_empty() {
        top().collect()
    } else {
        names.iter().filter_map(|name| named(name)).collect()
    };
    call.reply.map(rows.len());
    rows.into_iter().for_each(|command| write_docs(call.reply, command));
    Ok(())
}

fn write_docs(reply: &mut dyn Reply, command: &'static Command) {
    let arguments = if command.has(CONTAINER) { Vec::new() } else { arguments(command.grammar) };
    let inner: Vec<_> = if command.has(CONTAINER) { subcommands(command).collect() } else { Vec::new() };
    reply.bulk(command.label().as_bytes());
    let marks = those_set([(command.replaced.is_some(), "deprecated"), (command.has(INTERNAL), "syscmd")]);
    let fields = [!marks.is_empty(), !command.changes.is_empty(), !arguments.is_empty(), !inner.is_empty()];
    let replaced = 2 * usize::from(command.replaced.is_some());
    reply.map(4 + replaced + fields.iter().filter(|field| **field).count());
    write_text(reply, "summary", command.about);
    write_text(reply, "since", command.since);
    write_text(reply, "group", family_of(command).group);
    write_text(reply, "complexity", command.costs);
    if !marks.is_empty() {
        reply.bulk(b"doc_flags");
        write_statuses(reply, marks);
    }
    if let Some((version, by)) = command.replaced {
        write_text(reply, "deprecated_since", version);
        write_text(reply, "replaced_by", by);
    }
    if !command.changes.is_empty() {
        reply.bulk(b"history");
        reply.set(command.changes.len());
        for (version, text) in command.changes {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
    if !arguments.is_empty() {
        write_arguments(reply, command, &arguments, None, &mut 0);
    }
    if !inner.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(inner.len());
        inner.into_iter().for_each(|command| write_docs(reply, command));
    }
}

/// The marks that are set.
fn those_set(marks: [(bool, &str); 2]) -> Vec<String> {
    marks.iter().filter(|(set, _)| *set).map(|(_, mark)| mark.to_string()).collect()
}

/// The version that brought an argument: the one that brought all of its alternatives, if it has some.
fn since_of(command: &Command, argument: &Argument) -> Option<&'static str> {
    if argument.kind == "oneof" && argument.token.is_none() {
        let mut versions = argument.inner.iter().map(|inner| since_of(command, inner));
        let first = versions.next().flatten()?;
        return versions.all(|version| version == Some(first)).then_some(first);
    }
    command.argument_since(argument.token.unwrap_or(&argument.name))
}

/// Writes the field `arguments`; `keys` counts the keys on the way, which is the number of each one's source.
///
/// `parent`: the version that brought the argument of which these are the alternatives, all at once.
fn write_arguments(
    reply: &mut dyn Reply,
    command: &Command,
    arguments: &[Argument],
    parent: Option<&str>,
    keys: &mut i64,
) {
    reply.bulk(b"arguments");
    reply.array(arguments.len());
    for argument in arguments {
        let marks = those_set([(argument.optional, "optional"), (argument.multiple, "multiple")]);
        let (nested, is_key) = (!argument.inner.is_empty(), argument.kind == "key");
        let since = if parent.is_some() { None } else { since_of(command, argument) };
        let fields =
            [true, !nested, is_key, argument.token.is_some(), since.is_some(), !marks.is_empty(), nested];
        reply.map(1 + fields.iter().filter(|field| **field).count());
        write_text(reply, "name", &argument.name);
        write_text(reply, "type", argument.kind);
        if !nested {
            write_text(reply, "display_text", &argument.name);
        }
        if is_key {
            write_number(reply, "key_spec_index", *keys);
            *keys += 1;
        }
        if let Some(token) = argument.token {
            write_text(reply, "token", token);
        }
        if let Some(since) = since {
            write_text(reply, "since", since);
        }
        if !marks.is_empty() {
            reply.bulk(b"flags");
            write_statuses(reply, marks);
        }
        if nested {
            let alternatives = since.filter(|_| argument.kind == "oneof");
            write_arguments(reply, command, &argument.inner, alternatives, keys);
        }
    }
}

/// The keys of the call that the arguments from the third on are, each with what is done with it.
fn keys_of<'a>(args: &'a [&'a [u8]]) -> Result<Vec<(&'a [u8], &'static str)>, Stop> {
    let command = args.first().and_then(|name| find(name)).filter(|command| command.subcommand().is_none());
    let command = command.ok_or("ERR Invalid command specified")?;
    let command = match args.get(1) {
        Some(name) if command.has(CONTAINER) => {
            find_subcommand(command, name).ok_or("ERR Invalid command specified")?
        }
        _ => command,
    };
    if command.shape.specs().is_empty() {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.arity_fits(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let mut keys = Vec::new();
    command.each_key(args, |at, spec| keys.push((args[at], command.touched_by(spec, args))));
    if !command.may_lack_keys() && (keys.is_empty() || !command.counts_its_keys(args)) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    Ok(keys)
}

fn get_keys(call: &mut SessionCall<'_>) -> Outcome {
    let keys = keys_of(&call.args[2..])?;
    call.reply.array(keys.len());
    keys.iter().for_each(|(key, _)| call.reply.bulk(key));
    Ok(())
}

fn get_keys_and_flags(call: &mut SessionCall<'_>) -> Outcome {
    let keys = keys_of(&call.args[2..])?;
    call.reply.array(keys.len());
    for (key, touched) in keys {
        call.reply.array(2);
        call.reply.bulk(key);
        write_statuses(call.reply, touched.split(' ').map(str::to_string).collect());
    }
    Ok(())
}

fn list(call: &mut SessionCall<'_>) -> Outcome {
    let filter: Box<dyn Fn(&'static Command) -> bool> = match &call.args[2..] {
        [] => Box::new(|_| true),
        [word, kind, value] if is(word, "FILTERBY") => {
            let value = value.to_vec();
            if is(kind, "MODULE") {
                Box::new(|_| false)
            } else if is(kind, "ACLCAT") {
                Box::new(move |command| categories(command).any(|name| is(&value, name)))
            } else if is(kind, "PATTERN") {
                Box::new(move |command| glob::matches_folded(&value, command.label().as_bytes()))
            } else {
                return Err(SYNTAX.into());
            }
        }
        _ => return Err(SYNTAX.into()),
    };
    let names: Vec<_> = all()
        .map(|(_, command)| command)
        .filter(|command| filter(command) && !is_removed(command))
        .map(|command| command.label())
        .collect();
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}
