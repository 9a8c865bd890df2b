//! What [`crate::Table::verify`] found, to be read by people and by programs.

use std::fmt::{self, Display, Formatter};

use polder_shm::audit::Counts;

/// Findings that are shown; the others are only counted.
const SHOWN_MAX: usize = 100;

/// The outcome of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Databases that users have written to, and their keys; without Polder's own.
    pub databases: u64,
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
    pub extents: u64,
    pub buckets: u64,
    /// Entries of buckets: keys, and marks of keys that are watched for.
    pub entries: u64,
    /// Entries whose value does not fit into the bucket.
    pub records: u64,
    /// Nodes in use, and their bytes.
    pub nodes: u64,
    pub node_bytes: u64,
    /// Free nodes in the seats' caches, and nodes that wait until no thread can be reading them.
    pub cached: u64,
    pub retired: u64,
    pub slabs: u64,
    /// Threads that are attached.
    pub seats_alive: u64,
    /// How many times everything was walked, and whether the last walk saw one state.
    pub passes: u32,
    pub exact: bool,
    /// What is wrong; empty when nothing is.
    pub findings: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn count_memory(&mut self, counts: &Counts) {
        (self.nodes, self.node_bytes) = (counts.nodes, counts.node_bytes);
        (self.cached, self.retired) = (counts.cached, counts.retired);
        (self.slabs, self.seats_alive) = (counts.slabs, counts.seats_alive);
    }

    /// All counts with their names.
    fn counts(&self) -> [(&'static str, u64); 14] {
        [
            ("databases", self.databases),
            ("keys", self.keys),
            ("expires", self.expires),
            ("extents", self.extents),
            ("buckets", self.buckets),
            ("entries", self.entries),
            ("records", self.records),
            ("nodes", self.nodes),
            ("node_bytes", self.node_bytes),
            ("cached", self.cached),
            ("retired", self.retired),
            ("slabs", self.slabs),
            ("seats_alive", self.seats_alive),
            ("passes", self.passes as u64),
        ]
    }

    /// The report as one JSON object.
    pub fn json(&self) -> String {
        let counts = self.counts().map(|(name, count)| format!("\"{name}\":{count}")).join(",");
        let shown: Vec<String> =
            self.findings.iter().take(SHOWN_MAX).map(|finding| quoted(finding)).collect();
        format!(
            "{{\"clean\":{},\"exact\":{},{counts},\"damages\":{},\"findings\":[{}]}}",
            self.is_clean(),
            self.exact,
            self.findings.len(),
            shown.join(",")
        )
    }
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '.. => quoted.push(letter),
            _ => quoted += &format!("\\u{:04x}", letter as u32),
        }
    }
    quoted + "\""
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        for (name, count) in self.counts() {
            writeln!(out, "{name:<12} {count:>14}")?;
        }
        let seen = if self.exact {
            "everything was seen at one moment"
        } else {
            "others were at work: what moved meanwhile was left out"
        };
        writeln!(out, "{seen}")?;
        for finding in self.findings.iter().take(SHOWN_MAX) {
            writeln!(out, "DAMAGE {finding}")?;
        }
        match self.findings.len() {
            0 => write!(out, "whole"),
            damages if damages > SHOWN_MAX => write!(out, "{damages} damages, the first {SHOWN_MAX} shown"),
            damages => write!(out, "{damages} damages"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_the_same_to_people_and_programs() {
        let report = Report { keys: 7, findings: vec!["a \"b\"\n".into()], ..Report::default() };
        assert!(
            report.json().starts_with("{\"clean\":false,\"exact\":false,\"databases\":0,\"keys\":7,"),
            "{}",
            report.json()
        );
        assert!(
            report.json().ends_with("\"damages\":1,\"findings\":[\"a \\\"b\\\"\\u000a\"]}"),
            "{}",
            report.json()
        );
        assert!(report.to_string().contains("DAMAGE a \"b\"") && report.to_string().ends_with("1 damages"));
        assert!(Report::default().to_string().ends_with("whole"));
    }
}
