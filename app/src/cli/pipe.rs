//! `--pipe`: mass insertion. Requests from standard input go out as fast as they are taken; replies are only counted.
//!
//! ```text
//!   stdin -> this thread -> socket -> server -> socket -> second thread: counts, prints errors
//!                            ... ECHO <20 random bytes> ->  ... the same bytes: everything before has been answered
//! ```
//! On a segment there is one thread and nothing to wait for. The summary is redis-cli's.
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use polder_wire::resp::Value;

use super::client::Client;
use crate::link::Link;
use crate::text::reason;

const CHUNK_BYTES: usize = 64 << 10;

/// What came back.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Tally {
    replies: u64,
    errors: u64,
}

/// What the reading thread tells.
enum News {
    /// How many replies came since the last news.
    Progress(u64),
    End(Result<Tally, String>),
}

/// Sends everything and prints the summary. The exit status is 1 when there was an error.
pub fn run(mut client: Client, timeout_seconds: u64) -> ExitCode {
    let transferred = transfer(&mut client, timeout_seconds);
    match transferred {
        Ok(tally) => {
            println!("errors: {}, replies: {}", tally.errors, tally.replies);
            ExitCode::from(u8::from(tally.errors > 0))
        }
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn transfer(client: &mut Client, timeout_seconds: u64) -> Result<Tally, String> {
    let link = client.connected()?;
    let bar = progress_bar();
    let magic = magic();
    let tally = match link.reader().map_err(|error| reason(&error))? {
        Some(reader) => over_socket(link, reader, &magic, timeout_seconds, &bar),
        None => on_segment(link, &bar),
    };
    bar.finish_and_clear();
    tally
}

/// Shown only when a person looks.
fn progress_bar() -> ProgressBar {
    if !io::stderr().is_terminal() || io::stdin().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.set_style(
        ProgressStyle::with_template("{spinner} {bytes} sent, {bytes_per_sec}, {msg} replies, {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn over_socket(
    link: &mut Link,
    reader: Link,
    magic: &[u8],
    timeout_seconds: u64,
    bar: &ProgressBar,
) -> Result<Tally, String> {
    let (news, inbox) = channel();
    let expected = magic.to_vec();
    let thread = std::thread::spawn(move || {
        let tally = count(reader, &expected, |replies| news.send(News::Progress(replies)).is_ok());
        // If the receiver is gone, the other side has given up waiting.
        let _ = news.send(News::End(tally));
    });
    let sent = send(link, magic, bar);
    if sent.is_ok() {
        println!("All data transferred. Waiting for the last reply...");
    }
    let tally = match sent {
        Ok(()) => await_end(&inbox, timeout_seconds, bar),
        // Replies that explain why the server hung up come first.
        Err(text) => await_end(&inbox, 1, bar).and(Err(text)),
    };
    link.close();
    // A panic there has printed itself already.
    let _ = thread.join();
    if tally.is_ok() {
        println!("Last reply received from server.");
    }
    tally
}

/// Copies standard input to the connection, and then asks for the mark of the end.
fn send(link: &mut Link, magic: &[u8], bar: &ProgressBar) -> Result<(), String> {
    let wrap = |error: io::Error| format!("Error writing to the server: {}", reason(&error));
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match io::stdin().lock().read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("Error reading from stdin: {}", reason(&error))),
        };
        link.write(&chunk[..count]).map_err(wrap)?;
        bar.inc(count as u64);
    }
    // An empty line is nothing to a server, but it ends a last line that had no end of its own and would swallow the mark.
    link.write(b"\r\n").map_err(wrap)?;
    link.send(&[b"ECHO".as_slice(), magic]).map_err(wrap)
}

/// Counts replies until the mark comes back.
fn count(mut reader: Link, magic: &[u8], mut progress: impl FnMut(u64) -> bool) -> Result<Tally, String> {
    let mut tally = Tally::default();
    loop {
        match reader.receive() {
            Ok(Value::Bulk(bytes)) if bytes == magic => return Ok(tally),
            Ok(value) => tally.add(&value),
            Err(error) => return Err(format!("Error reading from the server: {}", reason(&error))),
        }
        if tally.replies % 1024 == 0 && !progress(1024) {
            return Ok(tally);
        }
    }
}

impl Tally {
    fn add(&mut self, value: &Value) {
        self.replies += 1;
        if let Value::Error(text) = value {
            self.errors += 1;
            eprintln!("{}", String::from_utf8_lossy(text));
        }
    }
}

/// Waits until the reader is done; replies that keep coming keep us waiting.
fn await_end(inbox: &Receiver<News>, timeout_seconds: u64, bar: &ProgressBar) -> Result<Tally, String> {
    let patience = if timeout_seconds == 0 { Duration::MAX } else { Duration::from_secs(timeout_seconds) };
    let mut replies = 0;
    loop {
        match inbox.recv_timeout(patience) {
            Ok(News::Progress(more)) => {
                replies += more;
                bar.set_message(replies.to_string());
            }
            Ok(News::End(tally)) => return tally,
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("No replies for {timeout_seconds} seconds: exiting."));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("Error reading from the server".into()),
        }
    }
}

/// Runs everything in this process; replies are there as soon as a request is read.
fn on_segment(link: &mut Link, bar: &ProgressBar) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = match io::stdin().lock().read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("Error reading from stdin: {}", reason(&error))),
        };
        link.write(&chunk[..count]).map_err(|error| reason(&error))?;
        take_all(link, &mut tally)?;
        bar.inc(count as u64);
        bar.set_message(tally.replies.to_string());
    }
    link.write(b"\r\n").map_err(|error| reason(&error))?;
    take_all(link, &mut tally)?;
    if link.is_waiting_for_more() {
        return Err("The last request is not whole: it was not executed".into());
    }
    println!("All data transferred. Waiting for the last reply...");
    println!("Last reply received from server.");
    Ok(tally)
}

fn take_all(link: &mut Link, tally: &mut Tally) -> Result<(), String> {
    loop {
        match link.receive() {
            Ok(value) => tally.add(&value),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(reason(&error)),
        }
    }
}

/// Twenty bytes that no reply will be by chance.
fn magic() -> Vec<u8> {
    use std::hash::{BuildHasher, RandomState};
    let words =
        [RandomState::new().hash_one(1), RandomState::new().hash_one(2), RandomState::new().hash_one(3)];
    words.iter().flat_map(|word| word.to_le_bytes()).take(20).collect()
}
