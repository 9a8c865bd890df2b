//! What a process tells the others of its segment for INFO, and the sum of what all of them have told.
//!
//! ```text
//!   process RUN_ID STARTED_MS TEXT               what its line in the section Processes says; it comes first
//!   statistic NAME COUNT                         a field of Statistics
//!   call COMMAND CALLS NS REJECTED FAILED [BUCKET:COUNT ...]
//!   error CODE COUNT
//!   denied COUNT COUNT COUNT COUNT
//! ```
use std::collections::BTreeMap;
use std::fmt::Write;

use super::Statistics;
use super::machine::Machine;
use polder_calls::command::Command;
use polder_calls::settings::id;
use polder_runtime::cross_process::{lines, number, word};
use polder_runtime::denials::REASONS;
use polder_runtime::locks::lock;
use polder_runtime::recorder::Totals;
use polder_runtime::session::Host;

/// What all processes have counted together.
#[derive(Default)]
pub struct Whole {
    pub statistics: Statistics,
    /// The commands that were called or refused, in the order of the rows.
    pub calls: Vec<(&'static Command, Totals)>,
    pub errors: BTreeMap<String, u64>,
    /// How often each reason for a denial was given.
    pub denied: [u64; REASONS],
    /// A line for each process, by when it began and its run's name.
    pub processes: BTreeMap<(u64, String), String>,
}

impl Whole {
    /// What this process has counted.
    pub fn of(host: &dyn Host) -> Whole {
        let recorder = host.recorder();
        let statistics = host.statistics();
        let own = (recorder.started_ms(), recorder.run_id().to_owned());
        let processes = BTreeMap::from([(own, process(host, &statistics))]);
        let denied = lock(&recorder.denials).counts();
        Whole { statistics, calls: recorder.totals(), errors: recorder.errors(), denied, processes }
    }

    /// Adds what other processes have told; what one has told twice, by two of its threads, counts once.
    pub fn add(&mut self, answers: &[Vec<u8>]) {
        for answer in answers {
            let mut known = false;
            for words in lines(std::slice::from_ref(answer)) {
                known = known || !self.add_line(&words);
            }
        }
    }

    /// Adds one line. Returns false for the first one of a process that is known.
    fn add_line(&mut self, words: &[Vec<u8>]) -> bool {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match words.as_slice() {
            [b"process", run, started_ms, text] => {
                let text_of = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
                return self.processes.insert((number(started_ms), text_of(run)), text_of(text)).is_none();
            }
            [b"statistic", name, count] => self.statistics.add(&String::from_utf8_lossy(name), number(count)),
            [b"call", name, rest @ ..] => self.add_call(name, rest),
            [b"error", code, count] => {
                *self.errors.entry(String::from_utf8_lossy(code).into_owned()).or_default() += number(count);
            }
            [b"denied", counts @ ..] => {
                self.denied.iter_mut().zip(counts).for_each(|(sum, count)| *sum += number(count))
            }
            _ => {}
        }
        true
    }

    fn add_call(&mut self, name: &[u8], words: &[&[u8]]) {
        let (Some(command), [calls, nanoseconds, rejected, failed, buckets @ ..]) = (find(name), words)
        else {
            return;
        };
        let at = self.calls.partition_point(|(known, _)| known.number() < command.number());
        if self.calls.get(at).is_none_or(|(known, _)| known.number() != command.number()) {
            self.calls.insert(at, (command, Totals::default()));
        }
        let total = &mut self.calls[at].1;
        let counts = [&mut total.calls, &mut total.nanoseconds, &mut total.rejected, &mut total.failed];
        counts
            .into_iter()
            .zip([calls, nanoseconds, rejected, failed])
            .for_each(|(sum, count)| *sum += number(count));
        for bucket in buckets {
            let mut parts = bucket.split(|byte| *byte == b':').map(number);
            if let (Some(bucket), Some(count)) = (parts.next(), parts.next()) {
                total.latency.add(bucket as usize, count);
            }
        }
    }
}

/// A command by the name of its row: that of a subcommand has both names in it.
fn find(name: &[u8]) -> Option<&'static Command> {
    polder_runtime::lookup::find_original(name)
}

/// What this process tells.
pub(crate) fn write(host: &dyn Host) -> String {
    let mut text = String::new();
    let mut whole = Whole::of(host);
    let mut line = |parts: std::fmt::Arguments<'_>| _ = writeln!(text, "{parts}");
    for ((started_ms, run), process) in &whole.processes {
        line(format_args!("process {run} {started_ms} {}", word(process.as_bytes())));
    }
    for (name, count) in whole.statistics.parts() {
        line(format_args!("statistic {name} {count}"));
    }
    for (command, total) in &whole.calls {
        let buckets: String =
            total.latency.counts().map(|(bucket, count)| format!(" {bucket}:{count}")).collect();
        let Totals { calls, nanoseconds, rejected, failed, .. } = total;
        line(format_args!("call {} {calls} {nanoseconds} {rejected} {failed}{buckets}", command.name));
    }
    for (code, count) in &whole.errors {
        line(format_args!("error {} {count}", word(code.as_bytes())));
    }
    let denied: Vec<String> = whole.denied.iter().map(u64::to_string).collect();
    line(format_args!("denied {}", denied.join(" ")));
    text
}

/// What the section Processes says of this one.
fn process(host: &dyn Host, statistics: &Statistics) -> String {
    let machine = Machine::look();
    let uptime = polder_base::time::now_ms().saturating_sub(host.recorder().started_ms()) / 1000;
    let number = |id| host.settings().number(id);
    let (port, threads) = (number(const { id("port") }), number(const { id("threads") }));
    let (clients, blocked) = (statistics.clients, statistics.clients_blocked);
    format!(
        "pid={},run_id={},polder_version={},tcp_port={port},threads={threads},uptime_in_seconds={uptime},connected_clients={clients},blocked_clients={blocked},\
         used_memory_rss={},used_cpu_user={:.6},used_cpu_sys={:.6}",
        std::process::id(),
        host.recorder().run_id(),
        env!("CARGO_PKG_VERSION"),
        machine.resident_bytes,
        machine.cpu[0],
        machine.cpu[1],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_engine::EmbeddedHost;

    #[test]
    fn two_processes_that_tell_the_same_count_twice_as_much() {
        polder_engine::register();
        let (host, settings) = (EmbeddedHost::default(), polder_calls::settings::Settings::default());
        let get = polder_runtime::lookup::find(b"GET").unwrap();
        for failed in [false, true] {
            host.recorder().end(&settings, host.recorder().begin(&settings, get), failed);
        }
        host.recorder().count_error("WRONGTYPE what");
        let mut whole = Whole::of(&host);
        whole.statistics.clients = 3;
        let other = write(&host).replace(host.recorder().run_id(), "other");
        let third = b"statistic clients 4\nstatistic query_bytes_max 7\ndenied 1 2 3 4\n".to_vec();
        // Its own thread has told, too, and one of the others twice.
        whole.add(&[other.clone().into_bytes(), third, other.into_bytes(), write(&host).into_bytes()]);
        let (command, total) = &whole.calls[0];
        assert_eq!(
            (whole.calls.len(), command.name, total.calls, total.failed, total.latency.total()),
            (1, "GET", 4, 2, 4)
        );
        assert_eq!(whole.errors["WRONGTYPE"], 2);
        assert_eq!(
            (whole.statistics.clients, whole.statistics.query_bytes_max, whole.denied),
            (7, 7, [1, 2, 3, 4])
        );
    }
}
