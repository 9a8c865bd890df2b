//! `polder storage`: writes the append-only log of a memory that servers and attached programs change.
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use polder_calls::settings::id;
use polder_engine::{Memory, Options};
use polder_runtime::storage_process::StorageProcess;
use polder_server::log;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::serve;

/// Writes the changes of a memory to an append-only log, in the files of Redis 7, until it is stopped.
///
/// Settings are those of `polder serve`: a configuration file, and `--segment NAME`, `--dir FOLDER`, `--appenddirname NAME`,
/// `--appendfilename NAME`, `--appendfsync everysec|no`, `--aof-timestamp-enabled yes`, `--auto-aof-rewrite-percentage N`,
/// `--auto-aof-rewrite-min-size BYTES`. The segment must be there. Writers do not wait for the disk: with everysec a power cut takes the
/// changes of two seconds at most. After a reboot, `polder import` reads the log into an empty memory, or a redis-server loads it.
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
    if settings.string(const { id("appendfsync") }) == "always" {
        return Err("--appendfsync always is for servers that hold replies back until the disk has the change, which none does yet: \
                    choose everysec or no"
            .into());
    }
    let stops = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stops.clone()).map_err(|error| format!("cannot wait for signals: {error}"))?;
    }
    log::begin(&settings)?;
    let options = Options { create: false, ..serve::options(&settings)? };
    let memory = Memory::attach(&options).map_err(|fault| fault.to_string())?;
    settings.join(memory.table()).map_err(|stop| format!("the settings of {} cannot be read: {stop}", options.segment))?;
    let mut process = StorageProcess::begin(memory.table(), &settings)?;
    tracing::info!(segment = options.segment, folder = %process.folder().display(), "the log is written");
    if !process.run(&stops) {
        return Err("the log is not whole: see what was told before".into());
    }
    tracing::info!("bye: what was committed is in the log");
    Ok(())
}
