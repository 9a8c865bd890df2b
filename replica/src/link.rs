//! The link of a replica: one connection to the primary, from the handshake to its end.
//!
//! ```text
//!   PING, AUTH, REPLCONF ..., PSYNC ID OFFSET   -->   primary
//!   +CONTINUE: what follows is the stream, from the next byte on
//!   +FULLRESYNC: a copy, into staged databases -> installed with the primary's identity and offset, in one commit -> the stream
//!   stream: each command is made here, and its bytes go into the log of this memory with its commit (A1 of `polder_table`'s `ride.rs`)
//! ```
//!
//! - **B1** A copy is installed as a whole or not at all. Clients see the old data until then.
//! - **B2** Nothing is kept beside the memory: a link that begins asks for the byte behind the end of the log, whatever has become of the one before.
//! - **B3** A command that cannot be made here ends the link: what follows would go astray. What was refused for what it meets was refused by the primary,
//!   too, and is counted (P3 of `polder_persist::replay`).
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder_base::number;
use polder_base::time::now_ms;
use polder_calls::settings::id;
use polder_runtime::configuration::Configuration;
use polder_runtime::scripting::Scripting;
use polder_shm::{LinkFigures, LinkState, Role};
use polder_table::{Rider, Table};
use polder_wire::resp::command;

use crate::attaching;
use crate::face::PrimaryFace;
use crate::failover;
use crate::feed::Link;
use crate::primary::Primary;

mod attach;
mod copy;
mod stream;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 64 << 10;
/// The longest line of a reply.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The period of acknowledgements, and of telling figures.
const TELL_PERIOD: Duration = Duration::from_secs(1);
/// The longest sleep without a look at what other threads want.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause between two looks at a log on which another thread works.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The version of Valkey that the link names, so that a Valkey sends it the newest form of RDB files.
const VALKEY_VERSION: &[u8] = b"9.1.0";

/// The end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The memory has another role, or the server ends.
    Over,
    /// The reason, in words: another attempt follows.
    Broken(String),
    /// The reason, where another attempt at once would end in the same way.
    Stuck(String),
    /// The reason, where another server of the memory may succeed.
    Unable(String),
}

impl End {
    /// This end, as one that another attempt at once would not mend.
    fn stuck(self) -> End {
        match self {
            End::Broken(why) => End::Stuck(why),
            end => end,
        }
    }
}

impl<T: ToString> From<T> for End {
    fn from(why: T) -> End {
        End::Broken(why.to_string())
    }
}

/// The surroundings of a link.
pub struct Follower<'f> {
    pub table: &'f Table,
    pub settings: &'f Configuration,
    pub scripting: &'f Scripting,
    pub stops: &'f AtomicBool,
    pub primary: &'f Primary,
    pub role: Role,
    pub face: &'f PrimaryFace,
}

/// The way of a copy, as `repl-transport` says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transport {
    Auto = 0,
    Rdb = 1,
    Attach = 2,
}

/// The state of a link.
struct Following<'f, 'l> {
    follower: &'f Follower<'f>,
    link: &'l mut dyn Link,
    rider: Rider<'f>,
    figures: LinkFigures,
    /// Bytes that have come and were not read yet.
    input: Vec<u8>,
    heard: Instant,
    told: Instant,
    timeout: Duration,
}

impl Follower<'_> {
    /// Follows the primary over a connection. Never returns while that holds.
    pub fn run(&self, link: &mut dyn Link) -> End {
        match self.begin(link) {
            Ok(mut following) => {
                let end = following.follow().expect_err("a link has an end");
                show_all(self.table);
                following.tell(LinkState::Connect);
                end
            }
            Err(end) => end,
        }
    }

    fn begin<'l>(&'l self, link: &'l mut dyn Link) -> Result<Following<'l, 'l>, End> {
        let now = Instant::now();
        // A link that died may have left something.
        self.table.clear_staged(self.role)?;
        let before = self.table.segment().link().figures();
        Ok(Following {
            rider: self.table.ride(self.role)?,
            follower: self,
            link,
            figures: LinkFigures { heard_ms: now_ms(), copy_read: 0, copy_bytes: 0, ..before },
            input: Vec::new(),
            heard: now,
            told: now,
            timeout: Duration::from_secs(self.settings.number(const { id("repl-timeout") }).max(1) as u64),
        })
    }

    fn is_over(&self) -> bool {
        self.stops.load(Ordering::Acquire) || self.table.segment().removed() || self.table.role() != self.role
    }
}

impl Following<'_, '_> {
    fn follow(&mut self) -> Result<std::convert::Infallible, End> {
        let table = self.follower.table;
        self.tell(LinkState::Handshake);
        self.greet()?;
        let (reply, identity) = self.ask_for_stream()?;
        self.take_place(&reply, &identity)?;
        if self.follower.primary.takes_over {
            failover::end(table, self.follower.primary)?;
        }
        crate::primary::tell_trouble(table, None)?;
        tracing::info!(
            primary = self.follower.primary.host,
            port = self.follower.primary.port,
            reply,
            "following"
        );
        self.tell(LinkState::Connected);
        self.stream()
    }

    /// Asks for the stream from the end of the log on; returns the reply, and the identity that was asked for.
    fn ask_for_stream(&mut self) -> Result<(String, String), End> {
        let table = self.follower.table;
        // B2. What a link before this one has committed is in the log before it is asked for.
        table.segment().recover_dead();
        let seat = table.seat()?;
        // Commits that have looked at the role before it was this one.
        table
            .segment()
            .await_transactions(seat.index(), &mut || self.check().is_ok())
            .map_err(|_| "a process is stopped inside a transaction: let it go on or end it".to_owned())?;
        while !table.log().merge_before()? {
            self.check()?;
            std::thread::sleep(LOOK_AGAIN);
        }
        let takes_over = self.follower.primary.takes_over;
        if takes_over {
            failover::prepare(table, &mut || self.check())?;
        }
        let log = table.log();
        let (identity, next) = (log.identity(), log.offset_of(log.range().1).wrapping_add(1));
        let offset = next.to_string();
        let words: [&[u8]; 4] = [b"PSYNC", identity.as_bytes(), offset.as_bytes(), b"FAILOVER"];
        self.request(if takes_over { &words } else { &words[..3] })?;
        let mut reply = self.line()?;
        let is_later = ["-LOADING", "-NOMASTERLINK"].iter().any(|begin| reply.starts_with(begin));
        if takes_over && reply.contains("can't be sent to a master") {
            // It has heard an earlier request, whose reply did not come here.
            self.request(&words[..3])?;
            reply = self.line()?;
        } else if takes_over && reply.starts_with('-') && !is_later {
            // O4: it is a replica still.
            failover::abort(table, &format!("the replica replies: {}", shown(&reply)))?;
            return Err(End::Over);
        }
        Ok((reply, identity))
    }

    /// Brings the memory to the place in the primary's stream that the reply to PSYNC names.
    fn take_place(&mut self, reply: &str, identity: &str) -> Result<(), End> {
        let table = self.follower.table;
        let words: Vec<&str> = reply.split(' ').collect();
        match words[..] {
            ["+CONTINUE"] => {}
            ["+CONTINUE", ref rest @ ..] => {
                let name = rest.first().copied().unwrap_or_default();
                if name != identity {
                    table.rename_stream_of_primary(identity_of(name)?, self.follower.role)?;
                }
            }
            ["+FULLRESYNC", name, offset] => {
                let offset = number::unsigned(offset.as_bytes()).ok_or("the primary names no offset")?;
                self.take_copy(identity_of(name)?, offset).map_err(End::stuck)?;
            }
            [attaching::ORDER, ..] if self.transport() != Transport::Rdb => self.take_attached(reply)?,
            _ => return Err(format!("the primary replies to PSYNC: {}", shown(reply)).into()),
        }
        Ok(())
    }

    /// The words before PSYNC.
    fn greet(&mut self) -> Result<(), End> {
        let settings = self.follower.settings;
        let reply = self.ask(&[b"PING"])?;
        let wants_password = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
        if !reply.starts_with('+') && !wants_password.iter().any(|begin| reply.starts_with(begin)) {
            return Err(format!("the primary replies to PING: {}", shown(&reply)).into());
        }
        let (user, password) =
            (settings.string(const { id("masteruser") }), settings.string(const { id("masterauth") }));
        if password.is_empty() && !reply.starts_with('+') {
            return Err(
                "the primary wants a password: set masterauth, and masteruser if it is not that of 'default'"
                    .into(),
            );
        }
        if !password.is_empty() {
            let words: [&[u8]; 3] = [b"AUTH", user.as_bytes(), password.as_bytes()];
            let reply = if user.is_empty() { self.ask(&[words[0], words[2]])? } else { self.ask(&words)? };
            if !reply.starts_with('+') {
                return Err(format!(
                    "the primary replies to AUTH (masterauth, masteruser): {}",
                    shown(&reply)
                )
                .into());
            }
        }
        let announced = settings.number(const { id("replica-announce-port") });
        let tls_port = settings.number(const { id("tls-port") });
        let port = match announced {
            0 if settings.is_on(const { id("tls-replication") }) && tls_port > 0 => tls_port,
            0 => settings.number(const { id("port") }),
            announced => announced,
        };
        let address = settings.string(const { id("replica-announce-ip") });
        // Other servers refuse what they do not know, and go on.
        self.ask(&[b"REPLCONF", b"listening-port", port.to_string().as_bytes()])?;
        if !address.is_empty() {
            self.ask(&[b"REPLCONF", b"ip-address", address.as_bytes()])?;
        }
        self.ask(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
        self.ask(&[b"REPLCONF", b"version", VALKEY_VERSION])?;
        // Another memory sends Redis's newest form then, which holds what the others do not.
        self.ask(&[b"REPLCONF", b"capa", crate::NEWEST_RDB])?;
        if self.transport() != Transport::Rdb {
            let boot = attaching::boot_of(self.follower.table);
            self.ask(&[b"REPLCONF", attaching::OFFER.as_bytes(), boot.as_bytes()])?;
        }
        Ok(())
    }

    /// Sends a request and reads the line of its reply.
    fn ask(&mut self, words: &[&[u8]]) -> Result<String, End> {
        self.request(words)?;
        self.line()
    }

    fn request(&mut self, words: &[&[u8]]) -> Result<(), End> {
        let mut bytes = Vec::new();
        command(words, &mut bytes);
        self.send(&bytes)
    }

    /// Reads a line. Empty ones, which a primary sends while it makes a copy, are passed over.
    fn line(&mut self) -> Result<String, End> {
        loop {
            if let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if !line.is_empty() {
                    return Ok(line);
                }
            } else if self.input.len() > LINE_BYTES_MAX {
                return Err("the primary sends something other than Redis's protocol".into());
            } else {
                self.receive()?;
            }
        }
    }

    /// Takes what has come, or waits for a while.
    fn receive(&mut self) -> Result<(), End> {
        let held = self.input.len();
        self.input.resize(held + RECEIVE_BYTES, 0);
        let received = self.link.receive(&mut self.input[held..]);
        self.input.truncate(held + *received.as_ref().unwrap_or(&0));
        match received {
            Ok(0) => return Err("the primary has closed the connection".into()),
            Ok(_) => self.hear(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                show_all(self.follower.table);
                self.link.wait(false, None, PAUSE)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        self.check()
    }

    fn hear(&mut self) {
        self.heard = Instant::now();
        self.figures.heard_ms = now_ms();
    }

    /// Returns an error if the link is to end.
    fn check(&self) -> Result<(), End> {
        if self.follower.is_over() {
            return Err(End::Over);
        }
        if self.heard.elapsed() > self.timeout {
            return Err("the primary sends nothing (repl-timeout)".into());
        }
        Ok(())
    }

    /// Sends all bytes.
    fn send(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        while !bytes.is_empty() {
            match self.link.send(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.link.wait(true, None, PAUSE)?;
                    self.check()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Tells the figures, and that the link is in this state.
    fn tell(&mut self, state: LinkState) {
        let is_up = state == LinkState::Connected;
        self.figures.state = state;
        self.figures.down_ms = match self.figures.down_ms {
            _ if is_up => 0,
            0 => now_ms(),
            since_ms => since_ms,
        };
        self.follower.table.segment().link().tell(&self.figures);
        self.told = Instant::now();
    }
}

/// Has the log hold all that links have committed: the offset by which Sentinel chooses a replica is that of its end.
pub fn show_all(table: &Table) {
    // Without memory for it, it is merged later.
    let _ = table.log().merge();
}

fn identity_of(name: &str) -> Result<[u8; 40], End> {
    let digits =
        <[u8; 40]>::try_from(name.as_bytes()).ok().filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    digits.ok_or_else(|| format!("the primary names its stream '{}'", shown(name)).into())
}

/// The beginning of a text that a peer has sent.
fn shown(text: &str) -> String {
    text.chars().filter(|shown| !shown.is_control()).take(200).collect()
}
