//! RDB files and payloads of strangers.
use polder_base::Protocol;
use polder_wire::rdb::{
    Form, Id, Malformed, Production, Reader, StreamFacts, StreamNeeds, Thresholds, Writer, seal,
};

use super::cuts;
use crate::answer::Answer;
use crate::caller::Caller;
use crate::scratch::Scratch;

/// A value of every form that we write; the first byte says as what version the rest is read (0: as a file).
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for form in [Form::Lowest, Form::Fixed(12), Form::Fixed(13), Form::Fixed(14), Form::Fixed(80)] {
        let mut file = Writer::new(form, true, Thresholds::default());
        file.begin_file(true);
        file.aux(b"redis-ver", b"7.4.0");
        let all = [text, list, set, hash, scores, stream, array];
        // A form that holds no arrays has none.
        let count = if form == Form::Lowest || form == Form::Fixed(14) { all.len() } else { all.len() - 1 };
        for fill in &all[..count] {
            let mut value = Writer::new(
                form,
                true,
                Thresholds { hash_entries: 3, scores_entries: 3, ..Thresholds::default() },
            );
            fill(&mut value);
            seeds.push([&[if form == Form::Fixed(80) { 80 } else { 14 }], value.bytes()].concat());
            file.key(b"key", Some(1 << 41), None, Some(7));
            fill(&mut file);
        }
        file.functions(b"#!lua name=lib");
        file.end_file();
        seeds.push([&[0], file.bytes()].concat());
    }
    // Forms that no server writes any more.
    seeds.push(b"\x06\x0a\x10\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff".to_vec());
    seeds.push(b"\x06\x09\x08\x01\x01f\x01\x00v\xff".to_vec());
    seeds.push(b"\x06\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff".to_vec());
    seeds.push(
        b"\x00REDIS0012\xf7\x81aaaaaaaa\x02\x01\x01\x05\x04abcdefgh\x05\x02hi\x00\xff\0\0\0\0\0\0\0\0"
            .to_vec(),
    );
    seeds
}

fn text(writer: &mut Writer) {
    writer.text(&b"again and ".repeat(9));
}

fn list(writer: &mut Writer) {
    writer.begin_list(1);
    [&b"a"[..], b"-17", b"123456789", b"some more text that is long enough"]
        .iter()
        .for_each(|element| writer.element(element));
    writer.end();
}

fn set(writer: &mut Writer) {
    writer.begin_set(2);
    writer.member(b"5");
    writer.member(b"70000");
    writer.end();
}

fn hash(writer: &mut Writer) {
    let expiry = writer.holds_field_expiries().then_some(1 << 41);
    writer.begin_hash(2, expiry);
    writer.field(b"field", b"value", expiry);
    writer.field(b"other", b"12", None);
    writer.end();
}

fn scores(writer: &mut Writer) {
    writer.begin_sorted_set(2);
    writer.scored(b"a", 1.5, None);
    writer.scored(b"b", f64::INFINITY, None);
    writer.end();
}

fn array(writer: &mut Writer) {
    writer.begin_array(3, Some(7));
    writer.indexed(0, b"12");
    writer.indexed(7, b"1.5");
    writer.indexed(1 << 40, b"some longer text");
    writer.end();
}

fn stream(writer: &mut Writer) {
    let id = Id { ms: 5, sequence: 1 };
    writer.begin_stream(1, StreamNeeds { production: true, released: true });
    writer.entry(id, &[(b"field", b"value")]);
    writer.entry(Id { ms: 6, sequence: 0 }, &[(b"other", b"1"), (b"field", b"value")]);
    writer
        .facts(&StreamFacts { length: 2, last: id, first: Some(id), added: 2, ..StreamFacts::default() }, 1);
    writer.group(b"group", id, None, 2);
    let other = Id { ms: 6, sequence: 0 };
    [id, other].into_iter().for_each(|id| writer.pending(id, 1 << 41, 3));
    writer.consumers(1);
    writer.consumer(b"one", 1 << 41, None, if writer.holds_released() { 1 } else { 2 });
    writer.owned(id);
    writer.released(1);
    writer.owned(other);
    writer.production(&Production::USUAL, 1);
    writer.producer(b"producer", 1);
    writer.produced(b"own id", other);
    writer.end_production(&Production::USUAL);
    writer.end();
}

fn read(input: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<String>, Option<Malformed>) {
    let Some((version, bytes)) = input.split_first() else { return Default::default() };
    let mut reader = if *version == 0 { Reader::file(true, true) } else { Reader::value((*version).into()) };
    let (mut items, mut taken) = (Vec::new(), 0);
    for end in cuts.filter_map(|end| end.checked_sub(1)) {
        loop {
            match reader.read(&bytes[..end], &mut taken) {
                Ok(Some(item)) => items.push(format!("{item:?}")),
                Ok(None) => break,
                Err(malformed) => return (items, Some(malformed)),
            }
        }
    }
    (items, None)
}

pub(super) fn it_is_read_alike_however_it_is_cut(input: &[u8]) {
    let whole = read(input, std::iter::once(input.len()));
    assert_eq!(whole, read(input, cuts(input)));
}

/// As [`seeds`], without files.
pub(super) fn payload_seeds() -> Vec<Vec<u8>> {
    seeds().into_iter().filter(|seed| seed[0] != 0).collect()
}

std::thread_local! {
    static MEMORY: Scratch = Scratch::new();
}

/// A payload with a right footer: it becomes a key that can be dumped and restored again, or is refused.
pub(super) fn a_payload_is_restored_or_refused(input: &[u8]) {
    let Some((version, body)) = input.split_first() else { return };
    let mut payload = body.to_vec();
    seal((*version).into(), &mut payload);
    MEMORY.with(|scratch| {
        let mut caller = Caller::new(1, Protocol::Resp3);
        let mut call = |words: &[&[u8]]| {
            let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
            caller.call(&scratch.embedder, &words).unwrap_or_else(|problem| panic!("{problem}"))
        };
        let answer = call(&[b"RESTORE", b"key", b"0", &payload, b"REPLACE"]);
        if answer == Answer::Status("OK".into())
            && let Answer::Bulk(again) = call(&[b"DUMP", b"key"])
        {
            let digest = call(&[b"DEBUG", b"DIGEST-VALUE", b"key"]);
            assert_eq!(call(&[b"RESTORE", b"key", b"0", &again, b"REPLACE"]), Answer::Status("OK".into()));
            assert_eq!(call(&[b"DEBUG", b"DIGEST-VALUE", b"key"]), digest);
        }
    });
    if cfg!(debug_assertions) {
        verify();
    }
}

/// Every so often the whole memory is looked at: what was refused half-way has left nothing behind.
fn verify() {
    std::thread_local! {
        static TRIED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    if TRIED.replace(TRIED.get() + 1) % 1000 == 999 {
        MEMORY.with(|scratch| {
            let report = scratch.embedder.memory.table().verify().unwrap_or_else(|fault| panic!("{fault}"));
            assert!(report.is_clean(), "{report}");
        });
    }
}
