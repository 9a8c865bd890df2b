//! Whether a client may do what it asks for.
//!
//! A session carries its [`Rights`]: its user, and the version of the process's
//! [`Users`](super::users::Users) that the rights are of. A session without a user is trusted with
//! everything (an embedder). Every call is checked in one of these places:
//!
//! | where | by |
//! |---|---|
//! | a call on its fast path | [`Rights::is_free`]: free of all limits, or the slow path |
//! | a call, and one that is queued | `execute::admit`: [`renew`], then [`admit`] |
//! | a queued call when EXEC runs it | [`admit_queued`] |
//! | a command that a script calls | [`admit_scripted`] |
//! | a channel by itself | [`may_use_channel`] |

use polder_base::glob;
use polder_calls::facts::Named;
use polder_hub::token;
use polder_table::Stop;

use super::log;
pub use crate::denials::{Context, Denied, Reason};
use crate::session::{Host, Session};
use crate::users::user::{Access, Selector, User};
use crate::users::{DEFAULT_USER, Rights, Users};
use polder_calls::command::{Command, NO_AUTH};

/// What became of the user of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    Known,
    /// The user is gone, or may no longer hear what it has subscribed to: the connection is to be
    /// closed.
    Gone,
}

/// Makes a session's rights those of now.
pub fn renew(session: &mut Session, users: &Users) -> Standing {
    let Some(user) = &session.identity.rights.user else { return Standing::Known };
    let version = users.version();
    if session.identity.rights.version == version {
        return Standing::Known;
    }
    let now = users.now();
    match now.find(&user.name).filter(|found| found.serial == user.serial) {
        Some(user) => {
            session.identity.rights = Rights::of(user, version);
            let hears = |name: &[u8], named| may_use_channel(session, name, named);
            if session
                .listening
                .subscriptions
                .as_ref()
                .is_none_or(|subscriptions| subscriptions.are_all(hears))
            {
                return Standing::Known;
            }
        }
        None => {
            session.identity.rights = Rights::of(now.default_user(), version);
            session.identity.user = DEFAULT_USER.into();
            session.identity.authenticated = false;
        }
    }
    session.closing = true;
    Standing::Gone
}

/// Whether the session's user may make this call.
///
/// # Errors
/// What the user may not do.
pub fn check(session: &Session, command: &'static Command, args: &[&[u8]]) -> Result<(), Denied> {
    match &session.identity.rights.user {
        Some(user) if !session.identity.rights.free => check_user(user, command, args),
        _ => Ok(()),
    }
}

/// Whether a user may make this call. Of several selectors one must allow all of it; if none does, the error is the one of the selector
/// that came farthest.
///
/// # Errors
/// What the user may not do.
pub fn check_user(user: &User, command: &'static Command, args: &[&[u8]]) -> Result<(), Denied> {
    let mut farthest = (Reason::Command, 0);
    for selector in user.selectors() {
        match check_selector(selector, command, args) {
            Ok(()) => return Ok(()),
            Err(stopped) => farthest = farthest.max(stopped),
        }
    }
    let (reason, at) = farthest;
    let object = if reason == Reason::Command { command.label().into_bytes() } else { args[at].to_vec() };
    Err(Denied { reason, object })
}

fn check_selector(
    selector: &Selector,
    command: &'static Command,
    args: &[&[u8]],
) -> Result<(), (Reason, usize)> {
    if !command.has(NO_AUTH) && !selector.allows(command, args) {
        return Err((Reason::Command, 0));
    }
    if !selector.all_keys {
        let mut denied = None;
        command.each_key(args, |at, spec| {
            let (read, write) = uses(command.touched_by(spec, args));
            if denied.is_none()
                && !selector
                    .keys
                    .iter()
                    .any(|(pattern, access)| fits(pattern, *access, args[at], read, write))
            {
                denied = Some(at);
            }
        });
        if let Some(at) = denied {
            return Err((Reason::Key, at));
        }
    }
    if let (false, Some(channels)) =
        (selector.all_channels, command.channels.filter(|channels| channels.needs_right))
    {
        let last = if channels.all { args.len() } else { 2 };
        if let Some(at) =
            args[1..last].iter().position(|channel| !allows_channel(selector, channel, channels.named))
        {
            return Err((Reason::Channel, 1 + at));
        }
    }
    Ok(())
}

/// Whether what a command does with a key (`RW access update`) gives its content away, and whether it changes it.
fn uses(touched: &str) -> (bool, bool) {
    let mut uses = (false, false);
    for word in touched.split(' ') {
        uses.0 |= word == "access";
        uses.1 |= matches!(word, "insert" | "delete" | "update");
    }
    uses
}

fn fits(pattern: &[u8], access: Access, key: &[u8], read: bool, write: bool) -> bool {
    (access.read || !read) && (access.write || !write) && glob::matches(pattern, key)
}

fn allows_channel(selector: &Selector, channel: &[u8], named: Named) -> bool {
    let allows = |known: &[u8]| match named {
        Named::Pattern => known == channel,
        Named::Subject if token::is_wild(channel) => known == channel || covers(known, channel),
        Named::Channel | Named::Subject => glob::matches(known, channel),
    };
    selector.all_channels || selector.channels.iter().any(|(known, ())| allows(known))
}

/// Returns true if a rule `beginning*` allows all that a pattern of the token dialect matches.
fn covers(rule: &[u8], pattern: &[u8]) -> bool {
    let is_plain = |byte: &u8| !matches!(byte, b'*' | b'?' | b'[' | b'\\');
    rule.strip_suffix(b"*").is_some_and(|beginning| {
        beginning.iter().all(is_plain) && token::literal_beginning(pattern).starts_with(beginning)
    })
}

/// Returns true if a session may publish to a channel or hear it, which is named so. Commands that name their channels are checked before they run; this is for what is decided later.
pub fn may_use_channel(session: &Session, channel: &[u8], named: Named) -> bool {
    let user = session.identity.rights.user.as_ref().filter(|_| !session.identity.rights.free);
    user.is_none_or(|user| user.selectors().iter().any(|selector| allows_channel(selector, channel, named)))
}

/// Returns true if the rights of a session let it read a key by any command.
pub fn may_read_key(session: &Session, key: &[u8]) -> bool {
    let reads = |selector: &Selector| {
        selector.all_keys
            || selector.keys.iter().any(|(pattern, access)| fits(pattern, *access, key, true, false))
    };
    let user = session.identity.rights.user.as_ref().filter(|_| !session.identity.rights.free);
    user.is_none_or(|user| user.selectors().iter().any(reads))
}

/// Whether a session may read every key by a call (the keys that SORT's BY and GET name cannot be
/// known beforehand).
pub fn may_read_all_keys(session: &Session, command: &'static Command, args: &[&[u8]]) -> bool {
    let all = |selector: &Selector| {
        selector.all_keys || selector.keys.iter().any(|(pattern, access)| access.read && pattern == b"*")
    };
    let user = session.identity.rights.user.as_ref().filter(|_| !session.identity.rights.free);
    user.is_none_or(|user| {
        user.selectors()
            .iter()
            .any(|selector| all(selector) && check_selector(selector, command, args).is_ok())
    })
}

/// Checks a call and logs what is denied.
///
/// # Errors
/// Redis's NOPERM text.
#[inline]
pub(crate) fn admit(
    session: &Session,
    host: &dyn Host,
    command: &'static Command,
    args: &[&[u8]],
    logs: bool,
) -> Result<(), Stop> {
    if session.identity.rights.user.is_none() || session.identity.rights.free {
        return Ok(());
    }
    check(session, command, args).map_err(|denied| {
        if logs {
            log::note(host, session, command, &session.identity.user, log::context_of(session), &denied);
        }
        format!("NOPERM {}", denied.text(&session.identity.user, false)).into()
    })
}

/// Checks a queued call when EXEC comes to it.
///
/// # Errors
/// What stands in place of its reply.
pub(crate) fn admit_queued(
    session: &Session,
    host: &dyn Host,
    command: &'static Command,
    args: &[&[u8]],
    logs: bool,
) -> Result<(), String> {
    check(session, command, args).map_err(|denied| {
        if logs {
            log::note(host, session, command, &session.identity.user, Context::Multi, &denied);
        }
        let reason = match denied.reason {
            Reason::Command | Reason::Auth => "no permission to execute the command or subcommand",
            Reason::Key => "no permission to touch the specified keys",
            Reason::Channel => "no permission to access one of the channels used as arguments",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer \
             allowed for the following reason: {reason}"
        )
    })
}

/// Checks a command that a script calls for its caller.
///
/// # Errors
/// What `redis.call` raises.
pub fn admit_scripted(
    session: &Session,
    host: &dyn Host,
    command: &'static Command,
    args: &[&[u8]],
) -> Result<(), Stop> {
    check(session, command, args).map_err(|denied| {
        log::note(host, session, command, &session.identity.user, Context::Lua, &denied);
        format!("ERR ACL failure in script: {}", denied.text(&session.identity.user, false)).into()
    })
}
