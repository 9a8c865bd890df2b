//! Sets against `BTreeSet`: generated changes, whole transactions of them, their algebra, and no node lost or kept.
use std::collections::BTreeSet;

use bumpalo::Bump;
use polder_base::Fault;
use polder_values::sequence::{self, Sequence};
use polder_values::set::algebra::{difference, intersection, union};
use polder_values::set::{Draft, Encoding, MEMBERS, Thresholds, by_number, encoding, find};
use polder_values::testing::Memory;
use polder_values::{Nodes, Value};
use proptest::prelude::*;

const THRESHOLDS: Thresholds = Thresholds { intset_entries: 300, entries: 128, value: 64 };

#[derive(Clone, Debug)]
enum Step {
    Add { from: usize, many: usize, words: bool },
    Remove { from: usize, many: usize, words: bool },
    RemoveAt { place: usize, many: usize },
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    let many = prop_oneof![5 => 1usize..4, 2 => 10usize..60, 1 => 100usize..300];
    let words = prop_oneof![3 => Just(false), 1 => Just(true)];
    prop_oneof![
        5 => (0usize..1200, many.clone(), words.clone()).prop_map(|(from, many, words)| Step::Add { from, many, words }),
        3 => (0usize..1200, many.clone(), words).prop_map(|(from, many, words)| Step::Remove { from, many, words }),
        1 => (0usize..1000, many).prop_map(|(place, many)| Step::RemoveAt { place, many }),
        3 => Just(Step::Commit),
    ]
}

fn member(number: usize, word: bool) -> Vec<u8> {
    match number % 89 {
        _ if !word => (number as i64 * 37 - 9_000).to_string().into_bytes(),
        0 => vec![b'.'; 500 + number],
        1 => number.to_string().repeat(400).into_bytes(),
        _ => format!("member {number}").into_bytes(),
    }
}

fn bytes(memory: &Memory<'_>, members: &Sequence<'_>) -> Vec<Vec<u8>> {
    let members = members.iter(memory, 0);
    members
        .map(|element| {
            element.and_then(|element| Ok(element.bytes(memory)?.into_owned())).expect("a sound set")
        })
        .collect()
}

fn apply(
    memory: &Memory<'_>,
    draft: &mut Draft,
    model: &mut BTreeSet<Vec<u8>>,
    step: &Step,
) -> Result<(), Fault> {
    match *step {
        Step::Add { from, many, words } => {
            for member in (from..from + many).map(|number| member(number, words)) {
                assert_eq!(draft.add(memory, &member)?, model.insert(member));
            }
        }
        Step::Remove { from, many, words } => {
            for member in (from..from + many).map(|number| member(number, words)) {
                assert_eq!(draft.remove(memory, &member)?, model.remove(&member));
            }
        }
        Step::RemoveAt { place, many } => {
            for _ in 0..many.min(model.len()) {
                let rank = (place * model.len() / 1000) as u64;
                let gone = draft
                    .members()
                    .at(memory, rank)?
                    .expect("a rank below the count")
                    .bytes(memory)?
                    .into_owned();
                draft.remove_at(memory, rank)?;
                assert!(model.remove(&gone));
            }
        }
        Step::Commit => {
            memory.commit();
            let again = Draft::of(&draft.value(), THRESHOLDS);
            *draft = again;
        }
    }
    Ok(())
}

fn check(memory: &Memory<'_>, draft: &mut Draft, model: &BTreeSet<Vec<u8>>) {
    let value = draft.value();
    let members = Sequence::of(&value);
    assert_eq!(members.count().expect("a sound set"), model.len() as u64);
    let mut seen = BTreeSet::new();
    if let Sequence::Tree(tree) = &members {
        sequence::check(memory, tree, &MEMBERS, true, &mut |node| assert!(seen.insert(node)))
            .expect("a sound set");
    }
    assert_eq!(seen, memory.live());
    let shown = bytes(memory, &members);
    let numbers: Option<Vec<i64>> = shown
        .iter()
        .map(|member| std::str::from_utf8(member).ok().and_then(|text| text.parse().ok()))
        .collect();
    match encoding(&value) {
        Encoding::Intset => {
            let numbers = numbers.expect("an intset holds numbers");
            assert!(numbers.len() as u64 <= THRESHOLDS.intset_entries);
            let ordered = by_number(memory, &value).expect("a sound set");
            let sorted = match ordered {
                Some(members) => members
                    .iter()
                    .map(|element| element.bytes(memory).expect("a sound set").into_owned())
                    .collect(),
                None => shown.clone(),
            };
            let sorted: Vec<i64> =
                sorted.iter().map(|text| String::from_utf8_lossy(text).parse().expect("a number")).collect();
            assert!(sorted.is_sorted(), "{sorted:?}");
        }
        Encoding::Listpack => assert!(shown.iter().all(|member| member.len() <= 64) && shown.len() <= 128),
        Encoding::Hashtable => {}
    }
    assert!(
        shown.into_iter().collect::<BTreeSet<_>>() == *model,
        "the members are others than they should be"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_set_is_what_was_put_into_it(steps in prop::collection::vec(step(), 1..24)) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let (mut draft, mut model) = (Draft::empty(Encoding::Intset, THRESHOLDS), BTreeSet::new());
        for step in &steps {
            apply(&memory, &mut draft, &mut model, step).expect("memory enough");
            check(&memory, &mut draft, &model);
        }
        for member in &model {
            prop_assert!(find(&memory, &draft.members(), member).expect("a sound set").is_some());
        }
    }

    #[test]
    fn the_algebra_of_sets_is_that_of_the_model(
        sets in prop::collection::vec(prop::collection::vec((0usize..1500, prop_oneof![4 => 1usize..9, 1 => 100usize..300], any::<bool>()), 0..5), 1..5)
    ) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let (mut values, mut models): (Vec<Draft>, Vec<BTreeSet<Vec<u8>>>) = (Vec::new(), Vec::new());
        for runs in &sets {
            let (mut draft, mut model) = (Draft::empty(Encoding::Intset, THRESHOLDS), BTreeSet::new());
            for (from, many, words) in runs {
                apply(&memory, &mut draft, &mut model, &Step::Add { from: *from, many: *many, words: *words }).expect("memory enough");
            }
            values.push(draft);
            models.push(model);
        }
        let sequences: Vec<Sequence<'_>> = values.iter().map(Draft::members).collect();
        let owned = |elements: &[sequence::Element<'_>]| -> Vec<Vec<u8>> {
            elements.iter().map(|element| element.bytes(&memory).expect("a sound set").into_owned()).collect()
        };
        let once = |shown: Vec<Vec<u8>>, expected: BTreeSet<Vec<u8>>| {
            assert_eq!(shown.len(), expected.len());
            assert!(shown.into_iter().collect::<BTreeSet<_>>() == expected);
        };
        let (first, others) = models.split_first().expect("one set at least");
        let mut common = Vec::new();
        let sorted = intersection(&memory, &sequences, &mut |element| { common.push(element); true }).expect("sound sets");
        once(owned(&common), first.iter().filter(|member| others.iter().all(|other| other.contains(*member))).cloned().collect());
        let mut left = Vec::new();
        let left_sorted = difference(&memory, &sequences[0], &sequences[1..], &mut |element| { left.push(element); true }).expect("sound sets");
        once(owned(&left), first.iter().filter(|member| !others.iter().any(|other| other.contains(*member))).cloned().collect());
        let mut all = Vec::new();
        let all_sorted = union(&memory, &sequences, &mut |element| { all.push(element); true }).expect("sound sets");
        once(owned(&all), models.iter().flatten().cloned().collect());
        for (members, sorted) in [(&common, sorted), (&left, left_sorted), (&all, all_sorted)] {
            let mut draft = Draft::empty(Encoding::Intset, THRESHOLDS);
            if sorted {
                draft.fill(&memory, members).expect("memory enough");
            } else {
                members.iter().for_each(|member| assert!(draft.add(&memory, &member.bytes(&memory).expect("sound")).expect("memory enough")));
            }
            let expected: BTreeSet<Vec<u8>> = owned(members).into_iter().collect();
            assert!(bytes(&memory, &draft.members()).into_iter().collect::<BTreeSet<_>>() == expected);
        }
    }
}

#[test]
fn one_member_of_many_costs_a_leaf_and_its_path() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::empty(Encoding::Intset, THRESHOLDS);
    for number in 0..50_000u32 {
        draft.add(&memory, number.to_string().as_bytes()).expect("memory enough");
    }
    memory.commit();
    let before = memory.live();
    draft.add(&memory, b"one more").expect("memory enough");
    let Value::Tree(root) = draft.value() else { panic!("a large set is a tree") };
    let height = usize::from(root.extra as u8);
    let made = memory.live().difference(&before).count();
    assert!(made <= height + 3, "{made} nodes for a tree of height {height}");
    let held: usize = memory.live().iter().map(|node| memory.data(*node).map_or(0, <[u8]>::len)).sum();
    assert!(held < 50_000 * 24, "{held} bytes");
}
