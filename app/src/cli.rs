//! `polder cli`: commands to the memory by hand and from scripts, as redis-cli does it, with or without a server.
//!
//! ```text
//!   arguments.rs   the command line
//!   ../link.rs     TCP, Unix socket, or the segment itself: RESP in, values out
//!   client.rs      one conversation: connect, run, print
//!   format.rs      a value as text, in five forms
//!   once.rs        one command from the command line, -r -i -x -X
//!   prompt.rs      commands from a terminal (assist.rs: completion, hints, help) or another program
//!   pipe.rs        --pipe        scan.rs  --scan --bigkeys --memkeys --hotkeys        gauge.rs  --latency... --stat
//! ```
mod arguments;
mod assist;
mod client;
mod gauge;
mod once;
mod pipe;
mod prompt;
mod scan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::text::{Failed, reason};

pub use arguments::{Arguments, unquoted};

/// What was asked for, besides commands.
enum Task {
    Pipe,
    Scan,
    Sample(scan::Measure),
    Latency { history: bool },
    Spectrum,
    Intrinsic { seconds: u64 },
    Rdb { file: PathBuf, functions_only: bool },
    Stat,
    Once(Vec<Vec<u8>>),
    Prompt,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let prepared =
        arguments.words().and_then(|words| Ok((task(arguments, words), client::Client::new(arguments)?)));
    let (task, mut client) = match prepared {
        Ok(prepared) => prepared,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.shows_password() && !arguments.no_auth_warning {
        eprintln!(
            "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe."
        );
    }
    // A server may come up later; a segment is there or is not.
    if arguments.segment.is_some()
        && let Err(text) = client.connected()
    {
        eprintln!("{text}");
        return ExitCode::from(Failed::UNATTACHED);
    }
    match task {
        Task::Pipe => pipe::run(client, arguments.pipe_timeout),
        Task::Scan => ended(scan::list(client, arguments)),
        Task::Sample(measure) => ended(scan::sample(client, arguments, measure)),
        Task::Latency { history } => ended(gauge::latency(client, arguments, history)),
        Task::Spectrum => ended(gauge::spectrum(client, arguments)),
        Task::Intrinsic { seconds } => ended(gauge::intrinsic(seconds)),
        Task::Rdb { file, functions_only } => ended(rdb(client, &file, functions_only)),
        Task::Stat => ended(gauge::stat(client, arguments)),
        Task::Once(words) => once::run(client, arguments, words),
        Task::Prompt => prompt::run(client),
    }
}

fn task(arguments: &Arguments, words: Vec<Vec<u8>>) -> Task {
    match arguments {
        Arguments { pipe: true, .. } => Task::Pipe,
        Arguments { scan: true, .. } => Task::Scan,
        Arguments { bigkeys: true, .. } => Task::Sample(scan::Measure::Elements),
        Arguments { memkeys: true, .. } => Task::Sample(scan::Measure::Memory),
        Arguments { hotkeys: true, .. } => Task::Sample(scan::Measure::Use),
        Arguments { rdb: Some(file), .. } => Task::Rdb { file: file.clone(), functions_only: false },
        Arguments { functions_rdb: Some(file), .. } => Task::Rdb { file: file.clone(), functions_only: true },
        Arguments { intrinsic_latency: Some(seconds), .. } => Task::Intrinsic { seconds: *seconds },
        Arguments { latency_dist: true, .. } => Task::Spectrum,
        Arguments { latency_history: true, .. } => Task::Latency { history: true },
        Arguments { latency: true, .. } => Task::Latency { history: false },
        Arguments { stat: true, .. } => Task::Stat,
        _ if words.is_empty() => Task::Prompt,
        _ => Task::Once(words),
    }
}

/// Writes keys and functions, or the functions alone, to an RDB file or to standard output.
fn rdb(mut client: client::Client, file: &Path, functions_only: bool) -> Result<(), String> {
    let is_stream = file == Path::new("-");
    let written = if is_stream {
        std::env::temp_dir().join(format!("polder-{}.rdb", std::process::id()))
    } else {
        file.to_owned()
    };
    let keys = crate::export::from_link(client.connected()?, &written, functions_only)?;
    if is_stream {
        let copied = std::fs::File::open(&written)
            .and_then(|mut from| std::io::copy(&mut from, &mut std::io::stdout()));
        // The copy counts; a file in the folder for such files goes in time.
        let _ = std::fs::remove_file(&written);
        return copied.map(|_| ()).map_err(|error| reason(&error));
    }
    match functions_only {
        true => println!("The functions were written to {}", file.display()),
        false => println!("{keys} keys and the functions were written to {}", file.display()),
    }
    Ok(())
}

/// The exit status of work that ends with a line on standard error when it fails.
fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}
