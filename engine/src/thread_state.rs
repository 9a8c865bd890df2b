//! What one thread's callers of a memory share: the messages in its seat's inbox, and the seat's wakeup descriptor, which says that some have come.
//!
//! ```text
//!   inbox of the thread's seat --hear()--> ThreadState --> mailbox of each caller that listens     (bounded: H3)
//!                                               `-> callers whose call waits: look again
//! ```
//!
//! The first caller of the thread that receives takes in the messages for all of them. A caller that
//! polls a descriptor polls the seat's FIFO, which then stays *armed*: while the thread runs
//! nothing here, the seat counts as asleep, so the first message makes it readable.
//!
//! **Invariant:** an armed descriptor is readable whenever a caller of this thread has something to receive. It also becomes readable at the end of a
//! CLIENT PAUSE that holds one of its calls back, and soon while a notification is still pending for which other clients wait.
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use polder_admin::peer_replies;
use polder_base::time::{coarse_ms, now_ms};
use polder_base::{Fault, Protocol, Reply};
use polder_hub::query::{self, Asker};
use polder_hub::{Delivery, MessageSink, queue};
use polder_runtime::{Session, blocking, pubsub};
use polder_shm::fork::{self, Shelter};
use polder_table::Table;

use crate::answer::Answer;
use crate::presence::{ClientRecord, Order, Presence};
use crate::wakeup::Wakeup;
use crate::{Memory, PAUSE_NAP};

/// What waits for one caller at most, in bytes: as much as an inbox.
const MAILBOX_BYTES_MAX: usize = 64 << 20;
/// How often what is due now and then is done.
const TICK_MS: u64 = 1000;
/// How soon something is tried again that others wait for.
const OWED: Duration = Duration::from_millis(1);

/// The messages for one caller.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub messages: Answer,
    pub protocol: Protocol,
    /// It has subscribed to something.
    pub listens: bool,
    /// Some messages were lost.
    pub lost: bool,
}

impl Mailbox {
    fn has_news(&self) -> bool {
        self.lost || self.messages.items().next().is_some()
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct ThreadState {
    boxes: HashMap<u64, Mailbox>,
    /// Callers whose call waits, and does not keep the thread, and those of them that are to look again.
    waiting: HashSet<u64>,
    woken: HashSet<u64>,
    /// Those that a CLIENT PAUSE holds back.
    postponed: HashSet<u64>,
    /// Of the callers that listen or wait.
    cards: HashMap<u64, Arc<ClientRecord>>,
    wakeup: Option<Wakeup>,
    ticked_ms: u64,
}

/// Whose: the segment, and the process as forks count it.
type Key = (u64, u64);

thread_local! {
    static HOMES: RefCell<HashMap<Key, (ThreadGuard, ThreadState)>> = RefCell::default();
}

/// Uses the thread's home in a memory; `None` at the thread's end.
pub(crate) fn with<R>(table: &Table, work: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
    let key = (table.segment().id(), fork::generation());
    HOMES
        .try_with(|homes| {
            work(
                &mut homes
                    .borrow_mut()
                    .entry(key)
                    .or_insert_with(|| (ThreadGuard::begin(key), ThreadState::default()))
                    .1,
            )
        })
        .ok()
}

impl ThreadState {
    /// Makes or renews the mailbox of a caller that listens or waits.
    pub fn enter(&mut self, client: u64, protocol: Protocol, listens: bool, card: &Arc<ClientRecord>) {
        self.cards.entry(client).or_insert_with(|| card.clone());
        let mailbox = self.boxes.entry(client).or_default();
        mailbox.messages.speak(protocol);
        (mailbox.protocol, mailbox.listens) = (protocol, listens);
    }

    /// Forgets a caller.
    pub fn leave(&mut self, client: u64) {
        self.boxes.remove(&client);
        self.cards.remove(&client);
        self.end_wait(client);
    }

    /// Looks no longer for what others want of a caller: it knows.
    pub fn forget_order(&mut self, client: u64) {
        self.cards.remove(&client);
    }

    pub fn mailbox(&mut self, client: u64) -> Option<&mut Mailbox> {
        self.boxes.get_mut(&client)
    }

    /// Notes that a caller's call waits, and does not keep the thread.
    pub fn begin_wait(&mut self, client: u64) {
        self.waiting.insert(client);
    }

    pub fn end_wait(&mut self, client: u64) {
        self.waiting.remove(&client);
        self.take_woken(client);
    }

    /// Whether a caller's call is to look again; says so once.
    pub fn take_woken(&mut self, client: u64) -> bool {
        let postponed = self.postponed.remove(&client);
        self.woken.remove(&client) || postponed
    }

    /// Notes that a call could not look: again at once, or from time to time during a pause.
    pub fn wake_again(&mut self, client: u64, paused: bool) {
        if paused {
            self.postponed.insert(client)
        } else {
            self.woken.insert(client)
        };
    }

    pub fn is_postponed(&self, client: u64) -> bool {
        self.postponed.contains(&client)
    }

    fn has_news(&self) -> bool {
        !self.woken.is_empty()
            || self.cards.values().any(|card| card.order() != Order::None)
            || self.boxes.values().any(Mailbox::has_news)
    }

    fn deliver(&mut self, client: u64, delivery: &Delivery<'_>) {
        let Some(mailbox) = self.boxes.get_mut(&client) else { return };
        if let Delivery::Invalidation { redirected, .. } = delivery
            && mailbox.protocol == Protocol::Resp2
            && !(*redirected && mailbox.listens)
        {
            return;
        }
        if mailbox.messages.weight() > MAILBOX_BYTES_MAX {
            mailbox.lost = true;
            return;
        }
        pubsub::write(&mut mailbox.messages, delivery);
        mailbox.messages.seal();
    }
}

/// Sessions of callers that were dropped elsewhere than where they listened, by where that was. Threads that have ended are not among them.
static DETACHED: Shelter<BTreeMap<ThreadEntry, Vec<Session>>> = Shelter::new(BTreeMap::new());
static DETACHED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// A thread's home: its segment and the process's generation, and the thread by a number of ours.
type ThreadEntry = (Key, u64);

/// The number of the calling thread: never used twice in a process.
pub(crate) fn thread_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    }
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Says that a thread has a home, as long as it lives.
struct ThreadGuard(ThreadEntry);

impl ThreadGuard {
    fn begin(key: Key) -> ThreadGuard {
        let entry = (key, thread_number());
        let mut detached = DETACHED.lock();
        // A child of fork has no thread of its parent's.
        detached.retain(|((_, generation), _), _| *generation == key.1);
        detached.insert(entry, Vec::new());
        count(&detached);
        ThreadGuard(entry)
    }
}

impl Drop for ThreadGuard {
    /// What its callers heard and waited for ends with the thread's seat.
    fn drop(&mut self) {
        let mut detached = DETACHED.lock();
        let left = detached.remove(&self.0);
        count(&detached);
        drop(detached);
        drop(left);
    }
}

fn count(detached: &BTreeMap<ThreadEntry, Vec<Session>>) {
    DETACHED_COUNT.store(detached.values().map(Vec::len).sum(), Ordering::Release);
}

/// Ends all that a caller of this thread hears and waits for.
pub(crate) fn reap(table: &Table, session: &mut Session) {
    blocking::leave(table, session);
    session.end_listening(table);
    with(table, |home| home.leave(session.identity.id));
}

/// Leaves it to a thread to do so: only it knows its callers. If it has ended, that has.
pub(crate) fn detach(table: &Table, thread: u64, session: Session) {
    let mut detached = DETACHED.lock();
    if let Some(own) = detached.get_mut(&((table.segment().id(), fork::generation()), thread)) {
        own.push(session);
    }
    count(&detached);
}

#[cold]
fn reap_detached(table: &Table) {
    let entry = ((table.segment().id(), fork::generation()), thread_number());
    let mut detached = DETACHED.lock();
    let own = detached.get_mut(&entry).map(std::mem::take).unwrap_or_default();
    count(&detached);
    drop(detached);
    own.into_iter().for_each(|mut session| reap(table, &mut session));
}

/// The thread as the hub knows it: everything goes to its callers, which look at it when they are
/// asked to.
pub(crate) struct Ear<'e> {
    pub memory: &'e Memory,
}

impl Ear<'_> {
    fn with<R>(&self, work: impl FnOnce(&mut ThreadState) -> R) -> Option<R> {
        with(self.memory.table(), work)
    }
}

impl MessageSink for Ear<'_> {
    fn deliver(&mut self, clients: &[u64], delivery: Delivery<'_>) {
        self.with(|home| clients.iter().for_each(|client| home.deliver(*client, &delivery)));
    }

    fn retry(&mut self, client: u64) {
        self.with(|home| home.waiting.contains(&client) && home.woken.insert(client));
    }

    fn knows(&self, client: u64) -> bool {
        self.with(|home| home.boxes.contains_key(&client) || home.waiting.contains(&client)).unwrap_or(false)
    }

    fn missed(&mut self, clients: &[u64]) {
        self.with(|home| {
            for client in clients {
                if let Some(mailbox) = home.boxes.get_mut(client) {
                    mailbox.lost = true;
                }
            }
        });
    }

    fn asked(&mut self, asker: Asker, words: &[&[u8]]) {
        let table = self.memory.table();
        if let Ok(seat) = table.seat() {
            let text = peer_replies::answer(&Presence::of(self.memory), words);
            query::answer(table, asker, &[(seat.index(), seat.life())], &text);
        }
    }
}

/// Takes in the letters that have come, for all callers of the thread.
pub(crate) fn take_in(table: &Table, sink: &mut dyn MessageSink) {
    if DETACHED_COUNT.load(Ordering::Acquire) != 0 {
        reap_detached(table);
    }
    queue::flush_pending(table);
    while polder_hub::hear(table, sink) {}
    polder_hub::track::close_turn(table, sink);
    let now_ms = coarse_ms();
    let last_ms = with(table, |home| home.ticked_ms).unwrap_or(now_ms);
    if now_ms.saturating_sub(last_ms) >= TICK_MS {
        with(table, |home| home.ticked_ms = now_ms);
        polder_hub::tick(table, sink);
    }
}

/// Whether a caller of the thread has something that it has not been shown.
pub(crate) fn has_news(table: &Table) -> bool {
    with(table, |home| home.has_news()).unwrap_or(false)
}

/// Takes in letters, shows the descriptor's readers that there is something for them, or that there is nothing.
pub(crate) fn look(memory: &Memory) {
    silence(memory.table());
    take_in(memory.table(), &mut Ear { memory });
}

/// The descriptor that becomes readable when a caller of this thread has something to hear.
pub(crate) fn descriptor(memory: &Memory) -> Result<OwnedFd, Fault> {
    let table = memory.table();
    if with(table, |home| home.wakeup.is_none()).unwrap_or(false) {
        polder_hub::attend(table)?;
        let wakeup = Wakeup::around(table.seat()?.wakeup_fifo()?)?;
        with(table, |home| home.wakeup = Some(wakeup));
        arm(memory);
    }
    let copy = with(table, |home| home.wakeup.as_ref().map(Wakeup::copy));
    match copy.flatten() {
        Some(copy) => copy.map_err(|error| Fault::System(format!("no descriptor can be had: {error}"))),
        None => Err(Fault::System("the thread ends".into())),
    }
}

/// Leaves the descriptor as the invariant wants it: at the end of everything here that takes in letters or sleeps.
pub(crate) fn arm(memory: &Memory) {
    let table = memory.table();
    /// What our own calls have caused is taken in at once, without a wakeup.
    const ROUNDS: u32 = 4;
    for round in 1..=ROUNDS {
        let owed_ms = queue::has_pending(table).then(|| now_ms() + OWED.as_millis() as u64);
        let news = with(table, |home| {
            let paused_ms = (!home.postponed.is_empty()).then(|| query::paused(table).0);
            home.wakeup.as_mut()?.signal_at(owed_ms.into_iter().chain(paused_ms).min());
            Some(home.has_news())
        });
        let Some(news) = news.flatten() else { return };
        // Before it prepares to sleep: a question that comes from then on wakes it.
        query::rest(table, true);
        if !news && table.seat().is_ok_and(|seat| seat.prepare_sleep()) {
            return;
        }
        if news || round == ROUNDS {
            with(table, |home| home.wakeup.as_ref().map(Wakeup::signal));
            return;
        }
        take_in(table, &mut Ear { memory });
    }
}

/// Takes what has been written out of the descriptor.
fn silence(table: &Table) {
    with(table, |home| {
        if let Some(wakeup) = &mut home.wakeup {
            wakeup.clear();
        }
    });
    query::rest(table, false);
    if let Ok(seat) = table.seat() {
        seat.after_sleep();
    }
}

/// Sleeps until letters come, at most `timeout`. It may wake for nothing.
pub(crate) fn nap(table: &Table, timeout: Duration) {
    /// The longest nap: maintenance and ticks are done in between if no server does them.
    const NAP: Duration = Duration::from_millis(500);
    let postponed = with(table, |home| !home.postponed.is_empty()).unwrap_or(false);
    let most = match () {
        () if queue::has_pending(table) => OWED,
        () if postponed => PAUSE_NAP,
        () => NAP,
    };
    query::rest(table, true);
    match table.seat() {
        Ok(seat) => seat.sleep(Some(timeout.min(most))),
        Err(_) => std::thread::sleep(timeout.min(most)),
    }
    query::rest(table, false);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, Options};

    #[test]
    fn what_is_handed_from_a_thread_that_ends_leaves_nothing_behind() {
        let segment = format!("shm:polder-detached-{}", std::process::id());
        let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
        let memory = Arc::new(Memory::attach(&options).expect("a segment"));
        let listening = || {
            let mut caller = Caller::new(&memory);
            caller.run(&["SUBSCRIBE", "news"]).expect("subscribed");
            caller
        };
        let kept = |thread: u64| {
            DETACHED
                .lock()
                .iter()
                .filter(|((_, at), _)| *at == thread)
                .map(|(_, left)| left.len())
                .collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            // One is dropped while its thread lives and does not come by, one when it has ended.
            let (sent, handed) = std::sync::mpsc::channel();
            let (go, gone) = std::sync::mpsc::channel::<()>();
            let thread = scope.spawn(move || {
                sent.send((listening(), listening(), thread_number())).expect("the test waits");
                gone.recv().expect("a word");
            });
            let (first, second, number) = handed.recv().expect("callers");
            drop(first);
            assert_eq!(kept(number), [1]);
            go.send(()).expect("it waits");
            thread.join().expect("an end");
            assert_eq!(kept(number), [0; 0]);
            drop(second);
            assert_eq!(kept(number), [0; 0]);
        });
        Memory::remove(&segment).expect("it is there");
    }
}
