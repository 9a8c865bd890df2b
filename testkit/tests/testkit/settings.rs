//! How the settings of several processes on one segment come to agree.
use polder_engine::Configuration;
use polder_engine::settings::store::publish;
use polder_engine::settings::{Settings, file, find, value};
use std::time::{Duration, Instant};

use polder_engine::{Policy, Stop, Table};
use polder_shm::Locked;
use polder_shm::layout::{ROOTS_AT, seat as at};
use polder_table::{Mode, SYSTEM};
use polder_testkit::held::while_held;
use polder_testkit::scratch::Scratch;

/// A process that was started with a file of one line and with flags, and has joined the segment.
fn process(table: &Table, line: [&str; 2], flags: &[&str]) -> Configuration {
    let line = file::Assignment {
        id: find(line[0].as_bytes()).unwrap(),
        words: vec![line[1].into()],
        place: "file, line 1".into(),
    };
    let (_, flags) = file::flags(&flags.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    let settings = Configuration::begin(None, &[line], &flags).unwrap();
    settings.join(table).unwrap();
    settings
}

fn shown(settings: &Settings, name: &str) -> String {
    settings.string(find(name.as_bytes()).unwrap())
}

#[test]
fn a_file_yields_to_the_segment_and_the_segment_to_a_flag() {
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    let first = process(table, ["maxmemory", "100mb"], &[]);
    assert_eq!(shown(&first, "maxmemory"), "104857600", "the segment had none");
    let second = process(table, ["maxmemory", "200mb"], &[]);
    assert_eq!(shown(&second, "maxmemory"), "104857600", "the segment's wins over the file's");
    let third = process(
        table,
        ["maxmemory", "200mb"],
        &["--maxmemory", "300mb", "--maxmemory-policy", "allkeys-lfu"],
    );
    assert_eq!(shown(&third, "maxmemory"), "314572800");
    assert_eq!(shown(&first, "maxmemory"), "104857600", "not noticed yet");
    first.join(table).unwrap();
    assert_eq!(
        (shown(&first, "maxmemory"), shown(&first, "maxmemory-policy")),
        ("314572800".into(), "allkeys-lfu".into())
    );
    let limits = table.limits();
    assert_eq!((limits.memory_max, limits.policy), (314_572_800, Policy::AllkeysLfu));
}

#[test]
fn a_change_that_was_not_committed_is_forgotten() {
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    let settings = process(table, ["timeout", "3"], &[]);
    let id = find(b"number-mode").unwrap();
    let txn = table.begin(Mode::Write).unwrap();
    publish(&txn, id, &value::parse(id.row(), &[b"redis"], b"").unwrap()).unwrap();
    settings.refresh(table, &txn).unwrap();
    assert_eq!(shown(&settings, "number-mode"), "redis");
    txn.abort();
    drop(txn);
    settings.join(table).unwrap();
    assert_eq!(
        (shown(&settings, "number-mode"), shown(&settings, "timeout")),
        ("decimal".into(), "3".into())
    );
}

#[test]
fn a_starting_process_is_told_that_the_settings_are_locked_and_may_try_again() {
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    let (_, flags) = file::flags(&["--maxmemory".to_owned(), "300mb".to_owned()]).unwrap();
    let settings = Configuration::begin(None, &[], &flags).unwrap();
    let hold = |wait: &dyn Fn()| {
        let txn = table.begin(Mode::Write).unwrap();
        txn.declare(&[(SYSTEM, b"setting:maxmemory")]).unwrap();
        wait();
    };
    while_held(hold, || assert_eq!(settings.join(table), Err(Stop::Busy)));
    assert_eq!(settings.join(table), Ok(()));
    assert_eq!(table.limits().memory_max, 314_572_800);
}

#[test]
fn a_serving_process_does_not_wait_for_a_process_stopped_while_it_changes_the_map() {
    const MAP_LOCK: u64 = ROOTS_AT;
    let scratch = Scratch::new();
    let table = scratch.embedder.memory.table();
    let settings = process(table, ["maxmemory", "100mb"], &[]);
    let changed = process(table, ["timeout", "1"], &["--maxmemory", "200mb"]);
    assert_eq!(shown(&changed, "maxmemory"), "209715200");
    // Stopped after its commit, before it has written anything out.
    let hold = |wait: &dyn Fn()| {
        let seat = table.seat().unwrap();
        assert!(matches!(seat.lock(MAP_LOCK, None), Ok(Locked::Ours(_))));
        seat.set(at::STATUS, seat.get(at::STATUS) | at::COMMITTED);
        wait();
        seat.rollback();
    };
    while_held(hold, || {
        let began = Instant::now();
        assert_eq!(settings.join(table), Ok(()));
        assert!(began.elapsed() < Duration::from_secs(1));
    });
    assert_eq!(settings.join(table), Ok(()));
    assert_eq!(shown(&settings, "maxmemory"), "209715200");
}
