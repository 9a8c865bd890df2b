//! One thread's interpreter: what it has compiled, and how it runs it.
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bstr::BStr;
use mlua::{ChunkMode, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, Variadic, VmState};
use polder_base::script::{Called, Ended, Function, Input, Library, Program, World};
use polder_base::{Protocol, Reply};
use smallvec::SmallVec;

use crate::drand::Drand;
use crate::native::Text;
use crate::sink::Sink;
use crate::{Shared, answer, json, native, number, register};

/// How many instructions a script runs between two looks at the world.
const TICK: u32 = 100_000;
/// How long the code of a library may take.
const LOAD_PATIENCE: Duration = Duration::from_millis(500);
/// More keys and arguments than these are handed over in tables.
const FEW: usize = 32;
/// Programs beyond the live ones that are kept before the dead are looked for.
const SPARE: usize = 256;

/// What natives share with their interpreter.
#[derive(Default)]
pub struct Desk {
    pub random: Cell<Option<Drand>>,
    /// In which form the replies of called commands are wanted (`redis.setresp`).
    pub protocol: Cell<Protocol>,
    /// The choices of the `cjson` that all scripts share: those of one last as long as its run.
    pub json: Rc<Cell<json::Choices>>,
    /// What the library that is being loaded registers.
    pub registering: RefCell<Option<register::Register>>,
    /// The way to the world while a function of a library runs, behind the `redis.call` that libraries may keep.
    pub gate: RefCell<Option<mlua::Function>>,
    loading_since: Cell<Option<Instant>>,
    /// Has the world look at the time.
    tick: OnceCell<mlua::Function>,
    /// Why the run must end.
    ending: RefCell<Option<Ending>>,
}

#[derive(Clone)]
enum Ending {
    Unwound,
    /// With what is said, and where the script was.
    Killed(String, Option<(String, i64)>),
}

pub struct Interpreter {
    pub shared: Arc<Shared>,
    lua: Lua,
    desk: Rc<Desk>,
    /// What is compiled and loaded; the functions themselves are in tables of the prelude, since Lua bounds how many can be held.
    programs: RefCell<HashMap<u64, Weak<Program>>>,
    libraries: RefCell<HashMap<u64, Weak<Library>>>,
    prelude: Prelude,
    counted: Cell<u64>,
}

/// What the prelude answers.
struct Prelude {
    script_face: Table,
    function_face: Table,
    run: mlua::Function,
    run_with: mlua::Function,
    call: mlua::Function,
    load: mlua::Function,
    keep: mlua::Function,
    keep_function: mlua::Function,
    forget_library: mlua::Function,
    unwind: Table,
}

/// What came of running something, before anybody was told.
type Outcome = mlua::Result<(bool, Value)>;

impl Interpreter {
    pub fn new(shared: Arc<Shared>) -> Interpreter {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true)).expect("these libraries are safe");
        let desk = Rc::new(Desk::default());
        let made = Interpreter::furnish(&lua, &desk, &shared.version).expect("the prelude is ours");
        let part = |name: &str| made.get::<mlua::Function>(name).expect("the prelude has it");
        let face = |name: &str| made.get::<Table>(name).expect("the prelude has it");
        let prelude = Prelude {
            script_face: face("script"),
            function_face: face("functions"),
            run: part("run"),
            run_with: part("run_with"),
            call: part("call"),
            load: part("load"),
            keep: part("keep"),
            keep_function: part("keep_function"),
            forget_library: part("forget_library"),
            unwind: face("unwind"),
        };
        assert!(desk.tick.set(part("tick")).is_ok(), "the desk is new");
        watch(&lua, &desk, TICK).expect("a hook can be set");
        let (programs, libraries) = (RefCell::default(), RefCell::default());
        Interpreter { shared, lua, desk, programs, libraries, prelude, counted: Cell::new(0) }
    }

    /// Runs the prelude.
    fn furnish(lua: &Lua, desk: &Rc<Desk>, version: &str) -> mlua::Result<Table> {
        let natives = native::table(lua, desk)?;
        let parts = version.split('.').map(|part| part.parse::<i64>().unwrap_or(0)).chain([0, 0, 0]);
        let version_number = parts.take(3).fold(0, |sum, part| (sum << 8) | (part & 0xff));
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=polder").set_mode(ChunkMode::Text);
        prelude.call((natives, version, version_number))
    }

    /// Compiles a program, if it was not yet.
    pub fn compile(&self, program: &Arc<Program>) -> Result<(), String> {
        if self.programs.borrow().contains_key(&program.number) {
            return Ok(());
        }
        let function = self.compile_text(&program.body[program.shebang..], "@user_script", &self.prelude.script_face)?;
        let mut programs = self.programs.borrow_mut();
        if programs.len() >= SPARE && programs.len().is_multiple_of(SPARE) {
            let forgotten: Vec<u64> = programs.iter().filter(|(_, program)| is_dropped(program)).map(|(number, _)| *number).collect();
            for number in forgotten {
                programs.remove(&number);
                self.prelude.keep.call::<()>((number, Value::Nil)).map_err(|error| message(&error))?;
            }
        }
        self.prelude.keep.call::<()>((program.number, function)).map_err(|error| message(&error))?;
        programs.insert(program.number, Arc::downgrade(program));
        Ok(())
    }

    fn compile_text(&self, text: &[u8], name: &str, face: &Table) -> Result<mlua::Function, String> {
        self.make_room();
        let chunk = self.lua.load(text).set_name(name).set_mode(ChunkMode::Text).set_environment(face.clone());
        chunk.into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    pub fn run(&self, program: &Arc<Program>, input: &Input<'_>, world: &mut dyn World, reply: &mut dyn Reply) -> Ended {
        if let Err(text) = self.compile(program) {
            return Ended::Failed { text: format!("ERR Error compiling script (new function): {text}"), counted: false };
        }
        self.within(world, input.seed, &program.sha, reply, |gate| {
            if input.keys.len() <= 1 && input.args.len() <= FEW {
                let rest: SmallVec<[&BStr; FEW]> = input.keys.iter().chain(input.args).map(|text| BStr::new(*text)).collect();
                self.prelude.run.call((gate, program.number, input.keys.len(), Variadic::from_iter(rest)))
            } else {
                self.prelude.run_with.call((gate, program.number, self.sequence(input.keys)?, self.sequence(input.args)?))
            }
        })
    }

    fn sequence(&self, texts: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(texts.iter().map(|text| BStr::new(*text)))
    }

    pub fn call(&self, library: &Arc<Library>, name: &str, input: &Input<'_>, world: &mut dyn World, reply: &mut dyn Reply) -> Ended {
        if !self.libraries.borrow().contains_key(&library.number)
            && let Err(text) = self.keep_library(library)
        {
            return Ended::Failed { text, counted: false };
        }
        self.within(world, input.seed, name, reply, |gate| {
            self.desk.gate.replace(Some(gate.clone()));
            self.prelude.call.call((gate, library.number, name, self.sequence(input.keys)?, self.sequence(input.args)?))
        })
    }

    pub fn load(&self, library: &Library) -> Result<Vec<Function>, String> {
        self.load_functions(library).map(|register| register.functions)
    }

    /// Loads a library to stay, and forgets those that are gone.
    fn keep_library(&self, library: &Arc<Library>) -> Result<(), String> {
        let register = self.load_functions(library)?;
        let prelude = &self.prelude;
        let mut libraries = self.libraries.borrow_mut();
        let gone: Vec<u64> = libraries.iter().filter(|(_, known)| known.strong_count() == 0).map(|(number, _)| *number).collect();
        for number in gone {
            libraries.remove(&number);
            prelude.forget_library.call::<()>(number).map_err(|error| message(&error))?;
        }
        for (name, callback) in register.callbacks {
            prelude.keep_function.call::<()>((library.number, name, callback)).map_err(|error| message(&error))?;
        }
        libraries.insert(library.number, Arc::downgrade(library));
        Ok(())
    }

    fn load_functions(&self, library: &Library) -> Result<register::Register, String> {
        let code = &library.code[library.shebang..];
        let function = self
            .compile_text(code, "@user_function", &self.prelude.function_face)
            .map_err(|text| format!("ERR Error compiling function: {text}"))?;
        self.begin(0);
        self.desk.registering.replace(Some(register::Register::default()));
        self.desk.loading_since.set(Some(Instant::now()));
        let outcome: Outcome = self.prelude.load.call(function);
        self.desk.loading_since.set(None);
        let registered = self.desk.registering.take().unwrap_or_default();
        let ending = self.end();
        match (ending, outcome) {
            (Some(Ending::Killed(text, _)), _) => Err(format!("ERR Error registering functions: {text}")),
            (_, Ok((true, _))) if registered.functions.is_empty() => Err("ERR No functions registered".into()),
            (_, Ok((true, _))) => Ok(registered),
            (_, Ok((false, thrown))) => {
                let text = match &thrown {
                    Value::Table(table) => table.raw_get::<String>("err").unwrap_or_else(|_| "ERR unknown error".into()),
                    other => other.to_string().unwrap_or_default(),
                };
                Err(format!("ERR Error registering functions: {text}"))
            }
            (_, Err(error)) => Err(format!("ERR Error registering functions: {}", message(&error))),
        }
    }

    /// A run begins.
    fn begin(&self, seed: u64) {
        self.desk.ending.replace(None);
        self.desk.protocol.set(Protocol::Resp2);
        self.desk.json.set(json::Choices::default());
        self.desk.random.set(Some(Drand::seeded((seed ^ (seed >> 32)) as u32)));
        self.make_room();
    }

    /// Sets the limit of the memory, and sees to it that what the last runs have left does not count for the next.
    fn make_room(&self) {
        let limit = self.shared.memory_max.load(Ordering::Relaxed);
        if let Err(error) = self.lua.set_memory_limit(limit as usize) {
            unreachable!("the allocator is mlua's own: {error}");
        }
        if limit > 0
            && self.lua.used_memory() as u64 > limit / 4
            && let Err(error) = self.lua.gc_collect()
        {
            tracing::warn!("the garbage of scripts is not collected: {}", message(&error));
        }
    }

    /// A run ends; answers whether and why it was made to.
    fn end(&self) -> Option<Ending> {
        let used = self.lua.used_memory() as u64;
        let before = self.counted.replace(used);
        self.shared.memory.fetch_add(used.wrapping_sub(before), Ordering::Relaxed);
        self.desk.gate.take();
        let ending = self.desk.ending.take();
        if ending.is_some() {
            // The triggers that made it end are not the next run's.
            watch(&self.lua, &self.desk, TICK).expect("a hook can be set");
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
        body: impl FnOnce(mlua::Function) -> Outcome,
    ) -> Ended {
        self.begin(seed);
        let (world, desk, unwind) = (RefCell::new(world), &self.desk, &self.prelude.unwind);
        let outcome = self.lua.scope(|scope| {
            let world = &world;
            let gate = scope
                .create_function(move |lua, args: MultiValue| Gate { lua, desk, world: &mut **world.borrow_mut() }.pass(&args, unwind))?;
            // Only what Lua cannot hold panics: more arguments of one call than it has places for.
            let run = std::panic::AssertUnwindSafe(|| body(gate));
            std::panic::catch_unwind(run).unwrap_or_else(|_| Err(mlua::Error::RuntimeError("too many arguments for one call".into())))
        });
        let ending = self.end();
        match (ending, outcome) {
            (Some(Ending::Unwound), _) => Ended::Unwound,
            (Some(Ending::Killed(text, at)), _) => {
                let text = at.map_or_else(|| text.clone(), |(source, line)| format!("{text} script: {name}, on {source}:{line}."));
                Ended::Failed { text, counted: false }
            }
            (None, Ok((true, value))) => match answer::error_of(&value) {
                Some((text, counted)) => Ended::Failed { text, counted },
                None => {
                    answer::write(&value, self.desk.protocol.get(), reply, 0);
                    Ended::Answered
                }
            },
            (None, Ok((false, thrown))) => {
                let (text, counted) = answer::thrown(&thrown, name);
                Ended::Failed { text, counted }
            }
            (None, Err(error)) => Ended::Failed { text: format!("ERR {} script: {name}", message(&error)), counted: false },
        }
    }
}

/// Whether nobody will run a program any more.
fn is_dropped(program: &Weak<Program>) -> bool {
    program.upgrade().is_none_or(|program| program.dropped.load(Ordering::Relaxed))
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.shared.memory.fetch_sub(self.counted.get(), Ordering::Relaxed);
    }
}

/// An error of Lua itself, in one line.
pub fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::MemoryError(_) => "not enough memory".into(),
        mlua::Error::CallbackError { cause, .. } => message(cause),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Has the interpreter look up from its work after so many instructions, again and again.
fn watch(lua: &Lua, desk: &Rc<Desk>, instructions: u32) -> mlua::Result<()> {
    let clerk = desk.clone();
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(instructions), move |lua, _| {
        if goes_on(lua, &clerk)? {
            return Ok(VmState::Continue);
        }
        native::raise("", false)
    })
}

/// Looks at the world; answers false when the script is to end. From then on every step of it raises an error, whatever it catches.
pub fn goes_on(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<bool> {
    if desk.loading_since.get().is_some_and(|since| since.elapsed() > LOAD_PATIENCE) {
        desk.ending.replace(Some(Ending::Killed("ERR FUNCTION LOAD timeout".into(), None)));
    } else if desk.loading_since.get().is_none()
        && desk.ending.borrow().is_none()
        && let Some(tick) = desk.tick.get()
    {
        tick.call::<()>(())?;
    }
    if let Some(Ending::Killed(_, at @ None)) = &mut *desk.ending.borrow_mut() {
        *at = native::whereabouts(lua, 0);
    }
    if desk.ending.borrow().is_none() {
        return Ok(true);
    }
    watch(lua, desk, 1)?;
    Ok(false)
}

/// One passage from Lua to the world.
struct Gate<'g, 'w> {
    lua: &'g Lua,
    desk: &'g Rc<Desk>,
    world: &'g mut (dyn World + 'w),
}

impl Gate<'_, '_> {
    /// `redis.call`, unless the first argument is the one that no script has.
    fn pass(self, args: &MultiValue, unwind: &Table) -> mlua::Result<Value> {
        match args.front() {
            None => native::raise(NO_ARGUMENT, false),
            Some(Value::Table(first)) if first == unwind => self.serve(args),
            Some(_) => match texts(args.iter()) {
                Some(texts) => self.call(&texts),
                None => native::raise(NOT_TEXT, false),
            },
        }
    }

    /// What the prelude and the hook ask for.
    fn serve(self, args: &MultiValue) -> mlua::Result<Value> {
        let Some(Value::String(what)) = args.get(1) else { return native::raise(NOT_TEXT, false) };
        if *what.as_bytes() == *b"tick" {
            if let Some(why) = self.world.tick() {
                self.desk.ending.replace(Some(if why.is_empty() { Ending::Unwound } else { Ending::Killed(why.into_owned(), None) }));
            }
            return Ok(Value::Nil);
        }
        if args.len() < 3 {
            return native::raise(NO_ARGUMENT, false);
        }
        let Some(texts) = texts(args.iter().skip(2)) else { return native::raise(NOT_TEXT, false) };
        let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| &**text).collect();
        match self.world.may_call(&args) {
            Some(allowed) => Ok(Value::Boolean(allowed)),
            None => native::raise("ERR Invalid command passed to redis.acl_check_cmd()", false),
        }
    }

    fn call(self, texts: &[Text<'_>]) -> mlua::Result<Value> {
        if self.desk.ending.borrow().is_some() {
            return native::raise("", false);
        }
        let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| &**text).collect();
        let mut sink = Sink::new(self.lua, self.desk.protocol.get());
        match self.world.call(&args, &mut sink) {
            Called::Answered if sink.failed.is_none() => sink.finish(),
            Called::Answered => native::raise(sink.failed.take().unwrap_or_default(), true),
            Called::Refused(text) => native::raise(text, true),
            Called::Unwind => {
                self.desk.ending.replace(Some(Ending::Unwound));
                watch(self.lua, self.desk, 1)?;
                native::raise("", false)
            }
        }
    }
}

const NO_ARGUMENT: &str = "ERR Please specify at least one argument for this redis lib call";
const NOT_TEXT: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// The arguments as texts, unless one is neither a string nor a number.
fn texts<'v>(values: impl Iterator<Item = &'v Value>) -> Option<SmallVec<[Text<'v>; 6]>> {
    let text = |value: &'v Value| match value {
        Value::String(text) => Some(Text::Bytes(text.as_bytes())),
        Value::Integer(value) => Some(Text::Number(number::argument(*value as f64))),
        Value::Number(value) => Some(Text::Number(number::argument(*value))),
        _ => None,
    };
    values.map(text).collect()
}
