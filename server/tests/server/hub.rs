//! The hub over sockets: what one client says and others hear, in one server and across several on one memory.
use std::time::{Duration, Instant};

use polder_testbase::until;

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

#[test]
fn many_subscribers_of_several_subjects_hear_everything_in_its_order() {
    let (one, other) = two_doors("");
    let mut hearers: Vec<_> =
        (0..40).map(|number| if number % 2 == 0 { one.client() } else { other.client() }).collect();
    for (number, hearer) in hearers.iter_mut().enumerate() {
        if number % 4 == 0 {
            assert!(hearer.ask("HELLO 3").starts_with('%'));
        }
        hearer.write(b"SUBSCRIBE a b\r\nPSUBSCRIBE a*\r\n");
        (0..3).for_each(|_| _ = hearer.reply());
    }
    let mut publisher = one.client();
    let channels = ["a", "a", "a", "b", "a", "ab", "b", "b", "a"];
    let calls: String = channels
        .iter()
        .enumerate()
        .map(|(number, channel)| format!("PUBLISH {channel} {number}\r\n"))
        .collect();
    publisher.write(calls.as_bytes());
    for channel in channels {
        assert_eq!(publisher.reply(), if channel == "a" { ":80" } else { ":40" });
    }
    for (number, hearer) in hearers.iter_mut().enumerate() {
        let mark = if number % 4 == 0 { '>' } else { '*' };
        for (message, channel) in channels.iter().enumerate() {
            if *channel != "ab" {
                assert_eq!(hearer.reply(), format!("{mark}[$message ${channel} ${message}]"));
            }
            if *channel != "b" {
                assert_eq!(hearer.reply(), format!("{mark}[$pmessage $a* ${channel} ${message}]"));
            }
        }
    }
}

#[test]
fn keyspace_events_of_all_servers_are_published_as_they_are_asked_for() {
    let (one, other) = two_doors("");
    let (mut hearer, mut actor) = (one.client(), other.client());
    assert_eq!(actor.ask("CONFIG SET notify-keyspace-events KEA"), "+OK");
    assert_eq!(hearer.ask("PSUBSCRIBE __key*__:*"), "*[$psubscribe $__key*__:* :1]");
    let mut heard =
        |lines: &[(&str, &str)], actor: &mut crate::door::Client<std::net::TcpStream>, call: &str| {
            actor.ask(call);
            for (key, event) in lines {
                assert_eq!(
                    hearer.reply(),
                    format!("*[$pmessage $__key*__:* $__keyspace@0__:{key} ${event}]"),
                    "{call}"
                );
                assert_eq!(
                    hearer.reply(),
                    format!("*[$pmessage $__key*__:* $__keyevent@0__:{event} ${key}]"),
                    "{call}"
                );
            }
        };
    heard(&[("a", "set")], &mut actor, "SET a 1");
    heard(&[("a", "incrby")], &mut actor, "INCR a");
    heard(&[("a", "expire")], &mut actor, "EXPIRE a 100");
    heard(&[("a", "set"), ("a", "expire")], &mut actor, "SET a 2 EX 100");
    heard(&[("a", "rename_from"), ("b", "rename_to")], &mut actor, "RENAME a b");
    heard(&[("b", "del")], &mut actor, "DEL b");
    heard(&[("c", "set"), ("c", "expire"), ("c", "expired")], &mut actor, "SET c 1 PX 30");
    assert_eq!(actor.ask("CONFIG SET notify-keyspace-events Em"), "+OK");
    actor.ask("SET d 1");
    actor.ask("GET d");
    actor.ask("GET nothing");
    assert_eq!(hearer.reply(), "*[$pmessage $__key*__:* $__keyevent@0__:keymiss $nothing]");
    assert_eq!(actor.ask("CONFIG SET notify-keyspace-events Kn"), "+OK");
    actor.ask("SET d 2");
    actor.ask("SET fresh 2");
    assert_eq!(hearer.reply(), "*[$pmessage $__key*__:* $__keyspace@0__:fresh $new]");
    assert_eq!(actor.ask("CONFIG SET notify-keyspace-events AE"), "+OK");
    assert_eq!(actor.ask("MULTI"), "+OK");
    actor.ask("SET x 1");
    actor.ask("APPEND x 1");
    assert_eq!(actor.ask("EXEC"), "*[+OK :2]");
    assert_eq!(hearer.reply(), "*[$pmessage $__key*__:* $__keyevent@0__:set $x]");
    assert_eq!(hearer.reply(), "*[$pmessage $__key*__:* $__keyevent@0__:append $x]");
}

/// The events of redis 8.6.3, in its order, as they were recorded: `o` and `c` are not part of `A`.
#[test]
fn a_value_that_is_replaced_is_told_of_where_it_was_asked_for() {
    let (one, other) = two_doors("");
    let (mut listener, mut actor) = (other.client(), one.client());
    listener.ask("PSUBSCRIBE __keyevent*");
    let calls: [(&str, &[&str]); 25] = [
        ("CONFIG SET notify-keyspace-events EA", &[]),
        ("SET a 1", &["set a"]),
        ("SET a 2", &["set a"]),
        ("CONFIG SET notify-keyspace-events EAoc", &[]),
        ("SET a 1", &["overwritten a", "set a"]),
        ("SET new 1", &["set new"]),
        ("SETEX a 100 2", &["overwritten a", "set a", "expire a"]),
        ("RPUSH l 1", &["rpush l"]),
        ("SET l 1 XX KEEPTTL", &["overwritten l", "type_changed l", "set l"]),
        ("MSET l 2 l 3 b 1", &["overwritten l", "set l", "overwritten l", "set l", "set b"]),
        ("GETSET b 2", &["overwritten b", "set b"]),
        ("SADD s 1", &["sadd s"]),
        ("SUNIONSTORE b s", &["overwritten b", "type_changed b", "sunionstore b"]),
        ("ZUNIONSTORE b 1 s", &["overwritten b", "type_changed b", "zunionstore b"]),
        ("BITOP NOT b a", &["overwritten b", "type_changed b", "set b"]),
        ("SORT s STORE b", &["overwritten b", "type_changed b", "sortstore b"]),
        ("RENAME b s", &["rename_from b", "rename_to s", "overwritten s", "type_changed s"]),
        ("COPY a s REPLACE", &["copy_to s", "overwritten s", "type_changed s"]),
        ("APPEND a 3", &["append a"]),
        ("INCR a", &["incrby a"]),
        ("SUNIONSTORE a none", &["del a"]),
        ("ZADD z 1 m", &["zadd z"]),
        ("ZRANGESTORE l z 0 -1", &["overwritten l", "type_changed l", "zrangestore l"]),
        ("MSETEX 1 l 1", &["overwritten l", "type_changed l", "set l"]),
        // Nothing more was told before this.
        ("SET end 1", &["set end"]),
    ];
    for (call, expected) in calls {
        actor.ask(call);
        for text in expected {
            let (event, key) = text.split_once(' ').expect("an event and a key");
            assert_eq!(
                listener.reply(),
                format!("*[$pmessage $__keyevent* $__keyevent@0__:{event} ${key}]"),
                "{call}"
            );
        }
    }
}

/// Redis's documentation of subkey notifications: the four channels, their messages, and what is left out.
#[test]
fn fields_of_hashes_are_told_of_on_four_channels() {
    let (one, other) = two_doors("--enable-debug-command yes");
    let (mut listener, mut actor) = (other.client(), one.client());
    actor.ask("CONFIG SET notify-keyspace-events STIVh");
    assert_eq!(actor.ask("CONFIG GET notify-keyspace-events"), "*[$notify-keyspace-events $hSTIV]");
    listener.ask("PSUBSCRIBE __subkey* __key*");
    assert_eq!(listener.reply(), "*[$psubscribe $__key* :2]");
    let mut heard = |expected: &[(&str, &str)]| {
        for (channel, text) in expected {
            assert_eq!(listener.reply(), format!("*[$pmessage $__subkey* ${channel} ${text}]"));
        }
    };
    actor.ask("HSET myhash field1 val1 field2 val2");
    heard(&[
        ("__subkeyspace@0__:myhash", "hset|6:field1,6:field2"),
        ("__subkeyevent@0__:hset", "6:myhash|6:field1,6:field2"),
        ("__subkeyspaceitem@0__:myhash\nfield1", "hset"),
        ("__subkeyspaceitem@0__:myhash\nfield2", "hset"),
        ("__subkeyspaceevent@0__:hset|myhash", "6:field1,6:field2"),
    ]);
    actor.ask("CONFIG SET notify-keyspace-events Sh");
    let calls: [(&str, &[&str]); 12] = [
        ("HSETNX myhash field1 x", &[]),
        ("HSETNX myhash a 1", &["hset|1:a"]),
        ("HINCRBY myhash a 1", &["hincrby|1:a"]),
        ("HINCRBYFLOAT myhash a 1", &["hincrbyfloat|1:a"]),
        ("HEXPIRE myhash 100 FIELDS 3 a none field1", &["hexpire|1:a,6:field1"]),
        ("HPERSIST myhash FIELDS 2 a field2", &["hpersist|1:a"]),
        ("HGETEX myhash EX 100 FIELDS 1 a", &["hexpire|1:a"]),
        ("HSETEX myhash EX 100 FIELDS 2 b 1 c 2", &["hset|1:b,1:c", "hexpire|1:b,1:c"]),
        ("HSETEX myhash PXAT 1 FIELDS 1 c 2", &["hset|1:c", "hdel|1:c"]),
        ("HGETDEL myhash FIELDS 2 b none", &["hdel|1:b"]),
        ("HEXPIRE myhash 0 FIELDS 1 field2", &["hdel|6:field2"]),
        ("HDEL myhash a none field1", &["hdel|1:a,6:field1"]),
    ];
    for (call, expected) in calls {
        actor.ask(call);
        expected.iter().for_each(|text| heard(&[("__subkeyspace@0__:myhash", text)]));
    }
    // Fields that expire by themselves, and one that a command finds expired and puts anew.
    actor.ask("HSET myhash keep 1");
    actor.ask("HSETEX myhash PX 1 FIELDS 2 a 1 b 2");
    heard(&[
        ("__subkeyspace@0__:myhash", "hset|4:keep"),
        ("__subkeyspace@0__:myhash", "hset|1:a,1:b"),
        ("__subkeyspace@0__:myhash", "hexpire|1:a,1:b"),
        ("__subkeyspace@0__:myhash", "hexpired|1:a,1:b"),
    ]);
    actor.ask("DEBUG SET-ACTIVE-EXPIRE 0");
    actor.ask("HSETEX myhash PX 1 FIELDS 1 a 1");
    let set_ms = polder_base::time::now_ms();
    until("the field's millisecond is over", || polder_base::time::now_ms() > set_ms + 2);
    actor.ask("HSET myhash a 2");
    heard(&[
        ("__subkeyspace@0__:myhash", "hset|1:a"),
        ("__subkeyspace@0__:myhash", "hexpire|1:a"),
        ("__subkeyspace@0__:myhash", "hexpired|1:a"),
        ("__subkeyspace@0__:myhash", "hset|1:a"),
    ]);
}

#[test]
fn fields_that_had_expired_are_told_of_before_what_a_command_does() {
    let (one, _other) = two_doors("--enable-debug-command yes");
    let (mut listener, mut actor) = (one.client(), one.client());
    actor.ask("CONFIG SET notify-keyspace-events Kh");
    listener.ask("SUBSCRIBE __keyspace@0__:h");
    actor.ask("HSET h b 1");
    actor.ask("HSETEX h PX 5 FIELDS 1 a 1");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(actor.ask("HGETEX h EX 100 FIELDS 2 a b"), "*[_ $1]");
    for event in ["hset", "hset", "hexpire", "hexpired", "hexpire"] {
        assert_eq!(listener.reply(), format!("*[$message $__keyspace@0__:h ${event}]"));
    }
    actor.ask("CONFIG SET notify-keyspace-events Kgh");
    assert_eq!(actor.ask("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK");
    // What one command makes of a field that has expired, alone in its hash and beside others.
    let calls: [(&str, &[&str]); 8] = [
        ("HSETEX h FNX FIELDS 1 a 2", &["hset"]),
        ("HSETEX h FNX EX 100 FIELDS 1 a 2", &["hset", "hexpire"]),
        ("HSETEX h PXAT 1 FIELDS 1 a 2", &["hset", "hdel"]),
        ("HSET h a 2", &["hset"]),
        ("HSETNX h a 2", &["hset"]),
        ("HINCRBY h a 2", &["hincrby"]),
        ("HINCRBYFLOAT h a 2", &["hincrbyfloat"]),
        ("HMSET h a 2 b 2", &["hset"]),
    ];
    for (call, events) in calls {
        for other in ["", "HSET h b 1"] {
            actor.ask("DEL h");
            if !other.is_empty() {
                actor.ask(other);
            }
            actor.ask("HSETEX h PX 1 FIELDS 1 a 1");
            std::thread::sleep(std::time::Duration::from_millis(3));
            actor.ask("PUBLISH __keyspace@0__:h begin");
            actor.ask(call);
            while listener.reply() != "*[$message $__keyspace@0__:h $begin]" {}
            for event in ["hexpired"].iter().chain(events) {
                assert_eq!(
                    listener.reply(),
                    format!("*[$message $__keyspace@0__:h ${event}]"),
                    "{call}, {other}"
                );
            }
        }
    }
}

#[test]
fn monitors_of_all_servers_see_every_call_and_no_passwords() {
    let (one, other) = two_doors("");
    let (mut monitor, mut actor) = (one.client(), other.client());
    let shown = |line: String| line.split_once("] ").expect("a head").1.to_owned();
    assert_eq!(monitor.ask("MONITOR"), "+OK");
    for call in ["SELECT 3", "SET a 1", "GET a", "AUTH secret", "MULTI"] {
        actor.ask(call);
    }
    assert_eq!(actor.ask("INCR a"), "+QUEUED");
    assert_eq!(actor.ask("EXEC"), "*[:2]");
    actor.ask("CONFIG GET port");
    actor.ask("NONSENSE");
    actor.ask("PING");
    let first = monitor.reply();
    let address = actor.stream.local_addr().expect("an address");
    assert!(
        first.starts_with('+') && first.ends_with(&format!(" [3 {address}] \"SELECT\" \"3\"")),
        "{first}"
    );
    let expected = [
        r#""SET" "a" "1""#,
        r#""GET" "a""#,
        r#""AUTH" "(redacted)""#,
        r#""MULTI""#,
        r#""INCR" "a""#,
        r#""EXEC""#,
        r#""PING""#,
    ];
    for line in expected {
        assert_eq!(shown(monitor.reply()), line);
    }
    assert_eq!(monitor.ask("GET a"), "-ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.ask("RESET"), "+RESET");
    actor.ask("SET a 2");
    assert_eq!(monitor.ask("GET a"), "_");
}

#[test]
fn clients_that_track_are_told_once_of_what_they_have_read() {
    let (one, other) = two_doors("");
    let (mut reader, mut writer) = (one.client(), other.client());
    assert!(reader.ask("HELLO 3").starts_with('%'));
    assert_eq!(reader.ask("CLIENT TRACKING ON"), "+OK");
    assert_eq!(reader.ask("GET a"), "_");
    assert_eq!(reader.ask("MGET b c"), "*[_ _]");
    for call in ["SET a 1", "SET a 2", "SET b 1", "SET unread 1", "DEL a", "APPEND c x"] {
        writer.ask(call);
    }
    assert_eq!(reader.reply(), ">[$invalidate *[$a]]");
    assert_eq!(reader.reply(), ">[$invalidate *[$b]]");
    assert_eq!(reader.reply(), ">[$invalidate *[$c]]");
    // A change of one's own comes behind the reply, unless it is not wanted.
    assert_eq!(reader.ask("GET a"), "_");
    assert_eq!(reader.ask("SET a 1"), "+OK");
    assert_eq!(reader.reply(), ">[$invalidate *[$a]]");
    assert_eq!(reader.ask("CLIENT TRACKING ON NOLOOP"), "+OK");
    assert_eq!(reader.ask("GET a"), "$1");
    assert_eq!(reader.ask("SET a 2"), "+OK");
    assert_eq!(reader.ask("GET a"), "$2");
    writer.ask("SET a 3 PX 300");
    assert_eq!(reader.reply(), ">[$invalidate *[$a]]");
    assert_eq!(reader.ask("GET a"), "$3");
    assert_eq!(reader.reply(), ">[$invalidate *[$a]]");
    assert_eq!(reader.ask("GET a"), "_");
    writer.ask("FLUSHALL");
    assert_eq!(reader.reply(), ">[$invalidate _]");
    assert_eq!(reader.ask("CLIENT TRACKING OFF"), "+OK");
    writer.ask("SET a 4");
    assert_eq!(reader.ask("GET a"), "$4");
}

#[test]
fn tracking_by_prefix_by_choice_and_for_another_client() {
    let door = Door::open("--threads 2");
    let (mut reader, mut writer, mut other) = (door.client(), door.client(), door.client());
    reader.ask("HELLO 3");
    assert_eq!(reader.ask("CLIENT TRACKING ON BCAST PREFIX user: PREFIX post:"), "+OK");
    assert_eq!(writer.ask("MSET user:1 a other b post:1 c user:2 d"), "+OK");
    let mut told = vec![reader.reply(), reader.reply()];
    told.sort();
    assert_eq!(told, [">[$invalidate *[$post:1]]", ">[$invalidate *[$user:1 $user:2]]"]);
    assert_eq!(reader.ask("CLIENT TRACKING OFF"), "+OK");
    assert_eq!(reader.ask("CLIENT TRACKING ON OPTIN"), "+OK");
    reader.ask("GET a");
    assert_eq!(reader.ask("CLIENT CACHING YES"), "+OK");
    reader.ask("GET b");
    reader.ask("GET c");
    writer.ask("MSET a 1 b 1 c 1");
    assert_eq!(reader.reply(), ">[$invalidate *[$b]]");
    assert_eq!(reader.ask("CLIENT TRACKING OFF"), "+OK");
    // In RESP2 another connection listens.
    let id = other.ask("CLIENT ID").trim_start_matches(':').to_owned();
    assert_eq!(other.ask("SUBSCRIBE __redis__:invalidate"), "*[$subscribe $__redis__:invalidate :1]");
    let mut second = door.client();
    assert_eq!(second.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), "+OK");
    assert_eq!(second.ask("CLIENT GETREDIR"), format!(":{id}"));
    assert_eq!(second.ask("GET a"), "$1");
    writer.ask("SET a 2");
    assert_eq!(other.reply(), "*[$message $__redis__:invalidate *[$a]]");
    assert_eq!(second.ask("GET a"), "$2");
    writer.ask("FLUSHDB");
    assert_eq!(other.reply(), "*[$message $__redis__:invalidate _]");
    assert_eq!(
        second.ask("CLIENT TRACKING ON REDIRECT 999999"),
        "-ERR The client ID you want redirect to does not exist"
    );
}
