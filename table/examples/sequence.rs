//! Ordered inserts into one big tree in a segment, for a clock and for a profiler: `sequence [ELEMENTS] [PER TRANSACTION] [0: nothing else]`.
use std::time::{Duration, Instant};

use polder_base::Fault;
use polder_shm::{Segment, SegmentName, SegmentOptions};
use polder_table::{Mode, New, Replaces, Stop, Table};
use polder_values::order::{compare_members, member_word};
use polder_values::sequence::{Draft, Rule, Sequence, Tree};
use polder_values::{Kind, Value};

const MEMBERS: Rule = Rule { word: member_word, compare: compare_members, packed_sorted: false };

/// A member of 24 bytes.
fn member(number: u64) -> [u8; 24] {
    let mut member = *b"member:00000000000000000";
    member[7..23].copy_from_slice(format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).as_bytes());
    member
}

/// What this thread has computed so far: others may be at work on the machine.
fn computed() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// What a set of the standard library takes for the same members.
fn beside(members: &[[u8; 24]]) {
    let each = |time: Duration| time.as_nanos() as f64 / members.len() as f64;
    let mut set = std::collections::BTreeSet::new();
    let began = computed();
    members.iter().for_each(|member| _ = set.insert((member_word(member), *member)));
    println!("beside it, std's BTreeSet takes {:.1} ns an insert", each(computed() - began));
    let began = computed();
    members.iter().for_each(|member| assert!(set.contains(&(member_word(member), *member))));
    println!("                     {:7.1} ns to find one", each(computed() - began));
}

fn main() -> Result<(), Stop> {
    let words: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let (many, together) =
        (words.first().copied().unwrap_or(1_000_000), words.get(1).copied().unwrap_or(100));
    let name: SegmentName = format!("shm:polder-sequence-{}", std::process::id()).parse().expect("a name");
    let options = SegmentOptions { ceiling: 1 << 30, ..SegmentOptions::default() };
    let table = Table::over(Segment::create(&name, &options).expect("a segment"));
    let members: Vec<[u8; 24]> = (0..many as u64).map(member).collect();
    let empty = table.usage();
    let (began, began_wall, mut in_tree) = (computed(), Instant::now(), Duration::ZERO);
    for batch in members.chunks(together) {
        let txn = table.begin(Mode::Write)?;
        txn.declare(&[(0, b"key")])?;
        let found = txn.find(0, b"key")?;
        let before = Instant::now();
        let mut draft = found.map_or_else(Draft::empty, |found| Draft::of(&Sequence::of(&found.value)));
        for member in batch {
            let mut compare = |other: &[u8]| other.cmp(member);
            let place = draft.sequence().seek(&txn, &MEMBERS, member_word(member), &mut compare)?;
            draft.insert(&txn, &MEMBERS, place.rank, &[member])?;
        }
        in_tree += before.elapsed();
        let replaces = if found.is_some() { Replaces::Edited } else { Replaces::Whole };
        txn.write(0, b"key", &New::of(Kind::Set, draft.value(0, Tree::default())), replaces)?;
        txn.commit()?;
    }
    let each = |time: Duration| time.as_nanos() as f64 / many as f64;
    let (all, wall) = (computed() - began, began_wall.elapsed());
    let in_tree = in_tree.mul_f64(all.as_secs_f64() / wall.as_secs_f64());
    println!("{together:>5} a transaction: {:7.1} ns each, {:7.1} ns in the tree", each(all), each(in_tree));
    if words.len() > 2 {
        return Ok(Segment::remove(&name)?);
    }
    let txn = table.begin(Mode::Read)?;
    let value = txn.find(0, b"key")?.map(|found| found.value);
    let Some(Value::Tree(root)) = value else { return Err(Fault::Damaged { what: "the key" }.into()) };
    let sequence = Sequence::of(&Value::Tree(root));
    let began = computed();
    for member in &members {
        let mut compare = |other: &[u8]| other.cmp(member);
        let place = sequence.seek(&txn, &MEMBERS, member_word(member), &mut compare)?;
        assert!(place.found.is_some());
    }
    println!("                     {:7.1} ns to find one", each(computed() - began));
    let began = computed();
    for rank in 0..many as u64 {
        sequence.at(&txn, rank * 7919 % many as u64)?;
    }
    println!("                     {:7.1} ns to find one by rank", each(computed() - began));
    let began = computed();
    let sum: u64 = sequence.iter(&txn, 0).map(|element| element.map_or(0, |element| element.len())).sum();
    println!(
        "                     {:7.1} ns to go to the next, {sum} bytes in all",
        each(computed() - began)
    );
    drop(txn);
    let report = table.verify()?;
    println!(
        "{} nodes, {:.2} bytes a member; {report}",
        report.nodes,
        (report.node_bytes) as f64 / many as f64
    );
    beside(&members);
    println!("used {} before, {} now", empty.used, table.usage().used);
    Segment::remove(&name)?;
    Ok(())
}
