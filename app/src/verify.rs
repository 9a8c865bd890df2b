//! `polder verify`: walks everything in a segment and says whether it is whole. Servers may go on working meanwhile.
use std::process::ExitCode;

use crate::text;

/// Damage was found.
const DAMAGED: u8 = 1;
/// Nothing is known: the segment could not be attached or walked.
const UNKNOWN: u8 = 2;

/// Walks everything in a segment: reachability, counts, leaks, sizes, order.
///
/// The exit status is 0 when the memory is whole, 1 when damage was found, and 2 when it could not be looked at.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`.
    name: String,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let report = match text::attach(&arguments.name).and_then(|memory| memory.table().verify().map_err(|fault| text::plain(&fault))) {
        Ok(report) => report,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(UNKNOWN);
        }
    };
    if arguments.json {
        println!("{}", report.json());
    } else {
        println!("{report}");
    }
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) }
}
