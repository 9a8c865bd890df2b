//! CLIENT TRACKING and what belongs to it: clients that cache what they read are told when it changes.
use std::sync::Arc;

use polder_base::number;
use polder_hub::track::{self, Redirect, Terms};
use polder_table::{Db, Stop, Table, Txn};

use crate::cross_process;
use crate::row::SessionCall;
use crate::session::Session;
pub use crate::session::tracked::{Choice, Read, Tracking};
use polder_calls::call::{Outcome, SYNTAX, is};
use polder_calls::command::{Command, OWN_CONNECTION, READONLY, SCRIPTS};

const OTHER_CACHING: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.";
const OTHER_BROADCAST: &str = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.";

/// What the words of a CLIENT TRACKING say.
#[derive(Default)]
struct Wanted {
    redirect: Option<Redirect>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<Vec<u8>>,
}

impl Wanted {
    fn read(call: &mut SessionCall<'_>) -> Result<Wanted, Stop> {
        let mut wanted = Wanted::default();
        let args = call.args;
        let mut words = args[3..].iter();
        while let Some(word) = words.next() {
            match *word {
                word if is(word, "BCAST") => wanted.broadcast = true,
                word if is(word, "OPTIN") => wanted.opt_in = true,
                word if is(word, "OPTOUT") => wanted.opt_out = true,
                word if is(word, "NOLOOP") => wanted.no_loop = true,
                word if is(word, "REDIRECT") => {
                    let target = words.next().ok_or(SYNTAX)?;
                    if wanted.redirect.is_some() {
                        return Err("ERR A client can only redirect to a single other client".into());
                    }
                    let id = number::integer(target).ok_or(polder_calls::call::NOT_AN_INTEGER)?;
                    let known = u64::try_from(id).map_or(Ok(None), |id| redirect_to(call, id))?;
                    wanted.redirect =
                        Some(known.ok_or("ERR The client ID you want redirect to does not exist")?);
                }
                word if is(word, "PREFIX") => wanted.prefixes.push(words.next().ok_or(SYNTAX)?.to_vec()),
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(wanted)
    }

    /// Whether this can be, all by itself and after what was before.
    fn check(&self, before: Option<&Tracking>) -> Outcome {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
        }
        if before.is_some_and(|before| before.broadcasts() != self.broadcast) {
            return Err(OTHER_BROADCAST.into());
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
        }
        if self.opt_in && self.opt_out {
            return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
        }
        let was = before.map_or(Choice::All, |before| before.choice);
        if self.opt_in && was == Choice::OptOut || self.opt_out && was == Choice::OptIn {
            return Err(OTHER_CACHING.into());
        }
        if self.broadcast {
            let known = before.and_then(|before| before.terms.prefixes.as_deref()).unwrap_or_default();
            check_prefixes(known, &self.prefixes)?;
        }
        Ok(())
    }
}

/// The client with this number, wherever it is.
fn redirect_to(call: &mut SessionCall<'_>, id: u64) -> Result<Option<Redirect>, Stop> {
    let own = if id == call.session.identity.id {
        call.table.seat().ok().map(|seat| (seat.index(), seat.life()))
    } else {
        call.host.home(id)
    };
    let thread = match own {
        Some(thread) => Some(thread),
        None => cross_process::home_of(call, id)?,
    };
    Ok(thread.map(|thread| Redirect { client: id, thread }))
}

fn check_prefixes(known: &[Vec<u8>], new: &[Vec<u8>]) -> Outcome {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refuse = |prefix: &[u8], what: &str, other: &[u8]| {
        let (prefix, other) = (String::from_utf8_lossy(prefix), String::from_utf8_lossy(other));
        Err(format!("ERR Prefix '{prefix}' overlaps with {what} prefix '{other}'. Prefixes for a single client must not overlap.").into())
    };
    for (at, prefix) in new.iter().enumerate() {
        if let Some(other) = known.iter().find(|other| overlap(prefix, other)) {
            return refuse(prefix, "an existing", other);
        }
        if let Some(other) = new[at + 1..].iter().find(|other| overlap(prefix, other)) {
            return refuse(prefix, "another provided", other);
        }
    }
    Ok(())
}

/// CLIENT TRACKING
pub fn tracking(call: &mut SessionCall<'_>) -> Outcome {
    let wanted = Wanted::read(call)?;
    match call.args[2] {
        word if is(word, "ON") => begin(call, wanted)?,
        word if is(word, "OFF") => call.session.track_nothing(call.table),
        _ => return Err(SYNTAX.into()),
    }
    call.reply.ok();
    Ok(())
}

fn begin(call: &mut SessionCall<'_>, wanted: Wanted) -> Outcome {
    let before = call.session.listening.tracking.as_deref();
    wanted.check(before)?;
    let prefixes = wanted.broadcast.then(|| {
        let mut prefixes = before.and_then(|before| before.terms.prefixes.clone()).unwrap_or_default();
        prefixes.extend(wanted.prefixes);
        if prefixes.is_empty() {
            prefixes.push(Vec::new());
        }
        prefixes
    });
    let choice = match (wanted.opt_in, wanted.opt_out) {
        (true, _) => Choice::OptIn,
        (_, true) => Choice::OptOut,
        _ => Choice::All,
    };
    if call.session.identity.id == 0 {
        call.session.identity.id = polder_hub::next_client(call.table);
    }
    if !call.session.caller.atomic {
        polder_hub::attend(call.table)?;
    }
    let terms = Terms { redirect: wanted.redirect, no_loop: wanted.no_loop, prefixes };
    let prefix_bytes =
        terms.prefixes.iter().flatten().map(|prefix| 2 * (prefix.len() + size_of::<Vec<u8>>())).sum();
    track::note_terms(call.table, call.session.identity.id, Some(terms.clone()));
    let caching = before_caching(call.session);
    call.session.listening.tracking =
        Some(Arc::new(Tracking { terms, choice, caching, broken: false, prefix_bytes }));
    Ok(())
}

fn before_caching(session: &Session) -> bool {
    session.listening.tracking.as_ref().is_some_and(|tracking| tracking.caching)
}

impl Session {
    /// Ends tracking.
    pub fn track_nothing(&mut self, table: &Table) {
        if self.listening.tracking.take().is_some() {
            track::note_terms(table, self.identity.id, None);
        }
    }

    /// The call of CLIENT CACHING is the one before this.
    pub(crate) fn end_caching(&mut self, command: &Command) {
        if let Some(tracking) = self.listening.tracking.as_mut().filter(|tracking| tracking.caching)
            && self.multi.is_none()
            && !command.has(OWN_CONNECTION)
        {
            Arc::make_mut(tracking).caching = false;
        }
    }

    /// Notes the keys that a call is about to read in a database, if its client wants to be told of their changes.
    pub(crate) fn note_reads(&mut self, table: &Table, db: Db, command: &Command, args: &[&[u8]]) {
        // What a script reads is noted when it reads it.
        if command.has(READONLY) && !command.has(SCRIPTS) && self.remembers_reads() {
            let mut keys: Vec<(Db, &[u8])> = Vec::new();
            command.each_key(args, |at, _| keys.push((db, args[at])));
            let unsure = track::note_reads(table, self.identity.id, &keys);
            self.listening.unsure.extend(unsure.into_iter().map(<[u8]>::to_vec));
        }
    }

    fn remembers_reads(&self) -> bool {
        self.listening.tracking.as_ref().is_some_and(|tracking| tracking.remembers())
    }

    /// As [`Session::note_reads`], inside a transaction that writes as well: they are noted with its commit.
    pub(crate) fn note_reads_inside(
        &mut self,
        table: &Table,
        txn: &Txn<'_>,
        command: &Command,
        args: &[&[u8]],
    ) -> Outcome {
        if !command.has(READONLY) || command.has(SCRIPTS) || !self.remembers_reads() {
            return Ok(());
        }
        let mut keys: Vec<&[u8]> = Vec::new();
        command.each_key(args, |at, _| keys.push(args[at]));
        for key in keys {
            track::note_read_inside(table, txn, key)?;
            self.listening.reads.push(Read {
                db: self.caller.db,
                key: key.to_vec(),
                changes_before: txn.changes_noted(),
            });
        }
        Ok(())
    }

    /// Before the commit: what has been read and was changed after that is not worth being remembered.
    pub(crate) fn settle_reads(&mut self, txn: &Txn<'_>) -> Outcome {
        if self.listening.reads.is_empty() {
            return Ok(());
        }
        let no_loop = self.listening.tracking.as_ref().is_some_and(|tracking| tracking.terms.no_loop);
        let is_old = |read: &Read| txn.has_changed_since(read.changes_before, read.db, &read.key);
        let (old, fresh) = std::mem::take(&mut self.listening.reads).into_iter().partition(is_old);
        self.listening.reads = fresh;
        if !no_loop {
            self.listening.unsure.extend(Vec::into_iter(old).map(|read: Read| read.key));
        }
        txn.await_map()
    }
}

/// CLIENT CACHING
pub fn caching(call: &mut SessionCall<'_>) -> Outcome {
    const NO_CHOICE: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
    let tracking = Arc::make_mut(call.session.listening.tracking.as_mut().ok_or(NO_CHOICE)?);
    match (call.args[2], tracking.choice) {
        (word, Choice::OptIn) if is(word, "YES") => tracking.caching = true,
        (word, _) if is(word, "YES") => {
            return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into());
        }
        (word, Choice::OptOut) if is(word, "NO") => tracking.caching = true,
        (word, _) if is(word, "NO") => {
            return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into());
        }
        _ => return Err(SYNTAX.into()),
    }
    call.reply.ok();
    Ok(())
}

/// CLIENT GETREDIR
pub fn redirection(call: &mut SessionCall<'_>) -> Outcome {
    let redirect = call.session.listening.tracking.as_ref().map_or(-1, |tracking| tracking.redirect() as i64);
    call.reply.integer(redirect);
    Ok(())
}

/// CLIENT TRACKINGINFO
pub fn info(call: &mut SessionCall<'_>) -> Outcome {
    let tracking = call.session.listening.tracking.as_deref();
    let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
    if let Some(tracking) = tracking {
        let choice: &[&str] = match (tracking.choice, tracking.caching) {
            (Choice::All, _) => &[],
            (Choice::OptIn, false) => &["optin"],
            (Choice::OptIn, true) => &["optin", "caching-yes"],
            (Choice::OptOut, false) => &["optout"],
            (Choice::OptOut, true) => &["optout", "caching-no"],
        };
        flags.extend(tracking.broadcasts().then_some("bcast"));
        flags.extend(choice);
        flags.extend(tracking.terms.no_loop.then_some("noloop"));
        flags.extend(tracking.broken.then_some("broken_redirect"));
    }
    call.reply.map(3);
    call.reply.bulk(b"flags");
    call.reply.set(flags.len());
    flags.iter().for_each(|flag| call.reply.bulk(flag.as_bytes()));
    call.reply.bulk(b"redirect");
    call.reply.integer(tracking.map_or(-1, |tracking| tracking.redirect() as i64));
    call.reply.bulk(b"prefixes");
    let prefixes = tracking.and_then(|tracking| tracking.terms.prefixes.as_deref()).unwrap_or_default();
    call.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| call.reply.bulk(prefix));
    Ok(())
}
