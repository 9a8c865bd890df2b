//! SUBJ.MONITOR: the monitoring pages of nats-server, as nats-top and exporters of metrics read them.
//!
//! A page has the fields of nats-server's whose figures exist here; no figure is made up. What counts for a
//! server process counts here for one process, too: other processes on the same memory have pages of their
//! own. Subscriptions are those of all processes, since each of them hears what any publishes.
use std::fmt::Write;

use polder_base::number;
use polder_base::time::now_ms;
use polder_calls::call::{NOT_AN_INTEGER, Outcome, SYNTAX};
use polder_calls::command::{DANGEROUS, LOADING, STALE};
use polder_calls::settings::id;
use polder_hub::subject::{self, Subject};
use polder_hub::{token, tokens};
use polder_runtime::row::{Row, TxnCall, neutral};
use polder_runtime::session::{Client, Traffic};
use polder_runtime::subjects::{NATS_VERSION, nats_server_id};
use polder_table::{Mode, Stop};
use polder_wire::http::json;

use crate::metrics::Facts;

/// The family's rows.
pub const COMMANDS: &[Row] = &[neutral(
    "SUBJ.MONITOR",
    "<VARZ|CONNZ|SUBSZ> [SORT field] [LIMIT count] [OFFSET count]",
    Mode::Read,
    show,
)
.with(LOADING | STALE | DANGEROUS)
.tips(&["nondeterministic_output"])
.about("Returns a monitoring page of nats-server about this server, its NATS clients, or the subscriptions of all processes, in JSON.")];

/// Connections on one page, unless the request says otherwise.
const CONNECTIONS: usize = 1024;
/// The version of the protocol that INFO tells.
const PROTOCOL: u64 = 1;
const NANOSECONDS: u64 = 1_000_000_000;

fn show(call: &mut TxnCall<'_>) -> Outcome {
    let (page, options) = (call.args[1].to_ascii_uppercase(), &call.args[2..]);
    let text = match (&page[..], options) {
        (b"VARZ", []) => varz(call)?,
        (b"SUBSZ", []) => subsz(call)?,
        (b"CONNZ", options) => connz(call, &Selection::read(options)?),
        _ => return Err(SYNTAX.into()),
    };
    call.reply.verbatim("txt", &text);
    Ok(())
}

/// An object of JSON under way.
struct Object(Vec<u8>);

impl Object {
    fn new() -> Object {
        Object(b"{".to_vec())
    }

    fn name(&mut self, name: &str) {
        self.0.extend_from_slice(if self.0.len() > 1 { b",\"" } else { b"\"" });
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn number(&mut self, name: &str, number: u64) -> &mut Object {
        self.name(name);
        self.0.extend_from_slice(number.to_string().as_bytes());
        self
    }

    fn text(&mut self, name: &str, text: &str) -> &mut Object {
        self.name(name);
        json::string(&mut self.0, text);
        self
    }

    /// A text that is there only if it is not empty.
    fn some_text(&mut self, name: &str, text: &[u8]) -> &mut Object {
        if !text.is_empty() {
            self.text(name, &String::from_utf8_lossy(text));
        }
        self
    }

    /// A value that is JSON already.
    fn raw(&mut self, name: &str, value: &[u8]) -> &mut Object {
        self.name(name);
        self.0.extend_from_slice(value);
        self
    }

    fn traffic(&mut self, traffic: &Traffic) -> &mut Object {
        self.number("in_msgs", traffic.messages_in)
            .number("out_msgs", traffic.messages_out)
            .number("in_bytes", traffic.bytes_in)
            .number("out_bytes", traffic.bytes_out)
    }

    fn end(&mut self) -> Vec<u8> {
        self.0.push(b'}');
        std::mem::take(&mut self.0)
    }
}

/// The NATS clients of this process.
fn clients(call: &TxnCall<'_>) -> Vec<Client> {
    let mut clients = call.host.clients(call.session);
    clients.retain(|client| client.protocol.ends_with("nats"));
    clients
}

/// Subscriptions of all processes.
fn subscriptions(call: &TxnCall<'_>) -> Result<u64, Stop> {
    let patterns: u64 = tokens::listed(call.txn)?.iter().map(|(.., count)| count).sum();
    let channels = subject::subjects(call.txn, Subject::Channel, &token::is_subject)?;
    channels.iter().try_fold(patterns, |sum, channel| {
        Ok(sum + subject::subscribers(call.txn, Subject::Channel, channel)?)
    })
}

fn varz(call: &mut TxnCall<'_>) -> Result<Vec<u8>, Stop> {
    call.host.settings().refresh(call.table, call.txn)?;
    let subscriptions = subscriptions(call)?;
    let connections = clients(call).len() as u64;
    let facts = Facts::gather(call.table, call.host, Vec::new());
    let (settings, now_ms, uptime) = (facts.settings, facts.now_us / 1000, facts.uptime_seconds());
    let number = |id| u64::try_from(settings.number(id)).unwrap_or(0);
    let cpu_seconds = facts.machine.cpu[0] + facts.machine.cpu[1];
    let cpu = 100.0 * cpu_seconds / (uptime.max(1)) as f64;
    let (traffic, slow) = call.host.nats_traffic();
    let start_ms = now_ms.saturating_sub(uptime * 1000);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let mut page = Object::new();
    page.text("server_id", &nats_server_id(call.host))
        .text("server_name", &format!("polder-{}", std::process::id()))
        .text("version", NATS_VERSION)
        .number("proto", PROTOCOL)
        .number("port", number(const { id("nats-port") }))
        .number("max_connections", number(const { id("maxclients") }))
        .number("ping_interval", 120 * NANOSECONDS)
        .number("ping_max", 2)
        .number("http_port", number(const { id("http-port") }))
        .number("max_control_line", 4096)
        .number("max_payload", number(const { id("nats-max-payload") }))
        .number("max_pending", number(const { id("nats-max-pending") }))
        .text("start", &moment(start_ms))
        .text("now", &moment(now_ms))
        .text("uptime", &duration(uptime))
        .number("mem", facts.machine.resident_bytes)
        .number("cores", cores)
        .raw("cpu", format!("{cpu:.2}").as_bytes())
        .number("connections", connections)
        .traffic(&traffic)
        .number("slow_consumers", slow)
        .number("subscriptions", subscriptions);
    Ok(page.end())
}

fn subsz(call: &mut TxnCall<'_>) -> Result<Vec<u8>, Stop> {
    let subscriptions = subscriptions(call)?;
    let mut page = Object::new();
    page.text("server_id", &nats_server_id(call.host))
        .text("now", &moment(now_ms()))
        .number("num_subscriptions", subscriptions);
    Ok(page.end())
}

/// Which clients a page shows, and in which order.
struct Selection {
    sort: Sort,
    limit: usize,
    offset: usize,
}

/// Orders of clients, as nats-server names them: the largest number first, but for the number of the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Cid,
    Subs,
    Pending,
    MessagesTo,
    MessagesFrom,
    BytesTo,
    BytesFrom,
    Idle,
    Uptime,
}

impl Sort {
    fn named(name: &[u8]) -> Result<Sort, Stop> {
        Ok(match &name.to_ascii_lowercase()[..] {
            b"" | b"cid" | b"start" => Sort::Cid,
            b"subs" => Sort::Subs,
            b"pending" => Sort::Pending,
            b"msgs_to" => Sort::MessagesTo,
            b"msgs_from" => Sort::MessagesFrom,
            b"bytes_to" => Sort::BytesTo,
            b"bytes_from" => Sort::BytesFrom,
            b"idle" | b"last" => Sort::Idle,
            b"uptime" => Sort::Uptime,
            _ => {
                let name = String::from_utf8_lossy(name);
                return Err(format!("ERR no field '{name}' to sort by; use cid, subs, pending, msgs_to, msgs_from, bytes_to, bytes_from, idle or uptime").into());
            }
        })
    }

    fn key(self, client: &Client) -> std::cmp::Reverse<u64> {
        let Traffic { messages_in, bytes_in, messages_out, bytes_out } = client.traffic;
        std::cmp::Reverse(match self {
            Sort::Cid => u64::MAX - client.id,
            Sort::Subs => client.channels as u64,
            Sort::Pending => client.reply_bytes as u64,
            Sort::MessagesTo => messages_out,
            Sort::MessagesFrom => messages_in,
            Sort::BytesTo => bytes_out,
            Sort::BytesFrom => bytes_in,
            Sort::Idle => client.idle_seconds,
            Sort::Uptime => client.age_seconds,
        })
    }
}

impl Selection {
    fn read(mut options: &[&[u8]]) -> Result<Selection, Stop> {
        let mut selection = Selection { sort: Sort::Cid, limit: CONNECTIONS, offset: 0 };
        let count = |value: &[u8]| -> Result<usize, Stop> {
            let count = number::unsigned(value).ok_or(NOT_AN_INTEGER)?;
            Ok(usize::try_from(count).unwrap_or(usize::MAX))
        };
        while let [name, value, rest @ ..] = options {
            match &name.to_ascii_uppercase()[..] {
                b"SORT" => selection.sort = Sort::named(value)?,
                b"LIMIT" => selection.limit = count(value)?,
                b"OFFSET" => selection.offset = count(value)?,
                _ => return Err(SYNTAX.into()),
            }
            options = rest;
        }
        if options.is_empty() { Ok(selection) } else { Err(SYNTAX.into()) }
    }
}

fn connz(call: &TxnCall<'_>, selection: &Selection) -> Vec<u8> {
    let mut clients = clients(call);
    let total = clients.len() as u64;
    clients.sort_by_key(|client| (selection.sort.key(client), client.id));
    let limit = if selection.limit == 0 { CONNECTIONS } else { selection.limit };
    let now = now_ms();
    let shown: Vec<Vec<u8>> =
        clients.iter().skip(selection.offset).take(limit).map(|client| connection(client, now)).collect();
    let mut page = Object::new();
    page.text("server_id", &nats_server_id(call.host))
        .text("now", &moment(now))
        .number("num_connections", shown.len() as u64)
        .number("total", total)
        .number("offset", selection.offset as u64)
        .number("limit", limit as u64)
        .raw("connections", &[b"[", &shown.join(&b","[..])[..], b"]"].concat());
    page.end()
}

fn connection(client: &Client, now_ms: u64) -> Vec<u8> {
    let (host, port) = client.address.rsplit_once(':').unwrap_or((&client.address, "0"));
    let ago = |seconds: u64| moment(now_ms.saturating_sub(seconds * 1000));
    let kind = if client.protocol == "nats" { "nats" } else { "websocket" };
    let mut object = Object::new();
    object
        .number("cid", client.id)
        .text("kind", "Client")
        .text("type", kind)
        .text("ip", host.trim_matches(['[', ']']))
        .number("port", port.parse().unwrap_or(0))
        .text("start", &ago(client.age_seconds))
        .text("last_activity", &ago(client.idle_seconds))
        .text("uptime", &duration(client.age_seconds))
        .text("idle", &duration(client.idle_seconds))
        .number("pending_bytes", client.reply_bytes as u64)
        .traffic(&client.traffic)
        .number("subscriptions", client.channels as u64)
        .some_text("name", &client.name)
        .some_text("lang", &client.library)
        .some_text("version", &client.library_version);
    if client.user != b"default" {
        object.some_text("authorized_user", &client.user);
    }
    object.end()
}

/// A length of time as nats-server writes it: `1d2h3m4s`.
fn duration(seconds: u64) -> String {
    let parts = [(seconds / 86_400, 'd'), (seconds / 3600 % 24, 'h'), (seconds / 60 % 60, 'm')];
    let mut text = String::new();
    for (count, unit) in parts {
        if count > 0 || !text.is_empty() {
            _ = write!(text, "{count}{unit}");
        }
    }
    text + &format!("{}s", seconds % 60)
}

/// A moment in milliseconds since the Unix epoch, as RFC 3339 writes it.
fn moment(ms: u64) -> String {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60);
    // Days are counted from 1 March of year 0, so that the day of the leap year comes last (Hinnant,
    // chrono-compatible date algorithms).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_durations_are_written_as_nats_server_writes_them() {
        assert_eq!(moment(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(moment(1_795_917_722_000), "2026-11-29T02:02:02.000Z");
        assert_eq!(
            (duration(0), duration(61), duration(90_061)),
            ("0s".into(), "1m1s".into(), "1d1h1m1s".into())
        );
    }

    #[test]
    fn options_of_a_page_are_read_and_unknown_ones_refused() {
        let read = |words: &[&str]| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            Selection::read(&words).map(|selection| (selection.limit, selection.offset))
        };
        assert_eq!(read(&["sort", "bytes_to", "LIMIT", "3", "OFFSET", "1"]).ok(), Some((3, 1)));
        for wrong in [&["SORT", "colour"][..], &["LIMIT", "x"], &["LIMIT"], &["SUBS", "1"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
