//! Items: strings as memcached and HTTP see them, with flags, a CAS and an expiry in one call.
//!
//! The protocols of other doors call these rows, and RESP clients and scripts may call them, too. The CAS is the version of
//! the entry, so it costs no memory. What changes a mark or an expiry alone keeps the CAS, as in memcached: the item then
//! carries the version that its value was written with. Else the store of the client that is to renew an item would fail
//! by the very mark that says so. ITEM.DEL with STALE is the exception: earlier CAS must not match any more.
//!
//! | key of another type | reply |
//! |---|---|
//! | ITEM.GET, ITEM.GAT | none, as if there were no such key |
//! | ITEM.SET without condition or with REPLACE, ITEM.DEL, ITEM.EXP | they work |
//! | ITEM.SET with ADD | NOT_STORED |
//! | ITEM.SET with CAS, ITEM.CAT, ITEM.INC | WRONGTYPE |
use polder_base::number::{self, unsigned};
use polder_base::{Item, Recache, Reply, Written};
use polder_table::{Attributes, Counter, Found, ItemExtras, Mode, New, Stop, clock};
use polder_values::string::{self, Draft};
use polder_values::{Kind, Value};

use polder_calls::call::{Call, Outcome, SYNTAX, WRONG_TYPE, is};
use polder_calls::command::{Command, FAST, FastCall, GROWS, read, write};
use polder_calls::facts::Tells::Own;

use crate::item_effect::{tell_edited, tell_item};

/// How a changed item is told.
const SET_AGAIN: &str = "`SET key value`, with `PXAT ms`; then `ECHO polder:item ...` where it has flags, a chosen CAS, a type or a mark";
/// How an item with the same value is told.
const EDITED: &str = "`PEXPIREAT key ms` or `PERSIST key`; `ECHO polder:item ...` where flags, a chosen CAS, a type or a mark have changed";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("ITEM.CAT", "key value <APPEND|PREPEND> [CAS cas] [NEWCAS new-cas] [CREATE] [FLAGS flags] [EX seconds|EXAT unix-time-seconds]", cat)
        .tells(Own(SET_AGAIN))
        .with(GROWS)
        .about("Writes bytes behind the value of an item, or in front of it. CREATE makes the item where there is none, with these flags and this expiry."),
    write("ITEM.DEL", "key [CAS cas] [NEWCAS new-cas] [STALE] [EMPTY] [EX seconds|EXAT unix-time-seconds|PERSIST]", del)
        .tells(Own("`DEL key`, or what stays, as `ITEM.SET` and `ITEM.EXP` tell it"))
        .with(FAST)
        .touches(&["RW access delete"])
        .about("Deletes an item. STALE keeps it and marks it as stale, with a new expiry if one is given; EMPTY keeps it without its value and flags."),
    write("ITEM.EXP", "key <EX seconds|EXAT unix-time-seconds|PERSIST>", exp)
        .tells(Own("`PEXPIREAT key ms`, `PERSIST key` or `DEL key`"))
        .with(FAST)
        .about("Sets the expiry of an item, or removes it."),
    write(
        "ITEM.GAT",
        "key [PEEK] [HEAD] [NOWIN] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds] [RECACHE seconds] [NEWCAS new-cas]",
        gat,
    )
    .tells(Own(EDITED))
    .quick(quick_get)
    .with(FAST)
    .reads_where(gat_reads)
    .about(
        "Returns an item and says which client is to renew it. VIVIFY makes an empty item where there is none; RECACHE asks one \
         client to renew an item that expires sooner; where EX, EXAT or PERSIST stand in front of it, it looks at the expiry that they give. \
         NOWIN leaves it to another client to renew the item. NEWCAS is for an item that VIVIFY makes.",
    ),
    read("ITEM.GET", "key [PEEK] [HEAD]", get)
        .quick(quick_get)
        .with(FAST)
        .about("Returns a string with its flags, CAS and time to live. PEEK does not count as an access, HEAD leaves the value out."),
    write(
        "ITEM.INC",
        "key delta [DOWN] [CAS cas] [NEWCAS new-cas] [CREATE initial] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds]",
        inc,
    )
    .tells(Own(SET_AGAIN))
    .with(GROWS | FAST)
    .about(
        "Adds to a number of 64 bits without a sign, which wraps, or subtracts from it, down to 0. CREATE makes an item with this \
         number where there is none, which lives as long as VIVIFY says.",
    ),
    write("ITEM.MARK", "key [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [STALE] [WON]", mark)
        .tells(Own("`ECHO polder:item ...`"))
        .with(FAST)
        .about(
            "Gives an item these flags, this chosen CAS, this content type and these marks, in the place of all that it had; value and expiry stay. It is \
             what a change log says by ECHO.",
        ),
    write(
        "ITEM.SET",
        "key value [ADD|REPLACE|CAS cas] [STALE] [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] \
         [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]",
        set,
    )
    .tells(Own(SET_AGAIN))
    .quick(quick_set)
    .with(GROWS)
    .touches(&["RW access update"])
    .about(
        "Sets a string with its flags and expiry: always, or only if the key is absent or present, or has this CAS. With STALE, a \
         value with an older CAS is stored and marked as stale.",
    ),
];

const NOT_A_CAS: &str = "ERR CAS is not a number; take it from the reply of ITEM.GET";
const NOT_FLAGS: &str = "ERR FLAGS must be a number from 0 to 4294967295";
const NOT_A_TIME: &str = "ERR the expiry is not a number or out of range";
const NOT_A_DELTA: &str = "ERR the delta must be a number from 0 to 18446744073709551615";
const TYPE_TOO_LONG: &str = "ERR the content type is longer than 255 bytes";
/// As memcached says it; the code says that the value is to blame.
const NOT_A_NUMBER: &str = "NOTNUM cannot increment or decrement non-numeric value";

/// A longer VIVIFY is a Unix time, as in memcached.
const RELATIVE_SECONDS_MAX: i64 = 60 * 60 * 24 * 30;

/// A word of the arguments that says what the next argument is.
const SPANS: [(&str, i64, bool); 4] =
    [("EX", 1000, false), ("PX", 1, false), ("EXAT", 1000, true), ("PXAT", 1, true)];

/// What is to be true before an item is written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Condition {
    #[default]
    None,
    Absent,
    Present,
    Cas(u64),
}

/// What is said about an expiry.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Expiry {
    #[default]
    Unsaid,
    Never,
    /// In milliseconds since the Unix epoch. A time that has passed says that the item expires at once.
    At(u64),
}

/// The options of the ITEM commands; each command takes some of them.
#[derive(Default)]
struct Options<'a> {
    condition: Condition,
    flags: u32,
    expiry: Expiry,
    /// Where the item is made.
    vivify: Option<Expiry>,
    /// How much time left is too little, and the expiry that the options in front of it give the item.
    recache: Option<(u64, Expiry)>,
    cas: Option<u64>,
    content_type: &'a [u8],
    initial: Option<u64>,
    peek: bool,
    head: bool,
    no_win: bool,
    stale: bool,
    won: bool,
    empty: bool,
    down: bool,
    prepend: bool,
    append: bool,
    create: bool,
}

/// The options of a command, which its function names: those without a value, and those with one.
struct Allowed {
    words: &'static [&'static str],
    values: &'static [&'static str],
}

impl<'a> Options<'a> {
    fn parse(call: &Call<'_>, args: &[&'a [u8]], allowed: Allowed) -> Result<Options<'a>, Stop> {
        let mut options = Options::default();
        let mut rest = args;
        while let [word, later @ ..] = rest {
            rest = later;
            if let Some(option) = allowed.words.iter().find(|option| is(word, option)) {
                options.note(option);
                continue;
            }
            let option = allowed.values.iter().find(|option| is(word, option)).ok_or(SYNTAX)?;
            let [value, later @ ..] = rest else { return Err(SYNTAX.into()) };
            rest = later;
            options.take(call, option, value)?;
        }
        Ok(options)
    }

    fn note(&mut self, option: &str) {
        match option {
            "ADD" => self.condition = Condition::Absent,
            "REPLACE" => self.condition = Condition::Present,
            "PERSIST" => self.expiry = Expiry::Never,
            "PEEK" => self.peek = true,
            "HEAD" => self.head = true,
            "NOWIN" => self.no_win = true,
            "STALE" => self.stale = true,
            "EMPTY" => self.empty = true,
            "WON" => self.won = true,
            "DOWN" => self.down = true,
            "CREATE" => self.create = true,
            "PREPEND" => self.prepend = true,
            _ => self.append = true,
        }
    }

    fn take(&mut self, call: &Call<'_>, option: &str, value: &'a [u8]) -> Result<(), Stop> {
        match option {
            "CAS" => self.condition = Condition::Cas(unsigned(value).ok_or(NOT_A_CAS)?),
            "NEWCAS" => self.cas = Some(unsigned(value).ok_or(NOT_A_CAS)?),
            "FLAGS" => {
                self.flags = unsigned(value).and_then(|flags| u32::try_from(flags).ok()).ok_or(NOT_FLAGS)?
            }
            "TYPE" if value.len() > 255 => return Err(TYPE_TOO_LONG.into()),
            "TYPE" => self.content_type = value,
            "CREATE" => self.initial = Some(unsigned(value).ok_or(NOT_A_DELTA)?),
            "RECACHE" => {
                self.recache = Some((unsigned(value).ok_or(NOT_A_TIME)?.saturating_mul(1000), self.expiry))
            }
            "VIVIFY" if value == b"0" => self.vivify = Some(Expiry::Never),
            "VIVIFY" => {
                let is_long = number::integer(value).is_some_and(|seconds| seconds > RELATIVE_SECONDS_MAX);
                self.vivify = Some(moment(call, if is_long { "EXAT" } else { "EX" }, value)?);
            }
            _ => self.expiry = moment(call, option, value)?,
        }
        Ok(())
    }

    fn item_extras(&self) -> ItemExtras<'a> {
        ItemExtras { cas: self.cas, content_type: self.content_type, ..ItemExtras::default() }
    }

    fn extras(&self) -> Vec<u8> {
        self.item_extras().encode()
    }
}

/// The time that an option names.
pub(crate) fn moment(call: &Call<'_>, unit: &str, value: &[u8]) -> Result<Expiry, Stop> {
    let (_, unit_ms, absolute) = SPANS.into_iter().find(|(name, ..)| *name == unit).ok_or(SYNTAX)?;
    let base_ms = if absolute { 0 } else { call.txn.now_ms() as i64 };
    let moment = number::integer(value)
        .and_then(|count| count.checked_mul(unit_ms))
        .and_then(|ms| ms.checked_add(base_ms));
    Ok(Expiry::At(moment.ok_or(NOT_A_TIME)?.max(0) as u64))
}

impl Expiry {
    /// Whether what is written expires at once.
    fn is_past(self, call: &Call<'_>) -> bool {
        matches!(self, Expiry::At(ms) if ms <= call.txn.now_ms())
    }

    /// The expiry that an item with this one has afterwards.
    fn after(self, old_ms: Option<u64>) -> Option<u64> {
        match self {
            Expiry::Unsaid => old_ms,
            Expiry::Never => None,
            Expiry::At(ms) => Some(ms),
        }
    }
}

/// The number at the front of a text, as memcached reads it: blanks may stand around it, and anything behind these.
fn leading_number(text: &[u8]) -> Option<u64> {
    unsigned(text.trim_ascii_start().split(u8::is_ascii_whitespace).next()?)
}

/// The CAS of an item.
fn cas_of(found: &Found<'_>) -> u64 {
    if found.extras.is_empty() {
        found.version
    } else {
        ItemExtras::decode(found.extras).cas.unwrap_or(found.version)
    }
}

/// What a condition says about the key.
fn refusal(condition: Condition, found: &Option<Found<'_>>) -> Result<Option<Written>, Stop> {
    Ok(match (condition, found) {
        (Condition::None, _) => None,
        (Condition::Absent, found) => found.is_some().then_some(Written::NotStored),
        (Condition::Present, found) => found.is_none().then_some(Written::NotStored),
        (Condition::Cas(_), None) => Some(Written::NotFound),
        (Condition::Cas(_), Some(found)) if found.kind != Kind::String => return Err(WRONG_TYPE.into()),
        (Condition::Cas(cas), Some(found)) => (cas != cas_of(found)).then_some(Written::Exists),
    })
}

fn get(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(call, &call.args[2..], Allowed { words: &["PEEK", "HEAD"], values: &[] })?;
    let key = call.args[1];
    let found = look(call, key, &options)?;
    reply_item(call, key, found, Recache::None, !options.head)
}

/// The item of a key; a key of another type has none.
fn look<'c>(call: &Call<'c>, key: &[u8], options: &Options<'_>) -> Result<Option<Found<'c>>, Stop> {
    let found = if options.peek { call.peek(key)? } else { call.find(key)? };
    Ok(found.filter(|found| found.kind == Kind::String))
}

/// The fast path of ITEM.GET, and of ITEM.GAT and ITEM.VIEW without options: a packed string that no client is to renew.
pub(crate) fn quick_get(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, key] = call.args else { return false };
    let replied = call.table.quick_view(call.location, key, (Kind::String, call.now_ms), |found| {
        let Some(found) = found else {
            reply.null();
            return Some(Counter::Misses);
        };
        let Value::Packed(bytes) = found.value else { return None };
        let extras = ItemExtras::decode(found.extras);
        if extras.stale || extras.won {
            return None;
        }
        let now_ms = if found.expiry_ms.is_some() { call.exact_ms() } else { call.now_ms };
        reply.item(&item_of(key, &found, now_ms), true);
        reply.bulk(bytes);
        Some(Counter::Hits)
    });
    let Some(counter) = replied else { return false };
    call.table.count_call(counter);
    true
}

/// The fast path of ITEM.SET without conditions, where the reply does not show the CAS: the options are FLAGS and one of EX, PX, EXAT and PXAT, each
/// once, and the expiry lies in the future.
fn quick_set(call: &FastCall<'_>, reply: &mut dyn Reply) -> bool {
    let &[_, key, value, ref options @ ..] = call.args else { return false };
    if reply.shows_cas() {
        return false;
    }
    let done = match options {
        [] => call.table.quick_set(call.location, key, value, call.now_ms, 1),
        _ => quick_attributes(call, options).and_then(|attributes| {
            call.table.quick_set_with(call.location, key, value, attributes, (call.now_ms, 1))
        }),
    };
    if done.is_some() {
        reply.written(Written::Done(0));
    }
    done.is_some()
}

/// What these options say; `None` for others, and where nothing could be stored.
#[inline]
fn quick_attributes(call: &FastCall<'_>, options: &[&[u8]]) -> Option<Attributes> {
    let mut attributes = Attributes::NONE;
    let mut rest = options;
    while let [word, value, later @ ..] = rest {
        rest = later;
        if is(word, "FLAGS") && attributes.flags == 0 {
            attributes.flags = number::integer(value).and_then(|flags| u32::try_from(flags).ok())?;
        } else if attributes.expiry_ms.is_none() {
            let (_, unit_ms, absolute) = SPANS.into_iter().find(|(name, ..)| is(word, name))?;
            let now_ms = call.exact_ms();
            let span = number::integer(value)?.checked_mul(unit_ms)?;
            let moment_ms = span.checked_add(if absolute { 0 } else { now_ms as i64 })?;
            attributes.expiry_ms =
                Some(u64::try_from(moment_ms).ok().filter(|moment_ms| *moment_ms > now_ms)?);
        } else {
            return None;
        }
    }
    rest.is_empty().then_some(attributes)
}

fn item_of<'a>(key: &'a [u8], found: &Found<'a>, now_ms: u64) -> Item<'a> {
    let extras = ItemExtras::decode(found.extras);
    Item {
        key,
        flags: found.flags,
        cas: extras.cas.unwrap_or(found.version),
        ttl_ms: found.expiry_ms.map(|expiry_ms| expiry_ms.saturating_sub(now_ms)),
        idle_seconds: clock::idle_seconds(found.clock, now_ms),
        fetched: true,
        bytes: string::len(&found.value),
        stale: extras.stale,
        recache: Recache::None,
        is_new: false,
        content_type: extras.content_type,
    }
}

/// Replies with an item, or with null when there is none.
fn reply_item(
    call: &mut Call<'_>,
    key: &[u8],
    found: Option<Found<'_>>,
    recache: Recache,
    has_value: bool,
) -> Outcome {
    let Some(found) = found else {
        call.reply.null();
        return Ok(());
    };
    let item = Item { recache, ..item_of(key, &found, call.txn.now_ms()) };
    reply_found(call, item, &found, has_value)
}

fn reply_found(call: &mut Call<'_>, item: Item<'_>, found: &Found<'_>, has_value: bool) -> Outcome {
    call.reply.item(&item, has_value);
    if has_value {
        super::string::reply_range(call.reply, call.txn, found.value, 0, item.bytes)?;
    }
    Ok(())
}

/// Whether ITEM.GAT with these arguments only reads, unless it meets an item that no client renews yet.
fn gat_reads(args: &[&[u8]]) -> bool {
    args.iter().skip(2).all(|arg| is(arg, "PEEK") || is(arg, "HEAD"))
}

fn gat(call: &mut Call<'_>) -> Outcome {
    let values = &["EX", "EXAT", "VIVIFY", "RECACHE", "NEWCAS"];
    let options = Options::parse(
        call,
        &call.args[2..],
        Allowed { words: &["PEEK", "HEAD", "NOWIN", "PERSIST"], values },
    )?;
    let key = call.args[1];
    let Some(found) = look(call, key, &options)? else { return vivify(call, key, &options) };
    let extras = ItemExtras::decode(found.extras);
    let is_late = options.recache.is_some_and(|(recache_ms, renewed)| {
        renewed
            .after(found.expiry_ms)
            .is_some_and(|expiry_ms| expiry_ms.saturating_sub(call.txn.now_ms()) < recache_ms)
    });
    let wins = (extras.stale || is_late) && !extras.won && !options.no_win && call.txn.accepts_changes();
    let recache = match (wins, extras.won) {
        (true, _) => Recache::Won,
        (false, true) => Recache::Taken,
        (false, false) => Recache::None,
    };
    if !wins && options.expiry == Expiry::Unsaid {
        return reply_item(call, key, Some(found), recache, !options.head);
    }
    if gat_reads(call.args) {
        // It was run as a reader, and runs again as a writer.
        if call.txn.mode() == Mode::Read {
            call.txn.become_writer();
            return Err(Stop::Retry);
        }
    }
    let extras = ItemExtras { won: extras.won || wins, ..extras }.keeping_cas(found.version).encode();
    reply_item(call, key, Some(Found { extras: &extras, ..found }), recache, !options.head)?;
    if options.expiry.is_past(call) {
        return remove(call, key);
    }
    let expiry_ms = options.expiry.after(found.expiry_ms);
    edit(call, key, &found, &New { expiry_ms, extras: &extras, ..New::from(found) }, "expire")
}

/// Replies with an empty item that is made where there is none, if that is asked for.
fn vivify(call: &mut Call<'_>, key: &[u8], options: &Options<'_>) -> Outcome {
    let Some(expiry) = options.vivify else { return reply_item(call, key, None, Recache::None, false) };
    if call.peek(key)?.is_some() {
        // A key of another type stays.
        return reply_item(call, key, None, Recache::None, false);
    }
    let extras = ItemExtras { won: true, cas: options.cas, ..ItemExtras::default() }.encode();
    let new = New { extras: &extras, ..New::of(Kind::String, Value::Packed(b"")) };
    make(call, key, expiry, &new, Recache::Won, !options.head)
}

/// Makes an item that lives as long as `expiry` says, and replies with it. One that expires at once is seen by this client alone.
fn make(
    call: &mut Call<'_>,
    key: &[u8],
    expiry: Expiry,
    new: &New<'_>,
    recache: Recache,
    has_value: bool,
) -> Outcome {
    let is_past = expiry.is_past(call);
    let expiry_ms = expiry.after(None).filter(|_| !is_past);
    put(call, key, &New { expiry_ms, ..*new })?;
    if let Some(found) = call.txn.peek(call.db(), key)? {
        reply_found(
            call,
            Item { recache, is_new: true, ..item_of(key, &found, call.txn.now_ms()) },
            &found,
            has_value,
        )?;
    }
    if is_past { remove(call, key) } else { Ok(()) }
}

/// Gives a key a new item.
fn put(call: &Call<'_>, key: &[u8], new: &New<'_>) -> Outcome {
    call.replace(key, new)?;
    tell_item(call, key)?;
    call.notify('$', "set", key);
    if new.expiry_ms.is_some() {
        call.notify('g', "expire", key);
    }
    Ok(())
}

/// Gives an item other properties; its value stays.
fn edit(call: &Call<'_>, key: &[u8], old: &Found<'_>, new: &New<'_>, event: &'static str) -> Outcome {
    let marks = |extras| ItemExtras::decode(extras).portable();
    let is_marked = (old.flags, marks(old.extras)) != (new.flags, marks(new.extras));
    let expires_as_before = old.expiry_ms == new.expiry_ms;
    call.edit(key, new)?;
    tell_edited(call, key, is_marked, expires_as_before)?;
    call.notify('g', event, key);
    Ok(())
}

fn remove(call: &Call<'_>, key: &[u8]) -> Outcome {
    if call.remove(key)? {
        call.tell(&[b"DEL", key]);
        call.notify('g', "del", key);
    }
    Ok(())
}

fn set(call: &mut Call<'_>) -> Outcome {
    let values = &["CAS", "FLAGS", "NEWCAS", "TYPE", "EX", "PX", "EXAT", "PXAT"];
    let options =
        Options::parse(call, &call.args[3..], Allowed { words: &["ADD", "REPLACE", "STALE"], values })?;
    let (key, bytes) = (call.args[1], call.args[2]);
    let hears_of_new = call.reply.hears_of_new_keys();
    let is_blind = options.condition == Condition::None && !hears_of_new;
    let found = if is_blind { None } else { call.peek(key)? };
    let is_new = hears_of_new && found.is_none();
    let (mut extras, mut expiry) = (options.extras(), options.expiry);
    if let Some(refused) = refusal(options.condition, &found)? {
        let (Some(old), Condition::Cas(cas)) = (found, options.condition) else {
            return say(call, refused);
        };
        if !(options.stale && is_older(call, cas, &old)) {
            return say(call, refused);
        }
        // An older value is better than none, and keeps the expiry and stays marked.
        let won = ItemExtras::decode(old.extras).won;
        extras = ItemExtras { stale: true, won, ..options.item_extras() }.encode();
        expiry = old.expiry_ms.map_or(Expiry::Never, Expiry::At);
    }
    if expiry.is_past(call) && !call.reply.shows_cas() {
        remove(call, key)?;
        return say(call, Written::Done(0));
    }
    if is_new {
        call.reply.new_key();
    }
    let value = string::make(call.txn, bytes)?;
    store(call, key, expiry, &New { flags: options.flags, extras: &extras, ..New::of(Kind::String, value) })
}

/// Gives a key a new item that lives as long as `expiry` says, and replies with its CAS. One that expires at once is gone then.
fn store(call: &mut Call<'_>, key: &[u8], expiry: Expiry, new: &New<'_>) -> Outcome {
    let is_past = expiry.is_past(call);
    put(call, key, &New { expiry_ms: expiry.after(None).filter(|_| !is_past), ..*new })?;
    reply_written(call, key)?;
    if is_past { remove(call, key) } else { Ok(()) }
}

fn mark(call: &mut Call<'_>) -> Outcome {
    let values = &["FLAGS", "NEWCAS", "TYPE"];
    let options = Options::parse(call, &call.args[2..], Allowed { words: &["STALE", "WON"], values })?;
    let key = call.args[1];
    let Some(found) = call.find_kind(key, Kind::String)? else { return say(call, Written::NotFound) };
    let Options { stale, won, cas, content_type, .. } = options;
    let extras = ItemExtras { stale, won, cas, content_type, is_drawn: false }.encode();
    if (found.flags, found.extras) != (options.flags, &extras[..]) {
        call.edit(key, &New { flags: options.flags, extras: &extras, ..New::from(found) })?;
        tell_edited(call, key, true, true)?;
        call.notify('$', "set", key);
    }
    reply_written(call, key)
}

/// Returns true if the item may have had this CAS earlier; 0 is none.
fn is_older(call: &Call<'_>, cas: u64, found: &Found<'_>) -> bool {
    if cas == 0 {
        return false;
    }
    let found_extras = ItemExtras::decode(found.extras);
    match found_extras.cas {
        Some(chosen) if !found_extras.is_drawn => cas < chosen,
        _ => call.table.has_drawn(cas),
    }
}

fn say(call: &mut Call<'_>, written: Written) -> Outcome {
    call.reply.written(written);
    Ok(())
}

/// Replies with the CAS that this call has given an item.
fn reply_written(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let cas = call.txn.peek(call.db(), key)?.map_or(0, |found| cas_of(&found));
    call.reply.written(Written::Done(cas));
    Ok(())
}

fn cat(call: &mut Call<'_>) -> Outcome {
    let allowed = Allowed {
        words: &["APPEND", "PREPEND", "CREATE"],
        values: &["CAS", "NEWCAS", "FLAGS", "EX", "EXAT"],
    };
    let options = Options::parse(call, &call.args[3..], allowed)?;
    if options.append == options.prepend {
        return Err(SYNTAX.into());
    }
    let (key, bytes) = (call.args[1], call.args[2]);
    let found = call.find_kind(key, Kind::String)?;
    let Some(old) = found else {
        if !options.create {
            return say(call, Written::NotStored);
        }
        let (value, extras) = (string::make(call.txn, bytes)?, options.extras());
        let new = New { flags: options.flags, extras: &extras, ..New::of(Kind::String, value) };
        return store(call, key, options.expiry, &new);
    };
    if let Some(refused) = refusal(options.condition, &found)? {
        return say(call, refused);
    }
    let len = string::len(&old.value);
    if len + bytes.len() as u64 > super::string::len_max(call) {
        return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
    }
    let kept = ItemExtras { cas: options.cas, ..ItemExtras::decode(old.extras).after_edit() }.encode();
    if options.append {
        let mut draft = Draft::of(&old.value);
        draft.write(call.txn, len, bytes)?;
        call.edit(
            key,
            &New { value: draft.value(), raw: true, text: false, extras: &kept, ..New::from(old) },
        )?;
    } else {
        let whole = [bytes, &string::contiguous(call.txn, &old.value)?].concat();
        let value = string::make(call.txn, &whole)?;
        call.put(key, &New { value, raw: true, text: false, extras: &kept, ..New::from(old) })?;
    }
    call.reply.grown(len + bytes.len() as u64);
    tell_item(call, key)?;
    call.notify('$', "append", key);
    reply_written(call, key)
}

fn inc(call: &mut Call<'_>) -> Outcome {
    let values = &["CAS", "NEWCAS", "CREATE", "EX", "EXAT", "VIVIFY"];
    let options = Options::parse(call, &call.args[3..], Allowed { words: &["DOWN", "PERSIST"], values })?;
    let (key, delta) = (call.args[1], unsigned(call.args[2]).ok_or(NOT_A_DELTA)?);
    let found = call.find_kind(key, Kind::String)?;
    let mut digits = itoa::Buffer::new();
    let Some(old) = found else {
        let Some(initial) = options.initial else { return say(call, Written::NotFound) };
        let expiry = options.vivify.unwrap_or_default();
        let value = Value::Packed(digits.format(initial).as_bytes());
        let extras = options.extras();
        let new = New { extras: &extras, ..New::of(Kind::String, value) };
        return make(call, key, expiry, &new, Recache::None, true);
    };
    if matches!(old.value, Value::Packed(b"")) {
        return Err(NOT_A_NUMBER.into());
    }
    if let Some(refused) = refusal(options.condition, &found)? {
        return say(call, refused);
    }
    let Value::Packed(text) = old.value else { return Err(NOT_A_NUMBER.into()) };
    let number = leading_number(text).ok_or(NOT_A_NUMBER)?;
    let number = if options.down { number.saturating_sub(delta) } else { number.wrapping_add(delta) };
    let digits = digits.format(number).as_bytes();
    let before = ItemExtras::decode(old.extras);
    // A number that needs no more room is written over the old one, whose marks stay.
    let kept = if digits.len() > text.len() { before.after_edit() } else { before };
    let kept = ItemExtras { cas: options.cas, is_drawn: false, ..kept }.encode();
    let value = Value::Packed(digits);
    let expiry_ms = options.expiry.after(old.expiry_ms);
    call.put(key, &New { value, raw: false, text: false, expiry_ms, extras: &kept, ..New::from(old) })?;
    tell_item(call, key)?;
    call.notify('$', "incrby", key);
    reply_number(call, key)?;
    if options.expiry.is_past(call) { remove(call, key) } else { Ok(()) }
}

/// Replies with the item that this call has written.
fn reply_number(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let found = call.txn.peek(call.db(), key)?;
    reply_item(call, key, found, Recache::None, true)
}

fn exp(call: &mut Call<'_>) -> Outcome {
    let options =
        Options::parse(call, &call.args[2..], Allowed { words: &["PERSIST"], values: &["EX", "EXAT"] })?;
    let key = call.args[1];
    let Some(found) = call.find(key)? else { return say(call, Written::NotFound) };
    if options.expiry.is_past(call) {
        remove(call, key)?;
        call.reply.written(Written::Done(0));
        return Ok(());
    }
    let extras = match found.kind {
        Kind::String => ItemExtras::decode(found.extras).keeping_cas(found.version).encode(),
        _ => Vec::new(),
    };
    let expiry_ms = options.expiry.after(found.expiry_ms);
    edit(call, key, &found, &New { expiry_ms, extras: &extras, ..New::from(found) }, "expire")?;
    reply_written(call, key)
}

fn del(call: &mut Call<'_>) -> Outcome {
    let options = Options::parse(
        call,
        &call.args[2..],
        Allowed { words: &["STALE", "EMPTY", "PERSIST"], values: &["CAS", "NEWCAS", "EX", "EXAT"] },
    )?;
    let key = call.args[1];
    let found = call.peek(key)?;
    if let Some(refused) = refusal(options.condition, &found)? {
        return say(call, refused);
    }
    let Some(old) = found else { return say(call, Written::NotFound) };
    let kept = options.stale || options.empty;
    if !kept || old.kind != Kind::String || options.expiry.is_past(call) {
        remove(call, key)?;
        call.reply.written(Written::Done(0));
        return Ok(());
    }
    let before = ItemExtras::decode(old.extras);
    let stale = options.stale || before.stale;
    let won = before.won && !options.stale;
    let expiry_ms = if options.stale { options.expiry.after(old.expiry_ms) } else { old.expiry_ms };
    let extras = ItemExtras { stale, won, cas: options.cas, is_drawn: false, ..before }.encode();
    if options.empty {
        put(call, key, &New { expiry_ms, extras: &extras, ..New::of(Kind::String, Value::Packed(b"")) })?;
    } else {
        edit(call, key, &old, &New { expiry_ms, extras: &extras, ..New::from(old) }, "expire")?;
    }
    reply_written(call, key)
}
