//! `polder cli`: commands to the memory by hand and from scripts, as redis-cli does it, with or without a server.
//!
//! ```text
//!   arguments.rs   the command line
//!   link.rs        TCP, Unix socket, or the segment itself: RESP in, values out
//!   client.rs      one conversation: connect, run, print
//!   format.rs      a value as text, in five forms
//!   once.rs        one command from the command line, -r -i -x -X
//!   prompt.rs      commands from a terminal (assist.rs, grammar.rs: completion, hints, help) or another program
//!   pipe.rs        --pipe        scan.rs  --scan --bigkeys --memkeys        gauge.rs  --latency --stat
//! ```
mod arguments;
mod assist;
mod client;
mod format;
mod gauge;
mod grammar;
mod link;
mod once;
mod pipe;
mod prompt;
mod scan;

use std::process::ExitCode;

use crate::text::Failed;

pub use arguments::{Arguments, unquoted};
pub use client::reason;
pub use link::{Link, Login, Place, Socket};

/// What was asked for, besides commands.
enum Task {
    Pipe,
    Scan,
    Sample(scan::Measure),
    Latency { history: bool },
    Stat,
    Once(Vec<Vec<u8>>),
    Prompt,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let prepared = arguments.words().and_then(|words| Ok((task(arguments, words), client::Client::new(arguments)?)));
    let (task, mut client) = match prepared {
        Ok(prepared) => prepared,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.shows_password() && !arguments.no_auth_warning {
        eprintln!("Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.");
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
        Arguments { latency_history: true, .. } => Task::Latency { history: true },
        Arguments { latency: true, .. } => Task::Latency { history: false },
        Arguments { stat: true, .. } => Task::Stat,
        _ if words.is_empty() => Task::Prompt,
        _ => Task::Once(words),
    }
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
