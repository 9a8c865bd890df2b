//! Writing: the same things that a reader hands out, as bytes.
//!
//! Which form a value gets shows only when its elements have come: small collections are held back ([`pack`](super::pack)).
//! Lists and streams are chains of nodes whose number stands before the first one. The caller that
//! writes one walks it twice, first for its plan.
use polder_base::number;

use super::crc::Checksum;
use super::lzf::Compressor;
use super::pack::{Held, Thresholds};
use super::packed::{Listpack, entry_bytes};
use super::{Id, Production, StreamFacts, VALKEY, code, kind, payload};

/// Which version is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// The lowest that can hold what comes: 10, or 12 once a hash has expiries of fields, 13 once a stream has producers, 14 once
    /// an entry of a stream was given back, or there is an array.
    #[default]
    Lowest,
    /// 10 to 14, or 80.
    Fixed(u32),
}

/// Parts of a stream that not every version can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamNeeds {
    /// Producers that send entries again. A version that does not know them leaves them out.
    pub production: bool,
    /// Entries that were given back. A version that does not know them has a consumer without a name that owns them.
    pub released: bool,
}

/// The pairs of a stream's entry.
pub type Pairs<'a> = &'a [(&'a [u8], &'a [u8])];

/// Bytes of one node of a list, and of a stream.
const LIST_NODE: usize = 8 << 10;
const STREAM_NODE: usize = 4 << 10;
const STREAM_ENTRIES: usize = 100;

/// The lowest version that is written.
const VERSION_MIN: u32 = 10;

/// From this length on an element is a node of its own, not packed.
const PLAIN_MIN: usize = 1 << 30;

/// How many nodes a list takes; the writer follows the same plan.
#[derive(Default)]
pub struct ListPlan {
    nodes: u64,
    bytes: usize,
    is_open: bool,
}

impl ListPlan {
    /// Counts an element. Returns whether it begins a node.
    pub fn add(&mut self, element: &[u8]) -> bool {
        let (size, is_plain) = (entry_bytes(element), element.len() >= PLAIN_MIN);
        let begins = !self.is_open || is_plain || self.bytes + size > LIST_NODE;
        if begins {
            (self.nodes, self.bytes) = (self.nodes + 1, 0);
        }
        self.bytes += size;
        self.is_open = !is_plain;
        begins
    }

    pub fn nodes(&self) -> u64 {
        self.nodes
    }
}

/// How many nodes a stream takes; the writer follows the same plan.
#[derive(Default)]
pub struct StreamPlan {
    nodes: u64,
    entries: usize,
    bytes: usize,
}

impl StreamPlan {
    /// Counts an entry whose fields and values have `bytes` bytes. Returns whether it begins a
    /// node.
    pub fn add(&mut self, bytes: usize) -> bool {
        let begins = self.nodes == 0 || self.entries == STREAM_ENTRIES || self.bytes + bytes > STREAM_NODE;
        if begins {
            (self.nodes, self.entries, self.bytes) = (self.nodes + 1, 0, 0);
        }
        self.entries += 1;
        self.bytes += bytes;
        begins
    }

    pub fn nodes(&self) -> u64 {
        self.nodes
    }
}

/// How the current value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shape {
    /// Each element as it comes.
    Plain,
    /// As plain, each field of a hash with its expiry.
    Expiries {
        least: u64,
    },
    /// Held back, members of a set that have all been integers.
    Integers {
        count: u64,
    },
    /// Held back; written as `packed`, or as `plain` when an element is too long.
    Packed {
        packed: u8,
        plain: u8,
        count: u64,
    },
    List,
    Stream,
}

/// Writes values, or a whole file, into a buffer that its owner empties.
pub struct Writer {
    form: Form,
    compresses: bool,
    thresholds: Thresholds,
    out: Vec<u8>,
    /// The key of the current value, as it is written behind its type.
    key: Vec<u8>,
    shape: Shape,
    held: Held,
    list: ListPlan,
    stream: StreamPlan,
    /// The number of the current stream's type.
    stream_kind: u8,
    /// The first id and the fields of a stream's node, and how many entries it has.
    master: (Id, Vec<Vec<u8>>, i64),
    blob: Vec<u8>,
    compressor: Compressor,
    /// The version that what has come needs at least.
    needed: u32,
    /// The sum of all behind the first line.
    sum: Option<Checksum>,
    /// The bytes of `out` that are in the sum.
    summed: usize,
}

impl Writer {
    pub fn new(form: Form, compresses: bool, thresholds: Thresholds) -> Writer {
        Writer {
            form,
            compresses,
            thresholds,
            out: Vec::new(),
            key: Vec::new(),
            shape: Shape::Plain,
            held: Held::default(),
            list: ListPlan::default(),
            stream: StreamPlan::default(),
            stream_kind: 0,
            master: Default::default(),
            blob: Vec::new(),
            compressor: Compressor::default(),
            needed: VERSION_MIN,
            sum: None,
            summed: 0,
        }
    }

    /// What has been written since it was last [`Writer::taken`].
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// Forgets what the owner has taken.
    pub fn taken(&mut self) {
        self.add_to_sum();
        self.out.clear();
        self.summed = 0;
    }

    fn add_to_sum(&mut self) {
        if let Some(sum) = &mut self.sum {
            sum.update(&self.out[self.summed..]);
        }
        self.summed = self.out.len();
    }

    /// Whether expiries of fields can be written.
    pub fn holds_field_expiries(&self) -> bool {
        !matches!(self.form, Form::Fixed(..=11))
    }

    fn version(&self) -> u32 {
        match self.form {
            Form::Fixed(version) => version,
            Form::Lowest => self.needed,
        }
    }

    /// Notes that a value needs this version, if it is not settled which one is written.
    fn need(&mut self, version: u32) {
        self.needed = self.needed.max(version);
    }

    /// Returns true if Redis's form of this version can be written.
    fn can_be(&self, version: u32) -> bool {
        match self.form {
            Form::Fixed(fixed) => (version..VALKEY).contains(&fixed),
            Form::Lowest => true,
        }
    }

    /// The payload of the one value that was written.
    pub fn seal(mut self) -> Vec<u8> {
        payload::seal(self.version(), &mut self.out);
        self.out
    }

    // --- a file

    /// The first line. `sums`: a checksum will stand at the end.
    pub fn begin_file(&mut self, sums: bool) {
        let line = magic(self.version());
        // Until the end it is open which line it has: the sum begins behind it.
        self.sum = sums.then(Checksum::default);
        self.out.extend_from_slice(&line);
        self.summed = self.out.len();
    }

    /// The end. Returns the line with which the file must begin, if it is not the one that was
    /// written.
    pub fn end_file(&mut self) -> Option<[u8; 9]> {
        self.out.push(code::EOF);
        let line = magic(self.version());
        self.add_to_sum();
        let sum = self.sum.take().map_or(0, |sum| sum.behind(&line));
        self.out.extend_from_slice(&sum.to_le_bytes());
        (self.form == Form::Lowest && self.needed > VERSION_MIN).then_some(line)
    }

    pub fn aux(&mut self, name: &[u8], value: &[u8]) {
        self.out.push(code::AUX);
        self.string(name);
        self.string(value);
    }

    pub fn database(&mut self, number: u64) {
        self.out.push(code::DATABASE);
        length(&mut self.out, number);
    }

    pub fn sizes(&mut self, keys: u64, expiries: u64) {
        self.out.push(code::SIZES);
        length(&mut self.out, keys);
        length(&mut self.out, expiries);
    }

    pub fn functions(&mut self, source: &[u8]) {
        self.out.push(code::FUNCTIONS);
        self.string(source);
    }

    /// The key whose value comes next. A payload has none.
    pub fn key(
        &mut self,
        key: &[u8],
        expiry_ms: Option<u64>,
        idle_seconds: Option<u64>,
        frequency: Option<u8>,
    ) {
        if let Some(expiry_ms) = expiry_ms {
            self.out.push(code::EXPIRY_MS);
            self.out.extend_from_slice(&expiry_ms.to_le_bytes());
        }
        if let Some(idle) = idle_seconds {
            self.out.push(code::IDLE);
            length(&mut self.out, idle);
        }
        if let Some(frequency) = frequency {
            self.out.extend_from_slice(&[code::FREQUENCY, frequency]);
        }
        self.key.clear();
        save(&mut self.key, &mut self.compressor, self.compresses, key);
    }

    /// A value as a payload holds it, of a version that this file can hold.
    pub fn payload(&mut self, body: &[u8]) {
        if let Some((kind, value)) = body.split_first() {
            self.start(*kind);
            self.out.extend_from_slice(value);
        }
    }

    /// Bytes that stand in a file as they are, such as FUNCTION DUMP's.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    // --- parts

    fn string(&mut self, bytes: &[u8]) {
        save(&mut self.out, &mut self.compressor, self.compresses, bytes);
    }

    fn start(&mut self, kind: u8) {
        self.out.push(kind);
        self.out.extend_from_slice(&self.key);
        self.key.clear();
    }

    fn start_counted(&mut self, kind: u8, count: u64) {
        self.start(kind);
        length(&mut self.out, count);
        self.shape = Shape::Plain;
    }

    /// Holds elements back if they are few, else begins to write them.
    fn start_held(&mut self, packed: u8, plain: u8, count: u64, (entries, value): (u64, u64)) {
        self.held.clear(value);
        if count > 0 && count <= entries {
            self.shape = Shape::Packed { packed, plain, count };
        } else {
            self.start_counted(plain, count);
        }
    }

    /// What was held back is not small after all.
    fn let_go(&mut self, plain: u8, count: u64) {
        self.start_counted(plain, count);
        let mut held = std::mem::take(&mut self.held);
        let (scores, mut at) = (std::mem::take(&mut held.scores), 0);
        held.release(&mut |element| {
            // Every second string of a sorted set is a score.
            if plain == kind::SCORES && at % 2 == 1 {
                self.out.extend_from_slice(&scores[at / 2].to_le_bytes());
            } else {
                self.string(element);
            }
            at += 1;
        });
        self.held = held;
    }

    /// Ends the current value.
    pub fn end(&mut self) {
        match self.shape {
            Shape::Plain | Shape::Expiries { .. } | Shape::Stream => {}
            Shape::Integers { .. } => {
                self.start(kind::SET_INTSET);
                self.held.intset(&mut self.blob);
                save(&mut self.out, &mut self.compressor, self.compresses, &self.blob);
            }
            Shape::Packed { packed, .. } => {
                self.start(packed);
                self.held.pack.finish(None, &mut self.blob);
                save(&mut self.out, &mut self.compressor, self.compresses, &self.blob);
            }
            Shape::List => self.end_list_node(),
        }
        self.shape = Shape::Plain;
    }

    // --- strings

    /// A string, whole.
    pub fn text(&mut self, bytes: &[u8]) {
        self.start(kind::STRING);
        self.string(bytes);
    }

    /// A string that comes in pieces whose lengths add up to `len`; it is not compressed.
    pub fn begin_text(&mut self, len: u64) {
        self.start(kind::STRING);
        length(&mut self.out, len);
    }

    pub fn piece(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    // --- collections

    /// A list of `nodes` nodes ([`ListPlan`]).
    pub fn begin_list(&mut self, nodes: u64) {
        self.start(kind::QUICKLIST_2);
        length(&mut self.out, nodes);
        self.held.clear(0);
        (self.shape, self.list) = (Shape::List, ListPlan::default());
    }

    pub fn element(&mut self, element: &[u8]) {
        if self.list.add(element) {
            self.end_list_node();
        }
        if element.len() >= PLAIN_MIN {
            length(&mut self.out, 1);
            self.string(element);
        } else {
            self.held.pack.push(element);
        }
    }

    fn end_list_node(&mut self) {
        if self.held.pack.count > 0 {
            length(&mut self.out, 2);
            self.held.pack.finish(None, &mut self.blob);
            save(&mut self.out, &mut self.compressor, self.compresses, &self.blob);
            self.held.pack.clear();
        }
    }

    pub fn begin_set(&mut self, count: u64) {
        if count > 0 && count <= self.thresholds.set_integers {
            self.held.clear(0);
            self.shape = Shape::Integers { count };
        } else {
            self.begin_mixed_set(count);
        }
    }

    /// A set that is not of integers only.
    fn begin_mixed_set(&mut self, count: u64) {
        // Version 10 has no listpack of members.
        let entries = if self.version() >= 11 { self.thresholds.set_entries } else { 0 };
        self.start_held(kind::SET_LISTPACK, kind::SET, count, (entries, self.thresholds.set_value));
    }

    pub fn member(&mut self, member: &[u8]) {
        match self.shape {
            Shape::Integers { count } if !self.held.take_integer(member) => {
                let integers = std::mem::take(&mut self.held.integers);
                self.begin_mixed_set(count);
                for number in integers {
                    self.member(itoa::Buffer::new().format(number).as_bytes());
                }
                self.member(member);
            }
            Shape::Integers { .. } => {}
            Shape::Packed { plain, count, .. } if !self.held.take(&[member]) => {
                self.let_go(plain, count);
                self.string(member);
            }
            Shape::Packed { .. } => {}
            _ => self.string(member),
        }
    }

    /// A hash; `least_expiry_ms` where some of its fields expire. Without it, expiries are left out.
    pub fn begin_hash(&mut self, count: u64, least_expiry_ms: Option<u64>) {
        let Some(least) = least_expiry_ms else {
            let most = (self.thresholds.hash_entries, self.thresholds.hash_value);
            return self.start_held(kind::HASH_LISTPACK, kind::HASH, count, most);
        };
        self.need(12);
        if self.version() >= VALKEY {
            self.start(kind::HASH_VALKEY);
        } else {
            self.start(kind::HASH_EXPIRIES);
            self.out.extend_from_slice(&least.to_le_bytes());
        }
        length(&mut self.out, count);
        self.shape = Shape::Expiries { least };
    }

    pub fn field(&mut self, field: &[u8], value: &[u8], expiry_ms: Option<u64>) {
        match self.shape {
            Shape::Packed { plain, count, .. } => {
                if self.held.take(&[field, value]) {
                    return;
                }
                self.let_go(plain, count);
            }
            Shape::Expiries { least } if self.version() < VALKEY => {
                length(
                    &mut self.out,
                    expiry_ms.map_or(0, |expiry_ms| expiry_ms.saturating_sub(least).saturating_add(1)),
                );
            }
            _ => {}
        }
        self.string(field);
        self.string(value);
        if matches!(self.shape, Shape::Expiries { .. }) && self.version() >= VALKEY {
            self.out.extend_from_slice(&expiry_ms.map_or(-1, |expiry_ms| expiry_ms as i64).to_le_bytes());
        }
    }

    /// A sorted set, whose members come in its order.
    pub fn begin_sorted_set(&mut self, count: u64) {
        let most = (self.thresholds.scores_entries, self.thresholds.scores_value);
        self.start_held(kind::SCORES_LISTPACK, kind::SCORES, count, most);
    }

    /// A member; a small set keeps the score's text, if it is a finite number's in plain notation.
    pub fn scored(&mut self, member: &[u8], score: f64, text: Option<&[u8]>) {
        if let Shape::Packed { plain, count, .. } = self.shape {
            let own = number::double_text(score);
            if self.held.take_scored(member, score, text.unwrap_or(own.as_bytes())) {
                return;
            }
            self.let_go(plain, count);
        }
        self.string(member);
        self.out.extend_from_slice(&score.to_le_bytes());
    }

    // --- streams

    /// A stream of `nodes` nodes ([`StreamPlan`]).
    pub fn begin_stream(&mut self, nodes: u64, needs: StreamNeeds) {
        let number = if needs.released && self.can_be(14) {
            self.need(14);
            kind::STREAM_5
        } else if needs.production && self.can_be(13) {
            self.need(13);
            kind::STREAM_4
        } else if self.version() >= 11 {
            kind::STREAM_3
        } else {
            kind::STREAM_2
        };
        self.stream_kind = number;
        self.start(number);
        length(&mut self.out, nodes);
        self.held.clear(0);
        self.master = Default::default();
        (self.shape, self.stream) = (Shape::Stream, StreamPlan::default());
    }

    pub fn entry(&mut self, id: Id, pairs: Pairs<'_>) {
        let bytes = pairs.iter().map(|(field, value)| field.len() + value.len()).sum();
        if self.stream.add(bytes) {
            self.end_stream_node();
            self.master = (id, pairs.iter().map(|(field, _)| field.to_vec()).collect(), 0);
        }
        let (first, fields, count) = &mut self.master;
        *count += 1;
        let pack = &mut self.held.pack;
        let is_same =
            fields.len() == pairs.len() && fields.iter().zip(pairs).all(|(own, (field, _))| own == field);
        pack.push_integer(if is_same { 2 } else { 0 });
        pack.push_integer(id.ms.wrapping_sub(first.ms) as i64);
        pack.push_integer(id.sequence.wrapping_sub(first.sequence) as i64);
        if !is_same {
            pack.push_integer(pairs.len() as i64);
        }
        for (field, value) in pairs {
            if !is_same {
                pack.push(field);
            }
            pack.push(value);
        }
        let each = if is_same { 1 } else { 2 };
        pack.push_integer((pairs.len() * each + if is_same { 3 } else { 4 }) as i64);
    }

    fn end_stream_node(&mut self) {
        let (first, fields, count) = &self.master;
        if *count == 0 {
            return;
        }
        let mut master = Listpack::default();
        master.push_integer(*count);
        master.push_integer(0);
        master.push_integer(fields.len() as i64);
        fields.iter().for_each(|field| master.push(field));
        master.push_integer(0);
        length(&mut self.out, 16);
        raw_id(&mut self.out, *first);
        self.held.pack.finish(Some(&master), &mut self.blob);
        save(&mut self.out, &mut self.compressor, self.compresses, &self.blob);
        self.held.pack.clear();
        self.master.2 = 0;
    }

    /// The stream's facts and how many groups follow, after all entries.
    pub fn facts(&mut self, facts: &StreamFacts, groups: u64) {
        self.end_stream_node();
        length(&mut self.out, facts.length);
        self.id(facts.last);
        self.id(facts.first.unwrap_or_default());
        self.id(facts.deleted);
        length(&mut self.out, facts.added);
        length(&mut self.out, groups);
    }

    /// A group with `pending` pending entries.
    pub fn group(&mut self, name: &[u8], last: Id, read: Option<u64>, pending: u64) {
        self.string(name);
        self.id(last);
        length(&mut self.out, read.unwrap_or(u64::MAX));
        length(&mut self.out, pending);
    }

    pub fn pending(&mut self, id: Id, delivered_ms: u64, deliveries: u64) {
        raw_id(&mut self.out, id);
        self.out.extend_from_slice(&delivered_ms.to_le_bytes());
        length(&mut self.out, deliveries);
    }

    /// How many consumers the group has, after what is pending.
    pub fn consumers(&mut self, count: u64) {
        length(&mut self.out, count);
    }

    /// A consumer that owns `owned` of the pending entries. Only version 11 and later know when it
    /// was last given something.
    pub fn consumer(&mut self, name: &[u8], seen_ms: u64, active_ms: Option<u64>, owned: u64) {
        self.string(name);
        self.out.extend_from_slice(&seen_ms.to_le_bytes());
        if self.stream_kind >= kind::STREAM_3 {
            self.out.extend_from_slice(&active_ms.map_or(-1, |active_ms| active_ms as i64).to_le_bytes());
        }
        length(&mut self.out, owned);
    }

    pub fn owned(&mut self, id: Id) {
        raw_id(&mut self.out, id);
    }

    /// Returns true if entries that were given back can be written.
    pub fn holds_released(&self) -> bool {
        self.can_be(14)
    }

    /// The number of entries of the group that were given back, after its consumers; those follow as [`Writer::owned`] ones.
    pub fn released(&mut self, count: u64) {
        if self.stream_kind >= kind::STREAM_5 {
            length(&mut self.out, count);
        }
    }

    /// Begins a stream's producers, of whom there are that many, after its groups.
    pub fn production(&mut self, production: &Production, producers: u64) {
        if self.stream_kind >= kind::STREAM_4 {
            [production.duration_s, production.ids_max, producers]
                .into_iter()
                .for_each(|number| length(&mut self.out, number));
        }
    }

    /// A producer that knows `count` entries by its own ids.
    pub fn producer(&mut self, name: &[u8], count: u64) {
        if self.stream_kind >= kind::STREAM_4 {
            self.string(name);
            length(&mut self.out, count);
        }
    }

    /// An entry that the producer knows by its own id.
    pub fn produced(&mut self, iid: &[u8], id: Id) {
        if self.stream_kind >= kind::STREAM_4 {
            self.string(iid);
            self.id(id);
        }
    }

    /// Ends the producers.
    pub fn end_production(&mut self, production: &Production) {
        if self.stream_kind >= kind::STREAM_4 {
            length(&mut self.out, production.added);
            length(&mut self.out, production.duplicates);
        }
    }

    /// Returns true if arrays can be written.
    pub fn holds_arrays(&self) -> bool {
        self.can_be(14)
    }

    /// An array of `count` values, and the index at which was inserted last.
    pub fn begin_array(&mut self, count: u64, cursor: Option<u64>) {
        self.need(14);
        self.start_counted(kind::ARRAY, count);
        length(&mut self.out, u64::from(cursor.is_some()));
        if let Some(cursor) = cursor {
            length(&mut self.out, cursor);
        }
    }

    pub fn indexed(&mut self, index: u64, value: &[u8]) {
        length(&mut self.out, index);
        // A short string has a form of its own.
        length(&mut self.out, if value.len() <= 7 { 3 } else { 0 });
        self.string(value);
    }

    fn id(&mut self, id: Id) {
        length(&mut self.out, id.ms);
        length(&mut self.out, id.sequence);
    }
}

/// The first line of a file.
fn magic(version: u32) -> [u8; 9] {
    let line = if version >= VALKEY { format!("VALKEY{version:03}") } else { format!("REDIS{version:04}") };
    line.into_bytes().try_into().expect("nine letters")
}

fn raw_id(out: &mut Vec<u8>, id: Id) {
    out.extend_from_slice(&id.ms.to_be_bytes());
    out.extend_from_slice(&id.sequence.to_be_bytes());
}

fn length(out: &mut Vec<u8>, count: u64) {
    match count {
        0..=0x3f => out.push(count as u8),
        0x40..=0x3fff => out.extend_from_slice(&[0x40 | (count >> 8) as u8, count as u8]),
        0x4000..=0xffff_ffff => {
            out.push(0x80);
            out.extend_from_slice(&(count as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&count.to_be_bytes());
        }
    }
}

/// A string in the smallest of its forms: an integer, compressed, as it is.
fn save(out: &mut Vec<u8>, compressor: &mut Compressor, compresses: bool, bytes: &[u8]) {
    if bytes.len() <= 11
        && let Some(number) = number::integer(bytes).and_then(|number| i32::try_from(number).ok())
    {
        let width = match number {
            -0x80..=0x7f => 1,
            -0x8000..=0x7fff => 2,
            _ => 4,
        };
        out.push(0xc0 | (width / 2) as u8);
        out.extend_from_slice(&number.to_le_bytes()[..width]);
        return;
    }
    if compresses
        && bytes.len() > 20
        && let Some(small) = compressor.compress(bytes)
    {
        out.push(0xc3);
        length(out, small.len() as u64);
        length(out, bytes.len() as u64);
        out.extend_from_slice(small);
        return;
    }
    length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
