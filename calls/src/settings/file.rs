//! Reads settings from a redis.conf-style file and from flags (`--name value`), with Redis's quoting rules.
//!
//! ```text
//!   # a comment
//!   maxmemory 2gb
//!   save ""
//!   requirepass "with \"quotes\" and \x00 bytes"      in double quotes: \n \r \t \b \a \xHH \" \\
//!   unixsocket '/tmp/it''s'                            in single quotes: \' only
//!   include other.conf
//! ```
//!
//! The last value of a name wins. What Redis itself still accepts and ignores is ignored here too; directives that
//! Polder cannot honour are errors, never skipped.
use std::fmt;
use std::path::{Path, PathBuf};

use polder_base::words::{quote, split};

use super::{Id, Setting, Shape, TABLE, find};

/// The directive that renames or removes a command.
const RENAME: &[u8] = b"rename-command";

/// How deep files may include each other: enough for people, an end for circles.
const INCLUDES_MAX: usize = 16;

/// One value given to one setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Assignment {
    pub id: Id,
    pub words: Vec<Vec<u8>>,
    /// For error texts: the file and line, or the flag.
    pub place: String,
}

impl Assignment {
    pub(super) fn wrong(&self, reason: &str) -> Wrong {
        let words: Vec<String> = self.words.iter().map(|word| quote(word)).collect();
        let given = if self.id.row().secret { "(not shown)".to_owned() } else { words.join(" ") };
        let given = match self.place.strip_prefix("--") {
            // The flag names the setting.
            Some(_) => given,
            None => format!("{} {given}", self.id.row().name),
        };
        Wrong { place: self.place.clone(), reason: format!("{given}: {reason}") }
    }
}

/// Why a file or flag cannot be used; one line for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    pub place: String,
    pub reason: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for Wrong {}

/// A `user` line: a name and rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declaration {
    pub words: Vec<Vec<u8>>,
    pub place: String,
}

/// A `rename-command` line: the command's name, and the new one or nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rename {
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    pub place: String,
}

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Content {
    pub settings: Vec<Assignment>,
    pub users: Vec<Declaration>,
    pub renames: Vec<Rename>,
}

/// Reads a file and those it includes.
///
/// # Errors
/// The first line that cannot be understood, or what the file system says.
pub fn read(path: &Path) -> Result<Content, Wrong> {
    let mut content = Content::default();
    read_nested(path, INCLUDES_MAX, &mut content)?;
    Ok(content)
}

fn read_nested(path: &Path, depth: usize, read: &mut Content) -> Result<(), Wrong> {
    let wrong = |reason: String| Wrong { place: path.display().to_string(), reason };
    let Some(depth) = depth.checked_sub(1) else {
        return Err(wrong(format!("files include each other more than {INCLUDES_MAX} deep")));
    };
    let content = std::fs::read(path).map_err(|error| wrong(format!("can't open config file: {error}")))?;
    for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let place = format!("{}, line {}", path.display(), number + 1);
        match read_line(line).map_err(|reason| Wrong { place: place.clone(), reason })? {
            Line::Nothing => {}
            Line::Assignment(id, words) => read.settings.push(Assignment { id, words, place }),
            Line::User(words) => read.users.push(Declaration { words, place }),
            Line::Rename(old, new) => read.renames.push(Rename { old, new, place }),
            Line::Include(other) => read_nested(&other, depth, read)?,
        }
    }
    Ok(())
}

/// What one line of a file says.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    Nothing,
    Assignment(Id, Vec<Vec<u8>>),
    User(Vec<Vec<u8>>),
    Rename(Vec<u8>, Vec<u8>),
    Include(PathBuf),
}

pub fn read_line(line: &[u8]) -> Result<Line, String> {
    let line = line.trim_ascii();
    if line.is_empty() || line[0] == b'#' {
        return Ok(Line::Nothing);
    }
    let mut words = split(line).ok_or("Unbalanced quotes in configuration line")?;
    if words.is_empty() {
        return Ok(Line::Nothing);
    }
    let name = words.remove(0).to_ascii_lowercase();
    if let Some(id) = find(&name) {
        return Ok(Line::Assignment(id, words));
    }
    match (name.as_slice(), words.as_slice()) {
        (b"include", [path]) => Ok(Line::Include(PathBuf::from(String::from_utf8_lossy(path).into_owned()))),
        // Redis accepts these for the sake of old files, and so do we.
        (b"list-max-ziplist-entries" | b"list-max-ziplist-value" | b"lua-replicate-commands", [_]) => {
            Ok(Line::Nothing)
        }
        (RENAME, [old, new]) => Ok(Line::Rename(old.clone(), new.clone())),
        (RENAME, _) => {
            Err("rename-command takes two words: the command's name, and its new one or \"\"".into())
        }
        (b"user", [_, ..]) => Ok(Line::User(words)),
        (b"loadmodule", [_, ..]) => Err("polder loads no modules; remove this line".into()),
        (b"sentinel", [_, ..]) => Err("sentinel directive while not in sentinel mode".into()),
        _ => Err(format!(
            "Bad directive or wrong number of arguments: '{}'{}",
            String::from_utf8_lossy(line),
            meant(&name, "")
        )),
    }
}

/// `; did you mean 'maxmemory'?`, where a setting has a name like this one; with `before` in front of the name.
fn meant(name: &[u8], before: &str) -> String {
    let near = TABLE.iter().flat_map(Setting::names).map(|own| (distance(name, own.as_bytes()), own)).min();
    match near {
        Some((steps, own)) if steps <= name.len().div_ceil(4) => format!("; did you mean '{before}{own}'?"),
        _ => String::new(),
    }
}

/// How many letters have to be put in, taken out, exchanged or swapped with their neighbour to make one word of another (the optimal string
/// alignment distance).
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for at in 0..=one.len() {
        for to in 0..=other.len() {
            rows[at][to] = match (at, to) {
                (0, steps) | (steps, 0) => steps,
                _ => {
                    let exchange = usize::from(one[at - 1] != other[to - 1]);
                    let plain =
                        (rows[at - 1][to] + 1).min(rows[at][to - 1] + 1).min(rows[at - 1][to - 1] + exchange);
                    let is_swap =
                        at > 1 && to > 1 && one[at - 1] == other[to - 2] && one[at - 2] == other[to - 1];
                    if is_swap { plain.min(rows[at - 2][to - 2] + 1) } else { plain }
                }
            };
        }
    }
    rows[one.len()][other.len()]
}

/// Reads `--name value value --name value`: what precedes the first `--` is handed back. A switch without a value is `yes`.
///
/// # Errors
/// The first flag that names no setting or has no value.
pub fn flags(arguments: &[String]) -> Result<(Vec<String>, Vec<Assignment>), Wrong> {
    let first = arguments.iter().position(|argument| argument.starts_with("--")).unwrap_or(arguments.len());
    let (before, rest) = arguments.split_at(first);
    let mut assignments: Vec<Assignment> = Vec::new();
    for argument in rest {
        match argument.strip_prefix("--") {
            Some(name) => {
                let id = find(name.as_bytes()).ok_or_else(|| unknown_flag(argument, name))?;
                assignments.push(Assignment { id, words: Vec::new(), place: argument.clone() });
            }
            None => assignments
                .last_mut()
                .into_iter()
                .for_each(|last| last.words.push(argument.clone().into_bytes())),
        }
    }
    for assignment in &mut assignments {
        if assignment.words.is_empty() && assignment.id.row().shape == Shape::Switch {
            assignment.words.push(b"yes".to_vec());
        }
        if assignment.words.is_empty() {
            return Err(Wrong { place: assignment.place.clone(), reason: "a value is missing".into() });
        }
        // `--save "900 1 300 10"` is one argument to the shell and several words to us.
        if assignment.id.row().takes_words() {
            let words =
                assignment.words.iter().flat_map(|word| word.split(|byte| *byte == b' ').map(<[u8]>::to_vec));
            assignment.words = words.collect();
        }
    }
    Ok((before.to_vec(), assignments))
}

fn unknown_flag(flag: &str, name: &str) -> Wrong {
    let reason = match name.as_bytes() {
        b"user" | b"include" | RENAME => "this belongs into a file: 'polder serve FILE'".to_owned(),
        name => match meant(&name.to_ascii_lowercase(), "--") {
            none if none.is_empty() => {
                "there is no such setting; 'polder serve --help' lists all of them".to_owned()
            }
            meant => format!("there is no such setting{meant}"),
        },
    };
    Wrong { place: flag.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::super::id;
    use super::*;

    #[test]
    fn lines_name_settings_or_say_why_not() {
        assert_eq!(read_line(b"  # maxmemory 1"), Ok(Line::Nothing));
        assert_eq!(read_line(b"lua-replicate-commands yes"), Ok(Line::Nothing));
        assert_eq!(
            read_line(b"Slave-Priority 7"),
            Ok(Line::Assignment(id("replica-priority"), vec![b"7".to_vec()]))
        );
        assert_eq!(read_line(b"include x.conf"), Ok(Line::Include("x.conf".into())));
        assert_eq!(
            read_line(b"nonsense 1"),
            Err("Bad directive or wrong number of arguments: 'nonsense 1'".into())
        );
        assert_eq!(read_line(b"port \"1"), Err("Unbalanced quotes in configuration line".into()));
        assert_eq!(
            read_line(b"maxmemroy 1"),
            Err("Bad directive or wrong number of arguments: 'maxmemroy 1'; did you mean 'maxmemory'?".into())
        );
        assert_eq!(read_line(b"loadmodule x.so"), Err("polder loads no modules; remove this line".into()));
        assert_eq!(
            read_line(b"rename-command FLUSHALL \"\""),
            Ok(Line::Rename(b"FLUSHALL".to_vec(), Vec::new()))
        );
    }

    #[test]
    fn flags_take_all_words_up_to_the_next_flag() {
        let arguments: Vec<String> =
            ["my.conf", "--port", "7000", "--bind", "127.0.0.1 ::1", "10.0.0.1"].map(String::from).into();
        let (before, assignments) = flags(&arguments).unwrap();
        assert_eq!(before, ["my.conf"]);
        assert_eq!(assignments[0].words, [b"7000"]);
        assert_eq!(assignments[1].words, [b"127.0.0.1".as_slice(), b"::1", b"10.0.0.1"]);
        let switches = flags(&["--all-protocols", "--share-port", "no"].map(String::from)).unwrap().1;
        assert_eq!([&switches[0].words, &switches[1].words], [&[b"yes".to_vec()], &[b"no".to_vec()]]);
        let wrong = |words: &[&str]| {
            flags(&words.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap_err().to_string()
        };
        assert_eq!(
            wrong(&["--nonsense"]),
            "--nonsense: there is no such setting; 'polder serve --help' lists all of them"
        );
        assert_eq!(wrong(&["--Prot", "1"]), "--Prot: there is no such setting; did you mean '--port'?");
        assert_eq!(wrong(&["--user", "x"]), "--user: this belongs into a file: 'polder serve FILE'");
        assert_eq!(flags(&["--port".into()]).unwrap_err().to_string(), "--port: a value is missing");
    }
}
