//! `stats`: the figures of INFO under memcached's names.
//!
//! Polder has no slab classes as memcached has them: all items are shown as class 1.
use std::collections::HashMap;

use polder_base::time::now_ms;
use polder_calls::settings::{Id, id};
use polder_engine::Memory;
use polder_runtime::{Host, Session};
use polder_wire::Output;

use super::Own;
use super::capture::Capture;
use super::sink::error_line;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    General,
    Settings,
    Items,
    Slabs,
    Sizes,
    Conns,
    Reset,
}

/// What the words behind `stats` ask for.
pub fn request(words: &[&[u8]]) -> Own {
    match words {
        [] => Own::Stats(Report::General),
        [b"settings", ..] => Own::Stats(Report::Settings),
        [b"items", ..] => Own::Stats(Report::Items),
        [b"slabs", ..] => Own::Stats(Report::Slabs),
        [b"sizes", ..] => Own::Stats(Report::Sizes),
        [b"conns", ..] => Own::Stats(Report::Conns),
        [b"reset", ..] => Own::Stats(Report::Reset),
        [b"detail", b"on" | b"off"] => Own::Text("OK"),
        [b"detail", b"dump"] => Own::Text("END"),
        [b"detail", ..] => Own::Text("CLIENT_ERROR usage: stats detail on|off|dump"),
        [b"cachedump", rest @ ..] => super::dump::cache_request(rest),
        _ => Own::Text("ERROR"),
    }
}

/// The figures of INFO.
struct Figures(HashMap<String, String>);

impl Figures {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("0", String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A part of a field such as `keys=5,expires=0`.
    fn part(&self, name: &str, part: &str) -> u64 {
        let parts = self.text(name).split(',').filter_map(|pair| pair.split_once('='));
        parts
            .into_iter()
            .find(|(found, _)| *found == part)
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0)
    }

    /// How often commands of these names were called.
    fn calls(&self, names: &[&str]) -> u64 {
        names.iter().map(|name| self.part(&format!("cmdstat_{name}"), "calls")).sum()
    }
}

/// Writes a report.
pub fn write(report: Report, session: &mut Session, host: (&dyn Host, &Memory), output: &mut Output) {
    match rows_of(report, session, host) {
        Ok(rows) => {
            for (name, value) in rows {
                output.raw(format!("STAT {name} {value}\r\n").as_bytes());
            }
            output.raw(if report == Report::Reset { b"RESET\r\n" } else { b"END\r\n" });
        }
        Err(error) => {
            output.raw(error_line(&error).as_bytes());
            output.raw(b"\r\n");
        }
    }
}

/// The names and figures of a report, or the error of the call that has them.
pub fn rows_of(report: Report, session: &mut Session, host: (&dyn Host, &Memory)) -> Result<Rows, String> {
    if report == Report::Reset {
        return Capture::of(session, host, &[b"CONFIG", b"RESETSTAT"]).error.map_or(Ok(Rows::new()), Err);
    }
    let capture = Capture::of(session, host, &[b"INFO", b"everything"]);
    if let Some(error) = capture.error {
        return Err(error);
    }
    let text = capture.text();
    let figures = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let figures = Figures(figures.collect());
    Ok(match report {
        Report::General => general(&figures, host.0),
        Report::Settings => settings(&figures, host.0),
        Report::Items => items(&figures),
        Report::Slabs => slabs(&figures),
        Report::Sizes => vec![("sizes_status".into(), "disabled".into())],
        Report::Conns => conns(session, host)?,
        Report::Reset => Vec::new(),
    })
}

/// Names and figures.
pub type Rows = Vec<(String, String)>;

fn rows(rows: &[(&str, String)]) -> Rows {
    rows.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn keys(figures: &Figures) -> u64 {
    figures.part("db0", "keys")
}

fn limit(figures: &Figures) -> u64 {
    match figures.number("maxmemory") {
        0 => figures.number("total_system_memory"),
        bytes => bytes,
    }
}

fn general(figures: &Figures, host: &dyn Host) -> Rows {
    let number = |name: &str| figures.number(name).to_string();
    let calls = |names: &[&str]| figures.calls(names).to_string();
    let setting = |id: Id| host.settings().number(id).to_string();
    rows(&[
        ("pid", std::process::id().to_string()),
        ("uptime", number("uptime_in_seconds")),
        ("time", (now_ms() / 1000).to_string()),
        ("version", super::VERSION.to_owned()),
        ("pointer_size", usize::BITS.to_string()),
        ("rusage_user", figures.text("used_cpu_user").to_owned()),
        ("rusage_system", figures.text("used_cpu_sys").to_owned()),
        ("max_connections", setting(id("maxclients"))),
        ("curr_connections", number("connected_clients")),
        ("total_connections", number("total_connections_received")),
        ("rejected_connections", number("rejected_connections")),
        ("cmd_get", calls(&["item.get", "item.gat", "get", "mget"])),
        ("cmd_set", calls(&["item.set", "item.cat", "set", "setex", "mset"])),
        ("cmd_flush", calls(&["flushdb", "flushall"])),
        ("cmd_touch", calls(&["item.exp", "expire"])),
        ("get_hits", number("keyspace_hits")),
        ("get_misses", number("keyspace_misses")),
        ("delete_calls", calls(&["item.del", "del", "unlink"])),
        ("incr_calls", calls(&["item.inc", "incr", "incrby"])),
        ("bytes_read", number("total_net_input_bytes")),
        ("bytes_written", number("total_net_output_bytes")),
        ("limit_maxbytes", limit(figures).to_string()),
        ("accepting_conns", "1".into()),
        ("threads", setting(id("threads"))),
        ("bytes", number("used_memory")),
        ("curr_items", keys(figures).to_string()),
        ("total_items", calls(&["item.set", "set", "setex"])),
        ("expired_unfetched", number("expired_keys")),
        ("evictions", number("evicted_keys")),
    ])
}

fn settings(figures: &Figures, host: &dyn Host) -> Rows {
    let setting = |id: Id| host.settings().number(id).to_string();
    rows(&[
        ("maxbytes", limit(figures).to_string()),
        ("maxconns", setting(id("maxclients"))),
        ("tcpport", setting(id("memcache-port"))),
        ("udpport", "0".into()),
        ("inter", String::from_utf8_lossy(&host.settings().text(id("memcache-bind"))).into_owned()),
        ("verbosity", "0".into()),
        ("evictions", if figures.text("maxmemory_policy") == "noeviction" { "off" } else { "on" }.into()),
        ("num_threads", setting(id("threads"))),
        ("tcp_backlog", setting(id("tcp-backlog"))),
        ("cas_enabled", "yes".into()),
        ("binding_protocol", "auto-negotiate".into()),
        ("auth_enabled_sasl", "yes".into()),
        ("item_size_max", setting(id("memcache-item-size-max"))),
        ("flush_enabled", "yes".into()),
        ("dump_enabled", "yes".into()),
        ("idle_timeout", setting(id("timeout"))),
    ])
}

fn items(figures: &Figures) -> Rows {
    let evicted = figures.number("evicted_keys").to_string();
    match keys(figures) {
        0 => Vec::new(),
        keys => rows(&[
            ("items:1:number", keys.to_string()),
            ("items:1:mem_requested", figures.number("used_memory_dataset").to_string()),
            ("items:1:evicted", evicted),
            ("items:1:expired_unfetched", figures.number("expired_keys").to_string()),
        ]),
    }
}

fn slabs(figures: &Figures) -> Rows {
    let used = figures.number("used_memory");
    rows(&[
        ("1:used_chunks", keys(figures).to_string()),
        ("1:mem_requested", used.to_string()),
        ("1:get_hits", figures.number("keyspace_hits").to_string()),
        ("1:cmd_set", figures.calls(&["item.set", "set"]).to_string()),
        ("active_slabs", "1".into()),
        ("total_malloced", figures.number("used_memory_rss").max(used).to_string()),
    ])
}

/// The clients, as far as the user may list them.
fn conns(session: &mut Session, host: (&dyn Host, &Memory)) -> Result<Rows, String> {
    let capture = Capture::of(session, host, &[b"CLIENT", b"LIST"]);
    if let Some(error) = capture.error {
        return Err(error);
    }
    let mut rows = Rows::new();
    for line in capture.text().lines() {
        let field = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).unwrap_or_default();
        rows.push((format!("{}:addr", field("id=")), format!("tcp:{}", field("addr="))));
        rows.push((format!("{}:state", field("id=")), "conn_read".into()));
    }
    Ok(rows)
}
