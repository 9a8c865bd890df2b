//! Ports of loopback for the servers of tests.
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Socket, Type};

/// The ports that are handed out: below those that the kernel gives to clients, so that no client's own end takes one first.
const PORTS: std::ops::Range<u16> = 10_240..32_000;

/// Returns a port on which no process listens, and that no other test gets as long as this process lives.
/// Otherwise two tests that found the same port would get each other's clients.
///
/// # Errors
/// When there is none.
pub fn free_port() -> io::Result<u16> {
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("polder-test-ports");
    std::fs::create_dir_all(&folder)?;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let first = std::process::id() as usize * 61 + taken.len();
    for number in 0..PORTS.len() {
        let port = PORTS.start + ((first + number) % PORTS.len()) as u16;
        let claim = File::create(folder.join(port.to_string()))?;
        if claim.try_lock().is_ok() && is_free(port)? {
            taken.push(claim);
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free"))
}

/// Whether a server may listen on a port. It is bound, but never listened on. A child that another
/// thread forks at this moment has this socket open until it execs its program, and a test that
/// waits for its server would find that socket listening.
fn is_free(port: u16) -> io::Result<bool> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // As servers do: two that say this may be bound to one port as long as neither listens.
    socket.set_reuse_address(true)?;
    Ok(socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into()).is_ok())
}
