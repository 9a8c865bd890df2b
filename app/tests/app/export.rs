//! `polder export` of a server's keys.
use std::process::Command;

use crate::stage::{Segment, connect};

/// Looks for the flags, the content type and the expiry of a string.
fn has_the_item(client: &mut polder_testkit::resp::Connection) {
    let shown = client.call(&["ITEM.GET", "item"]).expect("a reply").shown();
    assert!(
        shown.contains("(integer) 7") && shown.contains("\"text/css\"") && shown.contains("\"value\""),
        "{shown}"
    );
    let left = client.call(&["TTL", "item"]).expect("a reply").shown();
    assert!(
        ["(integer) 1000", "(integer) 999", "(integer) 998"].contains(&left.as_str())
            || left.starts_with("(integer) 9"),
        "{left}"
    );
}

#[test]
fn an_export_from_a_server_has_the_lowest_version_that_holds_the_data() {
    let segment = Segment::new();
    let server = segment.serve(&[]);
    let mut client = connect(&server);
    let file = std::env::temp_dir().join(format!("polder-export-{}.rdb", std::process::id()));
    let address = server.address();
    let (host, port) = address.rsplit_once(':').expect("host and port");
    let polder =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_polder")).args(args).output().expect("polder runs");
    // More than are asked for at once, so that a hash may come late.
    for number in 0..600 {
        client.call(&["SET", &format!("key:{number}"), "value"]).expect("a reply");
    }
    client
        .call(&["ITEM.SET", "item", "value", "FLAGS", "7", "TYPE", "text/css", "EX", "1000"])
        .expect("a reply");
    client.call(&["HSET", "hash", "field", "value", "other", "value"]).expect("a reply");
    for (line, header) in [("PING", b"REDIS0010"), ("HEXPIRE hash 1000 FIELDS 1 field", b"REDIS0012")] {
        client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
        let output = polder(&["export", file.to_str().expect("a path"), "--host", host, "--port", port]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(&file).expect("a file")[..9], header[..], "{line}");
    }
    let other = Segment::new();
    let server = other.serve(&[]);
    // Into a segment, and into a server.
    let output = polder(&["import", file.to_str().expect("a path"), "--segment", &other.0]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut client = connect(&server);
    has_the_item(&mut client);
    let address = server.address();
    let (host, port) = address.rsplit_once(':').expect("host and port");
    client.call(&["FLUSHALL"]).expect("a reply");
    let import = |more: &[&str]| {
        let output = polder(
            &[&["import", file.to_str().expect("a path"), "--host", host, "--port", port], more].concat(),
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(import(&[]), "602 keys loaded\n");
    has_the_item(&mut client);
    client.call(&["SET", "item", "other"]).expect("a reply");
    assert_eq!(import(&[]), "0 keys loaded, 602 were there and stayed\n");
    assert_eq!(client.call(&["GET", "item"]).expect("a reply").shown(), "\"other\"");
    assert_eq!(import(&["--replace"]), "602 keys loaded\n");
    has_the_item(&mut client);
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(client.call(&["DBSIZE"]).expect("a reply").shown(), "(integer) 602");
    let left = client.call(&["HTTL", "hash", "FIELDS", "2", "field", "other"]).expect("a reply").shown();
    assert!(
        left.starts_with("1) (integer) ")
            && left.ends_with("\n2) (integer) -1")
            && !left.contains("1) (integer) -"),
        "{left}"
    );
    segment.verify();
    other.verify();
}
