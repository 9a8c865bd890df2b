//! Lua 5.1 for EVAL and FUNCTION: one interpreter for each thread, made when the thread runs its first script.
//!
//! ```text
//!   EVAL -> Scripts::run -> this thread's Interpreter -> the compiled function -> redis.call -> World::call
//!                                                                                     |
//!          reply sink <- answer.rs <- what the script returned      Lua values <- sink.rs <- the command's reply
//! ```
//!
//! What scripts see is `prelude.lua`, over natives of this crate: `json.rs`, `msgpack.rs`, `pack.rs` (struct), `bits.rs`,
//! `pattern.rs` (what `string` finds and replaces). The simplest scripts need none of it (`simple_script.rs`).
//! A reply of a called command becomes Lua values as it is written, without RESP in between.
//!
//! **Invariant:** nothing that a script does outlives its run but what the command says that it called, and the upvalues of a
//! library's functions: the tables that all scripts see cannot be changed.
//! **Invariant:** a script that is to end does end: once told so, each further step of it raises an error again, whatever it catches.
//! **Invariant:** natives return complaints and never raise errors: what a script catches is what Redis would have it catch.
#![forbid(unsafe_code)]

mod answer;
mod args;
mod bits;
mod buffer;
mod complaint;
mod drand;
mod interpreter;
mod json;
mod lua_state;
mod msgpack;
mod native;
mod number;
mod pack;
mod pattern;
mod register;
mod simple_script;
mod sink;
mod thrown;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use polder_base::Reply;
use polder_base::script::{Ended, Function, Input, Library, Program, Scripts, Trust, World};

use interpreter::Interpreter;

/// What the threads of a process share of their interpreters.
#[derive(Debug, Default)]
struct Shared {
    /// Bytes in use, of all of them.
    memory: AtomicU64,
    /// The most that one may take; 0 for no limit.
    memory_max: AtomicU64,
    version: String,
}

/// Runs Lua on whatever thread asks.
pub struct Lua(Arc<Shared>);

thread_local! {
    /// This thread's interpreters: one, unless a process has several of everything, as tests do.
    static INTERPRETERS: RefCell<Vec<Rc<Interpreter>>> = const { RefCell::new(Vec::new()) };
}

impl Lua {
    /// An engine whose scripts see `version` as REDIS_VERSION.
    pub fn new(version: &str) -> Lua {
        Lua(Arc::new(Shared { version: version.into(), ..Shared::default() }))
    }

    fn interpreter(&self) -> Rc<Interpreter> {
        INTERPRETERS.with_borrow_mut(|all| {
            if let Some(known) = all.iter().find(|known| Arc::ptr_eq(&known.shared, &self.0)) {
                return known.clone();
            }
            // Engines that are gone are known only to their interpreters, which are dropped here.
            all.retain(|known| Arc::strong_count(&known.shared) > 1);
            let fresh = Rc::new(Interpreter::new(self.0.clone()));
            all.push(fresh.clone());
            fresh
        })
    }
}

impl Scripts for Lua {
    fn compile(&self, program: &Arc<Program>) -> Result<(), String> {
        self.interpreter().compile(program)
    }

    fn run(
        &self,
        program: &Arc<Program>,
        input: &Input<'_>,
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended {
        self.interpreter().run(program, input, world, reply)
    }

    fn load(&self, library: &Library, trust: Trust) -> Result<Vec<Function>, String> {
        self.interpreter().load(library, trust)
    }

    fn call(
        &self,
        library: &Arc<Library>,
        function: &str,
        input: &Input<'_>,
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended {
        self.interpreter().call(library, function, input, world, reply)
    }

    fn memory(&self) -> u64 {
        self.0.memory.load(Ordering::Relaxed)
    }

    fn limit_memory(&self, bytes: u64) {
        if self.0.memory_max.load(Ordering::Relaxed) != bytes {
            self.0.memory_max.store(bytes, Ordering::Relaxed);
        }
    }

    fn memory_limit(&self) -> u64 {
        self.0.memory_max.load(Ordering::Relaxed)
    }
}
