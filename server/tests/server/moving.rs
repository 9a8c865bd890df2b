//! CONFIG SET of port and addresses: clients come in elsewhere from then on.
use std::net::{SocketAddr, TcpListener, TcpStream};
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
    let refused = |setting: &str, why: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{setting}') - {why}");
    let before = client.ask("CONFIG GET timeout port bind");
    let no_port = refused("port", "Unable to listen on this port. Check server logs.");
    assert_eq!(client.ask(&format!("CONFIG SET timeout 9 port {port}")), no_port);
    assert_eq!(client.ask("CONFIG SET timeout 9 bind 192.0.2.1"), refused("bind", "Failed to bind to specified addresses."));
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
