//! `polder completions` and `polder man`: what the shell and `man` know of this program, made from the same definitions as
//! `--help`.
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::Shell;
use polder_calls::settings::{self, Scope, Shape};

/// Prints a completion script: `polder completions bash > /etc/bash_completion.d/polder`.
#[derive(clap::Args)]
pub struct Completions {
    shell: Shell,
}

/// Prints the manual page, or writes the pages of all subcommands into a folder.
#[derive(clap::Args)]
pub struct Man {
    /// Folder for `polder.1`, `polder-cli.1`, ...
    folder: Option<PathBuf>,
}

/// Runs `polder completions`.
pub fn completions(arguments: &Completions, command: Command) -> ExitCode {
    let mut command = command.mut_subcommand("serve", |serve| serve.args(settings()));
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "polder", &mut script);
    ended(io::stdout().write_all(&script))
}

/// Runs `polder man`.
pub fn man(arguments: &Man, command: Command) -> ExitCode {
    ended(match &arguments.folder {
        Some(folder) => clap_mangen::generate_to(command, folder),
        None => clap_mangen::Man::new(command).render(&mut io::stdout()),
    })
}

/// Every setting as a flag of `serve`: the program itself reads them as words, since a flag may have several values.
fn settings() -> impl Iterator<Item = Arg> {
    let rows = settings::TABLE
        .iter()
        .filter(|row| !row.hidden && row.scope != Scope::Inert && row.refusal.is_empty());
    rows.map(|row| {
        let flag = Arg::new(row.name).long(row.name).value_name("VALUE").help(row.about.replace('`', ""));
        match row.shape {
            Shape::Switch => flag.value_parser(["yes", "no"]),
            Shape::Choice(words) => flag.value_parser(words.to_vec()),
            _ => flag,
        }
    })
}

fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", crate::text::reason(&error));
            ExitCode::FAILURE
        }
    }
}
