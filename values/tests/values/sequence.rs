//! Sequences against `Vec`: generated changes, whole transactions of them, and no node lost or kept.
use std::collections::BTreeSet;

use bumpalo::Bump;
use polder_base::{Fault, Ref};
use polder_values::order::{compare_members, member_word};
use polder_values::sequence::{self, BY_POSITION, Draft, Element, Item, Rule, SHORT_MAX, Sequence, Tree};
use polder_values::testing::Memory;
use polder_values::{Nodes, Value};
use proptest::prelude::*;

const MEMBERS: Rule = Rule { word: member_word, compare: compare_members, packed_sorted: false };
const SORTED_MEMBERS: Rule = Rule { packed_sorted: true, ..MEMBERS };
/// All words tie: the search has to look at elements.
const BYTES: Rule = Rule { word: |_| 7, compare: |one, two| one.cmp(two), packed_sorted: true };

/// How many cases a test tries, unless PROPTEST_CASES says otherwise.
fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// What a test does to a sequence. Places are parts of a thousand.
#[derive(Clone, Debug)]
enum Step {
    Insert { place: usize, many: usize, length: usize },
    Replace { place: usize, length: usize },
    Remove { place: usize, many: usize },
    Extend { many: usize, length: usize },
    ExtendFront { many: usize, length: usize },
    Upsert { many: usize, length: usize },
    MakeTree,
    Commit,
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0usize..40, 3 => 80usize..140, 1 => SHORT_MAX - 3..SHORT_MAX + 3, 1 => 513usize..20_000]
}

fn place() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0usize), 1 => Just(1000usize), 3 => 0usize..=1000]
}

fn step() -> impl Strategy<Value = Step> {
    let many = prop_oneof![6 => 1usize..4, 2 => 4usize..40, 1 => 200usize..700];
    prop_oneof![
        5 => (place(), many.clone(), length()).prop_map(|(place, many, length)| Step::Insert { place, many, length }),
        2 => (place(), length()).prop_map(|(place, length)| Step::Replace { place, length }),
        3 => (place(), many).prop_map(|(place, many)| Step::Remove { place, many }),
        1 => (0usize..1500, 0usize..130).prop_map(|(many, length)| Step::Extend { many, length }),
        1 => (0usize..1500, length()).prop_map(|(many, length)| Step::ExtendFront { many, length }),
        2 => (1usize..300, length()).prop_map(|(many, length)| Step::Upsert { many, length }),
        1 => Just(Step::MakeTree),
        3 => Just(Step::Commit),
    ]
}

/// A sequence and what it should be.
struct Pair<'m> {
    memory: &'m Memory<'m>,
    rule: &'m Rule,
    draft: Draft,
    model: Vec<Vec<u8>>,
    made: u64,
    by_position: bool,
}

impl Pair<'_> {
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        // Every element another one, as the sorted sequences need.
        self.made += 1;
        let mut bytes = self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
        bytes.resize(length.max(8), b'.');
        bytes
    }

    fn rank_in_model(&self, bytes: &[u8]) -> usize {
        self.model.partition_point(|other| (self.rule.compare)(other, bytes).is_lt())
    }

    /// Whether the elements stand in the order of the rule now.
    fn sorted(&self) -> bool {
        !self.by_position && (self.draft.is_tree() || self.rule.packed_sorted)
    }

    fn sort_model(&mut self) {
        if self.sorted() {
            self.model.sort_by(|one, two| (self.rule.compare)(one, two));
        }
    }

    fn insert(&mut self, place: usize, length: usize) -> Result<(), Fault> {
        let bytes = self.bytes(length);
        let rank = if self.by_position {
            place * self.model.len() / 1000
        } else {
            let found = self.draft.sequence().seek(
                self.memory,
                self.rule,
                (self.rule.word)(&bytes),
                &mut |other| (self.rule.compare)(other, &bytes),
            )?;
            assert!(found.found.is_none());
            let expected = if self.sorted() { self.rank_in_model(&bytes) } else { self.model.len() };
            assert_eq!(found.rank as usize, expected);
            expected
        };
        let (one, two) = bytes.split_at(bytes.len() / 3);
        self.draft.insert(self.memory, self.rule, rank as u64, &[one, two])?;
        self.model.insert(rank, bytes);
        Ok(())
    }

    /// Inserts new elements, gives every seventh element its own bytes again, and takes some others away, in one step.
    fn upsert(&mut self, many: usize, length: usize) -> Result<(), Fault> {
        let mut all: Vec<Vec<u8>> = (0..many).map(|_| self.bytes(length)).collect();
        all.extend(self.model.iter().step_by(7).take(many / 2).cloned());
        let there = all.len();
        let goes = |at: usize| !at.is_multiple_of(7) && at % 1000 < many * 3;
        all.extend(self.model.iter().enumerate().filter(|(at, _)| goes(*at)).map(|(_, bytes)| bytes.clone()));
        let word = self.rule.word;
        let item = |(number, bytes)| Item {
            word: word(bytes),
            name: bytes,
            bytes,
            number,
            goes: number >= there,
            found: false,
        };
        let items = all.iter().map(Vec::as_slice).enumerate().map(item);
        let new = self
            .draft
            .upsert_all(self.memory, self.rule, <[u8]>::cmp, items, &mut |_, _| Ok(many.is_multiple_of(2)))?;
        let new = new.expect("a tree that is not empty");
        assert!(new.iter().enumerate().all(|(number, new)| *new == (number < many)));
        let gone: BTreeSet<Vec<u8>> = all.drain(there..).collect();
        self.model.retain(|bytes| !gone.contains(bytes));
        self.model.extend(all.drain(..many));
        Ok(())
    }

    fn apply(&mut self, step: &Step) -> Result<(), Fault> {
        match *step {
            Step::Insert { place, many, length } => {
                for _ in 0..many {
                    self.insert(place, length)?;
                    self.sort_model();
                }
            }
            Step::Replace { place, length } if !self.model.is_empty() => {
                let rank = place * (self.model.len() - 1) / 1000;
                let mut bytes = self.bytes(length);
                if !self.by_position {
                    // The same member again: its place in the order stays.
                    bytes = self.model[rank].clone();
                }
                self.draft.replace(self.memory, self.rule, rank as u64, &[&bytes])?;
                self.model[rank] = bytes;
            }
            Step::Remove { place, many } => {
                let rank = place * self.model.len() / 1000;
                let many = many.min(self.model.len() - rank);
                self.draft.remove(self.memory, self.rule, rank as u64, many as u64)?;
                self.model.drain(rank..rank + many);
            }
            Step::Extend { many, length } => {
                let mut new: Vec<Vec<u8>> = (0..many).map(|_| self.bytes(length)).collect();
                if self.sorted() || self.rule.packed_sorted && !self.by_position {
                    new.sort_by(|one, two| (self.rule.compare)(one, two));
                    new.retain(|bytes| {
                        self.model.last().is_none_or(|last| (self.rule.compare)(last, bytes).is_lt())
                    });
                }
                self.draft.extend(self.memory, self.rule, &mut new.iter().map(|bytes| &bytes[..]))?;
                self.model.extend(new);
            }
            // At this end only lists grow.
            Step::ExtendFront { many, length } if self.by_position => {
                let new: Vec<Vec<u8>> = (0..many).map(|_| self.bytes(length)).collect();
                self.draft.extend_front(self.memory, self.rule, &mut new.iter().map(|bytes| &bytes[..]))?;
                self.model.splice(0..0, new.into_iter().rev());
            }
            Step::Upsert { many, length }
                if !self.by_position && self.draft.is_tree() && !self.model.is_empty() =>
            {
                self.upsert(many, length)?;
            }
            Step::MakeTree => self.draft.make_tree(self.memory, self.rule)?,
            Step::Commit => self.memory.commit(),
            Step::Replace { .. } | Step::ExtendFront { .. } | Step::Upsert { .. } => {}
        }
        self.sort_model();
        Ok(())
    }

    /// All that can be asked without looking at everything.
    fn check(&mut self) {
        assert_eq!(self.draft.sequence().count(), Ok(self.model.len() as u64));
        let (is_tree, sorted) = (self.draft.is_tree(), self.sorted());
        let value = self.draft.value(5, Tree::default());
        assert_eq!(sequence::flags(&value), 5);
        assert_eq!(self.memory.live(), self.memory.reachable(&value));
        match (Sequence::of(&value), value) {
            (Sequence::Tree(tree), Value::Tree(_)) if is_tree => {
                let mut seen = BTreeSet::new();
                let mut visit = |node| assert!(node == Ref::NONE || seen.insert(node));
                sequence::check(self.memory, &tree, self.rule, sorted, &mut visit).expect("a sound tree");
                assert_eq!(seen, self.memory.live());
            }
            (Sequence::Packed(_), Value::Packed(bytes)) => {
                assert!(bytes.len() <= sequence::RUN_MAX && !is_tree)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Everything that can be asked.
    fn compare(&self, place: usize) {
        let (sequence, memory) = (self.draft.sequence(), self.memory);
        let read = |element: Result<Element<'_>, Fault>| {
            element.expect("a sound tree").bytes(memory).expect("a sound tree").into_owned()
        };
        let from = place * self.model.len() / 1000;
        assert_eq!(sequence.iter(memory, from as u64).map(read).collect::<Vec<_>>(), self.model[from..]);
        let back: Vec<_> = sequence.iter_back(memory, from as u64).map(read).collect();
        let expected: Vec<_> =
            self.model.get(..=from).map(|before| before.iter().rev().cloned().collect()).unwrap_or_default();
        assert_eq!(back, expected);
        let mut by_rank = sequence.by_rank(memory).expect("a sound tree");
        for rank in [
            0,
            from,
            from + 1,
            from.saturating_sub(1),
            self.model.len().saturating_sub(1),
            from + 20,
            self.model.len(),
        ] {
            let element = by_rank.at(rank as u64).expect("a sound tree").map(|element| read(Ok(element)));
            assert_eq!(element.as_ref(), self.model.get(rank));
        }
        assert!(sequence.at(memory, self.model.len() as u64).expect("a sound tree").is_none());
        if !self.by_position {
            for (rank, bytes) in self.model.iter().enumerate() {
                let place = sequence
                    .seek(memory, self.rule, (self.rule.word)(bytes), &mut |other| {
                        (self.rule.compare)(other, bytes)
                    })
                    .expect("a sound tree");
                assert_eq!(place.rank as usize, rank);
                assert_eq!(place.found.map(|element| read(Ok(element))).as_ref(), Some(bytes));
            }
            self.compare_all();
        }
    }

    /// Elements that are there and such as are not, all sought at once.
    fn compare_all(&self) {
        let sought: Vec<Vec<u8>> =
            self.model.iter().flat_map(|bytes| [bytes.clone(), [bytes, &b"?"[..]].concat()]).collect();
        let words: Vec<u64> = sought.iter().map(|bytes| (self.rule.word)(bytes)).collect();
        let mut compare = |number: usize, other: &[u8]| (self.rule.compare)(other, &sought[number]);
        let found = self
            .draft
            .sequence()
            .find_all(self.memory, self.rule, &words, &mut compare)
            .expect("a sound tree");
        for (number, element) in found.iter().enumerate() {
            let found = element.map(|element| element.bytes(self.memory).expect("a sound tree").into_owned());
            assert_eq!(found, number.is_multiple_of(2).then(|| sought[number].clone()));
        }
    }
}

fn run(rule: &Rule, by_position: bool, steps: &[Step], place: usize) {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut pair =
        Pair { memory: &memory, rule, draft: Draft::empty(), model: Vec::new(), made: 0, by_position };
    for step in steps {
        pair.apply(step).expect("memory enough");
        pair.check();
    }
    pair.compare(place);
    let all = pair.model.len() as u64;
    pair.draft.remove(&memory, rule, 0, all).expect("memory enough");
    assert_eq!(pair.draft.pack(&memory), Ok(true));
    assert!(memory.live().is_empty(), "all memory comes back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(64), ..ProptestConfig::default() })]

    #[test]
    fn a_list_is_what_was_put_into_it(steps in prop::collection::vec(step(), 1..24), place in place()) {
        run(&BY_POSITION, true, &steps, place);
    }

    #[test]
    fn members_are_found_by_their_words(steps in prop::collection::vec(step(), 1..24), place in place()) {
        run(&MEMBERS, false, &steps, place);
    }

    #[test]
    fn packed_members_may_be_sorted(steps in prop::collection::vec(step(), 1..12), place in place()) {
        run(&SORTED_MEMBERS, false, &steps, place);
    }

    #[test]
    fn elements_are_found_when_all_words_tie(steps in prop::collection::vec(step(), 1..12), place in place()) {
        run(&BYTES, false, &steps, place);
    }
}

#[test]
fn what_becomes_too_empty_in_the_only_leaf_is_joined_with_a_new_one() {
    let steps = [
        Step::MakeTree,
        Step::Insert { place: 0, many: 1, length: 38 },
        Step::Extend { many: 241, length: 93 },
        Step::Upsert { many: 50, length: 0 },
    ];
    run(&MEMBERS, false, &steps, 0);
}

#[test]
fn a_range_begins_where_the_comparison_turns() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let numbers: Vec<[u8; 8]> = (0..5000u64).map(|number| (number * 2).to_be_bytes()).collect();
    let rule = Rule {
        word: |bytes| u64::from_be_bytes(bytes.try_into().unwrap()),
        compare: |one, two| one.cmp(two),
        packed_sorted: true,
    };
    let mut draft = Draft::empty();
    draft.extend(&memory, &rule, &mut numbers.iter().map(|number| &number[..])).unwrap();
    assert!(draft.tree().is_some_and(|tree| tree.height > 0));
    for sought in [0u64, 1, 2, 199, 200, 201, 9998, 9999, 20_000] {
        // Everything from `sought` on, without an equal element.
        let mut compare = |other: &[u8]| {
            if other < &sought.to_be_bytes()[..] {
                std::cmp::Ordering::Less
            } else {
                std::cmp::Ordering::Greater
            }
        };
        let place = draft.sequence().seek(&memory, &rule, sought, &mut compare).unwrap();
        assert_eq!((place.rank, place.found.is_none()), (sought.div_ceil(2).min(5000), true), "{sought}");
    }
}

#[test]
fn an_index_stays_a_tree_until_it_is_packed() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::index(Tree::default());
    draft.insert(&memory, &BY_POSITION, 0, &[b"a"]).unwrap();
    draft.insert(&memory, &BY_POSITION, 1, &[b"b"]).unwrap();
    draft.remove(&memory, &BY_POSITION, 0, 1).unwrap();
    assert_eq!(draft.tree().map(|tree| tree.count), Some(1));
    let second = draft.tree().unwrap();
    let mut first = Draft::empty();
    first.insert(&memory, &BY_POSITION, 0, &[b"c"]).unwrap();
    first.make_tree(&memory, &BY_POSITION).unwrap();
    let value = first.value(9, second);
    assert_eq!((Sequence::second(&value), sequence::flags(&value)), (second, 9));
    assert_eq!(memory.live(), memory.reachable(&value));
    assert_eq!(draft.pack(&memory), Ok(true));
    assert!(!draft.is_tree());
    assert_eq!(memory.live().len(), 1);
    let Ok(Some(Element::Short(bytes))) = draft.sequence().at(&memory, 0) else { panic!("one element") };
    assert_eq!(bytes, b"b");
}

#[test]
fn an_element_may_be_made_of_others() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::index(Tree::default());
    for element in [&b"one"[..], b"two", b"three"] {
        let count = draft.sequence().count().unwrap();
        draft.insert(&memory, &BY_POSITION, count, &[element]).unwrap();
    }
    let Ok(Some(Element::Short(first))) = Sequence::Tree(draft.tree().unwrap()).at(&memory, 0) else {
        panic!("an element")
    };
    draft.replace(&memory, &BY_POSITION, 0, &[b"(", first, first, b")"]).unwrap();
    let Ok(Some(Element::Short(last))) = Sequence::Tree(draft.tree().unwrap()).at(&memory, 2) else {
        panic!("an element")
    };
    draft.insert(&memory, &BY_POSITION, 0, &[last]).unwrap();
    let all: Vec<_> = draft
        .sequence()
        .iter(&memory, 0)
        .map(|element| element.unwrap().bytes(&memory).unwrap().into_owned())
        .collect();
    assert_eq!(all, [&b"three"[..], b"(oneone)", b"two", b"three"]);
}

#[test]
fn a_value_that_is_none_is_damage_and_no_panic() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    for bytes in [
        &[][..],
        &[0],
        &[0, 1],
        &[0, 1, 0],
        &[0, 1, 0, 5, 0],
        &[0, 2, 0, 5, 0, 1, 0, 9, 9, 9, 9, 9],
        &[0, 1, 0, 1, 128, 9],
    ] {
        let value = Value::Packed(bytes);
        let sequence = Sequence::of(&value);
        let damaged = match sequence.at(&memory, 0) {
            Err(Fault::Damaged { .. }) => true,
            Ok(Some(_)) => matches!(sequence.at(&memory, 1), Err(Fault::Damaged { .. })),
            _ => false,
        };
        assert!(damaged, "{bytes:?}");
        assert!(sequence.iter(&memory, 0).count() <= 2);
        assert!(sequence.iter_back(&memory, 1).count() <= 2);
    }
}

#[test]
fn a_rank_past_the_end_is_damage_and_no_panic() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let fresh = || {
        let mut tree = Draft::index(Tree::default());
        tree.insert(&memory, &BY_POSITION, 0, &[b"one"]).unwrap();
        let mut packed = Draft::empty();
        packed.insert(&memory, &BY_POSITION, 0, &[b"one"]).unwrap();
        [tree, packed]
    };
    for (number, mut draft) in fresh().into_iter().chain(fresh()).chain(fresh()).enumerate() {
        let outcome = match number / 2 {
            0 => draft.insert(&memory, &BY_POSITION, 2, &[b"two"]),
            1 => draft.replace(&memory, &BY_POSITION, 1, &[b"two"]),
            _ => draft.remove(&memory, &BY_POSITION, u64::MAX, 2),
        };
        assert!(matches!(outcome, Err(Fault::Damaged { .. })), "{number}: {outcome:?}");
    }
}

/// A memory with damage in it: what is released is not looked for, since it may be named twice or not at all.
struct Damaged<'m>(&'m Memory<'m>);

impl Nodes for Damaged<'_> {
    fn data(&self, node: Ref) -> Result<&[u8], Fault> {
        self.0.data(node)
    }

    fn refs(&self, node: Ref) -> Result<&[Ref], Fault> {
        self.0.refs(node)
    }

    fn make(&self, refs: &[Ref], parts: &[&[u8]]) -> Result<Ref, Fault> {
        self.0.make(refs, parts)
    }

    fn edit(&self, node: Ref, change: &mut dyn FnMut(&mut [Ref], &mut [u8])) -> bool {
        self.0.edit(node, change)
    }

    fn is_private(&self, node: Ref) -> bool {
        self.0.is_private(node)
    }

    fn release(&self, _: Ref) {}

    fn release_tree(&self, _: Ref) {}
}

/// Some writes into nodes: which node, where in it, and what.
fn damages() -> impl Strategy<Value = Vec<(usize, usize, u8)>> {
    prop::collection::vec((any::<usize>(), prop_oneof![0usize..8, any::<usize>()], any::<u8>()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(256), ..ProptestConfig::default() })]

    #[test]
    fn damage_is_an_error_and_nothing_worse(damages in damages(), height in 0u64..3, truncate in any::<bool>(), from in 0u64..1000) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let rule = &SORTED_MEMBERS;
        let mut members: Vec<Vec<u8>> = (0..[20u32, 500, 3000][height as usize]).map(|number| number.to_be_bytes().repeat(20)).collect();
        members.push(vec![b'x'; 2000]);
        members.sort_by(|one, two| compare_members(one, two));
        let mut draft = Draft::empty();
        draft.extend(&memory, rule, &mut members.iter().map(|member| &member[..])).expect("memory enough");
        let (tree, nodes) = (draft.tree().expect("a tree"), memory.live().into_iter().collect::<Vec<_>>());
        for (node, at, byte) in &damages {
            let node = nodes[node % nodes.len()];
            let (mut refs, mut data) = (memory.refs(node).unwrap().to_vec(), memory.data(node).unwrap().to_vec());
            let Some(place) = at.checked_rem(data.len() + refs.len() * 8) else { continue };
            if let Some(inner) = refs.get_mut(place / 8) {
                *inner = nodes[*byte as usize * nodes.len() / 256];
            } else if truncate {
                data.truncate(place - refs.len() * 8);
            } else {
                data[place - refs.len() * 8] ^= byte;
            }
            memory.damage(node, &refs, &data);
        }
        let nodes = Damaged(&memory);
        let sequence = Sequence::Tree(tree);
        let _ = sequence::check(&nodes, &tree, rule, true, &mut |_| {});
        for element in sequence.iter(&nodes, from % tree.count) {
            if element.is_ok_and(|element| element.len() < 1 << 20 && element.bytes(&nodes).is_err()) {
                break;
            }
        }
        sequence.iter_back(&nodes, from % tree.count).for_each(drop);
        let _ = sequence.at(&nodes, from % tree.count);
        for member in &members {
            let _ = sequence.seek(&nodes, rule, member_word(member), &mut |other| compare_members(other, member));
        }
        for step in 0..6 {
            let mut draft = Draft::of(&sequence);
            let rank = from % tree.count;
            let _ = match step {
                0 => draft.insert(&nodes, rule, rank, &[&[7; 100]]),
                1 => draft.insert(&nodes, rule, tree.count, &[&[7; 700]]),
                2 => draft.replace(&nodes, rule, rank, &[b"seven"]),
                3 => draft.remove(&nodes, rule, rank, 1),
                4 => draft.remove(&nodes, rule, rank / 2, tree.count - rank),
                _ => draft.extend(&nodes, rule, &mut members.iter().map(|member| &member[..])),
            };
        }
    }
}
