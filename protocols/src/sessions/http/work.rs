//! Requests that are more than one plain call: with a login, a database, conditions, commands, or no call at all.
//!
//! ```text
//!   BEGIN --own: login, database--> CALLS --replies--> ANSWERED --own: a fresh session--> over
//!      '------ an error, a text -------------------------^
//! ```
use std::borrow::Cow;

use polder_base::{Protocol as RespVersion, Reply};
use polder_engine::Memory;
use polder_runtime::acl::Rights;
use polder_runtime::{Host, Progress, Session};
use polder_wire::Output;
use polder_wire::http::response::Connection;
use polder_wire::http::{Head, Method, Refused, base64, target};
use polder_wire::web_socket::Handshake;

use super::answer::{self, Answer, JSON, Style};
use super::commands::{self, Bodies, Commands, Form};
use super::conditions::Conditions;
use super::console;
use super::events::{self, Wish};
use super::note::{Note, Verb};
use super::route::{self, Resource};
use super::sink::Sink;
use crate::limits::ServerLimits;
use crate::sessions::{Change, Input, SubProtocol, WebSocket};
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
    /// What becomes of the connection.
    change: Option<Change>,
    /// How long the request is, once all of it is there.
    length: usize,
    /// The most bytes of replies that become one response; 0 for no limit.
    reply_bytes_max: usize,
    /// As whom the connection speaks where a request brings no credentials, once this one has logged in.
    identity: Option<Identity>,
}

/// As whom a session acts: the default user, or the one that the client's certificate names.
struct Identity {
    user: Cow<'static, [u8]>,
    rights: Rights,
    authenticated: bool,
}

impl Identity {
    fn of(session: &Session) -> Identity {
        Identity {
            user: session.identity.user.clone(),
            rights: session.identity.rights.clone(),
            authenticated: session.identity.authenticated,
        }
    }

    fn restore(self, session: &mut Session) {
        (session.identity.user, session.identity.rights, session.identity.authenticated) =
            (self.user, self.rights, self.authenticated);
    }
}

/// What it does.
enum Task {
    /// It has an answer already.
    Answer(Answer),
    /// One call on a key, with these options of ITEM.SET (`EX 10`).
    Key {
        note: Note,
        conditions: Conditions,
        options: Vec<Vec<u8>>,
        /// Response for a key that is not there, if that is no error.
        absent: Option<Answer>,
    },
    /// The body says what.
    Body(Bodies),
    Commands(Commands),
    /// The connection becomes a WebSocket.
    Upgrade(Handshake, SubProtocol, Input),
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
    /// Any call.
    Words(Vec<Vec<u8>>),
    /// [`Work::own`], at the end of the request.
    End,
}

impl Work {
    /// The work of a request.
    pub fn of(head: &Head<'_>, limits: &ServerLimits) -> Work {
        let rules = &*limits.http.web;
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
            change: None,
            length: 0,
            reply_bytes_max: limits.reply_bytes_max(),
            identity: None,
        };
        work.task = work.plan(head, rules).unwrap_or_else(Task::Answer);
        work
    }

    /// What the request asks for.
    fn plan(&mut self, head: &Head<'_>, rules: &WebRules) -> Result<Task, Answer> {
        let (path, query) = target::split(head.target);
        let resource =
            if asks_nats(head, path, rules) { Resource::Nats } else { route::resource_with(rules, path) };
        // A client that has opened a WebSocket may write.
        let opens = matches!(resource, Resource::WebSocket | Resource::Nats);
        let method = if opens { Method::Other } else { head.method };
        match rules.judge(method, &head.fields) {
            Verdict::Own => {}
            Verdict::Guest => self.welcome(head),
            Verdict::Refused(why) => return Err(Answer::error(403, why)),
        }
        if let Some(authorization) = head.fields.authorization {
            self.credentials = Some(credentials(authorization).map_err(|why| Answer::error(401, why))?);
        }
        if head.method == Method::Options {
            return Ok(Task::Answer(Answer::empty(204).with(ALLOW)));
        }
        match resource {
            Resource::Key(key) => self.plan_key(head, key, query.unwrap_or_default()),
            Resource::Health => Ok(Task::Answer(Answer::text(200, "text/plain; charset=utf-8", "ok\n"))),
            Resource::Readiness => Ok(Task::Commands(Commands::readiness())),
            Resource::NatsPage(_) if !is_read(head) => {
                Err(Answer::error(405, "this is read with GET").with("Allow: GET, HEAD, OPTIONS\r\n"))
            }
            Resource::NatsPage("HEALTHZ") => {
                Ok(Task::Answer(Answer::text(200, JSON, "{\"status\":\"ok\"}\n")))
            }
            Resource::NatsPage(page) => self.plan_nats_page(page, query.unwrap_or_default()),
            Resource::Metrics => Ok(Task::Commands(Commands::metrics(head.fields.accept))),
            Resource::Root if query.is_none() && is_read(head) => self.plan_index(head),
            Resource::Commands => self.plan_commands(head, query, Form::One),
            Resource::Root | Resource::Resp => {
                self.plan_commands(head, query, Form::Resp(RespVersion::Resp2))
            }
            Resource::Publish => {
                let mut subject = None;
                self.parameters(query.unwrap_or_default(), |name, value| {
                    (name == b"subject")
                        .then(|| subject = target::unescaped_value(value).map(Cow::into_owned))
                })?;
                posted(head)?;
                Ok(Task::Body(Bodies::Publish(
                    subject
                        .ok_or_else(|| Answer::error(400, "subject names the channel: /pub?subject=NAME"))?,
                )))
            }
            Resource::Console(_) if !is_read(head) => {
                Err(Answer::error(405, "the console is read with GET").with("Allow: GET, HEAD, OPTIONS\r\n"))
            }
            Resource::Console(path) => Ok(Task::Answer(console::file(path))),
            Resource::Subscribe => self.plan_stream(head, query.unwrap_or_default()),
            Resource::WebSocket => self.plan_web_socket(head, query.unwrap_or_default()),
            Resource::Nats => {
                let handshake = Handshake::read(head, &[""]).map_err(unopened)?;
                Ok(Task::Upgrade(handshake, SubProtocol::Nats, Input::Lines))
            }
            Resource::Reserved => {
                Err(Answer::error(404, "there is nothing here; a key with this name is at /k/NAME"))
            }
        }
    }

    /// A monitoring page of nats-server.
    fn plan_nats_page(&mut self, page: &str, query: &[u8]) -> Result<Task, Answer> {
        let mut options = Vec::new();
        self.parameters(query, |name, value| {
            let name = [&b"sort"[..], b"limit", b"offset"].into_iter().find(|known| *known == name)?;
            options.extend([name.to_vec(), target::unescaped_value(value)?.into_owned()]);
            Some(())
        })?;
        Ok(Task::Commands(Commands::nats_page(page, options)))
    }

    /// One call on a key.
    fn plan_key(&mut self, head: &Head<'_>, key: &[u8], query: &[u8]) -> Result<Task, Answer> {
        let Some(verb) = route::verb(head.method) else {
            return Err(Answer::error(405, "a key has GET, HEAD, PUT, POST and DELETE").with(ALLOW));
        };
        let key = target::unescaped(key).ok_or_else(|| Answer::error(400, NOT_ESCAPED))?;
        let mut options = Vec::new();
        self.parameters(query, |name, value| {
            (name == b"ttl" && verb == Verb::Store).then(|| options = vec![b"EX".to_vec(), value.to_vec()])
        })?;
        if let Some(content_type) = route::type_to_store(head, verb, &key) {
            options.extend([b"TYPE".to_vec(), content_type.to_vec()]);
        }
        Ok(Task::Key {
            note: route::note(head, verb, &key),
            conditions: Conditions::of(&head.fields, verb)?,
            options,
            absent: None,
        })
    }

    /// Plans the command of a query, or those of a body, whose replies have this form.
    fn plan_commands(
        &mut self,
        head: &Head<'_>,
        query: Option<&[u8]>,
        mut form: Form,
    ) -> Result<Task, Answer> {
        let query = query.unwrap_or_default();
        let reads = is_read(head);
        let (command, rest) = query.split_at(memchr::memchr(b'&', query).unwrap_or(query.len()));
        // A parameter has = in its first word; a word of a command behind that may have it, too.
        let first = &command[..memchr::memchr(b'+', command).unwrap_or(command.len())];
        let names_command = !first.is_empty() && memchr::memchr(b'=', first).is_none() && first != b"atomic";
        let mut is_atomic = false;
        self.parameters(if names_command { rest } else { query }, |name, value| {
            match (&mut form, name, value) {
                (Form::Resp(version), b"protocol", b"2" | b"3") => {
                    *version = if value == b"3" { RespVersion::Resp3 } else { RespVersion::Resp2 };
                    Some(())
                }
                (Form::One, b"atomic", _) => (!names_command).then(|| is_atomic = true),
                _ => None,
            }
        })?;
        if !names_command {
            if reads {
                return Err(Answer::error(400, "the query is a command, its words joined by +: /js?GET+key"));
            }
            posted(head)?;
            return Ok(Task::Body(match form {
                Form::Resp(version) => Bodies::Resp(version),
                _ => Bodies::Json { is_atomic },
            }));
        }
        let words = target::words(command).ok_or_else(|| Answer::error(400, NOT_ESCAPED))?;
        if !reads {
            posted(head)?;
        }
        commands::check(&words, reads)?;
        Ok(Task::Commands(Commands::new(vec![words], form)))
    }

    /// Plans a read of the key `index.html`, and for its absence a page that says where to go on.
    fn plan_index(&self, head: &Head<'_>) -> Result<Task, Answer> {
        Ok(Task::Key {
            note: route::note(head, Verb::Read, route::INDEX),
            conditions: Conditions::of(&head.fields, Verb::Read)?,
            options: Vec::new(),
            absent: Some(console::welcome(head.fields.accept)),
        })
    }

    /// Plans the handshake of a WebSocket.
    fn plan_web_socket(&mut self, head: &Head<'_>, query: &[u8]) -> Result<Task, Answer> {
        let mut columns = None;
        self.parameters(query, |name, value| (name == b"columns").then(|| columns = Some(number(value))))?;
        let input = match columns {
            None => Input::Undecided { greets: head.fields.origin.is_some() },
            Some(Some(0)) => Input::Lines,
            Some(Some(columns)) => Input::Keys { columns: columns.into() },
            Some(None) => return Err(Answer::error(400, COLUMNS)),
        };
        let handshake = Handshake::read(head, &SubProtocol::NAMES).map_err(unopened)?;
        match (columns, SubProtocol::named(handshake.protocol)) {
            (Some(_), SubProtocol::Resp | SubProtocol::Json) => Err(Answer::error(400, COLUMNS)),
            (_, spoken) => Ok(Task::Upgrade(handshake, spoken, input)),
        }
    }

    /// Messages of the channels and patterns that the query names.
    fn plan_stream(&mut self, head: &Head<'_>, query: &[u8]) -> Result<Task, Answer> {
        let mut wish = Wish { last: head.fields.last_event_id.map(<[u8]>::to_vec), ..Wish::default() };
        let mut is_escaped = true;
        self.parameters(query, |name, value| {
            let names = match name {
                b"subject" => &mut wish.subjects,
                b"pattern" => &mut wish.patterns,
                _ => return None,
            };
            match target::unescaped_value(value) {
                Some(value) => names.push(value.into_owned()),
                None => is_escaped = false,
            }
            Some(())
        })?;
        if !is_escaped {
            return Err(Answer::error(400, NOT_ESCAPED));
        }
        if wish.subjects.is_empty() && wish.patterns.is_empty() {
            return Err(Answer::error(
                400,
                "subject names a channel, pattern several: /sub?subject=NAME&pattern=news.*",
            ));
        }
        if head.method != Method::Get {
            return Err(Answer::error(405, "events are read with GET").with("Allow: GET, OPTIONS\r\n"));
        }
        Ok(Task::Commands(Commands::subscribe(wish)))
    }

    /// Reads the parameters of a query: `db`, and those that `take` knows.
    fn parameters<'q>(
        &mut self,
        query: &'q [u8],
        mut take: impl FnMut(&'q [u8], &'q [u8]) -> Option<()>,
    ) -> Result<(), Answer> {
        for (name, value) in target::parameters(query) {
            match name {
                b"db" => {
                    self.db =
                        number(value).ok_or_else(|| Answer::error(400, "db is the number of a database"))?
                }
                _ => take(name, value)
                    .ok_or_else(|| Answer::error(400, "the query has a parameter that means nothing here"))?,
            }
        }
        Ok(())
    }

    /// Tells a browser that the page of another site may use this response.
    fn welcome(&mut self, head: &Head<'_>) {
        self.fields.extend_from_slice(b"Access-Control-Allow-Origin: ");
        self.fields.extend_from_slice(head.fields.origin.unwrap_or_default());
        self.fields
            .extend_from_slice(b"\r\nVary: Origin\r\nAccess-Control-Expose-Headers: ETag, Content-Range\r\n");
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
        let begins = self.stage == Stage::Begin
            && (self.credentials.is_some() || self.expects || matches!(self.task, Task::Answer(_)));
        self.is_early |= begins;
        begins
    }

    /// Once commands are being executed: the calls that come next, at most `count`, and the length of the request; no call at
    /// its end. The request need not be read again for each call.
    pub fn following(&self, count: usize) -> Option<(Vec<Vec<Vec<u8>>>, usize)> {
        let Task::Commands(commands) = &self.task else { return None };
        (self.stage == Stage::Calls && self.length > 0).then(|| (commands.following(count), self.length))
    }

    /// What follows, once the whole request is there, which has this length.
    pub fn next<'b>(&mut self, head: &Head<'b>, body: Cow<'b, [u8]>, length: usize) -> Next<'b> {
        self.length = length;
        if let Task::Body(bodies) = &self.task {
            self.task = match bodies.read(&body) {
                Ok(commands) => Task::Commands(commands),
                Err(answer) => {
                    self.stage = Stage::Begin;
                    Task::Answer(answer)
                }
            };
        }
        match (self.stage, &self.task) {
            (Stage::Begin, _) => Next::Own,
            (Stage::Calls, Task::Key { note, conditions, options, .. }) => {
                let key = match route::resource(target::split(head.target).0) {
                    Resource::Key(key) => target::unescaped(key).unwrap_or_default(),
                    Resource::Root => Cow::Borrowed(route::INDEX),
                    _ => return Next::End,
                };
                if note.verb == Verb::Read || conditions.is_none() && options.is_empty() {
                    return Next::Call(note.verb, key, body);
                }
                Next::Words(conditions.words(note.verb, &key, &body, options))
            }
            (Stage::Calls, Task::Commands(commands)) => {
                commands.following(1).pop().map_or(Next::End, Next::Words)
            }
            _ => Next::End,
        }
    }

    /// Calls `run` with the sink for the reply to a call of the work.
    pub fn reply<R>(&mut self, output: &mut Output, run: impl FnOnce(&mut dyn Reply) -> R) -> R {
        let style = Style { connection: self.connection, is_head: self.is_head, fields: &self.fields };
        match &mut self.task {
            Task::Commands(commands) => commands.reply(self.reply_bytes_max, run),
            Task::Key { note, conditions, absent, .. } => {
                let mut sink = Sink::new(output, *note, style, conditions).or(absent.as_ref());
                let result = run(&mut sink);
                if sink.finish() {
                    self.stage = Stage::Answered;
                }
                result
            }
            Task::Answer(_) | Task::Body(_) | Task::Upgrade(..) => run(&mut Output::new(RespVersion::Resp3)),
        }
    }

    /// The beginning or the end of the work.
    pub fn own(
        &mut self,
        session: &mut Session,
        (host, memory): (&dyn Host, &Memory),
        output: &mut Output,
    ) -> Progress {
        if self.stage == Stage::Begin {
            match self.begin(session, host, memory) {
                Err(answer) => {
                    // The client may send the body in any case, or it may not.
                    if self.is_early {
                        self.connection = Connection::Closes;
                        session.closing = true;
                    }
                    self.answer(&answer, output);
                    self.stage = Stage::Answered;
                }
                Ok(()) => {
                    if self.is_early && self.expects {
                        output.raw(b"HTTP/1.1 100 Continue\r\n\r\n");
                    }
                    self.stage = Stage::Calls;
                }
            }
            return Progress::Answered;
        }
        if let (Stage::Calls, Task::Commands(commands)) = (self.stage, &self.task)
            && let Some(wish) = commands.heard()
        {
            let fields = [events::FIELDS.as_bytes(), &self.fields].concat();
            let style = Style { connection: Connection::Closes, is_head: false, fields: &fields };
            answer::begin(output, 200, events::CONTENT_TYPE, None, style);
            wish.open(output, session.identity.id);
            (self.stage, self.change) = (Stage::Over, Some(Change::Stream("sse")));
            return Progress::Answered;
        }
        if let (Stage::Calls, Task::Upgrade(handshake, spoken, input)) = (self.stage, &self.task) {
            output.raw(handshake.response().as_bytes());
            self.change = Some(Change::WebSocket(WebSocket::new(*spoken, handshake.deflates, *input)));
            self.stage = Stage::Over;
            return Progress::Answered;
        }
        if let (Stage::Calls, Task::Commands(commands)) = (self.stage, &mut self.task) {
            let answer = commands.answer();
            self.answer(&answer, output);
        }
        let identity = self.identity.take().unwrap_or_else(|| Identity::of(session));
        session.reset(host);
        identity.restore(session);
        session.protocol = RespVersion::Resp3;
        session.closing |= self.connection == Connection::Closes;
        self.stage = Stage::Over;
        Progress::Answered
    }

    fn answer(&self, answer: &Answer, output: &mut Output) {
        answer.write(
            output,
            Style { connection: self.connection, is_head: self.is_head, fields: &self.fields },
        );
    }

    /// Logs in and chooses the database.
    fn begin(&mut self, session: &mut Session, host: &dyn Host, memory: &Memory) -> Result<(), Answer> {
        if let Some(credentials) = &self.credentials {
            let words: &[&[u8]] = match credentials {
                Credentials::User(user, password) => &[b"AUTH", user, password],
                Credentials::Password(password) => &[b"AUTH", password],
            };
            self.identity = Some(Identity::of(session));
            let mut reply = Output::new(RespVersion::Resp3);
            memory.execute(session, host, words, &mut reply);
            // Only a success lets the request go on.
            if reply.bytes() != b"+OK\r\n"[..] {
                let reply = reply.bytes();
                let why =
                    reply.strip_prefix(b"-").unwrap_or(b"ERR the log-in did not end; send the request again");
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

    /// What it has made of the connection.
    pub fn change(&mut self) -> Option<Change> {
        self.change.take()
    }

    /// Whether it opens a WebSocket.
    pub fn is_upgrade(&self) -> bool {
        matches!(self.task, Task::Upgrade(..))
    }

    /// Refuses a WebSocket whose client has not waited for the response (RFC 6455, section 4.1).
    pub fn refuse_early_frames(&mut self) {
        self.connection = Connection::Closes;
        self.task = Task::Answer(Answer::error(400, "bytes follow the request before the WebSocket is open"));
        self.stage = Stage::Begin;
    }

    /// Whether nothing more follows.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }
}

const ALLOW: &str = "Allow: GET, HEAD, PUT, POST, DELETE, OPTIONS\r\n";
const VERSION: &str = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
const COLUMNS: &str = "columns is the width of a terminal, for the sub-protocol term: /ws?columns=120, or 0 for whole lines only";
const NOT_ESCAPED: &str = "% in a URL stands before two hexadecimal digits";

/// The answer to a request that opens no WebSocket.
fn unopened(Refused { status, text }: Refused) -> Answer {
    let answer = Answer::error(status, text);
    if status == 426 { answer.with(VERSION) } else { answer }
}

/// Returns true if a client of NATS opens a WebSocket, which names no sub-protocol.
fn asks_nats(head: &Head<'_>, path: &[u8], rules: &WebRules) -> bool {
    rules.serves_nats
        && matches!(path, b"/" | b"/nats")
        && head.fields.connection_upgrades
        && head.fields.upgrade.is_some_and(|upgrade| upgrade.eq_ignore_ascii_case(b"websocket"))
        && head.fields.web_socket_protocol.is_none()
}

/// Tells whether a request only reads.
fn is_read(head: &Head<'_>) -> bool {
    matches!(head.method, Method::Get | Method::Head)
}

/// Refuses a request that is no POST.
fn posted(head: &Head<'_>) -> Result<(), Answer> {
    if head.method == Method::Post {
        Ok(())
    } else {
        Err(Answer::error(405, "this takes POST").with("Allow: POST, OPTIONS\r\n"))
    }
}

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
    let at =
        memchr::memchr(b':', &decoded).ok_or("Basic credentials have a colon between user and password")?;
    Ok(Credentials::User(decoded[..at].to_vec(), decoded[at + 1..].to_vec()))
}
