//! LCS: the longest common subsequence of two strings.
//!
//! The textbook's table: `length(i, j)` is the length for the first `i` bytes of one string and the first `j` of the other.
//! A walk from its last corner back finds the bytes and, as runs, where they stand in both strings. Which of several equally
//! long subsequences is found is part of the answer: on a tie the walk gives up a byte of the second string.
use polder_table::Stop;
use polder_values::{Kind, string};

use super::{len_max, value_or_empty};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

/// A run of common bytes: the first and the last place of it in each string.
struct Run {
    a: (usize, usize),
    b: (usize, usize),
}

impl Run {
    fn len(&self) -> usize {
        self.a.1 - self.a.0 + 1
    }
}

#[derive(Default)]
struct Options {
    len: bool,
    index: bool,
    with_match_len: bool,
    match_len_min: i64,
}

fn options(args: &[&[u8]]) -> Result<Options, Stop> {
    let mut options = Options::default();
    let mut rest = args;
    while let [word, later @ ..] = rest {
        rest = later;
        if is(word, "LEN") {
            options.len = true;
        } else if is(word, "IDX") {
            options.index = true;
        } else if is(word, "WITHMATCHLEN") {
            options.with_match_len = true;
        } else if is(word, "MINMATCHLEN") && !rest.is_empty() {
            options.match_len_min = integer(rest[0])?;
            rest = &rest[1..];
        } else {
            return Err(SYNTAX.into());
        }
    }
    if options.len && options.index {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    Ok(options)
}

/// The table of lengths.
struct Table<'s> {
    a: &'s [u8],
    b: &'s [u8],
    lengths: Vec<u32>,
}

impl<'s> Table<'s> {
    fn fill(a: &'s [u8], b: &'s [u8]) -> Table<'s> {
        let width = b.len() + 1;
        let mut lengths = vec![0; width * (a.len() + 1)];
        for (i, byte) in a.iter().enumerate() {
            let (above, row) = lengths[i * width..(i + 2) * width].split_at_mut(width);
            for (j, other) in b.iter().enumerate() {
                row[j + 1] = if byte == other { above[j] + 1 } else { above[j + 1].max(row[j]) };
            }
        }
        Table { a, b, lengths }
    }

    fn length(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * (self.b.len() + 1) + j]
    }

    fn total(&self) -> u32 {
        self.length(self.a.len(), self.b.len())
    }

    /// The runs, from the end of the strings to their beginning.
    fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let (mut i, mut j) = (self.a.len(), self.b.len());
        while i > 0 && j > 0 {
            if self.a[i - 1] != self.b[j - 1] {
                if self.length(i - 1, j) > self.length(i, j - 1) {
                    i -= 1
                } else {
                    j -= 1
                }
                continue;
            }
            (i, j) = (i - 1, j - 1);
            match runs.last_mut() {
                Some(run) if (run.a.0, run.b.0) == (i + 1, j + 1) => (run.a.0, run.b.0) = (i, j),
                _ => runs.push(Run { a: (i, i), b: (j, j) }),
            }
        }
        runs
    }
}

pub(super) fn lcs(call: &mut Call<'_>) -> Outcome {
    let (one, two) = (call.find(call.args[1])?, call.find(call.args[2])?);
    if [&one, &two].into_iter().flatten().any(|found| found.kind != Kind::String) {
        return Err("ERR The specified keys must contain string values".into());
    }
    let options = options(&call.args[3..])?;
    let (one, two) = (value_or_empty(&one), value_or_empty(&two));
    let cells = (string::len(&one) + 1).saturating_mul(string::len(&two) + 1);
    if cells.saturating_mul(size_of::<u32>() as u64) > len_max(call) {
        return Err("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into());
    }
    let (a, b) = (string::contiguous(call.txn, &one)?, string::contiguous(call.txn, &two)?);
    let table = Table::fill(&a, &b);
    if options.index {
        reply_index(call, &options, &table);
    } else if options.len {
        call.reply.integer(i64::from(table.total()));
    } else {
        let text: Vec<u8> =
            table.runs().iter().rev().flat_map(|run| &a[run.a.0..=run.a.1]).copied().collect();
        call.reply.bulk(&text);
    }
    Ok(())
}

/// Replies with the runs that are long enough, and the length of all.
fn reply_index(call: &mut Call<'_>, options: &Options, table: &Table<'_>) {
    let runs = table.runs();
    let shown: Vec<&Run> = runs.iter().filter(|run| run.len() as i64 >= options.match_len_min).collect();
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(shown.len());
    for run in shown {
        reply.array(if options.with_match_len { 3 } else { 2 });
        for (first, last) in [run.a, run.b] {
            reply.array(2);
            reply.integer(first as i64);
            reply.integer(last as i64);
        }
        if options.with_match_len {
            reply.integer(run.len() as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(table.total()));
}
