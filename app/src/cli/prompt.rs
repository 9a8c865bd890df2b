//! Commands read one after the other: from a person with line editing, or line by line from another program.
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use polder_admin::assist::is_secret;
use polder_base::words::split;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use super::assist::{Assist, help};
use super::client::{Client, Ran};
use crate::link::Place;
use polder_wire::resp::text::Form;

/// Replies that took longer are followed by their time.
const SLOW: Duration = Duration::from_millis(500);
const HISTORY_LINES_MAX: usize = 10_000;

/// Where lines come from.
enum Source {
    Person(Box<Editor<Assist, FileHistory>>, Option<PathBuf>),
    Program,
}

/// A line, or why there is none.
enum Line {
    Text(Vec<u8>),
    /// Ctrl-C on a line: it is forgotten.
    Dropped,
    End,
}

/// Whether to go on after a line.
#[derive(PartialEq, Eq)]
enum After {
    Next,
    Quit,
}

/// Reads commands until the end.
pub fn run(mut client: Client) -> ExitCode {
    let mut source = match source() {
        Ok(source) => source,
        Err(error) => {
            eprintln!("Cannot read from the terminal: {error}");
            return ExitCode::FAILURE;
        }
    };
    let streaming = guard_interrupts(&mut client);
    if let Err(text) = client.connect() {
        eprintln!("{text}");
    }
    let mut out = io::stdout();
    loop {
        let line = match source.line(&prompt(&client)) {
            Line::Text(line) => line,
            Line::Dropped => continue,
            Line::End => break,
        };
        match obey(&mut client, &mut source, &streaming, &line, &mut out) {
            Ok(After::Next) => {}
            // A reader that went away (`| head`) is no failure of ours.
            Ok(After::Quit) | Err(_) => break,
        }
    }
    if client.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lets Ctrl-C end a stream of messages, or the wait for a reply; at other times it ends the process as usual. Returns the switch between the two.
fn guard_interrupts(client: &mut Client) -> Arc<AtomicBool> {
    let ends_process = Arc::new(AtomicBool::new(true));
    let interrupt = signal_hook::consts::SIGINT;
    let registered = signal_hook::flag::register_conditional_default(interrupt, ends_process.clone())
        .and_then(|_| signal_hook::flag::register(interrupt, client.interrupted.clone()));
    if let Err(error) = registered {
        eprintln!("Ctrl-C will end the process even while a reply is awaited: {error}");
    }
    ends_process
}

fn source() -> rustyline::Result<Source> {
    if !io::stdin().is_terminal() {
        return Ok(Source::Program);
    }
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .max_history_size(HISTORY_LINES_MAX)?
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(Assist { hints: true }));
    let history = history_path();
    if let Some(path) = history.as_ref().filter(|path| path.exists())
        && let Err(error) = editor.load_history(path)
    {
        eprintln!("The history in {} is not readable: {error}", path.display());
    }
    Ok(Source::Person(Box::new(editor), history))
}

/// POLDER_HISTFILE, or `.polder_history` at home; nowhere when the variable is empty.
fn history_path() -> Option<PathBuf> {
    match std::env::var_os("POLDER_HISTFILE") {
        Some(path) => (!path.is_empty()).then(|| path.into()),
        None => std::env::home_dir().map(|home| home.join(".polder_history")),
    }
}

impl Source {
    fn line(&mut self, prompt: &str) -> Line {
        match self {
            Source::Person(editor, _) => match editor.readline(prompt) {
                Ok(line) => Line::Text(line.into_bytes()),
                Err(ReadlineError::Interrupted) => Line::Dropped,
                Err(_) => Line::End,
            },
            Source::Program => {
                let mut line = Vec::new();
                match io::stdin().lock().read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => Line::End,
                    Ok(_) => Line::Text(line),
                }
            }
        }
    }

    /// Keeps a line, at once in the file too: another terminal may want it, and this one may be killed.
    fn remember(&mut self, line: &[u8], words: &[String]) {
        let Source::Person(editor, path) = self else { return };
        if is_secret(words) {
            return;
        }
        let added = editor.add_history_entry(String::from_utf8_lossy(line).trim());
        if let (Ok(true), Some(path)) = (added, path) {
            // Without a writable home there is a history for this session only.
            let _ = editor.append_history(path);
        }
    }

    fn is_person(&self) -> bool {
        matches!(self, Source::Person(..))
    }
}

/// `127.0.0.1:6379[2](TX)> `
fn prompt(client: &Client) -> String {
    if !client.is_connected() {
        return "not connected> ".into();
    }
    let place = match &client.place {
        Place::Unix(path) => format!("redis {path}"),
        place => place.to_string(),
    };
    let db = if client.login.db == 0 { String::new() } else { format!("[{}]", client.login.db) };
    format!("{place}{db}{}> ", if client.multi { "(TX)" } else { "" })
}

/// Does what a line says.
fn obey(
    client: &mut Client,
    source: &mut Source,
    ends_process: &AtomicBool,
    line: &[u8],
    out: &mut dyn Write,
) -> io::Result<After> {
    let Some(mut words) = split(line) else {
        writeln!(out, "Invalid argument(s)")?;
        return Ok(After::Next);
    };
    if words.is_empty() {
        return Ok(After::Next);
    }
    let text: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    source.remember(line, &text);
    if let Some(after) = own_word(client, source, &text, out)? {
        return Ok(after);
    }
    let mut repeat = 1;
    if let (Ok(times), true) = (text[0].parse::<i64>(), words.len() > 1) {
        if times <= 0 {
            writeln!(out, "Invalid repeat count: it is a number from 1 on")?;
            return Ok(After::Next);
        }
        repeat = times;
        words.remove(0);
    }
    let person = source.is_person();
    client.interruptible = person && client.outlives_interrupt(&words);
    ends_process.store(!client.interruptible, Ordering::Relaxed);
    let mut outcome = Ok(());
    for _ in 0..repeat {
        outcome = timed(client, &words, person, out);
        if outcome.is_err() || client.interruptible && client.interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    ends_process.store(true, Ordering::Relaxed);
    outcome.map(|()| After::Next)
}

/// Runs a command, and tells a person how long it took if that was long.
fn timed(client: &mut Client, words: &[Vec<u8>], person: bool, out: &mut dyn Write) -> io::Result<()> {
    let start = Instant::now();
    if let Ran::Lost(text) = client.run(words, out)? {
        eprintln!("{text}");
    }
    if person && start.elapsed() >= SLOW && client.format.form == Form::Standard {
        writeln!(out, "({:.2}s)", start.elapsed().as_secs_f64())?;
    }
    Ok(())
}

/// What the command line itself understands; `None` for a command.
fn own_word(
    client: &mut Client,
    source: &mut Source,
    words: &[String],
    out: &mut dyn Write,
) -> io::Result<Option<After>> {
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    match lower.as_slice() {
        ["quit" | "exit"] => return Ok(Some(After::Quit)),
        ["help" | "?", ..] => out.write_all(help(&words[1..]).as_bytes())?,
        ["clear"] => {
            out.write_all(b"\x1b[H\x1b[2J")?;
            out.flush()?;
        }
        ["connect", host, port] => match port.parse() {
            Ok(port) => {
                let host = host.to_string();
                client.place = match &client.place {
                    Place::Tls { arguments, .. } => Place::Tls { host, port, arguments: arguments.clone() },
                    _ => Place::Tcp { host, port },
                };
                if let Err(text) = client.connect() {
                    eprintln!("{text}");
                }
            }
            Err(_) => writeln!(out, "connect HOST PORT: '{port}' is no port")?,
        },
        [":set", preference @ ("hints" | "nohints")] => {
            if let Source::Person(editor, _) = source {
                editor.set_helper(Some(Assist { hints: *preference == "hints" }));
            }
        }
        [word, ..] if word.starts_with(':') => {
            writeln!(out, "Unknown preference: try :set hints or :set nohints")?
        }
        _ => return Ok(None),
    }
    Ok(Some(After::Next))
}
