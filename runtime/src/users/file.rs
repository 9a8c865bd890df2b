//! The ACL file: a line for each user, `user NAME RULES`, words parted by single blanks. It is read whole or not at all, and
//! written whole or not at all.
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use polder_base::time;

use super::snapshot::{Snapshot, fresh_serial};
use super::user::{User, Wrong, has_spaces, merged};
use polder_calls::settings::file::Declaration;

/// What follows everything else that is wrong with a file.
const NOTHING_CHANGED: &str =
    "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";

/// The users that a file names, which may lie in `folder`. A user with the name of one in `known`
/// is still the same one.
///
/// # Errors
/// All that is wrong with it, in Redis's words.
pub fn read(folder: &Path, path: &str, known: &Snapshot, all_channels: bool) -> Result<Vec<User>, String> {
    let content = fs::read(folder.join(path))
        .map_err(|error| format!("Error loading ACLs, opening file '{path}': {}", plain(&error)))?;
    let (mut users, mut wrongs): (Vec<User>, String) = Default::default();
    for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match read_line(line, &format!("{path}:{}", number + 1), known, all_channels) {
            Ok(user) if users.iter().any(|other| other.name == user.name) => {
                let name = String::from_utf8_lossy(&user.name);
                wrongs += &format!("WARNING: Duplicate user '{name}' found on line {}. ", number + 1);
            }
            Ok(user) => users.push(user),
            Err(wrong) => wrongs += &wrong,
        }
    }
    if wrongs.is_empty() { Ok(users) } else { Err(wrongs + NOTHING_CHANGED) }
}

fn read_line(line: &[u8], place: &str, known: &Snapshot, all_channels: bool) -> Result<User, String> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [b"user", name, rules @ ..] = &words[..] else {
        return Err(format!("{place} should start with user keyword followed by the username. "));
    };
    if has_spaces(name) {
        return Err(format!(
            "{place}: username '{}' contains invalid characters. ",
            String::from_utf8_lossy(name)
        ));
    }
    let rules =
        merged(rules).map_err(|_| format!("{place}: Unmatched parenthesis in selector definition."))?;
    let serial = known.find(name).map_or_else(fresh_serial, |user| user.serial);
    let mut user = User::new(name, serial, all_channels);
    let (mut wrongs, mut told) = (String::new(), false);
    for rule in &rules {
        match user.apply(rule.trim_ascii(), all_channels) {
            Ok(()) => {}
            Err(wrong @ Wrong::Unknown) => {
                let rule = String::from_utf8_lossy(rule);
                wrongs += &format!("{place}: Error in applying operation '{rule}': {}. ", wrong.text());
            }
            // Further ones may be the consequences of the first.
            Err(_) if told => {}
            Err(wrong) => {
                wrongs += &format!("{place}: {}. ", wrong.text());
                told = true;
            }
        }
    }
    if wrongs.is_empty() { Ok(user) } else { Err(wrongs) }
}

/// The users that lines of the configuration file name.
///
/// # Errors
/// What is wrong with the first wrong line.
pub fn declared(lines: &[Declaration], known: &Snapshot, all_channels: bool) -> Result<Vec<User>, String> {
    let mut users: Vec<User> = Vec::new();
    for Declaration { words, place } in lines {
        let wrong = |reason: &str| format!("{place}: Error in user declaration: {reason}");
        let (name, rules) = words.split_first().ok_or_else(|| wrong("a name is missing"))?;
        if has_spaces(name) {
            return Err(wrong("Usernames can't contain spaces or null characters"));
        }
        if users.iter().any(|user| user.name == *name) {
            return Err(wrong("Duplicate user found. A user can only be defined once in config files"));
        }
        let rules = merged(rules).map_err(|_| wrong("Unmatched parenthesis in selector definition."))?;
        let mut user =
            User::new(name, known.find(name).map_or_else(fresh_serial, |user| user.serial), all_channels);
        for rule in &rules {
            let shown = String::from_utf8_lossy(rule);
            user.apply(rule, all_channels).map_err(|why| wrong(&format!("'{shown}': {}", why.text())))?;
        }
        users.push(user);
    }
    Ok(users)
}

/// Puts a file with these users in the place of the old one, in `folder` if need be: to a temporary file, synced, renamed, and the folder synced.
///
/// # Errors
/// What the file system says; the old file is still there then.
pub fn write(folder: &Path, path: &str, users: &Snapshot) -> io::Result<()> {
    let path = folder.join(path);
    let mut fresh = path.clone().into_os_string();
    fresh.push(format!(".tmp-{}-{}", std::process::id(), time::now_ms()));
    let lines: Vec<u8> = users.all().flat_map(|user| [&user.line_in_file()[..], b"\n"].concat()).collect();
    let written = File::create(&fresh).and_then(|mut file| {
        file.write_all(&lines)?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&fresh, &path));
    if replaced.is_err() {
        // The reason matters more than a file that could not be removed either.
        let _ = fs::remove_file(&fresh);
        return replaced;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// What the system says, without the number that Rust adds.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
