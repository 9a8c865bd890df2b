//! `polder cli` at a terminal: what a person sees and what keys do. `script` (util-linux) makes the terminal.
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use polder_testkit::process::Server;

use crate::segment::Scratch;

/// How long a reply may take; far more than any takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Types `keys` one after the other, each once the screen shows its text. Returns all that the
/// screen showed.
fn session(segment: &Scratch, history: &str, keys: &[(&str, &str)]) -> String {
    session_with(&format!("--segment {}", segment.name()), history, keys)
}

/// As [`session`], with these flags.
fn session_with(flags: &str, history: &str, keys: &[(&str, &str)]) -> String {
    let line = format!("{} cli {flags}", env!("CARGO_BIN_EXE_polder"));
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("POLDER_HISTFILE", history)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is part of every Debian");
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (send, receive) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count) = output.read(&mut chunk) {
            if count == 0 || send.send(chunk[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    let (mut screen, mut seen) = (Vec::new(), 0);
    for (awaited, typed) in keys {
        let start = Instant::now();
        loop {
            let shown = plain(&screen);
            if let Some(at) = shown[seen..].find(awaited) {
                seen += at + awaited.len();
                break;
            }
            assert!(start.elapsed() < PATIENCE, "waited for {awaited:?}, the screen shows {shown:?}");
            screen.extend(receive.recv_timeout(Duration::from_millis(50)).unwrap_or_default());
        }
        if typed.starts_with('\x03') {
            // The line before it is taken by then, and the terminal is no longer in the hands of the line editor.
            std::thread::sleep(Duration::from_millis(300));
        }
        input.write_all(typed.as_bytes()).unwrap();
    }
    child.wait().unwrap();
    reader.join().unwrap();
    screen.extend(receive.try_iter().flatten());
    plain(&screen)
}

/// The text without the terminal's control sequences.
fn plain(screen: &[u8]) -> String {
    let text = String::from_utf8_lossy(screen).into_owned();
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("\x1b[") {
        out += before;
        let end = after.find(|letter: char| letter.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    out + rest
}

#[test]
fn the_prompt_tells_transaction_and_database() {
    let segment = Scratch::new("prompt");
    let name = segment.name();
    let (first, open, third) = (format!("{name}> "), format!("{name}(TX)> "), format!("{name}[3]> "));
    let keys = [
        (first.as_str(), "set k v\r"),
        ("OK", ""),
        (&first, "multi\r"),
        (&open, "get k\r"),
        ("QUEUED", ""),
        (&open, "exec\r"),
        ("1) \"v\"", ""),
        (&first, "select 3\r"),
        (&third, "get k\r"),
        ("(nil)", ""),
        (&third, "quit\r"),
    ];
    session(&segment, "", &keys);
}

#[test]
fn tab_completes_and_hints_show_the_grammar() {
    let segment = Scratch::new("assist");
    let first = format!("{}> ", segment.name());
    let keys = [
        (first.as_str(), "append k"),
        ("append k", ""),
        (" value", "\x15"),
        (&first, "getra\t"),
        ("getrange ", "\x15"),
        (&first, "help strlen\r"),
        ("summary:", ""),
        (&first, "\x04"),
    ];
    session(&segment, "", &keys);
}

#[test]
fn the_history_outlives_the_session_without_secrets() {
    let segment = Scratch::new("history");
    let folder = std::env::temp_dir().join(format!("polder-history-{}", std::process::id()));
    let first = format!("{}> ", segment.name());
    let path = folder.to_str().unwrap();
    session(
        &segment,
        path,
        &[(&first, "set kept 1\r"), ("OK", ""), (&first, "auth hidden\r"), ("ERR", ""), (&first, "quit\r")],
    );
    // The key for "up" brings back the last line that was kept: quit, and before it the SET.
    session(
        &segment,
        path,
        &[(&first, "\x1b[A\x1b[A\r"), ("set kept 1", ""), ("OK", ""), (&first, "quit\r")],
    );
    let kept = std::fs::read_to_string(&folder).unwrap();
    std::fs::remove_file(&folder).unwrap();
    assert!(kept.contains("set kept 1") && !kept.contains("hidden"), "{kept}");
}

#[test]
fn control_c_ends_the_wait_for_a_reply_and_not_the_prompt() {
    let segment = Scratch::new("interrupt");
    let size = ["--segment-size", "64mb", "--busy-reply-threshold", "100"];
    let server = Server::start_polder(Path::new(env!("CARGO_BIN_EXE_polder")), segment.name(), &size)
        .expect("a server");
    let prompt = format!("{}> ", server.address());
    let flags = format!("-p {}", server.port());
    let keys = [
        (prompt.as_str(), "blpop nothing 0\r"),
        ("blpop nothing 0\r", "\x03"),
        ("Interrupted", ""),
        (&prompt, "eval \"while true do end\" 0\r"),
        ("do end", "\x03"),
        ("Interrupted", ""),
        (&prompt, "script kill\r"),
        ("OK", ""),
        (&prompt, "subscribe news\r"),
        ("subscribe", "\x03"),
        (&prompt, "ping\r"),
        ("PONG", ""),
        (&prompt, "quit\r"),
    ];
    session_with(&flags, "", &keys);
}
