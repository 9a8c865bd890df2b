//! What the memory and the process report about themselves: INFO's sections and fields as a table of plain values.
//!
//! A field is one row, a name and where its figure comes from; sections, their order and what INFO shows are derived.
//! Names and order are Redis 7.4's, so that what reads its INFO reads ours; Polder's own figures stand in a section of
//! their own. A figure of something that is not there (a fork, a replica) is what Redis would show without it.
//!
//! ```text
//!   Facts, gathered once per INFO:  usage and counters (of the segment: all its processes)
//!                                   whole (what its processes that serve have counted), machine (/proc)
//!        |
//!   SECTIONS[..].rows[..] --> "name:figure\r\n"
//! ```
pub(crate) mod exposition;
pub mod history;
pub mod machine;
pub mod report;
mod rows;

pub use polder_runtime::recorder::{self, Recorder, histogram, rates};
pub use rows::{DEBUG_SECTION, KEY_SIZES_SECTION, SECTIONS};

use polder_table::{Counter, Db, Expiries, Limits, Table, Usage};

use machine::Machine;
use polder_calls::settings::Settings;
use polder_persist::storage_figures::LogReport;
use polder_replica::overview::Overview;
use polder_runtime::saves::Report;
use polder_runtime::session::Host;
pub use polder_runtime::statistics::Statistics;
use rates::Rates;
use report::Whole;

/// Everything a figure may be made of.
pub struct Facts<'c> {
    pub table: &'c Table,
    pub settings: &'c Settings,
    pub recorder: &'c Recorder,
    pub host: &'c dyn Host,
    pub usage: Usage,
    pub limits: Limits,
    pub whole: Whole,
    pub saves: Report,
    pub log: LogReport,
    pub machine: Machine,
    pub rates: Rates,
    /// Microseconds since the Unix epoch.
    pub now_us: u64,
    /// Databases that have keys.
    pub databases: Vec<Database>,
    /// Channels, patterns and shard channels that have subscribers, where they have been counted.
    pub subjects: [u64; 3],
    /// Both sides of replication, where they have been read.
    pub replication: Overview,
    /// The sizes of values, where they are shown: see [`polder_runtime::key_sizes`].
    pub key_sizes: Vec<String>,
}

/// What a database holds.
#[derive(Clone, Copy, Debug)]
pub struct Database {
    pub db: Db,
    pub keys: u64,
    /// Keys that expire, and what a sample of them has shown.
    pub expiring: u64,
    pub expiries: Expiries,
}

impl<'c> Facts<'c> {
    /// Gathers everything as it is now. `databases` is counted by the caller, which has a
    /// transaction.
    pub fn gather(table: &'c Table, host: &'c dyn Host, databases: Vec<Database>) -> Facts<'c> {
        let now_us = polder_base::time::now_us();
        let recorder = host.recorder();
        recorder.sample(table, now_us / 1000);
        Facts {
            table,
            settings: host.settings(),
            recorder,
            host,
            usage: table.usage(),
            limits: table.limits(),
            whole: Whole::of(host),
            saves: host.saves().report(table),
            log: LogReport::of(table, host.settings()),
            machine: Machine::look(),
            rates: recorder.rates(),
            now_us,
            databases,
            subjects: [0; 3],
            replication: Overview::default(),
            key_sizes: Vec::new(),
        }
    }

    /// When the last save ended, or the process began.
    pub fn last_save_seconds(&self) -> u64 {
        if self.saves.last_save_seconds == 0 {
            self.recorder.started_ms() / 1000
        } else {
            self.saves.last_save_seconds
        }
    }

    /// A counter's total over the segment's life, or since CONFIG RESETSTAT.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.table.counter(counter)
    }

    /// What is neither data nor free: the table's buckets, seats and headers.
    pub fn overhead(&self) -> u64 {
        self.usage.fixed + self.usage.table
    }

    /// What the keys and values take.
    pub fn dataset(&self) -> u64 {
        self.usage.used.saturating_sub(self.overhead())
    }

    /// The part of all keys with an expiry that have expired and are not collected yet, as far as the samples tell.
    pub fn stale(&self) -> f64 {
        let expiring: u64 = self.databases.iter().map(|database| database.expiring).sum();
        let stale = |database: &Database| {
            ratio(database.expiries.expired, database.expiries.keys) * database.expiring as f64
        };
        if expiring == 0 { 0.0 } else { self.databases.iter().map(stale).sum::<f64>() / expiring as f64 }
    }

    pub fn uptime_seconds(&self) -> u64 {
        (self.now_us / 1000).saturating_sub(self.recorder.started_ms()) / 1000
    }
}

/// Where a field's figure comes from.
pub enum Figure {
    Count(fn(&Facts<'_>) -> u64),
    Text(fn(&Facts<'_>) -> String),
    /// Always this: what has no counterpart here.
    Always(&'static str),
}

/// One field.
pub struct Metric {
    pub name: &'static str,
    pub figure: Figure,
}

/// What stands in a section.
pub enum Body {
    Fields(&'static [Metric]),
    /// Lines whose names are not known beforehand: commands, errors, databases.
    Lines(fn(&Facts<'_>) -> Vec<String>),
}

/// One section.
pub struct Section {
    /// As INFO shows it; its argument in any case.
    pub title: &'static str,
    /// Whether INFO shows it when nothing is asked for.
    pub usual: bool,
    /// Whether something in it is a sum over processes.
    pub of_processes: bool,
    pub body: Body,
    /// Lines behind it whose names are not known beforehand.
    pub more: fn(&Facts<'_>) -> Vec<String>,
}

impl Section {
    /// The section's text, title and all.
    pub fn render(&self, facts: &Facts<'_>) -> String {
        let mut text = format!("# {}\r\n", self.title);
        match &self.body {
            Body::Fields(rows) => {
                for Metric { name, figure } in *rows {
                    let figure = match figure {
                        Figure::Count(count) => count(facts).to_string(),
                        Figure::Text(make) => make(facts),
                        Figure::Always(always) => (*always).to_owned(),
                    };
                    text.push_str(&format!("{name}:{figure}\r\n"));
                }
            }
            Body::Lines(make) => make(facts).iter().for_each(|line| text.push_str(&format!("{line}\r\n"))),
        }
        (self.more)(facts).iter().for_each(|line| text.push_str(&format!("{line}\r\n")));
        text
    }
}

/// A number of bytes for people, as Redis writes it.
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    for unit in ["K", "M", "G", "T"] {
        if scaled < 1024.0 {
            return format!("{scaled:.2}{unit}");
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.2}P")
}

/// `part` of `whole` as a fraction; 0 of nothing.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_section_has_a_name_of_its_own() {
        let mut names: Vec<&str> = SECTIONS.iter().map(|section| section.title).collect();
        for section in SECTIONS {
            if let Body::Fields(rows) = &section.body {
                names.extend(rows.iter().map(|row| row.name));
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn bytes_are_shown_as_redis_shows_them() {
        let cases =
            [(0, "0B"), (1023, "1023B"), (1024, "1.00K"), (965_672, "943.04K"), (25_276_514_304, "23.54G")];
        for (bytes, expect) in cases {
            assert_eq!(human(bytes), expect);
        }
    }
}
