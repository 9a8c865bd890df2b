//! `polder`: one binary for the server and every tool.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// One memory that many processes share.
#[derive(Parser)]
#[command(name = "polder", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Cli(cli::Arguments),
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Cli(arguments) => cli::run(&arguments),
    }
}
