//! `polder export` of a server's keys.
use std::process::Command;

mod stage;
use stage::{Segment, connect};

#[test]
fn an_export_from_a_server_has_the_lowest_version_that_holds_the_data() {
    let segment = Segment::new();
    let server = segment.serve(&[]);
    let mut client = connect(&server);
    let file = std::env::temp_dir().join(format!("polder-export-{}.rdb", std::process::id()));
    let address = server.address();
    let (host, port) = address.rsplit_once(':').expect("host and port");
    let polder = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_polder")).args(args).output().expect("polder runs");
    // More than are asked for at once, so that a hash may come late.
    for number in 0..600 {
        client.call(&["SET", &format!("key:{number}"), "value"]).expect("a reply");
    }
    client.call(&["HSET", "hash", "field", "value", "other", "value"]).expect("a reply");
    for (line, header) in [("PING", b"REDIS0010"), ("HEXPIRE hash 1000 FIELDS 1 field", b"REDIS0012")] {
        client.call(&line.split(' ').collect::<Vec<_>>()).expect("a reply");
        let output = polder(&["export", file.to_str().expect("a path"), "--host", host, "--port", port]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(std::fs::read(&file).expect("a file")[..9], header[..], "{line}");
    }
    let other = Segment::new();
    let server = other.serve(&[]);
    let output = polder(&["import", file.to_str().expect("a path"), "--segment", &other.0]);
    std::fs::remove_file(&file).expect("it is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut client = connect(&server);
    assert_eq!(client.call(&["DBSIZE"]).expect("a reply").shown(), "(integer) 601");
    let left = client.call(&["HTTL", "hash", "FIELDS", "2", "field", "other"]).expect("a reply").shown();
    assert!(left.starts_with("1) (integer) ") && left.ends_with("\n2) (integer) -1") && !left.contains("1) (integer) -"), "{left}");
    segment.verify();
    other.verify();
}
