//! What processes note about themselves, across real processes: every server shows what all have
//! noted.
use std::time::{Duration, Instant};

use polder_testbase::until_quick;
use polder_testkit::process::Server;
use polder_testkit::resp::Connection;

use crate::stage::{Segment, connect};

fn ask(client: &mut Connection, line: &str) -> String {
    client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply").shown()
}

/// Two servers on one segment, and a client of each.
fn two(segment: &Segment) -> ([Server; 2], [Connection; 2]) {
    let servers = [segment.serve(&["--threads", "2"]), segment.serve(&[])];
    let clients = [connect(&servers[0]), connect(&servers[1])];
    (servers, clients)
}

/// The figure of a field of INFO.
fn figure(client: &mut Connection, section: &str, field: &str) -> String {
    let shown = ask(client, &format!("INFO {section}"));
    let figure = shown.split(&format!("\\n{field}:")).nth(1).and_then(|rest| rest.split("\\r").next());
    figure.unwrap_or_else(|| panic!("{field} in {shown}")).to_owned()
}

#[test]
fn a_stopped_process_is_not_waited_for_and_its_last_figures_count() {
    let segment = Segment::new();
    let (servers, [mut one, mut other]) = two(&segment);
    ask(&mut other, "APPEND key text");
    let clients = figure(&mut one, "clients", "connected_clients");
    assert!(figure(&mut one, "commandstats", "cmdstat_append").starts_with("calls=1,"));
    servers[1].stop();
    // It would be half a second for each if their state were not looked at.
    until_quick("figures of a stopped process", Duration::from_millis(500), || {
        assert!(figure(&mut one, "commandstats", "cmdstat_append").starts_with("calls=1,"));
        assert_eq!(figure(&mut one, "clients", "connected_clients"), clients);
    });
    servers[1].go_on();
    ask(&mut other, "APPEND key text");
    assert!(figure(&mut one, "commandstats", "cmdstat_append").starts_with("calls=2,"));
}

#[test]
fn the_slow_log_is_that_of_all_processes() {
    let segment = Segment::new();
    let (_servers, [mut one, mut other]) = two(&segment);
    for client in [&mut one, &mut other] {
        assert_eq!(ask(client, "CONFIG SET slowlog-log-slower-than 0"), "OK");
    }
    ask(&mut one, "SLOWLOG RESET");
    ask(&mut one, "SET one 1");
    ask(&mut other, "SET other 2");
    for client in [&mut one, &mut other] {
        ask(client, "CONFIG SET slowlog-log-slower-than -1");
    }
    for client in [&mut one, &mut other] {
        let shown = ask(client, "SLOWLOG GET 100");
        let (first, second) =
            (shown.find("\"other\"").expect("it is there"), shown.find("\"one\"").expect("it is there"));
        assert!(first < second, "the newest comes first: {shown}");
        let ids: Vec<&str> =
            shown.split("1) (integer) ").skip(1).filter_map(|rest| rest.lines().next()).collect();
        assert!(ids.iter().enumerate().all(|(at, id)| !ids[..at].contains(id)), "{ids:?}");
        assert_eq!(ask(client, "SLOWLOG LEN"), format!("(integer) {}", ids.len()));
        // In a transaction, too, which runs again for the replies.
        ask(client, "MULTI");
        ask(client, "INCR runs");
        ask(client, "SLOWLOG LEN");
        assert!(ask(client, "EXEC").ends_with(&format!("(integer) {}", ids.len())));
    }
    assert_eq!(ask(&mut one, "GET runs"), "\"2\"");
    assert_eq!(ask(&mut other, "SLOWLOG RESET"), "OK");
    assert_eq!(ask(&mut one, "SLOWLOG LEN"), "(integer) 0");
}

#[test]
fn latency_is_that_of_all_processes() {
    let segment = Segment::new();
    let (_servers, [mut one, mut other]) = two(&segment);
    for client in [&mut one, &mut other] {
        ask(client, "CONFIG SET latency-monitor-threshold 5");
    }
    assert_eq!(ask(&mut one, "DEBUG SLEEP 0.02"), "OK");
    assert!(ask(&mut other, "LATENCY LATEST").starts_with("1) 1) \"command\""));
    assert_eq!(ask(&mut other, "DEBUG SLEEP 1.1"), "OK");
    for client in [&mut one, &mut other] {
        let latest = ask(client, "LATENCY LATEST");
        let worst: u64 =
            latest.rsplit("(integer) ").next().and_then(|word| word.parse().ok()).expect("a number");
        assert!(worst >= 1100, "{latest}");
        assert!(ask(client, "LATENCY HISTORY command").matches("(integer)").count() >= 4);
        assert!(ask(client, "LATENCY GRAPH command").contains("command - high"));
        assert!(ask(client, "LATENCY DOCTOR").contains("command: 2 spikes"));
        assert_eq!(ask(client, "LATENCY HISTOGRAM debug").matches("calls").count(), 1);
        assert!(
            ask(client, "LATENCY HISTOGRAM debug").contains("\"calls\"\n   2) (integer) 2"),
            "{}",
            ask(client, "LATENCY HISTOGRAM debug")
        );
    }
    assert_eq!(ask(&mut one, "LATENCY RESET command"), "(integer) 1");
    assert_eq!(ask(&mut other, "LATENCY LATEST"), "(empty array)");
}

#[test]
fn info_sums_up_what_all_processes_have_counted() {
    let segment = Segment::new();
    let (mut servers, [mut one, mut other]) = two(&segment);
    let mut waiter = connect(&servers[1]);
    waiter.send(&["BLPOP", "nothing", "0"]).expect("sent");
    let begun = Instant::now();
    while figure(&mut one, "clients", "blocked_clients") != "1" {
        assert!(begun.elapsed().as_secs() < 20);
    }
    ask(&mut one, "HSET hash field value");
    ask(&mut other, "HSET hash other value");
    ask(&mut other, "HSET hash");
    for client in [&mut one, &mut other] {
        assert_eq!(figure(client, "clients", "connected_clients"), "3");
        assert!(figure(client, "commandstats", "cmdstat_hset").starts_with("calls=2,"));
        assert!(figure(client, "commandstats", "cmdstat_hset").contains("rejected_calls=1"));
        assert_eq!(figure(client, "errorstats", "errorstat_ERR"), "count=1");
        assert!(figure(client, "latencystats", "latency_percentiles_usec_hset").starts_with("p50="));
        let section = ask(client, "INFO processes");
        for server in &servers {
            let line = format!(":pid={},run_id=", server.pid());
            assert!(
                section.contains(&line) && section.contains(&format!("tcp_port={}", server.port())),
                "{section}"
            );
        }
        // Scripts are told the same.
        let told = ask(client, "EVAL redis.call('INFO')return(redis.call('INFO','clients')) 0");
        assert!(told.contains("connected_clients:3"), "{told}");
        ask(client, "MULTI");
        ask(
            client,
            "EVAL redis.call('INCR','runs')redis.call('INFO')return(#redis.call('INFO','clients')>100) 0",
        );
        ask(client, "INFO clients");
        assert!(ask(client, "EXEC").contains("connected_clients:3"));
    }
    assert_eq!(ask(&mut one, "GET runs"), "\"2\"");
    ask(&mut one, "CONFIG RESETSTAT");
    assert!(!ask(&mut other, "INFO commandstats").contains("cmdstat_hset"));
    servers[1].kill();
    assert_eq!(figure(&mut one, "clients", "connected_clients"), "1");
    assert_eq!(ask(&mut one, "INFO processes").matches("\\nprocess").count(), 1);
    segment.verify();
}

#[test]
fn the_acl_log_is_that_of_all_processes() {
    let segment = Segment::new();
    let (_servers, [mut one, mut other]) = two(&segment);
    for client in [&mut one, &mut other] {
        assert!(ask(client, "AUTH nobody secret").contains("WRONGPASS"));
    }
    for client in [&mut one, &mut other] {
        let shown = ask(client, "ACL LOG");
        assert_eq!(
            (shown.matches("\"reason\"").count(), shown.matches("\"auth\"").count()),
            (1, 1),
            "{shown}"
        );
        assert!(shown.contains("(integer) 2"), "{shown}");
        assert_eq!(figure(client, "stats", "acl_access_denied_auth"), "2");
    }
    assert_eq!(ask(&mut other, "ACL LOG RESET"), "OK");
    assert_eq!(ask(&mut one, "ACL LOG"), "(empty array)");
}
