//! Values as a row of events, for those that write them down: an RDB file ([`rdb::Writer`]), or the commands that make them again
//! ([`CommandWriter`]), as in the base of an append-only log that is written without RDB.
//!
//! ```text
//!   key, begin_hash, field, field, ..., end     -->     HSET key field value field value, PEXPIREAT key ms
//! ```
use std::collections::BTreeMap;

use polder_base::aside::{CALL, frame};
use polder_base::number::double_text;

use crate::rdb::{self, Id, Pairs, Production, StreamFacts, StreamNeeds};
use crate::resp::command;

/// Elements that one command names at most, as in the logs of Redis, and the bytes after which it names no more.
const ELEMENTS_MAX: usize = 64;
const BYTES_MAX: usize = 64 << 10;

/// Hears of one value after another. Each event but `piece` is whole.
pub trait ValueWriter {
    /// The bytes that have been written since they were last [taken](ValueWriter::taken).
    fn bytes(&self) -> &[u8];
    /// Forgets what the owner has taken.
    fn taken(&mut self);
    /// Returns true if expiries of fields can be written.
    fn holds_field_expiries(&self) -> bool;
    /// Ends a value.
    fn end(&mut self);

    fn text(&mut self, bytes: &[u8]);
    fn begin_text(&mut self, len: u64);
    fn piece(&mut self, bytes: &[u8]);
    fn begin_list(&mut self, nodes: u64);
    fn element(&mut self, element: &[u8]);
    fn begin_set(&mut self, count: u64);
    fn member(&mut self, member: &[u8]);
    fn begin_hash(&mut self, count: u64, least_expiry_ms: Option<u64>);
    fn field(&mut self, field: &[u8], value: &[u8], expiry_ms: Option<u64>);
    fn begin_sorted_set(&mut self, count: u64);
    fn scored(&mut self, member: &[u8], score: f64, text: Option<&[u8]>);
    fn begin_stream(&mut self, nodes: u64, needs: StreamNeeds);
    fn entry(&mut self, id: Id, pairs: Pairs<'_>);
    fn facts(&mut self, facts: &StreamFacts, groups: u64);
    fn group(&mut self, name: &[u8], last: Id, read: Option<u64>, pending: u64);
    fn pending(&mut self, id: Id, delivered_ms: u64, deliveries: u64);
    fn consumers(&mut self, count: u64);
    fn consumer(&mut self, name: &[u8], seen_ms: u64, active_ms: Option<u64>, owned: u64);
    fn owned(&mut self, id: Id);
    /// Returns true if entries that were given back can be written; else a consumer without a name owns them.
    fn holds_released(&self) -> bool;
    fn released(&mut self, count: u64);
    fn production(&mut self, production: &Production, producers: u64);
    fn producer(&mut self, name: &[u8], count: u64);
    fn produced(&mut self, iid: &[u8], id: Id);
    fn end_production(&mut self, production: &Production);
    /// Returns true if arrays can be written.
    fn holds_arrays(&self) -> bool;
    fn begin_array(&mut self, count: u64, cursor: Option<u64>);
    fn indexed(&mut self, index: u64, value: &[u8]);
}

impl ValueWriter for rdb::Writer {
    fn bytes(&self) -> &[u8] {
        self.bytes()
    }
    fn taken(&mut self) {
        self.taken();
    }
    fn holds_field_expiries(&self) -> bool {
        self.holds_field_expiries()
    }
    fn end(&mut self) {
        self.end();
    }
    fn text(&mut self, bytes: &[u8]) {
        self.text(bytes);
    }
    fn begin_text(&mut self, len: u64) {
        self.begin_text(len);
    }
    fn piece(&mut self, bytes: &[u8]) {
        self.piece(bytes);
    }
    fn begin_list(&mut self, nodes: u64) {
        self.begin_list(nodes);
    }
    fn element(&mut self, element: &[u8]) {
        self.element(element);
    }
    fn begin_set(&mut self, count: u64) {
        self.begin_set(count);
    }
    fn member(&mut self, member: &[u8]) {
        self.member(member);
    }
    fn begin_hash(&mut self, count: u64, least_expiry_ms: Option<u64>) {
        self.begin_hash(count, least_expiry_ms);
    }
    fn field(&mut self, field: &[u8], value: &[u8], expiry_ms: Option<u64>) {
        self.field(field, value, expiry_ms);
    }
    fn begin_sorted_set(&mut self, count: u64) {
        self.begin_sorted_set(count);
    }
    fn scored(&mut self, member: &[u8], score: f64, text: Option<&[u8]>) {
        self.scored(member, score, text);
    }
    fn begin_stream(&mut self, nodes: u64, needs: StreamNeeds) {
        self.begin_stream(nodes, needs);
    }
    fn entry(&mut self, id: Id, pairs: Pairs<'_>) {
        self.entry(id, pairs);
    }
    fn facts(&mut self, facts: &StreamFacts, groups: u64) {
        self.facts(facts, groups);
    }
    fn group(&mut self, name: &[u8], last: Id, read: Option<u64>, pending: u64) {
        self.group(name, last, read, pending);
    }
    fn pending(&mut self, id: Id, delivered_ms: u64, deliveries: u64) {
        self.pending(id, delivered_ms, deliveries);
    }
    fn consumers(&mut self, count: u64) {
        self.consumers(count);
    }
    fn consumer(&mut self, name: &[u8], seen_ms: u64, active_ms: Option<u64>, owned: u64) {
        self.consumer(name, seen_ms, active_ms, owned);
    }
    fn owned(&mut self, id: Id) {
        self.owned(id);
    }
    fn holds_released(&self) -> bool {
        self.holds_released()
    }
    fn released(&mut self, count: u64) {
        self.released(count);
    }
    fn production(&mut self, production: &Production, producers: u64) {
        self.production(production, producers);
    }
    fn producer(&mut self, name: &[u8], count: u64) {
        self.producer(name, count);
    }
    fn produced(&mut self, iid: &[u8], id: Id) {
        self.produced(iid, id);
    }
    fn end_production(&mut self, production: &Production) {
        self.end_production(production);
    }
    fn holds_arrays(&self) -> bool {
        self.holds_arrays()
    }
    fn begin_array(&mut self, count: u64, cursor: Option<u64>) {
        self.begin_array(count, cursor);
    }
    fn indexed(&mut self, index: u64, value: &[u8]) {
        self.indexed(index, value);
    }
}

/// Writes the commands that make values again, as requests of RESP. A server that has none of the keys and executes them has the
/// same values, except for the times at which consumers of streams were seen.
#[derive(Default)]
pub struct CommandWriter {
    out: Vec<u8>,
    key: Vec<u8>,
    expiry_ms: Option<u64>,
    /// Name, key and elements of the command that is being gathered; their bytes, and the number of elements.
    words: Vec<Vec<u8>>,
    bytes: usize,
    elements: usize,
    /// The bytes of a string that are still to come.
    left: u64,
    /// A stream has entries; the group, its consumer, and what is pending: when it was delivered, and how often.
    has_entries: bool,
    group: Vec<u8>,
    consumer: Vec<u8>,
    /// The next entry was given back by its consumer.
    is_released: bool,
    /// The group has a consumer without a name.
    has_nameless: bool,
    producer: Vec<u8>,
    /// The cursor of an array, which is told behind its values.
    cursor: Option<u64>,
    pending: BTreeMap<Id, (u64, u64)>,
}

impl CommandWriter {
    /// Appends a line that is no request.
    pub fn line(&mut self, line: &str) {
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// Appends a request.
    pub fn command(&mut self, words: &[&[u8]]) {
        command(words, &mut self.out);
    }

    /// The key whose value comes next.
    pub fn key(&mut self, key: &[u8], expiry_ms: Option<u64>) {
        self.key = key.to_vec();
        self.expiry_ms = expiry_ms;
        self.has_entries = false;
    }

    fn add(&mut self, name: &[u8], element: &[&[u8]]) {
        if self.words.is_empty() {
            self.words = vec![name.to_vec(), self.key.clone()];
        }
        self.words.extend(element.iter().map(|word| word.to_vec()));
        self.bytes += element.iter().map(|word| word.len()).sum::<usize>();
        self.elements += 1;
        if self.elements >= ELEMENTS_MAX || self.bytes >= BYTES_MAX {
            self.flush();
        }
    }

    fn flush(&mut self) {
        match self.words.first() {
            // Stock servers of most versions do not know arrays.
            Some(name) if name == b"ARMSET" => aside(&refs(&self.words), &mut self.out),
            Some(_) => command(&self.words, &mut self.out),
            None => {}
        }
        self.words.clear();
        (self.bytes, self.elements) = (0, 0);
    }
}

/// Appends a command that stock servers do not know: they pass it over.
fn aside(words: &[&[u8]], out: &mut Vec<u8>) {
    command(&[&b"ECHO"[..], &[CALL, &frame(words)].concat()], out);
}

fn refs(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

fn text_of(id: Id) -> String {
    format!("{}-{}", id.ms, id.sequence)
}

impl ValueWriter for CommandWriter {
    fn bytes(&self) -> &[u8] {
        &self.out
    }

    fn taken(&mut self) {
        self.out.clear();
    }

    fn holds_field_expiries(&self) -> bool {
        true
    }

    fn end(&mut self) {
        self.flush();
        if let Some(cursor) = self.cursor.take() {
            let next = (cursor + 1).to_string();
            aside(&[b"ARSEEK", &self.key[..], next.as_bytes()], &mut self.out);
        }
        if let Some(expiry_ms) = self.expiry_ms {
            command(&[b"PEXPIREAT", &self.key[..], expiry_ms.to_string().as_bytes()], &mut self.out);
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        command(&[b"SET", &self.key[..], bytes], &mut self.out);
    }

    fn begin_text(&mut self, len: u64) {
        let key = &self.key;
        self.out.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len()).as_bytes());
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(format!("\r\n${len}\r\n").as_bytes());
        self.left = len;
    }

    fn piece(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.left -= bytes.len() as u64;
        if self.left == 0 {
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn begin_list(&mut self, _: u64) {}

    fn element(&mut self, element: &[u8]) {
        self.add(b"RPUSH", &[element]);
    }

    fn begin_set(&mut self, _: u64) {}

    fn member(&mut self, member: &[u8]) {
        self.add(b"SADD", &[member]);
    }

    fn begin_hash(&mut self, _: u64, _: Option<u64>) {}

    fn field(&mut self, field: &[u8], value: &[u8], expiry_ms: Option<u64>) {
        self.add(b"HSET", &[field, value]);
        if let Some(expiry_ms) = expiry_ms {
            self.flush();
            let moment = expiry_ms.to_string();
            command(
                &[b"HPEXPIREAT", &self.key[..], moment.as_bytes(), b"FIELDS", b"1", field],
                &mut self.out,
            );
        }
    }

    fn begin_sorted_set(&mut self, _: u64) {}

    fn scored(&mut self, member: &[u8], score: f64, text: Option<&[u8]>) {
        let own = double_text(score);
        self.add(b"ZADD", &[text.unwrap_or(own.as_bytes()), member]);
    }

    fn begin_stream(&mut self, _: u64, _: StreamNeeds) {}

    fn entry(&mut self, id: Id, pairs: Pairs<'_>) {
        self.has_entries = true;
        let id = text_of(id);
        let mut words: Vec<&[u8]> = vec![b"XADD", &self.key, id.as_bytes()];
        words.extend(pairs.iter().flat_map(|(field, value)| [*field, *value]));
        command(&words, &mut self.out);
    }

    fn facts(&mut self, facts: &StreamFacts, _: u64) {
        let (last, deleted) = (text_of(facts.last), text_of(facts.deleted));
        if !self.has_entries {
            // An entry that goes again makes the empty stream. It cannot be 0-0.
            let first = if facts.last == Id::default() { "0-1" } else { &last };
            command(&[b"XADD", &self.key[..], b"MAXLEN", b"0", first.as_bytes(), b"x", b"y"], &mut self.out);
        }
        let added = facts.added.to_string();
        let words: [&[u8]; 7] = [
            b"XSETID",
            &self.key,
            last.as_bytes(),
            b"ENTRIESADDED",
            added.as_bytes(),
            b"MAXDELETEDID",
            deleted.as_bytes(),
        ];
        command(&words, &mut self.out);
    }

    fn group(&mut self, name: &[u8], last: Id, read: Option<u64>, _: u64) {
        self.group = name.to_vec();
        self.pending.clear();
        (self.is_released, self.has_nameless) = (false, false);
        let (last, read) = (text_of(last), read.map(|read| read.to_string()));
        let mut words: Vec<&[u8]> = vec![b"XGROUP", b"CREATE", &self.key, name, last.as_bytes()];
        if let Some(read) = &read {
            words.extend([&b"ENTRIESREAD"[..], read.as_bytes()]);
        }
        command(&words, &mut self.out);
    }

    fn pending(&mut self, id: Id, delivered_ms: u64, deliveries: u64) {
        self.pending.insert(id, (delivered_ms, deliveries));
    }

    fn consumers(&mut self, _: u64) {}

    fn consumer(&mut self, name: &[u8], _: u64, _: Option<u64>, _: u64) {
        self.consumer = name.to_vec();
        self.has_nameless |= name.is_empty();
        let words: [&[u8]; 5] = [b"XGROUP", b"CREATECONSUMER", &self.key, &self.group, name];
        command(&words, &mut self.out);
    }

    fn owned(&mut self, id: Id) {
        let (delivered_ms, deliveries) = self.pending.get(&id).copied().unwrap_or_default();
        let (id, moment, deliveries) = (text_of(id), delivered_ms.to_string(), deliveries.to_string());
        let words: [&[u8]; 12] = [
            b"XCLAIM",
            &self.key,
            &self.group,
            &self.consumer,
            b"0",
            id.as_bytes(),
            b"TIME",
            moment.as_bytes(),
            b"RETRYCOUNT",
            deliveries.as_bytes(),
            b"JUSTID",
            b"FORCE",
        ];
        command(&words, &mut self.out);
        if self.is_released {
            let count = deliveries.as_bytes();
            let words: [&[u8]; 9] = [
                b"XNACK",
                &self.key,
                &self.group,
                b"FAIL",
                b"IDS",
                b"1",
                id.as_bytes(),
                b"RETRYCOUNT",
                count,
            ];
            aside(&words, &mut self.out);
            if !self.has_nameless {
                aside(&[b"XGROUP", b"DELCONSUMER", &self.key, &self.group, b""], &mut self.out);
            }
        }
    }

    fn holds_released(&self) -> bool {
        true
    }

    fn released(&mut self, count: u64) {
        self.consumer.clear();
        self.is_released = count > 0;
    }

    fn production(&mut self, production: &Production, producers: u64) {
        if producers == 0 && *production == Production::USUAL {
            return;
        }
        let [duration, most] = [production.duration_s, production.ids_max].map(|number| number.to_string());
        let words: [&[u8]; 6] =
            [b"XCFGSET", &self.key, b"IDMP-DURATION", duration.as_bytes(), b"IDMP-MAXSIZE", most.as_bytes()];
        aside(&words, &mut self.out);
    }

    fn producer(&mut self, name: &[u8], _: u64) {
        self.producer = name.to_vec();
    }

    fn produced(&mut self, iid: &[u8], id: Id) {
        let id = text_of(id);
        aside(&[b"XIDMPRECORD", &self.key, &self.producer, iid, id.as_bytes()], &mut self.out);
    }

    fn end_production(&mut self, production: &Production) {
        if (production.added, production.duplicates) == (0, 0) {
            return;
        }
        let [added, duplicates] = [production.added, production.duplicates].map(|number| number.to_string());
        let words: [&[u8]; 6] = [
            b"XCFGSET",
            &self.key,
            b"IDMP-ADDED",
            added.as_bytes(),
            b"IDMP-DUPLICATES",
            duplicates.as_bytes(),
        ];
        aside(&words, &mut self.out);
    }

    fn holds_arrays(&self) -> bool {
        true
    }

    fn begin_array(&mut self, _: u64, cursor: Option<u64>) {
        self.cursor = cursor;
    }

    fn indexed(&mut self, index: u64, value: &[u8]) {
        self.add(b"ARMSET", &[index.to_string().as_bytes(), value]);
    }
}
