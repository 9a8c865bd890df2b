//! How a thread that sleeps is woken when its inbox gets a message.
//!
//! A thread stores in its SLEEPING word where it is about to sleep, looks into its inbox once more,
//! and sleeps. A sender that has delivered looks at that word. If it is set, the sender wakes the
//! sleeper and then clears the word. A futex wakes a thread that sleeps on the word itself. A byte
//! in a FIFO wakes an event loop that polls its other end. The FIFO lies beside the segment's name
//! and belongs to the segment: it is made when a seat first needs one, and later owners of the seat
//! use it, too. (Measured: FIFO 7.5 us, eventfd passed to relatives 4.8, datagram socket 10.2,
//! futex with a helper thread 21.5.)
//!
//! ```text
//!   sleeper   SLEEPING := which sleep, how  ->  fence  ->  inbox empty?  ->  sleep                        SYNC: wakeup
//!   sender    tail moved                    ->  fence  ->  SLEEPING?     ->  wake, := 0 if it is the same  SYNC: wakeup
//! ```
//!
//! The sender wakes first and clears the word second. If it stops or dies between the two, the
//! word stays set, and the next sender wakes again; for a dead sender that is the thread that
//! recovers its seat. No two sleeps have the same word, so a late sender cannot clear the word of a
//! sleep that it has not ended. A byte stays in its FIFO, but a futex wakes those only that sleep
//! already. So a sender first marks the word as woken: a thread that is about to sleep on it finds
//! another word than its own, and does not. (tests/schedules/inboxes.rs runs all this with deaths.)
//!
//! In /dev/shm every user may make a file with any free name. So a process uses what it finds at a
//! FIFO's name only if it is a FIFO of a user that may write to the segment anyway (B1). Another
//! user's file could be a second name of a file that matters, into which each wakeup would write a
//! byte. Another user's FIFO could swallow the bytes.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use polder_base::Fault;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::layout::{header, seat as at};
use crate::mapping::Mapping;
use crate::name::SegmentName;
use crate::seat::Seat;
use crate::segment::Segment;
use crate::sync::{self, Flaw};
use crate::{futex, owner, place};

/// Where a sleeper sleeps: the low bits of SLEEPING; above them, which sleep it is.
const AWAKE: u64 = 0;
const ON_FUTEX: u64 = 1;
const ON_FIFO: u64 = 2;
const WOKEN_ON_FUTEX: u64 = 3;
const WHERE: u64 = 3;

impl Segment {
    /// Wakes the thread that owns seat `index`, if it sleeps.
    #[inline]
    pub fn wake(&self, index: u64) {
        // SYNC: wakeup. Either this thread sees that the owner sleeps, or the owner sees the message.
        fence(Ordering::SeqCst);
        let sleep = self.load(self.seat_at(index) + at::SLEEPING);
        if sleep != AWAKE {
            self.wake_sleeper(index, sleep);
        }
    }

    #[cold]
    fn wake_sleeper(&self, index: u64, sleep: u64) {
        let word = self.seat_at(index) + at::SLEEPING;
        if sync::has(Flaw::ClearsBeforeWake) {
            let _ = self.exchange(word, sleep, AWAKE);
        }
        let mut woken = sleep;
        match sleep & WHERE {
            ON_FIFO => self.write_fifo(index),
            _ => {
                if !sync::has(Flaw::WakesUnmarked) {
                    woken = sleep | WOKEN_ON_FUTEX;
                    // If another sender was first, it may have stopped since.
                    if self.exchange(word, sleep, woken).is_err_and(|now| now != woken) {
                        return;
                    }
                }
                futex::wake(self.low_half(word), u32::MAX);
            }
        }
        // S2: a designated word. Others need not wake it from this sleep.
        let _ = self.exchange(word, woken, AWAKE);
    }

    /// Whether the thread of seat `index` sleeps in a poll of its FIFO, or is about to. For measurements: it may have been woken since.
    pub fn sleeps_in_poll(&self, index: u64) -> bool {
        self.observe(self.seat_at(index) + at::SLEEPING) & WHERE == ON_FIFO
    }

    fn write_fifo(&self, index: u64) {
        #[cfg(feature = "schedules")]
        if sync::is_scheduled() {
            return crate::schedules::write_fifo(index);
        }
        let mut fifos = self.fifos.lock();
        let fifo = match fifos.entry(index) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                match open_fifo(&self.fifo_path(index), self.mapping()) {
                    Ok(fifo) => entry.insert(fifo),
                    // The FIFO lies in another mount namespace, belongs to another user, or no descriptor is free. The sleeper looks
                    // by itself after a while.
                    Err(_) => return,
                }
            }
        };
        // A FIFO that is full wakes as well.
        let _ = rustix::io::write(fifo, b"!");
    }

    fn fifo_path(&self, index: u64) -> PathBuf {
        let name = self.mapping().name();
        let mut file = prefix(name, self.load(header::WAKEUPS));
        file.push(index.to_string());
        place::directory_of(&place::door(name)).join(file)
    }
}

/// What the names of a segment's FIFOs begin with.
fn prefix(name: &SegmentName, names: u64) -> OsString {
    let mut prefix = OsString::from(".polder-bell-");
    if let Some(file) = place::door(name).file_name() {
        prefix.push(file);
    }
    prefix.push(format!("-{names:016x}-"));
    prefix
}

/// Removes the FIFOs of a segment that is being removed.
pub(crate) fn remove_all(name: &SegmentName, names: u64) {
    let prefix = prefix(name, names);
    let Ok(entries) = std::fs::read_dir(place::directory_of(&place::door(name))) else { return };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes()) {
            // What another one removes at the same time is removed as well.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Why a FIFO cannot be used.
enum Refusal {
    System(Errno),
    /// B1: what stands at its name belongs to this user.
    Foreign(u32),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::System(errno)
    }
}

/// Opens a FIFO that exists, for reading and writing: writing into a FIFO without a reader would be a signal that ends the process.
fn open_fifo(path: &Path, mapping: &Mapping) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fifo = rustix::fs::open(path, flags, Mode::empty())?;
    let (fifo_state, segment) = (rustix::fs::fstat(&fifo)?, mapping.state()?);
    let is_fifo = FileType::from_raw_mode(fifo_state.st_mode) == FileType::Fifo;
    if is_fifo && may_own_fifo(&segment, &fifo_state) {
        Ok(fifo)
    } else {
        Err(Refusal::Foreign(fifo_state.st_uid))
    }
}

/// B1: whether the owner of a FIFO is this process's user, root, the segment's owner, a member of the group that may write to the segment, or
/// any user if all may write to it. Only a member can give a file to the group.
fn may_own_fifo(segment: &Stat, fifo: &Stat) -> bool {
    let mode = Mode::from_raw_mode(segment.st_mode);
    [owner::own(), 0, segment.st_uid].contains(&fifo.st_uid)
        || mode.contains(Mode::WGRP) && fifo.st_gid == segment.st_gid
        || mode.contains(Mode::WOTH)
}

/// Makes a FIFO into which each user with access to the segment can write; `EXIST` if its name is taken.
fn make_fifo(path: &Path, mapping: &Mapping) -> Result<OwnedFd, Refusal> {
    let segment = mapping.state()?;
    let mode = Mode::from_raw_mode(segment.st_mode & 0o666);
    rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, mode, 0)?;
    let fifo = open_fifo(path, mapping)?;
    // The segment's owner must be able to open what root makes. A process outside of the group cannot give it to the group, and needs not.
    let user = (owner::own() == 0).then(|| rustix::fs::Uid::from_raw(segment.st_uid));
    let _ = rustix::fs::fchown(&fifo, user, Some(rustix::fs::Gid::from_raw(segment.st_gid)));
    // Whatever the process's mask took away.
    let _ = rustix::fs::fchmod(&fifo, mode);
    Ok(fifo)
}

impl Seat {
    /// The end of this seat's FIFO that an event loop polls. What is read from it means nothing.
    ///
    /// # Errors
    /// [`Fault::System`] where none can be made beside the segment's name.
    pub fn wakeup_fifo(&self) -> Result<OwnedFd, Fault> {
        let (path, mapping) = (self.segment.fifo_path(self.index), self.segment.mapping());
        let made = match make_fifo(&path, mapping) {
            Err(Refusal::System(Errno::EXIST)) => open_fifo(&path, mapping),
            made => made,
        };
        let fifo = match made {
            // Root and the owner of the directory can clear the name; for others it stays as it is.
            Err(Refusal::Foreign(_)) if rustix::fs::unlink(&path).is_ok() => make_fifo(&path, mapping),
            fifo => fifo,
        };
        fifo.map_err(|refusal| match refusal {
            Refusal::System(errno) => Fault::System(format!("cannot make {}: {errno}", path.display())),
            Refusal::Foreign(user) => Fault::System(format!(
                "{} was put there by user {user}, who may not write to the segment: remove it",
                path.display()
            )),
        })
    }

    /// Notes that the thread is about to sleep in a poll of its FIFO. Returns false if it must not,
    /// since its inbox has messages.
    pub fn prepare_sleep(&self) -> bool {
        self.begin_sleep(ON_FIFO).is_some()
    }

    /// Says that the thread is awake.
    pub fn after_sleep(&self) {
        // A sender may clear it at the same time, which has the same effect.
        if self.get(at::SLEEPING) != AWAKE {
            self.segment.word(self.base + at::SLEEPING).swap(AWAKE, Ordering::AcqRel);
        }
    }

    /// Sleeps until a message comes, at most `timeout` (none: for ever). It may wake without one.
    pub fn sleep(&self, timeout: Option<Duration>) {
        if let Some(sleep) = self.begin_sleep(ON_FUTEX) {
            futex::wait(self.segment.low_half(self.base + at::SLEEPING), sleep as u32, timeout);
            self.after_sleep();
        }
    }

    /// Says that the thread is about to sleep. Returns the word that says so, unless the inbox has something.
    fn begin_sleep(&self, place: u64) -> Option<u64> {
        self.sleeps.set(self.sleeps.get() + 1);
        // Another life's sleeps have other numbers.
        let number = if sync::has(Flaw::SleepsAlike) { 0 } else { self.sleeps.get() & 0xffff_ffff };
        let sleep = (self.life() << 32 | number) << 2 | place;
        self.segment.word(self.base + at::SLEEPING).swap(sleep, Ordering::SeqCst);
        // SYNC: wakeup. Either the sender sees that this thread sleeps, or this thread sees the
        // message.
        fence(Ordering::SeqCst);
        let lost = self.segment.load(self.base + at::INBOX_LOST);
        if self.has_messages() || lost != self.lost_seen.get() {
            self.after_sleep();
            return None;
        }
        Some(sleep)
    }

    /// Notes that the owner knows of the lost messages. Returns whether there were new ones.
    pub fn note_lost(&self) -> bool {
        let lost = self.lost_mail();
        self.lost_seen.replace(lost) != lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifo_belongs_to_a_user_that_may_write_to_the_segment() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let of = |user: u32, group: u32, mode: u32| {
            let mut state = rustix::fs::fstat(&file).unwrap();
            (state.st_uid, state.st_gid, state.st_mode) = (user, group, mode);
            state
        };
        let (keeper, stranger) = (owner::own() + 1, owner::own() + 2);
        for (user, group, segment_mode, may) in [
            (owner::own(), 7, 0o600, true),
            (0, 7, 0o600, true),
            (keeper, 7, 0o600, true),
            (stranger, 7, 0o600, false),
            (stranger, 5, 0o600, false),
            (stranger, 5, 0o640, false),
            (stranger, 5, 0o660, true),
            (stranger, 7, 0o660, false),
            (stranger, 7, 0o666, true),
        ] {
            assert_eq!(
                may_own_fifo(&of(keeper, 5, segment_mode), &of(user, group, 0o600)),
                may,
                "{user} {group} {segment_mode:o}"
            );
        }
    }
}
