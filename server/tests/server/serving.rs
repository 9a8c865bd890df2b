//! Real sockets on loopback: what a client sees, however it cuts its bytes and however many it is.
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::door::{Client, Door};
use polder_testbase::{until, until_quick};
use polder_testkit::process::free_port;
use polder_wire::resp::{Value, command};

#[test]
fn a_pipeline_is_answered_in_order() {
    let door = Door::open("--threads 2");
    let mut client = door.client();
    let mut bytes = Vec::new();
    for number in 0..5000 {
        command(&["SET", &format!("key:{}", number % 100), &number.to_string()], &mut bytes);
        command(&["GET", &format!("key:{}", number % 100)], &mut bytes);
    }
    client.write(&bytes);
    for number in 0..5000 {
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), format!("${number}"));
    }
}

#[test]
fn the_longest_turn_and_the_most_calls_of_one_are_told_where_they_are_asked_for() {
    let door = Door::open("");
    let mut client = door.client();
    client.write(&b"PING\r\n".repeat(100));
    (0..100).for_each(|_| assert_eq!(client.reply(), "+PONG"));
    let mut asked = |line: &str| {
        client.write(format!("{line}\r\n").as_bytes());
        client.reply()
    };
    let debug = asked("INFO debug");
    let figure = |name: &str| -> u64 {
        let value = debug.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("no {name} in {debug}")).parse().expect("a number")
    };
    assert!(figure("eventloop_cmd_per_cycle_max") > 1, "{debug}");
    assert!(figure("eventloop_duration_max") > 0, "{debug}");
    for section in ["", "all", "everything", "default"] {
        assert!(!asked(&format!("INFO {section}")).contains("eventloop_duration_max"), "{section}");
    }
}

#[test]
fn writes_of_one_key_in_a_row_are_as_if_made_one_by_one() {
    let door = Door::open("");
    let mut client = door.client();
    let lines = [
        ("APPEND key 1", ":1"),
        ("APPEND key 2", ":2"),
        ("INCRBYFLOAT key 0.5", "$12.5"),
        ("INCRBYFLOAT key x", "-ERR value is not a valid float"),
        ("SETNX key never", ":0"),
        ("APPEND key", "-ERR wrong number of arguments for 'append' command"),
        ("GETSET key abc", "$12.5"),
        ("INCRBYFLOAT key 1", "-ERR value is not a valid float"),
        ("APPEND key d", ":4"),
        ("APPEND other z", ":1"),
        ("APPEND key e", ":5"),
        ("GETDEL key", "$abcde"),
        ("SETNX key 7", ":1"),
        ("INCRBYFLOAT key 1", "$8"),
        ("GET key", "$8"),
    ];
    let mut bytes = Vec::new();
    for _ in 0..3 {
        for (line, _) in lines {
            command(&line.split(' ').collect::<Vec<_>>(), &mut bytes);
        }
        command(&["DEL", "key", "other"], &mut bytes);
    }
    client.write(&bytes);
    for _ in 0..3 {
        for (line, answer) in lines {
            assert_eq!(client.reply(), answer, "{line}");
        }
        assert_eq!(client.reply(), ":2");
    }
    let calls = client.ask("INFO commandstats");
    assert!(calls.contains("cmdstat_append:calls=15,") && calls.contains("rejected_calls=3,"), "{calls}");
    assert!(calls.contains("cmdstat_incrbyfloat:calls=12,") && calls.contains("failed_calls=6"), "{calls}");
}

#[test]
fn input_may_come_byte_by_byte() {
    let door = Door::open("");
    let mut client = door.client();
    let mut bytes = b"PING\r\n".to_vec();
    command(&["SET", "key", "some value"], &mut bytes);
    command(&["GET", "key"], &mut bytes);
    bytes.extend_from_slice(b"ECHO \"a b\"\r\n");
    for byte in bytes {
        client.write(&[byte]);
    }
    let replies: Vec<String> = (0..4).map(|_| client.reply()).collect();
    assert_eq!(replies, ["+PONG", "+OK", "$some value", "$a b"]);
}

#[test]
fn empty_requests_before_one_that_comes_in_parts_are_passed_over() {
    let door = Door::open("");
    let mut client = door.client();
    for empty in ["*0\r\n", "\r\n\r\n", "*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n*0\r\n", "*-1\r\n"] {
        client.write(format!("{empty}*1\r\n$4\r\nPI").as_bytes());
        std::thread::sleep(Duration::from_millis(30));
        client.write(b"NG\r\n");
        if empty.contains("ECHO") {
            assert_eq!(client.reply(), "$x");
        }
        assert_eq!(client.reply(), "+PONG", "after {empty:?}");
    }
}

#[test]
fn nonsense_is_answered_after_what_came_before_it_and_ends_the_connection() {
    let door = Door::open("");
    let mut client = door.client();
    client.write(b"PING\r\n*1\r\n$-7\r\nPING\r\n");
    assert_eq!(client.reply(), "+PONG");
    assert_eq!(client.reply(), "-ERR Protocol error: invalid bulk length");
    assert!(client.is_closed());
    let mut other = door.client();
    assert!(other.ask("INFO stats").contains("total_error_replies:1\r\n"));
    assert!(other.ask("INFO errorstats").contains("errorstat_ERR:count=1\r\n"));
}

#[test]
fn a_request_from_a_browser_ends_the_connection_without_an_answer() {
    let door = Door::open("");
    let mut client = door.client();
    client.write(b"POST / HTTP/1.1\r\nSET key evil\r\n");
    assert!(client.is_closed());
    assert_eq!(door.client().ask("GET key"), "_");
}

#[test]
fn a_value_of_64_mib_comes_back_as_it_went() {
    let door = Door::open("");
    let mut client = door.client();
    let value: Vec<u8> = (0..64usize << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert_eq!(client.ask_words(&[b"SET", b"large".as_slice(), &value]), "+OK");
    client.write(b"GET large\r\n");
    assert!(client.value() == Some(Value::Bulk(value)));
    assert_eq!(client.ask("PING"), "+PONG");
}

#[test]
fn a_client_may_send_everything_before_it_reads() {
    let door = Door::open("");
    let mut client = door.client();
    assert_eq!(client.ask_words(&["SET", "key", &"x".repeat(2000)]), "+OK");
    // 20 MB of replies, which no socket buffer holds.
    client.write(&b"GET key\r\n".repeat(10_000));
    for _ in 0..10_000 {
        assert!(client.reply().len() == 2001);
    }
}

#[test]
fn a_client_that_does_not_read_is_closed_at_the_hard_limit() {
    let door = Door::open("--client-output-buffer-limit normal 1mb 0 0");
    let mut client = door.client();
    assert_eq!(client.ask_words(&["SET", "key", &"x".repeat(100_000)]), "+OK");
    let requests = b"GET key\r\n".repeat(200);
    assert!(client.ask("INFO clients").contains("connected_clients:1\r\n"));
    // The server may close while this is being written.
    let _ = client.stream.write_all(&requests);
    let mut other = door.client();
    let began = Instant::now();
    while other.ask("CLIENT LIST").lines().count() > 1 {
        assert!(began.elapsed() < crate::door::PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(other.ask("INFO stats").contains("client_output_buffer_limit_disconnections:1\r\n"));
}

#[test]
fn a_client_that_reads_too_slowly_is_closed_at_the_soft_limit() {
    let door = Door::open("--client-output-buffer-limit normal 0 64kb 1");
    let mut client = door.client();
    assert_eq!(client.ask_words(&["SET", "key", &"x".repeat(100_000)]), "+OK");
    client.write(&b"GET key\r\n".repeat(200));
    let mut other = door.client();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(other.ask("CLIENT LIST").lines().count(), 2);
    let began = Instant::now();
    while other.ask("CLIENT LIST").lines().count() > 1 {
        assert!(began.elapsed() < crate::door::PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_thousand_clients_are_served_by_two_threads() {
    let door = Door::open("--threads 2");
    let mut clients: Vec<_> = (0..1000).map(|_| door.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let mut bytes = Vec::new();
        command(&["SET", &format!("key:{number}"), &number.to_string()], &mut bytes);
        command(&["GET", &format!("key:{number}")], &mut bytes);
        client.write(&bytes);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), format!("${number}"));
    }
    assert_eq!(clients[0].ask("CLIENT LIST").lines().count(), 1000);
}

#[test]
fn hello_changes_the_protocol_from_its_own_reply_on() {
    let door = Door::open("");
    let mut client = door.client();
    assert_eq!(client.ask("GET none"), "_");
    let hello = client.ask("HELLO 3 SETNAME me");
    assert!(hello.starts_with("%[$server=$redis $version=$7.4.0 $proto=:3"), "{hello}");
    assert_eq!(client.ask("CLIENT GETNAME"), "$me");
    assert!(client.ask("HELLO 2").starts_with("*[$server"));
}

#[test]
fn a_server_keeps_samples_of_its_last_hour() {
    let door = Door::open("");
    let mut client = door.client();
    let mut points = Vec::new();
    until("a sample", || {
        client.write(b"METRICS HISTORY\r\n");
        let Some(Value::Array(rows)) = client.value() else { panic!("an array") };
        points = rows;
        points.len() > 1
    });
    let rows: Vec<&Vec<Value>> = points
        .iter()
        .map(|row| if let Value::Array(row) = row { row } else { panic!("no row: {row:?}") })
        .collect();
    let at = |name: &str| rows[0].iter().position(|found| *found == Value::Bulk(name.into()));
    let figure = |name: &str| match rows[1][at(name).expect("a figure of this name")] {
        Value::Integer(figure) => figure,
        ref other => panic!("{name}: {other:?}"),
    };
    assert!(figure("time_ms") > 0 && figure("used_memory") > 0);
    assert_eq!((figure("keys"), figure("timed_calls")), (0, 0), "METRICS is not counted");
    assert!(client.ask("METRICS NOTHING").starts_with("-ERR syntax error"));
    // The next server of the segment goes on with them.
    let (place, time_ms) = (door.place.clone(), figure("time_ms"));
    drop(door);
    let next = Door::on(place, free_port().expect("a free port"), "");
    let mut client = next.client();
    client.write(b"METRICS HISTORY\r\n");
    let Some(Value::Array(rows)) = client.value() else { panic!("an array") };
    let Value::Array(first) = &rows[1] else { panic!("no row: {rows:?}") };
    assert_eq!(first[0], Value::Integer(time_ms));
}

#[test]
fn a_unix_socket_serves_with_its_permissions_and_goes_with_the_server() {
    let path = std::env::temp_dir().join(format!("polder-test-{}.sock", std::process::id()));
    let mut door = Door::open(&format!("--unixsocket {} --unixsocketperm 700", path.display()));
    assert_eq!(std::fs::metadata(&path).expect("the socket").permissions().mode() & 0o777, 0o700);
    let mut client = Client::new(UnixStream::connect(&path).expect("a connection"));
    assert_eq!(client.ask("SET key value"), "+OK");
    let list = client.ask("CLIENT LIST");
    assert!(list.contains(&format!("addr={}:0", path.display())) && list.contains("flags=U"), "{list}");
    door.close();
    assert!(!path.exists());
}

#[test]
fn a_socket_that_a_killed_server_left_behind_is_not_in_the_way() {
    let path = std::env::temp_dir().join(format!("polder-test-left-{}.sock", std::process::id()));
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let mut door = Door::open(&format!("--unixsocket {}", path.display()));
    assert_eq!(Client::new(UnixStream::connect(&path).expect("a connection")).ask("PING"), "+PONG");
    door.close();
}

#[test]
fn one_client_too_many_is_told_so() {
    let door = Door::open("--maxclients 2 --threads 2");
    let (mut one, mut two) = (door.client(), door.client());
    assert_eq!((one.ask("PING"), two.ask("PING")), ("+PONG".into(), "+PONG".into()));
    let mut three = door.client();
    assert_eq!(three.reply(), "-ERR max number of clients reached");
    assert!(three.is_closed());
    drop(one);
    let began = Instant::now();
    while two.ask("CLIENT LIST").lines().count() > 1 {
        assert!(began.elapsed() < crate::door::PATIENCE);
    }
    assert_eq!(door.client().ask("PING"), "+PONG");
}

#[test]
fn an_idle_client_is_closed_after_its_time() {
    let door = Door::open("--timeout 1");
    let mut client = door.client();
    assert_eq!(client.ask("PING"), "+PONG");
    let began = Instant::now();
    assert!(client.is_closed());
    assert!(began.elapsed() > Duration::from_millis(900) && began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_password_is_asked_for_and_strangers_may_not_send_much() {
    let door = Door::open("--requirepass secret");
    let mut client = door.client();
    assert_eq!(client.ask("GET key"), "-NOAUTH Authentication required.");
    assert!(client.ask("AUTH wrong").starts_with("-WRONGPASS"));
    // What follows AUTH in the same packet is read with the rights that it gave.
    let mut bytes = Vec::new();
    command(&["AUTH", "secret"], &mut bytes);
    command(&["SET", "key", &"x".repeat(20_000)], &mut bytes);
    client.write(&bytes);
    assert_eq!((client.reply(), client.reply()), ("+OK".into(), "+OK".into()));
    let mut stranger = door.client();
    stranger.write(b"*1\r\n$20000\r\n");
    assert_eq!(stranger.reply(), "-ERR Protocol error: unauthenticated bulk length");
    assert!(stranger.is_closed());
}

#[test]
fn clients_of_all_threads_are_listed_and_can_be_killed() {
    let door = Door::open("--threads 3");
    let mut clients: Vec<_> = (0..6).map(|_| door.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("CLIENT SETNAME name{number}")), "+OK");
        assert_eq!(client.ask(&format!("SELECT {number}")), "+OK");
    }
    let list = clients[0].ask("CLIENT LIST");
    for number in 0..6 {
        let line = list
            .lines()
            .find(|line| line.contains(&format!(" name=name{number} ")))
            .expect("a line of each client");
        assert!(line.contains(&format!(" db={number} ")), "{line}");
        assert!(line.contains(if number == 0 { " cmd=client|list " } else { " cmd=select " }), "{line}");
    }
    let id = clients[5].ask("CLIENT ID").replace(':', "");
    assert_eq!(clients[0].ask(&format!("CLIENT KILL ID {id}")), ":1");
    assert!(clients[5].is_closed());
    assert_eq!(clients[0].ask("CLIENT LIST").lines().count(), 5);
    assert_eq!(clients[0].ask("CLIENT KILL TYPE normal"), ":4");
    assert!(clients[1].is_closed() && clients[4].is_closed());
    assert_eq!(clients[0].ask("PING"), "+PONG");
}

#[test]
fn clients_are_found_by_what_they_are_and_have() {
    let door = Door::open("--threads 2");
    let mut clients: Vec<_> = (0..3).map(|_| door.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("CLIENT SETNAME name{number}")), "+OK");
        assert_eq!(client.ask(&format!("SELECT {number}")), "+OK");
    }
    assert_eq!(clients[1].ask("CLIENT NO-EVICT on"), "+OK");
    assert_eq!(clients[1].ask("CLIENT CAPA redirect"), "+OK");
    assert_eq!(clients[2].ask("CLIENT SETINFO LIB-NAME mine"), "+OK");
    assert_eq!(clients[2].ask("CLIENT SETINFO LIB-VER 7"), "+OK");
    let one = clients[1].ask("CLIENT ID").replace(':', "");
    for (filter, found) in [
        ("NAME name1", "1"),
        ("NOT-NAME name1", "02"),
        ("NAME name0 NAME name1", "1"),
        ("NAME name0 NOT-NAME name1", "0"),
        ("FLAGS e", "1"),
        ("NOT-FLAGS e", "02"),
        ("FLAGS N", "02"),
        ("FLAGS eN", ""),
        ("LIB-NAME mine LIB-VER 7", "2"),
        ("NOT-LIB-NAME mine", "01"),
        ("NOT-LIB-VER 7", "01"),
        ("DB 2", "2"),
        ("NOT-DB 2", "01"),
        ("CAPA r", "1"),
        ("NOT-CAPA r", "02"),
        ("IP 127.0.0.1", "012"),
        ("NOT-IP 127.0.0.1", ""),
        ("NOT-ADDR 1.2.3.4:5 NOT-USER default", ""),
        ("TYPE normal NOT-TYPE pubsub SKIPME yes", "12"),
    ] {
        let list = clients[0].ask(&format!("CLIENT LIST {filter}"));
        // Ids of several threads follow no order.
        let mut names: Vec<char> =
            list.split(" name=name").skip(1).filter_map(|rest| rest.chars().next()).collect();
        names.sort_unstable();
        let names: String = names.into_iter().collect();
        assert_eq!(names, found, "{filter}: {list}");
    }
    let list = clients[0].ask(&format!("CLIENT LIST NOT-ID {one} NOT-ID 999999999"));
    assert!(list.contains("name=name0") && !list.contains("name=name1"), "{list}");
    assert_eq!(clients[0].ask("CLIENT KILL NOT-DB 1 NOT-NAME name9"), ":1");
    assert!(clients[2].is_closed());
    assert_eq!(clients[1].ask("PING"), "+PONG");
}

#[test]
fn a_killed_client_executes_nothing_more() {
    let door = Door::open("");
    let mut client = door.client();
    let id = client.ask("CLIENT ID").replace(':', "");
    client.write(format!("CLIENT KILL ID {id} SKIPME no\r\nSET key value\r\n").as_bytes());
    while client.value().is_some() {}
    assert_eq!(door.client().ask("GET key"), "_");
}

#[test]
fn a_pause_of_writers_makes_them_wait_and_readers_not() {
    let door = Door::open("--threads 2");
    let (mut writer, mut reader) = (door.client(), door.client());
    assert_eq!(reader.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    writer.write(b"GET key\r\nSET key value\r\nGET key\r\n");
    assert_eq!(writer.reply(), "_");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(reader.ask("GET key"), "_");
    assert_eq!(reader.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!((writer.reply(), writer.reply()), ("+OK".into(), "$value".into()));
}

#[test]
fn a_pause_holds_what_its_own_client_has_sent_behind_it() {
    let door = Door::open("");
    let (mut one, mut other) = (door.client(), door.client());
    one.write(b"CLIENT PAUSE 60000 WRITE\r\nGET key\r\nSET key value\r\nGET key\r\n");
    assert_eq!((one.reply(), one.reply()), ("+OK".into(), "_".into()));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(other.ask("GET key"), "_");
    assert_eq!(other.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!((one.reply(), one.reply()), ("+OK".into(), "$value".into()));
}

#[test]
fn a_waiting_client_and_a_watching_client_are_told() {
    let door = Door::open("--threads 2");
    let (mut writer, mut watcher, mut other) = (door.client(), door.client(), door.client());
    assert_eq!(watcher.ask("WATCH one two"), "+OK");
    let clients = other.ask("INFO clients");
    for line in ["blocked_clients:0\r", "watching_clients:1\r", "total_watched_keys:2\r"] {
        assert!(clients.contains(line), "{line} in {clients}");
    }
    assert_eq!(other.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    writer.write(b"SET key value\r\n");
    let began = Instant::now();
    while !other.ask("INFO clients").contains("blocked_clients:1\r") {
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    assert!(other.ask("CLIENT LIST").contains(" flags=b "));
    assert_eq!(
        (other.ask("CLIENT UNPAUSE"), writer.reply(), watcher.ask("UNWATCH")),
        ("+OK".into(), "+OK".into(), "+OK".into())
    );
    let clients = other.ask("INFO clients");
    for line in ["blocked_clients:0\r", "watching_clients:0\r", "total_watched_keys:0\r"] {
        assert!(clients.contains(line), "{line} in {clients}");
    }
}

#[test]
fn a_pause_of_all_ends_by_itself() {
    let door = Door::open("");
    let (mut one, mut two) = (door.client(), door.client());
    assert_eq!(one.ask("CLIENT PAUSE 200"), "+OK");
    let began = Instant::now();
    assert_eq!(two.ask("PING"), "+PONG");
    assert!(began.elapsed() > Duration::from_millis(150) && began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_half_closed_connection_gets_its_replies_when_the_pause_ends() {
    let door = Door::open("--threads 1");
    let (mut writer, mut other) = (door.client(), door.client());
    assert_eq!(other.ask("CLIENT PAUSE 60000 WRITE"), "+OK");
    writer.write(b"SET key value\r\nGET key\r\nSET half");
    writer.stream.shutdown(Shutdown::Write).expect("an open connection");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(other.ask("CLIENT UNPAUSE"), "+OK");
    assert_eq!((writer.reply(), writer.reply()), ("+OK".into(), "$value".into()));
    assert!(writer.is_closed());
}

#[test]
fn a_half_closed_connection_gets_all_replies_however_large_they_are() {
    let door = Door::open("");
    let mut client = door.client();
    assert_eq!(client.ask_words(&[&b"SET"[..], b"key", &vec![b'x'; 8 << 20]]), "+OK");
    client.write(b"GET key\r\nGET key\r\nPING\r\n");
    client.stream.shutdown(Shutdown::Write).expect("an open connection");
    // Until the socket has taken all that it can.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        (client.reply().len(), client.reply().len(), client.reply()),
        (1 + (8 << 20), 1 + (8 << 20), "+PONG".into())
    );
    assert!(client.is_closed());
}

#[test]
fn replies_can_be_turned_off() {
    let door = Door::open("");
    let mut client = door.client();
    client.write(
        b"CLIENT REPLY OFF\r\nSET key value\r\nCLIENT REPLY ON\r\nCLIENT REPLY SKIP\r\nGET key\r\nPING\r\n",
    );
    assert_eq!((client.reply(), client.reply()), ("+OK".into(), "+PONG".into()));
}

#[test]
fn quit_answers_and_closes_and_drops_what_follows() {
    let door = Door::open("");
    let mut client = door.client();
    client.write(b"QUIT\r\nSET key value\r\n");
    assert_eq!(client.reply(), "+OK");
    assert!(client.is_closed());
    assert_eq!(door.client().ask("GET key"), "_");
}

#[test]
fn a_heavy_pipeline_does_not_starve_others() {
    let door = Door::open("");
    let heavy = door.client();
    let mut requests = heavy.stream.try_clone().expect("a second handle");
    let writer = std::thread::spawn(move || {
        let part = b"GET key\r\n".repeat(1000);
        // It ends when the other side is closed.
        while requests.write_all(&part).is_ok() {}
    });
    let mut reader = heavy.stream.try_clone().expect("a third handle");
    let drain = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let mut light = door.client();
    // Starved clients would wait for a whole pipeline, each time.
    for _ in 0..50 {
        until_quick("a PING beside a pipeline", Duration::from_millis(500), || {
            assert_eq!(light.ask("PING"), "+PONG");
        });
    }
    heavy.stream.shutdown(std::net::Shutdown::Both).expect("an open connection");
    writer.join().expect("the writer");
    assert!(drain.join().is_ok());
}

#[test]
fn what_no_setting_allows_is_cut_off() {
    let door = Door::open("--client-query-buffer-limit 1mb");
    let mut client = door.client();
    let _ = client
        .stream
        .write_all(&[b"*2\r\n$3\r\nGET\r\n$100000000\r\n".as_slice(), &vec![b'x'; 3 << 20]].concat());
    assert!(client.is_closed());
}

#[test]
fn checksums_are_passed_over_when_asked_for() {
    let door = Door::open("--enable-debug-command yes");
    let mut client = door.client();
    let wrong: [&[u8]; 4] = [b"RESTORE", b"key", b"0", b"\x00\x05hello\x0a\x00cr\xdfve4!!"];
    assert_eq!(client.ask_words(&wrong), "-ERR DUMP payload version or checksum are wrong");
    assert_eq!(client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1"), "+OK");
    assert_eq!(client.ask_words(&wrong), "+OK");
    assert_eq!(client.ask("GET key"), "$hello");
    assert_eq!(client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 0"), "+OK");
}
