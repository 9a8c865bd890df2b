//! Every row against what redis-server 7.0.15 says of the same command (recorded in `redis-7.0.15.tsv`).
use std::collections::BTreeMap;

use polder_admin::introspect::{categories, flag_names};
use polder_calls::Command;
use polder_calls::command::{MAY_WRITE, WRITE};
use polder_calls::facts::Tells;
use polder_calls::grammar::{Begin, Find, KeySpec};
use polder_engine::COMMANDS;

/// Rows that differ from Redis 7.0 on purpose, each with the reason.
const DIFFER: &[(&str, &str)] = &[
    ("blmove", "scripts may call it since 7.2"),
    ("blpop", "scripts may call it since 7.2"),
    ("brpop", "scripts may call it since 7.2"),
    ("brpoplpush", "scripts may call it since 7.2"),
    (
        "spublish",
        "Rows have no word for what is no key but is spread over a cluster like one; there is no cluster.",
    ),
    ("ssubscribe", "As SPUBLISH."),
    ("sunsubscribe", "As SPUBLISH."),
    ("bzpopmax", "scripts may call it since 7.2"),
    ("bzpopmin", "scripts may call it since 7.2"),
    ("zrank", "WITHSCORE came with 7.2"),
    ("zrevrank", "WITHSCORE came with 7.2"),
    ("wait", "Since Redis 7.2 scripts may call it, and it is flagged as blocking."),
    ("command|getkeys", "Redis 8 takes a command without arguments."),
    ("command|getkeysandflags", "Redis 8 takes a command without arguments."),
    ("migrate", "Its function says where its keys stand, so no keyword has to be sought from the end."),
    ("sort", "Polder knows where the key behind STORE stands; the keys of patterns are nobody's arguments."),
    ("sort_ro", "The keys of patterns are nobody's arguments."),
];

#[test]
fn every_row_says_what_redis_says() {
    polder_engine::register();
    let facts: BTreeMap<&str, &str> = include_str!("../redis-7.0.15.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('\t'))
        .collect();
    let mut wrong = Vec::new();
    for (_, command) in COMMANDS.all() {
        let label = command.label();
        let Some(fact) = facts.get(label.as_str()) else { continue };
        let row = fact_of(command);
        if row != *fact && !DIFFER.iter().any(|(name, _)| *name == label) {
            wrong.push(format!("{label}\n   row {row}\n  fact {fact}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A row in the words of the recording, its name left out.
fn fact_of(command: &'static Command) -> String {
    let (first, last, step) = command.shape.legacy();
    let flags: Vec<_> = flag_names(command).collect();
    let categories: Vec<_> = categories(command).map(|name| format!("@{name}")).collect();
    let specs: Vec<_> = command
        .shape
        .specs()
        .iter()
        .enumerate()
        .map(|(at, spec)| format!("{}:{}", command.touched(at), shown(spec)))
        .collect();
    let places = format!("{first} {last} {step}");
    let arity = command.shape.arity.to_string();
    [arity, flags.join(" "), places, categories.join(" "), command.tips.join(" "), specs.join(";")].join("\t")
}

fn shown(spec: &KeySpec) -> String {
    let begin = match spec.begin {
        Begin::Index(index) => index.to_string(),
        Begin::Keyword(word, from) => format!("{word}@{from}"),
    };
    match spec.find {
        Find::Range { last, step, limit } => format!("{begin}:{last},{step},{limit}"),
        Find::Numkeys { step } => format!("{begin}:n0,1,{step}"),
    }
}

/// Ways to ask a row for its name where a fact of the row is meant.
const BY_NAME: [&str; 5] = [
    "command.name == \"",
    "command.name != \"",
    "row.name == \"",
    "match command.name",
    "matches!(command.name",
];

#[test]
fn no_file_acts_by_the_name_of_a_command() {
    polder_engine::register();
    let mut found = Vec::new();
    let mut folders: Vec<std::path::PathBuf> = ["calls", "commands", "runtime", "server", "engine", "script"]
        .map(|name| format!("../{name}/src").into())
        .into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source");
            found.extend(
                BY_NAME
                    .iter()
                    .filter(|way| source.contains(**way))
                    .map(|way| format!("{}: {way}", path.display())),
            );
        }
    }
    assert!(found.is_empty(), "say it in the row (polder_calls::facts): {found:?}");
}

#[test]
fn what_a_write_is_told_as_leads_to_the_same_state_again() {
    polder_engine::register();
    let words = |text: &'static str| {
        text.split('`')
            .skip(1)
            .step_by(2)
            .filter(|text| text.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    for (_, command) in COMMANDS.all() {
        assert_eq!(command.tells.is_some(), command.has(WRITE | MAY_WRITE), "{}", command.name);
        let Some(Tells::Own(text)) = command.tells else { continue };
        for told in words(text) {
            // Words of options (`PXAT ms`) name no command.
            let args: Vec<&[u8]> = told.split(' ').map(str::as_bytes).collect();
            let Ok(row) = polder_runtime::execute::resolve(&args) else {
                assert!(
                    ["PXAT", "KEEPTTL", "FLAGS"].iter().any(|option| told.starts_with(option)),
                    "{}: {told}",
                    command.name
                );
                continue;
            };
            // An aside of ours, which `persist/effects` reads; or a row that is only referred to.
            if told.starts_with("ECHO polder:") || text.ends_with("tell it") {
                continue;
            }
            let is_final = match row.tells {
                Some(Tells::Verbatim | Tells::State) => true,
                Some(Tells::Own(text)) => {
                    words(text).any(|told| told.replace(' ', "|").starts_with(row.name))
                        || text.contains("the call")
                }
                None => false,
            };
            assert!(is_final, "{} is told as {told}, and that as something else", command.name);
        }
    }
    // Without their own words the same call at another time, or of other random numbers, would lead elsewhere.
    for name in
        ["EXPIRE", "GETEX", "SETEX", "SPOP", "XADD", "HEXPIRE", "RESTORE", "BLPOP", "INCRBYFLOAT", "SORT"]
    {
        let row = COMMANDS.find(name.as_bytes()).expect("a row");
        assert!(matches!(row.tells, Some(Tells::Own(_))), "{name}");
    }
}
