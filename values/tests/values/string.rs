//! Strings against `Vec<u8>`: generated writes, whole transactions of them, and no node lost or kept.
use std::collections::BTreeSet;

use bumpalo::Bump;
use polder_base::{Fault, Ref};
use polder_values::string::{self, Builder, CHUNK, Draft, Piece};
use polder_values::testing::Memory;
use polder_values::{Nodes, PACKED_MAX, Root, Value};
use proptest::prelude::*;

/// What a test does to a string.
#[derive(Clone, Debug)]
enum Step {
    /// Write a run of one byte.
    Write {
        offset: usize,
        len: usize,
        byte: u8,
    },
    /// The same at the end.
    Append {
        len: usize,
        byte: u8,
    },
    Reach(usize),
    Commit,
    /// A whole new value in the place of the old one.
    Replace {
        len: usize,
        byte: u8,
    },
}

/// Lengths and offsets around everything that is a border.
fn position() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..64,
        PACKED_MAX - 8..PACKED_MAX + 8,
        CHUNK - 8..CHUNK + 8,
        3 * CHUNK - 8..3 * CHUNK + 8,
        0usize..200_000,
        CHUNK * 512 - 8..CHUNK * 512 + 8,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![4 => 0usize..100, 1 => 0usize..3 * CHUNK];
    prop_oneof![
        4 => (position(), length.clone(), any::<u8>()).prop_map(|(offset, len, byte)| Step::Write { offset, len, byte }),
        4 => (length.clone(), any::<u8>()).prop_map(|(len, byte)| Step::Append { len, byte }),
        1 => position().prop_map(Step::Reach),
        2 => Just(Step::Commit),
        1 => (length, 0u8..2).prop_map(|(len, byte)| Step::Replace { len, byte }),
    ]
}

fn write(model: &mut Vec<u8>, offset: usize, len: usize, byte: u8) {
    if len > 0 {
        model.resize(model.len().max(offset + len), 0);
        model[offset..offset + len].fill(byte);
    }
}

fn apply(memory: &Memory<'_>, draft: &mut Draft, model: &mut Vec<u8>, step: &Step) -> Result<(), Fault> {
    match *step {
        Step::Write { offset, len, byte } => {
            draft.write(memory, offset as u64, &vec![byte; len])?;
            write(model, offset, len, byte);
        }
        Step::Append { len, byte } => {
            draft.write(memory, string::len(&draft.value()), &vec![byte; len])?;
            write(model, model.len(), len, byte);
        }
        Step::Reach(len) => {
            draft.reach(memory, len as u64)?;
            model.resize(model.len().max(len), 0);
        }
        Step::Commit => memory.commit(),
        Step::Replace { len, byte } => {
            if let Value::Tree(root) = draft.value() {
                memory.release_tree(root.refs[0]);
            }
            *model = vec![byte; len];
            *draft = Draft::of(&string::make(memory, model)?);
        }
    }
    Ok(())
}

fn read(memory: &Memory<'_>, value: Value<'_>, start: u64, end: u64) -> Vec<u8> {
    string::pieces(memory, value, start, end)
        .flat_map(|piece| piece.expect("a sound tree").bytes().to_vec())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_string_is_what_was_written_to_it(steps in prop::collection::vec(step(), 1..24), from in position(), width in 0usize..100_000) {
        let arena = Bump::new();
        let memory = Memory::new(&arena);
        let (mut draft, mut model) = (Draft::empty(), Vec::new());
        for step in &steps {
            apply(&memory, &mut draft, &mut model, step).expect("memory enough");
            prop_assert_eq!(string::len(&draft.value()), model.len() as u64);
            prop_assert_eq!(matches!(draft, Draft::Packed(_)), model.len() <= PACKED_MAX);
            prop_assert_eq!(memory.live(), memory.reachable(&draft.value()));
            if let Value::Tree(root) = draft.value() {
                let mut seen = BTreeSet::new();
                string::check(&memory, &root, &mut |node| assert!(seen.insert(node))).expect("a sound tree");
                prop_assert_eq!(seen, memory.live());
            }
        }
        let value = draft.value();
        prop_assert!(*string::contiguous(&memory, &value).expect("a sound tree") == *model);
        let window = from.min(model.len())..(from + width).min(model.len());
        prop_assert!(read(&memory, value, from as u64, (from + width) as u64) == model[window]);
        let mut bytes = [7; 9];
        string::read_at(&memory, &value, from as u64, &mut bytes).expect("a sound tree");
        let expected: Vec<u8> = (from..from + 9).map(|at| model.get(at).copied().unwrap_or(0)).collect();
        prop_assert_eq!(&bytes[..], &expected[..]);
    }
}

#[test]
fn a_bit_set_far_out_in_nothing_costs_one_path() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::empty();
    draft.write(&memory, (1 << 29) - 1, &[1]).expect("memory enough");
    assert_eq!(string::len(&draft.value()), 1 << 29);
    assert_eq!(memory.live().len(), 3);
    let held: usize = memory.live().iter().map(|node| memory.data(*node).map_or(0, <[u8]>::len)).sum();
    assert!(held <= CHUNK);
}

#[test]
fn a_small_change_of_a_large_value_copies_one_chunk_and_its_path() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let bytes = vec![7; 100 * CHUNK];
    let mut draft = Draft::of(&string::make(&memory, &bytes).expect("memory enough"));
    memory.commit();
    let before = memory.live();
    draft.write(&memory, 50 * CHUNK as u64 + 3, b"x").expect("memory enough");
    assert_eq!(memory.live().difference(&before).count(), 2, "a leaf and its inner node");
}

#[test]
fn appends_of_one_transaction_are_written_in_place() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::of(&string::make(&memory, &[1; 10_000]).expect("memory enough"));
    for _ in 0..50 {
        draft.write(&memory, string::len(&draft.value()), b"0123456789").expect("memory enough");
    }
    assert!(memory.edits() >= 45, "{} edits", memory.edits());
    let expected = [&[1; 10_000][..], &b"0123456789".repeat(50)].concat();
    assert_eq!(*string::contiguous(&memory, &draft.value()).expect("a sound tree"), *expected);
}

#[test]
fn zeros_are_holes() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut builder = Builder::new();
    builder.push_hole(CHUNK);
    builder.push(&memory, &string::ZEROS).expect("memory enough");
    builder.push(&memory, b"end").expect("memory enough");
    let value = Value::Tree(builder.finish(&memory).expect("memory enough"));
    assert_eq!(memory.live().len(), 2, "the last leaf and its inner node");
    let pieces: Vec<Piece<'_>> =
        string::pieces(&memory, value, 1, u64::MAX).map(|piece| piece.expect("a sound tree")).collect();
    assert_eq!(pieces, [Piece::Zeros(CHUNK - 1), Piece::Zeros(CHUNK), Piece::Bytes(b"end")]);
}

#[test]
fn a_damaged_tree_is_an_error() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let Value::Tree(root) = string::make(&memory, &vec![7; 3 * CHUNK]).expect("memory enough") else {
        panic!("a long string is a tree");
    };
    let damaged = |root: Root| {
        let mut bytes = [0; 9];
        let read = string::read_at(&memory, &Value::Tree(root), 0, &mut bytes);
        let written = Draft::Tree(root).write(&memory, 0, b"x");
        assert!(matches!(string::check(&memory, &root, &mut |_| {}), Err(Fault::Damaged { .. })));
        assert!(
            matches!((&read, &written), (Err(Fault::Damaged { .. }), Err(Fault::Damaged { .. }))),
            "{read:?} {written:?}"
        );
    };
    damaged(Root { extra: 9, ..root });
    damaged(Root { extra: 0, ..root });
    damaged(Root { count: u64::MAX, ..root });
    damaged(Root { refs: [Ref(999), Ref::NONE], ..root });
    damaged(Root { extra: 2, ..root });
    let top = root.refs[0];
    memory.damage(top, &[top], &[]);
    damaged(root);
    memory.damage(top, &[], &[1; 3]);
    damaged(root);
    memory.damage(top, &[Ref(1); 2000], &[]);
    damaged(root);
}

#[test]
fn a_check_finds_what_reading_passes_over() {
    let arena = Bump::new();
    let memory = Memory::new(&arena);
    let mut draft = Draft::of(&string::make(&memory, &[7; 10_000]).expect("memory enough"));
    draft.write(&memory, 10_000, b"x").expect("memory enough");
    let Value::Tree(root) = draft.value() else { panic!("a long string is a tree") };
    let check = |root: &Root| string::check(&memory, root, &mut |_| {}).is_ok();
    assert!(check(&root));
    assert!(!check(&Root { count: 9_999, ..root }), "what the end cuts off is no zero");
    assert!(!check(&Root { count: 100, ..root }), "so few bytes are packed");
    assert!(!check(&Root { refs: [root.refs[0]; 2], ..root }), "a string has one tree");
    let over = memory.make(&[root.refs[0], root.refs[0]], &[]).expect("memory enough");
    assert!(!check(&Root { refs: [over, Ref::NONE], extra: 1, ..root }), "a leaf past the end");
    let mixed = memory.make(&[root.refs[0]], &[b"data"]).expect("memory enough");
    assert!(!check(&Root { refs: [mixed, Ref::NONE], extra: 1, ..root }), "an inner node with data");
}
