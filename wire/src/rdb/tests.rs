//! What is written comes back; old forms are read; nonsense is an error.
use proptest::collection::vec;
use proptest::prelude::*;

use super::packed::Listpack;
use super::*;

type Bytes = Vec<u8>;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Text(Bytes),
    List(Vec<Bytes>),
    Set(Vec<Bytes>),
    Hash(Vec<(Bytes, Bytes, Option<u64>)>),
    Scores(Vec<(Bytes, f64)>),
    Stream(Stream),
    Array(Vec<(u64, Bytes)>, Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Stream {
    entries: Vec<(Id, Vec<(Bytes, Bytes)>)>,
    facts: StreamFacts,
    groups: Vec<Group>,
    producers: Vec<(Bytes, Vec<(Bytes, Id)>)>,
    production: Option<Production>,
}

impl Stream {
    fn needs(&self) -> StreamNeeds {
        let released = self.groups.iter().any(|group| !group.released.is_empty());
        StreamNeeds { production: self.production.is_some(), released }
    }
}

#[derive(Clone, Debug, PartialEq, Default)]
struct Group {
    name: Bytes,
    last: Id,
    read: Option<u64>,
    pending: Vec<(Id, u64, u64)>,
    consumers: Vec<(Bytes, u64, Option<u64>, Vec<Id>)>,
    released: Vec<Id>,
}

fn write(writer: &mut Writer, value: &Value) {
    match value {
        Value::Text(text) if text.len() % 7 == 3 => {
            writer.begin_text(text.len() as u64);
            text.chunks(10).for_each(|piece| writer.piece(piece));
        }
        Value::Text(text) => writer.text(text),
        Value::List(elements) => {
            let mut plan = ListPlan::default();
            for element in elements {
                plan.add(element);
            }
            writer.begin_list(plan.nodes());
            elements.iter().for_each(|element| writer.element(element));
        }
        Value::Set(members) => {
            writer.begin_set(members.len() as u64);
            members.iter().for_each(|member| writer.member(member));
        }
        Value::Hash(fields) => {
            writer.begin_hash(fields.len() as u64, fields.iter().filter_map(|(_, _, expiry)| *expiry).min());
            fields.iter().for_each(|(field, value, expiry)| writer.field(field, value, *expiry));
        }
        Value::Scores(members) => {
            writer.begin_sorted_set(members.len() as u64);
            members.iter().for_each(|(member, score)| writer.scored(member, *score, None));
        }
        Value::Stream(stream) => write_stream(writer, stream),
        Value::Array(items, cursor) => {
            writer.begin_array(items.len() as u64, *cursor);
            items.iter().for_each(|(index, value)| writer.indexed(*index, value));
        }
    }
    writer.end();
}

fn write_stream(writer: &mut Writer, stream: &Stream) {
    let mut plan = StreamPlan::default();
    for (_, pairs) in &stream.entries {
        plan.add(pairs.iter().map(|(field, value)| field.len() + value.len()).sum());
    }
    writer.begin_stream(plan.nodes(), stream.needs());
    for (id, pairs) in &stream.entries {
        let pairs: Vec<(&[u8], &[u8])> =
            pairs.iter().map(|(field, value)| (&field[..], &value[..])).collect();
        writer.entry(*id, &pairs);
    }
    writer.facts(&stream.facts, stream.groups.len() as u64);
    for group in &stream.groups {
        writer.group(&group.name, group.last, group.read, group.pending.len() as u64);
        group
            .pending
            .iter()
            .for_each(|(id, delivered_ms, deliveries)| writer.pending(*id, *delivered_ms, *deliveries));
        writer.consumers(group.consumers.len() as u64);
        for (name, seen_ms, active_ms, owned) in &group.consumers {
            writer.consumer(name, *seen_ms, *active_ms, owned.len() as u64);
            owned.iter().for_each(|id| writer.owned(*id));
        }
        if writer.holds_released() {
            writer.released(group.released.len() as u64);
            group.released.iter().for_each(|id| writer.owned(*id));
        }
    }
    if stream.needs() != StreamNeeds::default() {
        let production = stream.production.unwrap_or(Production::USUAL);
        writer.production(&production, stream.producers.len() as u64);
        for (name, produced) in &stream.producers {
            writer.producer(name, produced.len() as u64);
            produced.iter().for_each(|(iid, id)| writer.produced(iid, *id));
        }
        writer.end_production(&production);
    }
}

/// Puts items together; what stands around the keys is told as text.
#[derive(Default, Debug, PartialEq)]
struct Collected {
    values: Vec<(Bytes, Option<u64>, Value)>,
    rest: Vec<String>,
    ended: usize,
}

impl Collected {
    fn add(&mut self, item: &Item<'_>) {
        let item = *item;
        if let Item::Begin(begin) = item {
            let value = match begin.kind {
                Kind::String => Value::Text(Vec::new()),
                Kind::List => Value::List(Vec::new()),
                Kind::Set => Value::Set(Vec::new()),
                Kind::Hash => Value::Hash(Vec::new()),
                Kind::SortedSet => Value::Scores(Vec::new()),
                Kind::Stream => Value::Stream(Stream::default()),
                Kind::Array => Value::Array(Vec::new(), None),
            };
            if begin.idle_seconds.is_some() || begin.frequency.is_some() {
                self.rest.push(format!("idle {:?} frequency {:?}", begin.idle_seconds, begin.frequency));
            }
            return self.values.push((begin.key.to_vec(), begin.expiry_ms, value));
        }
        let value = self.values.last_mut().map(|(_, _, value)| value);
        let value = match value {
            Some(Value::Stream(own)) => {
                if own.add(&item) {
                    return;
                }
                None
            }
            other => other,
        };
        match (item, value) {
            (Item::Text(text), Some(Value::Text(own))) => own.extend_from_slice(text),
            (Item::Element(element), Some(Value::List(own))) => own.push(element.to_vec()),
            (Item::Member(member), Some(Value::Set(own))) => own.push(member.to_vec()),
            (Item::Field { field, value, expiry_ms }, Some(Value::Hash(own))) => {
                own.push((field.to_vec(), value.to_vec(), expiry_ms))
            }
            (Item::Scored { member, score, .. }, Some(Value::Scores(own))) => {
                own.push((member.to_vec(), score))
            }
            (Item::Cursor(cursor), Some(Value::Array(_, own))) => *own = Some(cursor),
            (Item::Indexed { index, value }, Some(Value::Array(own, _))) => own.push((index, value.to_vec())),
            (Item::End, _) => self.ended += 1,
            (Item::Aux { name, value }, _) => {
                self.rest.push(format!("{}={}", name.escape_ascii(), value.escape_ascii()))
            }
            (Item::Functions(source), _) => self.rest.push(format!("functions {}", source.escape_ascii())),
            (Item::Foreign { key, module }, _) => {
                self.rest.push(format!("foreign {} {}", key.escape_ascii(), module.escape_ascii()))
            }
            (other, _) => self.rest.push(format!("{other:?}")),
        }
    }
}

impl Stream {
    fn add(&mut self, item: &Item<'_>) -> bool {
        match *item {
            Item::Entry { id, .. } => self.entries.push((id, Vec::new())),
            Item::Pair { field, value } => {
                self.entries.last_mut().unwrap().1.push((field.to_vec(), value.to_vec()))
            }
            Item::Stream(facts) => self.facts = facts,
            Item::Group { name, last, read } => {
                self.groups.push(Group { name: name.to_vec(), last, read, ..Group::default() })
            }
            Item::Pending { id, delivered_ms, deliveries } => {
                self.groups.last_mut().unwrap().pending.push((id, delivered_ms, deliveries));
            }
            Item::Consumer { name, seen_ms, active_ms } => {
                self.groups.last_mut().unwrap().consumers.push((
                    name.to_vec(),
                    seen_ms,
                    active_ms,
                    Vec::new(),
                ));
            }
            Item::Owned(id) => self.groups.last_mut().unwrap().consumers.last_mut().unwrap().3.push(id),
            Item::Released(id) => self.groups.last_mut().unwrap().released.push(id),
            Item::Producer(name) => self.producers.push((name.to_vec(), Vec::new())),
            Item::Produced { iid, id } => self.producers.last_mut().unwrap().1.push((iid.to_vec(), id)),
            Item::Production(production) => self.production = Some(production),
            _ => return false,
        }
        true
    }
}

/// Reads all of it, offered in pieces of `step` bytes.
fn read(mut reader: Reader, bytes: &[u8], step: usize) -> Result<Collected, Malformed> {
    let (mut found, mut taken, mut end) = (Collected::default(), 0, step.min(bytes.len()));
    loop {
        while let Some(item) = reader.read(&bytes[..end], &mut taken)? {
            found.add(&item);
        }
        if reader.is_done() {
            assert_eq!(taken as u64, reader.taken());
            return if taken == bytes.len() {
                Ok(found)
            } else {
                Err("something stands behind the end".into())
            };
        }
        if end == bytes.len() {
            return Err("it ends too early".into());
        }
        end = (end + step).min(bytes.len());
    }
}

fn read_payload(payload: &[u8], step: usize) -> Result<Value, Malformed> {
    let payload = open(payload, false)?;
    let mut found = read(payload.reader(), payload.body, step)?;
    assert_eq!(found.ended, 1);
    Ok(found.values.pop().unwrap().2)
}

fn check(value: &Value, form: Form, compresses: bool) -> Vec<u8> {
    let mut writer = Writer::new(form, compresses, Thresholds::default());
    write(&mut writer, value);
    let payload = writer.seal();
    let mut back = read_payload(&payload, usize::MAX).unwrap();
    if payload.len() < 3000 {
        assert_eq!(read_payload(&payload, 1).unwrap(), back);
    }
    // What the form cannot hold, and an intset's order.
    let mut expected = value.clone();
    match (&mut expected, &mut back) {
        (Value::Set(one), Value::Set(two)) => (one.sort(), two.sort()).0,
        (Value::Stream(stream), _) => stream.lose(form),
        _ => {}
    }
    assert_eq!(back, expected);
    payload
}

impl Stream {
    /// Forgets what this form cannot hold.
    fn lose(&mut self, form: Form) {
        let needs = self.needs();
        let lowest = form == Form::Lowest;
        if lowest && needs == StreamNeeds::default() {
            for (_, seen_ms, active_ms, _) in self.groups.iter_mut().flat_map(|group| &mut group.consumers) {
                *active_ms = Some(*seen_ms);
            }
        }
        let holds =
            |version: u32| lowest || matches!(form, Form::Fixed(fixed) if (version..VALKEY).contains(&fixed));
        if !holds(14) {
            self.groups.iter_mut().for_each(|group| group.released.clear());
        }
        if needs.released && holds(14) {
            self.production.get_or_insert(Production::USUAL);
        }
        if !holds(13) {
            (self.production, self.producers) = (None, Vec::new());
        }
    }
}

fn text() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        4 => vec(any::<u8>(), 0..12),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        2 => any::<i8>().prop_map(|number| number.to_string().into_bytes()),
        1 => (any::<u8>(), 0..300usize).prop_map(|(byte, count)| vec![byte; count]),
        1 => (any::<u8>(), 0..20_000usize).prop_map(|(byte, count)| (0..count).map(|at| byte ^ ((at * at) >> 7) as u8).collect()),
    ]
}

fn unique(mut texts: Vec<Bytes>) -> Vec<Bytes> {
    texts.sort();
    texts.dedup();
    texts
}

fn id() -> impl Strategy<Value = Id> {
    (any::<u64>(), any::<u64>()).prop_map(|(ms, sequence)| Id { ms, sequence })
}

fn group() -> impl Strategy<Value = Group> {
    let consumer = (text(), 0..1u64 << 62, proptest::option::of(0..1u64 << 62), vec(id(), 0..5));
    let pending = vec((id(), 0..1u64 << 62, any::<u64>()), 0..5);
    let read = proptest::option::of(0..1u64 << 62);
    let released = prop_oneof![3 => Just(Vec::new()), 1 => vec(id(), 0..4)];
    (text(), id(), read, pending, vec(consumer, 0..4), released).prop_map(
        |(name, last, read, pending, consumers, released)| Group {
            name,
            last,
            read,
            pending,
            consumers,
            released,
        },
    )
}

fn stream() -> impl Strategy<Value = Stream> {
    let shapes = vec(vec(text(), 1..4), 1..4);
    let entry = (0..9u64, 0..5u64, 0..4usize, text());
    let producer = (text(), vec((text(), id()), 0..5));
    let production = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(duration_s, ids_max, added, duplicates)| Production { duration_s, ids_max, added, duplicates },
    );
    let producers = proptest::option::weighted(0.4, (production, vec(producer, 0..3)));
    (shapes, vec(entry, 0..300), vec(group(), 0..3), any::<u32>(), id(), producers).prop_map(
        |(shapes, steps, groups, added, deleted, producers)| {
            let (production, producers) = producers.unzip();
            let (mut id, mut entries) = (Id::default(), Vec::new());
            for (ms, sequence, shape, value) in steps {
                id = if ms > 0 {
                    Id { ms: id.ms + ms, sequence }
                } else {
                    Id { ms: id.ms, sequence: id.sequence + sequence + 1 }
                };
                let fields = &shapes[shape % shapes.len()];
                entries.push((id, fields.iter().map(|field| (field.clone(), value.clone())).collect()));
            }
            let length = entries.len() as u64;
            let first = Some(entries.first().map_or(Id::default(), |(id, _)| *id));
            Stream {
                entries,
                facts: StreamFacts { length, last: id, first, deleted, added: added.into() },
                groups,
                producers: producers.unwrap_or_default(),
                production,
            }
        },
    )
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::Text),
        vec(text(), 0..200).prop_map(Value::List),
        vec(text(), 0..200).prop_map(|texts| Value::Set(unique(texts))),
        vec(any::<i32>(), 0..40)
            .prop_map(|all| Value::Set(unique(all.iter().map(|one| one.to_string().into_bytes()).collect()))),
        (
            vec(text(), 0..200),
            text(),
            vec(proptest::option::weighted(0.2, 1..1u64 << 40), 1..9),
            any::<bool>()
        )
            .prop_map(|(fields, value, expiries, expires)| {
                let expiry = |at: usize| if expires { expiries[at % expiries.len()] } else { None };
                Value::Hash(
                    unique(fields)
                        .into_iter()
                        .enumerate()
                        .map(|(at, field)| (field, value.clone(), expiry(at)))
                        .collect(),
                )
            }),
        (
            vec(text(), 0..200),
            vec(prop_oneof![any::<i16>().prop_map(f64::from), proptest::num::f64::ANY], 1..9)
        )
            .prop_map(|(members, scores)| {
                let score = |at: usize| scores[at % scores.len()];
                let score = |at: usize| if score(at).is_nan() { f64::INFINITY } else { score(at) };
                Value::Scores(
                    unique(members).into_iter().enumerate().map(|(at, member)| (member, score(at))).collect(),
                )
            }),
        stream().prop_map(Value::Stream),
    ]
}

fn form() -> impl Strategy<Value = Form> {
    let fixed = |version| Just(Form::Fixed(version));
    prop_oneof![Just(Form::Lowest), fixed(12), fixed(13), fixed(14), fixed(80)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn every_value_comes_back(value in value(), form in form(), compresses: bool) {
        check(&value, form, compresses);
    }

    #[test]
    fn a_damaged_payload_is_an_error_at_most(value in value(), form in form(), cuts in vec((any::<u16>(), any::<u8>()), 1..6)) {
        let mut writer = Writer::new(form, true, Thresholds::default());
        write(&mut writer, &value);
        let mut body = writer.bytes().to_vec();
        for (at, byte) in cuts {
            let at = at as usize % body.len();
            body[at] ^= byte;
        }
        let version = if form == Form::Fixed(80) { 80 } else { 14 };
        let _ = read(Reader::value(version), &body, usize::MAX);
        let _ = read(Reader::value(version), &body[..body.len() / 2], usize::MAX);
    }

    #[test]
    fn a_file_comes_back(values in vec((text(), proptest::option::of(0..1u64 << 60), value()), 0..8), form in form(), step in 1..5000usize) {
        let mut writer = Writer::new(form, true, Thresholds::default());
        let (mut file, flush) = (Vec::new(), |writer: &mut Writer, file: &mut Vec<u8>| {
            file.extend_from_slice(writer.bytes());
            writer.taken();
        });
        writer.begin_file(true);
        writer.aux(b"redis-ver", b"7.4.0");
        writer.database(3);
        writer.sizes(values.len() as u64, 0);
        for (key, expiry_ms, value) in &values {
            writer.key(key, *expiry_ms, Some(7), Some(9));
            write(&mut writer, value);
            flush(&mut writer, &mut file);
        }
        let line = writer.end_file();
        flush(&mut writer, &mut file);
        if let Some(line) = line {
            file[..9].copy_from_slice(&line);
        }
        let found = read(Reader::file(true, false), &file, step).unwrap();
        prop_assert_eq!(found.values.len(), values.len());
        prop_assert!(found.values.iter().zip(&values).all(|(one, two)| one.0 == two.0 && one.1 == two.1));
        prop_assert_eq!(&found.rest[..3], ["redis-ver=7.4.0".to_owned(), "Database(3)".to_owned(), format!("Sizes {{ keys: {}, expiries: 0 }}", values.len())]);
        let at = file.len() / 2;
        file[at] ^= 1;
        prop_assert!(read(Reader::file(true, false), &file, usize::MAX).is_err());
    }
}

/// A value without its footer, by hand.
fn by_hand(version: u32, body: &[u8]) -> Result<Value, Malformed> {
    let found = read(Reader::value(version), body, usize::MAX)?;
    assert_eq!(read(Reader::value(version), body, 1).unwrap(), found);
    Ok(found.values.into_iter().next().unwrap().2)
}

fn b(text: &str) -> Bytes {
    text.as_bytes().to_vec()
}

#[test]
fn forms_that_no_version_writes_any_more_are_read() {
    let ziplist = b"\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff";
    let blob = |kind: u8, blob: &[u8]| [&[kind, blob.len() as u8], blob].concat();
    assert_eq!(by_hand(6, &blob(10, ziplist)), Ok(Value::List(vec![b("a"), b("2")])));
    assert_eq!(by_hand(6, &blob(12, ziplist)), Ok(Value::Scores(vec![(b("a"), 2.0)])));
    assert_eq!(by_hand(6, &blob(13, ziplist)), Ok(Value::Hash(vec![(b("a"), b("2"), None)])));
    let two = [&[14, 2, 16][..], ziplist, &[16], ziplist].concat();
    assert_eq!(by_hand(7, &two), Ok(Value::List(vec![b("a"), b("2"), b("a"), b("2")])));
    assert_eq!(
        by_hand(2, &blob(9, b"\x01\x01f\x01\x00v\xff")),
        Ok(Value::Hash(vec![(b("f"), b("v"), None)]))
    );
    let scores = b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\xff";
    assert_eq!(
        by_hand(6, scores),
        Ok(Value::Scores(vec![(b("a"), 1.5), (b("b"), f64::INFINITY), (b("c"), f64::NEG_INFINITY)]))
    );
    assert!(by_hand(6, b"\x03\x01\x01a\xfd").is_err());
    assert_eq!(by_hand(6, b"\x01\x02\x01a\xc0\xff"), Ok(Value::List(vec![b("a"), b("-1")])));
    assert_eq!(by_hand(6, b"\x02\x01\xc1\x00\x01"), Ok(Value::Set(vec![b("256")])));
    assert_eq!(by_hand(6, b"\x00\x80\x00\x00\x00\x02hi"), Ok(Value::Text(b("hi"))));
}

#[test]
fn hashes_with_expiries_of_fields_are_read_in_all_their_forms() {
    let expected =
        Value::Hash(vec![(b("a"), b("1"), Some(1000)), (b("c"), b("3"), Some(1004)), (b("b"), b("2"), None)]);
    let least = 1000u64.to_le_bytes();
    let fields = b"\x03\x01\x01a\xc0\x01\x05\x01c\xc0\x03\x00\x01b\xc0\x02";
    assert_eq!(by_hand(12, &[&[24][..], &least, fields].concat()).as_ref(), Ok(&expected));
    let early = b"\x16\x03\x43\xe8\x01a\xc0\x01\x43\xec\x01c\xc0\x03\x00\x01b\xc0\x02";
    assert_eq!(by_hand(12, early).as_ref(), Ok(&expected));
    let (mut pack, mut blob) = (Listpack::default(), Vec::new());
    for entry in ["a", "1", "1000", "c", "3", "1004", "b", "2", "0"] {
        pack.push(entry.as_bytes());
    }
    pack.finish(None, &mut blob);
    assert_eq!(by_hand(12, &[&[23, blob.len() as u8][..], &blob].concat()).as_ref(), Ok(&expected));
    assert_eq!(
        by_hand(12, &[&[25][..], &least, &[blob.len() as u8], &blob].concat()).as_ref(),
        Ok(&expected)
    );
    let expiry = |ms: i64| ms.to_le_bytes();
    let valkey = [
        b"\x16\x03\x01a\xc0\x01",
        &expiry(1000)[..],
        b"\x01c\xc0\x03",
        &expiry(1004),
        b"\x01b\xc0\x02",
        &expiry(-1),
    ]
    .concat();
    assert_eq!(by_hand(80, &valkey).as_ref(), Ok(&expected));
}

#[test]
fn what_modules_and_clusters_left_in_a_file_is_passed_over() {
    // The number of a module type "abcdefghi", version 1.
    let letters = (0..9).fold(0u64, |sum, at| sum << 6 | (26 + at));
    let module = [&[0x81][..], &(letters << 10 | 1).to_be_bytes()].concat();
    let parts = b"\x01\x05\x02\x40\x50\x03abcd\x04abcdefgh\x05\x02hi\x00";
    let file = [
        &b"REDIS0012"[..],
        b"\xf7",
        &module,
        b"\x02\x01",
        parts,
        b"\xf4\x01\x02\x03\xfe\x00\x07\x01k",
        &module,
        parts,
        b"\xfd\x01\x00\x00\x00\x00\x01k\x01v\xf5\x03lua\xff\0\0\0\0\0\0\0\0",
    ]
    .concat();
    for step in [1, usize::MAX] {
        let found = read(Reader::file(true, false), &file, step).unwrap();
        assert_eq!(found.rest, ["Database(0)", "foreign k abcdefghi", "functions lua", "Eof"]);
        assert_eq!(found.values, [(b("k"), Some(1000), Value::Text(b("v")))]);
    }
    let valkey = b"VALKEY080\xf3\x03job\x02\x01\x02\x03\x04\xff\0\0\0\0\0\0\0\0";
    assert_eq!(read(Reader::file(true, false), valkey, 1).unwrap().rest, ["Eof"]);
}

#[test]
fn other_versions_are_refused_unless_told_otherwise() {
    for (line, relaxed, is_read) in [
        ("REDIS0001", false, true),
        ("REDIS0013", false, true),
        ("REDIS0014", false, true),
        ("REDIS0015", false, false),
        ("REDIS0015", true, true),
        ("VALKEY080", false, true),
        ("VALKEY081", false, false),
        ("REDIS0000", true, false),
        ("REDIX0010", true, false),
    ] {
        let file = [line.as_bytes(), b"\xff\0\0\0\0\0\0\0\0"].concat();
        let file = if line == "REDIS0001" { &file[..10] } else { &file[..] };
        assert_eq!(read(Reader::file(true, relaxed), file, 1).is_ok(), is_read, "{line}");
    }
    assert!(read(Reader::value(14), b"\x1d\x00", 1).is_err());
}

#[test]
fn sizes_that_a_file_names_take_no_memory() {
    let huge = [0x81, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    for kind in [0u8, 1, 2, 4, 5, 9, 10, 14, 15, 16, 18, 20, 21, 24, 26, 27] {
        let mut reader = Reader::value(12);
        let body = [&[kind][..], &huge, &huge, b"\x01a\x01b\x01c\x01d\x01e\x01f\x01g\x01h"].concat();
        let mut taken = 0;
        while let Ok(Some(_)) = reader.read(&body, &mut taken) {}
    }
}

#[test]
fn a_stream_that_says_it_has_less_than_nothing_is_refused() {
    // Live or deleted entries: -2^63. The other one is 1, or 0.
    let counts: [&[u8]; 2] = [b"\xf4\0\0\0\0\0\0\0\x80\x09\x00\x01", b"\x01\x01\xf4\0\0\0\0\0\0\0\x80\x09"];
    for (counts, flags) in counts.into_iter().zip([2, 3]) {
        let entries =
            [counts, b"\x01\x01\x81f\x02\0\x01", &[flags], b"\x01\0\x01\0\x01\x81v\x02\x04\x01\xff"].concat();
        let pack = [&(entries.len() as u32 + 6).to_le_bytes()[..], &[10, 0], &entries].concat();
        let body = [
            b"\x0f\x01\x10\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0",
            &[pack.len() as u8][..],
            &pack,
            b"\x01\x01\0\0",
        ]
        .concat();
        assert!(read(Reader::value(10), &body, usize::MAX).is_err());
    }
}

#[test]
fn the_lowest_version_that_holds_the_value_is_written() {
    let version = |value: &Value, form: Form| {
        let payload = check(value, form, true);
        u16::from_le_bytes(payload[payload.len() - 10..][..2].try_into().unwrap())
    };
    let plain = Value::Hash(vec![(b("a"), b("b"), None)]);
    let expiring = Value::Hash(vec![(b("a"), b("b"), Some(5))]);
    assert_eq!(version(&plain, Form::Lowest), 10);
    assert_eq!(version(&expiring, Form::Lowest), 12);
    assert_eq!(version(&expiring, Form::Fixed(80)), 80);
    assert!(!Writer::new(Form::Fixed(11), true, Thresholds::default()).holds_field_expiries());
}

/// A listpack whose elements are short texts, or moments of eight bytes.
fn listpack_of(elements: &[Result<i64, &str>]) -> Vec<u8> {
    let mut pack = super::packed::Listpack::default();
    elements.iter().for_each(|element| match element {
        Ok(number) => pack.push_integer(*number),
        Err(text) => pack.push(text.as_bytes()),
    });
    let mut out = Vec::new();
    pack.finish(None, &mut out);
    out
}

#[test]
fn expiries_of_fields_that_cannot_be_stored_or_are_not_in_order_are_refused() {
    let packed = |expiries: &[i64]| {
        let names = ["a", "b", "c"].iter().zip(expiries);
        let elements: Vec<_> = names.flat_map(|(name, expiry)| [Err(*name), Err("v"), Ok(*expiry)]).collect();
        let blob = listpack_of(&elements);
        by_hand(12, &[&[25], &[0; 8][..], &[blob.len() as u8], &blob].concat())
    };
    let most = super::FIELD_EXPIRY_MAX_MS as i64;
    for expiries in [&[5, 7, 0][..], &[5, 5], &[most, 0], &[0, 0]] {
        assert!(packed(expiries).is_ok(), "{expiries:?}");
    }
    for expiries in [&[7, 5][..], &[0, 5], &[5, 0, 7], &[most + 1], &[-1], &[i64::MAX]] {
        assert!(packed(expiries).is_err(), "{expiries:?}");
    }
    let counted = |least: u64, after: u8| {
        by_hand(12, &[&[24], &least.to_le_bytes()[..], &[1, after], b"\x01a\x01v"].concat())
    };
    assert!(counted(most as u64, 1).is_ok() && counted(most as u64, 2).is_err());
    assert_eq!(counted(u64::MAX, 0), Ok(Value::Hash(vec![(b("a"), b("v"), None)])));
    let valkey = |expiry: i64| by_hand(80, &[&b"\x16\x01\x01a\x01v"[..], &expiry.to_le_bytes()].concat());
    assert!(valkey(-1).is_ok() && valkey(-2).is_err());
}

#[test]
fn a_node_of_a_list_without_bytes_is_refused_and_one_without_elements_is_left_out() {
    let (node, none) = (listpack_of(&[Err("a")]), listpack_of(&[]));
    let list = |first: &[u8]| by_hand(10, &[&[18, 2], first, &[2, node.len() as u8], &node].concat());
    assert_eq!(list(&[&[2, none.len() as u8], &none[..]].concat()), Ok(Value::List(vec![b("a")])));
    assert!(list(&[1, 0]).is_err() && list(&[2, 0]).is_err());
}

/// The bytes of the type 28 as readers of Redis's files describe it: a count, the cursor, and each value behind its index and form.
#[test]
fn arrays_are_read_in_all_their_forms() {
    let body = [
        &[28, 5, 1, 9][..],
        &[0, 3, 2, b'a', b'b'],
        &[1, 1],
        &(-7i64).to_le_bytes(),
        &[2, 2],
        &1.5f64.to_le_bytes(),
        &[3, 2],
        &4f64.to_le_bytes(),
        &[0x40 | 1, 0, 0, 9],
        b"long text",
    ]
    .concat();
    let mut payload = body.clone();
    payload::seal(14, &mut payload);
    let items = [(0, &b"ab"[..]), (1, b"-7"), (2, b"1.5"), (3, b"4.0"), (256, b"long text")];
    let value = Value::Array(items.map(|(index, value)| (index, value.to_vec())).to_vec(), Some(9));
    assert_eq!(read_payload(&payload, usize::MAX).unwrap(), value);
    assert_eq!(read_payload(&payload, 1).unwrap(), value);
    for form in [Form::Lowest, Form::Fixed(14)] {
        check(&value, form, true);
        check(&Value::Array(vec![(u64::MAX - 1, b"last".to_vec())], None), form, false);
    }
    // Neither with a cursor nor without one; a form that there is not; Valkey knows no arrays.
    for bad in [&[28u8, 1, 2][..], &[28, 1, 0, 0, 4]] {
        let mut payload = bad.to_vec();
        payload::seal(14, &mut payload);
        assert!(read_payload(&payload, usize::MAX).is_err());
    }
    let mut payload = body;
    payload::seal(80, &mut payload);
    assert!(read_payload(&payload, usize::MAX).is_err());
}
