//! ACL: which users may run which commands on which keys and channels.
//!
//! Users and their rules are the concern of [`crate::users`]; calls are checked by [`check`], what was denied is
//! remembered by [`log`].

use polder_base::{Reply, time};
use polder_table::{Mode, Stop, Table};

use crate::categories::CATEGORIES;
use crate::help::help;
use crate::line_limit::LineLimit;
use crate::lookup::find_original;
use crate::lookup::resolve;
use crate::row::{Row, SessionCall, TxnCall, container, neutral, session};
use crate::session::{Host, Session};
use polder_calls::call::wrong_arity;
use polder_calls::call::{Outcome, is};
use polder_calls::command::{ADMIN, Flags, LOADING, NOSCRIPT, ON_ALL_NODES, STALE};
use polder_calls::settings::id;

pub mod check;
pub mod log;

pub(crate) use crate::users::{DEFAULT_USER, random};
pub use crate::users::{Rights, Users, file, kept as users, rows, user};
pub use check::{
    Denied, Standing, admit_scripted, check, may_read_all_keys, may_read_key, may_use_channel, renew,
};
pub(crate) use check::{admit, admit_queued};

use log::Reason;
use user::User;

const OPEN: Flags = NOSCRIPT | LOADING | STALE;
const GUARDED: Flags = OPEN | ADMIN;
const PER_USER: &str = "O(N). Where N is the number of configured users.";

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
                       command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store \
                       users in the Redis configuration.";
const NOT_SAVED: &str =
    "ERR There was an error trying to save the ACLs. Please check the server logs for more information";
const WRONG_BITS: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("ACL")
        .since("6.0.0")
        .costs("Depends on subcommand.")
        .about("A container for Access List Control commands."),
    session("ACL|CAT", "[category]", categories)
        .with(OPEN)
        .since("6.0.0")
        .costs("O(1) since the categories and commands are a fixed set.")
        .about("Lists the ACL categories, or the commands inside a category."),
    neutral("ACL|DELUSER", "username [username ...]", Mode::Write, delete_users)
        .with(GUARDED)
        .secrets(|args, hide| (2..args.len()).for_each(hide))
        .tips(ON_ALL_NODES)
        .since("6.0.0")
        .costs("O(1) amortized time considering the typical user.")
        .about("Deletes ACL users, and terminates their connections."),
    neutral("ACL|DRYRUN", "username command [arg ...]", Mode::Read, dry_run)
        .with(GUARDED)
        .since("7.0.0")
        .costs("O(1).")
        .about("Simulates the execution of a command by a user, without executing the command."),
    session("ACL|GENPASS", "[bits]", generate_password)
        .with(OPEN)
        .since("6.0.0")
        .about("Generates a pseudorandom, secure password that can be used to identify ACL users."),
    neutral("ACL|GETUSER", "username", Mode::Read, get_user)
        .with(GUARDED)
        .secrets(|args, hide| (2..args.len()).for_each(hide))
        .since("6.0.0")
        .costs("O(N). Where N is the number of password, command and pattern rules that the user has.")
        .changed(&[
            ("6.2.0", "Shows patterns of channels."),
            ("7.0.0", "Shows selectors, and patterns as the rules that make them."),
        ])
        .about("Lists the ACL rules of a user."),
    session("ACL|HELP", "", help)
        .with(LOADING | STALE)
        .since("6.0.0")
        .about("Returns helpful text about the different subcommands."),
    neutral("ACL|LIST", "", Mode::Read, list)
        .with(GUARDED)
        .since("6.0.0")
        .costs(PER_USER)
        .about("Dumps the effective rules in ACL file format."),
    neutral("ACL|LOAD", "", Mode::Write, load)
        .with(GUARDED)
        .since("6.0.0")
        .costs(PER_USER)
        .about("Reloads the rules from the configured ACL file."),
    session("ACL|LOG", "[count|RESET]", show_log)
        .with(GUARDED)
        .since("6.0.0")
        .costs("O(N) with N being the number of entries shown.")
        .changed(&[("7.2.0", "Entries have a number and the times of the first and the last denial.")])
        .about("Lists recent security events generated due to ACL rules."),
    neutral("ACL|SAVE", "", Mode::Read, save)
        .with(GUARDED)
        .tips(ON_ALL_NODES)
        .since("6.0.0")
        .costs(PER_USER)
        .about("Saves the effective ACL rules in the configured ACL file."),
    neutral("ACL|SETUSER", "username [rule [rule ...]]", Mode::Write, set_user)
        .with(GUARDED)
        .secrets(|args, hide| (2..args.len()).for_each(hide))
        .tips(ON_ALL_NODES)
        .since("6.0.0")
        .costs("O(N). Where N is the number of rules provided.")
        .changed(&[
            ("6.2.0", "Knows patterns of channels."),
            ("7.0.0", "Knows selectors, and reading and writing apart in patterns of keys."),
        ])
        .about("Creates and modifies an ACL user and its rules."),
    neutral("ACL|USERS", "", Mode::Read, list_names)
        .with(GUARDED)
        .since("6.0.0")
        .costs(PER_USER)
        .about("Lists all ACL users."),
    session("ACL|WHOAMI", "", who_am_i)
        .with(OPEN)
        .since("6.0.0")
        .about("Returns the authenticated username of the current connection."),
];

/// What a new selector begins with (`acl-pubsub-default`).
fn all_channels(host: &dyn Host) -> bool {
    host.settings().number(const { id("acl-pubsub-default") }) == 0
}

/// Lets a client in as a user.
///
/// # Errors
/// Redis's text, whatever it is that is wrong.
pub(crate) fn authenticate(call: &mut SessionCall<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let users = call.host.settings().users();
    let version = users.version();
    match users.now().find(name).filter(|user| user.admits(password)) {
        Some(user) => {
            call.session.identity.user = name.to_vec().into();
            call.session.identity.rights = Rights::of(user, version);
            call.session.identity.authenticated = true;
            Ok(())
        }
        None => {
            let denied = Denied { reason: Reason::Auth, object: call.args[0].to_vec() };
            log::note(call.host, call.session, call.command, name, log::context_of(call.session), &denied);
            warn_of_refusal(call, name);
            Err(WRONG_PASSWORD.into())
        }
    }
}

/// Logs a client in as the user that its certificate names; returns whether there is such a user and it is on.
pub fn admit_by_certificate(session: &mut Session, users: &Users, name: &[u8]) -> bool {
    let version = users.version();
    let now = users.now();
    let Some(user) = now.find(name).filter(|user| user.on) else { return false };
    session.identity.user = name.to_vec().into();
    session.identity.rights = Rights::of(user, version);
    session.identity.authenticated = true;
    true
}

/// Says in the log that a log-in was refused: each of the first ones of a minute, then how many more there were. A client that guesses passwords
/// must not fill the disk.
#[cold]
fn warn_of_refusal(call: &SessionCall<'_>, name: &[u8]) {
    static REFUSED: LineLimit = LineLimit::new();
    let Some(left_out) = REFUSED.admit(time::now_ms()) else { return };
    if left_out > 0 {
        tracing::warn!("{left_out} more log-ins were refused; ACL LOG has the latest");
    }
    let user = String::from_utf8_lossy(&name[..name.len().min(64)]);
    let address = call.host.address(call.session);
    tracing::warn!(
        ?user,
        client = call.session.identity.id,
        address,
        "a log-in was refused: wrong password, or the user is off or unknown"
    );
}

/// After a call that may have changed users has been committed: this process learns of it, and the session of what concerns itself.
#[cold]
pub(crate) fn settle(table: &Table, session: &mut Session, host: &dyn Host) {
    session.identity.changed_users = false;
    host.settings().users().refresh(table);
    renew(session, host.settings().users());
    host.rouse();
}

fn who_am_i(call: &mut SessionCall<'_>) -> Outcome {
    call.reply.bulk(&call.session.identity.user);
    Ok(())
}

/// Redis's text for too many arguments of a subcommand that looks at them itself.
fn unfit(call: &SessionCall<'_>) -> Stop {
    format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try ACL HELP.",
        String::from_utf8_lossy(call.args[1])
    )
    .into()
}

fn categories(call: &mut SessionCall<'_>) -> Outcome {
    let names: Vec<String> = match call.args[2..] {
        [] => CATEGORIES.iter().map(|name| (*name).to_owned()).collect(),
        [category] => match rows::of_category(category) {
            Some(commands) => commands.iter().map(|command| command.label()).collect(),
            None => {
                return Err(format!("ERR Unknown category '{}'", String::from_utf8_lossy(category)).into());
            }
        },
        _ => return Err(unfit(call)),
    };
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn generate_password(call: &mut SessionCall<'_>) -> Outcome {
    let bits = match call.args[2..] {
        [] => 256,
        [bits] => polder_calls::call::integer(bits)?,
        _ => return Err(unfit(call)),
    };
    if !(1..=4096).contains(&bits) {
        return Err(WRONG_BITS.into());
    }
    let mut bytes = [0; 512];
    random(&mut bytes);
    let digits = bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 0xf])
        .map(|digit| b"0123456789abcdef"[digit as usize]);
    let password: Vec<u8> = digits.take((bits as usize).div_ceil(4)).collect();
    call.reply.bulk(&password);
    Ok(())
}

fn show_log(call: &mut SessionCall<'_>) -> Outcome {
    let count = match call.args[2..] {
        [] => 10,
        [word] if is(word, "RESET") => return log::reset(call),
        [count] => polder_calls::call::integer(count)?,
        _ => return Err(unfit(call)),
    };
    log::show(call, count.try_into().unwrap_or(0))
}

fn list(call: &mut TxnCall<'_>) -> Outcome {
    let users = call.host.settings().users().within(call.txn)?;
    call.reply.array(users.all().len());
    users.all().for_each(|user| call.reply.bulk(&user.line()));
    Ok(())
}

fn list_names(call: &mut TxnCall<'_>) -> Outcome {
    let users = call.host.settings().users().within(call.txn)?;
    call.reply.array(users.all().len());
    users.all().for_each(|user| call.reply.bulk(&user.name));
    Ok(())
}

fn get_user(call: &mut TxnCall<'_>) -> Outcome {
    let users = call.host.settings().users().within(call.txn)?;
    let Some(user) = users.find(call.args[2]) else {
        call.reply.null();
        return Ok(());
    };
    let reply = &mut *call.reply;
    let (own, others) = user.selectors().split_first().expect("a user has a selector");
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let hashes: Vec<String> = user.hashes().collect();
    reply.array(hashes.len());
    hashes.iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    let selector = |reply: &mut dyn Reply, selector: &user::Selector| {
        let fields = [
            ("commands", selector.commands_text()),
            ("keys", selector.keys_text()),
            ("channels", selector.channels_text()),
        ];
        for (name, text) in fields {
            reply.bulk(name.as_bytes());
            reply.bulk(&text);
        }
    };
    selector(reply, own);
    reply.bulk(b"selectors");
    reply.array(others.len());
    for other in others {
        reply.map(3);
        selector(reply, other);
    }
    Ok(())
}

fn set_user(call: &mut TxnCall<'_>) -> Outcome {
    let (name, rules) = (call.args[2], &call.args[3..]);
    if user::has_spaces(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let rules = user::merged(rules).map_err(|word| {
        Stop::from(format!(
            "ERR Unmatched parenthesis in acl selector starting at '{}'.",
            String::from_utf8_lossy(&word)
        ))
    })?;
    let (before, all_channels) = (call.host.settings().users().within(call.txn)?, all_channels(call.host));
    let mut user = match before.find(name) {
        Some(user) => User::clone(user),
        None => User::new(name, users::fresh_serial(), all_channels),
    };
    for rule in &rules {
        user.apply(rule, all_channels).map_err(|wrong| {
            let rule = String::from_utf8_lossy(rule);
            Stop::from(format!("ERR Error in ACL SETUSER modifier '{rule}': {}", wrong.text()))
        })?;
    }
    users::publish(call.txn, &before, std::slice::from_ref(&user), &[])?;
    call.session.identity.changed_users = true;
    // What follows in the same EXEC is judged by it; the next call looks anew.
    if call
        .session
        .identity
        .rights
        .user()
        .is_some_and(|own| own.serial == user.serial && own.name == user.name)
    {
        call.session.identity.rights = Rights::of(&user.into(), 0);
    }
    call.reply.ok();
    Ok(())
}

fn delete_users(call: &mut TxnCall<'_>) -> Outcome {
    let mut names: Vec<&[u8]> = call.args[2..].to_vec();
    if names.contains(&DEFAULT_USER) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let before = call.host.settings().users().within(call.txn)?;
    names.sort_unstable();
    names.dedup();
    names.retain(|name| before.find(name).is_some());
    if !names.is_empty() {
        users::publish(call.txn, &before, &[], &names)?;
        call.session.identity.changed_users = true;
    }
    call.reply.integer(names.len() as i64);
    Ok(())
}

fn dry_run(call: &mut TxnCall<'_>) -> Outcome {
    let (name, args) = (call.args[2], &call.args[3..]);
    let users = call.host.settings().users().within(call.txn)?;
    let Some(user) = users.find(name) else {
        return Err(format!("ERR User '{}' not found", String::from_utf8_lossy(name)).into());
    };
    let known = find_original(args[0]).is_some();
    let Some(command) = resolve(args).ok().filter(|_| known) else {
        return Err(format!("ERR Command '{}' not found", String::from_utf8_lossy(args[0])).into());
    };
    if !command.arity_fits(args.len()) {
        return Err(wrong_arity(command));
    }
    match check::check_user(user, command, args) {
        Ok(()) => call.reply.ok(),
        Err(denied) => call.reply.bulk(denied.text(name, true).as_bytes()),
    }
    Ok(())
}

/// The ACL file's path.
fn path(host: &dyn Host) -> Result<String, Stop> {
    let path = host.settings().string(const { id("aclfile") });
    if path.is_empty() { Err(NO_FILE.into()) } else { Ok(path) }
}

fn load(call: &mut TxnCall<'_>) -> Outcome {
    let path = path(call.host)?;
    let before = call.host.settings().users().within(call.txn)?;
    let users = file::read(&users::folder(call.host.settings()), &path, &before, all_channels(call.host))
        .map_err(|wrong| Stop::from(format!("ERR {wrong}")))?;
    users::replace(call.txn, &before, users)?;
    call.session.identity.changed_users = true;
    call.reply.ok();
    Ok(())
}

fn save(call: &mut TxnCall<'_>) -> Outcome {
    let path = path(call.host)?;
    let users = call.host.settings().users().within(call.txn)?;
    file::write(&users::folder(call.host.settings()), &path, &users)
        .map_err(|error| Stop::from(format!("{NOT_SAVED} ({path}: {error})")))?;
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests;
