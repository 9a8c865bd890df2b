//! The connections of one side: two with the text protocol, one with the binary protocol, and one over UDP.
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

use polder_testbase::PATIENCE;

use super::parse::body_bytes;
use super::{Way, packet};

/// The request and the reply that end a step of the text protocol.
const MARK: &[u8] = b"mn\r\n";
const MARKED: &[u8] = b"MN\r\n";
/// The opcode that ends a step of the binary protocol.
const NOOP: u8 = 0x0a;
/// The header of a datagram: number, place and count of datagrams, and nothing; 16 bits each.
const DATAGRAM_HEADER_BYTES: usize = 8;

/// The connections of one side.
pub struct Connections {
    text: [TcpStream; 2],
    binary: TcpStream,
    udp: UdpSocket,
    /// Numbers of datagrams.
    next: u16,
}

impl Connections {
    /// Connects to a server on this host.
    ///
    /// # Errors
    /// Errors of the sockets.
    pub fn open(port: u16, udp_port: u16) -> std::io::Result<Connections> {
        let tcp = || -> std::io::Result<TcpStream> {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let udp = UdpSocket::bind(("127.0.0.1", 0))?;
        udp.set_read_timeout(Some(PATIENCE))?;
        udp.connect(("127.0.0.1", udp_port))?;
        Ok(Connections { text: [tcp()?, tcp()?], binary: tcp()?, udp, next: 0 })
    }

    /// Sends all requests, and returns the reply to each.
    ///
    /// # Errors
    /// A text when a connection fails or a reply does not come.
    pub fn round(&mut self, requests: &[(Way, Vec<u8>)]) -> Result<Vec<Vec<u8>>, String> {
        let mut replies = vec![Vec::new(); requests.len()];
        for (way, places) in [Way::Text(0), Way::Text(1), Way::Binary, Way::Udp].map(|way| {
            let places: Vec<usize> = (0..requests.len()).filter(|at| requests[*at].0 == way).collect();
            (way, places)
        }) {
            if places.is_empty() {
                continue;
            }
            let asked: Vec<&[u8]> = places.iter().map(|at| &requests[*at].1[..]).collect();
            let said = match way {
                Way::Text(which) => text(&mut self.text[which], &asked),
                Way::Binary => binary(&mut self.binary, &asked),
                Way::Udp => self.datagrams(&asked),
            };
            let said = said.map_err(|error| format!("{way:?}: {error}"))?;
            for (at, reply) in places.into_iter().zip(said) {
                replies[at] = reply;
            }
        }
        Ok(replies)
    }

    fn datagrams(&mut self, requests: &[&[u8]]) -> std::io::Result<Vec<Vec<u8>>> {
        let mut replies = Vec::new();
        let mut room = vec![0; 1 << 16];
        for request in requests {
            self.next = self.next.wrapping_add(1);
            let number = self.next.to_be_bytes();
            self.udp.send(&[&number[..], &[0, 0, 0, 1, 0, 0], request].concat())?;
            let (mut parts, mut missing) = (Vec::new(), 1);
            while missing > 0 {
                let count = self.udp.recv(&mut room)?;
                let (header, rest) = room[..count].split_at(DATAGRAM_HEADER_BYTES.min(count));
                if !header.starts_with(&number) {
                    continue;
                }
                parts.push((header[2..4].to_vec(), rest.to_vec()));
                missing = usize::from(u16::from_be_bytes([header[4], header[5]])).saturating_sub(parts.len());
            }
            parts.sort();
            replies.push(parts.into_iter().flat_map(|(_, part)| part).collect());
        }
        Ok(replies)
    }
}

/// Reads more bytes behind `said`.
fn read_more(stream: &mut TcpStream, said: &mut Vec<u8>) -> std::io::Result<()> {
    let mut room = [0; 1 << 16];
    let count = stream.read(&mut room)?;
    if count == 0 {
        let text = format!("the server ends the connection after {}", super::short(said));
        return Err(std::io::Error::other(text));
    }
    said.extend_from_slice(&room[..count]);
    Ok(())
}

fn text(stream: &mut TcpStream, requests: &[&[u8]]) -> std::io::Result<Vec<Vec<u8>>> {
    stream.write_all(&requests.iter().flat_map(|request| [*request, MARK].concat()).collect::<Vec<u8>>())?;
    let (mut said, mut replies, mut searched) = (Vec::new(), Vec::new(), 0);
    while replies.len() < requests.len() {
        match memchr::memmem::find(&said[searched..], MARKED) {
            Some(at) => {
                replies.push(said[searched..searched + at].to_vec());
                searched += at + MARKED.len();
            }
            None => read_more(stream, &mut said)?,
        }
    }
    Ok(replies)
}

fn binary(stream: &mut TcpStream, requests: &[&[u8]]) -> std::io::Result<Vec<Vec<u8>>> {
    let mark = packet(NOOP, b"", b"", b"", 0);
    stream.write_all(&requests.iter().flat_map(|request| [*request, &mark].concat()).collect::<Vec<u8>>())?;
    let (mut said, mut replies) = (Vec::new(), Vec::new());
    // The reply that is read, and where its next packet begins.
    let (mut from, mut at) = (0, 0);
    while replies.len() < requests.len() {
        let Some(header) = said.get(at..).and_then(|rest: &[u8]| rest.first_chunk::<24>()) else {
            read_more(stream, &mut said)?;
            continue;
        };
        let is_mark = header[1] == NOOP;
        at += 24 + body_bytes(header);
        while said.len() < at {
            read_more(stream, &mut said)?;
        }
        if is_mark {
            replies.push(said[from..at - 24].to_vec());
            from = at;
        }
    }
    Ok(replies)
}
