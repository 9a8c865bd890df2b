//! Following what is committed: change-data capture over the change log of a memory.
//!
//! ```text
//!   position  =  identity of the stream : offset : selected database      kept by the follower, with what it has made of the changes
//! ```
use polder_table::{Db, Log, LogError, Stop};

use crate::Memory;

/// Bytes that one look takes out of the log.
const READ_BYTES: usize = 256 << 10;

/// A command's name and arguments.
type Words = Vec<Vec<u8>>;

/// A command of the stream, and the database that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeCommand {
    /// The database, as clients number it.
    pub db: Db,
    /// The command's name, in upper case, and its arguments.
    pub words: Vec<Vec<u8>>,
}

/// What one transaction has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// In the order in which they were made.
    pub commands: Vec<ChangeCommand>,
    /// Where to go on behind it: what a follower keeps.
    pub position: Position,
}

/// A place in a stream. Its text is what [`Position::parse`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// 40 hexadecimal digits; a stream in which a change may be missing has another identity.
    pub identity: String,
    /// Bytes since the stream began. `PSYNC` asks for the same place with one more.
    pub offset: u64,
    /// The database of the next command, unless the stream selects another one; none: it selects one.
    pub db: Option<Db>,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.identity, self.offset)?;
        self.db.map_or(Ok(()), |db| write!(f, ":{db}"))
    }
}

impl Position {
    /// Reads what [`Position`] prints.
    pub fn parse(text: &str) -> Option<Position> {
        let mut parts = text.split(':');
        let (identity, offset) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
        let db = parts.next().map(str::parse).transpose().ok()?;
        let is_identity = identity.len() == 40 && identity.bytes().all(|digit| digit.is_ascii_hexdigit());
        (is_identity && parts.next().is_none()).then_some(Position { identity, offset, db })
    }
}

/// A follower of the changes of a memory ([`Memory::changes`]). It holds up no writer, and belongs to the thread that uses it.
pub struct Changes<'m> {
    memory: &'m Memory,
    position: Position,
    /// Bytes that have been read and not understood as a whole transaction yet, from the position on.
    bytes: Vec<u8>,
    at: usize,
}

impl Memory {
    /// Follows what is committed from a position on, or (`None`) from now on. Turns the change log of the memory on where it is off: from then on every
    /// write to the memory costs more, until [`Memory::stop_changes`].
    ///
    /// ```
    /// # let name = format!("shm:polder-doc-changes-{}", std::process::id());
    /// use polder_engine::{Memory, Options};
    ///
    /// let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
    /// let mut changes = memory.changes(None)?;
    /// memory.database(0).set(b"greeting", b"hello")?;
    /// let changed = changes.next()?.expect("one transaction");
    /// assert_eq!(changed.commands[0].words, [b"SET".to_vec(), b"greeting".to_vec(), b"hello".to_vec()]);
    /// assert_eq!(changes.next()?, None);
    /// # Memory::remove(&name)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Stop::Refused`] where the stream has another identity by now, or is not kept from there on: the follower begins anew with a copy of the data, and
    /// follows from the position that it took before it copied. [`Stop::Fault`].
    pub fn changes(&self, from: Option<Position>) -> Result<Changes<'_>, Stop> {
        let log = self.table().log();
        let position = match from {
            Some(position) if log.is_on() => position,
            Some(position) => return Err(other_stream(&position, "off")),
            None => {
                log.turn_on()?;
                log.merge()?;
                let (offset, db) = log.end();
                Position { identity: log.identity(), offset, db }
            }
        };
        let changes = Changes { memory: self, position, bytes: Vec::new(), at: 0 };
        changes.check_identity()?;
        Ok(changes)
    }

    /// Turns the change log off, for all followers.
    ///
    /// # Errors
    /// [`Stop::Fault`].
    pub fn stop_changes(&self) -> Result<(), Stop> {
        Ok(self.table().log().turn_off()?)
    }
}

fn other_stream(position: &Position, now: &str) -> Stop {
    let identity = &position.identity;
    format!("ERR the change log is not the one of {identity} any more, but {now}: copy the data, and follow from a new position").into()
}

fn refused(error: LogError) -> Stop {
    match error {
        LogError::Fault(fault) => fault.into(),
        other => format!("ERR {other}").into(),
    }
}

impl Changes<'_> {
    fn log(&self) -> Log<'_> {
        self.memory.table().log()
    }

    fn check_identity(&self) -> Result<(), Stop> {
        let identity = self.log().identity();
        if identity == self.position.identity { Ok(()) } else { Err(other_stream(&self.position, &identity)) }
    }

    /// The position behind what [`Changes::next`] has returned last.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// What the next transaction has changed; `None`: nothing that is committed is left. Call it again later.
    ///
    /// # Errors
    /// As [`Memory::changes`]: the follower has been slower than what is kept, or the log was turned off.
    #[expect(clippy::should_implement_trait, reason = "it can fail, and goes on after None")]
    pub fn next(&mut self) -> Result<Option<Changed>, Stop> {
        loop {
            if let Some(changed) = self.take()? {
                return Ok(Some(changed));
            }
            let read = self.position.offset + (self.bytes.len() - self.at) as u64;
            self.log().merge()?;
            self.bytes.drain(..std::mem::take(&mut self.at));
            let next = self.memory.table().log().read(read, &mut self.bytes, READ_BYTES).map_err(refused)?;
            // What has been read while the identity was the same belongs to it.
            self.check_identity()?;
            if next == read {
                return Ok(None);
            }
        }
    }

    /// Takes the next whole transaction out of what has been read.
    fn take(&mut self) -> Result<Option<Changed>, Stop> {
        let (mut commands, mut at, mut db, mut is_open) = (Vec::new(), self.at, self.position.db, false);
        while let Some((words, end)) = command(&self.bytes, at)? {
            at = end;
            match &words[..] {
                [name, number] if name == b"SELECT" => db = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()),
                [name] if name == b"MULTI" => is_open = true,
                [name] if name == b"EXEC" => is_open = false,
                _ => commands.push(ChangeCommand { db: db.unwrap_or(0), words }),
            }
            if !commands.is_empty() && !is_open {
                self.position.offset += (at - self.at) as u64;
                self.position.db = db;
                self.at = at;
                return Ok(Some(Changed { commands, position: self.position.clone() }));
            }
        }
        Ok(None)
    }
}

/// The command that begins at `at`, and where it ends; `None`: not all of it is there yet.
fn command(bytes: &[u8], at: usize) -> Result<Option<(Words, usize)>, Stop> {
    let wrong = || Stop::from("ERR the position is not the begin of a command: follow from a position that the stream has given");
    let number = |at: usize, mark: u8| -> Result<Option<(usize, usize)>, Stop> {
        let Some(length) = bytes[at..].windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let digits = bytes[at..at + length].strip_prefix(&[mark]).ok_or_else(wrong)?;
        let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        Ok(Some((number, at + length + 2)))
    };
    let Some((count, mut at)) = number(at, b'*')? else { return Ok(None) };
    let mut words = Vec::new();
    for _ in 0..count {
        let Some((length, begin)) = number(at, b'$')? else { return Ok(None) };
        let Some(word) = bytes.get(begin..begin + length) else { return Ok(None) };
        words.push(word.to_vec());
        at = begin + length + 2;
    }
    Ok((at <= bytes.len()).then_some((words, at)))
}
