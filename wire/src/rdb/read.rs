//! Reading: a file or a payload, as a sequence of items.
use polder_base::number::{NumberText, integer_text, shortest_text};

use super::crc::Checksum;
use super::cursor::{Cursor, Piece, Short, Step};
use super::found::{Found, piece};
use super::packed::{Entry, Form, Walk};
use super::stream::StreamWalk;
use super::{Begin, FIELD_EXPIRY_MAX_MS, Item, Kind, Malformed, VALKEY, VERSION_MAX, code, kind};

/// What elements are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    List,
    Set,
    Hash,
    /// Field, value, expiry in milliseconds, 0 for none: in a listpack, those with an expiry first and in its order. Holds
    /// the expiry of the field before.
    HashExpiries(u64),
    /// Expiry, field, value; an expiry counts from the least one, at 1.
    HashAfter(u64),
    /// Field, value, expiry in milliseconds, -1 for none.
    HashValkey,
    ScoresText,
    Scores,
    /// Index, form, value.
    Array,
}

impl Of {
    fn kind(self) -> Kind {
        match self {
            Of::List => Kind::List,
            Of::Set => Kind::Set,
            Of::Hash | Of::HashExpiries(_) | Of::HashAfter(_) | Of::HashValkey => Kind::Hash,
            Of::ScoresText | Of::Scores => Kind::SortedSet,
            Of::Array => Kind::Array,
        }
    }

    /// How many entries of a packed string make one element.
    fn parts(self) -> u64 {
        match self {
            Of::List | Of::Set => 1,
            Of::HashExpiries(_) => 3,
            _ => 2,
        }
    }
}

/// How a value is laid out.
enum Layout {
    Text,
    /// A count, and that many elements.
    Counted(Of),
    /// One string that holds them.
    Packed(Of, Form),
    /// A list's nodes, each with a word about what it is, or not.
    Nodes {
        plain: bool,
    },
    /// A stream of the first up to the fifth form.
    Stream(u8),
    Array,
    Module,
}

/// What the number of a type stands for.
fn layout(number: u8, is_valkey: bool, cursor: &mut Cursor<'_>) -> Step<Layout> {
    use Layout::{Array, Counted, Module, Nodes, Packed, Stream, Text};
    use Of::{Hash, HashAfter, HashExpiries, HashValkey, List, Scores, ScoresText, Set};
    Ok(match number {
        kind::STRING => Text,
        kind::LIST => Counted(List),
        kind::SET => Counted(Set),
        kind::SCORES_TEXT => Counted(ScoresText),
        kind::HASH => Counted(Hash),
        kind::SCORES => Counted(Scores),
        kind::MODULE => Module,
        kind::HASH_ZIPMAP => Packed(Hash, Form::Zipmap),
        kind::LIST_ZIPLIST => Packed(List, Form::Ziplist),
        kind::SET_INTSET => Packed(Set, Form::Intset),
        kind::SCORES_ZIPLIST => Packed(Scores, Form::Ziplist),
        kind::HASH_ZIPLIST => Packed(Hash, Form::Ziplist),
        kind::QUICKLIST => Nodes { plain: false },
        kind::QUICKLIST_2 => Nodes { plain: true },
        kind::STREAM => Stream(1),
        kind::STREAM_2 => Stream(2),
        kind::STREAM_3 => Stream(3),
        kind::STREAM_4 if !is_valkey => Stream(4),
        kind::STREAM_5 if !is_valkey => Stream(5),
        kind::ARRAY if !is_valkey => Array,
        kind::HASH_LISTPACK => Packed(Hash, Form::Listpack),
        kind::SCORES_LISTPACK => Packed(Scores, Form::Listpack),
        kind::SET_LISTPACK => Packed(Set, Form::Listpack),
        kind::HASH_VALKEY if is_valkey => Counted(HashValkey),
        kind::HASH_EXPIRIES_EARLY if !is_valkey => Counted(HashAfter(1)),
        kind::HASH_LISTPACK_EXPIRIES_EARLY if !is_valkey => Packed(HashExpiries(0), Form::Listpack),
        kind::HASH_EXPIRIES if !is_valkey => Counted(HashAfter(u64::from_le_bytes(cursor.array()?))),
        kind::HASH_LISTPACK_EXPIRIES if !is_valkey => {
            // The least expiry, which the fields say as well.
            cursor.take(8)?;
            Packed(HashExpiries(0), Form::Listpack)
        }
        other => return Err(Malformed(format!("a value of the unknown type {other}").into()).into()),
    })
}

/// A field's expiry, if it can be stored.
fn field_expiry(expiry_ms: u64) -> Step<u64> {
    if expiry_ms > FIELD_EXPIRY_MAX_MS {
        return Err("a field's expiry is out of range".into());
    }
    Ok(expiry_ms)
}

/// What comes next.
#[derive(Clone, Debug)]
enum State {
    Magic,
    /// An opcode or a key.
    Code,
    /// The type of a payload's value.
    Type,
    Text,
    Counted {
        of: Of,
        left: u64,
    },
    Packed {
        of: Of,
    },
    Nodes {
        left: u64,
        plain: bool,
        node: Option<Walk>,
    },
    Stream(Box<StreamWalk>),
    /// The cursor of an array, before its values.
    Cursor {
        left: u64,
    },
    /// What a module's value is made of; nothing follows in a payload.
    Module,
    End,
    Done,
}

/// Reads a file or a payload's value, wherever its bytes come from.
///
/// Offer it what there is; it takes what makes one item from the front. `None` means that this does
/// not make an item, or, once [`Reader::is_done`], that there is no more to come. If no more bytes
/// will come, the caller treats that as an error.
pub struct Reader {
    pub(super) version: u32,
    state: State,
    /// The current packed string.
    blob: Vec<u8>,
    walk: Option<Walk>,
    pub(super) texts: [Vec<u8>; 2],
    before: Before,
    is_file: bool,
    relaxed: bool,
    checksum: Option<Checksum>,
    taken: u64,
    value: (u8, u64),
}

/// What stands before a key and belongs to it.
#[derive(Clone, Copy, Default, Debug)]
struct Before {
    expiry_ms: Option<u64>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

/// Where a reader stood between two keys.
#[derive(Clone)]
pub struct Mark {
    before: Before,
    checksum: Option<Checksum>,
    taken: u64,
}

impl Mark {
    /// How many bytes had been taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}

impl Reader {
    /// For a file. `checks`: its checksum is computed and compared. `relaxed`: so are newer versions read, as far as that goes.
    pub fn file(checks: bool, relaxed: bool) -> Reader {
        Reader {
            checksum: checks.then(Checksum::default),
            relaxed,
            ..Reader::in_state(State::Magic, 0, true)
        }
    }

    /// For the type and value of a payload of this version.
    pub fn value(version: u32) -> Reader {
        Reader::in_state(State::Type, version, false)
    }

    fn in_state(state: State, version: u32, is_file: bool) -> Reader {
        Reader {
            version,
            state,
            blob: Vec::new(),
            walk: None,
            texts: Default::default(),
            before: Before::default(),
            is_file,
            relaxed: false,
            checksum: None,
            taken: 0,
            value: (0, 0),
        }
    }

    /// The type of the current value, and how many bytes had been taken when it began, behind type
    /// and key.
    pub fn value_place(&self) -> (u8, u64) {
        self.value
    }

    /// The version of the file, once its first line was read.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// How many bytes have been taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Where the reader stands, if it stands between keys.
    pub fn mark(&self) -> Option<Mark> {
        let between = matches!(self.state, State::Code);
        between.then(|| Mark { before: self.before, checksum: self.checksum.clone(), taken: self.taken })
    }

    /// Goes back to a mark: what is offered next is what came after it.
    pub fn rewind(&mut self, mark: &Mark) {
        (self.before, self.checksum, self.taken, self.state) =
            (mark.before, mark.checksum.clone(), mark.taken, State::Code);
    }

    /// Whether all is read.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Takes the next item from `input`, behind what was `taken` of it, and moves `taken` on.
    ///
    /// # Errors
    /// [`Malformed`]: what the input is not. Nothing more is to be had from it.
    pub fn read<'r>(&'r mut self, input: &'r [u8], taken: &mut usize) -> Result<Option<Item<'r>>, Malformed> {
        loop {
            let mut cursor = Cursor::new(&input[*taken..]);
            let found = match self.step(&mut cursor) {
                Ok(found) => found,
                Err(Short::More) => return Ok(None),
                Err(Short::Bad(malformed)) => return Err(malformed),
            };
            let step = &input[*taken..*taken + cursor.at];
            if let Some(checksum) = &mut self.checksum {
                checksum.update(step);
            }
            *taken += step.len();
            self.taken += step.len() as u64;
            if !matches!(found, Found::Nothing) {
                return Ok(Some(self.item(found, step)));
            }
            if self.is_done() {
                return Ok(None);
            }
        }
    }

    fn item<'r>(&'r self, found: Found, input: &'r [u8]) -> Item<'r> {
        let bytes = |piece: Piece| match piece {
            Piece::Input(range) => &input[range],
            Piece::Blob(range) => &self.blob[range],
            Piece::Text(slot) => &self.texts[slot][..],
        };
        match found {
            Found::Aux(name, value) => Item::Aux { name: bytes(name), value: bytes(value) },
            Found::Functions(source) => Item::Functions(bytes(source)),
            Found::Begin { key, kind, count } => {
                let Before { expiry_ms, idle_seconds, frequency } = self.before;
                Item::Begin(Begin { key: bytes(key), kind, count, expiry_ms, idle_seconds, frequency })
            }
            Found::Text(text) => Item::Text(bytes(text)),
            Found::Element(element) => Item::Element(bytes(element)),
            Found::Member(member) => Item::Member(bytes(member)),
            Found::Scored(member, score, text) => {
                Item::Scored { member: bytes(member), score, text: text.map(bytes) }
            }
            Found::Field(field, value, expiry_ms) => {
                Item::Field { field: bytes(field), value: bytes(value), expiry_ms }
            }
            Found::Pair(field, value) => Item::Pair { field: bytes(field), value: bytes(value) },
            Found::Group(name, last, read) => Item::Group { name: bytes(name), last, read },
            Found::Consumer(name, seen_ms, active_ms) => {
                Item::Consumer { name: bytes(name), seen_ms, active_ms }
            }
            Found::Producer(name) => Item::Producer(bytes(name)),
            Found::Produced(iid, id) => Item::Produced { iid: bytes(iid), id },
            Found::Indexed(index, value) => Item::Indexed { index, value: bytes(value) },
            Found::Foreign(key, module) => Item::Foreign { key: bytes(key), module },
            Found::Plain(item) => item,
            Found::Nothing => unreachable!("nothing is no item"),
        }
    }

    fn step(&mut self, cursor: &mut Cursor<'_>) -> Step<Found> {
        match &mut self.state {
            State::Magic => self.magic(cursor),
            State::Code => self.code(cursor),
            State::Type => {
                let number = cursor.byte()?;
                self.begin(cursor, number, Piece::Input(0..0))
            }
            State::Text => {
                let text = cursor.string(&mut self.texts[0], 0)?;
                self.state = State::End;
                Ok(Found::Text(text))
            }
            State::Counted { of, left } => {
                if *left == 0 {
                    self.state = State::End;
                    return Ok(Found::Nothing);
                }
                let found = counted(*of, cursor, &mut self.texts)?;
                *left -= 1;
                Ok(found)
            }
            State::Packed { of } => {
                let walk = self.walk.as_mut().expect("a packed value has its walk");
                match packed(of, walk, &self.blob, &mut self.texts)? {
                    Some(found) => Ok(found),
                    None => {
                        self.state = State::End;
                        Ok(Found::Nothing)
                    }
                }
            }
            State::Nodes { .. } => self.nodes(cursor),
            State::Stream(walk) => match walk.step(cursor, &mut self.blob, &mut self.texts)? {
                Some(found) => Ok(found),
                None => {
                    self.state = State::End;
                    Ok(Found::Nothing)
                }
            },
            State::Cursor { left } => {
                let found = match cursor.count()? {
                    0 => Found::Nothing,
                    1 => Found::Plain(Item::Cursor(cursor.count()?)),
                    _ => return Err("the cursor of an array has an unknown form".into()),
                };
                self.state = State::Counted { of: Of::Array, left: *left };
                Ok(found)
            }
            State::Module => {
                if module_part(cursor)? {
                    self.after();
                }
                Ok(Found::Nothing)
            }
            State::End => {
                self.after();
                Ok(Found::Plain(Item::End))
            }
            State::Done => Err(Short::More),
        }
    }

    /// A value is over.
    fn after(&mut self) {
        self.before = Before::default();
        self.state = if self.is_file { State::Code } else { State::Done };
    }

    fn magic(&mut self, cursor: &mut Cursor<'_>) -> Step<Found> {
        let line = cursor.array::<9>()?;
        let digits = line.strip_prefix(b"REDIS").or_else(|| line.strip_prefix(b"VALKEY"));
        let digits = digits.ok_or("this is no RDB file: it begins with neither REDIS nor VALKEY")?;
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let version: u32 = version.ok_or("the version of this RDB file is no number")?;
        let is_known =
            if line.starts_with(b"V") { version == VALKEY } else { (1..=VERSION_MAX).contains(&version) };
        let is_newer = self.relaxed && version > VERSION_MAX;
        if !(is_known || is_newer) {
            return Err(Malformed(format!("can't handle RDB format version {version}").into()).into());
        }
        // 80 is how the reader knows Valkey's dialect; another name with another number is Redis's.
        self.version = if line.starts_with(b"V") { version.max(VALKEY) } else { version.min(VALKEY - 1) };
        self.state = State::Code;
        Ok(Found::Nothing)
    }

    fn code(&mut self, cursor: &mut Cursor<'_>) -> Step<Found> {
        match cursor.byte()? {
            code::EXPIRY_MS => self.before.expiry_ms = Some(cursor.time_ms()?),
            code::EXPIRY_SECONDS => {
                self.before.expiry_ms = Some(i32::from_le_bytes(cursor.array()?).max(0) as u64 * 1000)
            }
            code::IDLE => self.before.idle_seconds = Some(cursor.count()?),
            code::FREQUENCY => self.before.frequency = Some(cursor.byte()?),
            code::AUX => {
                let [name, value] = &mut self.texts;
                return Ok(Found::Aux(cursor.string(name, 0)?, cursor.string(value, 1)?));
            }
            code::SIZES => {
                return Ok(Found::Plain(Item::Sizes { keys: cursor.count()?, expiries: cursor.count()? }));
            }
            code::DATABASE => return Ok(Found::Plain(Item::Database(cursor.count()?))),
            code::FUNCTIONS => return Ok(Found::Functions(cursor.string(&mut self.texts[0], 0)?)),
            code::FUNCTIONS_EARLY => {
                return Err("functions in the form of a release candidate of Redis 7.0".into());
            }
            code::SLOT => {
                cursor.count()?;
                cursor.count()?;
                cursor.count()?;
            }
            code::SLOT_IMPORT if self.version >= VALKEY => {
                cursor.skip_string()?;
                for _ in 0..cursor.count()? {
                    cursor.count()?;
                    cursor.count()?;
                }
            }
            code::MODULE_AUX => {
                cursor.count()?;
                // It says when it is to be loaded, in two numbers, and then goes on as a value does.
                cursor.count()?;
                cursor.count()?;
                self.state = State::Module;
            }
            code::EOF => return self.eof(cursor),
            number => {
                let key = cursor.string(&mut self.texts[0], 0)?;
                return self.begin(cursor, number, key);
            }
        }
        Ok(Found::Nothing)
    }

    fn eof(&mut self, cursor: &mut Cursor<'_>) -> Step<Found> {
        if self.version >= 5 {
            let before = cursor.at;
            let said = u64::from_le_bytes(cursor.array()?);
            if let Some(checksum) = &self.checksum
                && said != 0
            {
                let mut checksum = checksum.clone();
                checksum.update(&cursor.bytes[..before]);
                if checksum.value() != said {
                    return Err("the file's checksum is wrong: it is damaged".into());
                }
            }
        }
        self.state = State::Done;
        Ok(Found::Plain(Item::Eof))
    }

    /// Begins a value: everything before its first element.
    fn begin(&mut self, cursor: &mut Cursor<'_>, number: u8, key: Piece) -> Step<Found> {
        self.value = (number, self.taken + cursor.at as u64);
        let (kind, count) = match layout(number, self.version >= VALKEY, cursor)? {
            Layout::Text => {
                self.state = State::Text;
                (Kind::String, None)
            }
            Layout::Counted(of) => {
                let left = cursor.count()?;
                self.state = State::Counted { of, left };
                (of.kind(), Some(left))
            }
            Layout::Packed(of, form) => {
                let string = cursor.string(&mut self.texts[1], 1)?;
                let walk = self.load(cursor, string, form)?;
                let count = walk.count().map(|count| count / of.parts());
                (self.walk, self.state) = (Some(walk), State::Packed { of });
                (of.kind(), count)
            }
            Layout::Nodes { plain } => {
                let left = cursor.count()?;
                self.state = State::Nodes { left, plain, node: None };
                (Kind::List, None)
            }
            Layout::Stream(version) => {
                let walk = StreamWalk::new(version, cursor.count()?);
                self.state = State::Stream(Box::new(walk));
                (Kind::Stream, None)
            }
            Layout::Array => {
                let left = cursor.count()?;
                self.state = State::Cursor { left };
                (Kind::Array, Some(left))
            }
            Layout::Module => {
                let module = module_name(cursor.count()?);
                self.state = State::Module;
                return Ok(Found::Foreign(key, module));
            }
        };
        Ok(Found::Begin { key, kind, count })
    }

    /// Makes a string that holds elements the one that is walked.
    fn load(&mut self, cursor: &Cursor<'_>, string: Piece, form: Form) -> Step<Walk> {
        match string {
            Piece::Text(slot) => std::mem::swap(&mut self.blob, &mut self.texts[slot]),
            Piece::Input(range) => {
                self.blob.clear();
                self.blob.extend_from_slice(&cursor.bytes[range]);
            }
            Piece::Blob(_) => unreachable!("what is read is not yet loaded"),
        }
        Ok(Walk::new(form, &self.blob)?)
    }

    /// A list as a chain of packed nodes.
    fn nodes(&mut self, cursor: &mut Cursor<'_>) -> Step<Found> {
        let State::Nodes { left, plain, node } = &mut self.state else {
            unreachable!("the caller has looked")
        };
        if let Some(walk) = node {
            match walk.next(&self.blob)? {
                Some(entry) => return Ok(Found::Element(piece(entry, &mut self.texts[0], 0))),
                None => *node = None,
            }
            return Ok(Found::Nothing);
        }
        if *left == 0 {
            self.state = State::End;
            return Ok(Found::Nothing);
        }
        let (has_containers, rest) = (*plain, *left - 1);
        let container = if has_containers { cursor.count()? } else { 2 };
        if container == 1 {
            let element = cursor.string(&mut self.texts[0], 0)?;
            if element.is_empty(&self.texts) {
                return Err("a list's node is empty".into());
            }
            self.state = State::Nodes { left: rest, plain: has_containers, node: None };
            return Ok(Found::Element(element));
        }
        if container != 2 {
            return Err("a list's node is neither plain nor packed".into());
        }
        let string = cursor.string(&mut self.texts[1], 1)?;
        let form = if has_containers { Form::Listpack } else { Form::Ziplist };
        let node = Some(self.load(cursor, string, form)?);
        self.state = State::Nodes { left: rest, plain: has_containers, node };
        Ok(Found::Nothing)
    }
}

/// One element of those that stand one after the other.
fn counted(of: Of, cursor: &mut Cursor<'_>, texts: &mut [Vec<u8>; 2]) -> Step<Found> {
    let [one, two] = texts;
    Ok(match of {
        Of::List => Found::Element(cursor.string(one, 0)?),
        Of::Set => Found::Member(cursor.string(one, 0)?),
        Of::Hash | Of::HashExpiries(_) => Found::Field(cursor.string(one, 0)?, cursor.string(two, 1)?, None),
        Of::HashAfter(least) => {
            let after = cursor.count()?;
            let expiry = match after {
                0 => 0,
                _ => field_expiry(after.wrapping_add(least).wrapping_sub(1))?,
            };
            let expiry = (expiry != 0).then_some(expiry);
            Found::Field(cursor.string(one, 0)?, cursor.string(two, 1)?, expiry)
        }
        Of::HashValkey => {
            let (field, value) = (cursor.string(one, 0)?, cursor.string(two, 1)?);
            let expiry = match i64::from_le_bytes(cursor.array()?) {
                -1 => None,
                expiry => Some(u64::try_from(expiry).map_err(|_| "a field's expiry is out of range")?),
            };
            Found::Field(field, value, expiry)
        }
        Of::Array => {
            let (index, form) = (cursor.count()?, cursor.count()?);
            let value = match form {
                0 | 3 => cursor.string(one, 0)?,
                1 => text_of(integer_text(i64::from_le_bytes(cursor.array()?)), one),
                2 => {
                    let text = text_of(shortest_text(f64::from_le_bytes(cursor.array()?)), one);
                    // A whole number in this form was written with a point.
                    if one.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'-')) {
                        one.extend_from_slice(b".0");
                    }
                    text
                }
                _ => return Err("a value of an array has an unknown form".into()),
            };
            Found::Indexed(index, value)
        }
        Of::Scores => {
            let member = cursor.string(one, 0)?;
            Found::Scored(member, number(f64::from_le_bytes(cursor.array()?))?, None)
        }
        Of::ScoresText => {
            let member = cursor.string(one, 0)?;
            match cursor.byte()? {
                253 => return Err("a score is not a number".into()),
                254 => Found::Scored(member, f64::INFINITY, None),
                255 => Found::Scored(member, f64::NEG_INFINITY, None),
                len => {
                    let text = cursor.take(len.into())?;
                    let score = score_of(&cursor.bytes[text.clone()])?;
                    Found::Scored(member, score, Some(Piece::Input(text)))
                }
            }
        }
    })
}

/// A number of an array, which commands see as text.
fn text_of(number: NumberText, text: &mut Vec<u8>) -> Piece {
    text.clear();
    text.extend_from_slice(number.as_bytes());
    Piece::Text(0)
}

/// One element out of a packed string.
fn packed(of: &mut Of, walk: &mut Walk, blob: &[u8], texts: &mut [Vec<u8>; 2]) -> Step<Option<Found>> {
    let Some(first) = walk.next(blob)? else { return Ok(None) };
    let [one, two] = texts;
    let first = piece(first, one, 0);
    if let Of::List | Of::Set = of {
        return Ok(Some(if *of == Of::List { Found::Element(first) } else { Found::Member(first) }));
    }
    let second = walk.next(blob)?.ok_or("a field without its value")?;
    Ok(Some(match of {
        Of::Scores | Of::ScoresText => match second {
            Entry::Integer(integer) => Found::Scored(first, integer as f64, None),
            Entry::Bytes(range) => {
                Found::Scored(first, score_of(&blob[range.clone()])?, Some(Piece::Blob(range)))
            }
        },
        Of::HashExpiries(before) => {
            let second = piece(second, two, 1);
            let expiry = match walk.next(blob)? {
                Some(Entry::Integer(expiry)) => field_expiry(expiry as u64)?,
                _ => return Err("a field's expiry is no number".into()),
            };
            // None counts as the last of all.
            let rank = if expiry == 0 { u64::MAX } else { expiry };
            if rank < std::mem::replace(before, rank) {
                return Err("the expiries of fields are not in order".into());
            }
            Found::Field(first, second, (expiry != 0).then_some(expiry))
        }
        _ => Found::Field(first, piece(second, two, 1), None),
    }))
}

/// The number that a score's text is.
fn score_of(text: &[u8]) -> Step<f64> {
    let score = std::str::from_utf8(text).ok().and_then(|text| text.trim_ascii().parse().ok());
    number(score.ok_or("a score is not a number")?)
}

fn number(score: f64) -> Step<f64> {
    if score.is_nan() { Err("a score is not a number".into()) } else { Ok(score) }
}

/// Takes one part of a module's value. Returns whether it was the last.
fn module_part(cursor: &mut Cursor<'_>) -> Step<bool> {
    let bytes = match cursor.count()? {
        0 => return Ok(true),
        1 | 2 => {
            cursor.count()?;
            0
        }
        3 => 4,
        4 => 8,
        5 => {
            cursor.skip_string()?;
            0
        }
        _ => return Err("a module's value has a part of an unknown form".into()),
    };
    cursor.take(bytes)?;
    Ok(false)
}

/// The nine letters that a module's number stands for.
fn module_name(number: u64) -> [u8; 9] {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::array::from_fn(|at| LETTERS[(number >> (58 - 6 * at)) as usize & 0x3f])
}
