//! What a process notes about its calls: slow and large ones, and spikes of latency.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One call that was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    /// Seconds since the Unix epoch.
    pub time: u64,
    /// Microseconds, or bytes.
    pub value: u64,
    pub args: Vec<Vec<u8>>,
    pub address: Vec<u8>,
    pub name: Vec<u8>,
}

/// A ring, newest first.
#[derive(Default)]
pub struct Log {
    pub entries: VecDeque<Entry>,
}

/// Samples that an event keeps.
pub const SAMPLES_MAX: usize = 160;

/// The worst of one second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Seconds since the Unix epoch.
    pub time: u64,
    pub milliseconds: u64,
}

#[derive(Clone, Default)]
pub struct Event {
    pub samples: VecDeque<Sample>,
    /// Over the event's whole life.
    pub worst: u64,
}

impl Event {
    pub fn add(&mut self, time: u64, milliseconds: u64) {
        self.worst = self.worst.max(milliseconds);
        match self.samples.back_mut() {
            Some(last) if last.time == time => last.milliseconds = last.milliseconds.max(milliseconds),
            _ => self.samples.push_back(Sample { time, milliseconds }),
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// Puts what another process has sampled to it.
    pub fn join(&mut self, other: &Event) {
        let mut samples: Vec<Sample> = self.samples.drain(..).chain(other.samples.iter().copied()).collect();
        samples.sort_by_key(|sample| sample.time);
        samples.iter().for_each(|sample| self.add(sample.time, sample.milliseconds));
        self.worst = self.worst.max(other.worst);
    }
}

/// The events of one process, or of all.
pub type Events = BTreeMap<String, Event>;

/// Every event that had a spike.
#[derive(Default)]
pub struct Monitor {
    pub events: Events,
}

impl Monitor {
    /// Forgets events by their names, or all. Returns which there were.
    pub fn forget(&mut self, names: &[&[u8]]) -> BTreeSet<String> {
        let (gone, kept) = std::mem::take(&mut self.events)
            .into_iter()
            .partition(|(name, _)| names.is_empty() || names.contains(&name.as_bytes()));
        self.events = kept;
        let gone: Events = gone;
        gone.into_keys().collect()
    }
}
