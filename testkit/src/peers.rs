//! The same commands for Polder and for a real server: their replies must be equal.
//!
//! ```text
//!   seed --> generate (from the grammar of every row) --> sequence --> both doors --> differences --> equal?
//!                                                                                                  no |
//!                                       a transcript case, ready to be pasted <-- shrink <------------+
//! ```
//! What differs on purpose stands with its reason in testkit/src/peers/differences.md, which is read here: there is no other list.
pub mod differences;
pub mod generate;
pub mod memcached;
pub mod payloads;

use polder_base::Protocol;

use crate::answer::{Answer, quoted};
use crate::door::Door;
use differences::{Differences, Rule};

/// One command with its arguments.
pub type Line = Vec<Vec<u8>>;

/// The first reply of a sequence that differed.
pub struct Mismatch {
    pub at: usize,
    pub ours: Answer,
    pub theirs: Answer,
}

/// Runs `lines` through both doors from an empty memory on.
///
/// # Errors
/// A text when a door fails altogether.
pub fn compare(
    lines: &[Line],
    ours: &mut dyn Door,
    theirs: &mut dyn Door,
    known: &Differences,
) -> Result<Option<Mismatch>, String> {
    ours.reset()?;
    theirs.reset()?;
    for (at, line) in lines.iter().enumerate() {
        let (mine, other) = (ours.call("a", line)?, theirs.call("a", line)?);
        if mine == other {
            continue;
        }
        if !known.rule(line).is_some_and(|rule| tolerates(&rule, &mine, &other)) {
            return Ok(Some(Mismatch { at, ours: mine, theirs: other }));
        }
        // What was tolerated may have left different values behind.
        if matches!(known.rule(line), Some(Rule::Numbers | Rule::Errors)) {
            let flush = vec![b"FLUSHALL".to_vec()];
            ours.call("a", &flush)?;
            theirs.call("a", &flush)?;
        }
    }
    Ok(None)
}

fn tolerates(rule: &Rule, mine: &Answer, other: &Answer) -> bool {
    match rule {
        Rule::Skip => true,
        Rule::Sorted => mine.clone().sorted() == other.clone().sorted(),
        Rule::Near(most) => near(mine, other, *most),
        Rule::Shape => same_shape(mine, other),
        Rule::Errors => matches!((mine, other), (Answer::Error(_), Answer::Error(_))),
        Rule::Refused => matches!(mine, Answer::Error(_)),
        Rule::Numbers => same_numbers(mine, other),
    }
}

fn near(mine: &Answer, other: &Answer, most: i64) -> bool {
    match (mine, other) {
        // Negative replies say "no such key" and the like; they are no times.
        (Answer::Integer(one), Answer::Integer(two)) => {
            one == two || *one >= 0 && *two >= 0 && (one - two).abs() <= most
        }
        (Answer::Array(one), Answer::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(a, b)| near(a, b, most))
        }
        _ => mine == other,
    }
}

fn same_shape(mine: &Answer, other: &Answer) -> bool {
    match (mine, other) {
        (Answer::Error(_), _) | (_, Answer::Error(_)) => mine == other,
        _ => std::mem::discriminant(mine) == std::mem::discriminant(other),
    }
}

/// Whether both are equal but for digits of numbers that come too late to count.
fn same_numbers(mine: &Answer, other: &Answer) -> bool {
    match (mine, other) {
        (Answer::Array(one), Answer::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(a, b)| same_numbers(a, b))
        }
        _ => match (number(mine), number(other)) {
            (Some(one), Some(two)) => mine == other || (one - two).abs() <= 1e-14 * one.abs().max(two.abs()),
            _ => mine == other,
        },
    }
}

fn number(answer: &Answer) -> Option<f64> {
    match answer {
        Answer::Bulk(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        Answer::Double(text) => text.parse().ok(),
        _ => None,
    }
}

/// A shorter sequence that still differs: whole lines are left out first, then arguments.
///
/// # Errors
/// As [`compare`].
pub fn shrink(
    mut lines: Vec<Line>,
    ours: &mut dyn Door,
    theirs: &mut dyn Door,
    known: &Differences,
) -> Result<(Vec<Line>, Mismatch), String> {
    let found = compare(&lines, ours, theirs, known)?;
    let mut mismatch = found
        .ok_or("it differed once and then no more: the replies depend on something besides the commands")?;
    lines.truncate(mismatch.at + 1);
    let mut step = lines.len() / 2;
    while step > 0 {
        let mut at = 0;
        while at < lines.len() {
            let mut fewer = lines.clone();
            fewer.drain(at..(at + step).min(lines.len()));
            match compare(&fewer, ours, theirs, known)? {
                Some(found) => {
                    fewer.truncate(found.at + 1);
                    (lines, mismatch) = (fewer, found);
                }
                None => at += step,
            }
        }
        step /= 2;
    }
    shrink_arguments(&mut lines, &mut mismatch, ours, theirs, known)?;
    Ok((lines, mismatch))
}

fn shrink_arguments(
    lines: &mut Vec<Line>,
    mismatch: &mut Mismatch,
    ours: &mut dyn Door,
    theirs: &mut dyn Door,
    known: &Differences,
) -> Result<(), String> {
    for at in 0..lines.len() {
        let mut argument = lines[at].len();
        while argument > 2 {
            argument -= 1;
            let mut fewer = lines.clone();
            fewer[at].remove(argument);
            // A shorter line counts only if the same reply differs, and not by a new error of ours and theirs.
            if let Some(found) = compare(&fewer, ours, theirs, known)?
                && found.at == mismatch.at
                && same_kind_of_difference(&found, mismatch)
            {
                (*lines, *mismatch) = (fewer, found);
            }
        }
    }
    Ok(())
}

fn same_kind_of_difference(one: &Mismatch, two: &Mismatch) -> bool {
    let kinds = |mismatch: &Mismatch| {
        (std::mem::discriminant(&mismatch.ours), std::mem::discriminant(&mismatch.theirs))
    };
    kinds(one) == kinds(two)
}

/// The sequence as a transcript case that expects the peer's reply.
pub fn as_transcript(lines: &[Line], mismatch: &Mismatch, protocol: Protocol) -> String {
    let mut text = String::from("@case\n");
    for line in lines {
        text += &format!("> {}\n", line.iter().map(|arg| as_typed(arg)).collect::<Vec<_>>().join(" "));
    }
    format!("{text}{}\n# in {protocol:?} polder answers\n{}", mismatch.theirs.shown(), mismatch.ours.shown())
}

fn as_typed(argument: &[u8]) -> String {
    match argument.iter().all(u8::is_ascii_graphic) && !argument.is_empty() && !argument.contains(&b'"') {
        true if argument.len() <= 100 => String::from_utf8_lossy(argument).into_owned(),
        _ if argument.len() > 100 && argument.iter().all(|byte| *byte == argument[0]) => {
            format!("repeat:{}:{}", argument.len(), argument[0] as char)
        }
        _ => quoted(argument),
    }
}
