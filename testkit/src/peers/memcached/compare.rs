//! The comparison of two replies to one step.
use super::parse::{self, Part};
use super::rules::{Rule, Rules};
use super::{BASE64_KEY, CHOSEN, Piece, Request, Step, Told, Way, short};

/// The replies of both sides to one step, and what they have told before.
pub struct Pair<'r> {
    pub ours: &'r [u8],
    pub theirs: &'r [u8],
    /// Seconds that may lie between both.
    pub seconds: u64,
}

/// Compares two replies, and notes the CAS that they tell.
///
/// # Errors
/// The difference, in words.
pub fn compare(
    step: &Step,
    sequence: &str,
    pair: &Pair<'_>,
    (told_ours, told_theirs): (&mut Told, &mut Told),
    rules: &Rules,
) -> Result<(), String> {
    let parse = |reply| match step.way {
        Way::Binary => parse::binary(reply, step.key),
        Way::Text(_) | Way::Udp => parse::text(reply, sequence, step.key),
    };
    if pair.ours.is_empty() && is_quiet_counter(step) && rules.tolerate(Rule::QuietCounter) {
        return Ok(());
    }
    let judged = |part: &Part| match part {
        Part::Mark(key, _) => !(step.loose[*key].counted && rules.tolerate(Rule::CountedMarks)),
        _ => true,
    };
    let parts = |reply| parse(reply).into_iter().filter(judged).collect::<Vec<Part>>();
    let (ours, theirs) = (parts(pair.ours), parts(pair.theirs));
    let both = || format!("polder: {}\nmemcached: {}", short(pair.ours), short(pair.theirs));
    if ours.len() != theirs.len() {
        return Err(both());
    }
    for (mine, other) in ours.iter().zip(&theirs) {
        if !is_equal(step, mine, other, pair.seconds, (told_ours, told_theirs), rules) {
            return Err(format!("{mine:?} is not {other:?}\n{}", both()));
        }
    }
    Ok(())
}

fn is_equal(
    step: &Step,
    mine: &Part,
    other: &Part,
    seconds: u64,
    (told_ours, told_theirs): (&mut Told, &mut Told),
    rules: &Rules,
) -> bool {
    let is_padded = |key: usize| step.loose[key].padded && rules.tolerate(Rule::Padding);
    match (mine, other) {
        (Part::Cas(key, mine), Part::Cas(_, other)) => {
            if *mine == 0 || *other == 0 {
                return mine == other;
            }
            let is_chosen = CHOSEN.contains(mine) || CHOSEN.contains(other);
            let is_known = told_ours.place(*key, *mine) == told_theirs.place(*key, *other);
            is_known && (!is_chosen || mine == other)
        }
        (Part::Ttl(key, mine), Part::Ttl(_, other)) => {
            let is_lost = step.loose[*key].expiry && rules.tolerate(Rule::GrownExpiry);
            let is_past = is_past(step) && rules.tolerate(Rule::PastExpiry);
            let is_near = *mine >= 0 && *other >= 0 && mine.abs_diff(*other) <= seconds;
            mine == other || is_near || is_lost || is_past
        }
        (Part::Expiry(key, mine), Part::Expiry(_, other)) => {
            let is_lost = step.loose[*key].expiry && rules.tolerate(Rule::GrownExpiry);
            let has_sign = *mine > 0 && *other < -1 && rules.tolerate(Rule::ExpirySign);
            let other = if has_sign { -other } else { *other };
            let is_near = *mine >= 0 && other >= 0 && mine.abs_diff(other) <= seconds;
            *mine == other || is_near || is_lost
        }
        (Part::Idle(mine), Part::Idle(other)) => mine.abs_diff(*other) <= seconds,
        (Part::Fetched(_), Part::Fetched(_)) => rules.tolerate(Rule::Fetched),
        (Part::Memory(_), Part::Memory(_)) => rules.tolerate(Rule::Memory),
        (Part::Key(mine), Part::Key(other)) => {
            mine == other || step.key == BASE64_KEY && rules.tolerate(Rule::Base64Key)
        }
        (Part::Length(key, mine), Part::Length(_, other)) => mine == other || is_padded(*key),
        (Part::Value(key, mine), Part::Value(_, other)) => {
            mine == other || is_padded(*key) && mine.trim_ascii_end() == other.trim_ascii_end()
        }
        _ => mine == other,
    }
}

/// Returns true if a step is an `ma` with the flags `q` and `N`.
fn is_quiet_counter(step: &Step) -> bool {
    let Request::Text(pieces) = &step.request else { return false };
    let has = |bytes: &[u8]| pieces.contains(&Piece::Bytes(bytes.to_vec()));
    has(b"ma ") && has(b"q") && has(b"N")
}

/// Returns true if a step gives its key an expiry that lies in the past.
fn is_past(step: &Step) -> bool {
    let Request::Text(pieces) = &step.request else { return false };
    pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Bytes(bytes) if memchr::memmem::find(bytes, b"-1").is_some()))
}
