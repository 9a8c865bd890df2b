//! The access clock of an entry: 24 bits, either the second of the last access (LRU) or, under an LFU
//! policy, 16 bits of minutes and an 8-bit logarithmic counter, as in Redis ("Using Redis as an LRU cache").

/// Where the LFU counter of a new key starts, so that it is not evicted at once.
pub const LFU_INITIAL: u8 = 5;

/// Seconds since the access that `clock` remembers, at `now_ms`.
pub fn idle_seconds(clock: u32, now_ms: u64) -> u64 {
    ((now_ms / 1000) as u32).wrapping_sub(clock) as u64 & 0xff_ffff
}

/// The LFU counter that `clock` holds, decayed to `now_ms`.
pub fn frequency(clock: u32, now_ms: u64, decay_minutes: u32) -> u8 {
    let counter = (clock & 0xff) as u8;
    let minutes = ((now_ms / 60_000) as u16).wrapping_sub((clock >> 8) as u16) as u32;
    match minutes.checked_div(decay_minutes) {
        Some(periods) => counter.saturating_sub(periods.min(255) as u8),
        None => counter,
    }
}

/// The clock of an LRU access at `now_ms`.
pub fn lru(now_ms: u64) -> u32 {
    (now_ms / 1000) as u32 & 0xff_ffff
}

/// The clock with LFU `counter` at `now_ms`.
pub fn lfu(counter: u8, now_ms: u64) -> u32 {
    (((now_ms / 60_000) as u32 & 0xffff) << 8) | counter as u32
}

/// The LFU counter after one more access: it grows with probability 1 / ((counter - initial) * factor + 1),
/// for which `draw`, uniform over `u32`, decides.
pub fn incremented(counter: u8, factor: u32, draw: u32) -> u8 {
    if counter == 255 {
        return counter;
    }
    let base = counter.saturating_sub(LFU_INITIAL) as u64;
    let odds = base * factor as u64 + 1;
    if (draw as u64) * odds < (1 << 32) { counter + 1 } else { counter }
}
