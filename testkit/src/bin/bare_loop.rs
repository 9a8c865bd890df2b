//! The least that a server can do: `bare_loop PORT` replies `+OK` to whatever comes, one reply a
//! read.
//!
//! What a server costs above this is its own work; the rest is the kernel's. It understands nothing, so it measures
//! unpipelined requests only.
use std::collections::HashMap;
use std::io::{self, Read, Write};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(0);

fn main() -> io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut listener = TcpListener::bind(([127, 0, 0, 1], port).into())?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut connections: HashMap<Token, TcpStream> = HashMap::new();
    let mut events = Events::with_capacity(1024);
    let mut buffer = vec![0; 16 << 10];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections)?;
            } else if let Some(connection) = connections.get_mut(&event.token())
                && !answer(connection, &mut buffer)
            {
                connections.remove(&event.token());
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    connections: &mut HashMap<Token, TcpStream>,
) -> io::Result<()> {
    while let Ok((mut connection, _)) = listener.accept() {
        connection.set_nodelay(true)?;
        let token = (1..).map(Token).find(|token| !connections.contains_key(token)).unwrap_or(LISTENER);
        poll.registry().register(&mut connection, token, Interest::READABLE)?;
        connections.insert(token, connection);
    }
    Ok(())
}

/// Replies to all that is there; false when the connection is over.
fn answer(connection: &mut TcpStream, buffer: &mut [u8]) -> bool {
    loop {
        match connection.read(buffer) {
            Ok(0) => return false,
            Ok(_) => {
                if connection.write_all(b"+OK\r\n").is_err() {
                    return false;
                }
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
