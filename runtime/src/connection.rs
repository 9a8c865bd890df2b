//! The connection itself: its user, protocol and database, and whether it still lives.
use polder_base::{Protocol, Reply, number};
use polder_table::Stop;

use crate::acl::{DEFAULT_USER, authenticate};
use crate::row::{Row, SessionCall, session};
use polder_calls::call::wrong_arity;
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{
    ALLOW_BUSY, AT_ONCE, FAST, Flags, LOADING, NO_AUTH, NOSCRIPT, SELECTS, STALE, TELLS_UNSAVED,
    WHILE_LISTENING,
};
use polder_calls::facts::secrets_of_options;
use polder_calls::settings::id;
use polder_commands::key::database;

/// Flags of what a client may do before it has authenticated.
const GREETING: Flags = NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY;

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const AUTH_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
                          <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    session("AUTH", "[username] password", auth)
        .with(GREETING)
        .secrets(|args, hide| (1..args.len()).for_each(hide))
        .costs("O(N) where N is the number of passwords defined for the user")
        .changed(&[("6.0.0", "Takes `username`.")])
        .about("Authenticates the connection."),
    session("ECHO", "message", echo).with(LOADING | STALE | FAST).about("Returns the given string."),
    session("HELLO", "[protover [AUTH username password] [SETNAME clientname]]", hello)
        .with(GREETING)
        .secrets(|args, hide| secrets_of_options(args, 2, &[("AUTH", 2, true), ("SETNAME", 1, false)], hide))
        .since("6.0.0")
        .changed(&[("6.2.0", "Without `protover` it only shows the state of the connection.")])
        .about("Handshakes with the server."),
    session("PING", "[message]", ping)
        .with(FAST | WHILE_LISTENING | TELLS_UNSAVED)
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"])
        .about("Returns the server's liveliness response."),
    session("QUIT", "[arg ...]", quit)
        .with(GREETING | AT_ONCE | WHILE_LISTENING)
        .replaced("7.2.0", "closing the connection")
        .about("Closes the connection."),
    session("RESET", "", reset)
        .with(GREETING | AT_ONCE | WHILE_LISTENING)
        .since("6.2.0")
        .about("Resets the connection."),
    session("SELECT", "index", select)
        .with(LOADING | STALE | FAST | SELECTS)
        .about("Changes the selected database."),
];

fn ping(call: &mut SessionCall<'_>) -> Outcome {
    if call.session.only_listens() && call.args.len() <= 2 {
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(call.args.get(1).copied().unwrap_or_default());
        return Ok(());
    }
    match call.args[1..] {
        [] => call.reply.status("PONG"),
        [message] => call.reply.bulk(message),
        _ => return Err(wrong_arity(call.command)),
    }
    Ok(())
}

fn echo(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.bulk(call.args[1]);
    Ok(())
}

fn quit(call: &mut SessionCall<'_>) -> Outcome {
    call.session.closing = true;
    call.reply.ok();
    Ok(())
}

fn select(call: &mut SessionCall<'_>) -> Outcome {
    call.session.caller.db = database(call.host.settings(), call.args[1])?;
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut SessionCall<'_>) -> Outcome {
    call.session.end_listening(call.table);
    call.host.settings().users().refresh(call.table);
    call.session.reset(call.host);
    call.reply.speak(call.session.protocol);
    call.reply.status("RESET");
    Ok(())
}

fn auth(call: &mut SessionCall<'_>) -> Outcome {
    call.host.settings().users().refresh(call.table);
    let (user, password) = match call.args[1..] {
        [_] if call.host.settings().users().now().default_user().open => return Err(NO_PASSWORD.into()),
        [password] => (DEFAULT_USER, password),
        [user, password] => (user, password),
        _ => return Err(SYNTAX.into()),
    };
    authenticate(call, user, password)?;
    call.reply.ok();
    Ok(())
}

/// The version a HELLO asks for.
fn version(arg: &[u8]) -> Result<Protocol, Stop> {
    match number::integer(arg) {
        None => Err("ERR Protocol version is not an integer or out of range".into()),
        Some(2) => Ok(Protocol::Resp2),
        Some(3) => Ok(Protocol::Resp3),
        Some(_) => Err("NOPROTO unsupported protocol version".into()),
    }
}

fn hello(call: &mut SessionCall<'_>) -> Outcome {
    let wanted = call.args.get(1).map(|arg| version(arg)).transpose()?;
    let (mut credentials, mut name) = (None, None);
    let mut options = call.args.get(2..).unwrap_or_default();
    while let [option, rest @ ..] = options {
        options = match rest {
            [user, password, rest @ ..] if is(option, "AUTH") => {
                credentials = Some((*user, *password));
                rest
            }
            [clientname, rest @ ..] if is(option, "SETNAME") => {
                name = Some(*clientname);
                rest
            }
            _ => {
                return Err(format!(
                    "ERR Syntax error in HELLO option '{}'",
                    String::from_utf8_lossy(option)
                )
                .into());
            }
        };
    }
    call.host.settings().users().refresh(call.table);
    if let Some((user, password)) = credentials {
        authenticate(call, user, password)?;
    }
    if !call.session.identity.authenticated {
        return Err(AUTH_FIRST.into());
    }
    if let Some(name) = name {
        call.session.rename(name)?;
    }
    if let Some(protocol) = wanted {
        call.session.protocol = protocol;
        call.reply.speak(protocol);
    }
    greet(call);
    Ok(())
}

fn greet(call: &mut SessionCall<'_>) {
    let (version, client) = (call.host.version(), call.session.identity.id as i64);
    let zone = call.host.settings().string(const { id("availability-zone") });
    let protocol = if call.session.protocol == Protocol::Resp3 { 3 } else { 2 };
    let reply = &mut *call.reply;
    let text = |reply: &mut dyn Reply, name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    let number = |reply: &mut dyn Reply, name: &str, value: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    };
    reply.map(if zone.is_empty() { 7 } else { 8 });
    text(reply, "server", "redis");
    text(reply, "version", &version);
    number(reply, "proto", protocol);
    number(reply, "id", client);
    text(reply, "mode", "standalone");
    text(reply, "role", "master");
    reply.bulk(b"modules");
    reply.array(0);
    // Valkey's last field, if a setting says where the server is.
    if !zone.is_empty() {
        text(reply, "availability_zone", &zone);
    }
}
