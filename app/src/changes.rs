//! `polder changes`: what is committed to a segment, in order, for those who follow it.
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use polder_base::words::quote;
use polder_engine::{ChangeCommand, Changes, Follower, Memory, Position, Stop};

use crate::text::{self, Failed};

mod files;

/// How often a follower looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Shows what is committed to a segment, or stands in the files of an append-only log, a transaction a line, in the order of the commits.
///
/// The first call turns the change log of the segment on, which costs every write to it something until `--off`. Each line begins with the position
/// behind it; with `--from` another call goes on there. The exit status is 0, or 2 when the segment could not be looked at or a position is not
/// kept any more: then copy the data and follow from a new position.
///
/// Of a log, its incremental files are shown, without the data of its base.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`; or the folder of a log, or its manifest.
    #[arg(value_name = "NAME|DIR")]
    name: String,
    #[command(flatten)]
    whose: text::Whose,
    /// Position to begin at, as a line shows it, or `now`, which is the default for a segment; a log is shown from its beginning.
    #[arg(long, value_name = "POSITION")]
    from: Option<String>,
    /// Wait for more at the end.
    #[arg(long)]
    follow: bool,
    /// Print JSON, an object a line.
    #[arg(long)]
    json: bool,
    /// Begin where the last call with this name ended, and have the segment keep what comes for the next one, up to a limit.
    #[arg(long, value_name = "FOLLOWER")]
    follower: Option<String>,
    /// List the followers that have a name, their positions, and the bytes that they have not followed yet.
    #[arg(long, conflicts_with_all = ["from", "follow", "json", "follower"])]
    followers: bool,
    /// Forget a follower: nothing is kept for it any more.
    #[arg(long, value_name = "FOLLOWER", conflicts_with_all = ["from", "follow", "json", "follower", "followers"])]
    forget: Option<String>,
    /// Turn the change log off, for all followers.
    #[arg(long, conflicts_with_all = ["from", "follow", "json", "follower", "followers", "forget"])]
    off: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let shown = match files::path_of(&arguments.name) {
        Some(path) => arguments.show_files(&path),
        None => text::attach(&arguments.name, &arguments.whose).and_then(|memory| arguments.show(&memory)),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.tell(),
    }
}

fn failed(stop: &Stop) -> Failed {
    let text = stop.to_string();
    Failed::unattached(text.strip_prefix("ERR ").unwrap_or(&text).into())
}

impl Arguments {
    fn show(&self, memory: &Memory) -> Result<(), Failed> {
        let stopped = |stop| failed(&stop);
        if self.off {
            return memory.stop_changes().map_err(stopped);
        }
        if self.followers {
            return list(&memory.followers().map_err(stopped)?);
        }
        if let Some(name) = &self.forget {
            return match memory.forget_follower(name).map_err(stopped)? {
                true => Ok(()),
                false => {
                    Err(Failed::unattached(format!("there is no follower {name}: --followers lists them")))
                }
            };
        }
        let kept = match (&self.follower, &self.from) {
            (Some(name), None) => memory.follower(name).map_err(stopped)?,
            _ => self.position()?,
        };
        let is_new = kept.is_none();
        let mut changes = memory.changes(kept).map_err(stopped)?;
        self.show_all(memory, &mut changes, is_new)
    }

    /// Notes how far a follower with a name has come.
    fn keep(&self, memory: &Memory, changes: &Changes<'_>) -> Result<(), Failed> {
        let Some(name) = &self.follower else { return Ok(()) };
        memory.keep_follower(name, changes.position()).map_err(|stop| failed(&stop))
    }

    /// Where to begin; none: now, or at the beginning.
    fn position(&self) -> Result<Option<Position>, Failed> {
        let text = self.from.as_deref().filter(|text| *text != "now");
        let wrong = |text: &str| {
            Failed::unattached(format!(
                "{text} is no position: give one that a line began with, IDENTITY:OFFSET:DB, or now"
            ))
        };
        text.map(|text| Position::parse(text).ok_or_else(|| wrong(text))).transpose()
    }

    fn show_files(&self, path: &Path) -> Result<(), Failed> {
        let given = [
            ("--follow", self.follow),
            ("--off", self.off),
            ("--follower", self.follower.is_some()),
            ("--followers", self.followers),
            ("--forget", self.forget.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failed::unattached(format!(
                "{option} is for segments, and {} is a log: name the segment",
                path.display()
            )));
        }
        let (from, mut out) = (self.position()?, std::io::stdout().lock());
        files::show(path, from.as_ref(), &mut |place, commands| {
            let line = if self.json { json_of(place, commands) } else { line_of(place, commands) };
            // Else the reader has gone.
            writeln!(out, "{line}").is_ok()
        })
    }

    fn show_all(&self, memory: &Memory, changes: &mut Changes<'_>, is_new: bool) -> Result<(), Failed> {
        let mut out = std::io::stdout().lock();
        // A follower keeps it, before there is anything to follow.
        if is_new && !self.follow {
            let _ = writeln!(out, "{}", changes.position());
        }
        let mut kept = None;
        loop {
            while let Some(changed) = changes.next().map_err(|stop| failed(&stop))? {
                let (place, commands) = (changed.position.to_string(), &changed.commands);
                let line = if self.json { json_of(&place, commands) } else { line_of(&place, commands) };
                if writeln!(out, "{line}").is_err() {
                    // The reader has gone.
                    return Ok(());
                }
            }
            if out.flush().is_err() {
                return Ok(());
            }
            if kept.as_ref() != Some(changes.position()) {
                self.keep(memory, changes)?;
                kept = Some(changes.position().clone());
            }
            if !self.follow {
                return Ok(());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Followers that have a name, a line each.
fn list(followers: &[Follower]) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    for Follower { name, position, lag } in followers {
        let lag = lag.map_or("not kept any more".into(), |bytes| format!("{bytes} bytes behind"));
        // Else the reader has gone.
        let _ = writeln!(out, "{}  {position}  {lag}", quote(name));
    }
    Ok(())
}

fn line_of(place: &str, commands: &[ChangeCommand]) -> String {
    let command = |command: &ChangeCommand| {
        let words: Vec<String> = command.words.iter().map(|word| quote(word)).collect();
        format!("[{}] {}", command.db, words.join(" "))
    };
    let commands: Vec<String> = commands.iter().map(command).collect();
    format!("{place} {}", commands.join("; "))
}

/// A text as JSON.
fn json_text(text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

fn json_of(place: &str, commands: &[ChangeCommand]) -> String {
    let text = |word: &Vec<u8>| match std::str::from_utf8(word) {
        Ok(text) => json_text(text),
        Err(_) => {
            format!("{{\"hex\":\"{}\"}}", word.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    };
    let command = |command: &ChangeCommand| {
        let words: Vec<String> = command.words.iter().map(text).collect();
        format!("{{\"db\":{},\"command\":[{}]}}", command.db, words.join(","))
    };
    let commands: Vec<String> = commands.iter().map(command).collect();
    format!("{{\"position\":{},\"commands\":[{}]}}", json_text(place), commands.join(","))
}
