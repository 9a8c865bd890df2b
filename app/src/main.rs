//! `polder`: one command for the server and for everything that people do with a memory.
//!
//! Each subcommand is a file of its own; this one only finds it.
#![forbid(unsafe_code)]

mod bench;
mod changes;
mod cli;
mod clone;
#[cfg(test)]
mod documents;
mod export;
mod import;
mod inspect;
mod link;
mod log;
mod manual;
mod peer;
mod segment;
mod serve;
mod storage;
mod text;
mod top;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One memory that many processes share.
#[derive(Parser)]
#[command(name = "polder", version, about, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Arguments),
    Cli(Box<cli::Arguments>),
    Bench(bench::Arguments),
    Segment(segment::Arguments),
    Top(top::Arguments),
    Verify(verify::Arguments),
    Inspect(inspect::Arguments),
    Clone(clone::Arguments),
    Changes(changes::Arguments),
    Import(import::Arguments),
    Export(export::Arguments),
    Log(log::Arguments),
    Storage(storage::Arguments),
    Completions(manual::Completions),
    Man(manual::Man),
}

fn main() -> ExitCode {
    polder_engine::register();
    match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Cli(arguments) => cli::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Segment(arguments) => segment::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Clone(arguments) => clone::run(&arguments),
        Command::Changes(arguments) => changes::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Log(arguments) => log::run(&arguments),
        Command::Storage(arguments) => storage::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, Arguments::command()),
        Command::Man(arguments) => manual::man(&arguments, Arguments::command()),
    }
}
