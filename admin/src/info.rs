//! INFO: the metrics as text. Sections and fields are rows in [`crate::metrics`].
use polder_hub::subject;
use polder_table::{Db, Expiries, Mode, Stop, Txn};

use crate::metrics::history::{self, FIGURES};
use crate::metrics::{DEBUG_SECTION, Database, Facts, KEY_SIZES_SECTION, SECTIONS, Section, exposition};
use polder_calls::call::{Outcome, SYNTAX};
use polder_calls::command::{DANGEROUS, LOADING, STALE};
use polder_replica::overview::Overview;
use polder_runtime::cross_process;
use polder_runtime::key_sizes::{KEYS_MAX, KEYS_MAX_UNNAMED};
use polder_runtime::locks::lock;
use polder_runtime::row::{Row, TxnCall, neutral};
use polder_runtime::session::Host;

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    METRICS,
    neutral("INFO", "[section ...]", Mode::Read, info)
        .with(LOADING | STALE | DANGEROUS)
        .tips(&["nondeterministic_output", "request_policy:all_shards", "response_policy:special"])
        .since("1.0.0")
        .changed(&[("7.0.0", "Several of `section` may be given.")])
        .about("Returns information and statistics about the server."),
];

const METRICS: Row = neutral("METRICS", "[OPENMETRICS|HISTORY]", Mode::Read, metrics)
    .with(LOADING | STALE | DANGEROUS)
    .tips(&["nondeterministic_output"])
    .about("Returns the figures of this server and its segment in the text format of Prometheus, or in that of OpenMetrics; or a sample of each ten seconds of the last hour.");

fn metrics(call: &mut TxnCall<'_>) -> Outcome {
    let is_open = match call.args[1..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"OPENMETRICS") => true,
        [word] if word.eq_ignore_ascii_case(b"HISTORY") => {
            return show_history(call);
        }
        _ => {
            call.reply.error(SYNTAX);
            return Ok(());
        }
    };
    call.host.settings().refresh(call.table, call.txn)?;
    let mut facts = Facts::gather(call.table, call.host, databases(call.txn, call.host));
    facts.subjects = subject::counts(call.txn)?;
    facts.replication = Overview::within(call.table, call.txn)?;
    call.reply.verbatim("txt", exposition::render(&facts, is_open).as_bytes());
    Ok(())
}

/// Replies with the names of the figures, and the points of the last hour.
fn show_history(call: &mut TxnCall<'_>) -> Outcome {
    let points = history::points(call.txn, polder_base::time::now_ms())?;
    call.reply.array(points.len() + 1);
    call.reply.array(FIGURES.len());
    FIGURES.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    for point in points {
        call.reply.array(point.len());
        point.iter().for_each(|figure| call.reply.integer(i64::try_from(*figure).unwrap_or(i64::MAX)));
    }
    Ok(())
}

fn info(call: &mut TxnCall<'_>) -> Outcome {
    call.host.settings().refresh(call.table, call.txn)?;
    let wanted: Vec<String> =
        call.args[1..].iter().map(|arg| String::from_utf8_lossy(arg).to_ascii_lowercase()).collect();
    let shown: Vec<&Section> = SECTIONS.iter().filter(|section| is_wanted(section, &wanted)).collect();
    let answers = match shown.iter().any(|section| section.of_processes) {
        true => cross_process::ask_reports(call.table, call.session, call.host)?,
        false => Vec::new(),
    };
    let mut facts = Facts::gather(call.table, call.host, databases(call.txn, call.host));
    facts.whole.add(&answers);
    // Within this call's transaction: a thread has one at a time.
    if shown.iter().any(|section| section.title == "Stats") {
        facts.subjects = subject::counts(call.txn)?;
    }
    if shown.iter().any(|section| section.title == "Replication") {
        facts.replication = Overview::within(call.table, call.txn)?;
    }
    if shown.iter().any(|section| section.title == KEY_SIZES_SECTION) {
        let filled: Vec<Db> = facts.databases.iter().map(|database| database.db).collect();
        let mut sizes = lock(&facts.recorder.key_sizes);
        let is_named = wanted.iter().any(|word| word.eq_ignore_ascii_case(KEY_SIZES_SECTION));
        match sizes.go_on(call.txn, &filled, if is_named { KEYS_MAX } else { KEYS_MAX_UNNAMED }) {
            // Damaged values are not counted.
            Ok(()) | Err(Stop::Fault(_)) => facts.key_sizes = sizes.lines(),
            Err(stop) => return Err(stop),
        }
    }
    let texts: Vec<String> = shown.iter().map(|section| section.render(&facts)).collect();
    call.reply.verbatim("txt", texts.join("\r\n").as_bytes());
    Ok(())
}

fn is_wanted(section: &Section, wanted: &[String]) -> bool {
    let named = |word: &String| match word.as_str() {
        "all" => section.title != "Modules" && section.title != DEBUG_SECTION,
        "everything" => section.title != DEBUG_SECTION,
        "default" => section.usual,
        word => section.title.eq_ignore_ascii_case(word),
    };
    if wanted.is_empty() { section.usual } else { wanted.iter().any(named) }
}

/// The databases that have keys.
pub(crate) fn databases(txn: &Txn<'_>, host: &dyn Host) -> Vec<Database> {
    let filled = (0..host.databases()).map(|db| (db, txn.keys(db))).filter(|(_, keys)| *keys > 0);
    let known = filled.map(|(db, keys)| {
        let expiring = txn.keys_with_expiry(db);
        let expiries = if expiring > 0 { txn.sample_expiries(db) } else { Expiries::default() };
        Database { db, keys, expiring, expiries }
    });
    known.collect()
}
