//! What makes a stream longer or shorter: XADD, XTRIM, XDEL, XSETID. What becomes of references to entries is in `refs`.
use polder_table::Stop;
use polder_values::stream::{Draft, Id, Range};

use super::id::{self, Wanted};
use super::producers::{self, Origin};
use super::refs::{self, Excess, References};
use super::{find_draft, publish, reply_id};
use polder_calls::call::wrong_arity;
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};
use polder_calls::settings::id as setting;

/// What is to go from the beginning of a stream.
#[derive(Clone, Copy)]
enum Threshold {
    /// All but the last this many.
    Length(u64),
    /// All before this.
    First(Id),
}

/// How a stream is to be trimmed.
#[derive(Clone, Copy)]
struct Trim {
    threshold: Threshold,
    /// Only whole nodes, as Redis counts them, and no more entries than this; none without `~`.
    approximate: Option<u64>,
    references: References,
}

/// What trimming took away: how many entries, and which, unless they were the first ones.
#[derive(Default)]
struct Trimmed {
    count: u64,
    scattered: Vec<Id>,
}

/// The options of XADD and XTRIM.
struct Options<'c> {
    origin: Option<Origin<'c>>,
    trim: Option<Trim>,
    may_make: bool,
    /// XADD's id, and the number of the argument that it is.
    wanted: Wanted,
    at: usize,
}

/// Reads the options that stand from argument 2 on; those of XADD end with an id.
fn options<'c>(call: &Call<'_>, args: &[&'c [u8]], adds: bool) -> Result<Options<'c>, Stop> {
    let (mut threshold, mut approximate, mut limit, mut references) = (None, false, None, None);
    let (mut may_make, mut wanted, mut at, mut origin) = (true, Wanted::Any, 2, None);
    while let Some(&option) = args.get(at) {
        let next = args.get(at + 1).copied();
        match next {
            _ if adds && option == b"*" => break,
            Some(mut next) if is(option, "MAXLEN") || is(option, "MINID") => {
                if threshold.is_some() {
                    return Err(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
                            .into(),
                    );
                }
                approximate = false;
                if let (b"~" | b"=", Some(&after)) = (next, args.get(at + 2)) {
                    approximate = next == b"~";
                    (next, at) = (after, at + 1);
                }
                threshold = Some(if is(option, "MAXLEN") {
                    Threshold::Length(natural(next, "MAXLEN")?)
                } else {
                    Threshold::First(id::exact(next)?)
                });
                at += 2;
            }
            Some(next) if is(option, "LIMIT") => {
                limit = Some(natural(next, "LIMIT")?);
                at += 2;
            }
            _ if references.is_none() && References::parse(option).is_some() => {
                references = References::parse(option);
                at += 1;
            }
            _ if adds && is(option, "NOMKSTREAM") => {
                may_make = false;
                at += 1;
            }
            _ if adds => match Origin::parse(&args[at..])? {
                Some(_) if origin.is_some() => {
                    return Err("ERR syntax error, IDMP/IDMPAUTO specified multiple times".into());
                }
                Some((named, words)) => (origin, at) = (Some(named), at + words),
                None => {
                    wanted = Wanted::parse(option)?;
                    break;
                }
            },
            _ => return Err(SYNTAX.into()),
        }
    }
    // A primary tells which id it has given.
    if origin.is_some() && wanted != Wanted::Any && !call.table.imports() {
        return Err("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs".into());
    }
    let trim = checked_trim(call, adds, threshold, approximate, limit)?;
    let trim = trim.map(|trim| Trim { references: references.unwrap_or_default(), ..trim });
    Ok(Options { origin, trim, may_make, wanted, at })
}

fn natural(text: &[u8], option: &str) -> Result<u64, Stop> {
    u64::try_from(integer(text)?).map_err(|_| format!("ERR The {option} argument must be >= 0.").into())
}

fn checked_trim(
    call: &Call<'_>,
    adds: bool,
    threshold: Option<Threshold>,
    approximate: bool,
    limit: Option<u64>,
) -> Result<Option<Trim>, Stop> {
    if threshold.is_none() && limit.is_some_and(|limit| limit > 0) {
        return Err("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy".into());
    }
    if threshold.is_none() && !adds {
        return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
    }
    if limit.is_some() && !approximate {
        return Err("ERR syntax error, LIMIT cannot be used without the special ~ option".into());
    }
    let most = || match limit {
        Some(0) => u64::MAX,
        Some(limit) => limit,
        None => match node_entries(call).saturating_mul(100) {
            0 => 10_000,
            entries => entries.min(1_000_000),
        },
    };
    let references = References::default();
    Ok(threshold.map(|threshold| Trim { threshold, approximate: approximate.then(most), references }))
}

/// Entries that a node of Redis would have at most; 0 for no such limit.
fn node_entries(call: &Call<'_>) -> u64 {
    call.settings.number(const { setting("stream-node-max-entries") }) as u64
}

/// Trims.
fn trim(call: &Call<'_>, draft: &mut Draft<'_>, trim: &Trim) -> Result<Trimmed, Stop> {
    if trim.references == References::Acked && draft.view(call.txn).groups_len() > 0 {
        return trim_acked(call, draft, trim);
    }
    let most = trim.approximate.unwrap_or(u64::MAX);
    let may_go = match trim.threshold {
        Threshold::Length(length) => draft.len().saturating_sub(length),
        Threshold::First(first) => match first.previous() {
            Some(end) => {
                draft.view(call.txn).count(&Range { end, limit: most.saturating_add(1), ..Range::ALL })?
            }
            None => 0,
        },
    };
    let (len, node) = (draft.len(), node_entries(call));
    let before = draft.view(call.txn).added().saturating_sub(len);
    let looks = trim.references != References::Keep;
    let count = match trim.approximate {
        // Redis looks at each entry then, and leaves no more of them than it must.
        Some(most) if looks => may_go.min(whole_nodes(before, len, most, node)),
        Some(most) => whole_nodes(before, len, may_go.min(most), node),
        None => may_go,
    };
    match looks {
        true => refs::trim_with_references(call, draft, count)?,
        false => draft.trim(call.txn, count)?,
    }
    Ok(Trimmed { count, scattered: Vec::new() })
}

/// Takes out what is to go and has no references.
fn trim_acked(call: &Call<'_>, draft: &mut Draft<'_>, trim: &Trim) -> Result<Trimmed, Stop> {
    let (end, len_max) = match trim.threshold {
        Threshold::Length(length) => (Some(Id::MAX), length),
        Threshold::First(first) => (first.previous(), 0),
    };
    let Some(end) = end else { return Ok(Trimmed::default()) };
    let most = trim.approximate.unwrap_or(u64::MAX);
    let excess = Excess { end, len_max, most, node: node_entries(call) };
    let (count, scattered) = refs::trim_acked(call, draft, &excess)?;
    Ok(Trimmed { count, scattered })
}

/// How many of `len` entries Redis would remove with `~`: whole nodes of `node` entries, of the
/// first ones that may go. Where its nodes end follows from how many entries came before these, as
/// long as none was deleted between them.
fn whole_nodes(before: u64, len: u64, may_go: u64, node: u64) -> u64 {
    if may_go >= len {
        return len;
    }
    let Some(lacking) = before.checked_rem(node) else { return 0 };
    let whole = lacking + may_go;
    (whole - whole % node).saturating_sub(lacking)
}

/// What an XADD says, as far as it can be understood without its stream: its options, and fields and values in turn.
fn entry<'c>(call: &Call<'_>, args: &'c [&'c [u8]]) -> Result<(Options<'c>, &'c [&'c [u8]]), Stop> {
    let options = options(call, args, true)?;
    let pairs = args.get(options.at + 1..).unwrap_or_default();
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(wrong_arity(call.command));
    }
    if options.wanted == Wanted::Exactly(Id::MIN) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    Ok((options, pairs))
}

/// Adds an entry to a stream, and trims it; what is refused has changed nothing.
fn add(
    call: &Call<'_>,
    draft: &mut Draft<'_>,
    options: &Options<'_>,
    pairs: &[&[u8]],
) -> Result<(Id, Trimmed), Stop> {
    let last = draft.last_given(call.txn)?;
    if last == Id::MAX {
        return Err("ERR The stream has exhausted the last possible ID, unable to add more items".into());
    }
    let Some(id) = options.wanted.after(last, call.txn.now_ms()) else {
        return Err("ERR The ID specified in XADD is equal or smaller than the target stream top item".into());
    };
    draft.append(call.txn, id, pairs)?;
    call.notify('t', "xadd", call.args[1]);
    let trimmed = match &options.trim {
        Some(wanted) => trim(call, draft, wanted)?,
        None => Trimmed::default(),
    };
    if trimmed.count > 0 {
        call.notify('t', "xtrim", call.args[1]);
    }
    Ok((id, trimmed))
}

pub(super) fn xadd(call: &mut Call<'_>) -> Outcome {
    let (key, (options, pairs)) = (call.args[1], entry(call, call.args)?);
    let (found, mut draft) = match find_draft(call, key)? {
        Some((found, draft)) => (Some(found), draft),
        None if options.may_make => (None, Draft::default()),
        None => {
            call.reply.null();
            return Ok(());
        }
    };
    let named = options.origin.map(|origin| (origin.producer, origin.iid(pairs)));
    if let Some((producer, iid)) = &named {
        let known = match options.wanted {
            // An entry that a primary adds has its id: this one was there.
            Wanted::Any if call.table.imports() => Some(Id::MIN),
            Wanted::Any => producers::find(call, &draft, producer, iid)?,
            _ => None,
        };
        if let Some(id) = known {
            producers::note_duplicate(call, key, &mut draft);
            publish(call, key, found, &mut draft)?;
            reply_id(call.reply, id);
            return Ok(());
        }
    }
    let (id, trimmed) = add(call, &mut draft, &options, pairs)?;
    tell_added(call, &draft, &options, (id, pairs), &trimmed);
    if let Some((producer, iid)) = &named {
        producers::note(call, key, &mut draft, (producer, iid), id)?;
    }
    publish(call, key, found, &mut draft)?;
    reply_id(call.reply, id);
    Ok(())
}

/// Says in the change log what was added, and what was left of the stream where it was to be trimmed.
fn tell_added(
    call: &Call<'_>,
    draft: &Draft<'_>,
    options: &Options<'_>,
    (id, pairs): (Id, &[&[u8]]),
    trimmed: &Trimmed,
) {
    if !call.tells_itself() {
        return;
    }
    let (id, len) = (id.to_string(), draft.len().to_string());
    let mut words: Vec<&[u8]> = vec![b"XADD", call.args[1]];
    if options.trim.is_some() && trimmed.scattered.is_empty() {
        words.extend([&b"MAXLEN"[..], b"=", len.as_bytes()]);
    }
    words.push(id.as_bytes());
    words.extend(pairs);
    call.tell(&words);
    refs::tell_ids(call, &[b"XDEL", call.args[1]], &trimmed.scattered);
}

/// Adds for as many calls as are not refused, to a stream that is there.
pub(super) fn xadd_many(call: &mut Call<'_>, calls: &[&[&[u8]]]) -> Result<usize, Stop> {
    let Some((found, mut draft)) = find_draft(call, call.args[1])? else { return Ok(0) };
    let mut done = 0;
    for args in calls {
        let added = entry(call, args).and_then(|(options, pairs)| match options.origin {
            // That is the command's own function's business.
            Some(_) => Ok(None),
            None => add(call, &mut draft, &options, pairs).map(Some),
        });
        match added {
            Ok(Some((id, _))) => reply_id(call.reply, id),
            Ok(None) => break,
            Err(Stop::Refused(_)) => break,
            Err(other) => return Err(other),
        }
        done += 1;
    }
    if done > 0 {
        publish(call, call.args[1], Some(found), &mut draft)?;
    }
    Ok(done)
}

pub(super) fn xtrim(call: &mut Call<'_>) -> Outcome {
    let (key, options) = (call.args[1], options(call, call.args, false)?);
    let mut gone = 0;
    if let (Some((found, mut draft)), Some(wanted)) = (find_draft(call, key)?, &options.trim) {
        let trimmed = trim(call, &mut draft, wanted)?;
        gone = trimmed.count;
        if gone > 0 {
            refs::tell_ids(call, &[b"XDEL", key], &trimmed.scattered);
            if call.tells_itself() && trimmed.scattered.is_empty() {
                call.tell(&[b"XTRIM", key, b"MAXLEN", b"=", draft.len().to_string().as_bytes()]);
            }
            publish(call, key, Some(found), &mut draft)?;
            call.notify('t', "xtrim", key);
        }
    }
    call.reply.integer(gone as i64);
    Ok(())
}

pub(super) fn xdel(call: &mut Call<'_>) -> Outcome {
    let key = call.args[1];
    let Some((found, mut draft)) = find_draft(call, key)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let ids = call.args[2..].iter().map(|text| id::exact(text)).collect::<Result<Vec<_>, _>>()?;
    let mut gone = 0;
    for id in ids {
        if draft.remove(call.txn, id)? {
            draft.note_deleted(id);
            gone += 1;
        }
    }
    if gone > 0 {
        publish(call, key, Some(found), &mut draft)?;
        call.notify('t', "xdel", key);
    }
    call.reply.integer(gone);
    Ok(())
}

pub(super) fn xsetid(call: &mut Call<'_>) -> Outcome {
    let (key, last) = (call.args[1], id::exact(call.args[2])?);
    let (mut added, mut max_deleted) = (None, Id::MIN);
    for option in call.args[3..].chunks(2) {
        match option {
            [word, count] if is(word, "ENTRIESADDED") => {
                added =
                    Some(u64::try_from(integer(count)?).map_err(|_| "ERR entries_added must be positive")?);
            }
            [word, text] if is(word, "MAXDELETEDID") => {
                max_deleted = id::exact(text)?;
                if last < max_deleted {
                    return Err(
                        "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
                            .into(),
                    );
                }
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let (found, mut draft) = find_draft(call, key)?.ok_or("ERR no such key")?;
    let stream = draft.view(call.txn);
    if last < stream.max_deleted() {
        return Err("ERR The ID specified in XSETID is smaller than current max_deleted_entry_id".into());
    }
    if stream.last()?.is_some_and(|top| last < top) {
        return Err("ERR The ID specified in XSETID is smaller than the target stream top item".into());
    }
    if added.is_some_and(|added| added < stream.len()) {
        return Err(
            "ERR The entries_added specified in XSETID is smaller than the target stream length".into()
        );
    }
    draft.set_last_given(last);
    if let Some(added) = added {
        draft.set_added(added);
    }
    if max_deleted != Id::MIN {
        draft.set_max_deleted(max_deleted);
    }
    publish(call, key, Some(found), &mut draft)?;
    call.notify('t', "xsetid", key);
    call.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approximate_trimming_takes_whole_nodes_and_never_more_than_asked() {
        for (before, len, may_go, node, gone) in [
            (0, 250, 150, 100, 100),
            (0, 250, 250, 100, 250),
            (0, 250, 120, 100, 100),
            (0, 250, 99, 100, 0),
            (0, 250, 150, 0, 0),
            (0, 250, 250, 0, 250),
            (0, 50, 50, 1, 50),
            (0, 0, 0, 100, 0),
            // 445 were trimmed exactly: 55 are left of the first node.
            (445, 555, 111, 100, 55),
            (445, 555, 54, 100, 0),
            (500, 500, 100, 100, 100),
        ] {
            assert_eq!(whole_nodes(before, len, may_go, node), gone, "{before} {len} {may_go} {node}");
        }
    }
}
