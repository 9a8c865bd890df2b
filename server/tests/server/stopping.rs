//! Starting where another server is, and stopping under load: no client loses a reply.
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::door::{Client, Door, Place, settings};
use polder_persist::persistence::load::Loaded;
use polder_server::Server;
use polder_testkit::process::free_port;
use polder_wire::resp::command;

#[test]
fn a_graceful_stop_answers_everything_that_was_sent() {
    let mut door = Door::open("--threads 2");
    let mut clients: Vec<_> = (0..20).map(|_| door.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.ask("PING"), "+PONG");
        let mut bytes = Vec::new();
        for step in 0..500 {
            command(&["SET", &format!("key:{number}:{step}"), "value"], &mut bytes);
        }
        client.write(&bytes);
    }
    door.close();
    for client in &mut clients {
        for _ in 0..500 {
            assert_eq!(client.reply(), "+OK");
        }
        assert!(client.is_closed());
    }
}

#[test]
fn shutdown_stops_the_server_without_an_answer() {
    let mut door = Door::open("");
    let told = Arc::new(AtomicUsize::new(0));
    let server = door.server.take().expect("a server");
    let count = told.clone();
    server.tell_on_stop(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let mut client = door.client();
    client.write(b"SHUTDOWN NOSAVE\r\n");
    assert!(client.is_closed());
    assert!(server.wait());
    assert_eq!(told.load(Ordering::SeqCst), 1);
}

#[test]
fn a_port_in_use_is_one_clear_line() {
    let door = Door::open("");
    let taken = settings(&format!("--bind 127.0.0.1 --port {}", door.address.port()));
    let failure = Server::start(Place::new().memory.clone(), taken, Loaded::default())
        .err()
        .expect("a refusal")
        .to_string();
    assert!(failure.starts_with(&format!("cannot listen on {}: ", door.address)), "{failure}");
    assert!(failure.contains("choose another --port") && !failure.contains('\n'), "{failure}");
}

#[test]
fn nowhere_to_listen_is_refused() {
    let failure = Server::start(Place::new().memory.clone(), settings("--port 0"), Loaded::default())
        .err()
        .expect("a refusal")
        .to_string();
    assert!(failure.contains("nothing to listen on"), "{failure}");
    let failure = Server::start(
        Place::new().memory.clone(),
        settings("--bind 192.0.2.1 --port 7777"),
        Loaded::default(),
    )
    .err()
    .expect("a refusal")
    .to_string();
    assert!(failure.contains("no such address"), "{failure}");
}

#[test]
fn a_new_server_takes_the_place_of_an_old_one_and_no_client_notices() {
    let port = free_port().expect("a port");
    let place = Place::new();
    let mut old = Door::on(place.clone(), port, "--share-port yes");
    assert_eq!(old.client().ask("SET key value"), "+OK");
    let new = Door::on(place, port, "--share-port yes");
    let address = new.address;
    let load = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(1);
        let (mut calls, mut resets) = (0, 0);
        // Each connection asks once; a server that stops replies before it closes.
        while Instant::now() < until {
            calls += 1;
            let stream = match std::net::TcpStream::connect(address) {
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    resets += 1;
                    continue;
                }
                connected => connected.expect("a server listens"),
            };
            let mut client = Client::new(stream);
            client.stream.set_nodelay(true).expect("no delay");
            match client.try_ask("GET key") {
                Some(reply) => assert_eq!(reply, "$value"),
                None => resets += 1,
            }
        }
        (calls, resets)
    });
    std::thread::sleep(Duration::from_millis(300));
    old.close();
    let (calls, resets) = load.join().expect("the load");
    // The kernel resets a connection whose handshake falls into the microsecond in which the old listener closes: the
    // client learns it from its `connect` or, if that has returned, from its first call.
    assert!(calls > 100 && resets <= 1, "{resets} of {calls}");
}
