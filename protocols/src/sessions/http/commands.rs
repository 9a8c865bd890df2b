//! Commands by HTTP: which of them may run, their replies, and the response.
use polder_base::{Protocol as RespVersion, Reply};
use polder_calls::command::READONLY;
use polder_runtime::execute;
use polder_wire::Output;
use polder_wire::http::{json, words};
use polder_wire::resp::{Limits, Request, Requests};

use super::answer::{Answer, JSON};
use super::events::Wish;

/// What GET may run beside the commands that only read keys.
const HARMLESS: [&str; 4] = ["PING", "ECHO", "TIME", "INFO"];

/// What changes the connection, which a request does not own.
const OF_CONNECTIONS: [&str; 30] = [
    "SUBJ.SUB",
    "SUBJ.UNSUB",
    "AUTH",
    "HELLO",
    "RESET",
    "QUIT",
    "SELECT",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH",
    "UNWATCH",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "MONITOR",
    "SYNC",
    "PSYNC",
    "REPLCONF",
    "ASKING",
    "READONLY",
    "READWRITE",
    "CLIENT|REPLY",
    "CLIENT|TRACKING",
    "CLIENT|CACHING",
    "CLIENT|NO-EVICT",
    "CLIENT|NO-TOUCH",
];

const TEXT: &str = "text/plain; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const RESP: &str = "application/octet-stream";

/// A body that says what to do.
pub enum Bodies {
    /// One command, or a list of them.
    Json { is_atomic: bool },
    /// Requests of RESP.
    Resp(RespVersion),
    /// The message to this channel.
    Publish(Vec<u8>),
}

/// What the replies become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The JSON of one reply.
    One,
    /// A JSON array of all replies.
    List,
    Resp(RespVersion),
    /// The text that is the reply.
    Text(&'static str),
    /// Nothing but whether it succeeded.
    Ready,
    /// A stream of events.
    Events,
}

/// Calls that are made one after another.
pub struct Commands {
    calls: Vec<Vec<Vec<u8>>>,
    /// They are one transaction.
    is_atomic: bool,
    form: Form,
    /// How many have replied, MULTI and EXEC included.
    done: usize,
    /// The replies so far.
    out: Vec<u8>,
    /// The error of the last reply, if that was one.
    error: Option<String>,
    /// The replies are longer than a response may be: the rest of the calls is not made.
    is_too_long: bool,
    /// What the client wants to hear.
    wish: Wish,
}

/// Whether a command may run by HTTP, and by GET if `reads`.
pub fn check(words: &[Vec<u8>], reads: bool) -> Result<(), Answer> {
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    if args.is_empty() {
        return Err(Answer::error(400, "a command has at least one word"));
    }
    // An unknown command replies with its own error.
    let Ok(command) = execute::resolve(&args) else {
        return Ok(());
    };
    if OF_CONNECTIONS.contains(&command.name) {
        return Err(Answer::error(
            400,
            "this command changes its connection, and each HTTP request is a client of its own; POST /js?atomic runs a transaction",
        ));
    }
    if reads && !command.has(READONLY) && !HARMLESS.contains(&command.name) {
        return Err(
            Answer::error(405, "GET runs commands that only read; use POST").with("Allow: POST, OPTIONS\r\n")
        );
    }
    Ok(())
}

impl Bodies {
    /// The calls that a body asks for.
    pub fn read(&self, body: &[u8]) -> Result<Commands, Answer> {
        let (calls, is_atomic, form) = match self {
            Bodies::Publish(subject) => {
                return Ok(Commands::one(vec![b"PUBLISH".to_vec(), subject.clone(), body.to_vec()]));
            }
            Bodies::Resp(version) => (requests(body)?, false, Form::Resp(*version)),
            Bodies::Json { is_atomic } => match words::read(body).map_err(|why| Answer::error(400, why))? {
                words::Commands::One(command) => (vec![command], *is_atomic, Form::One),
                words::Commands::List(commands) => (commands, *is_atomic, Form::List),
            },
        };
        calls.iter().try_for_each(|words| check(words, false))?;
        Ok(Commands { is_atomic, ..Commands::new(calls, form) })
    }
}

/// Words and calls of a body at most, together: each takes much more memory than its bytes, before the user's rights are checked.
const WORDS_MAX: usize = polder_wire::http::words::WORDS_MAX;

/// The requests of a body in RESP.
fn requests(body: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, Answer> {
    let (mut rest, mut calls, mut requests) = (body, Vec::new(), Requests::default());
    let mut words = 0;
    loop {
        if words > WORDS_MAX {
            return Err(Answer::error(413, "a body may have 1,048,576 words at most: send several"));
        }
        let mut args = Vec::new();
        match requests.read(&mut rest, &Limits::default(), &mut args) {
            Ok(Some(Request::Bulks(_))) => {
                words += args.len() + 1;
                calls.push(args.into_iter().map(<[u8]>::to_vec).collect());
            }
            Ok(Some(Request::Inline(inline))) => {
                words += inline.len() + 1;
                calls.push(inline);
            }
            Ok(None) if rest.is_empty() => return Ok(calls),
            Ok(None) => return Err(Answer::error(400, "the body ends inside a request of RESP")),
            Err(malformed) => return Err(Answer::of_call(&malformed.0)),
        }
    }
}

impl Commands {
    /// Calls whose replies become a response of this form.
    pub fn new(calls: Vec<Vec<Vec<u8>>>, form: Form) -> Commands {
        Commands {
            calls,
            is_atomic: false,
            form,
            done: 0,
            out: Vec::new(),
            error: None,
            is_too_long: false,
            wish: Wish::default(),
        }
    }

    /// One call, whose reply becomes JSON.
    pub fn one(words: Vec<Vec<u8>>) -> Commands {
        Commands::new(vec![words], Form::One)
    }

    /// What /metrics runs.
    pub fn metrics(accept: Option<&[u8]>) -> Commands {
        let is_open = accept
            .is_some_and(|accept| memchr::memmem::find(accept, b"application/openmetrics-text").is_some());
        let mut words = vec![b"METRICS".to_vec()];
        words.extend(is_open.then(|| b"OPENMETRICS".to_vec()));
        Commands::new(vec![words], Form::Text(if is_open { OPENMETRICS } else { PROMETHEUS }))
    }

    /// The call of a monitoring page of nats-server.
    pub fn nats_page(page: &str, options: Vec<Vec<u8>>) -> Commands {
        let words = [b"SUBJ.MONITOR".to_vec(), page.as_bytes().to_vec()];
        Commands::new(vec![words.into_iter().chain(options).collect()], Form::Text(JSON))
    }

    /// What /readyz runs.
    pub fn readiness() -> Commands {
        Commands::new(vec![vec![b"DBSIZE".to_vec()]], Form::Ready)
    }

    /// What /sub runs.
    pub fn subscribe(wish: Wish) -> Commands {
        Commands { wish: wish.clone(), ..Commands::new(wish.calls(), Form::Events) }
    }

    /// What the client hears from now on, once all calls have succeeded.
    pub fn heard(&self) -> Option<&Wish> {
        (self.form == Form::Events && self.error.is_none()).then_some(&self.wish)
    }

    /// The next calls, at most `count`; one at a time where its reply decides whether another one follows.
    pub fn following(&self, count: usize) -> Vec<Vec<Vec<u8>>> {
        let count = if self.is_atomic || self.form == Form::Events { 1 } else { count };
        (self.done..self.done + count).map_while(|number| self.call(number)).collect()
    }

    /// The call with this number, MULTI and EXEC included.
    fn call(&self, number: usize) -> Option<Vec<Vec<u8>>> {
        if self.is_too_long || self.form == Form::Events && self.error.is_some() {
            return None;
        }
        if !self.is_atomic {
            return self.calls.get(number).cloned();
        }
        match number.checked_sub(1) {
            None => Some(vec![b"MULTI".to_vec()]),
            Some(number) if number < self.calls.len() => Some(self.calls[number].clone()),
            Some(number) => (number == self.calls.len()).then(|| vec![b"EXEC".to_vec()]),
        }
    }

    /// Calls `run` with the sink for the reply to the next call. A call that waits, or has met a lock, has no reply.
    /// The replies of all calls have no more than `bytes_max` bytes together; 0 is no limit.
    pub fn reply<R>(&mut self, bytes_max: usize, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        let version = if let Form::Resp(version) = self.form { version } else { RespVersion::Resp3 };
        let mut output = Output::new(version);
        output.limit(bytes_max);
        let result = run(&mut output);
        if output.is_empty() {
            return result;
        }
        if output.is_overfull()
            || bytes_max != 0 && self.out.len() + output.waiting() > bytes_max
            || self.is_too_long
        {
            (self.out, self.is_too_long) = (Vec::new(), true);
            self.done += 1;
            return result;
        }
        let reply = output.bytes();
        if self.is_atomic && self.done == 0 && reply.starts_with(b"-") {
            // Without a transaction none of the calls is made. The error of MULTI is the response.
            *self = Commands { error: error_of(&reply), ..Commands::new(Vec::new(), Form::One) };
            return result;
        }
        self.done += 1;
        // Of a transaction, the reply of EXEC holds all others.
        if self.is_atomic && self.done < self.calls.len() + 2 {
            return result;
        }
        self.error = error_of(&reply);
        match self.form {
            Form::Resp(_) => self.out.extend_from_slice(&reply),
            Form::List if !self.is_atomic => {
                self.out.push(if self.done == 1 { b'[' } else { b',' });
                json::append_resp(&mut self.out, &reply);
            }
            Form::One if self.is_atomic => {
                // The only element of EXEC's array.
                let array = json::of_resp(&reply);
                let inner = array.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
                self.out.extend_from_slice(inner.unwrap_or(&array));
            }
            Form::One | Form::List => {
                json::append_resp(&mut self.out, &reply);
            }
            Form::Text(_) => {
                // A verbatim string: =LENGTH\r\ntxt:TEXT\r\n
                let begin = memchr::memmem::find(&reply, b"\r\n").map_or(0, |at| at + 6);
                self.out.extend_from_slice(reply.get(begin..reply.len() - 2).unwrap_or_default());
            }
            Form::Ready | Form::Events => {}
        }
        result
    }

    /// The response, once all calls have replied.
    pub fn answer(&mut self) -> Answer {
        let mut out = std::mem::take(&mut self.out);
        if self.is_too_long {
            let made = if self.is_atomic {
                "all calls have".into()
            } else {
                format!("{} of the calls have", self.done)
            };
            return Answer::error(
                507,
                &format!("the replies are longer than client-output-buffer-limit allows; {made} been made"),
            );
        }
        if let Some(error) = self.error.take().filter(|_| self.form != Form::List || self.is_atomic) {
            match self.form {
                Form::Resp(_) => {}
                Form::Ready if !error.starts_with("NO") => {
                    return Answer::text(503, TEXT, format!("{error}\n"));
                }
                _ => return Answer::of_call(&error),
            }
        }
        match self.form {
            Form::Resp(_) => Answer::text(200, RESP, out),
            Form::Text(content_type) => Answer::text(200, content_type, out),
            Form::Ready | Form::Events => Answer::text(200, TEXT, "ok\n"),
            Form::One | Form::List => {
                if self.form == Form::List && !self.is_atomic {
                    out.extend_from_slice(if self.calls.is_empty() { b"[]" } else { b"]" });
                }
                out.push(b'\n');
                Answer::text(200, JSON, out)
            }
        }
    }
}

/// The text of a reply that is an error.
fn error_of(reply: &[u8]) -> Option<String> {
    reply.strip_prefix(b"-").map(|text| String::from_utf8_lossy(text).trim_end().to_owned())
}
