//! Items: strings as memcached and HTTP see them, with flags, a CAS and an expiry in one call.
//!
//! The protocols of other doors call these rows, and RESP clients and scripts may call them, too. The CAS is the version of
//! the entry, so it costs no memory. It changes with each change of the key, also with a change of its expiry.
//!
//! | key of another type | reply |
//! |---|---|
//! | ITEM.GET | none, as if there were no such key |
//! | ITEM.SET without condition or with REPLACE, ITEM.DEL, ITEM.EXP | they work |
//! | ITEM.SET with ADD | NOT_STORED |
//! | ITEM.SET with CAS, ITEM.CAT, ITEM.INC | WRONGTYPE |
use polder_base::{Item, Written, number};
use polder_table::{Found, New, Stop, clock};
use polder_values::{Kind, string};

use polder_calls::call::{Call, Outcome, SYNTAX, WRONG_TYPE, is};
use polder_calls::command::{Command, FAST, GROWS, read, write};
use polder_calls::facts::Tells::Own;

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("ITEM.DEL", "key [CAS cas]", del)
        .tells(Own("`DEL key`"))
        .with(FAST)
        .touches(&["RM delete"])
        .about("Deletes an item, if it has this CAS."),
    read("ITEM.GET", "key [PEEK] [HEAD]", get)
        .with(FAST)
        .about("Returns a string with its flags, CAS and time to live. PEEK does not count as an access, HEAD leaves the value out."),
    write(
        "ITEM.SET",
        "key value [ADD|REPLACE|CAS cas] [FLAGS flags] \
         [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]",
        set,
    )
    .tells(Own("`ITEM.SET key value`, with `FLAGS` and `PXAT ms` where there are such"))
    .with(GROWS)
    .touches(&["OW update"])
    .about("Sets a string with its flags and expiry: always, or only if the key is absent or present, or has this CAS."),
];

const NOT_A_CAS: &str = "ERR CAS is not a number; take it from the reply of ITEM.GET";
const NOT_FLAGS: &str = "ERR FLAGS must be a number from 0 to 4294967295";
const NOT_A_TIME: &str = "ERR the expiry is not a number or out of range";

/// A word of the arguments that says what the next argument is.
const SPANS: [(&str, i64, bool); 4] = [("EX", 1000, false), ("PX", 1, false), ("EXAT", 1000, true), ("PXAT", 1, true)];

/// What is to be true before an item is written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Condition {
    #[default]
    None,
    Absent,
    Present,
    Cas(u64),
}

/// The options of the ITEM commands; each command takes some of them.
#[derive(Default)]
struct Options {
    condition: Condition,
    flags: u32,
    /// In milliseconds since the Unix epoch. A time that has passed says that the item expires at once.
    expiry_ms: Option<u64>,
    peek: bool,
    head: bool,
}

impl Options {
    fn parse(call: &Call<'_>, args: &[&[u8]], allowed: &[&str]) -> Result<Options, Stop> {
        let mut options = Options::default();
        let mut rest = args;
        while let [word, later @ ..] = rest {
            rest = later;
            let Some(option) = allowed.iter().find(|option| is(word, option)) else { return Err(SYNTAX.into()) };
            match *option {
                "ADD" => options.condition = Condition::Absent,
                "REPLACE" => options.condition = Condition::Present,
                "PEEK" => options.peek = true,
                "HEAD" => options.head = true,
                _ => {
                    let [value, later @ ..] = rest else { return Err(SYNTAX.into()) };
                    rest = later;
                    options.take(call, option, value)?;
                }
            }
        }
        Ok(options)
    }

    fn take(&mut self, call: &Call<'_>, option: &str, value: &[u8]) -> Result<(), Stop> {
        match option {
            "CAS" => self.condition = Condition::Cas(unsigned(value).ok_or(NOT_A_CAS)?),
            "FLAGS" => self.flags = unsigned(value).and_then(|flags| u32::try_from(flags).ok()).ok_or(NOT_FLAGS)?,
            _ => {
                let (_, unit_ms, absolute) = SPANS.into_iter().find(|(name, ..)| *name == option).ok_or(SYNTAX)?;
                let base_ms = if absolute { 0 } else { call.txn.now_ms() as i64 };
                let moment = number::integer(value).and_then(|count| count.checked_mul(unit_ms)).and_then(|ms| ms.checked_add(base_ms));
                self.expiry_ms = Some(moment.ok_or(NOT_A_TIME)?.max(0) as u64);
            }
        }
        Ok(())
    }

    /// Whether what is written expires at once.
    fn is_past(&self, call: &Call<'_>) -> bool {
        self.expiry_ms.is_some_and(|expiry_ms| expiry_ms <= call.txn.now_ms())
    }
}

/// The number that a text of digits is.
fn unsigned(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// What a condition says about the key.
fn refusal(condition: Condition, found: &Option<Found<'_>>) -> Result<Option<Written>, Stop> {
    Ok(match (condition, found) {
        (Condition::None, _) => None,
        (Condition::Absent, found) => found.is_some().then_some(Written::NotStored),
        (Condition::Present, found) => found.is_none().then_some(Written::NotStored),
        (Condition::Cas(_), None) => Some(Written::NotFound),
        (Condition::Cas(_), Some(found)) if found.kind != Kind::String => return Err(WRONG_TYPE.into()),
        (Condition::Cas(cas), Some(found)) => (cas != found.version).then_some(Written::Exists),
    })
}

fn get(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, &call.args[2..], &["PEEK", "HEAD"])?;
    let key = call.args[1];
    let found = if options.peek { call.peek(key)? } else { call.find(key)? };
    reply_item(call, key, found.filter(|found| found.kind == Kind::String), !options.head)
}

/// Replies with an item, or with null when there is none.
fn reply_item(call: &mut Call<'_>, key: &[u8], found: Option<Found<'_>>, has_value: bool) -> Outcome {
    let Some(found) = found else {
        call.reply.null();
        return Ok(());
    };
    let now_ms = call.txn.now_ms();
    let bytes = string::len(&found.value);
    let item = Item {
        key,
        flags: found.flags,
        cas: found.version,
        ttl_ms: found.expiry_ms.map(|expiry_ms| expiry_ms.saturating_sub(now_ms)),
        idle_seconds: clock::idle_seconds(found.clock, now_ms),
        bytes,
        ..Item::default()
    };
    call.reply.item(&item, has_value);
    if has_value {
        super::string::reply_range(call.reply, call.txn, found.value, 0, bytes)?;
    }
    Ok(())
}

fn set(call: &mut Call<'_>) -> Outcome {
    let allowed = &["ADD", "REPLACE", "CAS", "FLAGS", "EX", "PX", "EXAT", "PXAT"];
    let options = Options::parse(call, &call.args[3..], allowed)?;
    let (key, bytes) = (call.args[1], call.args[2]);
    let found = if options.condition == Condition::None { None } else { call.peek(key)? };
    if let Some(refused) = refusal(options.condition, &found)? {
        call.reply.written(refused);
        return Ok(());
    }
    if options.is_past(call) {
        if call.remove(key)? {
            call.notify('g', "del", key);
        }
        call.reply.written(Written::Done(0));
        return Ok(());
    }
    let value = string::make(call.txn, bytes)?;
    let Options { flags, expiry_ms, .. } = options;
    call.put(key, &New { flags, expiry_ms, ..New::of(Kind::String, value) })?;
    call.notify('$', "set", key);
    if expiry_ms.is_some() {
        call.notify('g', "expire", key);
    }
    reply_written(call, key)
}

/// Replies with the CAS that this call has given an item.
fn reply_written(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let cas = call.txn.peek(call.db(), key)?.map_or(0, |found| found.version);
    call.reply.written(Written::Done(cas));
    Ok(())
}

fn del(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, &call.args[2..], &["CAS"])?;
    let key = call.args[1];
    let found = call.peek(key)?;
    if let Some(refused) = refusal(options.condition, &found)? {
        call.reply.written(refused);
        return Ok(());
    }
    let written = if call.remove(key)? {
        call.notify('g', "del", key);
        Written::Done(0)
    } else {
        Written::NotFound
    };
    call.reply.written(written);
    Ok(())
}
