//! CONFIG SET of port and addresses: clients come in elsewhere from then on.
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::door::{Client, Door, PATIENCE};
use polder_testkit::process::free_port;

fn client_at(address: SocketAddr) -> Option<Client<TcpStream>> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    Some(Client::new(stream))
}

#[test]
fn a_server_moves_to_another_port() {
    let mut door = Door::open("--threads 2");
    let mut first = door.client();
    let old = door.address;
    let port = free_port().expect("a free port");
    let new = SocketAddr::new(old.ip(), port);
    assert_eq!(first.ask(&format!("CONFIG SET port {port} timeout 77")), "+OK");
    assert_eq!(first.ask("CONFIG GET port"), format!("*[$port ${port}]"));
    // On either thread, and as often as it takes to reach both.
    for _ in 0..8 {
        assert_eq!(client_at(new).expect("the new port is open").ask("PING"), "+PONG");
    }
    let began = Instant::now();
    while client_at(old).is_some_and(|mut client| client.try_ask("PING").is_some()) {
        assert!(began.elapsed() < Duration::from_secs(10), "the old port is still open");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(first.ask("PING"), "+PONG", "who was there stays");
    door.address = new;
    door.close();
    assert!(client_at(new).is_none());
}

#[test]
fn where_it_cannot_listen_all_is_as_before() {
    let door = Door::open("");
    let mut client = door.client();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = taken.local_addr().expect("an address").port();
    let refused = |setting: &str, why: &str| {
        format!("-ERR CONFIG SET failed (possibly related to argument '{setting}') - {why}")
    };
    let before = client.ask("CONFIG GET timeout port bind");
    let no_port = refused("port", "Unable to listen on this port. Check server logs.");
    assert_eq!(client.ask(&format!("CONFIG SET timeout 9 port {port}")), no_port);
    assert_eq!(
        client.ask("CONFIG SET timeout 9 bind 192.0.2.1"),
        refused("bind", "Failed to bind to specified addresses.")
    );
    assert_eq!(client.ask("CONFIG GET timeout port bind"), before);
    assert_eq!(door.client().ask("PING"), "+PONG");
    // All addresses are in the way of one, and one is in that of all.
    assert_eq!(client.ask("CONFIG SET bind 0.0.0.0"), "+OK");
    assert_eq!(door.client().ask("PING"), "+PONG");
    assert_eq!(client.ask("CONFIG SET bind 127.0.0.1"), "+OK");
    assert_eq!(door.client().ask("PING"), "+PONG");
    assert_eq!(client.ask("CONFIG SET bind "), "+OK");
    assert!(client_at(door.address).is_none_or(|mut other| other.try_ask("PING").is_none()));
    assert_eq!(client.ask("CONFIG SET bind 127.0.0.1"), "+OK");
    assert_eq!(door.client().ask("PING"), "+PONG");
}

#[test]
fn two_clients_that_change_port_and_bind_at_once_leave_listeners_and_settings_that_agree() {
    let door = Door::open("--threads 2");
    let ports = [door.address.port(), free_port().expect("a free port")];
    let binds = ["127.0.0.1", "127.0.0.1 127.0.0.2"];
    let (mut first, mut second) = (door.client(), door.client());
    for round in 0..60 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(first.ask(&format!("CONFIG SET port {}", ports[(round + 1) % 2])), "+OK")
            });
            scope.spawn(|| {
                assert_eq!(second.ask_words(&["CONFIG", "SET", "bind", binds[round / 2 % 2]]), "+OK")
            });
        });
        let said = first.ask("CONFIG GET port bind");
        let (port, other) =
            if said.contains(&ports[0].to_string()) { (ports[0], ports[1]) } else { (ports[1], ports[0]) };
        let two = said.contains("127.0.0.2");
        let open = |host: [u8; 4], port: u16| {
            client_at(SocketAddr::from((host, port)))
                .is_some_and(|mut client| client.try_ask("PING").is_some())
        };
        assert!(open([127, 0, 0, 1], port), "round {round}: {said}");
        assert_eq!(open([127, 0, 0, 2], port), two, "round {round}: {said}");
        assert!(!open([127, 0, 0, 1], other) && !open([127, 0, 0, 2], other), "round {round}: {said}");
    }
}

#[test]
fn a_client_that_waits_at_a_closing_listener_is_accepted() {
    const COUNT: usize = 40;
    let door = Door::open("--threads 1 --enable-debug-command yes");
    let mut actor = door.client();
    for _ in 0..3 {
        let old = actor.ask("CONFIG GET port");
        let port =
            old.rsplit('$').next().and_then(|text| text.trim_end_matches(']').parse().ok()).expect("a port");
        let new = free_port().expect("a free port");
        actor.write(format!("DEBUG SLEEP 0.3\r\nCONFIG SET port {new}\r\n").as_bytes());
        std::thread::sleep(Duration::from_millis(50));
        let mut waiting: Vec<_> = (0..COUNT)
            .map(|_| client_at(SocketAddr::from(([127, 0, 0, 1], port))).expect("a place in the queue"))
            .collect();
        assert_eq!((actor.reply(), actor.reply()), ("+OK".into(), "+OK".into()));
        waiting.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG"));
    }
}

#[test]
fn a_move_that_fails_changes_nothing_for_clients() {
    let door = Door::open("--share-port no --threads 2");
    let port = door.address.port();
    let mut actor = door.client();
    // In the way of all addresses, but not of ours.
    let _taken = TcpListener::bind(("127.0.0.2", port)).expect("a listener");
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..100 {
                let refused = actor.ask("CONFIG SET bind 0.0.0.0");
                assert!(refused.starts_with("-ERR CONFIG SET failed"), "{refused}");
            }
            ended.store(true, Ordering::Release);
        });
        while !ended.load(Ordering::Acquire) {
            assert_eq!(client_at(door.address).expect("the door is open").ask("PING"), "+PONG");
        }
    });
    // It has the port for itself as before.
    assert!(TcpListener::bind(door.address).is_err());
    assert_eq!(actor.ask("CONFIG SET bind 127.0.0.1"), "+OK");
}

#[test]
fn a_server_that_stops_while_it_moves_stops_and_leaves_no_client_behind() {
    for round in 0..12 {
        let mut door = Door::open("--threads 2");
        let ports = [door.address.port(), free_port().expect("a free port")];
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (mut movers, mut stopper) = ([door.client(), door.client()], door.client());
        let (begun, ending, ended) = (Instant::now(), &AtomicBool::new(false), &AtomicBool::new(false));
        let served = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            for (number, mover) in movers.iter_mut().enumerate() {
                scope.spawn(move || {
                    let mut steps = number..;
                    while let Some(answer) =
                        mover.try_ask(&format!("CONFIG SET port {}", ports[steps.next().unwrap_or(0) % 2]))
                    {
                        // Who ends does not move.
                        let may_refuse =
                            ending.load(Ordering::Acquire) && answer.starts_with("-ERR CONFIG SET failed");
                        assert!(answer == "+OK" || may_refuse, "round {round}: {answer}");
                    }
                });
            }
            for port in ports {
                scope.spawn(move || {
                    while !ended.load(Ordering::Acquire) {
                        // A connection that is accepted gets a reply, or is closed at once.
                        match client_at(at(port)).and_then(|mut client| client.try_ask("PING")) {
                            Some(answer) => assert_eq!(answer, "+PONG"),
                            None => std::thread::yield_now(),
                        }
                        served.fetch_add(1, Ordering::Release);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20 + 7 * round));
            while served.load(Ordering::Acquire) == 0 && begun.elapsed() < PATIENCE {
                std::thread::yield_now();
            }
            ending.store(true, Ordering::Release);
            if round % 2 == 0 {
                door.close();
            } else {
                stopper.write(b"SHUTDOWN NOSAVE\r\n");
                assert!(door.server.take().expect("an open door").wait());
            }
            ended.store(true, Ordering::Release);
        });
        assert_ne!(served.load(Ordering::Relaxed), 0, "round {round}");
        assert!(begun.elapsed() < PATIENCE, "round {round}: {:?}", begun.elapsed());
        ports.iter().for_each(|port| {
            assert!(TcpListener::bind(at(*port)).is_ok(), "round {round}: {port} is still open")
        });
    }
}
