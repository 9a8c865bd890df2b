//! `polder inspect`: everything about one key, from its hash to its nodes, with the time of each step.
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use crate::cli::unquoted;
use crate::text::{self, Failed};

/// There is no such key.
const ABSENT: u8 = 1;

/// Shows everything about one key: hash, bucket, displacement, version, layout, nodes, sizes, time of each step.
///
/// The exit status is 0 when the key is there, 1 when it is not, and 2 when the segment could not be looked at.
#[derive(clap::Args)]
pub struct Arguments {
    /// `shm:NAME`, `sysv:NAME` or `file:PATH`.
    name: String,
    #[command(flatten)]
    whose: text::Whose,
    /// Key as it is, or with --quoted as a quoted string.
    key: OsString,
    /// Database number.
    #[arg(short = 'n', long, value_name = "DB", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..256))]
    db: u16,
    /// The key is a quoted string such as `"\x00\n"`.
    #[arg(long)]
    quoted: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let key = arguments.key().map_err(Failed::unattached);
    let found = key.and_then(|key| {
        let memory = text::attach(&arguments.name, &arguments.whose)?;
        memory.table().inspect(arguments.db, &key).map_err(|stop| Failed::unknown(&stop))
    });
    match found {
        Ok(Some(inspection)) if arguments.json => println!("{}", inspection.json()),
        Ok(Some(inspection)) => println!("{inspection}"),
        Ok(None) => {
            eprintln!("there is no such key in database {} of {}", arguments.db, arguments.name);
            return ExitCode::from(ABSENT);
        }
        Err(failed) => return failed.tell(),
    }
    ExitCode::SUCCESS
}

impl Arguments {
    /// The key's bytes.
    fn key(&self) -> Result<Vec<u8>, String> {
        let bytes = self.key.as_bytes();
        if self.quoted { unquoted(bytes) } else { Ok(bytes.to_vec()) }
    }
}
