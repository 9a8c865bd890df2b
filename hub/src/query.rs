//! Questions to the other processes of a segment about the clients that they serve, and the
//! replies.
//!
//! ```text
//!   CLIENT LIST       asks: one message to every thread that serves clients elsewhere             ->  parks (Stop::Busy), is tried again
//!   their processes   the first thread that reads the message replies for its whole process       ->  one message back
//!   CLIENT LIST       every process has replied or died, or PATIENCE_MS are over: goes on with the replies that have come
//! ```
//!
//! What a client is doing is known to its process alone, and the segment keeps nothing of it. A
//! question costs one message to each of these threads, and one message back from each process. A
//! process that is not asked does nothing for it.
//!
//! Processes that do not reply:
//! - A dead process is left out at once.
//! - A stopped process is left out as soon as the system shows that it is stopped, at the latest
//!   when the time is over. A reply that it sends when it goes on is ignored.
//! - A process that let the time of an earlier question pass, and has sent nothing since, is waited
//!   for only shortly. It may be stopped where the system does not show that, as in another PID
//!   namespace.
//!
//! The call that asks learns which threads were left out ([`Replies`]). It runs again until the
//! replies are there. What it asked is kept here and not in its session, since the session may be
//! put back to an earlier state (EXEC).

use hashbrown::HashMap;
use polder_base::time::now_ms;
use polder_shm::Segment;
use polder_shm::layout::{header, interest};
use polder_table::interest::{interest_at, show_interest, take_interest};
use polder_table::{CommitView, Table};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::listener::{Asker, Thread};
use crate::message::{self, Message, inbox_bytes};
use crate::per_thread::{self, PerThread};
use crate::post;
use crate::stopped::{self, State};

/// How long a process may take to reply.
const PATIENCE_MS: u64 = 500;
/// How long a silent process is assumed to be only slow. Asking the system about each of them costs
/// more than this short wait.
const LOOK_MS: u64 = 10;
/// How long a silent process that seems to run may still be only slow: a tracer stops it for a
/// moment at each of its system calls, or it did not reply to the last question either. Later it is
/// taken for stopped.
const SLOW_MS: u64 = 100;
/// The largest part of an inbox that one reply takes. A longer reply is cut at the end of a line.
const ANSWER_PART: u64 = 4;

/// The replies to a question.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    /// What each process replied, with its threads.
    pub told: Vec<(Vec<Thread>, Vec<u8>)>,
    /// Threads of live processes that have not replied.
    pub silent: Vec<Thread>,
}

/// A question of a client's call, and the replies so far.
struct Question {
    number: u64,
    words: Vec<u8>,
    until_ms: u64,
    /// When to ask the system next whether the silent threads are stopped.
    look_ms: u64,
    /// When the call that asks last looked for replies.
    seen_ms: u64,
    /// Threads that have not been asked yet, and threads whose processes have not replied.
    unsent: Vec<Thread>,
    silent: Vec<Thread>,
    /// The silent threads that are stopped.
    stopped: Vec<Thread>,
    told: Vec<(Vec<Thread>, Vec<u8>)>,
}

impl Question {
    /// Stops waiting for threads that are dead. From time to time it also stops waiting for those
    /// that are found to be stopped, or that are `unheard` since an earlier question.
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

/// What clients of one thread have asked other processes.
#[derive(Default)]
struct Questions {
    /// By client and by how many questions came before in the same call.
    questions: HashMap<(u64, usize), Question>,
    /// How many questions were asked so far.
    asked: u64,
    /// Threads that let the time of a question pass, and have sent nothing since.
    unheard: BTreeSet<Thread>,
}

thread_local! {
    static QUESTIONS: PerThread<Questions> = const { PerThread::new() };
}

fn with<R>(table: &Table, work: impl FnOnce(&mut Questions) -> R) -> Option<R> {
    per_thread::with(&QUESTIONS, table, work)
}

/// Declares that the calling thread replies for the clients of its process.
pub fn serve(table: &Table) {
    if let Ok(seat) = table.seat() {
        take_interest(&seat, interest::CLIENTS);
    }
}

/// Declares that the calling thread replies for its clients as long as it rests, or that it does
/// something else again. It costs two stores to the thread's own seat, since the asking thread
/// looks at every seat.
pub fn rest(table: &Table, rests: bool) {
    if let Ok(seat) = table.seat() {
        // Without an inbox, it could not be asked.
        let rests = rests && table.segment().inbox_life(seat.index()) == seat.life();
        show_interest(&seat, interest::CLIENTS, rests);
    }
}

/// The threads that reply for clients, except those of `own`.
pub fn others(table: &Table, own: &[Thread]) -> Vec<Thread> {
    let segment = table.segment();
    let said = (0..segment.seats_high()).map(|index| (index, interest_at(segment, index)));
    let serving =
        said.filter(|(index, (bits, life))| bits & interest::CLIENTS != 0 && segment.lives(*index, *life));
    serving.map(|(index, (_, life))| (index, life)).filter(|thread| !own.contains(thread)).collect()
}

/// The replies of the other processes to the `nth` question of a client's call; `None` as long as a
/// reply may still come. `own` are the threads of this process. The question leaves with [`send`].
pub fn ask(table: &Table, (client, nth): (u64, usize), words: &[&[u8]], own: &[Thread]) -> Option<Replies> {
    let (now, words) = (now_ms(), message::pack(words));
    let known = with(table, |own| {
        let Questions { questions, unheard, .. } = own;
        // A question of a call that was never run again, or of another call, does not belong to
        // this call and is dropped. A question that all have replied to is kept much longer, so
        // that a long turn does not make the call ask again. Otherwise the call would never end
        // where all turns are long.
        let patience_ms =
            |question: &Question| if question.silent.is_empty() { 10 * PATIENCE_MS } else { PATIENCE_MS };
        if questions
            .get(&(client, nth))
            .is_some_and(|question| now > question.seen_ms + patience_ms(question) || question.words != words)
        {
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
        Some(done.then(|| Replies {
            told: question.told.clone(),
            silent: [&question.silent[..], &question.stopped].concat(),
        }))
    });
    if let Some(answers) = known.flatten() {
        return answers;
    }
    let silent = others(table, own);
    if silent.is_empty() {
        return Some(Replies::default());
    }
    let (until_ms, look_ms) = (now + PATIENCE_MS, now + LOOK_MS);
    with(table, |own| {
        own.asked += 1;
        let unsent = silent.clone();
        let (stopped, told) = (Vec::new(), Vec::new());
        let question = Question {
            number: own.asked,
            words,
            until_ms,
            look_ms,
            seen_ms: now,
            unsent,
            silent,
            stopped,
            told,
        };
        own.questions.insert((client, nth), question);
    });
    None
}

/// Sends the questions that have not left yet. Outside of any transaction. A question that meets a
/// locked inbox is sent at the next attempt.
pub fn send(table: &Table) {
    let unsent = with(table, |own| {
        let questions = own.questions.values_mut().filter(|question| !question.unsent.is_empty());
        questions
            .map(|question| (question.number, question.words.clone(), std::mem::take(&mut question.unsent)))
            .collect::<Vec<_>>()
    });
    for (number, words, threads) in unsent.unwrap_or_default() {
        let posted = |(seat, life): &Thread| {
            post::run(table, &mut |txn| {
                let asker = Asker { thread: (txn.seat().index(), txn.seat().life()), number };
                Message::Question { asker, words: &words }.write(|parts| txn.post(*seat, *life, parts));
                Ok(())
            })
        };
        let left: Vec<Thread> = threads.into_iter().filter(|thread| posted(thread).is_err()).collect();
        if !left.is_empty() {
            with(table, |own| {
                if let Some(question) = own.questions.values_mut().find(|question| question.number == number)
                {
                    question.unsent = left;
                }
            });
        }
    }
}

/// Forgets what a client has asked: its call has all replies, or the client is gone.
pub fn forget(table: &Table, client: u64) {
    with(table, |own| own.questions.retain(|(asker, _), _| *asker != client));
}

/// Replies to a question for a whole process, whose threads are `own`.
pub fn answer(table: &Table, asker: Asker, own: &[Thread], text: &[u8]) {
    let most = (inbox_bytes(table) / ANSWER_PART) as usize;
    let text = match text.get(..most) {
        Some(fitting) => &fitting[..fitting.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)],
        None => text,
    };
    let threads: Vec<u8> =
        own.iter().flat_map(|(seat, life)| [seat.to_le_bytes(), life.to_le_bytes()].concat()).collect();
    let (seat, life) = asker.thread;
    // If the inbox stays locked, because the thread that holds it is stopped, the reply is dropped.
    // The asker then treats this process as stopped.
    let _ = post::run(table, &mut |txn| {
        Message::Answer { number: asker.number, threads: &threads, text }
            .write(|parts| txn.post(seat, life, parts));
        Ok(())
    });
}

/// Records a reply that has come.
pub(crate) fn answered(table: &Table, number: u64, threads: &[u8], text: &[u8]) {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let threads: Vec<Thread> =
        threads.chunks_exact(16).map(|pair| (word(&pair[..8]), word(&pair[8..]))).collect();
    with(table, |own| {
        own.unheard.retain(|thread| !threads.contains(thread));
        if let Some(question) = own.questions.values_mut().find(|question| question.number == number) {
            let asked = |question: &Question| question.silent.len() + question.stopped.len();
            let before = asked(question);
            // One thread replies for all of its process, also for those that were seen to be
            // stopped.
            question.silent.retain(|thread| !threads.contains(thread));
            question.stopped.retain(|thread| !threads.contains(thread));
            // Threads that are no longer waited for have replied already, or were not asked.
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

/// Ends the pause, and wakes the threads whose clients wait for its end. A thread that no message
/// reaches looks by itself within a second.
pub fn unpause(table: &Table) {
    end_pause(table.segment().word(header::PAUSE), |_| true, |ended_ms| note_end(table, ended_ms));
    let threads = others(table, &[]);
    let _ = post::run(table, &mut |txn| {
        threads.iter().for_each(|(seat, life)| Message::Rise.write(|parts| txn.post(*seat, *life, parts)));
        Ok(())
    });
}

/// Ends the pause of this word if `ends` accepts the time at which it would be over. First it notes
/// when the pause has ended. It does so for each pause that it finds in the word, since another
/// thread may begin a new one between the load and the exchange.
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
    let _ =
        table.segment().word(header::PAUSED_UNTIL).fetch_update(Ordering::Relaxed, Ordering::Relaxed, note);
}

/// Forgets a pause that is over, so that no later call reads the clock because of it.
pub fn forget_pause(table: &Table) {
    end_pause(
        table.segment().word(header::PAUSE),
        |until_ms| until_ms <= now_ms(),
        |ended_ms| note_end(table, ended_ms),
    );
}

/// Until when clients wait, and whether only writing clients do. One load.
#[inline]
pub fn paused(table: &Table) -> (u64, bool) {
    table.paused()
}

/// Whether clients wait because of a pause, or one has ended less than `lately_ms` ago.
pub(crate) fn was_paused(table: &Table, lately_ms: u64) -> bool {
    let (until_ms, now_ms) = (paused(table).0, now_ms());
    // A pause that is forgotten was noted before. A clock that was set back proves nothing.
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
