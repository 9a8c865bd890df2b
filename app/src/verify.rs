//! `polder verify`: walks everything in a segment and says whether it is whole. Servers may go on working meanwhile.
use std::process::ExitCode;

use polder_engine::{Memory, Options};

use crate::text::{self, Failed};

/// Damage was found.
const DAMAGED: u8 = 1;

/// Walks everything in a segment: reachability, counts, leaks, sizes, order.
///
/// The exit status is 0 when the memory is whole, 1 when damage was found, and 2 when it could not be looked at.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`.
    name: String,
    #[command(flatten)]
    whose: text::Whose,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let options = Options {
        segment: arguments.name.clone(),
        create: false,
        owner: arguments.whose.owner,
        ..Options::default()
    };
    let report = match Memory::verify(&options).map_err(|fault| Failed::unknown(&fault)) {
        Ok(report) => report,
        Err(failed) => return failed.tell(),
    };
    if arguments.json {
        println!("{}", report.json());
    } else {
        println!("{report}");
    }
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) }
}
