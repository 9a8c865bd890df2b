//! CONFIG: the settings, asked and changed while running. The table of settings is in [`polder_calls::settings`].
//!
//! GET and SET run on the table, since settings that belong to the data live in the segment: GET first notices what
//! another process has changed, SET publishes in its own transaction. All pairs of a SET are read before any is taken.
use std::io;
use std::path::Path;

use polder_base::glob;
use polder_table::{Mode, Stop};

use polder_calls::call::{Outcome, SYNTAX};
use polder_calls::command::{ADMIN, LOADING, NOSCRIPT, ON_ALL_NODES, STALE};
use polder_calls::settings::value;
use polder_calls::settings::{Change, Id, Scope, id};
use polder_runtime::configuration::rewrite::rewrite;
use polder_runtime::help::help;
use polder_runtime::row::{Row, SessionCall, TxnCall, container, neutral, session};
use polder_runtime::session::{Host, NewSetting, Session};
use polder_runtime::{configuration, cross_process};

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("CONFIG")
        .since("2.0.0")
        .costs("Depends on subcommand.")
        .about("A container for server configuration commands."),
    neutral("CONFIG|GET", "parameter [parameter ...]", Mode::Read, get)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .since("2.0.0")
        .costs("O(N) when N is the number of configuration parameters provided")
        .changed(&[("7.0.0", "Several of `parameter` may be given.")])
        .about("Returns the effective values of configuration parameters."),
    session("CONFIG|HELP", "", help)
        .with(LOADING | STALE)
        .since("5.0.0")
        .about("Returns helpful text about the different subcommands."),
    session("CONFIG|RESETSTAT", "", reset_statistics)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(ON_ALL_NODES)
        .since("2.0.0")
        .about("Resets the server's statistics."),
    session("CONFIG|REWRITE", "", rewrite_file)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .tips(ON_ALL_NODES)
        .since("2.8.0")
        .about("Persists the effective configuration to file."),
    neutral("CONFIG|SET", "parameter value [parameter value ...]", Mode::Write, set)
        .with(ADMIN | NOSCRIPT | LOADING | STALE)
        .secrets(secrets)
        .tips(ON_ALL_NODES)
        .since("2.0.0")
        .costs("O(N) when N is the number of configuration parameters provided")
        .changed(&[("7.0.0", "Sets several parameters at once.")])
        .about("Sets configuration parameters in-flight."),
];

fn get(call: &mut TxnCall<'_>) -> Outcome {
    let settings = call.host.settings();
    settings.refresh(call.table, call.txn)?;
    let mut found: Vec<(String, Id)> = Vec::new();
    for pattern in &call.args[2..] {
        if glob::is_literal(pattern) {
            let name = String::from_utf8_lossy(pattern).into_owned();
            found.extend(polder_calls::settings::find(pattern).map(|id| (name, id)));
        } else {
            let shown = Id::all()
                .filter(|id| !id.row().hidden)
                .flat_map(|id| id.row().names().map(move |name| (name, id)));
            let matching = shown.filter(|(name, _)| glob::matches_folded(pattern, name.as_bytes()));
            found.extend(matching.map(|(name, id)| (name.to_owned(), id)));
        }
    }
    // Each name once, however many patterns it fits.
    let mut seen = std::collections::HashSet::new();
    found.retain(|(name, _)| seen.insert(name.to_ascii_lowercase()));
    call.reply.map(found.len());
    for (name, id) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(&settings.text(id));
    }
    Ok(())
}

/// The settings that limit the memory of all clients together.
const CLIENT_LIMITS: [Id; 2] = [id("maxmemory-clients"), id("maxmemory")];

const IMMUTABLE: &str = "can't set immutable config";

/// The values of settings that are secrets.
fn secrets(args: &[&[u8]], hide: &mut dyn FnMut(usize)) {
    let secret = |name: &[u8]| polder_calls::settings::find(name).is_some_and(|id| id.row().secret);
    (2..args.len().saturating_sub(1)).step_by(2).filter(|at| secret(args[*at])).for_each(|at| hide(at + 1));
}

fn set(call: &mut TxnCall<'_>) -> Outcome {
    let settings = call.host.settings();
    settings.refresh(call.table, call.txn)?;
    let changes = read_changes(call)?;
    let (shared, own): (Vec<NewSetting>, Vec<NewSetting>) =
        changes.into_iter().partition(|(id, _)| id.row().scope == Scope::Segment);
    let acted_on: Vec<NewSetting> =
        shared.iter().filter(|(id, _)| !id.row().unable.is_empty()).cloned().collect();
    if !acted_on.is_empty() {
        apply(call.host, &acted_on, &mut || ())?;
    }
    for (id, parsed) in &shared {
        configuration::publish(call.txn, *id, parsed)?;
    }
    // What follows does not end with the transaction. Should the call be run again it does the same once more.
    settle(call.host, &own)?;
    settings.refresh(call.table, call.txn)?;
    if shared.iter().chain(&own).any(|(id, _)| CLIENT_LIMITS.contains(id)) {
        call.host.hold_limits(call.session);
    }
    call.reply.ok();
    Ok(())
}

/// Takes the process's own settings over. If the host must act on them first and cannot, nothing changes.
fn settle(host: &dyn Host, changes: &[NewSetting]) -> Result<(), Stop> {
    let mut settle = || changes.iter().for_each(|(id, parsed)| host.settings().set(*id, parsed.clone()));
    if changes.iter().all(|(id, _)| id.row().unable.is_empty()) {
        settle();
        return Ok(());
    }
    apply(host, changes, &mut settle)
}

fn apply(host: &dyn Host, changes: &[NewSetting], settle: &mut dyn FnMut()) -> Result<(), Stop> {
    host.apply(changes, settle).map_err(|id| failed(id.row().name.as_bytes(), id.row().unable))
}

fn read_changes(call: &TxnCall<'_>) -> Result<Vec<NewSetting>, Stop> {
    let pairs = &call.args[2..];
    if !pairs.len().is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    let mut ids: Vec<Id> = Vec::new();
    for pair in pairs.chunks_exact(2) {
        ids.push(may_change(call, pair[0], &ids)?);
    }
    let settings = call.host.settings();
    let mut changes = Vec::new();
    for (id, pair) in ids.into_iter().zip(pairs.chunks_exact(2)) {
        let row = id.row();
        let words = value::split(row, pair[1]);
        let parsed = value::parse(row, &words, &settings.text(id))
            .map_err(|reason| failed(&pair[0].to_ascii_lowercase(), &reason))?;
        if row.change == Change::AtStartHere && *parsed.text != *settings.text(id) {
            return Err(failed(pair[0], IMMUTABLE));
        }
        changes.push((id, parsed));
    }
    Ok(changes)
}

/// The setting of that name, if this client may change it now and has not named it before.
fn may_change(call: &TxnCall<'_>, name: &[u8], before: &[Id]) -> Result<Id, Stop> {
    let Some(id) = polder_calls::settings::find(name) else {
        let name = String::from_utf8_lossy(name);
        return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'").into());
    };
    match id.row().change {
        Change::AtStart => Err(failed(name, IMMUTABLE)),
        Change::Protected
            if !is_allowed(call.host, call.session, const { self::id("enable-protected-configs") }) =>
        {
            Err(failed(name, "can't set protected config"))
        }
        _ if before.contains(&id) => Err(failed(name, "duplicate parameter")),
        _ => Ok(id),
    }
}

fn failed(name: &[u8], reason: &str) -> Stop {
    format!(
        "ERR CONFIG SET failed (possibly related to argument '{}') - {reason}",
        String::from_utf8_lossy(name)
    )
    .into()
}

/// Whether a guard (`no`, `yes` or `local`) lets this client pass.
pub(crate) fn is_allowed(host: &dyn Host, session: &Session, guard: Id) -> bool {
    match host.settings().number(guard) {
        0 => false,
        1 => true,
        _ => is_local(&host.client(session).address),
    }
}

/// An in-process caller, a Unix socket, or this host's own address.
fn is_local(address: &str) -> bool {
    address.is_empty()
        || address.starts_with('/')
        || address.starts_with("127.")
        || address.starts_with("[::1]")
}

fn reset_statistics(call: &mut SessionCall<'_>) -> Outcome {
    cross_process::ask(call.table, call.session, call.host, &[b"RESETSTAT"])?;
    call.table.reset_counters();
    call.host.recorder().reset();
    call.reply.ok();
    Ok(())
}

fn rewrite_file(call: &mut SessionCall<'_>) -> Outcome {
    write_file(call, false)
}

/// DEBUG CONFIG-REWRITE-FORCE-ALL.
pub(crate) fn rewrite_everything(call: &mut SessionCall<'_>) -> Outcome {
    write_file(call, true)
}

/// Writes the values of now to the file: those that differ from their first ones, or all.
fn write_file(call: &mut SessionCall<'_>, all: bool) -> Outcome {
    let settings = call.host.settings();
    let Some(path) = settings.file() else {
        return Err("ERR The server is running without a config file".into());
    };
    let write = || -> io::Result<()> {
        let old = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        replace(path, &rewrite(settings, &old, all))
    };
    write().map_err(|error| Stop::from(format!("ERR Rewriting config file: {error}")))?;
    call.reply.ok();
    Ok(())
}

/// Replaces the file by a new one in one step, so that no process reads half of it.
fn replace(path: &Path, content: &str) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let written = std::fs::File::create(&fresh).and_then(|mut file| {
        io::Write::write_all(&mut file, content.as_bytes())?;
        if let Ok(old) = std::fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()
    });
    let replaced = written.and_then(|()| std::fs::rename(&fresh, path));
    if replaced.is_err() {
        // The reason matters more than a file that could not be removed either.
        let _ = std::fs::remove_file(&fresh);
    }
    replaced
}
