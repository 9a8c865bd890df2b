//! What a process knows of the libraries of functions, which lie in the segment (`depot.rs`).
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

use polder_base::script::{Library, Scripts};
use polder_table::{Counter, Stop, Table, Txn};

use super::depot::{self, Edit, TOKEN, Totals, View};
use super::shebang;
use super::shelf::{Token, open_token, token};
use crate::metrics::recorder::lock;

/// A thread's front is emptied when it holds more than this.
const FRONT_MAX: usize = 1024;
/// Libraries that a process may know beside twice as many as there are.
const SPARE: usize = 64;

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
    /// The address of whose it is.
    whose: usize,
    token: Token,
    places: HashMap<Box<[u8]>, Place>,
}

thread_local! {
    static FRONT: RefCell<Front> = RefCell::default();
}

/// Those that wait in the segment to be put among the known ones, as they were at a token.
#[derive(Default)]
struct Waiting {
    token: Token,
    all: Vec<Arc<Library>>,
}

impl Waiting {
    fn has(&self, name: &str) -> bool {
        self.all.iter().any(|library| library.name == name)
    }

    /// The last one that has a function, by its name in lower case.
    fn function(&self, name: &str) -> Option<Place> {
        self.all.iter().rev().find_map(|library| place(library, name))
    }
}

fn place(library: &Arc<Library>, name: &str) -> Option<Place> {
    let number = library.functions.iter().position(|function| function.name.eq_ignore_ascii_case(name))?;
    Some((library.clone(), number))
}

/// A process's libraries.
#[derive(Default)]
pub struct Libraries {
    /// By name, with the marks that they had; zeros where one waits.
    run: Mutex<HashMap<String, (Token, Arc<Library>)>>,
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

    fn glance(self) -> View<'t, 'x> {
        View { txn: self.txn, glances: true }
    }

    /// The token, where nobody is changing libraries, this transaction included.
    fn open_token(self) -> Option<Token> {
        open_token(self.table, TOKEN)
    }
}

impl Libraries {
    /// A function by its name in any case.
    ///
    /// # Errors
    /// Those of the table; it is damaged.
    pub fn function(&self, look: Look<'_, '_>, name: &[u8]) -> Result<Option<Place>, Stop> {
        let token = token(look.table, look.txn, TOKEN)?;
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
        // A token does not come back: what was seen between two looks at the same one is of one time. So a function that runs for long, or is
        // stopped, keeps nobody from the libraries.
        let glanced = match look.open_token() {
            Some(open) => self.glanced(look, open, &text)?.filter(|_| look.open_token() == Some(open)),
            None => None,
        };
        let found = match glanced {
            Some(place) => Some(place),
            None => match look.view().owner(&text)? {
                Some((mark, owner)) => self.library(look, look.view(), &owner, mark)?.and_then(|library| place(&library, &text)),
                None => self.waiting(look)?.function(&text),
            },
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

    /// A function by its name in lower case, as far as that can be seen at a glance.
    fn glanced(&self, look: Look<'_, '_>, open: Token, name: &str) -> Result<Option<Place>, Stop> {
        if let Some((mark, owner)) = look.glance().owner(name)? {
            return Ok(self.library(look, look.glance(), &owner, mark)?.and_then(|library| place(&library, name)));
        }
        let waiting = lock(&self.waiting).clone();
        Ok(if waiting.token == open { waiting.function(name) } else { None })
    }

    /// All libraries whose names fit.
    ///
    /// # Errors
    /// As [`Libraries::function`].
    pub fn all(&self, look: Look<'_, '_>, fits: impl Fn(&str) -> bool) -> Result<Vec<Arc<Library>>, Stop> {
        let mut all = Vec::new();
        look.view().each(|name, stored| {
            if str::from_utf8(name).is_ok_and(&fits) {
                all.extend(self.run(look.lua, stored.mark, stored.code));
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
        let totals = look.view().totals()?.and(Totals::of(self.waiting(look)?.all.iter().map(|library| &**library)));
        *lock(&self.seen) = totals;
        Ok(totals)
    }

    /// As [`Libraries::totals`], without a transaction, and about: libraries that wait count as they did when this process last looked.
    pub fn totals_now(&self, table: &Table) -> Totals {
        let waiting = Totals::of(lock(&self.waiting).all.iter().map(|library| &**library));
        let mut seen = lock(&self.seen);
        if let Some(known) = depot::totals_now(table) {
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
            if is_there || is_twin && policy != Policy::Replace {
                return Err(format!("ERR Library {name} already exists").into());
            }
            if !is_twin {
                last.push(library);
            }
        }
        let goes = |name: &str| policy == Policy::Flush || names.contains(name);
        refuse_twins(&edit, &waiting, &last, goes)?;
        if policy == Policy::Flush {
            edit.clear()?;
        }
        self.settle(&mut edit, &waiting, goes)?;
        for library in last.into_iter().rev() {
            let mark = edit.put(&library, true)?;
            self.keep(mark, library);
        }
        look.txn.count(Counter::Changes, 1);
        let totals = edit.publish()?;
        self.trim(look.view(), totals)
    }

    /// Takes a library away; answers whether it was there.
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

    /// Begins a change; answers those that wait, too.
    fn open<'t, 'x>(&self, look: Look<'t, 'x>) -> Result<(Edit<'t, 'x>, Arc<Waiting>), Stop> {
        // Those that wait are run before anything is locked: nobody is to wait for that.
        self.waiting(look)?;
        let edit = Edit::open(look.txn)?;
        Ok((edit, self.waiting(look)?))
    }

    /// Puts those that wait among the known ones, but for those that go at once, and those that could not be run, which wait on.
    fn settle(&self, edit: &mut Edit<'_, '_>, waiting: &Waiting, goes: impl Fn(&str) -> bool) -> Result<(), Stop> {
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
            lock(&self.run).insert(library.name.clone(), (mark, library.clone()));
        }
        edit.leave_waiting(&failed)
    }

    /// A known library as it is at a mark.
    fn library(&self, look: Look<'_, '_>, view: View<'_, '_>, name: &str, mark: Token) -> Result<Option<Arc<Library>>, Stop> {
        let run = lock(&self.run).get(name).filter(|(known, _)| *known == mark).map(|(_, library)| library.clone());
        if run.is_some() {
            return Ok(run);
        }
        let Some((mark, code)) = view.library(name)? else { return Ok(None) };
        let library = self.run(look.lua, mark, &code);
        self.trim(view, view.totals()?)?;
        Ok(library)
    }

    /// Those that wait, as they are now.
    fn waiting(&self, look: Look<'_, '_>) -> Result<Arc<Waiting>, Stop> {
        let token = token(look.table, look.txn, TOKEN)?;
        let known = lock(&self.waiting).clone();
        if known.token == token {
            return Ok(known);
        }
        let glanced = look.glance().waiting()?;
        let is_true = !glanced.is_empty() && look.open_token() == Some(token);
        let codes = if is_true { glanced } else { look.view().waiting()? };
        let all: Vec<_> = codes.iter().filter_map(|code| self.run(look.lua, Token::default(), code)).collect();
        // What could not be run is tried again the next time.
        let have_run = all.iter().all(|library| !library.functions.is_empty());
        let waiting = Arc::new(Waiting { token: if have_run { token } else { Token::default() }, all });
        *lock(&self.waiting) = waiting.clone();
        Ok(waiting)
    }

    /// The library of a code, run at least once. Whatever was let in once is let in again; what cannot be run has no functions, and is run again when
    /// it is looked for again: memory or time may have been short, or another build may do it.
    fn run(&self, lua: &dyn Scripts, mark: Token, code: &[u8]) -> Option<Arc<Library>> {
        let (name, shebang) = shebang::of_library(code).ok()?;
        if let Some((known, library)) = lock(&self.run).get_mut(&name)
            && *library.code == *code
        {
            *known = mark;
            return Some(library.clone());
        }
        let mut library = Library::new(name, code, shebang);
        Some(match lua.load(&library) {
            Ok(functions) => {
                library.functions = functions;
                self.keep(mark, library)
            }
            Err(_) => Arc::new(library),
        })
    }

    /// Remembers a library, unless the same code has been run before.
    fn keep(&self, mark: Token, library: Library) -> Arc<Library> {
        let mut run = lock(&self.run);
        match run.get_mut(&library.name) {
            Some((known, same)) if same.code == library.code => {
                *known = mark;
                same.clone()
            }
            _ => {
                let library = Arc::new(library);
                run.insert(library.name.clone(), (mark, library.clone()));
                library
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
        // Looked up first: whoever waits in the table must not hold what others of this process need.
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
fn refuse_twins(edit: &Edit<'_, '_>, waiting: &Waiting, fresh: &[Library], goes: impl Fn(&str) -> bool) -> Result<(), Stop> {
    let others = waiting.all.iter().filter(|library| !goes(&library.name)).flat_map(|library| &library.functions);
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
