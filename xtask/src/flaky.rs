//! The list of tests that failed once and passed when they ran again by themselves: `target/flaky.txt`.
//!
//! ```text
//!   TEST             one line that does not begin with a blank
//!       OUTPUT       the lines of the run that failed, indented
//! ```
//! Each name is a defect of the change that shows it, though it does not fail the run.
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Lines of output kept for one test.
const LINES_KEPT: usize = 60;

/// The list, in the folder of build results.
pub struct Flaky {
    path: PathBuf,
    /// Bytes of the list that earlier runs have left.
    left: usize,
}

impl Flaky {
    /// The list below the folder `target`.
    pub fn new(target: &Path) -> Flaky {
        let path = target.join("flaky.txt");
        let left = fs::metadata(&path).map_or(0, |file| file.len() as usize);
        Flaky { path, left }
    }

    /// Forgets the tests of earlier runs.
    pub fn clear(&mut self) {
        _ = fs::remove_file(&self.path);
        self.left = 0;
    }

    /// Adds a test with the output of the run that failed.
    pub fn add(&self, test: &str, output: &[String]) {
        if let Err(error) = self.try_add(test, output) {
            println!("{}: {error}", self.path.display());
        }
    }

    fn try_add(&self, test: &str, output: &[String]) -> io::Result<()> {
        let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        write_entry(file, test, output)
    }

    /// Returns the names that this run has added.
    pub fn names(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let added = text.get(self.left..).unwrap_or_default();
        added.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).map(String::from).collect()
    }
}

fn write_entry(file: File, test: &str, output: &[String]) -> io::Result<()> {
    let mut file = io::BufWriter::new(file);
    writeln!(file, "{test}")?;
    for line in &output[output.len().saturating_sub(LINES_KEPT)..] {
        writeln!(file, "    {line}")?;
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_without_their_output() {
        let folder = std::env::temp_dir().join(format!("polder-flaky-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let flaky = Flaky::new(&folder);
        flaky.add("server: a", &["left: 1".into(), String::new(), "right: 2".into()]);
        flaky.add("table: b", &[]);
        assert_eq!(flaky.names(), ["server: a", "table: b"]);
        let mut later = Flaky::new(&folder);
        assert!(later.names().is_empty());
        later.add("hub: c", &[]);
        assert_eq!(later.names(), ["hub: c"]);
        later.clear();
        assert!(later.names().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
