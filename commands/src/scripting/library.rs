//! The libraries of functions: they lie in the segment, and each process has a view of them.
//!
//! ```text
//!   segment, hidden database:  libraries        -> (length of 32 bits, code) of each
//!                              libraries:token  -> changes with each change of them
//! ```
//!
//! Who finds another token than his view's reads all of them again; what has not changed keeps its number, and with it the upvalues that
//! its functions have in each thread.
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use polder_base::script::{Function, Library, Scripts};
use polder_table::{Counter, Replaces, SYSTEM, Snapshot, Stop, Table, Txn};
use polder_values::string;

use super::shebang;
use super::shelf::{Token, fetch, fresh_token, store, token};
use crate::persistence::load::Present;

const CODES: &[u8] = b"libraries";
const TOKEN: &[u8] = b"libraries:token";

/// All libraries at one moment.
#[derive(Debug, Default)]
pub struct View {
    token: Token,
    pub all: Vec<Arc<Library>>,
    /// By the function's name in lower case: the numbers of library and function.
    by_function: HashMap<String, (usize, usize)>,
}

impl View {
    fn of(token: Token, all: Vec<Arc<Library>>) -> View {
        let mut by_function = HashMap::new();
        for (at, library) in all.iter().enumerate() {
            for (number, function) in library.functions.iter().enumerate() {
                by_function.insert(function.name.to_ascii_lowercase(), (at, number));
            }
        }
        View { token, all, by_function }
    }

    /// How many functions there are.
    pub fn functions(&self) -> usize {
        self.by_function.len()
    }

    /// A function by its name in any case.
    pub fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &Function)> {
        let name = std::str::from_utf8(name).ok()?;
        let known = self.by_function.get(name);
        let (at, number) = match known {
            Some(known) => known,
            None => self.by_function.get(&name.to_ascii_lowercase())?,
        };
        let library = &self.all[*at];
        Some((library, &library.functions[*number]))
    }
}

thread_local! {
    /// The last view of this thread, with the address of whose it is.
    static FRONT: RefCell<(usize, Arc<View>)> = RefCell::default();
}

/// A process's view of the libraries.
#[derive(Default)]
pub struct Libraries(RwLock<Arc<View>>);

impl Libraries {
    /// The libraries as they were when this process last looked.
    pub fn known(&self) -> Arc<View> {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The libraries as they are now, for `txn`.
    ///
    /// # Errors
    /// Those of the table.
    pub fn now(&self, table: &Table, txn: &Txn<'_>, lua: &dyn Scripts) -> Result<Arc<View>, Stop> {
        let token = token(table, txn, TOKEN)?;
        let mine = std::ptr::from_ref(self) as usize;
        let seen = FRONT.with_borrow(|(whose, view)| (*whose == mine && view.token == token).then(|| view.clone()));
        if let Some(view) = seen {
            return Ok(view);
        }
        let mut view = self.known();
        if view.token != token {
            let codes = fetch(txn, CODES)?.unwrap_or_default();
            view = Arc::new(View::of(token, read(&codes, &view, lua)));
            *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = view.clone();
        }
        FRONT.set((mine, view.clone()));
        Ok(view)
    }
}

/// The libraries in a value of the segment; those that `before` has too are taken from there.
fn read(mut codes: &[u8], before: &View, lua: &dyn Scripts) -> Vec<Arc<Library>> {
    let mut all = Vec::new();
    while let Some((len, rest)) = codes.split_first_chunk::<4>() {
        let Some((code, rest)) = rest.split_at_checked(u32::from_le_bytes(*len) as usize) else { break };
        codes = rest;
        if let Some(known) = before.all.iter().find(|known| *known.code == *code) {
            all.push(known.clone());
            continue;
        }
        // Whatever was let in once is let in again; what this build cannot run has no functions.
        if let Ok((name, shebang)) = shebang::of_library(code) {
            let mut library = Library::new(name, code, shebang);
            library.functions = lua.load(&library).unwrap_or_default();
            all.push(Arc::new(library));
        }
    }
    all
}

/// The codes of all libraries, for whoever writes them to a file.
///
/// # Errors
/// Those of the table.
fn codes(txn: &Txn<'_>) -> Result<Vec<Vec<u8>>, Stop> {
    Ok(apart(&fetch(txn, CODES)?.unwrap_or_default()))
}

/// The codes of the libraries at the instant of a snapshot, which has not begun to walk.
///
/// # Errors
/// Those of the table.
pub(crate) fn codes_at(snapshot: &mut Snapshot<'_>) -> Result<Vec<Vec<u8>>, Stop> {
    let Some(item) = snapshot.find(SYSTEM, CODES)? else { return Ok(Vec::new()) };
    let Some(found) = snapshot.found(&item)? else { return Ok(Vec::new()) };
    Ok(apart(&string::contiguous(snapshot, &found.value)?))
}

fn apart(stored: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut all) = (stored, Vec::new());
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let Some((code, more)) = more.split_at_checked(u32::from_le_bytes(*len) as usize) else { break };
        all.push(code.to_vec());
        rest = more;
    }
    all
}

/// Adds the codes of libraries that a file holds. They are looked at by whoever uses them first.
///
/// # Errors
/// Those of the table; a code that names no library; a library that is there and may be neither kept nor replaced.
pub(crate) fn add_codes(txn: &Txn<'_>, fresh: &[Vec<u8>], present: Present) -> Result<(), Stop> {
    txn.declare(&[(SYSTEM, CODES), (SYSTEM, TOKEN)])?;
    let mut all = codes(txn)?;
    for code in fresh {
        let (name, _) = shebang::of_library(code)?;
        let known = all.iter().position(|old| shebang::of_library(old).is_ok_and(|(old, _)| old == name));
        match known {
            Some(at) if present == Present::Replaced => all[at].clone_from(code),
            Some(_) if present == Present::Refused => return Err(format!("ERR Library {name} already exists").into()),
            Some(_) => {}
            None => all.push(code.clone()),
        }
    }
    let mut stored = Vec::new();
    for code in &all {
        stored.extend_from_slice(&(code.len() as u32).to_le_bytes());
        stored.extend_from_slice(code);
    }
    store(txn, CODES, &stored)?;
    store(txn, TOKEN, &fresh_token())
}

/// Takes all libraries away.
///
/// # Errors
/// Those of the table.
pub(crate) fn clear_codes(txn: &Txn<'_>) -> Result<(), Stop> {
    txn.declare(&[(SYSTEM, CODES), (SYSTEM, TOKEN)])?;
    write(txn, std::iter::empty())
}

/// Writes what the libraries are to be.
///
/// # Errors
/// Those of the table.
pub fn write<'l>(txn: &Txn<'_>, all: impl Iterator<Item = &'l Library>) -> Result<(), Stop> {
    let mut codes = Vec::new();
    for library in all {
        codes.extend_from_slice(&(library.code.len() as u32).to_le_bytes());
        codes.extend_from_slice(&library.code);
    }
    if codes.is_empty() {
        txn.remove(SYSTEM, CODES, Replaces::Whole)?;
    } else {
        store(txn, CODES, &codes)?;
    }
    // Libraries are data, and worth a save.
    txn.count(Counter::Changes, 1);
    store(txn, TOKEN, &fresh_token())
}

/// What the libraries are once these have been added to those that are there. `replaces`: a library of the same name gives way.
///
/// # Errors
/// Redis's texts.
pub fn merge(view: &View, fresh: Vec<Library>, replaces: bool) -> Result<Vec<Arc<Library>>, Stop> {
    let mut all = view.all.clone();
    for library in fresh {
        match all.iter().position(|old| old.name == library.name) {
            Some(_) if !replaces => return Err(format!("ERR Library {} already exists", library.name).into()),
            Some(at) => _ = all.remove(at),
            None => {}
        }
        all.push(Arc::new(library));
    }
    let mut seen = HashMap::new();
    for library in &all {
        for function in &library.functions {
            if seen.insert(function.name.to_ascii_lowercase(), ()).is_some() {
                return Err(format!("ERR Function {} already exists", function.name).into());
            }
        }
    }
    Ok(all)
}
