//! The programs that a process knows, by their SHA1.
//!
//! ```text
//!   thread's front (by body, by SHA1) -> cache of the process (by SHA1) -> segment, hidden database: script:SHA1 -> body
//!                                                                                               scripts     -> a token
//! ```
//!
//! EVAL puts a program into the cache of its process. SCRIPT LOAD also puts it into the segment, where
//! every process finds it and where it outlives servers. SCRIPT FLUSH changes the token; a process
//! that sees another token than its cache has clears the cache. Programs that only EVAL has brought
//! are dropped when there are more than [`EVALUATED_MAX`], the least lately used first.
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use hashbrown::HashMap;
use polder_base::script::{Program, Scripts};
use polder_table::{CommitView, Db, New, Replaces, SYSTEM, Stop, Table, Txn};
use polder_values::{Kind, string};
use sha1::{Digest, Sha1};

use super::shebang;
use crate::locks::lock;

/// Programs that only EVAL has brought, as in Redis 7.4.
const EVALUATED_MAX: usize = 500;
/// A thread's front is looked through for dropped programs when it holds more than this.
const FRONT_MAX: usize = 1024;
const TOKEN: &[u8] = b"scripts";

/// Changes with every change of what it stands for, and never comes back.
pub type Token = [u8; 16];

/// A token that was never used before.
pub fn fresh_token() -> Token {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Process ids may be the same in two namespaces.
    static PROCESS: LazyLock<u32> = LazyLock::new(|| RandomState::new().build_hasher().finish() as u32);
    let mut token = [0; 16];
    token[..8].copy_from_slice(&polder_base::time::now_us().to_le_bytes());
    token[8..12].copy_from_slice(&PROCESS.to_le_bytes());
    token[12..].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    token
}

/// The token under a key of the hidden database; zeros where there is none. It is not locked, which would keep it so until the end of what is called: others are
/// changing it just now, or this transaction is, which sees its own.
pub fn token(table: &Table, txn: &Txn<'_>, key: &[u8]) -> Result<Token, Stop> {
    if let Some(token) = open_token(table, key) {
        return Ok(token);
    }
    let found = if txn.holds(SYSTEM, key) { txn.peek(SYSTEM, key) } else { txn.glimpse(SYSTEM, key) };
    Ok(read_token(found?.map(|found| string::contiguous(txn, &found.value)).transpose()?.as_deref()))
}

/// As [`token`], while no transaction is changing it.
pub fn open_token(table: &Table, key: &[u8]) -> Option<Token> {
    let location = table.location(SYSTEM, key)?;
    table.quick_get(&location, key, polder_base::time::coarse_ms(), read_token)
}

pub fn read_token(value: Option<&[u8]>) -> Token {
    value.and_then(|value| value.try_into().ok()).unwrap_or_default()
}

/// Writes a string into the hidden database.
pub fn store(txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<(), Stop> {
    let value = string::make(txn, value)?;
    txn.write(SYSTEM, key, &New::of(Kind::String, value), Replaces::Whole)
}

/// A string of the hidden database.
pub fn fetch(txn: &Txn<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    let found = txn.peek(SYSTEM, key)?;
    Ok(found.map(|found| string::contiguous(txn, &found.value)).transpose()?.map(|value| value.into_owned()))
}

fn key_of(sha: &str) -> Vec<u8> {
    format!("script:{sha}").into_bytes()
}

fn sha_of(body: &[u8]) -> String {
    Sha1::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a thread finds without a lock.
#[derive(Default)]
struct Front {
    script_cache: u64,
    token: Token,
    by_body: HashMap<Box<[u8]>, Arc<Program>>,
    by_sha: HashMap<Box<[u8]>, Arc<Program>>,
}

thread_local! {
    static FRONT: RefCell<Front> = RefCell::default();
}

#[derive(Default)]
struct Stock {
    token: Token,
    /// With whether a program stays whatever happens.
    programs: HashMap<String, (Arc<Program>, bool)>,
}

/// A process's programs.
pub struct ScriptCache {
    number: u64,
    stock: Mutex<Stock>,
    /// Moves on with each program that comes; a program's last use is told by it.
    clock: AtomicU64,
    evicted: AtomicU64,
}

impl Default for ScriptCache {
    fn default() -> ScriptCache {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        ScriptCache { number, stock: Mutex::default(), clock: AtomicU64::new(1), evicted: AtomicU64::new(0) }
    }
}

impl ScriptCache {
    /// The program of a body, compiled at least once.
    ///
    /// # Errors
    /// What its first line or the compiler says.
    pub fn get(
        &self,
        table: &Table,
        txn: &Txn<'_>,
        lua: &dyn Scripts,
        body: &[u8],
    ) -> Result<Arc<Program>, Stop> {
        let token = token(table, txn, TOKEN)?;
        let known = self.with_front(token, |front| front.by_body.get(body).cloned());
        if let Some(program) = known.filter(|program| self.is_current(program)) {
            return Ok(program);
        }
        let program = self.put(token, lua, body, false)?;
        self.with_front(token, |front| {
            let copy = body.into();
            if front.by_body.len() >= FRONT_MAX {
                front.by_body.retain(|_, program| !program.dropped.load(Ordering::Relaxed));
            }
            front.by_body.insert(copy, program.clone());
        });
        Ok(program)
    }

    /// The program of a SHA1, if it is known.
    ///
    /// # Errors
    /// Those of the table.
    pub fn find(&self, table: &Table, txn: &Txn<'_>, sha: &[u8]) -> Result<Option<Arc<Program>>, Stop> {
        let token = token(table, txn, TOKEN)?;
        let known = self.with_front(token, |front| front.by_sha.get(sha).cloned());
        if let Some(program) = known.filter(|program| self.is_current(program)) {
            return Ok(Some(program));
        }
        let name = match std::str::from_utf8(sha) {
            Ok(name) if name.len() == 40 => name.to_ascii_lowercase(),
            _ => return Ok(None),
        };
        let known = self.stock(token, |stock| stock.programs.get(&name).map(|(program, _)| program.clone()));
        let program = match known {
            Some(program) => program,
            None => match fetch(txn, &key_of(&name))? {
                Some(body) => {
                    let (flags, shebang) = shebang::of_script(&body)?;
                    self.shelve(token, Arc::new(Program::new(name, &body, shebang, flags)), true)
                }
                None => return Ok(None),
            },
        };
        self.is_current(&program);
        self.with_front(token, |front| {
            if front.by_sha.len() >= FRONT_MAX {
                front.by_sha.retain(|_, program| !program.dropped.load(Ordering::Relaxed));
            }
            front.by_sha.insert(sha.into(), program.clone());
        });
        Ok(Some(program))
    }

    /// SCRIPT LOAD: the program stays, and every process finds it.
    ///
    /// # Errors
    /// As [`ScriptCache::get`].
    pub fn load(
        &self,
        table: &Table,
        txn: &Txn<'_>,
        lua: &dyn Scripts,
        body: &[u8],
    ) -> Result<Arc<Program>, Stop> {
        let program = self.put(token(table, txn, TOKEN)?, lua, body, true)?;
        let key = key_of(&program.sha);
        if txn.peek(SYSTEM, &key)?.is_none() {
            store(txn, &key, body)?;
        }
        Ok(program)
    }

    /// SCRIPT FLUSH, for all processes.
    ///
    /// # Errors
    /// Those of the table.
    pub fn flush(&self, txn: &Txn<'_>) -> Result<(), Stop> {
        const STEP: usize = 1024;
        let (mut cursor, mut keys) = (0, Vec::new());
        loop {
            cursor = txn.scan(SYSTEM, cursor, STEP, &mut |scanned| {
                if scanned.key.starts_with(b"script:") {
                    keys.push(scanned.key.to_vec());
                }
            })?;
            if cursor == 0 {
                break;
            }
        }
        let owned: Vec<(Db, &[u8])> = keys.iter().map(|key| (SYSTEM, key.as_slice())).collect();
        for (db, key) in owned {
            txn.remove(db, key, Replaces::Whole)?;
        }
        let token = fresh_token();
        // INFO shows at once that they are gone.
        self.stock(token, |_| ());
        store(txn, TOKEN, &token)
    }

    /// Programs, their bytes, and how many have been dropped for want of room.
    pub fn figures(&self) -> (u64, u64, u64) {
        let stock = lock(&self.stock);
        let bytes = stock.programs.values().map(|(program, _)| program.body.len() as u64 + 48).sum();
        (stock.programs.len() as u64, bytes, self.evicted.load(Ordering::Relaxed))
    }

    /// Whether a program has not been dropped; notes that it is used.
    fn is_current(&self, program: &Program) -> bool {
        program.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        !program.dropped.load(Ordering::Relaxed)
    }

    fn with_front<T>(&self, token: Token, work: impl FnOnce(&mut Front) -> T) -> T {
        FRONT.with_borrow_mut(|front| {
            if front.script_cache != self.number || front.token != token {
                *front = Front { script_cache: self.number, token, ..Front::default() };
            }
            work(front)
        })
    }

    /// Does `work` with what is in the cache, which is cleared first where another token has come.
    fn stock<T>(&self, token: Token, work: impl FnOnce(&mut Stock) -> T) -> T {
        let mut stock = lock(&self.stock);
        if stock.token != token {
            stock.token = token;
            stock
                .programs
                .drain()
                .for_each(|(_, (program, _))| program.dropped.store(true, Ordering::Relaxed));
        }
        work(&mut stock)
    }

    /// Puts a body into the cache, unless it is there.
    fn put(&self, token: Token, lua: &dyn Scripts, body: &[u8], stays: bool) -> Result<Arc<Program>, Stop> {
        let sha = sha_of(body);
        let known = self.stock(token, |stock| {
            stock.programs.get_mut(&sha).map(|(program, pinned)| {
                *pinned |= stays;
                program.clone()
            })
        });
        if let Some(program) = known {
            self.is_current(&program);
            return Ok(program);
        }
        let (flags, shebang) = shebang::of_script(body)?;
        let program = Arc::new(Program::new(sha, body, shebang, flags));
        lua.compile(&program).map_err(|text| format!("ERR Error compiling script (new function): {text}"))?;
        Ok(self.shelve(token, program, stays))
    }

    fn shelve(&self, token: Token, program: Arc<Program>, stays: bool) -> Arc<Program> {
        program.used.store(self.clock.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.stock(token, |stock| {
            let (shelved, _) = stock.programs.entry(program.sha.clone()).or_insert((program, stays));
            let shelved = shelved.clone();
            let evaluated =
                || stock.programs.values().filter(|(_, stays)| !stays).map(|(program, _)| program);
            if !stays && evaluated().count() > EVALUATED_MAX {
                let oldest = evaluated().min_by_key(|program| program.used.load(Ordering::Relaxed)).cloned();
                if let Some(oldest) = oldest {
                    oldest.dropped.store(true, Ordering::Relaxed);
                    stock.programs.remove(&oldest.sha);
                    self.evicted.fetch_add(1, Ordering::Relaxed);
                }
            }
            shelved
        })
    }
}
