//! Flaws that the code has on purpose, so that a test can show that it would find them (tests only, with the feature `schedules`).

/// What a careless edit would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "schedules"), allow(dead_code, reason = "tests only"))]
pub enum Flaw {
    /// A thread that has slept and takes a lock clears the waiters' bit, although others may still sleep.
    ForgetsSleepers,
    /// A thread recovers a dead seat without having taken its liveness lock.
    TakesNoLiveness,
    /// A reader that meets a new epoch does not widen its pin.
    WidensNoPin,
    /// A recoverer writes words although another thread has their lock by now.
    WritesUncovered,
    /// A staged journal gets its length after the commit.
    LengthAfterCommit,
    /// A sender clears the sleeper's word before it wakes.
    ClearsBeforeWake,
    /// A sender wakes those that sleep on the word before it has marked the word.
    WakesUnmarked,
    /// All sleeps of a seat have one number.
    SleepsAlike,
    /// The log merger reads the counter of commits after the tails.
    CounterLast,
    /// A feed looks at the outboxes, and then at the journals.
    OutboxesFirst,
    /// A feed has itself woken when it has looked.
    AsksLate,
    /// A thread that changes the map waits for no writer.
    AwaitsNoCommit,
    /// A fast path locks a bucket as it is now, and not as it was when it was read.
    LocksUnseen,
    /// A fast path that tells the change log of its commit moves the tail of its outbox before that.
    MovesTailEarly,
    /// Of the table: a read set has the word of a locked bucket without the status of its owner.
    ReadsNoStatus,
    /// Of the table: a reader does not check that buckets in which it has not found a key are all unchanged.
    BelievesMiss,
    /// A reader of several keys in the table does not compare at the end the words of the buckets that it has relied on.
    BelievesReads,
    /// Of the table: an extent is replaced while only its first bucket is locked.
    GrowsUnlocked,
    /// Of the table: the directory names a new extent before all of it is written.
    BuildsLate,
    /// Of the table: a writer looks at the map before it enters its commit.
    EntersLate,
    /// Of the table: a writer leaves its commit before it has committed.
    LeavesEarly,
    /// Of the table: a thread that changes the map waits for writers before it locks the map, and not afterwards.
    AwaitsBeforeLocking,
    /// Of the table: a writer looks at the roots before it looks at which thread has locked the map.
    LooksAtRootsFirst,
    /// Of the table: a snapshot does not wait for the transactions that may have looked before it was announced.
    AwaitsNoTransaction,
    /// Of the table: a writer looks for each key whether a snapshot is on.
    LooksForEachKey,
    /// Of the table: a writer saves for a snapshot after its commit.
    SavesLate,
    /// Of the table: a listener that finds its bit set in the header leaves it at that.
    CountsNoInterest,
    /// Of the table: a fast path looks for listeners before it locks the key, and not again under the lock.
    TellsNoneUnderLock,
}
