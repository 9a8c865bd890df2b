//! Following what is committed: change-data capture over the change log of a memory.
//!
//! ```text
//!   position  =  identity of the stream : offset : selected database      kept by the follower, with what it has made of the changes
//! ```
use polder_base::Fault;
use polder_persist::effects::{self, Effect};
use polder_persist::followers::{self, Place};
use polder_table::{Db, Log, LogError, Stop};

use crate::Memory;

/// Bytes that one look takes out of the log.
const READ_BYTES: usize = 256 << 10;

/// How many streams a follower sees end that has just begun to follow them, before it gives up.
const STREAMS_MAX: usize = 100;

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
    /// The offset behind what has been read.
    read: u64,
    reader: Reader,
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
    /// A follower that has a copy of the data takes the position before it copies. Changes that were made meanwhile are in the copy, and it sees them again:
    /// so it must not apply commands that count or append twice, but read again from the memory what has become of their keys.
    ///
    /// # Errors
    /// [`Stop::Refused`] where the stream has another identity by now, or is not kept from there on: the follower begins anew with a copy of the data, and
    /// follows from the position that it took before it copied. [`Stop::Fault`].
    pub fn changes(&self, from: Option<Position>) -> Result<Changes<'_>, Stop> {
        let log = self.table().log();
        let position = match from {
            Some(position) if log.is_on() => position,
            Some(position) => return Err(other_stream(&position, "off")),
            None => self.end_of_stream()?,
        };
        let (read, reader) = (position.offset, Reader::new(position.db));
        let changes = Changes { memory: self, position, read, reader };
        changes.check_stream()?;
        Ok(changes)
    }

    /// Where the stream ends, which every commit that follows is in.
    fn end_of_stream(&self) -> Result<Position, Stop> {
        let log = self.table().log();
        for _ in 0..STREAMS_MAX {
            log.turn_on()?;
            log.merge()?;
            // Before the place: one that belongs to a later stream is not taken for a place of this one.
            let identity = log.identity();
            let (offset, db) = log.end();
            // The merge may have begun another stream, since a commit had no room for its record: that one may not have ended yet, and is in
            // neither the stream nor the copy that its follower makes. Turning the log on waits for it.
            log.turn_on()?;
            if log.identity() == identity {
                return Ok(Position { identity, offset, db });
            }
        }
        Err(Stop::Fault(Fault::System(
            "the change log begins anew again and again, since commits have no room in it: make room in the memory, then try again".into(),
        )))
    }

    /// Turns the change log off, for all followers. Those that have a name keep it, but not what they could go on with.
    ///
    /// # Errors
    /// [`Stop::Fault`].
    pub fn stop_changes(&self) -> Result<(), Stop> {
        // It is off also where this fails.
        let off = self.table().log().turn_off();
        followers::release(self.table());
        Ok(off?)
    }

    /// Keeps a follower's position under a name, and the change log from there on: up to 256 MiB of it, or an eighth of a memory that is smaller than
    /// 2 GiB. The name outlives the follower and its process, and ends with [`Memory::forget_follower`] or the memory. At most 63 followers have a name.
    ///
    /// ```
    /// # let name = format!("shm:polder-doc-follower-{}", std::process::id());
    /// use polder_engine::{Memory, Options};
    ///
    /// let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
    /// let mut changes = match memory.follower("search")? {
    ///     Some(position) => memory.changes(Some(position))?,
    ///     None => memory.changes(None)?,
    /// };
    /// // Before the data is copied, if it is to be copied; and again whenever something is done.
    /// memory.keep_follower("search", changes.position())?;
    /// while let Some(changed) = changes.next()? {
    ///     println!("{changed:?}");
    /// }
    /// memory.keep_follower("search", changes.position())?;
    /// # Memory::remove(&name)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Stop::Refused`] where the log is not kept from that position on, or there are too many followers; what the memory says.
    pub fn keep_follower(&self, name: impl AsRef<[u8]>, position: &Position) -> Result<(), Stop> {
        let Position { identity, offset, db } = position.clone();
        let rest = db.map_or(String::new(), |db| db.to_string());
        let name = name.as_ref().to_vec();
        followers::keep(self.table(), &Place { name, identity, offset, rest }).map(drop)
    }

    /// The position that was kept last under a name; `None`: there is no follower of this name. It may not be readable any more, which [`Memory::changes`]
    /// says.
    ///
    /// # Errors
    /// What the memory says.
    pub fn follower(&self, name: impl AsRef<[u8]>) -> Result<Option<Position>, Stop> {
        Ok(followers::find(self.table(), name.as_ref())?.map(|place| Follower::of(self, place).position))
    }

    /// All followers that have a name.
    ///
    /// # Errors
    /// What the memory says.
    pub fn followers(&self) -> Result<Vec<Follower>, Stop> {
        let log = self.table().log();
        if log.is_on() {
            // What is committed counts. What cannot be merged now is counted later.
            let _ = log.merge_before();
        }
        let places = followers::all(self.table())?;
        Ok(places.into_iter().map(|place| Follower::of(self, place)).collect())
    }

    /// Forgets a follower: nothing is kept for it any more. Returns whether there was one of this name.
    ///
    /// # Errors
    /// What the memory says.
    pub fn forget_follower(&self, name: impl AsRef<[u8]>) -> Result<bool, Stop> {
        followers::forget(self.table(), name.as_ref())
    }
}

/// A follower that has a name ([`Memory::keep_follower`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Any bytes.
    pub name: Vec<u8>,
    /// What it has kept last.
    pub position: Position,
    /// How many bytes of the stream it has not followed yet; `None`: its stream has ended, or is not kept so far back.
    pub lag: Option<u64>,
}

impl Follower {
    fn of(memory: &Memory, Place { name, identity, offset, rest }: Place) -> Follower {
        let (log, (first, end)) = (memory.table().log(), memory.table().log().range());
        let is_kept = log.is_on() && log.identity() == identity && (first..=end).contains(&offset);
        let lag = is_kept.then(|| end - offset);
        Follower { name, position: Position { identity, offset, db: rest.parse().ok() }, lag }
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

    /// Whether the log is on and the stream is the one that is followed.
    fn check_stream(&self) -> Result<(), Stop> {
        // A stream that has begun after this look has another identity, which the next look finds.
        let (is_on, identity) = (self.log().is_on(), self.log().identity());
        match () {
            () if !is_on => Err(other_stream(&self.position, "off")),
            () if identity != self.position.identity => Err(other_stream(&self.position, &identity)),
            () => Ok(()),
        }
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
            if let Some((commands, bytes)) = self.reader.next()? {
                self.position.offset += bytes;
                self.position.db = self.reader.transactions.db();
                return Ok(Some(Changed { commands, position: self.position.clone() }));
            }
            // Where there is no memory to merge more, what has been merged is read first: then it need not be kept any longer.
            let merged = self.log().merge();
            let before = self.read;
            self.read =
                self.memory.table().log().read(before, self.reader.room(), READ_BYTES).map_err(refused)?;
            // What has been read while the stream was the same belongs to it.
            self.check_stream()?;
            if self.read == before {
                merged?;
                return Ok(None);
            }
        }
    }
}

/// Puts the commands of a log together that were one transaction, and passes over those that have changed nothing.
#[derive(Default)]
pub struct Transactions {
    /// The commands of the transaction under way, and whether MULTI has begun it.
    commands: Vec<ChangeCommand>,
    is_open: bool,
    db: Option<Db>,
}

impl Transactions {
    /// Begins with a selected database; none: the log selects one.
    pub fn new(db: Option<Db>) -> Transactions {
        Transactions { db, ..Transactions::default() }
    }

    /// The selected database.
    pub fn db(&self) -> Option<Db> {
        self.db
    }

    /// One more command. Returns the transaction that is whole with it.
    ///
    /// # Errors
    /// What only a later version understands.
    pub fn take(&mut self, mut words: Words) -> Result<Option<Vec<ChangeCommand>>, String> {
        let effect = effects::read(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        match effect {
            Effect::Select(db) => self.db = db,
            Effect::Multi => self.is_open = true,
            Effect::Exec => self.is_open = false,
            Effect::Nothing => {}
            Effect::Command => {
                words[0].make_ascii_uppercase();
                self.add(words);
            }
            Effect::Instead(words) => self.add(words),
        }
        let is_whole = !self.is_open && !self.commands.is_empty();
        Ok(is_whole.then(|| std::mem::take(&mut self.commands)))
    }

    fn add(&mut self, words: Words) {
        self.commands.push(ChangeCommand { db: self.db.unwrap_or(0), words });
    }
}

/// Takes a stream apart into transactions. It goes on in the middle of a command or a transaction where the bytes before have ended, so that the time
/// that it takes goes with the bytes.
struct Reader {
    bytes: Vec<u8>,
    at: usize,
    /// Bytes that have been understood since the last transaction ended.
    taken: u64,
    /// The words of the command under way, and how many it has.
    words: Words,
    count: Option<usize>,
    /// The bytes of the word under way.
    length: Option<usize>,
    transactions: Transactions,
}

impl Reader {
    fn new(db: Option<Db>) -> Reader {
        Reader {
            bytes: Vec::new(),
            at: 0,
            taken: 0,
            words: Vec::new(),
            count: None,
            length: None,
            transactions: Transactions::new(db),
        }
    }

    /// Where the next bytes go.
    fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.at));
        &mut self.bytes
    }

    /// The next transaction, and how many bytes of the stream it and what stands before it have; `None`: not all of it is there yet.
    fn next(&mut self) -> Result<Option<(Vec<ChangeCommand>, u64)>, Stop> {
        while let Some(words) = self.command()? {
            let commands = self.transactions.take(words).map_err(|why| Stop::from(format!("ERR {why}")))?;
            if let Some(commands) = commands {
                return Ok(Some((commands, std::mem::take(&mut self.taken))));
            }
        }
        Ok(None)
    }

    /// The next command; `None`: not all of it is there yet.
    fn command(&mut self) -> Result<Option<Words>, Stop> {
        let count = match self.count {
            Some(count) => count,
            None => {
                let Some(count) = self.number(b'*')? else { return Ok(None) };
                *self.count.insert(count)
            }
        };
        while self.words.len() < count {
            let length = match self.length {
                Some(length) => length,
                None => {
                    let Some(length) = self.number(b'$')? else { return Ok(None) };
                    *self.length.insert(length)
                }
            };
            // With the two bytes that end it.
            let Some(word) = length.checked_add(2).and_then(|bytes| self.bytes[self.at..].get(..bytes))
            else {
                return Ok(None);
            };
            self.words.push(word[..length].to_vec());
            self.pass(length + 2);
            self.length = None;
        }
        self.count = None;
        Ok(Some(std::mem::take(&mut self.words)))
    }

    /// The number of a line that begins with this mark; `None`: the line has no end yet.
    fn number(&mut self, mark: u8) -> Result<Option<usize>, Stop> {
        /// Bytes of the longest line: a mark, a number of 20 digits, the two that end it.
        const LINE_MAX: usize = 23;
        let wrong = || {
            Stop::from(
                "ERR the position is not the begin of a command: follow from a position that the stream has given",
            )
        };
        let rest = &self.bytes[self.at..];
        let line = &rest[..rest.len().min(LINE_MAX)];
        let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
            return if line.len() < LINE_MAX && line.first().is_none_or(|first| *first == mark) {
                Ok(None)
            } else {
                Err(wrong())
            };
        };
        let digits = line[..end].strip_prefix(&[mark]).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = digits.and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        self.pass(end + 2);
        Ok(Some(number))
    }

    fn pass(&mut self, bytes: usize) {
        self.at += bytes;
        self.taken += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a stream that comes in pieces of this many bytes; returns its transactions, and the place behind each.
    fn read(stream: &[u8], piece: usize) -> Vec<(Vec<ChangeCommand>, u64)> {
        let (mut reader, mut found, mut place) = (Reader::new(None), Vec::new(), 0);
        for piece in stream.chunks(piece) {
            reader.room().extend_from_slice(piece);
            while let Some((commands, bytes)) = reader.next().expect("commands") {
                place += bytes;
                found.push((commands, place));
            }
        }
        found
    }

    #[test]
    fn a_stream_may_be_cut_anywhere() {
        let stream = b"*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$2\r\n\r\n\r\n*1\r\n$5\r\nMULTI\r\n\
            *2\r\n$3\r\nDEL\r\n$1\r\na\r\n*2\r\n$4\r\nINCR\r\n$1\r\nb\r\n*1\r\n$4\r\nEXEC\r\n";
        let words = |words: &[&[u8]]| ChangeCommand {
            db: 12,
            words: words.iter().map(|word| word.to_vec()).collect(),
        };
        let first = stream.windows(5).position(|bytes| bytes == b"MULTI").expect("it is there") as u64 - 8;
        let expected = vec![
            (vec![words(&[b"SET", b"a", b"\r\n"])], first),
            (vec![words(&[b"DEL", b"a"]), words(&[b"INCR", b"b"])], stream.len() as u64),
        ];
        for piece in 1..=stream.len() {
            assert_eq!(read(stream, piece), expected, "in pieces of {piece} bytes");
        }
    }

    #[test]
    fn a_stream_of_another_server_is_read_without_what_changes_nothing() {
        let stream = b"*2\r\n$6\r\nselect\r\n$1\r\n2\r\n*1\r\n$4\r\nping\r\n*1\r\n$5\r\nmulti\r\n\
            *3\r\n$3\r\nset\r\n$1\r\na\r\n$1\r\nb\r\n*3\r\n$7\r\npublish\r\n$1\r\nc\r\n$1\r\nm\r\n*1\r\n$4\r\nexec\r\n\
            *2\r\n$4\r\necho\r\n$2\r\nhi\r\n*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n*2\r\n$3\r\nDel\r\n$1\r\na\r\n";
        let command = |words: &[&[u8]]| ChangeCommand {
            db: 2,
            words: words.iter().map(|word| word.to_vec()).collect(),
        };
        let found = read(stream, 7);
        assert_eq!(found[0].0, [command(&[b"SET", b"a", b"b"])]);
        assert_eq!(found[1], (vec![command(&[b"DEL", b"a"])], stream.len() as u64));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_is_no_command_is_an_error_at_once() {
        for wrong in [
            &b"OK\r\n"[..],
            b"$3\r\nSET\r\n",
            b"*x\r\n",
            b"*1\r\n*1\r\n",
            b"*0\r\n",
            b"*1111111111111111111111111",
            b"*1\r\n$99999999999999999999\r\n",
        ] {
            let mut reader = Reader::new(None);
            reader.room().extend_from_slice(wrong);
            assert!(reader.next().is_err(), "{}", wrong.escape_ascii());
        }
    }

    /// A transaction of many commands takes time that goes with its bytes, however small the pieces are in which it comes.
    #[test]
    fn a_long_transaction_is_read_once() {
        let mut stream = b"*1\r\n$5\r\nMULTI\r\n".to_vec();
        (0..20_000).for_each(|_| stream.extend_from_slice(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"));
        stream.extend_from_slice(b"*1\r\n$4\r\nEXEC\r\n");
        let found = read(&stream, 64);
        assert_eq!((found.len(), found[0].0.len()), (1, 20_000));
    }
}
