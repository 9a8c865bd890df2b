//! What the log says at the start: which memory this is, and what of this machine will hurt later.
use std::path::Path;
use std::time::Duration;

use polder_calls::settings::{Id, Settings, id};
use polder_engine::Memory;
use polder_shm::overview::Seated;

use crate::text;

const MAXMEMORY: Id = id("maxmemory");

/// Databases that clients may have used.
const DATABASES: u16 = 256;

/// What POSIX and `shm:` segments live in.
const SHM: &str = "/dev/shm";

/// Says what was attached: made now or found, by then how old, with how many keys.
pub fn describe(memory: &Memory, segment: &str, began_ms: u64) {
    let table = memory.table();
    let made_ms = table.segment().created_ms();
    if made_ms >= began_ms {
        tracing::info!(segment, layout = table.segment().layout(), "the segment was made: it is empty");
        return;
    }
    let keys: u64 = (0..DATABASES).map(|db| table.keys(db).0).sum();
    let others = processes(&table.segment().seated());
    let age = text::age(Duration::from_millis(began_ms.saturating_sub(made_ms)));
    let used_bytes = table.usage().used;
    tracing::info!(
        segment,
        keys,
        used_bytes,
        age,
        others,
        layout = table.segment().layout(),
        "the segment was found"
    );
}

/// How many other processes are attached.
fn processes(seats: &[Seated]) -> usize {
    let mut others: Vec<u32> =
        seats.iter().map(|seat| seat.process).filter(|process| *process != std::process::id()).collect();
    others.sort_unstable();
    others.dedup();
    others.len()
}

/// Warns of what will hurt later.
pub fn warn(memory: &Memory, settings: &Settings, segment: &str) {
    let usage = memory.table().usage();
    let may_grow = match settings.number(MAXMEMORY) as u64 {
        0 => usage.ceiling,
        maxmemory => usage.ceiling.min(maxmemory),
    };
    let is_shm = !segment.contains(':') || segment.starts_with("shm:");
    if is_shm && let Some(room) = room_of_shm() {
        warn_of_room(may_grow, usage.committed, room);
    }
    if read("/proc/sys/vm/overcommit_memory") == "2" {
        tracing::warn!(
            "vm.overcommit_memory is 2: the system may refuse memory long before it is full; set it to 0 or 1 with 'sysctl vm.overcommit_memory=1'"
        );
    }
    let huge = read("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if is_shm && usage.page_bytes <= 4096 && (huge.contains("[never]") || huge.contains("[deny]")) {
        tracing::info!(
            "huge pages are off for shared memory; large data is read faster with 'echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled' before the segment is made"
        );
    }
    if !segment.starts_with("file:") && is_removed_at_logout() {
        tracing::warn!(
            "systemd removes this user's segments when its last session ends: run the server as a system user, or call 'loginctl enable-linger', or set RemoveIPC=no in logind.conf"
        );
    }
}

/// Says where the file system is smaller than what the memory may grow to.
fn warn_of_room(may_grow: u64, committed: u64, (total, free): (u64, u64)) {
    let missing = may_grow.saturating_sub(committed);
    let (may_grow, total) = (text::bytes(may_grow), text::bytes(total));
    let advice = "enlarge it ('mount -o remount,size=...', in a container --shm-size) or set maxmemory";
    if missing > free {
        tracing::warn!(
            "the memory may grow to {may_grow}, but {SHM} has {} left of {total}: {advice}",
            text::bytes(free)
        );
    }
}

/// How large the file system is, and what is free of it, in bytes; `None` where it has no limit.
fn room_of_shm() -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(SHM).ok().filter(|found| found.f_blocks > 0)?;
    Some((found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize))
}

/// Whether logind removes what this user has in shared memory. It leaves system users alone, whose numbers are below 1000.
fn is_removed_at_logout() -> bool {
    const SYSTEM_USERS: u32 = 1000;
    if rustix::process::geteuid().as_raw() < SYSTEM_USERS || !Path::new("/run/systemd/system").exists() {
        return false;
    }
    let user = rustix::process::geteuid().as_raw().to_string();
    let users = read("/etc/passwd");
    let mut names = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .filter(|fields| fields.get(2) == Some(&user.as_str()));
    let lingers = names.any(|fields| Path::new("/var/lib/systemd/linger").join(fields[0]).exists());
    let is_off = |text: String| text.lines().any(|line| line.trim().eq_ignore_ascii_case("RemoveIPC=no"));
    !lingers && !is_off(read("/etc/systemd/logind.conf"))
}

/// A file's text without the end of its line; empty where there is none.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim_end().to_owned()
}
