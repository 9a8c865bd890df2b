//! bench/history.jsonl, read again: for each measurement its last run.
use std::path::Path;

use serde_json::Value;

/// Every run, oldest first.
pub struct History {
    entries: Vec<Entry>,
}

/// One run of one measurement.
pub struct Entry {
    pub bench: String,
    pub commit: String,
    pub machine: String,
    pub time: String,
    pub rounds: u64,
    pub divisor: u64,
    figures: Vec<(String, f64)>,
}

/// A figure with the least and the greatest of its rounds; both are the median where they were not recorded.
#[derive(Clone, Copy)]
pub struct Figure {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl History {
    /// # Errors
    /// When there is none or a line is damaged.
    pub fn read(root: &Path) -> Result<History, String> {
        let path = root.join("bench/history.jsonl");
        History::parse(
            &std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?,
        )
    }

    /// # Errors
    /// When a line is damaged.
    pub fn parse(text: &str) -> Result<History, String> {
        let entry = |(at, line): (usize, &str)| {
            let value: Value = serde_json::from_str(line)
                .map_err(|error| format!("bench/history.jsonl:{}: {error}", at + 1))?;
            let text = |name: &str| value[name].as_str().unwrap_or_default().to_string();
            let figures = value["figures"].as_object().into_iter().flatten();
            Ok(Entry {
                bench: text("bench"),
                commit: text("commit"),
                machine: text("machine"),
                time: text("time"),
                // What was recorded before rounds were.
                rounds: value["rounds"].as_u64().unwrap_or(3),
                divisor: value["divisor"].as_u64().unwrap_or(1),
                figures: figures
                    .filter_map(|(name, figure)| Some((name.clone(), figure.as_f64()?)))
                    .collect(),
            })
        };
        Ok(History { entries: text.lines().enumerate().map(entry).collect::<Result<_, String>>()? })
    }

    /// The last run of a measurement.
    pub fn last(&self, bench: &str) -> Option<&Entry> {
        self.entries.iter().rfind(|entry| entry.bench == bench)
    }
}

impl Entry {
    /// A figure by its name.
    pub fn figure(&self, name: &str) -> Option<Figure> {
        let of = |name: &str| self.figures.iter().find(|(known, _)| known == name).map(|(_, figure)| *figure);
        let median = of(name)?;
        Some(Figure {
            median,
            min: of(&format!("{name} min")).unwrap_or(median),
            max: of(&format!("{name} max")).unwrap_or(median),
        })
    }

    /// The names of all figures but those that only say how far another one ranges.
    pub fn names(&self) -> Vec<&str> {
        let is_range = |name: &str| {
            let base = name.strip_suffix(" min").or_else(|| name.strip_suffix(" max"));
            base.is_some_and(|base| self.figures.iter().any(|(known, _)| known == base))
        };
        self.figures.iter().map(|(name, _)| name.as_str()).filter(|name| !is_range(name)).collect()
    }

    /// The servers that were compared, Polder first: words of names that begin with that of a server.
    pub fn servers(&self) -> Vec<String> {
        let mut servers = Vec::new();
        for word in self.figures.iter().flat_map(|(name, _)| name.split([' ', ','])) {
            let family = word.split_once('-').map_or(word, |(family, _)| family);
            if ["polder", "redis", "valkey", "memcached", "nginx", "webdis"].contains(&family)
                && word != "redis-py"
                && !servers.iter().any(|known| known == word)
            {
                servers.push(word.to_string());
            }
        }
        servers.sort_by_key(|name| (name != "polder", name.clone()));
        servers
    }
}
