//! What the rows say about commands' past (COMMAND DOCS) and about clusters (COMMAND INFO), compared with a real server.
//!
//! Texts are ours; versions, names of other commands, arity and hints are facts, which must be equal.
use std::collections::{BTreeMap, BTreeSet};

use polder_base::Protocol;
use polder_testkit::answer::Answer;
use polder_testkit::door::{Door, InProcess, Socket};
use polder_testkit::process::{Server, newer, on_path};

/// A version as a number: `7.0.15` is 7000015.
fn number(version: &str) -> u64 {
    version.split('.').fold(0, |sum, part| sum * 1000 + part.parse::<u64>().unwrap_or(0))
}

fn text(answer: &Answer) -> String {
    match answer {
        Answer::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Answer::Status(text) => text.clone(),
        other => other.shown(),
    }
}

fn items(answer: &Answer) -> &[Answer] {
    match answer {
        Answer::Array(items) | Answer::Set(items) => items,
        _ => &[],
    }
}

/// The pairs of a map in RESP2.
fn fields(answer: &Answer) -> BTreeMap<String, &Answer> {
    items(answer).chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1])).collect()
}

/// The facts of one command, as lines.
type Facts = BTreeSet<String>;

/// The other commands that a text names: `` `SET` with the `!GET` argument `` names SET and GET.
fn named(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).map(|name| name.trim_start_matches('!')).collect()
}

/// Facts of the documentation that were so by version `until`.
fn documented(docs: &Answer, until: u64, facts: &mut BTreeMap<String, Facts>) {
    for (name, about) in fields(docs) {
        let about = fields(about);
        let mut found = Facts::new();
        let deprecated = about
            .get("deprecated_since")
            .map(|version| text(version))
            .filter(|version| number(version) <= until);
        if let Some(version) = &deprecated {
            found.insert(format!("deprecated since {version}, see {:?}", named(&text(about["replaced_by"]))));
        }
        let marks = about.get("doc_flags").map_or(&[][..], |marks| items(marks)).iter().map(text);
        found.extend(
            marks
                .filter(|mark| deprecated.is_some() || mark != "deprecated")
                .map(|mark| format!("is {mark}")),
        );
        for (number_of, change) in
            about.get("history").map_or(&[][..], |history| items(history)).iter().enumerate()
        {
            let version = text(&items(change)[0]);
            if number(&version) <= until {
                found.insert(format!("change {number_of} in {version}"));
            }
        }
        facts.entry(name).or_default().extend(found);
        if let Some(inner) = about.get("subcommands") {
            documented(inner, until, facts);
        }
    }
}

/// Facts of COMMAND INFO: the arity, and hints in any order.
fn informed(infos: &Answer, facts: &mut BTreeMap<String, Facts>) {
    for info in items(infos) {
        let [name, arity, .., tips, _, inner] = items(info) else { panic!("{}", info.shown()) };
        let hints: BTreeSet<String> = items(tips).iter().map(text).collect();
        facts
            .entry(text(name))
            .or_default()
            .extend([format!("arity {}", arity.shown()), format!("hints {hints:?}")]);
        informed(inner, facts);
    }
}

fn facts(door: &mut dyn Door, until: u64) -> BTreeMap<String, Facts> {
    let mut facts = BTreeMap::new();
    let mut ask = |words: &[&str]| {
        door.call("a", &words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
            .expect("a reply")
    };
    documented(&ask(&["COMMAND", "DOCS"]), until, &mut facts);
    // Redis 7.0 had other hints in places.
    if until >= number("8.0.0") {
        informed(&ask(&["COMMAND"]), &mut facts);
    }
    facts
}

/// Commands whose documentation Redis 7.0 had incomplete: later versions tell of changes before 7.0.
const MENDED_LATER: [&str; 6] =
    ["georadius_ro", "georadiusbymember", "georadiusbymember_ro", "psetex", "setex", "setnx"];

#[test]
fn the_past_of_commands_is_that_of_a_real_server() {
    let Some((program, until)) = newer("redis8")
        .map(|program| (program, "8.0.0"))
        .or(on_path("redis-server").map(|program| (program, "7.0.0")))
    else {
        println!("no redis-server: left out");
        return;
    };
    let server = Server::start_redis(&program).expect("a redis-server");
    let mut theirs = Socket::new(&server.address(), Protocol::Resp2, true);
    theirs.reset().expect("an empty server");
    let mut ours = InProcess::new(Protocol::Resp2);
    ours.reset().expect("an empty memory");
    let (ours, theirs) = (facts(&mut ours, number(until)), facts(&mut theirs, number(until)));
    let mut differences = Vec::new();
    for (name, ours) in ours {
        let Some(theirs) =
            theirs.get(&name).filter(|_| until != "7.0.0" || !MENDED_LATER.contains(&name.as_str()))
        else {
            continue;
        };
        differences.extend(ours.difference(theirs).map(|fact| format!("{name}: only ours: {fact}")));
        differences.extend(theirs.difference(&ours).map(|fact| format!("{name}: only theirs: {fact}")));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn arguments_that_came_later_say_since_when() {
    let mut memory = InProcess::new(Protocol::Resp2);
    memory.reset().expect("an empty memory");
    let docs =
        memory.call("a", &["COMMAND", "DOCS", "SET"].map(|word| word.as_bytes().to_vec())).expect("a reply");
    let docs = fields(fields(&docs)["set"]).remove("arguments").expect("arguments").shown();
    for (token, version) in
        [("NX", "2.6.12"), ("IFEQ", "8.4.0"), ("GET", "6.2.0"), ("PXAT", "6.2.0"), ("KEEPTTL", "6.0.0")]
    {
        let after = docs.split(&format!("\"{token}\"")).nth(1).expect("the token");
        let since = after.split("\"since\"").nth(1).and_then(|rest| rest.split('"').nth(1));
        assert_eq!(since, Some(version), "{token}");
    }
}
