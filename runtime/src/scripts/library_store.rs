//! Where the libraries of functions lie in the segment: a field of its own each, so that one comes or goes without the others.
//!
//! ```text
//!   hidden database:
//!   libraries         string: (length of 32 bits, code) of each that no process has run yet: a file has brought them, or an earlier build
//!   libraries:known   hash:   name -> mark (16), length (4) of: (length, name) of its functions, code
//!   libraries:names   hash:   a function's name in lower case -> mark (16), name of its library
//!   libraries:totals  three words of 64 bits: of those that are known, how many, their functions, the bytes of their codes
//!   libraries:token   changes with each change of all this
//! ```
//!
//! What a library registers is known only to a process that runs its code. So a file's libraries
//! wait in `libraries` as they are. The process that next changes libraries runs them and adds them
//! to the known ones. A mark is a token: a library that is removed and comes back has another one.
use std::borrow::Cow;

use polder_base::Fault;
use polder_base::script::Library;
use polder_table::{CommitView, Found, New, Replaces, SYSTEM, Snapshot, Stop, Table, Txn};
use polder_values::hash::{Draft, Expiry, Hash, Thresholds};
use polder_values::{Kind, Nodes, Value, string};

use super::script_cache::{Token, fresh_token, read_token, store};
use super::shebang;

const WAITING: &[u8] = b"libraries";
const KNOWN: &[u8] = b"libraries:known";
const NAMES: &[u8] = b"libraries:names";
const TOTALS: &[u8] = b"libraries:totals";
pub const TOKEN: &[u8] = b"libraries:token";

const DAMAGED: Fault = Fault::Damaged { what: "a library of functions" };

/// What becomes of a key that is there already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Present {
    /// It stays.
    #[default]
    Kept,
    Replaced,
    /// It is an error.
    Refused,
}

/// How much there is of known libraries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    pub libraries: u64,
    pub functions: u64,
    /// Of their codes.
    pub bytes: u64,
}

impl Totals {
    /// Those of libraries that have been run.
    pub fn of<'l>(libraries: impl Iterator<Item = &'l Library>) -> Totals {
        libraries.fold(Totals::default(), |sum, library| Totals {
            libraries: sum.libraries + 1,
            functions: sum.functions + library.functions.len() as u64,
            bytes: sum.bytes + library.code.len() as u64,
        })
    }

    /// Both together.
    pub fn and(self, other: Totals) -> Totals {
        Totals {
            libraries: self.libraries + other.libraries,
            functions: self.functions + other.functions,
            bytes: self.bytes + other.bytes,
        }
    }

    fn without(self, other: Totals) -> Totals {
        Totals {
            libraries: self.libraries.saturating_sub(other.libraries),
            functions: self.functions.saturating_sub(other.functions),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn read(stored: Option<&[u8]>) -> Totals {
        match stored.map(<[u8]>::as_chunks) {
            Some(([libraries, functions, bytes], [])) => {
                let [libraries, functions, bytes] =
                    [libraries, functions, bytes].map(|word| u64::from_le_bytes(*word));
                Totals { libraries, functions, bytes }
            }
            _ => Totals::default(),
        }
    }

    fn stored(self) -> Vec<u8> {
        [self.libraries, self.functions, self.bytes].map(u64::to_le_bytes).concat()
    }
}

/// A library as it is stored.
pub struct Stored<'a> {
    pub mark: Token,
    functions: &'a [u8],
    pub code: &'a [u8],
}

impl<'a> Stored<'a> {
    fn read(bytes: &'a [u8]) -> Result<Stored<'a>, Stop> {
        let parts = bytes.split_first_chunk().and_then(|(mark, rest)| {
            let (len, rest) = rest.split_first_chunk()?;
            let (functions, code) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            Some(Stored { mark: *mark, functions, code })
        });
        parts.ok_or(DAMAGED.into())
    }

    fn written(library: &Library, mark: &Token) -> Vec<u8> {
        let functions = joined(library.functions.iter().map(|function| function.name.as_bytes()));
        [mark, &(functions.len() as u32).to_le_bytes()[..], &functions, &library.code].concat()
    }

    fn totals(&self) -> Totals {
        Totals {
            libraries: 1,
            functions: apart(self.functions).count() as u64,
            bytes: self.code.len() as u64,
        }
    }
}

/// The parts of what [`joined`] has made.
fn apart(mut stored: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = stored.split_first_chunk()?;
        let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        stored = rest;
        Some(part)
    })
}

fn joined<'p>(parts: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut stored = Vec::new();
    for part in parts {
        stored.extend_from_slice(&(part.len() as u32).to_le_bytes());
        stored.extend_from_slice(part);
    }
    stored
}

/// The libraries as a transaction sees them.
#[derive(Clone, Copy)]
pub struct View<'t, 'x> {
    pub txn: &'t Txn<'x>,
    /// As they were a moment ago: nothing is locked or relied on, and what this transaction has changed is not seen.
    pub glances: bool,
}

impl<'t> View<'t, '_> {
    fn find(self, key: &[u8]) -> Result<Option<Found<'t>>, Stop> {
        if self.glances { self.txn.glimpse(SYSTEM, key) } else { self.txn.peek(SYSTEM, key) }
    }

    fn hash(self, key: &[u8]) -> Result<Option<Value<'t>>, Stop> {
        Ok(self.find(key)?.filter(|found| found.kind == Kind::Hash).map(|found| found.value))
    }

    fn string(self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let found = self.find(key)?;
        Ok(found.map(|found| string::contiguous(self.txn, &found.value)).transpose()?.map(Cow::into_owned))
    }

    /// The token that stands for all of this.
    ///
    /// # Errors
    /// Those of the table.
    pub fn token(self) -> Result<Token, Stop> {
        Ok(read_token(self.string(TOKEN)?.as_deref()))
    }

    /// A known library: its mark and its code.
    ///
    /// # Errors
    /// Those of the table; it is damaged.
    pub fn library(self, name: &str) -> Result<Option<(Token, Vec<u8>)>, Stop> {
        let Some(bytes) = field(self.txn, self.hash(KNOWN)?, name.as_bytes())? else { return Ok(None) };
        let stored = Stored::read(&bytes)?;
        Ok(Some((stored.mark, stored.code.to_vec())))
    }

    /// The library that owns a function, by the function's name in lower case: the mark and the
    /// name of a known library.
    ///
    /// # Errors
    /// Those of the table; it is damaged.
    pub fn owner(self, function: &str) -> Result<Option<(Token, String)>, Stop> {
        field(self.txn, self.hash(NAMES)?, function.as_bytes())?.map(|bytes| read_owner(&bytes)).transpose()
    }

    /// Shows each known library.
    ///
    /// # Errors
    /// Those of the table and of `show`; one is damaged.
    pub fn each(self, show: impl FnMut(&[u8], Stored<'_>) -> Result<(), Stop>) -> Result<(), Stop> {
        each_of(self.txn, self.hash(KNOWN)?, show)
    }

    /// The codes of those that wait to be run.
    ///
    /// # Errors
    /// Those of the table.
    pub fn waiting(self) -> Result<Vec<Vec<u8>>, Stop> {
        Ok(apart(&self.string(WAITING)?.unwrap_or_default()).map(<[u8]>::to_vec).collect())
    }

    /// How much there is of known libraries.
    ///
    /// # Errors
    /// Those of the table.
    pub fn totals(self) -> Result<Totals, Stop> {
        Ok(Totals::read(self.string(TOTALS)?.as_deref()))
    }

    /// The codes of all libraries.
    ///
    /// # Errors
    /// Those of the table; one is damaged.
    pub fn codes(self) -> Result<Vec<Vec<u8>>, Stop> {
        let mut all = Vec::new();
        self.each(|_, stored| {
            all.push(stored.code.to_vec());
            Ok(())
        })?;
        all.append(&mut self.waiting()?);
        Ok(all)
    }
}

fn field(nodes: &dyn Nodes, hash: Option<Value<'_>>, name: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    let Some(value) = hash else { return Ok(None) };
    let found = Hash::of(&value).get(nodes, name, || 0)?;
    Ok(found.map(|field| field.value().bytes(nodes).map(|bytes| bytes.into_owned())).transpose()?)
}

fn read_owner(bytes: &[u8]) -> Result<(Token, String), Stop> {
    let (mark, name) = bytes.split_first_chunk().ok_or(DAMAGED)?;
    Ok((*mark, str::from_utf8(name).map_err(|_| DAMAGED)?.to_owned()))
}

fn each_of(
    nodes: &dyn Nodes,
    hash: Option<Value<'_>>,
    mut show: impl FnMut(&[u8], Stored<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(value) = hash else { return Ok(()) };
    for field in Hash::of(&value).iter(nodes, 0) {
        let field = field?;
        show(&field.name().bytes(nodes)?, Stored::read(&field.value().bytes(nodes)?)?)?;
    }
    Ok(())
}

/// How much there is of known libraries just now; `None` where that cannot be seen at a glance.
pub fn totals_now(table: &Table) -> Option<Totals> {
    let location = table.location(SYSTEM, TOTALS)?;
    table.quick_get(&location, TOTALS, polder_base::time::coarse_ms(), Totals::read)
}

/// The same of those that wait to be run, of which it is not known how many functions they have.
pub fn waiting_now(table: &Table) -> Option<Totals> {
    let location = table.location(SYSTEM, WAITING)?;
    table.quick_get(&location, WAITING, polder_base::time::coarse_ms(), |stored| {
        apart(stored.unwrap_or_default()).fold(Totals::default(), |sum, code| {
            sum.and(Totals { libraries: 1, functions: 0, bytes: code.len() as u64 })
        })
    })
}

/// As [`View::codes`], at the instant of a snapshot, which has not begun to walk.
///
/// # Errors
/// As there.
pub fn codes_at(snapshot: &Snapshot<'_>) -> Result<Vec<Vec<u8>>, Stop> {
    let items = [KNOWN, WAITING].map(|key| snapshot.find(SYSTEM, key));
    let mut all = Vec::new();
    for item in items {
        let Some(item) = item? else { continue };
        match snapshot.found(&item)? {
            Some(found) if found.kind == Kind::Hash => {
                each_of(&snapshot.view(), Some(found.value), |_, stored| {
                    all.push(stored.code.to_vec());
                    Ok(())
                })?
            }
            Some(found) => {
                all.extend(apart(&string::contiguous(&snapshot.view(), &found.value)?).map(<[u8]>::to_vec))
            }
            None => {}
        }
    }
    Ok(all)
}

/// What a transaction relies on.
fn view<'t, 'x>(txn: &'t Txn<'x>) -> View<'t, 'x> {
    View { txn, glances: false }
}

/// One of the two hashes, while it changes.
struct Sheet {
    key: &'static [u8],
    draft: Draft,
    changed: bool,
}

impl Sheet {
    fn open(txn: &Txn<'_>, key: &'static [u8]) -> Result<Sheet, Stop> {
        let value = view(txn).hash(key)?;
        let draft =
            value.map_or_else(|| Draft::empty(Thresholds::NONE), |value| Draft::of(&value, Thresholds::NONE));
        Ok(Sheet { key, draft, changed: false })
    }

    /// Takes the hash away with all that it holds.
    fn clear(&mut self, txn: &Txn<'_>) -> Result<(), Stop> {
        self.draft = Draft::empty(Thresholds::NONE);
        txn.remove(SYSTEM, self.key, Replaces::Whole).map(drop)
    }

    fn get(&self, txn: &Txn<'_>, name: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let (_, found) = self.draft.look(txn, name, || 0)?;
        Ok(found.map(|field| field.value().bytes(txn).map(|bytes| bytes.into_owned())).transpose()?)
    }

    fn put(&mut self, txn: &Txn<'_>, name: &[u8], value: &[u8]) -> Result<(), Stop> {
        let spot = self.draft.find(txn, name, || 0)?;
        self.changed = true;
        Ok(self.draft.put(txn, &spot, name, value, Expiry::None)?)
    }

    fn remove(&mut self, txn: &Txn<'_>, name: &[u8]) -> Result<(), Stop> {
        let spot = self.draft.find(txn, name, || 0)?;
        self.changed = true;
        Ok(self.draft.remove(txn, &spot, name)?)
    }

    fn publish(mut self, txn: &Txn<'_>) -> Result<(), Stop> {
        if !self.changed {
            return Ok(());
        }
        if self.draft.count()? == 0 {
            // The draft has released the nodes.
            return txn.remove(SYSTEM, self.key, Replaces::Edited).map(drop);
        }
        let (value, _) = self.draft.finish(txn)?;
        txn.write(SYSTEM, self.key, &New::of(Kind::Hash, value), Replaces::Edited)
    }
}

/// A change of the known libraries. A caller that may refuse it does so before the first
/// [`Edit::put`] or [`Edit::remove`]: what these have made is published or goes with the
/// transaction.
pub struct Edit<'t, 'x> {
    txn: &'t Txn<'x>,
    known: Sheet,
    names: Sheet,
    totals: Totals,
}

impl<'t, 'x> Edit<'t, 'x> {
    /// Begins: from here on no other transaction changes libraries.
    ///
    /// # Errors
    /// Those of the table.
    pub fn open(txn: &'t Txn<'x>) -> Result<Edit<'t, 'x>, Stop> {
        txn.declare(&[WAITING, KNOWN, NAMES, TOTALS, TOKEN].map(|key| (SYSTEM, key)))?;
        Ok(Edit {
            txn,
            known: Sheet::open(txn, KNOWN)?,
            names: Sheet::open(txn, NAMES)?,
            totals: view(txn).totals()?,
        })
    }

    /// Whether a library is known.
    ///
    /// # Errors
    /// Those of the table.
    pub fn has(&self, name: &str) -> Result<bool, Stop> {
        Ok(self.known.draft.look(self.txn, name.as_bytes(), || 0)?.1.is_some())
    }

    /// The known library that a function is of, by its name in lower case.
    ///
    /// # Errors
    /// Those of the table; it is damaged.
    pub fn owner(&self, function: &str) -> Result<Option<String>, Stop> {
        let Some(bytes) = self.names.get(self.txn, function.as_bytes())? else { return Ok(None) };
        Ok(Some(read_owner(&bytes)?.1))
    }

    /// Puts a library there, in place of the one with its name. Returns its mark. `takes`: also
    /// functions that another library owns become its own.
    ///
    /// # Errors
    /// Those of the table: the transaction must then be given up.
    pub fn put(&mut self, library: &Library, takes: bool) -> Result<Token, Stop> {
        self.remove(&library.name)?;
        let mark = fresh_token();
        self.known.put(self.txn, library.name.as_bytes(), &Stored::written(library, &mark))?;
        let owner = [&mark, library.name.as_bytes()].concat();
        for function in &library.functions {
            let name = function.name.to_ascii_lowercase();
            if takes || self.names.get(self.txn, name.as_bytes())?.is_none() {
                self.names.put(self.txn, name.as_bytes(), &owner)?;
            }
        }
        self.totals = self.totals.and(Totals::of(std::iter::once(library)));
        Ok(mark)
    }

    /// Takes a library away, if it is known.
    ///
    /// # Errors
    /// As [`Edit::put`].
    pub fn remove(&mut self, name: &str) -> Result<(), Stop> {
        let Some(bytes) = self.known.get(self.txn, name.as_bytes())? else { return Ok(()) };
        let stored = Stored::read(&bytes)?;
        for function in apart(stored.functions) {
            let function = function.to_ascii_lowercase();
            if self.names.get(self.txn, &function)?.is_some_and(|owner| owner.starts_with(&stored.mark)) {
                self.names.remove(self.txn, &function)?;
            }
        }
        self.known.remove(self.txn, name.as_bytes())?;
        self.totals = self.totals.without(stored.totals());
        Ok(())
    }

    /// Takes all libraries away. Nothing has been put or removed before.
    ///
    /// # Errors
    /// Those of the table.
    pub fn clear(&mut self) -> Result<(), Stop> {
        self.known.clear(self.txn)?;
        self.names.clear(self.txn)?;
        self.totals = Totals::default();
        self.leave_waiting(&[])
    }

    /// Lets these codes wait, and no others.
    ///
    /// # Errors
    /// Those of the table.
    pub fn leave_waiting(&self, codes: &[&[u8]]) -> Result<(), Stop> {
        match codes {
            [] => self.txn.remove(SYSTEM, WAITING, Replaces::Whole).map(drop),
            codes => store(self.txn, WAITING, &joined(codes.iter().copied())),
        }
    }

    /// Writes all of it. Returns how much is known now.
    ///
    /// # Errors
    /// Those of the table.
    pub fn publish(self) -> Result<Totals, Stop> {
        self.known.publish(self.txn)?;
        self.names.publish(self.txn)?;
        store(self.txn, TOTALS, &self.totals.stored())?;
        store(self.txn, TOKEN, &fresh_token())?;
        Ok(self.totals)
    }
}

/// Adds the codes of libraries that a file holds. The first process that uses them runs them.
///
/// # Errors
/// Those of the table; a code that names no library; a library that is there and may be neither kept nor replaced.
pub fn add_codes(txn: &Txn<'_>, fresh: &[Vec<u8>], present: Present) -> Result<(), Stop> {
    let mut edit = Edit::open(txn)?;
    let (mut codes, mut gone) = (view(txn).waiting()?, Vec::new());
    let named =
        codes.iter().enumerate().filter_map(|(at, code)| Some((shebang::of_library(code).ok()?.0, at)));
    let mut places: std::collections::HashMap<String, usize> = named.collect();
    for code in fresh {
        let (name, _) = shebang::of_library(code)?;
        let (place, known) = (places.get(&name).copied(), edit.has(&name)?);
        match present {
            Present::Refused if known || place.is_some() => {
                return Err(format!("ERR Library {name} already exists").into());
            }
            Present::Kept if known || place.is_some() => continue,
            _ => {}
        }
        txn.tell(0, &[b"FUNCTION", b"LOAD", b"REPLACE", code]);
        if let Some(at) = place {
            codes[at].clone_from(code);
            continue;
        }
        places.insert(name.clone(), codes.len());
        codes.push(code.clone());
        if known {
            gone.push(name);
        }
    }
    gone.iter().try_for_each(|name| edit.remove(name))?;
    edit.leave_waiting(&codes.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
    edit.publish().map(drop)
}

/// Takes all libraries away.
///
/// # Errors
/// Those of the table.
pub fn clear_codes(txn: &Txn<'_>) -> Result<(), Stop> {
    let mut edit = Edit::open(txn)?;
    edit.clear()?;
    edit.publish().map(drop)
}
