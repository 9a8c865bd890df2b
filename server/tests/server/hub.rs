//! The hub over sockets: what one client says and others hear, in one server and across several on one memory.
use std::time::{Duration, Instant};

use crate::door::{Door, Place};

/// Two servers on one memory, each with a client.
fn two_doors(flags: &str) -> (Door, Door) {
    let place = Place::new();
    let port = || polder_testkit::process::free_port().expect("a free port");
    let one = Door::on(place.clone(), port(), flags);
    let other = Door::on(place, port(), flags);
    (one, other)
}

#[test]
fn a_message_reaches_subscribers_of_all_servers_and_the_publisher_hears_how_many() {
    let (one, other) = two_doors("--threads 2");
    let (mut near, mut far, mut publisher) = (one.client(), other.client(), one.client());
    assert_eq!(near.ask("SUBSCRIBE news"), "*[$subscribe $news :1]");
    assert_eq!(far.ask("PSUBSCRIBE n?ws other*"), "*[$psubscribe $n?ws :1]");
    assert_eq!(far.reply(), "*[$psubscribe $other* :2]");
    assert_eq!(far.ask("SUBSCRIBE news"), "*[$subscribe $news :3]");
    assert_eq!(publisher.ask("PUBLISH news hello"), ":3");
    assert_eq!(near.reply(), "*[$message $news $hello]");
    assert_eq!(far.reply(), "*[$message $news $hello]");
    assert_eq!(far.reply(), "*[$pmessage $n?ws $news $hello]");
    assert_eq!(publisher.ask("PUBSUB NUMSUB news none"), "*[$news :2 $none :0]");
    assert_eq!(publisher.ask("PUBSUB NUMPAT"), ":2");
    assert_eq!(near.ask("UNSUBSCRIBE news"), "*[$unsubscribe $news :0]");
    assert_eq!(publisher.ask("PUBLISH news again"), ":2");
    drop(far);
    let begun = Instant::now();
    while publisher.ask("PUBLISH news more") != ":0" {
        assert!(begun.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(publisher.ask("PUBSUB CHANNELS"), "*[]");
}
