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
    /// A thread that changes the map waits for no writer.
    AwaitsNoCommit,
    /// Of the table: a listener that finds its bit set in the header leaves it at that.
    CountsNoInterest,
    /// Of the table: a fast path looks for listeners before it locks the key, and not again under the lock.
    TellsNoneUnderLock,
}
