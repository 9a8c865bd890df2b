//! One thread's interpreter: what it has compiled, and how it runs it.
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bstr::{BString, ByteSlice};
use hashbrown::HashMap;
use mlua::{ChunkMode, Lua, LuaOptions, StdLib, Table, Value};
use polder_base::script::{Ended, Function, Input, Library, Program, Trust, World};
use polder_base::{Protocol, Reply};

use crate::args::pushable;
use crate::drand::Drand;
use crate::lua_state::{Ending, Limit, LuaState, WORLD, limit_memory, watch};
use crate::simple_script::Straight;
use crate::thrown::message;
use crate::{Shared, answer, json, native, register};

/// How many instructions a script runs between two looks at the world.
const TICK: u32 = 100_000;
/// How long the code of a library may take, and of one that has been accepted before.
const LOAD_PATIENCE: Duration = Duration::from_millis(500);
const ACCEPTED_PATIENCE: Duration = Duration::from_secs(5);
/// More keys and arguments than these are handed over in tables of their own.
const FEW_KEYS: usize = 1;
const FEW_ARGS: usize = 2;
/// Programs beyond the live ones that are kept before the dead are looked for.
const SPARE: usize = 256;

/// What is known of a program that is compiled.
#[derive(Clone)]
struct Compiled {
    program: Weak<Program>,
    manners: Manners,
    straight: Option<Rc<Straight>>,
}

pub struct Interpreter {
    pub shared: Arc<Shared>,
    lua: Lua,
    lua_state: Rc<LuaState>,
    /// What is compiled and loaded; the functions themselves are in tables of the prelude, since Lua bounds how many can be held.
    programs: RefCell<HashMap<u64, Compiled>>,
    libraries: RefCell<HashMap<u64, Weak<Library>>>,
    prelude: Prelude,
    /// The last script may have left something in the tables of keys and arguments.
    wild: Cell<bool>,
    counted: Cell<u64>,
}

/// What the prelude returns.
struct Prelude {
    /// What programs see, and those that use `unpack`.
    script_faces: [Table; 2],
    function_faces: [Table; 2],
    run: mlua::Function,
    run_again: mlua::Function,
    run_with: mlua::Function,
    call: mlua::Function,
    load: mlua::Function,
    keep: mlua::Function,
    keep_function: mlua::Function,
    forget_library: mlua::Function,
}

/// The result of running something, before it is reported: one of the numbers below, the text, or
/// what else was returned or thrown.
type Outcome = mlua::Result<(u8, Option<BString>, Value)>;

/// A failed script leaves no more garbage than this to the next one: it may be what the system lacks.
const GARBAGE_BYTES: u64 = 16 << 20;
/// The prelude's FAILED, TEXT and OK.
const FAILED: u8 = 0;
const TEXT: u8 = 2;
const STATUS_OK: u8 = 3;

impl Interpreter {
    pub fn new(shared: Arc<Shared>) -> Interpreter {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true))
            .expect("these libraries are safe");
        let lua_state = Rc::new(LuaState::default());
        let made = Interpreter::furnish(&lua, &lua_state, &shared.version).expect("the prelude is ours");
        let part = |name: &str| made.get::<mlua::Function>(name).expect("the prelude has it");
        let face = |name: &str| made.get::<Table>(name).expect("the prelude has it");
        let prelude = Prelude {
            script_faces: [face("script"), face("wide_script")],
            function_faces: [face("functions"), face("wide_functions")],
            run: part("run"),
            run_again: part("run_again"),
            run_with: part("run_with"),
            call: part("call"),
            load: part("load"),
            keep: part("keep"),
            keep_function: part("keep_function"),
            forget_library: part("forget_library"),
        };
        assert!(lua_state.okay.set(face("okay")).is_ok(), "the lua_state is new");
        watch(&lua, &lua_state, TICK).expect("a hook can be set");
        let (programs, libraries) = (RefCell::default(), RefCell::default());
        Interpreter {
            shared,
            lua,
            lua_state,
            programs,
            libraries,
            prelude,
            wild: Cell::new(true),
            counted: Cell::new(0),
        }
    }

    /// Runs the prelude.
    fn furnish(lua: &Lua, lua_state: &Rc<LuaState>, version: &str) -> mlua::Result<Table> {
        let natives = native::table(lua, lua_state)?;
        let parts = version.split('.').map(|part| part.parse::<i64>().unwrap_or(0)).chain([0, 0, 0]);
        let version_number = parts.take(3).fold(0, |sum, part| (sum << 8) | (part & 0xff));
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=polder").set_mode(ChunkMode::Text);
        prelude.call((natives, version, version_number))
    }

    /// Compiles a program, if it was not yet.
    pub fn compile(&self, program: &Arc<Program>) -> Result<(), String> {
        self.compiled(program).map(drop)
    }

    /// What is known of a program, which is compiled first if it was not yet: what it can do to its tables, and whether it needs Lua.
    fn compiled(&self, program: &Arc<Program>) -> Result<(Manners, Option<Rc<Straight>>), String> {
        if let Some(known) = self.programs.borrow().get(&program.number) {
            return Ok((known.manners, known.straight.clone()));
        }
        let manners = Manners::of(&program.body);
        let text = &program.body[program.shebang..];
        let function = self.compile_text(text, "@user_script", &self.prelude.script_faces)?;
        let straight = Straight::of(text).map(Rc::new);
        let mut programs = self.programs.borrow_mut();
        if programs.len() >= SPARE && programs.len().is_multiple_of(SPARE) {
            let forgotten: Vec<u64> = programs
                .iter()
                .filter(|(_, known)| is_dropped(&known.program))
                .map(|(number, _)| *number)
                .collect();
            for number in forgotten {
                programs.remove(&number);
                self.prelude.keep.call::<()>((number, Value::Nil)).map_err(|error| message(&error))?;
            }
        }
        self.prelude.keep.call::<()>((program.number, function)).map_err(|error| message(&error))?;
        programs.insert(
            program.number,
            Compiled { program: Arc::downgrade(program), manners, straight: straight.clone() },
        );
        self.count_memory();
        Ok((manners, straight))
    }

    fn compile_text(&self, text: &[u8], name: &str, faces: &[Table; 2]) -> Result<mlua::Function, String> {
        if text.first() == Some(&27) {
            // The first byte of compiled code. The error is Redis's, whose Lua loads no compiled
            // code.
            return Err(format!("{}:1: unexpected symbol near 'char(27)'", name.trim_start_matches('@')));
        }
        self.make_room();
        let face = faces[usize::from(text.contains_str("unpack"))].clone();
        let chunk = self.lua.load(text).set_name(name).set_mode(ChunkMode::Text).set_environment(face);
        limit_memory(&self.lua, self.lua_state.memory_limit());
        let function = chunk.into_function();
        limit_memory(&self.lua, 0);
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    pub fn run(
        &self,
        program: &Arc<Program>,
        input: &Input<'_>,
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended {
        let (manners, straight) = match self.compiled(program) {
            Ok(known) => known,
            Err(text) => {
                return Ended::Failed {
                    text: format!("ERR Error compiling script (new function): {text}"),
                    counted: false,
                };
            }
        };
        if let Some(straight) = straight.filter(|straight| straight.fits(input)) {
            let limit = self.shared.memory_max.load(Ordering::Relaxed);
            let room = if limit == 0 { usize::MAX } else { limit as usize };
            return straight.run(input, (&program.sha, room), world, reply);
        }
        self.lua_state.is_blind.set(manners == Manners::Blind);
        self.within(world, input.seed, &program.sha, reply, || {
            if input.keys.len() <= FEW_KEYS && input.args.len() <= FEW_ARGS {
                let mut args = input.args.iter().map(|text| pushable(text));
                let (key, first, second) =
                    (input.keys.first().map(|key| pushable(key)), args.next(), args.next());
                let run = if self.wild.replace(manners == Manners::Wild) {
                    &self.prelude.run
                } else {
                    &self.prelude.run_again
                };
                run.call((program.number, key, first, second, self.limit()))
            } else {
                self.wild.set(true);
                self.prelude.run_with.call((
                    program.number,
                    self.sequence(input.keys)?,
                    self.sequence(input.args)?,
                    self.limit(),
                ))
            }
        })
    }

    /// The last argument of a call into Lua code.
    fn limit(&self) -> Limit {
        Limit(self.lua_state.memory_limit())
    }

    fn sequence(&self, texts: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(texts.iter().map(|text| pushable(text)))
    }

    pub fn call(
        &self,
        library: &Arc<Library>,
        name: &str,
        input: &Input<'_>,
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended {
        if !self.libraries.borrow().contains_key(&library.number)
            && let Err(text) = self.keep_library(library)
        {
            return Ended::Failed { text, counted: false };
        }
        self.lua_state.is_blind.set(false);
        self.within(world, input.seed, name, reply, || {
            self.prelude.call.call((
                library.number,
                name,
                self.sequence(input.keys)?,
                self.sequence(input.args)?,
                self.limit(),
            ))
        })
    }

    pub fn load(&self, library: &Library, trust: Trust) -> Result<Vec<Function>, String> {
        self.load_functions(library, trust).map(|register| register.functions)
    }

    /// Forgets libraries that are gone, and loads one to stay.
    fn keep_library(&self, library: &Arc<Library>) -> Result<(), String> {
        let prelude = &self.prelude;
        let is_gone = |(_, known): &(&u64, &Weak<Library>)| known.strong_count() == 0;
        let gone: Vec<u64> =
            self.libraries.borrow().iter().filter(is_gone).map(|(number, _)| *number).collect();
        for number in gone {
            self.libraries.borrow_mut().remove(&number);
            prelude.forget_library.call::<()>(number).map_err(|error| message(&error))?;
        }
        let register = self.load_functions(library, Trust::Accepted)?;
        for (name, callback) in register.callbacks {
            prelude
                .keep_function
                .call::<()>((library.number, name, callback))
                .map_err(|error| message(&error))?;
        }
        self.libraries.borrow_mut().insert(library.number, Arc::downgrade(library));
        Ok(())
    }

    fn load_functions(&self, library: &Library, trust: Trust) -> Result<register::Register, String> {
        let code = &library.code[library.shebang..];
        let function = self
            .compile_text(code, "@user_function", &self.prelude.function_faces)
            .map_err(|text| format!("ERR Error compiling function: {text}"))?;
        self.begin(0);
        self.lua_state.registering.replace(Some(register::Register::default()));
        let patience = if trust == Trust::Accepted { ACCEPTED_PATIENCE } else { LOAD_PATIENCE };
        self.lua_state.loading_until.set(Some(Instant::now() + patience));
        let outcome: Outcome = self.prelude.load.call((function, self.limit()));
        self.lua_state.loading_until.set(None);
        let registered = self.lua_state.registering.take().unwrap_or_default();
        let ending = self.end();
        match (ending, outcome) {
            (Some(Ending::Killed(text, _)), _) => Err(format!("ERR Error registering functions: {text}")),
            (_, Ok((FAILED, _, thrown))) => {
                let text = match &thrown {
                    Value::Table(table) => {
                        table.raw_get::<String>("err").unwrap_or_else(|_| "ERR unknown error".into())
                    }
                    other => other.to_string().unwrap_or_default(),
                };
                Err(format!("ERR Error registering functions: {text}"))
            }
            (_, Ok(_)) if registered.functions.is_empty() => Err("ERR No functions registered".into()),
            (_, Ok(_)) => Ok(registered),
            (_, Err(error)) => Err(format!("ERR Error registering functions: {}", message(&error))),
        }
    }

    /// A run begins.
    fn begin(&self, seed: u64) {
        self.lua_state.ending.replace(None);
        self.lua_state.protocol.set(Protocol::Resp2);
        self.lua_state.json.set(json::Choices::default());
        self.lua_state.random.set(Some(Drand::seeded((seed ^ (seed >> 32)) as u32)));
        self.make_room();
    }

    /// Sees to it that what the last runs have left does not count for the next.
    fn make_room(&self) {
        let limit = self.shared.memory_max.load(Ordering::Relaxed);
        self.lua_state.memory_max.set(limit);
        if limit > 0 {
            self.collect_above(limit / 4);
        }
    }

    /// Frees what no script needs any more, if more than this is in use.
    fn collect_above(&self, bytes: u64) {
        if self.lua.used_memory() as u64 > bytes
            && let Err(error) = self.lua.gc_collect()
        {
            tracing::warn!("the garbage of scripts is not collected: {}", message(&error));
        }
    }

    fn count_memory(&self) {
        let used = self.lua.used_memory() as u64;
        let before = self.counted.replace(used);
        self.shared.memory.fetch_add(used.wrapping_sub(before), Ordering::Relaxed);
    }

    /// A run ends. Returns whether and why it was made to.
    fn end(&self) -> Option<Ending> {
        limit_memory(&self.lua, 0);
        self.count_memory();
        let ending = self.lua_state.ending.take();
        if ending.is_some() {
            // The triggers that made it end are not the next run's.
            watch(&self.lua, &self.lua_state, TICK).expect("a hook can be set");
        }
        ending
    }

    /// Runs something that may call the world, and writes what it returns.
    fn within(
        &self,
        world: &mut dyn World,
        seed: u64,
        name: &str,
        reply: &mut dyn Reply,
        body: impl FnOnce() -> Outcome,
    ) -> Ended {
        self.begin(seed);
        // Only what Lua cannot hold panics: more arguments of one call than it has places for.
        let run = std::panic::AssertUnwindSafe(body);
        let outcome = WORLD.set(world, || std::panic::catch_unwind(run));
        let outcome = outcome
            .unwrap_or_else(|_| Err(mlua::Error::RuntimeError("too many arguments for one call".into())));
        if outcome.is_err() {
            self.wild.set(true);
        }
        let failed = !matches!(&outcome, Ok((way, ..)) if *way != FAILED);
        let ending = self.end();
        if failed {
            self.collect_above(GARBAGE_BYTES);
        }
        match (ending, outcome) {
            (Some(Ending::Unwound), _) => Ended::Unwound,
            (Some(Ending::Killed(text, at)), _) => {
                let text = at.map_or_else(
                    || text.clone(),
                    |(source, line)| format!("{text} script: {name}, on {source}:{line}."),
                );
                Ended::Failed { text, counted: false }
            }
            (None, Ok((TEXT, Some(text), _))) => {
                reply.bulk(&text);
                Ended::Answered
            }
            (None, Ok((STATUS_OK, ..))) => {
                reply.ok();
                Ended::Answered
            }
            (None, Ok((FAILED, _, thrown))) => {
                let (text, counted) = answer::thrown(&thrown, name);
                Ended::Failed { text, counted }
            }
            (None, Ok((_, _, value))) => match answer::error_of(&value) {
                Some((text, counted)) => Ended::Failed { text, counted },
                None => {
                    answer::write(&value, self.lua_state.protocol.get(), reply);
                    Ended::Answered
                }
            },
            (None, Err(error)) => {
                Ended::Failed { text: format!("ERR {} script: {name}", message(&error)), counted: false }
            }
        }
    }
}

/// What a script can do to tables, whatever it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manners {
    /// It may write them.
    Wild,
    /// It leaves them as they are: it assigns nothing, and names nothing by which a table is written, by which text becomes a program, or by
    /// which names are found that it does not name. Most scripts of one line are so.
    Tame,
    /// Nor can it tell one from another that looks the same.
    Blind,
}

impl Manners {
    fn of(body: &[u8]) -> Manners {
        // What is raised is written as well: the handler adds where that was.
        const WRITES: [&str; 8] = ["function", "table", "rawset", "load", "_G", "__", "error", "assert"];
        const COMPARES: [&str; 4] = ["==", "~=", "rawequal", "tostring"];
        let assigns = |at: usize| {
            let before = at.checked_sub(1).map_or(b' ', |before| body[before]);
            !matches!(before, b'=' | b'~' | b'<' | b'>') && body.get(at + 1) != Some(&b'=')
        };
        let has = |names: &[&str]| names.iter().any(|name| body.contains_str(name));
        match () {
            () if has(&WRITES) || body.iter().enumerate().any(|(at, byte)| *byte == b'=' && assigns(at)) => {
                Manners::Wild
            }
            () if has(&COMPARES) => Manners::Tame,
            () => Manners::Blind,
        }
    }
}

/// Whether the program is gone, so that it will not be run again.
fn is_dropped(program: &Weak<Program>) -> bool {
    program.upgrade().is_none_or(|program| program.dropped.load(Ordering::Relaxed))
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.shared.memory.fetch_sub(self.counted.get(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_that_cannot_write_a_table_are_tame() {
        let cases: &[(Manners, &[u8])] = &[
            (Manners::Blind, b"return 1"),
            (Manners::Blind, b"return redis.call('SET',KEYS[1],ARGV[1])"),
            (Manners::Blind, b"for _, key in ipairs(KEYS) do redis.call('DEL', key) end"),
            (Manners::Tame, b"if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"),
            (Manners::Tame, b"return {#KEYS >= 1, #ARGV <= 2, KEYS[1] ~= 'x'}"),
            (Manners::Tame, b"return rawequal(redis.call('PING'), redis.call('PING'))"),
            (Manners::Tame, b"return tostring(redis.call('PING'))"),
            (Manners::Wild, b"KEYS[2] = 'x'"),
            (Manners::Wild, b"KEYS[2]='x'"),
            (Manners::Wild, b"local a = KEYS a.x=1"),
            (Manners::Wild, b"function KEYS.f() end"),
            (Manners::Wild, b"table.insert(KEYS, 'x')"),
            (Manners::Wild, b"rawset(KEYS, 2, 'x')"),
            (Manners::Wild, b"return loadstring('KEYS[2]' .. string.char(61) .. '1')()"),
            (Manners::Wild, b"_G['table'].insert(KEYS, 'x')"),
            (Manners::Wild, b"__redis__err__handler(KEYS)"),
            (Manners::Wild, b"error(redis.call('SET','a','b'))"),
        ];
        for (manners, body) in cases {
            assert_eq!(Manners::of(body), *manners, "{}", body.as_bstr());
        }
    }
}
