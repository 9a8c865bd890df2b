//! `polder storage`: writes the append-only log of a memory that servers and attached programs change.
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use polder_engine::{Memory, Options};
use polder_persist::storage_process::{Elected, StorageProcess};
use polder_server::log;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};

use crate::serve;

/// Writes the changes of a memory to an append-only log, in the files of Redis 7, until it is stopped.
///
/// Settings are those of `polder serve`: a configuration file, and `--segment NAME`, `--dir FOLDER`, `--appenddirname NAME`,
/// `--appendfilename NAME`, `--appendfsync everysec|always|no`, `--aof-timestamp-enabled yes`, `--auto-aof-rewrite-percentage N`,
/// `--auto-aof-rewrite-min-size BYTES`. The segment must be there. With everysec a power cut takes the changes of two seconds at most; with always
/// servers hold their replies back until the disk has them. A server with `appendonly yes` does the same work: this is for memories whose
/// servers come and go. After a reboot, `polder import` reads the log into an empty memory, or a redis-server loads it.
///
/// It turns the change log of the memory on. SIGTERM ends it when all that was committed is on the disk.
#[derive(clap::Args)]
pub struct Arguments {
    /// A configuration file and settings.
    #[arg(value_name = "FILE | --SETTING VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Runs until it is stopped. What prevents it is one line on the standard error output.
pub fn run(arguments: &Arguments) -> ExitCode {
    match write(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            eprintln!("polder: {line}");
            ExitCode::FAILURE
        }
    }
}

fn write(arguments: &Arguments) -> Result<(), String> {
    let settings = Arc::new(serve::settings(&arguments.words)?);
    let stops = Arc::new(AtomicBool::new(false));
    // A write beyond the limit of a file's size is to fail, not to end the process.
    signal_hook::flag::register(SIGXFSZ, Arc::default())
        .map_err(|error| format!("cannot ignore SIGXFSZ: {error}"))?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stops.clone())
            .map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    log::begin(&settings)?;
    let options = Options { create: false, ..serve::options(&settings)? };
    let memory = Memory::attach(&options).map_err(|fault| fault.to_string())?;
    settings
        .join(memory.table())
        .map_err(|stop| format!("the settings of {} cannot be read: {stop}", options.segment))?;
    let process = match StorageProcess::elect(memory.table(), &settings, None, true)? {
        Elected::Ours(process) => process,
        Elected::Another(why) => return Err(why),
    };
    tracing::info!(segment = options.segment, folder = %process.folder().display(), "the log is written");
    process.run(&mut || stops.load(Ordering::Relaxed))?;
    tracing::info!("bye: what was committed is in the log");
    Ok(())
}
