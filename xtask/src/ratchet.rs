//! Counts that may only fall: a file lists those that are still above their limit, with the value of the day.
//!
//! A line is `NAME COUNT`. A count above its entry is a finding, and so is an entry above the count: a change that lowers a count lowers its entry.
use std::collections::BTreeMap;
use std::path::Path;

/// The entries of one such file, and what they count.
pub struct Ratchet {
    file: &'static str,
    unit: &'static str,
    entries: BTreeMap<String, usize>,
}

impl Ratchet {
    /// Reads `file`, a path below the root, whose numbers count `unit`.
    ///
    /// # Errors
    /// When the file cannot be read, or a line of it has no number.
    pub fn read(root: &Path, file: &'static str, unit: &'static str) -> Result<Ratchet, String> {
        let text = std::fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
        let mut entries = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, count) = line.rsplit_once(' ').ok_or_else(|| format!("{file}: {line}"))?;
            entries.insert(name.to_string(), count.parse().map_err(|_| format!("{file}: {line}"))?);
        }
        Ok(Ratchet { file, unit, entries })
    }

    /// What differs. `counts` holds for each name its count and its limit.
    pub fn findings(&self, counts: &BTreeMap<String, (usize, usize)>) -> Vec<String> {
        let Ratchet { file, unit, entries } = self;
        let mut findings = Vec::new();
        for (name, &(count, limit)) in counts {
            let allowed = entries.get(name).copied().unwrap_or(limit);
            if count > allowed {
                findings.push(format!("{name}: {count} {unit}, and {allowed} is the most"));
            }
        }
        for (name, &allowed) in entries {
            match counts.get(name) {
                Some(&(count, limit)) if count <= limit => {
                    findings.push(format!("{file}: {name} keeps its limit now, take it out"))
                }
                Some(&(count, _)) if count < allowed => {
                    findings.push(format!("{file}: {name} has {count} {unit}, lower it"))
                }
                Some(_) => {}
                None => findings.push(format!("{file}: {name} is gone, take it out")),
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratchet_only_shrinks() {
        let counts: BTreeMap<String, (usize, usize)> =
            [("a.rs".to_string(), (1200, 1000)), ("b.rs".to_string(), (10, 1000))].into();
        let ratchet = |entries: &[(&str, usize)]| Ratchet {
            file: "list.txt",
            unit: "lines",
            entries: entries.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
        };
        assert_eq!(ratchet(&[]).findings(&counts).len(), 1);
        assert_eq!(ratchet(&[("a.rs", 1200)]).findings(&counts).len(), 0);
        assert_eq!(ratchet(&[("a.rs", 1300)]).findings(&counts).len(), 1);
        assert_eq!(ratchet(&[("a.rs", 1200), ("b.rs", 1100), ("c.rs", 1)]).findings(&counts).len(), 2);
    }
}
