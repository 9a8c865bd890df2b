//! The C headers: `polder.h` and `polder_client.h` from the sources of capi (by cbindgen), `polder_commands.h` from the command table.
//!
//! A command's function takes the arguments that every call has, with the types that the grammar names; what is optional, repeated or a choice
//! follows as a list of texts. They are `static inline`, so that a program takes what it uses and the library need not know them.
use std::path::{Path, PathBuf};

use polder_calls::command::{CONTAINER, Command};
use polder_calls::grammar::{Argument, arguments};
use polder_engine::FAMILIES;

const ABOUT: &str = "\
/* Polder: a Redis-compatible key-value store in shared memory, in this process. Made by `cargo x docs`; do not edit.
 *
 * Every function returns a polder_status; polder_message() returns the error text, for the calling thread.
 *
 * Threads: any thread may use memories and listeners. A caller belongs to its thread: in another one its functions fail
 * (POLDER_WRONG_THREAD). The thread that got a reply releases it. Closed handles fail (POLDER_CLOSED); handles are
 * numbers, so neither does harm.
 *
 * Arguments must lie where they are said to lie, and must not be changed by other threads during a call. NULL with a
 * length, and impossible sizes, fail (POLDER_MISUSE). Callbacks must return: no longjmp, no C++ exception.
 *
 * fork: a child may continue with memories and callers, which get a seat of their own; a caller that listened or waited
 * stays the parent's (POLDER_FORKED). Replies that the parent had are copied like all of its memory.
 */";

const ABOUT_CLIENT: &str = "\
/* A client of Polder, Redis and Valkey servers: one connection carries the calls of all threads. Made by `cargo x docs`; do
 * not edit. docs/client.md has an introduction.
 *
 *     polder_client client;
 *     polder_text get[] = {polder_string(\"GET\"), polder_string(\"greeting\")};
 *     polder_client_connect(\"redis://127.0.0.1:6379\", &client);
 *     polder_client_submit(client, NULL, 2, get, show, NULL, NULL);
 *     polder_client_wait(client, -1, NULL);               (or process, when the descriptor is readable)
 *
 * Every function returns a polder_status; polder_message() returns the error text, for the calling thread. The text of
 * POLDER_TIMED_OUT says at which stage the call was, with the figures that show why.
 *
 * What to free: a reply that a function gave, with polder_release(), in the thread that got it; never one that a callback is
 * shown. Arguments are copied, so they are the program's at once. A client, with polder_client_close().
 *
 * Threads: any thread may use a client. Callbacks run only inside polder_client_process(), polder_client_wait() and
 * polder_client_close(), in the thread that calls these; they may call any function. They must return: no longjmp, no C++
 * exception.
 *
 * fork: a client is the parent's (POLDER_FORKED); a child connects again.
 */";

/// How arguments are made.
const TEXTS: &str = r#"/* Room for a number as text. */
typedef struct polder_digits {
    char text[40];
} polder_digits;

/* The bytes of a C string. */
static inline polder_text polder_string(const char *string)
{
    polder_text text;
    text.bytes = (const uint8_t *)string;
    text.length = string ? strlen(string) : 0;
    return text;
}

/* Some bytes. */
static inline polder_text polder_bytes(const void *bytes, size_t length)
{
    polder_text text;
    text.bytes = (const uint8_t *)bytes;
    text.length = length;
    return text;
}

/* An integer as text, which lies in `digits`. */
static inline polder_text polder_integer(polder_digits *digits, int64_t value)
{
    snprintf(digits->text, sizeof digits->text, "%" PRId64, value);
    return polder_string(digits->text);
}

/* A double as text that reads back the same, which lies in `digits`. */
static inline polder_text polder_double(polder_digits *digits, double value)
{
    snprintf(digits->text, sizeof digits->text, "%.17g", value);
    return polder_string(digits->text);
}
"#;

/// `polder.h`.
///
/// # Errors
/// When the sources cannot be read.
pub fn functions(root: &Path) -> Result<String, String> {
    let system = ["inttypes.h", "stddef.h", "stdint.h", "stdio.h", "string.h"];
    let text = generated(&sources(&root.join("capi/src"))?, ABOUT, "POLDER_H", &system, &[])?;
    // cbindgen's own trailer would lie behind the guard.
    let (functions, guard) =
        text.split_once("#endif  /* POLDER_H */").ok_or("polder.h: the include guard has no end")?;
    Ok(format!("{functions}{TEXTS}\n#endif  /* POLDER_H */{guard}"))
}

/// `polder_client.h`.
///
/// # Errors
/// When the source cannot be read.
pub fn client(root: &Path) -> Result<String, String> {
    let folder = root.join("capi/src");
    let mut sources = sources(&folder.join("client"))?;
    sources.push(folder.join(CLIENT));
    generated(&sources, ABOUT_CLIENT, "POLDER_CLIENT_H", &["stddef.h", "stdint.h"], &["polder.h"])
}

/// A header of what some sources export.
fn generated(
    sources: &[PathBuf],
    about: &str,
    guard: &str,
    system: &[&str],
    own: &[&str],
) -> Result<String, String> {
    let names = |names: &[&str]| names.iter().map(|name| String::from(*name)).collect();
    let config = cbindgen::Config {
        language: cbindgen::Language::C,
        header: Some(about.into()),
        include_guard: Some(guard.into()),
        cpp_compat: true,
        usize_is_size_t: true,
        documentation_style: cbindgen::DocumentationStyle::Doxy,
        line_length: 140,
        no_includes: true,
        sys_includes: names(system),
        includes: names(own),
        ..cbindgen::Config::default()
    };
    let builder =
        sources.iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut text = Vec::new();
    builder.generate().map_err(|error| format!("{guard}: {error}"))?.write(&mut text);
    String::from_utf8(text).map_err(|error| format!("{guard}: {error}"))
}

/// The source of `polder_client.h`, beside those in the folder of the same name.
const CLIENT: &str = "client.rs";

/// The files of a folder that say what is in a header; the crate's own would lead to all of them a second time.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let files = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let is_source = |path: &PathBuf| path.is_file() && !path.ends_with("lib.rs") && !path.ends_with(CLIENT);
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).filter(is_source).collect();
    paths.sort();
    Ok(paths)
}

/// `polder_commands.h`.
pub fn commands() -> String {
    let mut text = String::from(PREFACE);
    for family in FAMILIES {
        text += &format!("\n/* ---- {} ---- */\n", family.name.group);
        for command in family.commands().filter(|command| !command.has(CONTAINER)) {
            text += &function(command);
        }
    }
    text + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif /* POLDER_COMMANDS_H */\n"
}

const PREFACE: &str = r#"/* A function for each command of Polder. Made from the command table by `cargo x docs`; do not edit.
 *
 * Arguments that every call has come first; what is optional, repeated or a choice follows as `more`, in the order in
 * which the command wants it. `reply` may be NULL; otherwise it gets the reply, to be released (polder_release).
 */
#ifndef POLDER_COMMANDS_H
#define POLDER_COMMANDS_H

#include "polder.h"

#ifdef __cplusplus
extern "C" {
#endif
"#;

/// What a parameter is, by the argument that it stands for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Text,
    Integer,
    Double,
}

/// The grammar says "integer" of some words that are texts to some commands (`ZRANGE key (1 +inf BYSCORE`) or have fractions: the widest holds.
pub(crate) fn kind(command: &Command, argument: &Argument) -> Kind {
    const BY_INDEX: [&str; 6] = ["LRANGE", "LTRIM", "GETRANGE", "SUBSTR", "ZREMRANGEBYRANK", "SETRANGE"];
    match (argument.kind, argument.name.as_str()) {
        (_, "timeout") | ("double", _) => Kind::Double,
        ("integer", "increment") if command.name == "ZINCRBY" => Kind::Double,
        ("integer", "start" | "stop" | "end" | "limit" | "rank") if !BY_INDEX.contains(&command.name) => {
            Kind::Text
        }
        ("integer", "cursor") => Kind::Text,
        ("integer" | "unix-time", _) => Kind::Integer,
        _ => Kind::Text,
    }
}

fn function(command: &Command) -> String {
    let all = arguments(command.grammar);
    let plain = |argument: &&Argument| {
        let single =
            matches!(argument.kind, "key" | "string" | "pattern" | "integer" | "double" | "unix-time");
        single && !argument.optional && !argument.multiple && argument.token.is_none()
    };
    let named: Vec<&Argument> = all.iter().take_while(plain).collect();
    let open = named.len() < all.len();
    let names = distinct(&named, &TAKEN);
    let (mut parameters, mut room, mut words) = (String::new(), String::new(), Vec::new());
    for word in command.name.split('|') {
        words.push(format!("polder_string(\"{word}\")"));
    }
    for (argument, name) in named.iter().zip(&names) {
        let (c_type, conversion) = match kind(command, argument) {
            Kind::Text => ("polder_text", None),
            Kind::Integer => ("int64_t", Some("polder_integer")),
            Kind::Double => ("double", Some("polder_double")),
        };
        parameters += &format!(", {c_type} {name}");
        words.push(match conversion {
            None => name.clone(),
            Some(conversion) => {
                room += &format!("    polder_digits {name}_digits;\n");
                format!("{conversion}(&{name}_digits, {name})")
            }
        });
    }
    if open {
        parameters += ", size_t more_count, const polder_text *more";
    }
    let assign: String =
        words.iter().enumerate().map(|(at, word)| format!("    args[{at}] = {word};\n")).collect();
    let count = words.len();
    let run = match open {
        true => format!("polder_run_more(caller, {count}, args, more_count, more, reply)"),
        false => format!("polder_run(caller, {count}, args, reply)"),
    };
    let name = command.name.to_ascii_lowercase().replace(['|', '-', '.'], "_");
    format!(
        "\n/* {} {}\n * {} */\nstatic inline polder_status polder_{}(polder_caller caller{parameters}, const polder_reply **reply)\n{{\n    polder_text args[{count}];\n{room}{assign}    return {run};\n}}\n",
        command.name.replace('|', " "),
        command.grammar,
        command.about,
        renamed(&name),
    )
}

/// Names that the library itself or C has already.
fn renamed(name: &str) -> String {
    match name {
        "type" => "type_of".into(),
        name => name.into(),
    }
}

/// What C, and the functions, call something else.
const TAKEN: [&str; 7] = ["double", "default", "register", "caller", "reply", "args", "more"];

/// The arguments' names as a language takes them that has some names `taken`, each once.
pub(crate) fn distinct(named: &[&Argument], taken: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for argument in named {
        let mut name: String =
            argument.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        if taken.contains(&name.as_str()) {
            name.push('_');
        }
        while names.contains(&name) {
            name.push('2');
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_what_every_call_has_and_the_rest_as_a_list() {
        let shown = |name: &str| function(polder_engine::COMMANDS.find(name.as_bytes()).expect("a command"));
        assert!(shown("HINCRBY").contains(
            "polder_hincrby(polder_caller caller, polder_text key, polder_text field, int64_t increment, const polder_reply **reply)"
        ));
        assert!(shown("SET").contains(
            "polder_set(polder_caller caller, polder_text key, polder_text value, size_t more_count, const polder_text *more, const"
        ));
        assert!(shown("PING").contains("polder_ping(polder_caller caller, size_t more_count"));
        assert!(shown("DBSIZE").contains("polder_dbsize(polder_caller caller, const polder_reply **reply)"));
    }
}
