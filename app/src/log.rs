//! `polder log`: the files of an append-only log, Polder's or Redis's, looked at and put right.
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use polder_storage::check::{check, fix};
use polder_storage::{Disk, Flaw, Folder, Lock, Medium, Report};

use crate::text::{self, Failed};

/// Something is wrong with the log.
const FLAWED: u8 = 1;

const MANIFEST: &str = ".manifest";

/// Looks at an append-only log: the folder of a server's log (`appenddirname`), Polder's or that of Redis 7 or later.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Check(Check),
}

/// Reads all files of a log and says whether it is whole; if not, where and why.
///
/// The exit status is 0 when the log is whole or has been put right, 1 when something is wrong, and 2 when it could not be read.
#[derive(clap::Args)]
struct Check {
    /// The log's folder, or its manifest.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Cut off the end of the last file where that makes the log whole, after a question. Stop the server before.
    #[arg(long)]
    fix: bool,
    /// Do not ask.
    #[arg(long, requires = "fix")]
    yes: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let Action::Check(arguments) = &arguments.action;
    match look(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FLAWED),
        Err(failed) => failed.tell(),
    }
}

/// The log at a path: a folder with one manifest in it, or a manifest.
///
/// # Errors
/// A line that says why there is none.
pub fn folder(path: &Path) -> Result<Folder, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let (folder, manifest) = if path.is_dir() {
        let names = Disk.list(path).map_err(told)?;
        let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
        let mut manifests: Vec<String> =
            names.filter(|name| name.ends_with(MANIFEST) && !name.starts_with("temp-")).collect();
        match (manifests.pop(), manifests.is_empty()) {
            (Some(manifest), true) => (path, manifest),
            (None, _) => {
                return Err(format!(
                    "{}: there is no file that ends in {MANIFEST}: this is not the folder of a log",
                    path.display()
                ));
            }
            (Some(_), false) => {
                return Err(format!(
                    "{}: there are several files that end in {MANIFEST}: name one of them",
                    path.display()
                ));
            }
        }
    } else {
        std::fs::metadata(path).map_err(told)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (path.parent().unwrap_or(Path::new("")), name)
    };
    let Some(name) = manifest.strip_suffix(MANIFEST) else {
        return Err(format!(
            "{}: neither the folder of a log nor a file that ends in {MANIFEST}",
            path.display()
        ));
    };
    Ok(Folder { medium: Arc::new(Disk), path: folder.to_owned(), name: name.to_owned() })
}

/// Takes the folder, so that no process appends to a file that is being cut off.
fn lock(folder: &Folder) -> Result<Lock, String> {
    let path = if folder.path.as_os_str().is_empty() { Path::new(".") } else { &folder.path };
    let lock = Lock::take(path).map_err(|error| format!("{}: {error}", path.display()))?;
    lock.ok_or_else(|| {
        format!("{}: a process writes this log: stop it first, or check without --fix", path.display())
    })
}

/// Whether the log is whole in the end.
fn look(arguments: &Check) -> Result<bool, Failed> {
    let unread = Failed::unattached;
    let folder = folder(&arguments.path).map_err(unread)?;
    let _lock = if arguments.fix { Some(lock(&folder).map_err(unread)?) } else { None };
    let report = check(&folder).map_err(|error| unread(error.to_string()))?;
    show(&report);
    let Some(flaw) = &report.flaw else {
        println!("the log is whole");
        return Ok(true);
    };
    println!("{}: at byte {}: {}", flaw.path.display(), flaw.at, flaw.why);
    let Some(cut_at) = flaw.cut_at else {
        println!(
            "this cannot be put right by cutting off the end: restore the file from a backup, or go back to an older base"
        );
        return Ok(false);
    };
    let bytes = report.files.last().map_or(0, |file| file.bytes);
    let lost = bytes.saturating_sub(cut_at);
    if !arguments.fix {
        println!(
            "--fix would cut the file off at byte {cut_at}: {} of {} bytes would be lost",
            text::count(lost),
            text::count(bytes)
        );
        return Ok(false);
    }
    if !arguments.yes
        && !agreed(&format!("cut {} of {} bytes off? [y/N] ", text::count(lost), text::count(bytes)))?
    {
        println!("nothing was changed");
        return Ok(false);
    }
    put_right(&folder, flaw)
}

fn put_right(folder: &Folder, flaw: &Flaw) -> Result<bool, Failed> {
    fix(folder, flaw).map_err(|error| format!("{}: {error}", flaw.path.display()))?;
    let left = check(folder).map_err(|error| error.to_string())?.flaw;
    match &left {
        None => println!("cut off; the log is whole"),
        Some(flaw) => println!("cut off; {}: at byte {}: {}", flaw.path.display(), flaw.at, flaw.why),
    }
    Ok(left.is_none())
}

fn show(report: &Report) {
    for file in &report.files {
        let mut parts = vec![format!("{} bytes", text::count(file.bytes))];
        if file.keys > 0 {
            parts.push(format!("{} keys", text::count(file.keys)));
        }
        parts.push(format!("{} commands", text::count(file.commands)));
        if let Some(offset) = file.offset {
            parts.push(format!("to offset {offset}"));
        }
        println!("{}: {}", file.path.display(), parts.join(", "));
    }
}

fn agreed(question: &str) -> Result<bool, String> {
    print!("{question}");
    let asked = std::io::stdout().flush().and_then(|()| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = asked.map_err(|error| error.to_string())?;
    Ok(["y", "yes"].iter().any(|yes| line.trim().eq_ignore_ascii_case(yes)))
}
