//! Sorted sets against a map, with every node accounted for.
use std::collections::{BTreeMap, BTreeSet};

use bumpalo::Bump;
use polder_base::number::NumberMode;
use proptest::prelude::*;

use super::*;
use crate::testing::Memory;

/// One change.
#[derive(Clone, Debug)]
enum Change {
    Put { member: Vec<u8>, score: &'static str },
    Remove { member: Vec<u8> },
    RemoveRange { rank: u64, count: u64 },
    Extend { count: usize },
    Commit,
}

const SCORES: [&str; 12] =
    ["0", "-0", "1", "1.0", "1.10", "1.1", "-300", "70000", "1e300", "inf", "-inf", "9007199254740993"];

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0u16..400).prop_map(|number| format!("member:{number}").into_bytes()),
        1 => proptest::collection::vec(0u8..3, 0..3),
        1 => (0u8..4, 500usize..1500).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        12 => (member(), proptest::sample::select(&SCORES[..])).prop_map(|(member, score)| Change::Put { member, score }),
        5 => member().prop_map(|member| Change::Remove { member }),
        1 => (0u64..300, 0u64..60).prop_map(|(rank, count)| Change::RemoveRange { rank, count }),
        1 => (1usize..150).prop_map(|count| Change::Extend { count }),
        2 => Just(Change::Commit),
    ]
}

/// What a sorted set is, told simply.
#[derive(Default)]
struct Model {
    scores: BTreeMap<Vec<u8>, Score>,
}

impl Model {
    fn sorted(&self) -> Vec<(f64, Vec<u8>)> {
        let mut all: Vec<_> =
            self.scores.iter().map(|(member, score)| (score.value() + 0.0, member.clone())).collect();
        all.sort_by(|one, two| one.0.total_cmp(&two.0).then_with(|| one.1.cmp(&two.1)));
        all
    }
}

fn score(text: &str) -> Score {
    Score::parse(NumberMode::Decimal, text.as_bytes()).expect("a score")
}

fn apply(nodes: &Memory<'_>, draft: &mut Draft, model: &mut Model, change: &Change, next: &mut u64) {
    match change {
        Change::Put { member, score: text } => {
            let spot = draft.spot(nodes, member).unwrap();
            assert_eq!(spot.score.as_ref().map(Score::text), model.scores.get(member).map(Score::text));
            draft.put(nodes, spot, &score(text), member).unwrap();
            model.scores.insert(member.clone(), score(text));
        }
        Change::Remove { member } => {
            let spot = draft.spot(nodes, member).unwrap();
            assert_eq!(spot.score, model.scores.remove(member));
            draft.remove(nodes, spot, member).unwrap();
        }
        Change::RemoveRange { rank, count } => {
            let sorted = model.sorted();
            let rank = (*rank).min(sorted.len() as u64);
            let count = (*count).min(sorted.len() as u64 - rank);
            draft.remove_range(nodes, rank, count).unwrap();
            for (_, member) in &sorted[rank as usize..(rank + count) as usize] {
                model.scores.remove(member);
            }
        }
        Change::Extend { count } => {
            // Members of the greatest score of all come last, in the order of their names.
            let added: Vec<_> = (0..*count as u64)
                .map(|at| (Score::of(f64::INFINITY), format!("~{:09}", *next + at).into_bytes()))
                .collect();
            *next += *count as u64;
            draft.extend(nodes, added.iter().map(|(score, member)| (score, &member[..]))).unwrap();
            model.scores.extend(added.into_iter().map(|(score, member)| (member, score)));
        }
        Change::Commit => {}
    }
}

fn compare_all(nodes: &Memory<'_>, set: &SortedSet<'_>, model: &Model) {
    let sorted = model.sorted();
    assert_eq!(set.count().unwrap(), sorted.len() as u64);
    let forwards: Vec<_> = set.iter(nodes, 0).map(|entry| entry.unwrap()).collect();
    let shown: Vec<_> = forwards.iter().map(|entry| (entry.value() + 0.0, entry.member().to_vec())).collect();
    assert_eq!(shown, sorted);
    for (rank, entry) in forwards.iter().enumerate() {
        let found = set.rank(nodes, entry.member()).unwrap().unwrap();
        let score = &model.scores[entry.member()];
        assert_eq!(
            (found.0, found.1.text(), found.1.value().to_bits()),
            (rank as u64, score.text(), (score.value() + 0.0).to_bits())
        );
        assert_eq!(set.at(nodes, rank as u64).unwrap().unwrap().into_member(), entry.member());
    }
    if let Some(last) = sorted.len().checked_sub(1) {
        let back: Vec<_> = set
            .iter_back(nodes, last as u64)
            .map(|entry| entry.unwrap().into_member().into_owned())
            .collect();
        assert!(back.iter().rev().eq(sorted.iter().map(|(_, member)| member)));
    }
    for count in [1, 10, 1000] {
        let (mut cursor, mut scanned) = (0, Vec::new());
        loop {
            cursor = set
                .scan(nodes, cursor, count, &mut |entry| scanned.push(entry.into_member().into_owned()))
                .unwrap();
            if cursor == 0 {
                break;
            }
        }
        scanned.sort();
        assert!(scanned.iter().eq(model.scores.keys()));
    }
    for value in [f64::NEG_INFINITY, -300.0, 0.0, 1.05, 1.1, 1e300, f64::INFINITY] {
        for open in [false, true] {
            let bound = ScoreBound { value, open };
            let all = ScoreBound { value: f64::INFINITY, open: false };
            let from = sorted
                .iter()
                .filter(|(score, _)| if open { *score <= value } else { *score < value })
                .count() as u64;
            assert_eq!(set.ranks_by_score(nodes, bound, all).unwrap(), (from, sorted.len() as u64));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_sorted_set_is_a_map_in_the_order_of_its_scores(changes in proptest::collection::vec(change(), 1..250)) {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let (mut draft, mut model, mut next) = (Draft::empty(), Model::default(), 0);
        for change in &changes {
            apply(&nodes, &mut draft, &mut model, change, &mut next);
            if matches!(change, Change::Commit) {
                let live = nodes.live();
                prop_assert_eq!(&live, &nodes.reachable(&draft.value()));
                nodes.commit();
            }
        }
        compare_all(&nodes, &draft.set(), &model);
        let mut seen = BTreeSet::new();
        let value = draft.value();
        check(&nodes, &value, &mut |node| assert!(seen.insert(node))).unwrap();
        prop_assert_eq!(seen, nodes.live());
    }

    #[test]
    fn ranges_of_members_are_those_of_a_set(members in proptest::collection::btree_set(member(), 1..120), bounds in (member(), member()), kinds in (0..4, 0..4)) {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let mut draft = Draft::empty();
        for member in &members {
            let spot = draft.spot(&nodes, member).unwrap();
            draft.put(&nodes, spot, &Score::of(7.0), member).unwrap();
        }
        let bound = |kind, member| match kind {
            0 => LexBound::Least,
            1 => LexBound::Greatest,
            2 => LexBound::Closed(member),
            _ => LexBound::Open(member),
        };
        let (min, max) = (bound(kinds.0, &bounds.0[..]), bound(kinds.1, &bounds.1[..]));
        let expected: Vec<_> = members.iter().filter(|member| min.lets_from(member) && max.lets_upto(member)).collect();
        for back in [false, true] {
            let (from, upto) = draft.set().ranks_by_lex(&nodes, min, max, back).unwrap();
            let found: Vec<_> = draft.set().iter(&nodes, from).take((upto - from) as usize).map(|entry| entry.unwrap().into_member().into_owned()).collect();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
        }
    }

    #[test]
    fn damage_is_an_error(at in 0usize..4000, byte in any::<u8>()) {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let mut draft = Draft::empty();
        for number in 0..200 {
            let member = format!("member:{number}").into_bytes();
            let spot = draft.spot(&nodes, &member).unwrap();
            draft.put(&nodes, spot, &Score::of(f64::from(number % 7)), &member).unwrap();
        }
        let all: Vec<Ref> = nodes.live().into_iter().collect();
        let node = all[at % all.len()];
        let (refs, mut data) = (nodes.refs(node).unwrap().to_vec(), nodes.data(node).unwrap().to_vec());
        let place = at * 7 % data.len();
        data[place] = byte;
        nodes.damage(node, &refs, &data);
        let value = draft.value();
        let _ = check(&nodes, &value, &mut |_| {});
        let set = SortedSet::of(&value);
        for number in 0..200 {
            let _ = set.rank(&nodes, format!("member:{number}").as_bytes());
        }
        let _ = set.iter(&nodes, 0).take(1000).count();
    }
}

#[test]
fn whole_scores_take_few_bytes_and_come_back() {
    for (value, len) in [
        (0.0, 2),
        (-128.0, 2),
        (128.0, 3),
        (-32_768.0, 3),
        (32_768.0, 5),
        (2_147_483_647.0, 5),
        (2_147_483_648.0, 9),
        (-0.0, 2),
        (0.5, 9),
    ] {
        let prefix = Prefix::of(&Score::of(value));
        assert_eq!(prefix.bytes().len(), len, "{value}");
        assert_eq!(split(prefix.bytes()).unwrap().value, value);
    }
}

#[test]
fn packed_sets_of_several_scores_show_by_lex_what_redis_shows() {
    let arena = Bump::new();
    let nodes = Memory::new(&arena);
    let mut draft = Draft::empty();
    for (at, member) in [b"c", b"a", b"b", b"d"].iter().enumerate() {
        let spot = draft.spot(&nodes, *member).unwrap();
        draft.put(&nodes, spot, &Score::of(at as f64), *member).unwrap();
    }
    let (min, max) = (LexBound::Closed(b"b"), LexBound::Closed(b"c"));
    assert_eq!(draft.set().ranks_by_lex(&nodes, min, max, false).unwrap(), (0, 3));
    assert_eq!(draft.set().ranks_by_lex(&nodes, min, max, true).unwrap(), (2, 3));
}

/// Members of one score lie below many inner nodes whose first words are equal.
#[test]
fn many_members_of_a_few_scores_move_together() {
    const MEMBERS: u64 = 30_000;
    let arena = Bump::new();
    let nodes = Memory::new(&arena);
    let mut model: BTreeMap<Vec<u8>, Score> = (0..MEMBERS)
        .map(|number| (format!("member:{number}").into_bytes(), Score::of((number % 3) as f64)))
        .collect();
    let mut sorted: Vec<(&Vec<u8>, &Score)> = model.iter().collect();
    sorted.sort_by(|one, two| one.1.value().total_cmp(&two.1.value()).then_with(|| one.0.cmp(two.0)));
    let mut draft = Draft::empty();
    draft.extend(&nodes, sorted.into_iter().map(|(member, score)| (score, &member[..]))).unwrap();
    draft.set_large();
    let mut next = 7u64;
    for round in 0..60 {
        // In every other round some are the same.
        let few = |at: u64| round % 2 == 0 && at.is_multiple_of(9);
        let names: Vec<Vec<u8>> = (0..100)
            .map(|at| {
                next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("member:{}", (next >> 33) % if few(at) { 5 } else { MEMBERS + 500 }).into_bytes()
            })
            .collect();
        let pairs: Vec<(Score, &[u8])> =
            names.iter().enumerate().map(|(at, name)| (Score::of((at % 3) as f64), &name[..])).collect();
        let became = draft.put_all(&nodes, &pairs).unwrap().expect("a large set");
        for ((score, member), became) in pairs.iter().zip(became) {
            assert_eq!(became, Became::of(model.insert(member.to_vec(), score.clone()).as_ref(), score));
        }
        // Nodes of one transaction are edited in place, those of two are not.
        if round % 3 != 0 {
            nodes.commit();
        }
    }
    let value = draft.value();
    check(&nodes, &value, &mut |_| {}).unwrap();
    let found = SortedSet::of(&value)
        .iter(&nodes, 0)
        .map(|entry| entry.map(|entry| (entry.member().to_vec(), entry.value())));
    let found: BTreeMap<Vec<u8>, f64> = found.collect::<Result<_, _>>().unwrap();
    assert_eq!(found, model.into_iter().map(|(member, score)| (member, score.value())).collect());
}
