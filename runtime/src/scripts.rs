//! What a process knows of scripts and libraries of functions, and where they lie in the segment. `scripting` runs them.
use std::sync::Arc;

use polder_base::script::{Program, Scripts};
use polder_table::{Table, Txn};

pub(crate) mod board;
pub(crate) mod library;
pub(crate) mod library_store;
pub(crate) mod payload;
pub(crate) mod script_cache;
pub(crate) mod shebang;

pub use board::{Kind, Running};
use library::Look;
use library_store::Totals;
pub use library_store::{Present, add_codes, clear_codes, codes_at};

/// What a process knows of scripts, and what runs them.
pub struct Scripting {
    pub(crate) lua: Box<dyn Scripts>,
    pub(crate) script_cache: script_cache::ScriptCache,
    pub(crate) libraries: library::Libraries,
    pub(crate) board: board::Board,
}

impl Scripting {
    /// A process that runs scripts by `lua` and has seen none yet.
    pub fn new(lua: Box<dyn Scripts>) -> Scripting {
        Scripting {
            lua,
            script_cache: script_cache::ScriptCache::default(),
            libraries: library::Libraries::default(),
            board: board::Board::default(),
        }
    }

    /// What INFO tells.
    pub fn figures(&self, table: &Table) -> Figures {
        let Totals { libraries, functions, bytes } = self.libraries.totals_now(table);
        Figures {
            lua_bytes: self.lua.memory(),
            cached: self.script_cache.figures().0,
            cached_bytes: self.script_cache.figures().1,
            evicted: self.script_cache.figures().2,
            libraries,
            functions,
            library_bytes: bytes,
        }
    }

    pub(crate) fn look<'t, 'x>(&'t self, table: &'t Table, txn: &'t Txn<'x>) -> Look<'t, 'x> {
        Look { table, txn, lua: &*self.lua }
    }

    /// The scripts and functions that have run for so long that others are told so.
    pub fn busy(&self) -> Vec<Arc<Running>> {
        self.board.all()
    }
}

/// What INFO tells of scripts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub lua_bytes: u64,
    pub cached: u64,
    pub cached_bytes: u64,
    pub evicted: u64,
    pub libraries: u64,
    pub functions: u64,
    pub library_bytes: u64,
}

impl Figures {
    /// Bytes of all programs and libraries.
    pub fn bytes(&self) -> u64 {
        self.cached_bytes + self.library_bytes
    }
}

/// What a session remembers of its scripts.
#[derive(Clone, Debug, Default)]
pub struct Memo {
    /// When the call that runs one began, there was no memory for anything that may grow.
    pub(crate) short_of_memory: bool,
    /// Calls of the script that attempts which came to nothing have counted already.
    pub(crate) counted: usize,
    /// The script has failed and said so, and what it had written before is committed; with whether the error has been counted.
    pub(crate) failure: Option<(String, bool)>,
    /// The moment that scripts see, in microseconds since the epoch; 0 outside of them.
    pub now_us: u64,
    /// Which of several runs of one program in one transaction this is.
    pub(crate) number: u64,
    /// The program, where several of its runs share a transaction.
    pub(crate) program: Option<Arc<Program>>,
    /// The run has taken its time.
    pub(crate) slow: bool,
}
