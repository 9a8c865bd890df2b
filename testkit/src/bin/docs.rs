//! Writes what is derived from the tables and sources: `docs` writes docs/commands.md, docs/settings.md, packaging/polder.conf, the C headers
//! and the Python stub; `docs --check` only says which of them are stale.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use polder_calls::command::{Command, Run};
use polder_calls::facts::Tells;
use polder_calls::settings;
use polder_runtime::lookup::{groups, rows_of};
use polder_testkit::{c_header, client_rows, python_stub, versions};

fn main() -> ExitCode {
    polder_engine::register();
    let only_check = std::env::args().any(|word| word == "--check");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let headers = c_header::functions(&root).and_then(|functions| Ok((functions, c_header::client(&root)?)));
    let (header, client_header) = match headers {
        Ok(headers) => headers,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut pages: Vec<(String, String)> = [
        ("docs/commands.md", commands()),
        ("docs/settings.md", settings::document::markdown()),
        ("packaging/polder.conf", settings::document::sample()),
        ("capi/include/polder.h", header),
        ("capi/include/polder_client.h", client_header),
        ("capi/include/polder_commands.h", c_header::commands()),
        ("python/polder/commands.pyi", python_stub::commands()),
        ("client/src/rows/table.rs", client_rows::table()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into();
    pages.extend(client_rows::methods());
    let mut stale = Vec::new();
    for (name, text) in &pages {
        let path: PathBuf = root.join(name);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        match only_check {
            true => stale.push(name.as_str()),
            false => {
                if let Err(error) = std::fs::write(&path, text) {
                    eprintln!("{}: {error}", path.display());
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    if !stale.is_empty() {
        println!("stale: {}; run `cargo x docs`", stale.join(", "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The reference of all commands, group by group.
fn commands() -> String {
    let mut text = String::from(
        "# Commands\n\nMade from the command table by `cargo x docs`; do not edit. Upper-case words are typed as they stand, `[]` is\noptional, `|` separates alternatives, `...` repeats. The versions are those of Redis and Valkey that brought a command, `-` where there is\nnone; here all have been there since 0.1.0, the first version.\n",
    );
    for group in groups() {
        text += &format!("\n## {group}\n\n| command | costs | Redis | Valkey | |\n|---|---|---|---|---|\n");
        for command in rows_of(group).into_iter().filter(|command| !matches!(command.run, Run::Container)) {
            text += &row(command);
        }
    }
    text + &told()
}

/// How each command that writes is told.
fn told() -> String {
    let mut text = String::from(
        "\n## How writes are told\n\nThe change log, which is not built yet, records what a call has changed as commands that lead to the same state anywhere and\nat any later time. Every command that writes says which: `call` is the call itself, `value` is `SET` with the new value where that is\nshort, and else the call.\n\n| command | told as |\n|---|---|\n",
    );
    for command in groups().into_iter().flat_map(rows_of) {
        let how = match command.tells {
            None => continue,
            Some(Tells::Verbatim) => "call",
            Some(Tells::State) => "value",
            Some(Tells::Own(how)) => how,
        };
        text += &format!("| `{}` | {how} |\n", command.name.replace('|', " "));
    }
    text
}

fn row(command: &Command) -> String {
    let typed = format!("{} {}", command.name.replace('|', " "), command.grammar);
    let cell = |text: &str| text.replace('|', "\\|");
    format!(
        "| `{}` | {} | {} | {} | {} |\n",
        cell(typed.trim()),
        cell(command.costs),
        versions::redis(command).unwrap_or("-"),
        versions::valkey(command).unwrap_or("-"),
        cell(command.about)
    )
}
