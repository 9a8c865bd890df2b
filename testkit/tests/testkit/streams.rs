//! Streams beyond what transcripts show: calls that wait, and many entries.
use std::time::Duration;

use polder_base::Protocol;
use polder_testkit::answer::Answer;
use polder_testkit::caller::Caller;
use polder_testkit::scratch::Scratch;

/// Long enough that a call which need not wait so long is told apart from one that did.
const LONG: &str = "20000";

fn typed(scratch: &Scratch, id: u64, line: &str) -> Answer {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    Caller::new(id, Protocol::Resp2).call(&scratch.embedder, &args).expect("one reply to each command")
}

/// The replies of the first calls, which wait, when the others are made after them.
fn waited(scratch: &Scratch, waiting: &[&str], then: &[&str]) -> Vec<String> {
    std::thread::scope(|threads| {
        let calls: Vec<_> = waiting
            .iter()
            .zip(100..)
            .map(|(line, id)| threads.spawn(move || typed(scratch, id, line).shown()))
            .collect();
        std::thread::sleep(Duration::from_millis(150));
        then.iter().for_each(|line| drop(typed(scratch, 1, line)));
        calls.into_iter().map(|call| call.join().expect("a reply")).collect()
    })
}

#[test]
fn an_entry_wakes_all_clients_that_wait_for_it() {
    let scratch = Scratch::new();
    typed(&scratch, 1, "XADD s 1-1 a 1");
    let read = format!("XREAD BLOCK {LONG} STREAMS s $");
    let other = format!("XREAD COUNT 5 BLOCK {LONG} STREAMS missing s 0 1-1");
    let told = waited(&scratch, &[&read, &other, &read], &["XDEL s 1-1", "XADD t 1-1 a 1", "XADD s 1-2 a 2"]);
    let expected = "1) 1) \"s\"\n   2) 1) 1) \"1-2\"\n         2) 1) \"a\"\n            2) \"2\"";
    assert_eq!(told, [expected, expected, expected]);
}

#[test]
fn a_payload_with_the_id_0_0_is_refused() {
    let scratch = Scratch::new();
    // One entry: its id would be one that no entry can follow.
    let pack =
        b"\x1d\0\0\0\x0a\0\x01\x01\0\x01\x01\x01\x81f\x02\0\x01\x02\x01\0\x01\0\x01\x81v\x02\x04\x01\xff";
    let mut payload = [&b"\x0f\x01\x10"[..], &[0; 16], b"\x1d", pack, b"\x01\0\0\0"].concat();
    polder_wire::rdb::seal(10, &mut payload);
    let call = [&b"RESTORE"[..], b"s", b"0", &payload];
    let answer = Caller::new(1, Protocol::Resp2).call(&scratch.embedder, &call).expect("one reply");
    assert_eq!(answer.shown(), "(error) ERR Bad data format");
}

#[test]
fn a_payload_of_redis_8_6_with_producers_is_taken_and_made_again() {
    let scratch = Scratch::new();
    // Three entries of two producers, one of which was sent twice (DUMP of Redis 8.6.3).
    let hex = "1a0110000001a222e88e340000000000000000c3273011300000001400030100010101816602000102200a400c00046009400080090002200a\
        020401ff0381000001a222e88e340281000001a222e88e340000000300406440640202703001016981000001a222e88e340202703102026931\
        81000001a222e88e340005693232323281000001a222e88e340103010d00212f815c3a889796";
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("a byte");
    let mut payload: Vec<u8> = digits.chunks(2).map(byte).collect();
    let mut caller = Caller::new(1, Protocol::Resp2);
    for key in [&b"s"[..], b"t"] {
        let answer = caller.call(&scratch.embedder, &[b"RESTORE", key, b"0", &payload]).expect("one reply");
        assert_eq!(answer.shown(), "OK");
        let shown = typed(&scratch, 1, &format!("XINFO STREAM {}", key.escape_ascii())).shown();
        assert!(
            shown.contains("23) \"iids-added\"\n24) (integer) 3\n25) \"iids-duplicates\"\n26) (integer) 1"),
            "{shown}"
        );
        let dumped = caller.call(&scratch.embedder, &[b"DUMP", key]).expect("one reply");
        let Answer::Bulk(dumped) = dumped else { panic!("DUMP replies a string") };
        assert_eq!((dumped[0], dumped[dumped.len() - 10]), (26, 13), "type and version");
        payload = dumped;
    }
}

#[test]
fn one_of_a_group_is_served_and_the_others_wait_on() {
    let scratch = Scratch::new();
    typed(&scratch, 1, "XGROUP CREATE s g $ MKSTREAM");
    let reads =
        ["c", "d"].map(|consumer| format!("XREADGROUP GROUP g {consumer} COUNT 1 BLOCK {LONG} STREAMS s >"));
    let told = waited(
        &scratch,
        &[&reads[0], &reads[1]],
        &["XINFO CONSUMERS s g", "XADD s 1-1 a 1", "XADD s 1-2 a 2"],
    );
    let count = |text: &str| told.iter().filter(|told| told.contains(text)).count();
    assert_eq!((count("\"1-1\""), count("\"1-2\"")), (1, 1), "{told:?}");
    assert_eq!(typed(&scratch, 1, "XPENDING s g - + 10 c").shown().matches("\"1-").count(), 1);
}

#[test]
fn a_waiting_client_is_known_as_a_consumer() {
    let scratch = Scratch::new();
    typed(&scratch, 1, "XGROUP CREATE s g $ MKSTREAM");
    let told = waited(&scratch, &["XREADGROUP GROUP g c BLOCK 300 STREAMS s >"], &["COPY s copy"]);
    assert_eq!(told, ["(nil)"]);
    assert!(typed(&scratch, 1, "XINFO CONSUMERS copy g").shown().contains("\"c\""));
}

#[test]
fn a_waiting_client_learns_that_the_group_or_the_stream_is_gone() {
    let scratch = Scratch::new();
    let read = format!("XREADGROUP GROUP g c BLOCK {LONG} STREAMS s >");
    for end in ["XGROUP DESTROY s g", "DEL s", "FLUSHALL"] {
        typed(&scratch, 1, "XGROUP CREATE s g $ MKSTREAM");
        let told = waited(&scratch, &[&read], &[end]);
        assert_eq!(
            told,
            ["(error) NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"],
            "{end}"
        );
    }
    typed(&scratch, 1, "XGROUP CREATE s g $ MKSTREAM");
    let told = waited(&scratch, &[&read], &["SET s text"]);
    assert_eq!(told, ["(error) WRONGTYPE Operation against a key holding the wrong kind of value"]);
}

#[test]
fn a_waiting_client_claims_what_has_been_pending_for_long_enough_meanwhile() {
    let scratch = Scratch::new();
    for line in ["XADD s 1-1 a 1", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"] {
        typed(&scratch, 1, line);
    }
    let idle_for = |ms| format!("XREADGROUP GROUP g d CLAIM {ms} BLOCK {LONG} STREAMS s >");
    for (ms, then) in [(300, &[][..]), (3_600_000, &["XCLAIM s g c 0 1-1 TIME 1000 JUSTID"])] {
        let told = waited(&scratch, &[&idle_for(ms)], then);
        assert!(told[0].contains("\"1-1\""), "{ms}: {told:?}");
        assert!(typed(&scratch, 1, "XPENDING s g - + 1").shown().contains("\"d\""));
    }
    // The time of the call is over before that of the entry.
    let told = waited(&scratch, &["XREADGROUP GROUP g d CLAIM 3600000 BLOCK 200 STREAMS s >"], &[]);
    assert_eq!(told, ["(nil)"]);
}

#[test]
fn a_timeout_answers_nothing() {
    let scratch = Scratch::new();
    assert_eq!(waited(&scratch, &["XREAD BLOCK 200 STREAMS s t $ 0"], &["XADD u 1-1 a 1"]), ["(nil)"]);
}

#[test]
fn a_hundred_thousand_entries_are_read_and_trimmed() {
    const MANY: usize = 100_000;
    let scratch = Scratch::new();
    let mut caller = Caller::new(1, Protocol::Resp3);
    let mut call = |line: &str| {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        caller.call(&scratch.embedder, &args).expect("one reply to each command")
    };
    call("XGROUP CREATE s g 0 MKSTREAM");
    for number in 1..=MANY {
        call(&format!("XADD s {number}-0 field value{number}"));
    }
    assert_eq!(call("XLEN s"), Answer::Integer(MANY as i64));
    assert!(call("XRANGE s 50000 + COUNT 1").shown().contains("value50000"));
    assert!(call("XREVRANGE s 70000 - COUNT 1").shown().contains("value70000"));
    let Answer::Integer(bytes) = call("MEMORY USAGE s") else { panic!("a number") };
    assert!(bytes < 28 * MANY as i64, "{bytes} bytes");
    for _ in 0..10 {
        call("XREADGROUP GROUP g c COUNT 1000 STREAMS s >");
    }
    assert_eq!(call("XACK s g 1-0 9999-0 20000-0"), Answer::Integer(2));
    assert_eq!(call("XPENDING s g 5000 + 1 c").shown().lines().next(), Some("1) 1) \"5000-0\""));
    assert_eq!(call("XTRIM s MINID 99901"), Answer::Integer(99_900));
    assert_eq!(call("XTRIM s MAXLEN ~ 10 LIMIT 50"), Answer::Integer(0));
    assert_eq!(call("XGROUP DESTROY s g"), Answer::Integer(1));
    let Answer::Integer(bytes) = call("MEMORY USAGE s") else { panic!("a number") };
    assert!(bytes < 8_000, "{bytes} bytes");
}
