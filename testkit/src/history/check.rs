//! Whether some order of a group's operations explains their replies and keeps real time.
//!
//! The search of Wing and Gong (Testing and Verifying Concurrent Objects, JPDC 1993), with Lowe's memory of where it has been (Testing for
//! Linearizability, CCPE 2017), as porcupine does it (Athalye 2017): take an operation that began before every other open one ended, apply
//! it to the model, go on; when none fits, go back. A place (which operations are done, what the model holds) is never entered twice.
//!
//! Operations without an end may be taken at any time after their beginning, or never; they are tried last, since most have done nothing.
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::model::{self, State};
use super::record::Operation;

/// What the search has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// There is such an order.
    Explained,
    /// There is none; how far the best attempt came.
    Impossible(String),
    /// The search was given up after its maximum of steps.
    Undecided,
}

/// Where a search is: what has been taken, and what the model holds then.
#[derive(Clone, Hash, Default)]
struct Place {
    /// All ended operations before this one are taken.
    first: usize,
    /// Those behind that are taken, too, in order.
    beyond: Vec<usize>,
    /// The open operations that are taken, in order.
    happened: Vec<usize>,
    state: State,
}

struct Search<'h> {
    /// Those that ended, by their beginnings.
    ended: Vec<&'h Operation>,
    open: Vec<&'h Operation>,
    seen: HashSet<(u64, u64)>,
}

/// An operation that may be next: ended or open, and its number there.
#[derive(Clone, Copy)]
enum Next {
    Ended(usize),
    Open(usize),
}

/// Looks for an order of one group's operations, in at most `steps_max` steps.
pub fn check(operations: &[&Operation], steps_max: usize) -> Verdict {
    let (mut ended, open): (Vec<&Operation>, Vec<&Operation>) =
        operations.iter().partition(|done| done.ended.is_some());
    ended.sort_by_key(|done| done.begun_ns);
    let mut search = Search { ended, open, seen: HashSet::new() };
    let mut stack = vec![(Place::default(), search.candidates(&Place::default()))];
    let mut furthest = Place::default();
    for _ in 0..steps_max {
        let Some((place, candidates)) = stack.last_mut() else {
            return Verdict::Impossible(search.explain(&furthest));
        };
        if place.first == search.ended.len() {
            return Verdict::Explained;
        }
        let Some(next) = candidates.pop() else {
            stack.pop();
            continue;
        };
        let Some(place) = search.follow(place, next) else { continue };
        if place.first + place.beyond.len() > furthest.first + furthest.beyond.len() {
            furthest = place.clone();
        }
        let candidates = search.candidates(&place);
        stack.push((place, candidates));
    }
    Verdict::Undecided
}

impl Search<'_> {
    /// What may be taken next, the best last: what began before all that is not taken ended.
    fn candidates(&self, place: &Place) -> Vec<Next> {
        let mut earliest_end_ns = u64::MAX;
        let mut begun = Vec::new();
        for (number, done) in self.ended.iter().enumerate().skip(place.first) {
            if done.begun_ns > earliest_end_ns {
                break;
            }
            if place.beyond.binary_search(&number).is_err() {
                let end_ns = end_ns(done);
                earliest_end_ns = earliest_end_ns.min(end_ns);
                begun.push((end_ns, number));
            }
        }
        begun.retain(|&(_, number)| self.ended[number].begun_ns <= earliest_end_ns);
        begun.sort_unstable_by(|one, two| two.cmp(one));
        let open = (0..self.open.len()).filter(|number| {
            self.open[*number].begun_ns <= earliest_end_ns && !place.happened.contains(number)
        });
        open.map(Next::Open).chain(begun.into_iter().map(|(_, number)| Next::Ended(number))).collect()
    }

    /// The place behind an operation; `None` when its reply does not fit, or that place was reached
    /// before.
    fn follow(&mut self, place: &Place, next: Next) -> Option<Place> {
        let mut there = place.clone();
        match next {
            Next::Ended(number) => {
                let done = self.ended[number];
                let reply = model::step(&mut there.state, &done.calls);
                if done.ended.as_ref().is_none_or(|(_, told)| *told != reply) {
                    return None;
                }
                let at = there.beyond.partition_point(|&other| other < number);
                there.beyond.insert(at, number);
                while there.beyond.first() == Some(&there.first) {
                    there.beyond.remove(0);
                    there.first += 1;
                }
            }
            Next::Open(number) => {
                model::step(&mut there.state, &self.open[number].calls);
                if there.state == place.state {
                    return None;
                }
                let at = there.happened.partition_point(|&other| other < number);
                there.happened.insert(at, number);
            }
        }
        self.seen.insert(fingerprint(&there)).then_some(there)
    }

    /// What was not to be explained: the state at the furthest place, and what came next.
    fn explain(&self, furthest: &Place) -> String {
        let mut text = format!(
            "{} of {} operations are explained; then {:?}\n",
            furthest.first,
            self.ended.len(),
            furthest.state
        );
        let from = furthest.first.saturating_sub(6);
        for (number, done) in self.ended.iter().enumerate().skip(from).take(16) {
            let taken =
                if number < furthest.first || furthest.beyond.contains(&number) { "taken" } else { "     " };
            let reply = done.ended.as_ref().map_or("", |(_, reply)| reply);
            text += &format!("  {taken} {}..{} {:?} -> {reply}\n", done.begun_ns, end_ns(done), done.calls);
        }
        for (number, done) in self.open.iter().enumerate() {
            let taken = if furthest.happened.contains(&number) { "taken" } else { "     " };
            text += &format!("  {taken} {}.. {:?} without an end\n", done.begun_ns, done.calls);
        }
        text
    }
}

fn end_ns(done: &Operation) -> u64 {
    done.ended.as_ref().map_or(u64::MAX, |(end_ns, _)| *end_ns)
}

/// Two hashes of 64 bits: places that are taken for one another would hide an order, about once in 2^100 searches.
fn fingerprint(place: &Place) -> (u64, u64) {
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, place).hash(&mut hasher);
        hasher.finish()
    };
    (hash(1), hash(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const STEPS: usize = 100_000;

    fn operation(begun_ns: u64, ended_ns: u64, calls: &str, reply: &str) -> Operation {
        let calls = calls.split('|').map(|call| call.split(' ').map(String::from).collect()).collect();
        Operation {
            group: "g".into(),
            calls,
            begun_ns,
            ended: (ended_ns > 0).then(|| (ended_ns, reply.to_string())),
        }
    }

    fn verdict(operations: &[(u64, u64, &str, &str)]) -> Verdict {
        let operations: Vec<Operation> = operations
            .iter()
            .map(|&(begun, ended, calls, reply)| operation(begun, ended, calls, reply))
            .collect();
        check(&operations.iter().collect::<Vec<_>>(), STEPS)
    }

    fn is_impossible(operations: &[(u64, u64, &str, &str)]) -> bool {
        matches!(verdict(operations), Verdict::Impossible(_))
    }

    #[test]
    fn what_overlaps_may_come_in_any_order_and_what_does_not_may_not() {
        let old_read = |begun, ended| [(1, 4, "SET k new", "OK"), (begun, ended, "GET k", "nil")];
        assert_eq!(verdict(&old_read(2, 3)), Verdict::Explained);
        assert_eq!(verdict(&old_read(3, 9)), Verdict::Explained);
        // A stale read.
        assert!(is_impossible(&old_read(5, 9)));
        // Two readers, one after the other, of a write that is still on its way: not new and then old.
        let readers =
            |first, second| [(1, 9, "SET k new", "OK"), (2, 3, "GET k", first), (4, 5, "GET k", second)];
        assert_eq!(verdict(&readers("nil", "\"new\"")), Verdict::Explained);
        assert!(is_impossible(&readers("\"new\"", "nil")));
    }

    #[test]
    fn a_lost_update_is_found() {
        assert!(is_impossible(&[(1, 5, "INCR n", "1"), (2, 6, "INCR n", "1")]));
        assert!(is_impossible(&[(1, 2, "INCR n", "1"), (3, 4, "INCR n", "2"), (5, 6, "GET n", "\"1\"")]));
        assert!(is_impossible(&[
            (1, 2, "RPUSH l a", "1"),
            (3, 6, "LPOP l", "\"a\""),
            (4, 7, "LPOP l", "\"a\"")
        ]));
        // The death of another process does not undo an acknowledged write.
        assert!(is_impossible(&[(1, 2, "SET k a", "OK"), (3, 0, "APPEND k b", ""), (4, 5, "GET k", "nil")]));
    }

    #[test]
    fn half_a_transaction_is_found() {
        let (pair, read) = ("SET a 1|SET b 1", "MGET a b");
        assert_eq!(
            verdict(&[(1, 9, pair, "[OK OK]"), (2, 3, read, "[nil nil]"), (4, 5, read, "[\"1\" \"1\"]")]),
            Verdict::Explained
        );
        assert!(is_impossible(&[(1, 9, pair, "[OK OK]"), (2, 3, read, "[\"1\" nil]")]));
        // Two transactions that have both read before either wrote: each alone is whole, no order of both is.
        let skew = [(1, 8, "GET a|SET b 1", "[nil OK]"), (2, 9, "GET b|SET a 1", "[nil OK]")];
        assert!(is_impossible(&skew));
        assert!(is_impossible(&[(1, 9, "SHIFT a b 5", "[-5 5]"), (2, 3, "SUM a b", "5")]));
        // Strictness: in real time the first transaction was over before the read began.
        assert!(is_impossible(&[(1, 2, pair, "[OK OK]"), (3, 4, read, "[nil nil]")]));
        // Of one that was killed, half is as wrong.
        assert!(is_impossible(&[(1, 0, pair, ""), (2, 3, read, "[\"1\" nil]")]));
    }

    #[test]
    fn what_was_killed_may_have_happened_at_any_later_time_once_or_never() {
        let killed = (1, 0, "INCR n", "");
        let read = |at, reply| (at, at + 1, "GET n", reply);
        assert_eq!(verdict(&[killed, read(2, "nil"), read(4, "nil")]), Verdict::Explained);
        assert_eq!(verdict(&[killed, read(2, "nil"), read(4, "\"1\"")]), Verdict::Explained);
        assert!(is_impossible(&[killed, read(2, "\"1\""), read(4, "nil")]));
        assert!(is_impossible(&[killed, read(2, "\"1\""), read(4, "\"2\"")]));
        assert!(is_impossible(&[(3, 0, "INCR n", ""), (1, 2, "GET n", "\"1\"")]));
    }

    /// Histories that one instant for each operation, inside its interval, really makes.
    fn made_up(random: &mut Random) -> Vec<Operation> {
        let words = [
            "INCR n",
            "GET n",
            "SET n 5",
            "SET m 7|INCR n",
            "GETSET m 1",
            "MGET n m",
            "DEL n",
            "SHIFT n m 2",
            "SUM n m",
        ];
        let mut instants: Vec<u64> = (0..7).map(|_| random.below(40) as u64 * 10).collect();
        instants.sort_unstable();
        instants.dedup();
        let mut state = State::new();
        let mut made = Vec::new();
        for at in instants {
            let mut done =
                operation(at + 20 - random.below(20) as u64, 1, words[random.below(words.len())], "");
            let happens = random.chance(90);
            let reply = if happens { model::step(&mut state, &done.calls) } else { String::new() };
            let told = happens && random.chance(85);
            done.ended = told.then(|| (at + 21 + random.below(20) as u64, reply));
            made.push(done);
        }
        made
    }

    /// Every order, one after the other.
    fn by_trying(left: &[&Operation], state: &State) -> bool {
        if left.iter().all(|done| done.ended.is_none()) {
            return true;
        }
        let earliest_end_ns = left.iter().map(|done| end_ns(done)).min().unwrap_or(u64::MAX);
        (0..left.len()).filter(|&at| left[at].begun_ns <= earliest_end_ns).any(|at| {
            let mut state = state.clone();
            let reply = model::step(&mut state, &left[at].calls);
            let fits = left[at].ended.as_ref().is_none_or(|(_, told)| *told == reply);
            let rest: Vec<&Operation> = [&left[..at], &left[at + 1..]].concat();
            fits && by_trying(&rest, &state)
        })
    }

    #[test]
    fn random_histories_are_judged_as_by_trying_every_order() {
        let (mut random, mut impossible) = (Random::new(5), 0);
        for _ in 0..1500 {
            let mut made = made_up(&mut random);
            assert_eq!(check(&made.iter().collect::<Vec<_>>(), STEPS), Verdict::Explained, "{made:?}");
            // One reply changed: often, but not always, nothing explains it any more.
            let at = random.below(made.len());
            if let Some((_, reply)) = &mut made[at].ended {
                *reply = reply.replace('5', "4").replace('1', "2").replace("nil", "\"5\"");
            }
            let made: Vec<&Operation> = made.iter().collect();
            let expected = by_trying(&made, &State::new());
            impossible += usize::from(!expected);
            assert_eq!(check(&made, STEPS) == Verdict::Explained, expected, "{made:?}");
        }
        assert!(impossible > 300, "{impossible} histories were impossible");
    }
}
