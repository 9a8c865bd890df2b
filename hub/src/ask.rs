//! Questions to the other processes of a segment about the clients that they serve, and their answers.
//!
//! ```text
//!   CLIENT LIST       asks: one letter to every thread that serves clients elsewhere           ->  parks (Stop::Busy), is tried again
//!   their processes   the first thread that reads it answers for all clients of its process    ->  one letter back
//!   CLIENT LIST       all have answered, have died, or PATIENCE_MS are over: goes on with the answers that have come
//! ```
//!
//! What a client is doing is known to its process alone, and nothing of it is kept in the segment: a question costs two letters for each
//! process, not being asked costs nothing. A process that is stopped is left out as soon as that is seen, at the latest when the time is over, and
//! answers to nobody when it goes on; a dead one is left out at once. Who has let the time go by and has said nothing since is waited for only shortly:
//! he may be stopped where that is not to be seen, as in another PID namespace. Who has been left out is told to who asks ([`Answers`]). The call
//! that asks runs again until it is answered; what it has asked lies here, since its session may be put back to what it was (EXEC).

use polder_base::time::now_ms;
use polder_shm::Segment;
use polder_shm::layout::{header, interest};
use polder_table::Table;
use polder_table::change::{interest_at, show_interest, take_interest};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ears::{self, Ears, inbox_bytes};
use crate::letter::{self, Letter};
use crate::queue;
use crate::stopped::{self, State};

/// How long is waited for who does not answer.
const PATIENCE_MS: u64 = 500;
/// How long who does not answer is only slow: a look at the system for each of them costs more than a moment.
const LOOK_MS: u64 = 10;
/// How long it may be that who does not answer is only slow: traced for a moment at each of his calls, or he has not answered the last time and yet
/// runs, as it seems. Then he is taken for stopped.
const SLOW_MS: u64 = 100;
/// The part of an inbox that one answer takes at most; a longer one is cut at the end of a line.
const ANSWER_PART: u64 = 4;

/// A seat in one of its lives: a thread.
pub type Thread = (u64, u64);

/// Who has asked, and which of his questions it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    pub thread: Thread,
    pub number: u64,
}

/// What has come of a question.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// What each process says, with its threads.
    pub told: Vec<(Vec<Thread>, Vec<u8>)>,
    /// Threads of processes that live and have not answered.
    pub silent: Vec<Thread>,
}

/// What a client has asked, as it has come so far.
pub struct Question {
    number: u64,
    words: Vec<u8>,
    until_ms: u64,
    /// When it is looked whether who is silent is stopped.
    look_ms: u64,
    /// When the call that asks has looked last.
    seen_ms: u64,
    /// Threads that have not been asked yet, and threads whose processes have not answered.
    unsent: Vec<Thread>,
    silent: Vec<Thread>,
    /// Those who were silent and are stopped.
    stopped: Vec<Thread>,
    told: Vec<(Vec<Thread>, Vec<u8>)>,
}

impl Question {
    /// Waits no longer for who is dead, nor, now and then, for who is found to be stopped, or is `unheard` since an earlier question.
    fn look_for_stopped(&mut self, segment: &Segment, now_ms: u64, unheard: &BTreeSet<Thread>) {
        self.silent.retain(|(seat, life)| segment.lives(*seat, *life));
        if now_ms >= self.look_ms {
            self.look_ms = now_ms + LOOK_MS;
            let silent = std::mem::take(&mut self.silent);
            let may_be_slow = now_ms + PATIENCE_MS < self.until_ms + SLOW_MS;
            let is_stopped = |thread: &Thread| match stopped::state_of(segment, thread.0) {
                State::Stopped => true,
                State::Traced => !may_be_slow,
                State::Runs => !may_be_slow && unheard.contains(thread),
                State::Hidden => unheard.contains(thread),
            };
            let (stopped, silent): (Vec<_>, Vec<_>) = silent.into_iter().partition(is_stopped);
            self.stopped.extend(stopped);
            self.silent = silent;
        }
    }
}

/// Says that the calling thread answers for the clients of its process.
pub fn serve(table: &Table) {
    if let Ok(seat) = table.seat() {
        take_interest(&seat, interest::CLIENTS);
    }
}

/// Says that the calling thread answers for its clients as long as it rests, or that it does something else again. Two stores of its own: who asks
/// looks at every seat.
pub fn rest(table: &Table, rests: bool) {
    if let Ok(seat) = table.seat() {
        // Without an inbox, it could not be asked.
        let rests = rests && table.segment().inbox_life(seat.index()) == seat.life();
        show_interest(&seat, interest::CLIENTS, rests);
    }
}

/// The threads that answer for clients, those of `own` left out.
pub fn others(table: &Table, own: &[Thread]) -> Vec<Thread> {
    let segment = table.segment();
    let said = (0..segment.seats_high()).map(|index| (index, interest_at(segment, index)));
    let serving = said.filter(|(index, (bits, life))| bits & interest::CLIENTS != 0 && segment.lives(*index, *life));
    serving.map(|(index, (_, life))| (index, life)).filter(|thread| !own.contains(thread)).collect()
}

/// What the other processes say to the `nth` question of a client's call; `None` as long as an answer may still come. `own` are the threads
/// of this process. The question leaves with [`send`].
pub fn ask(table: &Table, (client, nth): (u64, usize), words: &[&[u8]], own: &[Thread]) -> Option<Answers> {
    let (now, words) = (now_ms(), letter::pack(words));
    let known = ears::with(table, |ears| {
        let Ears { questions, unheard, .. } = ears;
        // What a call has asked that was never run again, or another one, is nothing to this one. One that all have answered is not asked again
        // because a turn was long: its call would never end where all turns are.
        let patience_ms = |question: &Question| if question.silent.is_empty() { 10 * PATIENCE_MS } else { PATIENCE_MS };
        if questions.get(&(client, nth)).is_some_and(|question| now > question.seen_ms + patience_ms(question) || question.words != words) {
            questions.remove(&(client, nth));
        }
        let question = questions.get_mut(&(client, nth))?;
        question.seen_ms = now;
        question.look_for_stopped(table.segment(), now, unheard);
        let done = question.silent.is_empty() || now >= question.until_ms;
        if done {
            unheard.retain(|(seat, life)| table.segment().lives(*seat, *life));
            unheard.extend(&question.silent);
        }
        Some(done.then(|| Answers { told: question.told.clone(), silent: [&question.silent[..], &question.stopped].concat() }))
    });
    if let Some(answers) = known.flatten() {
        return answers;
    }
    let silent = others(table, own);
    if silent.is_empty() {
        return Some(Answers::default());
    }
    let (until_ms, look_ms) = (now + PATIENCE_MS, now + LOOK_MS);
    ears::with(table, |ears| {
        ears.asked += 1;
        let unsent = silent.clone();
        let (stopped, told) = (Vec::new(), Vec::new());
        let question = Question { number: ears.asked, words, until_ms, look_ms, seen_ms: now, unsent, silent, stopped, told };
        ears.questions.insert((client, nth), question);
    });
    None
}

/// Sends the questions that have not left yet. Outside of any transaction. What cannot be sent because somebody holds an inbox goes with the next
/// attempt.
pub fn send(table: &Table) {
    let unsent = ears::with(table, |ears| {
        let questions = ears.questions.values_mut().filter(|question| !question.unsent.is_empty());
        questions.map(|question| (question.number, question.words.clone(), std::mem::take(&mut question.unsent))).collect::<Vec<_>>()
    });
    for (number, words, threads) in unsent.unwrap_or_default() {
        let posted = |(seat, life): &Thread| {
            queue::run(table, &mut |txn| {
                let asker = Asker { thread: (txn.seat().index(), txn.seat().life()), number };
                Letter::Question { asker, words: &words }.write(|parts| txn.post(*seat, *life, parts));
                Ok(())
            })
        };
        let left: Vec<Thread> = threads.into_iter().filter(|thread| posted(thread).is_err()).collect();
        if !left.is_empty() {
            ears::with(table, |ears| {
                if let Some(question) = ears.questions.values_mut().find(|question| question.number == number) {
                    question.unsent = left;
                }
            });
        }
    }
}

/// Forgets what a client has asked: its call has been answered, or the client is gone.
pub fn forget(table: &Table, client: u64) {
    ears::with(table, |ears| ears.questions.retain(|(asker, _), _| *asker != client));
}

/// Answers a question for a whole process, whose threads are `own`.
pub fn answer(table: &Table, asker: Asker, own: &[Thread], text: &[u8]) {
    let most = (inbox_bytes(table) / ANSWER_PART) as usize;
    let text = match text.get(..most) {
        Some(fitting) => &fitting[..fitting.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)],
        None => text,
    };
    let threads: Vec<u8> = own.iter().flat_map(|(seat, life)| [seat.to_le_bytes(), life.to_le_bytes()].concat()).collect();
    let (seat, life) = asker.thread;
    // What cannot be posted, because somebody who is stopped holds the inbox, is left out, as if this process were stopped.
    let _ = queue::run(table, &mut |txn| {
        Letter::Answer { number: asker.number, threads: &threads, text }.write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// An answer has come.
pub(crate) fn answered(table: &Table, number: u64, threads: &[u8], text: &[u8]) {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let threads: Vec<Thread> = threads.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect();
    ears::with(table, |ears| {
        ears.unheard.retain(|thread| !threads.contains(thread));
        if let Some(question) = ears.questions.values_mut().find(|question| question.number == number) {
            let asked = |question: &Question| question.silent.len() + question.stopped.len();
            let before = asked(question);
            // One thread answers for all, also for those that were seen to be stopped.
            question.silent.retain(|thread| !threads.contains(thread));
            question.stopped.retain(|thread| !threads.contains(thread));
            // Who is not waited for any more has answered, or was not asked.
            if asked(question) != before {
                question.told.push((threads, text.to_vec()));
            }
        }
    });
}

/// Lets no client of the segment, or none that writes, go on before `until_ms`. As in Redis a pause never gets shorter or milder by another
/// one, until it is ended.
pub fn pause(table: &Table, until_ms: u64, writers_only: bool) {
    let now = now_ms();
    let longer = |word: u64| {
        let (old_ms, old_writers) = (word >> 1, word & 1 != 0);
        let holds = old_ms > now;
        let writers_only = writers_only && (!holds || old_writers);
        let until_ms = if holds { until_ms.max(old_ms) } else { until_ms };
        Some(until_ms << 1 | u64::from(writers_only))
    };
    let _ = table.segment().word(header::PAUSE).fetch_update(Ordering::AcqRel, Ordering::Acquire, longer);
}

/// Ends the pause, and wakes the threads whose clients wait for that. One that cannot be told looks by itself within a second.
pub fn unpause(table: &Table) {
    end_pause(table.segment().word(header::PAUSE), |_| true, |ended_ms| note_end(table, ended_ms));
    let threads = others(table, &[]);
    let _ = queue::run(table, &mut |txn| {
        threads.iter().for_each(|(seat, life)| Letter::Rise.write(|parts| txn.post(*seat, *life, parts)));
        Ok(())
    });
}

/// Ends the pause of this word, as long as it `ends` by when it would be over, and notes first when it has ended: of each one that is found there, since
/// somebody may begin another one meanwhile.
fn end_pause(word: &AtomicU64, ends: impl Fn(u64) -> bool, note: impl Fn(u64)) {
    let mut seen = word.load(Ordering::Relaxed);
    while seen != 0 && ends(seen >> 1) {
        note(now_ms().min(seen >> 1));
        match word.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => seen = now,
        }
    }
}

/// Notes when a pause has ended, before it is forgotten. What was noted of a time that is yet to come was noted by a clock that has been set back.
fn note_end(table: &Table, ended_ms: u64) {
    let note = |old: u64| Some(if old > now_ms() { ended_ms } else { old.max(ended_ms) });
    let _ = table.segment().word(header::PAUSED_UNTIL).fetch_update(Ordering::Relaxed, Ordering::Relaxed, note);
}

/// Forgets a pause that is over, so that nobody looks at the clock because of it any more.
pub fn forget_pause(table: &Table) {
    end_pause(table.segment().word(header::PAUSE), |until_ms| until_ms <= now_ms(), |ended_ms| note_end(table, ended_ms));
}

/// Until when clients wait, and whether only those who write do. One load.
#[inline]
pub fn paused(table: &Table) -> (u64, bool) {
    table.paused()
}

/// Whether clients wait because of a pause, or one has ended less than some time ago.
pub(crate) fn was_paused(table: &Table, lately_ms: u64) -> bool {
    let (until_ms, now_ms) = (paused(table).0, now_ms());
    // What is forgotten has been noted before that. A clock that was set back proves nothing.
    until_ms + lately_ms > now_ms || table.segment().load(header::PAUSED_UNTIL).abs_diff(now_ms) < lately_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_pause_that_begins_while_another_one_is_ended_has_an_end_of_its_own() {
        let began_ms = now_ms();
        let (old, new) = ((began_ms - 5_000) << 1, (began_ms + 60_000) << 1);
        for ends_all in [true, false] {
            let (word, noted) = (AtomicU64::new(old), RefCell::new(Vec::new()));
            end_pause(
                &word,
                |until_ms| ends_all || until_ms <= began_ms,
                |ended_ms| {
                    if noted.borrow().is_empty() {
                        word.store(new, Ordering::Relaxed);
                    }
                    noted.borrow_mut().push(ended_ms);
                },
            );
            let (noted, left) = (noted.into_inner(), word.into_inner());
            assert_eq!(noted[0], old >> 1);
            if ends_all {
                assert!(left == 0 && noted.len() == 2 && noted[1] >= began_ms, "{noted:?}");
            } else {
                assert_eq!((left, noted.len()), (new, 1), "it goes on");
            }
        }
    }
}
