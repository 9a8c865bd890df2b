//! Streams against maps: generated changes, whole transactions of them, and no node lost or kept.
use std::collections::{BTreeMap, BTreeSet};

use bumpalo::Bump;
use polder_base::Ref;
use polder_values::Value;
use polder_values::stream::{self, Draft, Group, Id, NO_CONSUMER, Pending, Range, Stream};
use polder_values::testing::Memory;
use proptest::prelude::*;

/// How many cases a test tries, unless PROPTEST_CASES says otherwise.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// What a test does to a stream. Places are parts of a thousand.
#[derive(Clone, Debug)]
enum Step {
    Append { many: usize, ms: u64, seq: u64, fields: usize, length: usize },
    Remove { place: usize, many: usize },
    Trim { many: u64 },
    SetLast { ms: u64 },
    CreateGroup { name: u8 },
    DestroyGroup { name: u8 },
    CreateConsumer { group: u8, name: u8 },
    DeleteConsumer { group: u8, name: u8 },
    PutPending { group: u8, consumer: u8, place: usize, many: usize },
    RemovePending { group: u8, place: usize, many: usize },
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    let many = || prop_oneof![4 => 1usize..4, 2 => 4usize..60, 1 => 60usize..400];
    let length = prop_oneof![6 => 0usize..20, 3 => 80usize..200, 1 => 400usize..700, 1 => 9_000usize..20_000];
    let ms = prop_oneof![3 => Just(0u64), 3 => 1u64..16, 1 => 16u64..(1 << 40)];
    let seq = prop_oneof![4 => Just(0u64), 2 => 1u64..5, 1 => 5u64..(1 << 40)];
    let place = || 0usize..=1000;
    let name = || 0u8..4;
    prop_oneof![
        6 => (many(), ms, seq, 0usize..20, length).prop_map(|(many, ms, seq, fields, length)| Step::Append { many, ms, seq, fields, length }),
        3 => (place(), many()).prop_map(|(place, many)| Step::Remove { place, many }),
        2 => many().prop_map(|many| Step::Trim { many: many as u64 }),
        1 => (0u64..5).prop_map(|ms| Step::SetLast { ms }),
        1 => name().prop_map(|name| Step::CreateGroup { name }),
        1 => name().prop_map(|name| Step::DestroyGroup { name }),
        2 => (name(), name()).prop_map(|(group, name)| Step::CreateConsumer { group, name }),
        1 => (name(), name()).prop_map(|(group, name)| Step::DeleteConsumer { group, name }),
        4 => (name(), name(), place(), many()).prop_map(|(group, consumer, place, many)| Step::PutPending { group, consumer, place, many }),
        3 => (name(), place(), many()).prop_map(|(group, place, many)| Step::RemovePending { group, place, many }),
        3 => Just(Step::Commit),
    ]
}

type Pairs = Vec<Vec<u8>>;

#[derive(Default)]
struct GroupModel {
    consumers: BTreeSet<Vec<u8>>,
    /// Owner's name and number of deliveries.
    pending: BTreeMap<Id, (Vec<u8>, u64)>,
}

/// What a stream should be.
#[derive(Default)]
struct Model {
    entries: BTreeMap<Id, Pairs>,
    last: Id,
    removed: u64,
    groups: BTreeMap<Vec<u8>, GroupModel>,
}

/// A stream and what it should be.
struct Pair<'m> {
    memory: &'m Memory<'m>,
    draft: Draft<'m>,
    model: Model,
    made: u64,
}

/// Names of every length, one of them longer than an element may be that lies in its leaf.
fn name(number: u8) -> Vec<u8> {
    vec![b'n'; usize::from(number) * usize::from(number) * 70]
}

fn fields(kind: usize, value: u64, length: usize) -> Pairs {
    let count = 1 + kind % 3;
    let pair = |at: usize| {
        [format!("field{kind}{at}").into_bytes(), [&value.to_le_bytes()[..], &vec![b'v'; length]].concat()]
    };
    (0..count).flat_map(pair).collect()
}

impl<'m> Pair<'m> {
    fn place(&self, place: usize, many: usize) -> Vec<Id> {
        let start = self.model.entries.len() * place / 1000;
        self.model.entries.keys().skip(start).take(many).copied().collect()
    }

    fn view(&self) -> Stream<'_> {
        self.draft.view(self.memory)
    }

    fn group(&self, number: u8) -> Option<Group<'static>> {
        self.view().group(&name(number)).unwrap().map(Group::owned)
    }

    fn run(&mut self, step: &Step) {
        let nodes = self.memory;
        match step {
            Step::Append { many, ms, seq, fields: kind, length } => {
                for at in 0..(*many).min(if *length > 1000 { 3 } else { 1000 }) {
                    let last = self.model.last;
                    let id = if at == 0 && *ms > 0 {
                        Id { ms: last.ms + ms, seq: *seq }
                    } else {
                        Id { seq: last.seq + 1 + seq, ..last }
                    };
                    self.made += 1;
                    let pairs = fields(*kind, self.made, *length);
                    self.draft
                        .append(nodes, id, &pairs.iter().map(Vec::as_slice).collect::<Vec<_>>())
                        .unwrap();
                    self.model.entries.insert(id, pairs);
                    self.model.last = id;
                }
            }
            Step::Remove { place, many } => {
                let ids = self.place(*place, *many);
                for id in ids {
                    assert!(self.draft.remove(nodes, id).unwrap());
                    assert!(!self.draft.remove(nodes, id).unwrap());
                    self.model.entries.remove(&id);
                    self.model.removed += 1;
                }
            }
            Step::Trim { many } => {
                let gone: Vec<Id> = self.model.entries.keys().take(*many as usize).copied().collect();
                self.draft.trim(nodes, *many).unwrap();
                self.model.removed += gone.len() as u64;
                gone.iter().for_each(|id| drop(self.model.entries.remove(id)));
            }
            Step::SetLast { ms } => {
                let top = self.model.entries.keys().next_back().copied().unwrap_or(Id::MIN);
                self.model.last = Id { ms: top.ms + ms, seq: top.seq };
                self.draft.set_last_given(self.model.last);
            }
            Step::Commit => self.commit(),
            other => self.run_group(other),
        }
    }

    fn run_group(&mut self, step: &Step) {
        let nodes = self.memory;
        match step {
            Step::CreateGroup { name: number } => {
                if self.group(*number).is_none() {
                    self.draft.create_group(nodes, &name(*number), self.model.last, Some(7)).unwrap();
                    self.model.groups.insert(name(*number), GroupModel::default());
                }
            }
            Step::DestroyGroup { name: number } => {
                if let Some(group) = self.group(*number) {
                    self.draft.destroy_group(nodes, &group).unwrap();
                    self.model.groups.remove(&name(*number));
                }
            }
            Step::CreateConsumer { group, name: number } => {
                if let Some(group) = self.group(*group)
                    && self.view().consumer(group.number, &name(*number)).unwrap().is_none()
                {
                    self.draft.create_consumer(nodes, group.number, &name(*number), 5).unwrap();
                    self.model.groups.get_mut(&*group.name).unwrap().consumers.insert(name(*number));
                }
            }
            Step::DeleteConsumer { group, name: number } => {
                let Some(group) = self.group(*group) else { return };
                let Some(consumer) =
                    self.view().consumer(group.number, &name(*number)).unwrap().map(|found| found.owned())
                else {
                    return;
                };
                let model = self.model.groups.get_mut(&*group.name).unwrap();
                let before = model.pending.len();
                model.pending.retain(|_, (owner, _)| *owner != name(*number));
                model.consumers.remove(&name(*number));
                let gone = (before - model.pending.len()) as u64;
                assert_eq!(self.draft.delete_consumer(nodes, &consumer).unwrap(), gone);
            }
            other => self.run_pending(other),
        }
    }

    fn run_pending(&mut self, step: &Step) {
        let nodes = self.memory;
        match step {
            Step::PutPending { group, consumer, place, many } => {
                let Some(group) = self.group(*group) else { return };
                let Some(consumer) =
                    self.view().consumer(group.number, &name(*consumer)).unwrap().map(|found| found.owned())
                else {
                    return;
                };
                let ids = self.place(*place, *many);
                if many.is_multiple_of(2) {
                    let of = |id: &Id| Pending {
                        id: *id,
                        consumer: consumer.number,
                        delivered_ms: 9,
                        deliveries: 1,
                    };
                    let delivered: Vec<Pending> = ids.iter().map(of).collect();
                    self.draft.put_delivered(nodes, group.number, &delivered).unwrap();
                    let model = self.model.groups.get_mut(&*group.name).unwrap();
                    ids.iter().for_each(|id| drop(model.pending.insert(*id, (consumer.name.to_vec(), 1))));
                    return;
                }
                for id in ids {
                    let model = self.model.groups.get_mut(&*group.name).unwrap();
                    let deliveries = model.pending.get(&id).map_or(1, |(_, deliveries)| deliveries + 1);
                    model.pending.insert(id, (consumer.name.to_vec(), deliveries));
                    let pending = Pending { id, consumer: consumer.number, delivered_ms: 9, deliveries };
                    self.draft.put_pending(nodes, group.number, &pending).unwrap();
                }
            }
            Step::RemovePending { group, place, many } => {
                let Some(group) = self.group(*group) else { return };
                let mut ids = self.place(*place, *many);
                if many.is_multiple_of(2) {
                    ids.extend(ids.first().copied());
                    ids.reverse();
                    let pending = &mut self.model.groups.get_mut(&*group.name).unwrap().pending;
                    let were: Vec<bool> = ids.iter().map(|id| pending.remove(id).is_some()).collect();
                    assert_eq!(self.draft.remove_all_pending(nodes, group.number, &ids).unwrap(), were);
                    return;
                }
                for id in ids {
                    let was = self.model.groups.get_mut(&*group.name).unwrap().pending.remove(&id).is_some();
                    assert_eq!(self.draft.remove_pending(nodes, group.number, id).unwrap(), was);
                }
            }
            _ => unreachable!("the other steps are not of groups"),
        }
    }

    fn commit(&mut self) {
        let value = self.draft.value(self.memory).unwrap();
        self.memory.commit();
        let Value::Tree(root) = value else { panic!("a stream is a tree") };
        let mut seen = BTreeSet::new();
        stream::check(self.memory, &root, &mut |node: Ref| {
            assert!(seen.insert(node), "a node was shown twice")
        })
        .unwrap();
        assert_eq!(self.memory.live(), seen);
        assert_eq!(self.memory.reachable(&value), seen);
        self.draft = Draft::of(self.memory, &value).unwrap();
        self.compare();
    }

    fn compare(&self) {
        let stream = self.view();
        let (entries, model) = (&self.model.entries, &self.model);
        assert_eq!(
            (stream.len(), stream.added()),
            (entries.len() as u64, entries.len() as u64 + model.removed)
        );
        assert_eq!(stream.last_given().unwrap(), model.last);
        assert_eq!(
            (stream.first().unwrap(), stream.last().unwrap()),
            (entries.keys().next().copied(), entries.keys().next_back().copied())
        );
        let ids: Vec<Id> = entries.keys().copied().collect();
        let around = |at: usize| ids.get(ids.len() * at / 7).copied().unwrap_or(Id { ms: 3, seq: 3 });
        for (start, end) in [
            (Id::MIN, Id::MAX),
            (around(2), around(5)),
            (around(1), Id::MAX),
            (Id::MIN, around(6)),
            (around(4), around(3)),
        ] {
            for limit in [1, 10, u64::MAX] {
                for back in [false, true] {
                    self.compare_range(&stream, &Range { start, end, back, limit });
                }
            }
        }
        assert_eq!(stream.groups_len(), model.groups.len() as u64);
        for (group, (name, expected)) in stream.groups().zip(&model.groups) {
            let group = group.unwrap();
            assert_eq!(&*group.name, &name[..]);
            self.compare_group(&stream, &group, expected);
        }
    }

    fn compare_range(&self, stream: &Stream<'_>, range: &Range) {
        let inside = |id: &Id| *id >= range.start && *id <= range.end;
        let mut expected: Vec<(Id, &Pairs)> =
            self.model.entries.iter().filter(|(id, _)| inside(id)).map(|(id, pairs)| (*id, pairs)).collect();
        if range.back {
            expected.reverse();
        }
        expected.truncate(range.limit.try_into().unwrap_or(usize::MAX));
        let mut shown: Vec<(Id, Pairs)> = Vec::new();
        stream
            .walk(range, &mut |entry| {
                let pairs =
                    entry.pairs().flat_map(|(field, value)| [field.to_vec(), value.to_vec()]).collect();
                shown.push((entry.id, pairs));
            })
            .unwrap();
        assert_eq!(stream.count(range).unwrap(), expected.len() as u64, "{range:?}");
        assert!(shown.iter().map(|(id, pairs)| (*id, pairs)).eq(expected), "{range:?}");
    }

    fn compare_group(&self, stream: &Stream<'_>, group: &Group<'_>, expected: &GroupModel) {
        let number = group.number;
        assert_eq!(stream.pending_len(number).unwrap(), expected.pending.len() as u64);
        assert_eq!(stream.consumers_len(number).unwrap(), expected.consumers.len() as u64);
        for (pending, (id, (owner, deliveries))) in
            stream.pending(number, Id::MIN).unwrap().zip(&expected.pending)
        {
            let pending = pending.unwrap();
            let owned_by = stream.consumer_name(number, pending.consumer).unwrap();
            assert_eq!((pending.id, &*owned_by, pending.deliveries), (*id, &owner[..], *deliveries));
        }
        assert_eq!(
            stream.pending_last(number).unwrap().map(|pending| pending.id),
            expected.pending.keys().next_back().copied()
        );
        for (consumer, name) in stream.consumers(number).unwrap().zip(&expected.consumers) {
            let consumer = consumer.unwrap();
            assert_eq!(&*consumer.name, &name[..]);
            let owned: Vec<Id> =
                stream.owned(consumer.number, Id::MIN).unwrap().map(|id| id.unwrap()).collect();
            let expected: Vec<Id> =
                expected.pending.iter().filter(|(_, (owner, _))| owner == name).map(|(id, _)| *id).collect();
            assert_eq!(stream.owned_len(consumer.number).unwrap(), expected.len() as u64);
            assert_eq!(owned, expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(120), ..ProptestConfig::default() })]
    #[test]
    fn streams_are_maps_with_groups(steps in prop::collection::vec(step(), 1..60)) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let mut pair = Pair { memory: &memory, draft: Draft::default(), model: Model::default(), made: 0 };
        for step in &steps {
            pair.run(step);
        }
        pair.commit();
        pair.draft.trim(&memory, u64::MAX).unwrap();
        let groups: Vec<_> = pair.view().groups().map(|group| group.unwrap().owned()).collect();
        groups.iter().for_each(|group| pair.draft.destroy_group(&memory, group).unwrap());
        let value = pair.draft.value(&memory).unwrap();
        prop_assert_eq!(memory.live().len(), 1);
        prop_assert_eq!(memory.reachable(&value).len(), 1);
    }
}

#[test]
fn short_entries_take_little_more_than_their_values() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::default();
    for number in 0..10_000u64 {
        let id = Id { ms: 1_700_000_000_000 + number / 3, seq: number % 3 };
        draft.append(&memory, id, &[b"temperature", &[b'v'; 16], b"pressure", &[b'w'; 8]]).unwrap();
    }
    let value = draft.value(&memory).unwrap();
    let bytes: usize = memory
        .live()
        .iter()
        .map(|node| {
            use polder_values::Nodes;
            16 + memory.data(*node).unwrap().len() + 8 * memory.refs(*node).unwrap().len()
        })
        .sum();
    assert!(bytes < 10_000 * 32, "{} bytes an entry", bytes / 10_000);
    assert!(matches!(value, Value::Tree(_)));
}

/// Everything that is read of a stream, whatever comes of it.
fn read_all(nodes: &Memory<'_>, value: &Value<'_>) {
    let Ok(stream) = Stream::of(nodes, value) else { return };
    let _ = (stream.first(), stream.last(), stream.last_given());
    let end = Id { ms: 30, seq: 0 };
    for range in [
        Range::ALL,
        Range { back: true, ..Range::ALL },
        Range { start: Id { ms: 3, seq: 0 }, end, back: false, limit: 9 },
    ] {
        let _ = (
            stream.count(&range),
            stream.walk(&range, &mut |entry| assert!(entry.pairs().count() <= entry.len())),
        );
    }
    for group in stream.groups().take(5).flatten() {
        let number = group.number;
        let _ = (stream.pending_len(number), stream.consumers_len(number), stream.pending_last(number));
        stream.pending(number, Id::MIN).into_iter().flatten().take(50).flatten().for_each(|pending| {
            let _ = stream.consumer_name(number, pending.consumer);
        });
        for consumer in stream.consumers(number).into_iter().flatten().take(5).flatten() {
            let _ = (
                stream.owned_len(consumer.number),
                stream.owned(consumer.number, Id::MIN).map(Iterator::count),
            );
        }
    }
}

/// Changes of a stream, up to the first that fails.
fn change_all(nodes: &Memory<'_>, value: &Value<'_>) -> Result<(), polder_base::Fault> {
    let mut draft = Draft::of(nodes, value)?;
    let group = draft.view(nodes).group(&name(1))?.map(Group::owned);
    if let Some(group) = group {
        draft.remove_pending(nodes, group.number, Id { ms: 5, seq: 0 })?;
        draft.put_pending(
            nodes,
            group.number,
            &Pending { id: Id { ms: 6, seq: 0 }, consumer: 0, delivered_ms: 1, deliveries: 1 },
        )?;
    }
    draft.remove(nodes, Id { ms: 4, seq: 0 })?;
    draft.trim(nodes, 3)?;
    if let Some(id) = draft.last_given(nodes)?.next() {
        draft.append(nodes, id, &[b"field", b"value"])?;
    }
    draft.value(nodes).map(drop)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(200), ..ProptestConfig::default() })]
    #[test]
    fn damage_is_a_fault_and_no_more(which in 0usize..1000, at in 0usize..2000, byte in any::<u8>(), cut in 0usize..40, swap in 0usize..1000) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let mut draft = Draft::default();
        for number in 1..120u64 {
            draft.append(&memory, Id { ms: number, seq: 0 }, &[b"field", &vec![b'v'; 30 + (number % 40) as usize]]).unwrap();
        }
        let group = draft.create_group(&memory, &name(1), Id::MIN, None).unwrap().number;
        let consumer = draft.create_consumer(&memory, group, &name(2), 1).unwrap().number;
        for number in 1..60u64 {
            let pending = Pending { id: Id { ms: number, seq: 0 }, consumer, delivered_ms: 1, deliveries: 1 };
            draft.put_pending(&memory, group, &pending).unwrap();
        }
        let value = draft.value(&memory).unwrap();
        memory.commit();
        let nodes: Vec<Ref> = memory.live().into_iter().collect();
        let node = nodes[which % nodes.len()];
        use polder_values::Nodes;
        let (mut refs, mut data) = (memory.refs(node).unwrap().to_vec(), memory.data(node).unwrap().to_vec());
        let len = data.len().max(1);
        if let Some(target) = data.get_mut(at % len) {
            *target = byte;
        }
        data.truncate(data.len() - cut.saturating_sub(20).min(data.len()));
        if let (Some(first), true) = (refs.first_mut(), swap < 100) {
            *first = nodes[swap % nodes.len()];
        }
        memory.damage(node, &refs, &data);
        read_all(&memory, &value);
        let Value::Tree(root) = value else { panic!("a stream is a tree") };
        if stream::check(&memory, &root, &mut |_| {}).is_ok() {
            change_all(&memory, &value).unwrap();
        }
    }
}

/// A stream whose nodes are checked and whose memory is counted after each change.
fn committed<'m>(memory: &'m Memory<'m>, draft: &mut Draft<'m>) -> Draft<'m> {
    let value = draft.value(memory).unwrap();
    memory.commit();
    let Value::Tree(root) = value else { panic!("a stream is a tree") };
    let mut seen = BTreeSet::new();
    stream::check(memory, &root, &mut |node| assert!(seen.insert(node))).unwrap();
    assert_eq!(memory.live(), seen);
    Draft::of(memory, &value).unwrap()
}

#[test]
fn what_producers_know_is_kept_by_their_ids_and_in_the_order_of_the_entries() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::default();
    let mut model: BTreeMap<Vec<u8>, BTreeSet<(Id, Vec<u8>)>> = BTreeMap::new();
    draft.put_production(60, 100, 5, 6);
    for number in 0..900u64 {
        let (producer, iid) = (name((number % 4) as u8), format!("entry {}", number % 350).into_bytes());
        let id = Id { ms: number / 3, seq: number };
        let own = model.entry(producer.clone()).or_default();
        own.retain(|(_, other)| *other != iid);
        own.insert((id, iid.clone()));
        draft.note_produced(&memory, &producer, &iid, id).unwrap();
        if number % 7 == 0 {
            draft.forget_produced(&memory, &producer, 5).unwrap();
            (0..5).for_each(|_| drop(own.pop_first()));
            if own.is_empty() {
                model.remove(&producer);
            }
        }
        if number % 50 == 0 {
            draft = committed(&memory, &mut draft);
        }
    }
    draft = committed(&memory, &mut draft);
    let stream = draft.view(&memory);
    assert_eq!(stream.producers_len(), model.len() as u64);
    for (rank, (producer, own)) in model.iter().enumerate() {
        let found = stream.producer_at(rank as u64).unwrap();
        assert_eq!(&*found.name, &producer[..]);
        assert_eq!(stream.producer(producer).unwrap(), Some(found.number));
        let known = stream.produced(found.number, Id::MIN).unwrap();
        let known: Vec<_> =
            known.map(|known| known.map(|known| (known.id, known.iid.into_owned())).unwrap()).collect();
        assert_eq!(known, own.iter().cloned().collect::<Vec<_>>());
        let (middle, iid) = &known[known.len() / 2];
        assert_eq!(stream.find_produced(found.number, iid).unwrap(), Some(*middle));
        let later = own.iter().filter(|(id, _)| id >= middle).count() as u64;
        assert_eq!(stream.produced_len(found.number, *middle).unwrap(), later);
    }
    let production = stream.production().unwrap();
    assert_eq!((production.duration_s, production.ids_max), (60, 100));
    assert_eq!((production.added, production.duplicates), (5, 6));
    // Equal settings forget nothing, others all.
    draft.set_production(&memory, 60, 100).unwrap();
    assert_eq!(draft.view(&memory).producers_len(), model.len() as u64);
    draft.set_production(&memory, 60, 99).unwrap();
    assert_eq!(draft.view(&memory).producers_len(), 0);
    committed(&memory, &mut draft);
}

#[test]
fn what_was_given_back_is_pending_and_no_ones() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::default();
    let group = draft.create_group(&memory, b"group", Id::MIN, None).unwrap();
    let one = draft.create_consumer(&memory, group.number, b"one", 1).unwrap();
    let pending = |ms, consumer| Pending { id: Id { ms, seq: 0 }, consumer, delivered_ms: ms, deliveries: 1 };
    (1..9).for_each(|ms| draft.put_pending(&memory, group.number, &pending(ms, one.number)).unwrap());
    for ms in [2, 4, 6] {
        draft.put_pending(&memory, group.number, &pending(ms, NO_CONSUMER)).unwrap();
    }
    draft = committed(&memory, &mut draft);
    let counts = |draft: &Draft<'_>| {
        let stream = draft.view(&memory);
        let released = stream.released_len(group.number).unwrap();
        (stream.pending_len(group.number).unwrap(), stream.owned_len(one.number).unwrap(), released)
    };
    assert_eq!(counts(&draft), (8, 5, 3));
    assert_eq!(&*draft.view(&memory).consumer_name(group.number, NO_CONSUMER).unwrap(), b"");
    // Taken by a consumer, acknowledged alone and with others, and left when the consumer goes.
    draft.put_pending(&memory, group.number, &pending(2, one.number)).unwrap();
    assert_eq!(counts(&draft), (8, 6, 2));
    let ids = [1, 4].map(|ms| Id { ms, seq: 0 });
    assert_eq!(draft.remove_all_pending(&memory, group.number, &ids).unwrap(), [true, true]);
    assert_eq!(draft.delete_consumer(&memory, &one).unwrap(), 5);
    draft = committed(&memory, &mut draft);
    assert_eq!(counts(&draft), (1, 0, 1));
    assert!(draft.remove_pending(&memory, group.number, Id { ms: 6, seq: 0 }).unwrap());
    assert!(!draft.view(&memory).has_released());
    committed(&memory, &mut draft);
}
