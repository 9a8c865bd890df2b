//! The sub-protocol `term` of a WebSocket: whole lines of a program, or the keys of a terminal as they are typed.
//!
//! ```text
//!   keys -> read -> Own(KEYS) -> own: the editor echoes, and finishes a line -> `call`
//!           read -> the words of `call`, Own(PROMPT) -> the reply, and the next prompt
//! ```
//!
//! A connection begins with whole lines ([`Messages`]). The first message that can only be a key makes it a terminal: one
//! character, or a control. A page is greeted with a prompt, which asks the terminal for its width, so that the reply of a
//! terminal is such a message, too.
//!
//! Invariants:
//! - **TS1** A key is taken by the editor when its frame is executed, which is once. What `read` keeps of it is written again
//!   when a connection that was parked reads its input again (P1).
//! - **TS2** A line is a call until it has replied or [`PROMPT`] behind it is executed. So a call that has met a lock is run
//!   again, and one that has waited for a key is not.
use polder_admin::assist::{self, Typed};
use polder_base::words::{quote, split};
use polder_base::{Protocol as RespVersion, Reply};
use polder_engine::Memory;
use polder_hub::Delivery;
use polder_runtime::lookup::{find_original, groups};
use polder_runtime::{Host, Progress, Session, acl, pubsub};
use polder_wire::Output;
use polder_wire::resp::{Replies, Value, text};
use polder_wire::terminal::{CLEAR_ROW, COLUMNS, Editor, Event, append_lines};
use polder_wire::web_socket::END;

use super::form::Form;
use super::messages::{Messages, QUOTES, REPORT, Style, is_key, of_words};
use crate::batch::{Batch, Left, Odd};

/// The notes of frames of a terminal: keys, the prompt behind a reply, and a line; [`REPORT`] may be added to the last.
const KEYS: u32 = 2;
const PROMPT: u32 = 4;
const LINE: u32 = 8;

/// Bytes of keys that are taken at a time.
const KEYS_BYTES_MAX: usize = 16 << 10;
/// Keys that Tab lists at most, the SCANs that it makes for them, and the COUNT of each.
const TAB_KEYS_MAX: usize = 100;
const TAB_SCANS_MAX: usize = 40;
const TAB_COUNT: &[u8] = b"500";

/// Words that the terminal itself understands, beside the commands.
const OWN_WORDS: [&str; 3] = ["clear", "exit", "help"];

const REPLY: &str =
    "ERR CLIENT REPLY means nothing here: a terminal waits for each reply; use the sub-protocol resp for it";

/// The kind of input that a WebSocket announces when it opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// Whole lines, always.
    Lines,
    /// Whole lines until the first key. A page is greeted.
    Undecided { greets: bool },
    /// Keys of a terminal with as many columns.
    Keys { columns: usize },
}

/// Lines or keys on one connection.
pub struct Terminal {
    lines: Messages,
    input: Input,
    screen: Option<Box<Screen>>,
}

/// The state of a terminal.
#[derive(Default)]
struct Screen {
    editor: Editor,
    /// The keys of the frame that is executed next (TS1).
    keys: Vec<u8>,
    call: Option<Call>,
}

/// A line on its way (TS2).
struct Call {
    /// Its words, or why it has none.
    words: Result<Vec<Vec<u8>>, &'static str>,
    note: u32,
    has_replied: bool,
}

impl Terminal {
    pub fn new(input: Input) -> Terminal {
        Terminal { lines: Messages::new(Style::Term), input, screen: None }
    }

    /// Begins with a prompt, if the input says so.
    pub fn greet(&mut self, session: &Session, output: &mut Output) {
        let columns = match self.input {
            Input::Keys { columns } => columns,
            Input::Undecided { greets: true } => COLUMNS,
            Input::Lines | Input::Undecided { greets: false } => return,
        };
        let mut screen = Box::<Screen>::default();
        screen.editor.set_columns(columns);
        let mut out = format!(
            "Polder {}. Tab completes, \"help\" tells more, Ctrl-D closes.\r\n",
            env!("CARGO_PKG_VERSION")
        )
        .into_bytes();
        screen.editor.prompt(&prompt(session), &mut out);
        say(output, &out);
        self.screen = Some(screen);
    }

    fn has_keys(&self) -> bool {
        matches!(self.input, Input::Keys { .. })
    }

    /// Like [`Protocol::read`](super::Protocol::read).
    pub fn read<'b>(
        &mut self,
        session: &Session,
        input: &'b [u8],
        at: &mut usize,
        place: u32,
        batch: &mut Batch<'b>,
    ) -> Left {
        if matches!(self.input, Input::Undecided { .. }) && is_key(&input[*at..]) {
            self.input = Input::Keys { columns: COLUMNS };
        }
        if !self.has_keys() {
            let stops_at_keys = self.input != Input::Lines;
            return self.lines.read(session, input, (at, place), batch, stops_at_keys);
        }
        let screen = self.screen.get_or_insert_default();
        if let Some(call) = &screen.call {
            if !call.has_replied {
                let odd = match &call.words {
                    Ok(words) => of_words(words.clone()),
                    Err(why) => Odd::Wrong((*why).into()),
                };
                batch.push_noted(place, call.note, odd, *at);
            }
            batch.push_noted(place, PROMPT, Odd::Own, *at);
            return Left::Perhaps;
        }
        let rest = &input[*at..];
        if rest.is_empty() {
            return Left::Nothing;
        }
        // A line is executed before the keys behind it are looked at.
        let rest = &rest[..rest.len().min(KEYS_BYTES_MAX)];
        let length = memchr::memchr3(b'\r', b'\n', END, rest).map_or(rest.len(), |end| end + 1);
        screen.keys.clear();
        screen.keys.extend_from_slice(&rest[..length]);
        *at += length;
        batch.push_noted(place, KEYS, Odd::Own, *at);
        Left::Perhaps
    }

    /// Like [`Protocol::reply`](super::Protocol::reply).
    pub fn reply<R>(&mut self, output: &mut Output, note: u32, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        if note & LINE == 0 {
            return self.lines.reply(output, note, run);
        }
        let mut said = Output::new(RespVersion::Resp2);
        let result = run(&mut said);
        if !said.is_empty() {
            if let Some(call) = self.screen.as_mut().and_then(|screen| screen.call.as_mut()) {
                call.has_replied = true;
            }
            say(output, &shown(&said.bytes(), note & REPORT != 0));
        }
        result
    }

    /// Like [`Protocol::own`](super::Protocol::own): keys, or the prompt behind a reply.
    pub fn own(
        &mut self,
        note: u32,
        session: &mut Session,
        place: (&dyn Host, &Memory),
        output: &mut Output,
    ) -> Progress {
        if let Some(screen) = &mut self.screen {
            let mut out = Vec::new();
            match note {
                KEYS => screen.take_keys(session, place, &mut out),
                _ => {
                    screen.call = None;
                    screen.editor.prompt(&prompt(session), &mut out);
                }
            }
            say(output, &out);
        }
        Progress::Answered
    }

    pub fn form(&self) -> Form {
        if self.has_keys() { Form::Screen } else { Form::Term }
    }

    /// Draws the line that is being typed below a message.
    pub fn redraw(&mut self, output: &mut Output) {
        let is_screen = self.has_keys();
        if let Some(screen) = self.screen.as_mut().filter(|screen| is_screen && screen.editor.is_shown()) {
            let mut out = Vec::new();
            screen.editor.redraw(&mut out);
            say(output, &out);
        }
    }

    #[inline]
    pub fn forget_progress(&mut self) {
        self.lines.forget_progress();
    }
}

impl Screen {
    /// Gives the editor its keys, up to the end of a line.
    fn take_keys(&mut self, session: &mut Session, place: (&dyn Host, &Memory), out: &mut Vec<u8>) {
        if !self.editor.is_shown() {
            self.editor.prompt(&prompt(session), out);
        }
        let keys = std::mem::take(&mut self.keys);
        let (mut rest, ends_message) = match keys.split_last() {
            Some((&END, keys)) => (keys, true),
            _ => (&keys[..], false),
        };
        while let Some(event) = self.editor.feed(&mut rest, out) {
            match event {
                Event::Line(line) => self.enter(&line, session, out),
                Event::Complete => self.complete(session, place, out),
                Event::End => {
                    session.closing = true;
                    break;
                }
            }
        }
        if ends_message {
            self.editor.end_message();
        }
        self.keys = keys;
    }

    /// Does what a line says, if that is no command.
    fn enter(&mut self, line: &str, session: &mut Session, out: &mut Vec<u8>) {
        let call = match split(line.as_bytes()) {
            None => Err(QUOTES),
            Some(words) => {
                let texts: Vec<String> =
                    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                if !texts.is_empty() && !assist::is_secret(&texts) {
                    self.editor.remember(line.trim());
                }
                if own_word(&texts, session, out) {
                    if !session.closing {
                        self.editor.prompt(&prompt(session), out);
                    }
                    return;
                }
                if is_reply_switch(&texts) { Err(REPLY) } else { Ok(words) }
            }
        };
        let is_report = call.as_ref().is_ok_and(|words| text::is_report(words));
        let note = LINE | if is_report { REPORT } else { 0 };
        self.call = Some(Call { words: call, note, has_replied: false });
    }

    /// Completes the last word: to a command, a subcommand, an option, or a key that the user may read.
    fn complete(&mut self, session: &mut Session, place: (&dyn Host, &Memory), out: &mut Vec<u8>) {
        let typed = Typed::of(self.editor.text());
        let mut candidates = typed.candidates(&OWN_WORDS);
        if typed.is_key() {
            candidates = keys(&typed.plain(), session, place).iter().map(|key| quote(key)).collect();
        }
        candidates.sort();
        candidates.dedup();
        let start = typed.start;
        self.editor.complete(start, &candidates, out);
    }
}

/// Returns true if a call would keep replies from coming, so that no prompt followed.
fn is_reply_switch(words: &[String]) -> bool {
    matches!(words, [name, second, ..] if name.eq_ignore_ascii_case("client") && second.eq_ignore_ascii_case("reply"))
}

/// Does what a line without a command says; returns whether it is one.
fn own_word(words: &[String], session: &mut Session, out: &mut Vec<u8>) -> bool {
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    match lower.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {}
        ["clear"] => out.extend_from_slice(b"\x1b[H\x1b[2J"),
        ["exit"] => session.closing = true,
        ["help" | "?", ..] => append_lines(assist::help(&words[1..], general).as_bytes(), out),
        _ => return false,
    }
    true
}

fn general() -> String {
    let groups: Vec<String> = groups().into_iter().map(|group| format!("@{group}")).collect();
    format!(
        "\"help <command>\" tells about a command, \"help @<group>\" about those of a group:\n  {}\n\
         Tab completes commands, options and keys. Up and Down go through the lines of this connection; secrets are not kept.\n\
         Ctrl-A E: to the beginning, the end. Ctrl-U K W: removes the beginning, the end, a word. Ctrl-L: clears the screen.\n\
         Ctrl-C: drops the line. Ctrl-D on an empty line, \"exit\" or \"quit\": closes the connection.\n",
        groups.join(" ")
    )
}

/// `polder[2](TX)> `
fn prompt(session: &Session) -> String {
    let db = if session.caller.db == 0 { String::new() } else { format!("[{}]", session.caller.db) };
    format!("polder{db}{}> ", if session.multi.is_some() { "(TX)" } else { "" })
}

/// Keys that begin with `start` and that the user may read. The work is bounded, so that some may be missing.
fn keys(start: &[u8], session: &mut Session, (host, memory): (&dyn Host, &Memory)) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let may_scan =
        find_original(b"SCAN").is_some_and(|command| acl::check(session, command, &[b"SCAN", b"0"]).is_ok());
    // A transaction would queue the SCAN.
    if !may_scan || !session.identity.authenticated || session.multi.is_some() {
        return found;
    }
    let mut pattern = Vec::new();
    for byte in start {
        if b"*?[]\\".contains(byte) {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    let mut cursor = b"0".to_vec();
    for _ in 0..TAB_SCANS_MAX {
        let mut said = Output::new(RespVersion::Resp2);
        let words: &[&[u8]] = &[b"SCAN", &cursor, b"MATCH", &pattern, b"COUNT", TAB_COUNT];
        memory.execute(session, host, words, &mut said);
        let Ok(Some(Value::Array(page))) = Replies::default().read(&mut &said.bytes()[..]) else { break };
        let [Value::Bulk(next), Value::Array(page)] = &page[..] else { break };
        let names = page.iter().filter_map(|key| if let Value::Bulk(key) = key { Some(key) } else { None });
        found.extend(names.filter(|key| acl::may_read_key(session, key)).cloned());
        if next == b"0" || found.len() >= TAB_KEYS_MAX {
            break;
        }
        cursor.clone_from(next);
    }
    found.truncate(TAB_KEYS_MAX);
    found
}

/// Replies in RESP as they stand on a screen.
fn shown(mut replies: &[u8], is_report: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reader = Replies::default();
    while let Ok(Some(value)) = reader.read(&mut replies) {
        let mut lines = text::coloured(&value, is_report);
        if !lines.ends_with(b"\n") {
            lines.push(b'\n');
        }
        append_lines(&lines, &mut out);
    }
    out
}

/// Appends a message for the screen.
fn say(output: &mut Output, bytes: &[u8]) {
    if !bytes.is_empty() {
        output.raw(bytes);
        output.raw(&[END]);
    }
}

/// Appends what comes unasked. The row with the line that is being typed is cleared for it.
pub fn deliver(output: &mut Output, delivery: &Delivery<'_>) {
    let mut said = Output::new(RespVersion::Resp2);
    pubsub::write(&mut said, delivery);
    say(output, &[CLEAR_ROW, &shown(&said.bytes(), false)].concat());
}
