//! Conditions of CLIENT LIST and CLIENT KILL: an option with a value each, of which all must hold.
//!
//! Conditions of Redis and of Valkey 9 are taken. The last value of an option counts, except that ids add up. An option with `NOT-` before
//! its name is a condition of its own: `NAME a NOT-NAME b` asks for both.
use std::mem::discriminant;

use polder_base::number;
use polder_runtime::session::{Client, Host};
use polder_table::{Db, Stop};

use polder_calls::call::{SYNTAX, is};

/// The names of all options. Those of [`AFFIRMED_ONLY`] have no form with `NOT-`.
const NAMES: [&str; 15] = [
    "ID", "TYPE", "USER", "ADDR", "LADDR", "SKIPME", "MAXAGE", "NAME", "IDLE", "FLAGS", "LIB-NAME",
    "LIB-VER", "DB", "CAPA", "IP",
];
const AFFIRMED_ONLY: [&str; 3] = ["SKIPME", "MAXAGE", "IDLE"];

/// The letters of CLIENT LIST's flags.
const FLAGS: &[u8] = b"bcdeirtuxABEIMNOPRSTU";

/// The letters of the capabilities that a client can claim.
const CAPABILITIES: &[u8] = b"r";

/// Redis's kinds of clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientKind {
    Normal,
    Primary,
    Replica,
    Pubsub,
}

impl ClientKind {
    fn named(word: &[u8]) -> Result<ClientKind, Stop> {
        match word {
            word if is(word, "NORMAL") => Ok(ClientKind::Normal),
            word if is(word, "MASTER") || is(word, "PRIMARY") => Ok(ClientKind::Primary),
            word if is(word, "SLAVE") || is(word, "REPLICA") => Ok(ClientKind::Replica),
            word if is(word, "PUBSUB") => Ok(ClientKind::Pubsub),
            word => Err(format!("ERR Unknown client type '{}'", String::from_utf8_lossy(word)).into()),
        }
    }

    fn of(client: &Client) -> ClientKind {
        match client.flags.chars().next() {
            Some('S') => return ClientKind::Replica,
            Some('M') => return ClientKind::Primary,
            _ => {}
        }
        match client.channels + client.patterns + client.shard_channels {
            0 => ClientKind::Normal,
            _ => ClientKind::Pubsub,
        }
    }
}

/// One condition.
enum Condition<'a> {
    Ids(Vec<u64>),
    Kind(ClientKind),
    User(&'a [u8]),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    OlderSeconds(u64),
    IdleSeconds(u64),
    Flags(&'a [u8]),
    Name(&'a [u8]),
    Library(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Db(Db),
    Capabilities(&'a [u8]),
    Ip(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// Reads an option that has a form with `NOT-`, which is called `option`.
    fn read(name: &str, option: &str, value: &'a [u8], host: &dyn Host) -> Result<Condition<'a>, Stop> {
        Ok(match name {
            "TYPE" => Condition::Kind(ClientKind::named(value)?),
            "USER" => {
                if host.settings().users().now().find(value).is_none() {
                    return Err(format!("ERR No such user '{}'", String::from_utf8_lossy(value)).into());
                }
                Condition::User(value)
            }
            "ADDR" => Condition::Address(value),
            "LADDR" => Condition::LocalAddress(value),
            "NAME" => Condition::Name(value),
            "FLAGS" => Condition::Flags(letters(option, value, FLAGS)?),
            "LIB-NAME" => Condition::Library(value),
            "LIB-VER" => Condition::LibraryVersion(value),
            "DB" => Condition::Db(database(option, value, host.databases())?),
            "CAPA" => Condition::Capabilities(letters(option, value, CAPABILITIES)?),
            _ => Condition::Ip(value),
        })
    }

    fn holds(&self, client: &Client) -> bool {
        match self {
            Condition::Ids(ids) => ids.contains(&client.id),
            Condition::Kind(kind) => ClientKind::of(client) == *kind,
            Condition::User(user) => client.user == *user,
            Condition::Address(address) => client.address.as_bytes() == *address,
            Condition::LocalAddress(address) => client.local_address.as_bytes() == *address,
            Condition::OlderSeconds(age) => client.age_seconds >= *age,
            Condition::IdleSeconds(idle) => client.idle_seconds >= *idle,
            Condition::Flags(flags) => flags.iter().all(|flag| client.flags.as_bytes().contains(flag)),
            Condition::Name(name) => *client.name == **name,
            Condition::Library(name) => *client.library == **name,
            Condition::LibraryVersion(version) => *client.library_version == **version,
            Condition::Db(db) => client.db == *db,
            Condition::Capabilities(letters) => letters.is_empty() || client.takes_redirects,
            Condition::Ip(ip) => host_part(&client.address).as_bytes() == *ip,
        }
    }
}

/// An address without its port, and without the brackets of one of IPv6.
fn host_part(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// A value that consists of known letters.
fn letters<'a>(option: &str, value: &'a [u8], known: &[u8]) -> Result<&'a [u8], Stop> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(value);
    }
    let shown = String::from_utf8_lossy(value);
    Err(match option.strip_prefix("NOT-") {
        Some(_) => {
            format!("ERR Unknown {} found in the {option} filter: {shown}", option[4..].to_lowercase())
        }
        None => format!("ERR Unknown {} found in the provided filter: {shown}", option.to_lowercase()),
    }
    .into())
}

fn database(option: &str, value: &[u8], databases: Db) -> Result<Db, Stop> {
    let number =
        number::integer(value).ok_or_else(|| format!("ERR {option} is not an integer or out of range"))?;
    Db::try_from(number)
        .ok()
        .filter(|db| *db < databases)
        .ok_or_else(|| format!("ERR {option} number should be between 0 and {}", databases - 1).into())
}

fn seconds(option: &str, value: &[u8]) -> Result<u64, Stop> {
    let seconds =
        number::integer(value).ok_or_else(|| format!("ERR {option} is not an integer or out of range"))?;
    u64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| format!("ERR {option} should be greater than 0").into())
}

/// The command that the options belong to: the errors of ID differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    List,
    Kill,
}

impl Asker {
    fn id(self, value: &[u8]) -> Result<u64, Stop> {
        match number::integer(value) {
            Some(id) if self == Asker::List || id > 0 => Ok(id as u64),
            _ if self == Asker::List => Err("ERR Invalid client ID".into()),
            _ => Err("ERR client-id should be greater than 0".into()),
        }
    }
}

/// An id behind NOT-ID.
fn unwanted_id(value: &[u8]) -> Result<u64, Stop> {
    match number::integer(value) {
        Some(id) if id > 0 => Ok(id as u64),
        Some(_) => Err("ERR client-id should be greater than 0".into()),
        None => Err(SYNTAX.into()),
    }
}

/// Which clients CLIENT KILL and CLIENT LIST mean; what is not said does not matter.
#[derive(Default)]
pub(super) struct Filter<'a> {
    /// With `true` for one that must not hold.
    conditions: Vec<(bool, Condition<'a>)>,
    spare_caller: bool,
}

impl<'a> Filter<'a> {
    /// Reads the arguments of CLIENT KILL.
    pub(super) fn to_kill(options: &[&'a [u8]], host: &dyn Host) -> Result<Filter<'a>, Stop> {
        if let [address] = options {
            let conditions = vec![(false, Condition::Address(address))];
            return Ok(Filter { conditions, spare_caller: false });
        }
        Filter { spare_caller: true, ..Filter::default() }.read(options, host, Asker::Kill)
    }

    /// Reads the arguments of CLIENT LIST.
    pub(super) fn to_list(options: &[&'a [u8]], host: &dyn Host) -> Result<Filter<'a>, Stop> {
        Filter::default().read(options, host, Asker::List)
    }

    /// Reads options, each with a value; that of ID is the numbers that follow it, up to another option.
    fn read(mut self, mut options: &[&'a [u8]], host: &dyn Host, asker: Asker) -> Result<Filter<'a>, Stop> {
        while let [option, rest @ ..] = options {
            let [value, rest @ ..] = rest else { return Err(SYNTAX.into()) };
            options = rest;
            let (negated, name) = named(option).ok_or(SYNTAX)?;
            match name {
                "ID" if negated => {
                    let mut ids = vec![unwanted_id(value)?];
                    while let [value, rest @ ..] = options
                        && number::integer(value).is_some()
                    {
                        ids.push(unwanted_id(value)?);
                        options = rest;
                    }
                    self.add_ids(true, ids);
                }
                "ID" => {
                    let mut ids = vec![asker.id(value)?];
                    // A word behind ids that is no option is refused as an id by CLIENT LIST.
                    while let [value, rest @ ..] = options
                        && (number::integer(value).is_some()
                            || asker == Asker::List && named(value).is_none())
                    {
                        ids.push(asker.id(value)?);
                        options = rest;
                    }
                    self.add_ids(false, ids);
                }
                "MAXAGE" => self.put(false, Condition::OlderSeconds(seconds("maxage", value)?)),
                "IDLE" => self.put(false, Condition::IdleSeconds(seconds("idle", value)?)),
                "SKIPME" if is(value, "YES") => self.spare_caller = true,
                "SKIPME" if is(value, "NO") => self.spare_caller = false,
                "SKIPME" => return Err(SYNTAX.into()),
                name => {
                    let option = if negated { format!("NOT-{name}") } else { name.to_string() };
                    self.put(negated, Condition::read(name, &option, value, host)?);
                }
            }
        }
        Ok(self)
    }

    /// Adds a condition in place of an earlier one of the same option.
    fn put(&mut self, negated: bool, condition: Condition<'a>) {
        self.conditions
            .retain(|(other, held)| *other != negated || discriminant(held) != discriminant(&condition));
        self.conditions.push((negated, condition));
    }

    fn add_ids(&mut self, negated: bool, more: Vec<u64>) {
        let held = self.conditions.iter_mut().find_map(|(other, condition)| match condition {
            Condition::Ids(ids) if *other == negated => Some(ids),
            _ => None,
        });
        match held {
            Some(ids) => ids.extend(more),
            None => self.conditions.push((negated, Condition::Ids(more))),
        }
    }

    /// The ids that are asked for, if there is such a condition.
    pub(super) fn ids(&self) -> Option<&[u64]> {
        self.conditions.iter().find_map(|condition| match condition {
            (false, Condition::Ids(ids)) => Some(&ids[..]),
            _ => None,
        })
    }

    pub(super) fn means(&self, client: &Client, caller: u64) -> bool {
        self.conditions.iter().all(|(negated, condition)| condition.holds(client) != *negated)
            && !(self.spare_caller && client.id == caller)
    }
}

/// The name of an option, and whether `NOT-` stands before it.
fn named(option: &[u8]) -> Option<(bool, &'static str)> {
    let known = |word: &[u8]| NAMES.iter().find(|name| is(word, name)).copied();
    if let Some(name) = known(option) {
        return Some((false, name));
    }
    let (prefix, rest) = option.split_at_checked("NOT-".len())?;
    let name = known(rest).filter(|name| is(prefix, "NOT-") && !AFFIRMED_ONLY.contains(name))?;
    Some((true, name))
}
