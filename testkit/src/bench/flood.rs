//! One subscriber that reads all the time, under a flood: two publishers send as fast as the server takes it.
//!
//! A server whose subscriber cannot keep up has three ways: it slows the publishers, it keeps what the subscriber has not read (and disconnects
//! it at `client-output-buffer-limit pubsub`), or it drops messages. The figures tell which: sent, received, lost, disconnected.
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::network::rivals;
use super::{Figures, Scale, spread};
use crate::process::Server;
use crate::resp::{Connection, framed};

const PUBLISHERS: usize = 2;
/// Messages that a publisher sends before it waits for the replies.
const BATCH: u64 = 128;
const CHANNEL: &str = "flood";
const PAYLOAD: &str = "0123456789abcdef";
/// How long the flood lasts at full size.
const SECONDS: f64 = 5.0;
/// So long after the flood nothing more is expected when nothing came.
const QUIET: Duration = Duration::from_millis(1500);

/// What came of one flood.
struct Outcome {
    sent: u64,
    received: u64,
    disconnected: bool,
    seconds: f64,
}

/// Floods each server and says what its subscriber received.
///
/// # Errors
/// When a server cannot be started, or a publisher is refused.
pub fn flood(scale: &Scale) -> Result<Figures, String> {
    let mut figures = Figures::new();
    let seconds = (SECONDS / scale.divisor as f64).max(0.2);
    for rival in rivals(scale)? {
        let mut outcomes = Vec::new();
        for _ in 0..scale.rounds {
            let server = (rival.start)().map_err(|error| format!("{}: {error}", rival.name))?;
            outcomes.push(run(&server, seconds).map_err(|error| format!("{}: {error}", rival.name))?);
        }
        let mut add = |what: &str, of: fn(&Outcome) -> f64| {
            figures.extend(spread(&format!("{} {what}", rival.name), outcomes.iter().map(of).collect()));
        };
        add("sent a second", |outcome| outcome.sent as f64 / outcome.seconds);
        add("received a second", |outcome| outcome.received as f64 / outcome.seconds);
        add("lost %", |outcome| {
            (outcome.sent.saturating_sub(outcome.received)) as f64 / outcome.sent.max(1) as f64 * 100.0
        });
        add("disconnected", |outcome| f64::from(u8::from(outcome.disconnected)));
    }
    Ok(figures)
}

fn run(server: &Server, seconds: f64) -> std::io::Result<Outcome> {
    let subscribed = framed(&["subscribe", CHANNEL]).len() + ":1\r\n".len();
    let mut subscriber = TcpStream::connect(server.address())?;
    subscriber.write_all(&framed(&["SUBSCRIBE", CHANNEL]))?;
    subscriber.read_exact(&mut vec![0; subscribed])?;
    subscriber.set_read_timeout(Some(QUIET))?;
    let (over, until) = (AtomicBool::new(false), Instant::now() + Duration::from_secs_f64(seconds));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let publishers: Vec<_> = (0..PUBLISHERS).map(|_| scope.spawn(|| publish(server, until))).collect();
        let reader = scope.spawn(|| receive(&mut subscriber, &over));
        let sent = publishers.into_iter().map(|publisher| publisher.join().expect("a publisher ends"));
        let sent = sent.sum::<std::io::Result<u64>>();
        let seconds = began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let (bytes, disconnected) = reader.join().expect("the subscriber ends")?;
        let message = framed(&["message", CHANNEL, PAYLOAD]).len() as u64;
        Ok(Outcome { sent: sent?, received: bytes / message, disconnected, seconds })
    })
}

/// Publishes until the flood is over: how many messages.
fn publish(server: &Server, until: Instant) -> std::io::Result<u64> {
    let mut connection = Connection::open(&server.address())?;
    let requests = framed(&["PUBLISH", CHANNEL, PAYLOAD]).repeat(BATCH as usize);
    let mut sent = 0;
    while Instant::now() < until {
        connection.send_framed(&requests)?;
        (0..BATCH).try_for_each(|_| connection.receive().map(drop))?;
        sent += BATCH;
    }
    Ok(sent)
}

/// Reads until the flood is over and nothing comes any more: the bytes of the messages, and whether the server has hung up.
fn receive(subscriber: &mut TcpStream, over: &AtomicBool) -> std::io::Result<(u64, bool)> {
    let (mut bytes, mut buffer) = (0, vec![0; 256 << 10]);
    loop {
        match subscriber.read(&mut buffer) {
            Ok(0) => return Ok((bytes, true)),
            Ok(count) => bytes += count as u64,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if over.load(Ordering::Relaxed) {
                    return Ok((bytes, false));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                return Ok((bytes, true));
            }
            Err(error) => return Err(error),
        }
    }
}
