//! A file system that loses power: the double of `polder_storage::Medium` for tests.
//!
//! ```text
//!   files     what was synced, and the writes and cuts since then          names    what was synced with the folder, and the changes since then
//!                 |                                                                     |
//!   cut:      any prefix of the writes, the last one torn at any byte       any of the changes, each by itself
//! ```
//!
//! It can also fail at its n-th call, as a full or broken disk does, or end there, as a process that is killed: every later call fails.
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polder_storage::{File, Medium};

use crate::random::Random;

/// A file system in memory.
#[derive(Clone, Default)]
pub struct Power(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: Vec<Content>,
    live: Names,
    synced: Names,
    changes: Vec<Change>,
    /// Calls that have been made, the call that fails, and whether the process ends with it.
    calls: u64,
    fails_at: Option<(u64, Failure)>,
}

type Names = BTreeMap<PathBuf, usize>;

/// How a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Once, with some of its bytes written.
    Full,
    /// Once; what had not been synced is lost at the next power cut, whatever is synced later.
    Broken,
    /// The process is killed within it.
    Killed,
    /// The same; if it is a sync, it fails, and no process hears of it: what had not been synced is lost at the next power cut, unless it is written again.
    Lost,
}

impl Failure {
    fn kills(self) -> bool {
        matches!(self, Failure::Killed | Failure::Lost)
    }
}

#[derive(Clone, Default)]
struct Content {
    live: Vec<u8>,
    synced: Vec<u8>,
    pending: Vec<Write>,
    /// A sync has failed: nothing more reaches the disk.
    is_broken: bool,
}

#[derive(Clone)]
enum Write {
    Bytes(u64, Vec<u8>),
    Length(u64),
}

#[derive(Clone)]
enum Change {
    Named(PathBuf, usize),
    Renamed(PathBuf, PathBuf, usize),
    Removed(PathBuf),
}

impl Write {
    /// Writes `part` of the bytes.
    fn apply(&self, content: &mut Vec<u8>, part: usize) {
        match self {
            Write::Bytes(at, bytes) => {
                let (at, bytes) = (*at as usize, &bytes[..part.min(bytes.len())]);
                content.resize(content.len().max(at + bytes.len()), 0);
                content[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Write::Length(length) => content.resize(*length as usize, 0),
        }
    }
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Change::Named(path, file) => drop(names.insert(path.clone(), *file)),
            Change::Renamed(from, to, file) => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                }
                names.insert(to.clone(), *file);
            }
            Change::Removed(path) => drop(names.remove(path)),
        }
    }
}

impl Power {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The `call`-th call from now on (the first is 0) fails.
    pub fn fail_at(&self, call: u64, failure: Failure) {
        let mut state = self.state();
        state.fails_at = Some((state.calls + call, failure));
    }

    /// How many calls have been made.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// What another process finds after the one before was killed: everything that was written.
    pub fn after_kill(&self) -> Power {
        let state = self.state();
        let (files, live, synced) = (state.files.clone(), state.live.clone(), state.synced.clone());
        Power(Arc::new(Mutex::new(State {
            files,
            live,
            synced,
            changes: state.changes.clone(),
            ..State::default()
        })))
    }

    /// What is there when the power is back.
    pub fn after_cut(&self, random: &mut Random) -> Power {
        let state = self.state();
        let mut names = state.synced.clone();
        for change in &state.changes {
            if random.chance(50) {
                change.apply(&mut names);
            }
        }
        let files = state.files.iter().map(|file| file.after_cut(random)).collect();
        Power(Arc::new(Mutex::new(State { files, live: names.clone(), synced: names, ..State::default() })))
    }
}

impl Content {
    fn after_cut(&self, random: &mut Random) -> Content {
        let mut content = self.synced.clone();
        let whole = random.below(self.pending.len() + 1);
        self.pending[..whole].iter().for_each(|write| write.apply(&mut content, usize::MAX));
        if let Some(write @ Write::Bytes(_, bytes)) = self.pending.get(whole) {
            write.apply(&mut content, random.below(bytes.len() + 1));
        }
        Content { live: content.clone(), synced: content, ..Content::default() }
    }

    fn write(&mut self, write: Write, part: usize) {
        write.apply(&mut self.live, part);
        self.pending.push(match write {
            Write::Bytes(at, bytes) => Write::Bytes(at, bytes[..part.min(bytes.len())].to_vec()),
            cut => cut,
        });
    }
}

impl State {
    /// Counts a call; how it fails, if it does.
    fn call(&mut self) -> Option<Failure> {
        let (this, fails_at) = (self.calls, self.fails_at);
        self.calls += 1;
        fails_at
            .filter(|(at, failure)| this == *at || this > *at && failure.kills())
            .map(|(_, failure)| failure)
    }

    fn is_dead(&self) -> bool {
        self.fails_at.is_some_and(|(at, failure)| failure.kills() && self.calls > at + 1)
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.live.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn failed(failure: Failure) -> io::Error {
    match failure {
        Failure::Full => io::ErrorKind::StorageFull.into(),
        Failure::Broken | Failure::Killed | Failure::Lost => io::Error::other(format!("{failure:?}")),
    }
}

struct Open {
    power: Power,
    file: usize,
}

impl Medium for Power {
    fn make_folder(&self, _: &Path) -> io::Result<()> {
        self.state().call().map_or(Ok(()), |failure| Err(failed(failure)))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Vec<u8>>> {
        let state = self.state();
        let names = state
            .live
            .keys()
            .filter(|path| path.parent() == Some(folder))
            .filter_map(|path| path.file_name());
        Ok(names.map(|name| name.as_encoded_bytes().to_vec()).collect())
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = self.state().find(path)?;
        Ok(Box::new(Open { power: self.clone(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut state = self.state();
        let failure = state.call();
        if let Some(failure) = failure.filter(|failure| !failure.kills() || state.is_dead()) {
            return Err(failed(failure));
        }
        let file = match state.find(path) {
            Ok(file) => {
                state.files[file].write(Write::Length(0), 0);
                file
            }
            Err(_) => {
                state.files.push(Content::default());
                let file = state.files.len() - 1;
                state.change(Change::Named(path.to_owned(), file));
                file
            }
        };
        match failure {
            Some(failure) => Err(failed(failure)),
            None => Ok(Box::new(Open { power: self.clone(), file })),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        let failure = state.call();
        // A process that is killed in this call has made it, or has not.
        if failure.is_none_or(|failure| failure.kills() && !state.is_dead() && state.calls.is_multiple_of(2))
        {
            let file = state.find(from)?;
            state.change(Change::Renamed(from.to_owned(), to.to_owned(), file));
        }
        failure.map_or(Ok(()), |failure| Err(failed(failure)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        if let Some(failure) = state.call() {
            return Err(failed(failure));
        }
        state.find(path)?;
        state.change(Change::Removed(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        if let Some(failure) = state.call() {
            return Err(failed(failure));
        }
        let State { changes, synced, .. } = &mut *state;
        changes.drain(..).for_each(|change| change.apply(synced));
        Ok(())
    }
}

impl File for Open {
    fn length(&self) -> io::Result<u64> {
        Ok(self.power.state().files[self.file].live.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.power.state();
        let live = &state.files[self.file].live;
        let rest = &live[(at as usize).min(live.len())..];
        let read = rest.len().min(bytes.len());
        bytes[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.power.state();
        let failure = state.call();
        let part = match failure {
            None => bytes.len(),
            Some(failure) if failure.kills() && state.is_dead() => 0,
            Some(_) => bytes.len() / 2,
        };
        state.files[self.file].write(Write::Bytes(at, bytes.to_vec()), part);
        failure.map_or(Ok(()), |failure| Err(failed(failure)))
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.power.state();
        if let Some(failure) = state.call() {
            return Err(failed(failure));
        }
        state.files[self.file].write(Write::Length(length), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.power.state();
        let failure = state.call();
        let is_lost = failure == Some(Failure::Lost) && !state.is_dead();
        let file = &mut state.files[self.file];
        file.is_broken |= failure == Some(Failure::Broken);
        if is_lost {
            file.pending.clear();
        }
        if let Some(failure) = failure {
            return Err(failed(failure));
        }
        // After an error the kernel calls pages clean that it could not write: a later sync returns without them.
        if !file.is_broken {
            let Content { pending, synced, .. } = file;
            pending.drain(..).for_each(|write| write.apply(synced, usize::MAX));
        }
        Ok(())
    }
}
