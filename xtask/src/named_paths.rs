//! Paths that comments and documents name in backticks: each must be there.
//!
//! ```text
//!   `table/src/access/plain.rs`   the path from the root
//!   `table/access/plain`          the short form: without `src/` and `.rs`
//!   `turn/disk.rs`         the end of a path or of its short form
//! ```
//!
//! Texts with a slash that name no file (`EX/PX`, `dir/dbfilename`) begin with no folder of the root and end with no suffix of a source, so
//! they are not looked at.
use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use crate::tidy::tracked;

/// Folders of other projects that documents name, by their beginning.
const ELSEWHERE: [&str; 1] = ["tests/unit"];

/// Finds the paths that name no file.
///
/// # Errors
/// When the files cannot be listed or read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let known = Known::of(&tracked(root, "*")?);
    let named = Regex::new(r"`([a-z0-9_.-]+(?:/[a-z0-9_.-]+)+)`").map_err(|error| error.to_string())?;
    let mut findings = Vec::new();
    for path in tracked(root, "*.rs")?.into_iter().chain(tracked(root, "*.md")?) {
        let text = std::fs::read_to_string(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
        let is_code = path.ends_with(".rs");
        for (at, line) in text.lines().enumerate() {
            let prose = if is_code { line.split_once("//").map_or("", |(_, comment)| comment) } else { line };
            let missing =
                named.captures_iter(prose).map(|found| found[1].to_owned()).filter(|name| !known.has(name));
            findings.extend(missing.map(|name| {
                format!("{path}:{}: `{name}` names no file; write where the code is now", at + 1)
            }));
        }
    }
    Ok(findings)
}

/// What a path may name.
struct Known {
    /// Files and folders, as they are and in their short form.
    names: BTreeSet<String>,
    /// Ends of these, each from a slash on.
    ends: BTreeSet<String>,
    /// Folders of the root.
    folders: BTreeSet<String>,
}

impl Known {
    fn of(files: &[String]) -> Known {
        let mut names = BTreeSet::new();
        for file in files {
            for (at, _) in file.match_indices('/').chain([(file.len(), "")]) {
                let path = &file[..at];
                let short = path.replace("/src/", "/");
                names.extend([path.to_owned(), short.trim_end_matches(".rs").to_owned(), short]);
            }
        }
        let ends = names
            .iter()
            .flat_map(|name| name.match_indices('/').map(|(at, _)| name[at + 1..].to_owned()))
            .collect();
        let folders = files
            .iter()
            .filter_map(|file| file.split_once('/'))
            .map(|(folder, _)| folder.to_owned())
            .collect();
        Known { names, ends, folders }
    }

    /// Tells whether a text names a file or a folder, or is no path at all.
    fn has(&self, name: &str) -> bool {
        let first = name.split('/').next().unwrap_or_default();
        let is_path = self.folders.contains(first) || name.ends_with(".rs") || name.ends_with(".md");
        !is_path
            || self.names.contains(name)
            || self.ends.contains(name)
            || ELSEWHERE.iter().any(|folder| name.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_as_it_is_in_its_short_form_and_by_its_end() {
        let files = ["server/src/turn/disk.rs", "docs/http.md", "xtask/needs.sh"].map(str::to_owned);
        let known = Known::of(&files);
        for name in [
            "server/src/turn/disk.rs",
            "server/turn/disk",
            "server/turn",
            "turn/disk.rs",
            "docs/http.md",
            "xtask/needs.sh",
            "dir/dbfilename",
            "tests/unit",
        ] {
            assert!(known.has(name), "{name}");
        }
        for name in ["server/src/bounds.rs", "server/together", "turn/disc.rs", "docs/none.md"] {
            assert!(!known.has(name), "{name}");
        }
    }
}
