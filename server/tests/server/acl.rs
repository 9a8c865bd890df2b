//! Users over sockets: what one server changes holds in all servers on the memory, for those who are connected already, too.
use std::time::{Duration, Instant};

use polder_testkit::process::free_port;

use crate::door::{Door, Place};
use crate::waiting::{send, until_waiting};

/// Two servers on one memory.
fn two_doors(flags: &str) -> (Door, Door) {
    let place = Place::new();
    let one = Door::on(place.clone(), free_port().expect("a free port"), flags);
    let other = Door::on(place, free_port().expect("a free port"), "");
    (one, other)
}

#[test]
fn what_one_server_forbids_no_server_does() {
    let (one, other) = two_doors("");
    let (mut admin, mut client) = (one.client(), other.client());
    assert_eq!(admin.ask("ACL SETUSER ann on >p ~* +@all"), "+OK");
    assert_eq!(client.ask("AUTH ann p"), "+OK");
    assert_eq!(client.ask("SET key 1"), "+OK");
    assert_eq!(admin.ask("ACL SETUSER ann -set"), "+OK");
    assert_eq!(client.ask("SET key 2"), "-NOPERM User ann has no permissions to run the 'set' command");
    assert_eq!(client.ask("GET key"), "$1");
    assert_eq!(admin.ask("ACL SETUSER ann resetkeys %R~other"), "+OK");
    assert_eq!(client.ask("GET key"), "-NOPERM No permissions to access a key");
    assert_eq!(client.ask("GET other"), "_");
    assert_eq!(admin.ask("CONFIG SET requirepass secret"), "+OK");
    assert_eq!(other.client().ask("PING"), "-NOAUTH Authentication required.");
    assert_eq!(other.client().ask("AUTH secret"), "+OK");
}

#[test]
fn a_deleted_user_is_disconnected_everywhere() {
    let (one, other) = two_doors("--threads 2");
    let (mut admin, mut near, mut far, mut idle) =
        (one.client(), one.client(), other.client(), other.client());
    assert_eq!(admin.ask("ACL SETUSER ann on nopass ~* +@all"), "+OK");
    for client in [&mut near, &mut far, &mut idle] {
        assert_eq!(client.ask("AUTH ann x"), "+OK");
    }
    let began = Instant::now();
    assert_eq!(admin.ask("ACL DELUSER ann"), ":1");
    // The same name is another user.
    assert_eq!(admin.ask("ACL SETUSER ann on nopass ~* +@all"), "+OK");
    assert!(near.is_closed());
    assert_eq!(far.try_ask("SET key 1"), None);
    assert!(idle.is_closed());
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(admin.ask("GET key"), "_");
}

#[test]
fn a_waiting_client_that_may_no_longer_pop_gets_nothing() {
    let (one, other) = two_doors("");
    let (mut admin, mut waits, mut next) = (one.client(), other.client(), other.client());
    for (change, complaint) in [
        ("-blpop", "-NOPERM User ann has no permissions to run the 'blpop' command"),
        ("resetkeys", "-NOPERM No permissions to access a key"),
    ] {
        assert_eq!(admin.ask("ACL SETUSER ann reset on nopass ~* +@all"), "+OK");
        assert_eq!(waits.ask("AUTH ann x"), "+OK");
        send(&mut waits, "BLPOP list 0");
        until_waiting(&mut next, 1);
        send(&mut next, "BLPOP list 0");
        until_waiting(&mut other.client(), 2);
        assert_eq!(admin.ask(&format!("ACL SETUSER ann {change}")), "+OK");
        assert_eq!(admin.ask("RPUSH list element"), ":1");
        assert_eq!(waits.reply(), complaint);
        assert_eq!(next.reply(), "*[$list $element]");
    }
}

#[test]
fn a_subscriber_that_may_no_longer_receive_is_disconnected() {
    let (one, other) = two_doors("");
    let (mut admin, mut stays, mut goes) = (one.client(), other.client(), other.client());
    assert_eq!(admin.ask("ACL SETUSER ann on nopass +@all &a &b"), "+OK");
    assert_eq!(stays.ask("AUTH ann x"), "+OK");
    assert_eq!(goes.ask("AUTH ann x"), "+OK");
    assert_eq!(stays.ask("SUBSCRIBE a"), "*[$subscribe $a :1]");
    assert_eq!(goes.ask("SUBSCRIBE b"), "*[$subscribe $b :1]");
    assert_eq!(admin.ask("ACL SETUSER ann resetchannels &a"), "+OK");
    assert!(goes.is_closed());
    assert_eq!(admin.ask("PUBLISH a hello"), ":1");
    assert_eq!(stays.reply(), "*[$message $a $hello]");
}

#[test]
fn a_file_of_users_is_read_into_a_new_memory_and_written_and_read_when_asked() {
    let path = std::env::temp_dir().join(format!("polder-test-{}.acl", std::process::id()));
    std::fs::write(&path, "user default on nopass ~* &* +@all\nuser ann on >p ~a:* (+get ~b:*)\n")
        .expect("a file");
    let place = Place::new();
    let flags = format!("--aclfile {}", path.display());
    let door = Door::on(place.clone(), free_port().expect("a free port"), &flags);
    let mut admin = door.client();
    assert_eq!(admin.ask("ACL USERS"), "*[$ann $default]");
    assert_eq!(admin.ask("ACL SETUSER bob on nopass"), "+OK");
    assert_eq!(admin.ask("ACL SAVE"), "+OK");
    let saved = std::fs::read_to_string(&path).expect("it was written");
    assert!(
        saved.starts_with("user ann on sanitize-payload #") && saved.contains("\nuser bob on nopass "),
        "{saved}"
    );
    // The memory has users: the file is only read when it is asked for.
    std::fs::write(&path, "user ann off\nuser eve on nopass +@all\n").expect("a file");
    let other = Door::on(place, free_port().expect("a free port"), &flags);
    assert_eq!(other.client().ask("ACL USERS"), "*[$ann $bob $default]");
    assert_eq!(admin.ask("ACL LOAD"), "+OK");
    assert_eq!(other.client().ask("ACL USERS"), "*[$ann $default $eve]");
    std::fs::write(&path, "user ann what\n").expect("a file");
    let wrong = format!(
        "-ERR {}:1: Syntax error. WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        path.display()
    );
    assert_eq!(admin.ask("ACL LOAD"), wrong);
    assert_eq!(admin.ask("ACL USERS"), "*[$ann $default $eve]");
    std::fs::remove_file(&path).expect("it is ours");
}

#[test]
fn a_password_that_is_asked_for_at_start_holds_in_all_servers() {
    let (one, other) = two_doors("--requirepass secret");
    for door in [&one, &other] {
        let mut client = door.client();
        assert_eq!(client.ask("GET a"), "-NOAUTH Authentication required.");
        assert_eq!(client.ask("AUTH secret"), "+OK");
        assert_eq!(client.ask("GET a"), "_");
    }
}

#[test]
fn a_lower_limit_of_the_acl_log_removes_entries_with_the_next_denial_and_hides_none_before() {
    let door = Door::open("");
    let mut client = door.client();
    let mut shown = |calls: &[&str]| {
        calls.iter().for_each(|call| drop(client.ask(call)));
        client.ask("ACL LOG 100").matches("entry-id").count()
    };
    assert_eq!(shown(&["AUTH a x", "AUTH b x", "AUTH c x"]), 3);
    assert_eq!(shown(&["CONFIG SET acllog-max-len 2"]), 3);
    assert_eq!(shown(&["CONFIG SET acllog-max-len 128"]), 3);
    assert_eq!(shown(&["CONFIG SET acllog-max-len 2", "AUTH d x"]), 2);
    assert_eq!(shown(&["CONFIG SET acllog-max-len 128"]), 2);
    assert_eq!(shown(&["CONFIG SET acllog-max-len 0", "AUTH e x", "CONFIG SET acllog-max-len 128"]), 0);
}
