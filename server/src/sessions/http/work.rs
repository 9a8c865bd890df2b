//! Requests that are more than one plain call: with a login, a database, conditions, or no call at all.
//!
//! ```text
//!   BEGIN --own: login, database--> CALLS --replies--> ANSWERED --own: a fresh session--> over
//!      '------ an error, a text -------------------------^
//! ```
use std::borrow::Cow;

use polder_base::{Protocol as RespVersion, Reply};
use polder_engine::Memory;
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use polder_wire::http::response::Connection;
use polder_wire::http::{Head, Method, base64, target};

use super::answer::{Answer, Style};
use super::route::{self, Resource};
use super::sink::{Note, Sink, Verb};
use crate::web_rules::{Verdict, WebRules};

/// A request under way.
pub struct Work {
    connection: Connection,
    is_head: bool,
    /// Fields of its response, whatever that is.
    fields: Vec<u8>,
    credentials: Option<Credentials>,
    db: u16,
    /// The client waits for a sign before it sends the body.
    expects: bool,
    /// Its body had not come when it began.
    is_early: bool,
    task: Task,
    stage: Stage,
}

/// What it does.
enum Task {
    /// It has an answer already.
    Answer(Answer),
    /// One call on a key.
    Key(Note),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Begin,
    Calls,
    Answered,
    Over,
}

/// What a client logs in with.
enum Credentials {
    User(Vec<u8>, Vec<u8>),
    /// The password of the default user.
    Password(Vec<u8>),
}

/// What follows for a work.
pub enum Next<'b> {
    /// [`Work::own`].
    Own,
    /// A call on a key, with the body.
    Call(Verb, Cow<'b, [u8]>, Cow<'b, [u8]>),
    /// [`Work::own`], at the end of the request.
    End,
}

impl Work {
    /// The work of a request.
    pub fn of(head: &Head<'_>, rules: &WebRules) -> Work {
        let connection = match (head.closes, head.is_old) {
            (true, _) => Connection::Closes,
            (false, true) => Connection::StaysOld,
            (false, false) => Connection::Stays,
        };
        let mut work = Work {
            connection,
            is_head: head.method == Method::Head,
            fields: Vec::new(),
            credentials: None,
            db: rules.database,
            expects: head.fields.expects,
            is_early: false,
            task: Task::Answer(Answer::default()),
            stage: Stage::Begin,
        };
        work.task = work.plan(head, rules).unwrap_or_else(Task::Answer);
        work
    }

    /// What the request asks for.
    fn plan(&mut self, head: &Head<'_>, rules: &WebRules) -> Result<Task, Answer> {
        match rules.judge(head.method, &head.fields) {
            Verdict::Own => {}
            Verdict::Guest => self.welcome(head),
            Verdict::Refused(why) => return Err(Answer::error(403, why)),
        }
        if let Some(authorization) = head.fields.authorization {
            self.credentials = Some(credentials(authorization).map_err(|why| Answer::error(401, why))?);
        }
        let (path, query) = target::split(head.target);
        for (name, value) in query.into_iter().flat_map(target::parameters) {
            match name {
                b"db" => self.db = number(value).ok_or_else(|| Answer::error(400, "db is the number of a database"))?,
                _ => return Err(Answer::error(400, "there is no such parameter here")),
            }
        }
        match route::resource(path) {
            _ if head.method == Method::Options => Ok(Task::Answer(Answer::empty(204).with(ALLOW))),
            Resource::Key(key) => {
                let Some(verb) = route::verb(head.method) else {
                    return Err(Answer::error(405, "a key has GET, HEAD, PUT, POST and DELETE").with(ALLOW));
                };
                let key = target::unescaped(key).ok_or_else(|| Answer::error(400, "% in a path stands before two hexadecimal digits"))?;
                Ok(Task::Key(route::note(head, verb, &key)))
            }
            Resource::Health | Resource::Readiness => Ok(Task::Answer(Answer::text(200, "text/plain; charset=utf-8", "ok\n"))),
            Resource::Metrics | Resource::Reserved | Resource::Root => Err(Answer::error(404, "there is nothing here")),
        }
    }

    /// Tells a browser that the page of another site may use this response.
    fn welcome(&mut self, head: &Head<'_>) {
        self.fields.extend_from_slice(b"Access-Control-Allow-Origin: ");
        self.fields.extend_from_slice(head.fields.origin.unwrap_or_default());
        self.fields.extend_from_slice(b"\r\nVary: Origin\r\nAccess-Control-Expose-Headers: ETag, Content-Range\r\n");
        if head.method == Method::Options && head.fields.cors_method.is_some() {
            self.fields.extend_from_slice(
                b"Access-Control-Allow-Methods: GET, HEAD, PUT, POST, DELETE\r\n\
                  Access-Control-Allow-Headers: Authorization, Content-Type, If-Match, If-None-Match, Range\r\n\
                  Access-Control-Max-Age: 600\r\n",
            );
        }
    }

    /// Whether the work begins before the body has come: to log in, so that the limits of a known client hold, to ask for the
    /// body, or to refuse it.
    pub fn begins_early(&mut self) -> bool {
        let begins = self.stage == Stage::Begin && (self.credentials.is_some() || self.expects || matches!(self.task, Task::Answer(_)));
        self.is_early |= begins;
        begins
    }

    /// What follows, once the whole request is there.
    pub fn next<'b>(&mut self, head: &Head<'b>, body: Cow<'b, [u8]>) -> Next<'b> {
        match (self.stage, &self.task) {
            (Stage::Begin, _) => Next::Own,
            (Stage::Calls, Task::Key(note)) => {
                let Resource::Key(key) = route::resource(target::split(head.target).0) else { return Next::End };
                Next::Call(note.verb, target::unescaped(key).unwrap_or_default(), body)
            }
            _ => Next::End,
        }
    }

    /// Calls `run` with the sink for the reply to a call of the work.
    pub fn reply<R>(&mut self, output: &mut Output, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        let style = Style { connection: self.connection, is_head: self.is_head, fields: &self.fields };
        let note = match &self.task {
            Task::Key(note) => *note,
            Task::Answer(_) => Note { verb: Verb::Read, is_head: false, media: 0, is_gzip: false },
        };
        let mut sink = Sink::new(output, note, style);
        let result = run(&mut sink);
        if sink.finish() {
            self.stage = Stage::Answered;
        }
        result
    }

    /// The beginning or the end of the work.
    pub fn own(&mut self, session: &mut Session, (host, memory): (&dyn Host, &Memory), output: &mut Output) -> Progress {
        match self.stage {
            Stage::Begin => {
                let begun = self.begin(session, host, memory);
                if let Err(answer) = begun {
                    // The client may send the body in any case, or it may not.
                    if self.is_early {
                        self.connection = Connection::Closes;
                        session.closing = true;
                    }
                    let style = Style { connection: self.connection, is_head: self.is_head, fields: &self.fields };
                    answer.write(output, style);
                    self.stage = Stage::Answered;
                } else {
                    if self.is_early && self.expects {
                        output.raw(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    self.stage = Stage::Calls;
                }
            }
            _ => {
                session.reset(host);
                session.protocol = RespVersion::Resp3;
                session.closing |= self.connection == Connection::Closes;
                self.stage = Stage::Over;
            }
        }
        Progress::Answered
    }

    /// Logs in and chooses the database.
    fn begin(&mut self, session: &mut Session, host: &dyn Host, memory: &Memory) -> Result<(), Answer> {
        if let Some(credentials) = &self.credentials {
            let words: &[&[u8]] = match credentials {
                Credentials::User(user, password) => &[b"AUTH", user, password],
                Credentials::Password(password) => &[b"AUTH", password],
            };
            let mut reply = Output::new(RespVersion::Resp3);
            memory.execute(session, host, words, &mut reply);
            if let Some(why) = reply.bytes().strip_prefix(b"-") {
                return Err(Answer::error(401, String::from_utf8_lossy(why).trim_end()));
            }
        }
        if self.db >= host.databases() {
            return Err(Answer::error(400, "db is out of range"));
        }
        session.caller.db = self.db;
        match std::mem::replace(&mut self.task, Task::Answer(Answer::default())) {
            Task::Answer(answer) => Err(answer),
            task => {
                self.task = task;
                Ok(())
            }
        }
    }

    /// Whether nothing more follows.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }
}

const ALLOW: &str = "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS\r\n";

/// A number in a query.
fn number(value: &[u8]) -> Option<u16> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// What `Authorization` says.
fn credentials(field: &[u8]) -> Result<Credentials, &'static str> {
    let (scheme, value) = field.split_at(memchr::memchr(b' ', field).unwrap_or(field.len()));
    let value = value.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(Credentials::Password(value.to_vec()));
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return Err("Authorization is Basic or Bearer");
    }
    let decoded = base64::decode(value).ok_or("Basic credentials are base64")?;
    let at = memchr::memchr(b':', &decoded).ok_or("Basic credentials have a colon between user and password")?;
    Ok(Credentials::User(decoded[..at].to_vec(), decoded[at + 1..].to_vec()))
}
