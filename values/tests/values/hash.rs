//! Hashes against `HashMap`: generated changes, whole transactions of them, expiries, and no node lost or kept.
use std::collections::{BTreeSet, HashMap};

use bumpalo::Bump;
use polder_base::Fault;
use polder_values::Value;
use polder_values::hash::{Draft, Encoding, Expiry, Hash, Thresholds, encoding};
use polder_values::testing::Memory;
use proptest::prelude::*;

const THRESHOLDS: Thresholds = Thresholds { entries: 128, value: 64 };

#[derive(Clone, Debug)]
enum Step {
    Put { field: usize, many: usize, length: usize, expiry: Option<u64> },
    Keep { field: usize, length: usize },
    Expire { field: usize, expiry: Option<u64> },
    Remove { field: usize, many: usize },
    Purge { most: u64 },
    Pass { ms: u64 },
    Commit,
}

fn expiry() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![2 => Just(None), 2 => (1u64..60).prop_map(Some)]
}

fn step() -> impl Strategy<Value = Step> {
    let many = prop_oneof![5 => 1usize..4, 2 => 10usize..60, 1 => 100usize..200];
    let length = prop_oneof![6 => 0usize..30, 2 => 40usize..90, 1 => 500usize..520, 1 => 9_000usize..20_000];
    prop_oneof![
        6 => (0usize..900, many.clone(), length.clone(), expiry())
            .prop_map(|(field, many, length, expiry)| Step::Put { field, many, length, expiry }),
        2 => (0usize..900, length).prop_map(|(field, length)| Step::Keep { field, length }),
        3 => (0usize..900, expiry()).prop_map(|(field, expiry)| Step::Expire { field, expiry }),
        3 => (0usize..900, many).prop_map(|(field, many)| Step::Remove { field, many }),
        2 => (1u64..300).prop_map(|most| Step::Purge { most }),
        2 => (1u64..40).prop_map(|ms| Step::Pass { ms }),
        3 => Just(Step::Commit),
    ]
}

/// Some fields are long, some only a little.
fn name(number: usize) -> Vec<u8> {
    let mut name = format!("field {number}").into_bytes();
    match number % 97 {
        0 => name.resize(600, b'.'),
        1 => name.clear(),
        2 => name.resize(1_000, b','),
        _ => {}
    }
    if number % 97 == 1 && number > 1 {
        name = vec![0, number as u8, (number >> 8) as u8];
    }
    name
}

struct Pair<'m> {
    memory: &'m Memory<'m>,
    draft: Draft,
    model: HashMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
    now: u64,
    made: u8,
    /// Expired fields that were put or removed since the draft began or was last purged.
    replaced: u64,
}

impl Pair<'_> {
    /// The model's field, if it is there.
    fn living(&self, field: &[u8]) -> Option<&(Vec<u8>, Option<u64>)> {
        self.model.get(field).filter(|(_, expiry)| expiry.is_none_or(|expiry| expiry > self.now))
    }

    /// Notes that a field is put or removed.
    fn replace(&mut self, field: &[u8]) {
        self.replaced += u64::from(self.model.contains_key(field) && self.living(field).is_none());
    }

    fn put(&mut self, number: usize, length: usize, expiry: Expiry) -> Result<(), Fault> {
        self.made = self.made.wrapping_add(1);
        let (field, value, now) = (name(number), vec![self.made; length], self.now);
        let spot = self.draft.find(self.memory, &field, || now)?;
        assert_eq!(spot.lives, self.living(&field).is_some());
        self.draft.put(self.memory, &spot, &field, &value, expiry)?;
        self.replace(&field);
        let until = match expiry {
            Expiry::None => None,
            Expiry::Keep => self.living(&field).and_then(|(_, expiry)| *expiry),
            Expiry::At(expiry) => Some(expiry),
        };
        self.model.insert(field, (value, until));
        Ok(())
    }

    fn apply(&mut self, step: &Step) -> Result<(), Fault> {
        let now = self.now;
        match *step {
            Step::Put { field, many, length, expiry } => {
                // The arena keeps what was released, too.
                let many = if length > 100 { many.min(4) } else { many };
                for number in field..field + many {
                    self.put(number, length, expiry.map_or(Expiry::None, |ms| Expiry::At(now + ms)))?;
                }
            }
            Step::Keep { field, length } => self.put(field, length, Expiry::Keep)?,
            Step::Expire { field, expiry } => {
                let field = name(field);
                let spot = self.draft.find(self.memory, &field, || now)?;
                if spot.lives {
                    let until = expiry.map(|ms| now + ms);
                    self.draft.expire(self.memory, &spot, until)?;
                    self.model.get_mut(&field).expect("it is there").1 = until;
                }
            }
            Step::Remove { field, many } => {
                for field in (field..field + many).map(name) {
                    let spot = self.draft.find(self.memory, &field, || now)?;
                    assert_eq!(spot.lives, self.living(&field).is_some());
                    self.draft.remove(self.memory, &spot, &field)?;
                    self.replace(&field);
                    self.model.remove(&field);
                }
            }
            Step::Purge { most } => {
                let due = self
                    .model
                    .values()
                    .filter(|(_, expiry)| expiry.is_some_and(|expiry| expiry <= now))
                    .count() as u64;
                let purged = self.draft.purge(self.memory, || now, most, &mut |_| {})?;
                assert_eq!(purged, due.min(most) + std::mem::take(&mut self.replaced));
                if due <= most {
                    self.model.retain(|_, (_, expiry)| expiry.is_none_or(|expiry| expiry > now));
                } else {
                    // Which of them went is the draft's choice.
                    let mut left = BTreeSet::new();
                    let (value, _) = self.draft.finish(self.memory)?;
                    for field in Hash::of(&value).iter(self.memory, 0) {
                        left.insert(field?.name().bytes(self.memory)?.into_owned());
                    }
                    self.model.retain(|field, _| left.contains(field));
                }
            }
            Step::Pass { ms } => self.now += ms,
            Step::Commit => {
                self.memory.commit();
                let (value, _) = self.draft.finish(self.memory)?;
                let again = Draft::of(&value, THRESHOLDS);
                self.draft = again;
                self.replaced = 0;
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), Fault> {
        let (memory, now) = (self.memory, self.now);
        assert_eq!(self.draft.count()?, self.model.len() as u64);
        let first = self.model.values().filter_map(|(_, expiry)| *expiry).min();
        let (value, told) = self.draft.finish(memory)?;
        assert_eq!(told, first);
        let hash = Hash::of(&value);
        let living =
            self.model.values().filter(|(_, expiry)| expiry.is_none_or(|expiry| expiry > now)).count() as u64;
        assert_eq!(hash.len(memory, || now)?, living);
        let mut seen = BTreeSet::new();
        hash.check(memory, &mut |node| assert!(seen.insert(node), "a node is named twice"))?;
        assert_eq!(seen, memory.live());
        assert_eq!(seen, memory.reachable(&value));
        let mut fields = HashMap::new();
        for field in hash.iter(memory, 0) {
            let field = field?;
            let (name, value) =
                (field.name().bytes(memory)?.into_owned(), field.value().bytes(memory)?.into_owned());
            fields.insert(name, (value, field.expiry_ms()));
        }
        assert!(fields == self.model, "the fields are others than they should be");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_hash_is_what_was_put_into_it(steps in prop::collection::vec(step(), 1..24)) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let mut pair = Pair { memory: &memory, draft: Draft::empty(THRESHOLDS), model: HashMap::new(), now: 1_000_000, made: 0, replaced: 0 };
        for step in &steps {
            pair.apply(step).expect("memory enough");
            pair.check().expect("a sound hash");
        }
        let names: Vec<Vec<u8>> = pair.model.keys().cloned().collect();
        let now = pair.now;
        for name in &names {
            let expected = pair.living(name).map(|(value, _)| value.clone());
            let (value, _) = pair.draft.finish(&memory).expect("memory enough");
            let found = Hash::of(&value).get(&memory, name, || now).expect("a sound hash");
            let found = found.map(|field| field.value().bytes(&memory).expect("a sound hash").into_owned());
            prop_assert!(found == expected);
        }
        pair.draft.clear(&memory).expect("a sound hash");
        prop_assert!(memory.live().is_empty());
    }
}

fn put(draft: &mut Draft, memory: &Memory<'_>, field: &[u8], value: &[u8], expiry: Expiry) {
    let spot = draft.find(memory, field, || 0).expect("a sound hash");
    draft.put(memory, &spot, field, value, expiry).expect("memory enough");
}

#[test]
fn encodings_change_at_the_thresholds_and_never_back() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::empty(Thresholds { entries: 2, value: 4 });
    let shown = |draft: &mut Draft| encoding(&draft.finish(&memory).expect("memory enough").0);
    put(&mut draft, &memory, b"a", b"1234", Expiry::None);
    put(&mut draft, &memory, b"b", b"1", Expiry::None);
    assert_eq!(shown(&mut draft), Encoding::Listpack);
    put(&mut draft, &memory, b"b", b"1", Expiry::At(9));
    assert_eq!(shown(&mut draft), Encoding::ListpackEx);
    put(&mut draft, &memory, b"b", b"12345", Expiry::None);
    assert_eq!(shown(&mut draft), Encoding::Hashtable);
    put(&mut draft, &memory, b"b", b"1", Expiry::None);
    assert_eq!(shown(&mut draft), Encoding::Hashtable);
    let mut draft = Draft::empty(Thresholds { entries: 2, value: 4 });
    for field in ["a", "b", "c"] {
        assert_eq!(shown(&mut draft), Encoding::Listpack);
        put(&mut draft, &memory, field.as_bytes(), b"", Expiry::None);
    }
    assert_eq!(shown(&mut draft), Encoding::Hashtable);
}

#[test]
fn one_field_of_many_costs_a_leaf_and_its_path() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::empty(THRESHOLDS);
    for number in 0..50_000u32 {
        put(&mut draft, &memory, &number.to_le_bytes(), b"value", Expiry::None);
    }
    memory.commit();
    let before = memory.live();
    put(&mut draft, &memory, b"one", b"more", Expiry::None);
    let (value, _) = draft.finish(&memory).expect("memory enough");
    let Value::Tree(root) = value else { panic!("a large hash is a tree") };
    let height = usize::from(root.extra as u8);
    let made = memory.live().difference(&before).count();
    assert!(made <= height + 3, "{made} nodes for a tree of height {height}");
}
