//! What a process knows of the libraries of functions, which lie in the segment (`library_store.rs`).
//!
//! ```text
//!   thread's front (by function) -> process's libraries (by name, with their marks) -> segment
//! ```
//!
//! A front is good for one token; a library, for one mark. So a change of one library costs the others a look by name and nothing more,
//! and what has not changed keeps its number, and with it the upvalues that its functions have in each thread.
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use polder_base::script::{Library, Scripts, Trust};
use polder_table::{Counter, SYSTEM, Stop, Table, Txn};

use super::library_store::{self, Edit, TOKEN, Totals, View};
use super::script_cache::{Token, open_token, token};
use super::shebang;
use crate::locks::lock;

/// A thread's front is emptied when it holds more than this.
const FRONT_MAX: usize = 1024;
/// Libraries that a process may know beside twice as many as there are.
const SPARE: usize = 64;
/// A library that could not be run is not run again before this time, nor before [`SHARE`] times as
/// long as the run took, unless it may take more memory.
const RUN_AGAIN: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// How often libraries that change all the time are looked at without a lock.
const GLANCES: u32 = 8;

/// What becomes of the libraries that are there when others come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// They go.
    Flush,
    /// They stay; one of the same name is an error.
    Append,
    /// They stay; one of the same name goes.
    Replace,
}

/// A function: its library, and its number there.
pub type Place = (Arc<Library>, usize);

#[derive(Default)]
struct Front {
    /// The address of the owner.
    whose: usize,
    token: Token,
    places: HashMap<Box<[u8]>, Place>,
}

thread_local! {
    static FRONT: RefCell<Front> = RefCell::default();
}

/// A library that this process has run, or has tried to: then it has no functions.
#[derive(Clone)]
struct Known {
    /// That it had; zeros where it waits.
    mark: Token,
    library: Arc<Library>,
    failed: Option<Arc<Failure>>,
}

/// Why a library could not be run. Whatever was let in once is let in again: memory or time were short, or another build may do it.
struct Failure {
    text: String,
    again: Instant,
    memory_limit: u64,
}

impl Known {
    fn is_to_be_run_again(&self, lua: &dyn Scripts) -> bool {
        self.failed
            .as_ref()
            .is_some_and(|failed| Instant::now() >= failed.again || failed.memory_limit != lua.memory_limit())
    }
}

/// Those that wait in the segment to be put among the known ones, as they were at a token.
#[derive(Default)]
struct Waiting {
    token: Token,
    /// All of them have been run.
    is_whole: bool,
    all: Vec<Arc<Library>>,
}

impl Waiting {
    fn has(&self, name: &str) -> bool {
        self.all.iter().any(|library| library.name == name)
    }

    /// The first one that has a function, by its name in lower case.
    fn function(&self, name: &str) -> Option<Place> {
        self.all.iter().find_map(|library| place(library, name))
    }
}

fn place(library: &Arc<Library>, name: &str) -> Option<Place> {
    let number = library.functions.iter().position(|function| function.name.eq_ignore_ascii_case(name))?;
    Some((library.clone(), number))
}

/// A process's libraries.
#[derive(Default)]
pub struct Libraries {
    /// By name.
    run: Mutex<HashMap<String, Known>>,
    waiting: Mutex<Arc<Waiting>>,
    /// How much there was of all when this process last looked.
    seen: Mutex<Totals>,
}

/// Where libraries are looked up.
#[derive(Clone, Copy)]
pub struct Look<'t, 'x> {
    pub table: &'t Table,
    pub txn: &'t Txn<'x>,
    pub lua: &'t dyn Scripts,
}

impl<'t, 'x> Look<'t, 'x> {
    /// What the transaction relies on.
    pub fn view(self) -> View<'t, 'x> {
        View { txn: self.txn, glances: false }
    }

    fn token(self) -> Result<Token, Stop> {
        token(self.table, self.txn, TOKEN)
    }

    /// What `see` finds at one time, and the token of that time. A token does not come back, so
    /// what was seen between two reads of the same token is of one time. No lock is held, so a
    /// function that runs for long, or is stopped, blocks no other access to the libraries.
    fn at_once<T>(self, see: impl Fn(View<'t, 'x>) -> Result<T, Stop>) -> Result<(Token, T), Stop> {
        for _ in 0..GLANCES {
            if self.txn.holds(SYSTEM, TOKEN) {
                break;
            }
            let token = self.token()?;
            let seen = see(View { txn: self.txn, glances: true });
            if self.token()? == token {
                return Ok((token, seen?));
            }
        }
        // This transaction has changed them, or others never cease to.
        let token = self.view().token()?;
        Ok((token, see(self.view())?))
    }
}

impl Libraries {
    /// A function by its name in any case.
    ///
    /// # Errors
    /// Why its library cannot be run here; those of the table; it is damaged.
    pub fn function(&self, look: Look<'_, '_>, name: &[u8]) -> Result<Option<Place>, Stop> {
        let token = look.token()?;
        let mine = std::ptr::from_ref(self) as usize;
        let known = FRONT.with_borrow(|front| {
            let is_current = front.whose == mine && front.token == token;
            is_current.then(|| front.places.get(name).cloned()).flatten()
        });
        if known.is_some() {
            return Ok(known);
        }
        let Ok(text) = str::from_utf8(name) else { return Ok(None) };
        let text = text.to_ascii_lowercase();
        let (token, owner) = look.at_once(|view| match view.owner(&text)? {
            Some((mark, owner)) => self.library(look, view, &owner, mark),
            None => Ok(None),
        })?;
        let found = match owner {
            Some(Known { failed: Some(failed), .. }) => return Err(failed.text.clone().into()),
            Some(Known { library, .. }) => place(&library, &text),
            None => self.waiting(look)?.function(&text),
        };
        if let Some(place) = &found {
            FRONT.with_borrow_mut(|front| {
                if front.whose != mine || front.token != token || front.places.len() >= FRONT_MAX {
                    *front = Front { whose: mine, token, ..Front::default() };
                }
                front.places.insert(name.into(), place.clone());
            });
        }
        Ok(found)
    }

    /// Forgets all of them, which are gone.
    pub fn forget(&self) {
        lock(&self.run).clear();
        *lock(&self.waiting) = Arc::default();
        FRONT.take();
    }

    /// All libraries whose names fit.
    ///
    /// # Errors
    /// As [`Libraries::function`].
    pub fn all(&self, look: Look<'_, '_>, fits: impl Fn(&str) -> bool) -> Result<Vec<Arc<Library>>, Stop> {
        let mut all = Vec::new();
        look.view().each(|name, stored| {
            if str::from_utf8(name).is_ok_and(&fits) {
                all.extend(self.run(look.lua, stored.mark, stored.code).map(|known| known.library));
            }
            Ok(())
        })?;
        all.extend(self.waiting(look)?.all.iter().filter(|library| fits(&library.name)).cloned());
        Ok(all)
    }

    /// How much there is of all libraries.
    ///
    /// # Errors
    /// Those of the table.
    pub fn totals(&self, look: Look<'_, '_>) -> Result<Totals, Stop> {
        let totals =
            look.view().totals()?.and(Totals::of(self.waiting(look)?.all.iter().map(|library| &**library)));
        *lock(&self.seen) = totals;
        Ok(totals)
    }

    /// As [`Libraries::totals`], without a transaction, and approximate: the functions of libraries
    /// that this process has not run are not counted.
    pub fn totals_now(&self, table: &Table) -> Totals {
        let waiting = lock(&self.waiting).clone();
        let waiting = match open_token(table, TOKEN) {
            Some(token) if token == waiting.token => {
                Some(Totals::of(waiting.all.iter().map(|library| &**library)))
            }
            _ => library_store::waiting_now(table),
        };
        let mut seen = lock(&self.seen);
        if let (Some(known), Some(waiting)) = (library_store::totals_now(table), waiting) {
            *seen = known.and(waiting);
        }
        *seen
    }

    /// Whether there is a library of this name.
    ///
    /// # Errors
    /// Those of the table.
    pub fn has(&self, look: Look<'_, '_>, name: &str) -> Result<bool, Stop> {
        let (edit, waiting) = self.open(look)?;
        Ok(edit.has(name)? || waiting.has(name))
    }

    /// Adds libraries that have just been run.
    ///
    /// # Errors
    /// Redis's texts; those of the table.
    pub fn add(&self, look: Look<'_, '_>, fresh: Vec<Library>, policy: Policy) -> Result<(), Stop> {
        let (mut edit, waiting) = match policy {
            Policy::Flush => (Edit::open(look.txn)?, Arc::default()),
            _ => self.open(look)?,
        };
        let (mut names, mut last) = (HashSet::new(), Vec::with_capacity(fresh.len()));
        for library in fresh.into_iter().rev() {
            let name = &library.name;
            let is_there = policy == Policy::Append && (edit.has(name)? || waiting.has(name));
            let is_twin = !names.insert(name.clone());
            if is_twin {
                return Err(format!("ERR Library '{name}' already exists").into());
            }
            if is_there {
                return Err(format!("ERR Library {name} already exists").into());
            }
            last.push(library);
        }
        let goes = |name: &str| policy == Policy::Flush || names.contains(name);
        refuse_twins(&edit, &waiting, &last, goes)?;
        if policy == Policy::Flush {
            edit.clear()?;
        }
        self.settle(&mut edit, &waiting, goes)?;
        for library in last.into_iter().rev() {
            let mark = edit.put(&library, true)?;
            self.keep(mark, library, None);
        }
        look.txn.count(Counter::Changes, 1);
        let totals = edit.publish()?;
        self.trim(look.view(), totals)
    }

    /// Removes a library. Returns whether it was there.
    ///
    /// # Errors
    /// Those of the table.
    pub fn remove(&self, look: Look<'_, '_>, name: &str) -> Result<bool, Stop> {
        let (mut edit, waiting) = self.open(look)?;
        if !edit.has(name)? && !waiting.has(name) {
            return Ok(false);
        }
        self.settle(&mut edit, &waiting, |other| other == name)?;
        edit.remove(name)?;
        look.txn.count(Counter::Changes, 1);
        let totals = edit.publish()?;
        self.trim(look.view(), totals)?;
        Ok(true)
    }

    /// Begins a change. Returns the libraries that wait, too.
    fn open<'t, 'x>(&self, look: Look<'t, 'x>) -> Result<(Edit<'t, 'x>, Arc<Waiting>), Stop> {
        // Those that wait are run before anything is locked, so that no other transaction waits for
        // that.
        self.waiting(look)?;
        let edit = Edit::open(look.txn)?;
        Ok((edit, self.waiting(look)?))
    }

    /// Puts those that wait among the known ones, but for those that go at once, and those that could not be run, which wait on.
    fn settle(
        &self,
        edit: &mut Edit<'_, '_>,
        waiting: &Waiting,
        goes: impl Fn(&str) -> bool,
    ) -> Result<(), Stop> {
        if waiting.all.is_empty() {
            return Ok(());
        }
        let mut failed = Vec::new();
        for library in waiting.all.iter().filter(|library| !goes(&library.name)) {
            if library.functions.is_empty() {
                failed.push(&library.code[..]);
                continue;
            }
            let mark = edit.put(library, false)?;
            lock(&self.run)
                .insert(library.name.clone(), Known { mark, library: library.clone(), failed: None });
        }
        edit.leave_waiting(&failed)
    }

    /// A known library as it is at a mark.
    fn library(
        &self,
        look: Look<'_, '_>,
        view: View<'_, '_>,
        name: &str,
        mark: Token,
    ) -> Result<Option<Known>, Stop> {
        let is_it = |known: &&Known| known.mark == mark && !known.is_to_be_run_again(look.lua);
        let run = lock(&self.run).get(name).filter(is_it).cloned();
        if run.is_some() {
            return Ok(run);
        }
        let Some((mark, code)) = view.library(name)? else { return Ok(None) };
        let known = self.run(look.lua, mark, &code);
        self.trim(view, view.totals()?)?;
        Ok(known)
    }

    /// Those that wait, as they are now.
    fn waiting(&self, look: Look<'_, '_>) -> Result<Arc<Waiting>, Stop> {
        let token = look.token()?;
        let known = lock(&self.waiting).clone();
        if known.token == token && known.is_whole {
            return Ok(known);
        }
        let (token, codes) = look.at_once(View::waiting)?;
        let run: Vec<_> =
            codes.iter().filter_map(|code| self.run(look.lua, Token::default(), code)).collect();
        let is_whole = run.iter().all(|known| known.failed.is_none());
        let waiting =
            Arc::new(Waiting { token, is_whole, all: run.into_iter().map(|known| known.library).collect() });
        *lock(&self.waiting) = waiting.clone();
        Ok(waiting)
    }

    /// The library of a code, run at least once.
    fn run(&self, lua: &dyn Scripts, mark: Token, code: &[u8]) -> Option<Known> {
        let (name, shebang) = shebang::of_library(code).ok()?;
        if let Some(known) = lock(&self.run).get_mut(&name)
            && *known.library.code == *code
            && !known.is_to_be_run_again(lua)
        {
            known.mark = mark;
            return Some(known.clone());
        }
        let mut library = Library::new(name, code, shebang);
        let begun = Instant::now();
        let failed = match lua.load(&library, Trust::Accepted) {
            Ok(functions) => {
                library.functions = functions;
                None
            }
            Err(text) => {
                let again = Instant::now() + RUN_AGAIN.max(begun.elapsed() * SHARE);
                Some(Arc::new(Failure { text, again, memory_limit: lua.memory_limit() }))
            }
        };
        Some(self.keep(mark, library, failed))
    }

    /// Remembers a library, unless the same code has been run before.
    fn keep(&self, mark: Token, library: Library, failed: Option<Arc<Failure>>) -> Known {
        let mut run = lock(&self.run);
        match run.get_mut(&library.name) {
            Some(known) if known.library.code == library.code && known.failed.is_none() => {
                known.mark = mark;
                known.clone()
            }
            _ => {
                let known = Known { mark, library: Arc::new(library), failed };
                run.insert(known.library.name.clone(), known.clone());
                known
            }
        }
    }

    /// Forgets those that are gone, once there are many of them.
    fn trim(&self, view: View<'_, '_>, totals: Totals) -> Result<(), Stop> {
        let waiting = lock(&self.waiting).clone();
        let known = lock(&self.run).len();
        if known <= 2 * (totals.libraries as usize + waiting.all.len()) + SPARE {
            return Ok(());
        }
        // Looked up first: a thread that waits in the table must not hold what others of this
        // process need.
        let mut stay: HashSet<String> = waiting.all.iter().map(|library| library.name.clone()).collect();
        view.each(|name, _| {
            stay.extend(str::from_utf8(name).map(str::to_owned));
            Ok(())
        })?;
        lock(&self.run).retain(|name, _| stay.contains(name));
        Ok(())
    }
}

/// Refuses functions that another library has already, of those that do not go.
fn refuse_twins(
    edit: &Edit<'_, '_>,
    waiting: &Waiting,
    fresh: &[Library],
    goes: impl Fn(&str) -> bool,
) -> Result<(), Stop> {
    let others =
        waiting.all.iter().filter(|library| !goes(&library.name)).flat_map(|library| &library.functions);
    let mut taken: HashSet<String> = others.map(|function| function.name.to_ascii_lowercase()).collect();
    for function in fresh.iter().flat_map(|library| &library.functions) {
        let name = function.name.to_ascii_lowercase();
        let is_taken = edit.owner(&name)?.is_some_and(|owner| !goes(&owner));
        if is_taken || !taken.insert(name) {
            return Err(format!("ERR Function {} already exists", function.name).into());
        }
    }
    Ok(())
}
