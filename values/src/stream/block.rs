//! Blocks: entries side by side, each said by what it differs in from the one before.
//!
//! ```text
//! OFFSET  SIZE  WHAT
//!      0    16  the first entry's id: milliseconds and number, high bytes first, so that blocks sort as their bytes do
//!     16    16  the last entry's id
//!     32     1  entries
//!     33     -  the entries
//!
//! an entry      1  low half: the schema its fields follow, 15: they stand here; high half: its id (not of the first one)
//!                    0        the milliseconds of the one before, the next number
//!                    1 to 13  this many milliseconds later, number 0
//!                    14       the milliseconds of the one before, and a distance of numbers follows
//!                    15       a distance of milliseconds and a number follow
//!               -  with a schema: the values. Without: how many pairs, then field and value of each
//! ```
//! Numbers are LEB128; a string is its length and its bytes. A schema is a list of fields that many entries share; the stream keeps
//! up to fifteen of them, one after the other: how many fields, then each.
use std::borrow::Cow;

use polder_base::Fault;

use super::Id;

/// A block gets no more entries that would make it longer than this: two of them fill a leaf.
pub const BLOCK_MAX: usize = 505;

/// A block gets no more entries than this, since it is read from its beginning.
const ENTRIES_MAX: usize = 64;

/// Bytes of a block before its entries.
pub const HEAD: usize = 33;

/// What a block begins with.
pub type Beginning = [u8; HEAD];

/// Where the last entry's id stands.
const LAST: usize = 16;

/// Schemas of a stream, and the bytes that they may take in all.
const SCHEMAS_MAX: usize = 15;
const SCHEMA_BYTES_MAX: usize = 1024;

/// Says that the fields stand with the entry.
const OWN: u8 = 15;

const DAMAGED: Fault = Fault::Damaged { what: "a block of a stream" };

/// Bytes that are read from their beginning to their end.
#[derive(Clone, Copy)]
pub struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    pub fn take(&mut self, len: usize) -> Result<&'b [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(DAMAGED)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn number(&mut self) -> Result<u64, Fault> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DAMAGED);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DAMAGED)
    }

    fn string(&mut self) -> Result<&'b [u8], Fault> {
        let len = self.number()?;
        self.take(usize::try_from(len).map_err(|_| DAMAGED)?)
    }
}

/// Appends a number.
pub fn write_number(target: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        target.push(number as u8 | 0x80);
        number >>= 7;
    }
    target.push(number as u8);
}

fn write_string(target: &mut Vec<u8>, bytes: &[u8]) {
    write_number(target, bytes.len() as u64);
    target.extend_from_slice(bytes);
}

/// Fields that entries share.
#[derive(Clone, Copy, Default)]
struct Schema<'b> {
    count: usize,
    fields: &'b [u8],
}

/// The schemas of a stream.
pub struct Schemas<'b> {
    all: [Schema<'b>; SCHEMAS_MAX],
    count: usize,
}

impl<'b> Schemas<'b> {
    /// The schemas that these bytes are.
    pub fn read(bytes: &'b [u8]) -> Result<Schemas<'b>, Fault> {
        let (mut schemas, mut reader) = (Schemas { all: Default::default(), count: 0 }, Reader(bytes));
        while !reader.0.is_empty() {
            let count = usize::try_from(reader.number()?).map_err(|_| DAMAGED)?;
            let all = reader.0;
            for _ in 0..count {
                reader.string()?;
            }
            if count == 0 || schemas.count == SCHEMAS_MAX {
                return Err(DAMAGED);
            }
            schemas.all[schemas.count] = Schema { count, fields: &all[..all.len() - reader.0.len()] };
            schemas.count += 1;
        }
        Ok(schemas)
    }

    fn get(&self, number: u8) -> Result<Schema<'b>, Fault> {
        self.all[..self.count].get(usize::from(number)).copied().ok_or(DAMAGED)
    }
}

/// The number of the schema of fields and values in turn, if there is one; else how many others there are.
fn schema_of(bytes: &[u8], pairs: &[&[u8]]) -> Result<Result<u8, u8>, Fault> {
    let mut reader = Reader(bytes);
    for number in 0..=SCHEMAS_MAX as u8 {
        if reader.0.is_empty() {
            return Ok(Err(number));
        }
        let count = reader.number()?;
        let mut fits = count == pairs.len() as u64 / 2;
        for at in 0..count {
            let field = reader.string()?;
            fits = fits && pairs[at as usize * 2] == field;
        }
        if fits {
            return Ok(Ok(number));
        }
    }
    Err(DAMAGED)
}

/// The schema and the body of an entry; if its fields make a new schema that pays, `schemas` is longer by that.
pub fn body(schemas: &mut Cow<'_, [u8]>, pairs: &[&[u8]]) -> Result<(u8, Vec<u8>), Fault> {
    let schema = match schema_of(schemas, pairs)? {
        Ok(known) => Some(known),
        Err(count) => {
            let bytes: usize = pairs.iter().step_by(2).map(|field| field.len() + 3).sum();
            let pays = usize::from(count) < SCHEMAS_MAX && schemas.len() + bytes + 2 <= SCHEMA_BYTES_MAX;
            if pays {
                let schemas = schemas.to_mut();
                write_number(schemas, pairs.len() as u64 / 2);
                pairs.iter().step_by(2).for_each(|field| write_string(schemas, field));
            }
            pays.then_some(count)
        }
    };
    let mut body = Vec::with_capacity(pairs.iter().map(|bytes| bytes.len() + 2).sum::<usize>() + 8);
    if schema.is_none() {
        write_number(&mut body, pairs.len() as u64 / 2);
    }
    let (first, step) = if schema.is_some() { (1, 2) } else { (0, 1) };
    pairs.iter().skip(first).step_by(step).for_each(|bytes| write_string(&mut body, bytes));
    Ok((schema.unwrap_or(OWN), body))
}

/// One entry of a block.
#[derive(Clone, Copy)]
pub struct Entry<'b> {
    pub id: Id,
    count: usize,
    schema: u8,
    /// The schema's fields; empty where they are the entry's own.
    fields: &'b [u8],
    body: &'b [u8],
}

impl<'b> Entry<'b> {
    /// How many pairs of field and value there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no pair; no such entry is ever made.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its fields with their values, in their order.
    pub fn pairs(&self) -> Pairs<'b> {
        let mut values = Reader(self.body);
        if self.schema == OWN {
            // It was read when the entry was.
            let _ = values.number();
        }
        Pairs { left: self.count, fields: (self.schema != OWN).then_some(Reader(self.fields)), values }
    }
}

/// See [`Entry::pairs`].
pub struct Pairs<'b> {
    left: usize,
    fields: Option<Reader<'b>>,
    values: Reader<'b>,
}

impl<'b> Iterator for Pairs<'b> {
    type Item = (&'b [u8], &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = self.fields.as_mut().unwrap_or(&mut self.values).string();
        // The code that made this entry has read all of it.
        Some((field.ok()?, self.values.string().ok()?))
    }
}

/// The first id of a block, by the bytes that it begins with.
pub fn first_id(block: &[u8]) -> Id {
    let word =
        |at| block.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes);
    Id { ms: word(0), seq: word(8) }
}

/// The last id of a block, by the bytes that it begins with.
pub fn last_id(block: &[u8]) -> Id {
    first_id(block.get(LAST..).unwrap_or_default())
}

/// How many entries a block has, by the bytes that it begins with.
pub fn count(block: &[u8]) -> Result<u64, Fault> {
    match block.get(HEAD - 1) {
        Some(count @ 1..) => Ok((*count).into()),
        _ => Err(DAMAGED),
    }
}

/// The entries of a block, the first one first.
pub struct Entries<'b> {
    schemas: &'b Schemas<'b>,
    reader: Reader<'b>,
    /// The id of the one before.
    last: Id,
    /// What the block says is the last one's.
    end: Id,
    left: u64,
    first: bool,
}

impl<'b> Entries<'b> {
    pub fn of(block: &'b [u8], schemas: &'b Schemas<'b>) -> Result<Entries<'b>, Fault> {
        let (left, last, end) = (count(block)?, first_id(block), last_id(block));
        Ok(Entries { schemas, left, last, end, reader: Reader(&block[HEAD..]), first: true })
    }

    fn read(&mut self) -> Result<Entry<'b>, Fault> {
        let head = self.reader.take(1)?[0];
        let last = self.last;
        let (ms, seq) = match head >> 4 {
            0 if self.first => (Some(last.ms), Some(last.seq)),
            _ if self.first => return Err(DAMAGED),
            0 => (Some(last.ms), last.seq.checked_add(1)),
            14 => (Some(last.ms), last.seq.checked_add(self.reader.number()?)),
            15 => (last.ms.checked_add(self.reader.number()?), Some(self.reader.number()?)),
            later => (last.ms.checked_add(later.into()), Some(0)),
        };
        let id = Id { ms: ms.ok_or(DAMAGED)?, seq: seq.ok_or(DAMAGED)? };
        if !self.first && id <= last {
            return Err(DAMAGED);
        }
        let (schema, all) = (head & 15, self.reader.0);
        let (count, fields, strings) = if schema == OWN {
            let count = usize::try_from(self.reader.number()?)
                .ok()
                .filter(|count| *count <= all.len())
                .ok_or(DAMAGED)?;
            (count, &[][..], 2 * count)
        } else {
            let schema = self.schemas.get(schema)?;
            (schema.count, schema.fields, schema.count)
        };
        for _ in 0..strings {
            self.reader.string()?;
        }
        (self.first, self.last) = (false, id);
        Ok(Entry { id, count, schema, fields, body: &all[..all.len() - self.reader.0.len()] })
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = Result<Entry<'b>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.read();
        let damaged =
            entry.is_err() || self.left == 0 && (!self.reader.0.is_empty() || self.last != self.end);
        if damaged {
            self.left = 0;
            return Some(Err(DAMAGED));
        }
        Some(entry)
    }
}

/// The first bytes of an entry: how its id differs from the one before.
#[derive(Default)]
pub struct Step {
    bytes: [u8; 21],
    len: usize,
}

impl Step {
    fn of(last: Id, id: Id, schema: u8) -> Step {
        let mut step = Step::default();
        match (id.ms - last.ms, id.seq) {
            (0, seq) if seq - last.seq == 1 => step.push(schema),
            (0, seq) => {
                step.push(14 << 4 | schema);
                step.push_number(seq - last.seq);
            }
            (later @ 1..=13, 0) => step.push((later as u8) << 4 | schema),
            (later, seq) => {
                step.push(15 << 4 | schema);
                step.push_number(later);
                step.push_number(seq);
            }
        }
        step
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    fn push_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What one more entry makes of a block of `len` bytes: its new beginning, and what stands between its last entry and the new one's
/// body. None where it would be too long.
pub fn lengthened(
    beginning: &Beginning,
    len: usize,
    id: Id,
    schema: u8,
    body: &[u8],
) -> Option<(Beginning, Step)> {
    if usize::from(beginning[HEAD - 1]) >= ENTRIES_MAX || len + 1 + body.len() > BLOCK_MAX {
        return None;
    }
    let step = Step::of(last_id(beginning), id, schema);
    let mut beginning = *beginning;
    beginning[LAST..HEAD - 1].copy_from_slice(&id.bytes());
    beginning[HEAD - 1] += 1;
    (len + step.len + body.len() <= BLOCK_MAX).then_some((beginning, step))
}

/// A block of one entry, before its body.
pub fn begun(id: Id, schema: u8) -> [u8; HEAD + 1] {
    let mut bytes = [0; HEAD + 1];
    bytes[..LAST].copy_from_slice(&id.bytes());
    bytes[LAST..HEAD - 1].copy_from_slice(&id.bytes());
    bytes[HEAD - 1..].copy_from_slice(&[1, schema]);
    bytes
}

/// A block that is being written.
#[derive(Default)]
pub struct Writer {
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Adds an entry. Returns false, having added nothing, if the block would be too long. A first
    /// one always finds room.
    pub fn push(&mut self, id: Id, schema: u8, body: &[u8]) -> bool {
        match self.bytes.first_chunk::<HEAD>() {
            None => self.bytes.extend_from_slice(&begun(id, schema)),
            Some(beginning) => {
                let Some((beginning, step)) = lengthened(beginning, self.bytes.len(), id, schema, body)
                else {
                    return false;
                };
                self.bytes[..HEAD].copy_from_slice(&beginning);
                self.bytes.extend_from_slice(step.bytes());
            }
        }
        self.bytes.extend_from_slice(body);
        true
    }

    /// Adds an entry of another block of the same stream; as [`Writer::push`].
    pub fn push_entry(&mut self, entry: &Entry<'_>) -> bool {
        self.push(entry.id, entry.schema, entry.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let ids = [
            (5, 0),
            (5, 1),
            (5, 9),
            (6, 0),
            (19, 0),
            (19, 1),
            (19, u64::MAX),
            (20, 5),
            (1 << 60, 7),
            (u64::MAX, u64::MAX),
        ];
        let (mut schemas, mut writer) = (Cow::default(), Writer::default());
        let pairs: Vec<Vec<&[u8]>> = (0..ids.len())
            .map(|at| if at % 3 == 2 { vec![&b"x"[..], b"", b"y", b"2"] } else { vec![&b"f"[..], b"value"] })
            .collect();
        for (id, pairs) in ids.iter().zip(&pairs) {
            let (schema, body) = body(&mut schemas, pairs).unwrap();
            assert!(writer.push(Id { ms: id.0, seq: id.1 }, schema, &body));
        }
        let schemas = Schemas::read(&schemas).unwrap();
        assert_eq!(schemas.count, 2);
        for (entry, (id, pairs)) in Entries::of(&writer.bytes, &schemas).unwrap().zip(ids.iter().zip(&pairs))
        {
            let entry = entry.unwrap();
            assert_eq!((entry.id.ms, entry.id.seq), *id);
            assert_eq!(entry.pairs().flat_map(|(field, value)| [field, value]).collect::<Vec<_>>(), *pairs);
        }
    }

    #[test]
    fn more_than_fifteen_schemas_stand_with_their_entries() {
        let mut schemas = Cow::default();
        for number in 0..20u8 {
            let field = [b'f', number];
            let (schema, _) = body(&mut schemas, &[&field, b"v"]).unwrap();
            assert_eq!(schema, number.min(OWN));
        }
        let long = vec![b'l'; 2000];
        assert_eq!(body(&mut Cow::default(), &[&long, b"v"]).unwrap().0, OWN);
    }

    #[test]
    fn any_bytes_are_endured() {
        let mut state = 7u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        for round in 0..20_000 {
            let bytes: Vec<u8> =
                (0..round % 60).map(|_| next() & if round % 2 == 0 { 0xff } else { 0x1f }).collect();
            let (first, second) = bytes.split_at(bytes.len() / 3);
            let Ok(schemas) = Schemas::read(first) else { continue };
            if let Ok(entries) = Entries::of(second, &schemas) {
                entries.flatten().for_each(|entry| assert!(entry.pairs().count() <= entry.len()));
            }
        }
    }
}
