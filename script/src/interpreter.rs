//! One thread's interpreter: what it has compiled, and how it runs it.
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bstr::{BString, ByteSlice};
use hashbrown::HashMap;
use mlua::{ChunkMode, Either, HookTriggers, IntoLuaMulti, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use polder_base::script::{Called, Ended, Function, Input, Library, Program, Trust, World};
use polder_base::{Protocol, Reply};
use scoped_tls_hkt::scoped_thread_local;
use smallvec::SmallVec;

use crate::drand::Drand;
use crate::native::{Text, pushable};
use crate::sink::Sink;
use crate::straight::Straight;
use crate::{Shared, answer, json, native, number, register};

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

scoped_thread_local!(
    /// What the running script can call: natives outlive runs, and find the world of this one here.
    static mut WORLD: for<'w> &'w mut (dyn World + 'w)
);

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
    /// The status OK as a table that all scripts may share which are [`Manners::Blind`].
    okay: OnceCell<Table>,
    /// The one that runs is.
    is_blind: Cell<bool>,
    /// When the code of the library that is being loaded must have come to its end.
    loading_until: Cell<Option<Instant>>,
    /// The most memory that Lua code may take; 0 for no limit.
    memory_max: Cell<u64>,
    /// Why the run must end.
    ending: RefCell<Option<Ending>>,
}

impl Desk {
    /// The limit that is in force while Lua code runs. There always is one: without a limit mlua expects no allocation to fail, and a script for
    /// which the system has no memory would end the process.
    fn memory_limit(&self) -> u64 {
        match self.memory_max.get() {
            0 => isize::MAX as u64,
            limit => limit,
        }
    }
}

#[derive(Clone)]
enum Ending {
    Unwound,
    /// With what is said, and where the script was.
    Killed(String, Option<(String, i64)>),
}

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
    desk: Rc<Desk>,
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

/// What is shorter is put into Lua without a limit.
const LARGE_BYTES: usize = 1 << 20;
/// A failed script leaves no more garbage than this to the next one: it may be what the system lacks.
const GARBAGE_BYTES: u64 = 16 << 20;
/// The prelude's FAILED, TEXT and OK.
const FAILED: u8 = 0;
const TEXT: u8 = 2;
const STATUS_OK: u8 = 3;

/// What a called command has answered: a text goes to Lua as it is, without a handle of its own.
type Answer = mlua::Result<Either<String, Value>>;

impl Interpreter {
    pub fn new(shared: Arc<Shared>) -> Interpreter {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(true)).expect("these libraries are safe");
        let desk = Rc::new(Desk::default());
        let made = Interpreter::furnish(&lua, &desk, &shared.version).expect("the prelude is ours");
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
        assert!(desk.okay.set(face("okay")).is_ok(), "the desk is new");
        watch(&lua, &desk, TICK).expect("a hook can be set");
        let (programs, libraries) = (RefCell::default(), RefCell::default());
        Interpreter { shared, lua, desk, programs, libraries, prelude, wild: Cell::new(true), counted: Cell::new(0) }
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
            let forgotten: Vec<u64> = programs.iter().filter(|(_, known)| is_dropped(&known.program)).map(|(number, _)| *number).collect();
            for number in forgotten {
                programs.remove(&number);
                self.prelude.keep.call::<()>((number, Value::Nil)).map_err(|error| message(&error))?;
            }
        }
        self.prelude.keep.call::<()>((program.number, function)).map_err(|error| message(&error))?;
        programs.insert(program.number, Compiled { program: Arc::downgrade(program), manners, straight: straight.clone() });
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
        limit_memory(&self.lua, self.desk.memory_limit());
        let function = chunk.into_function();
        limit_memory(&self.lua, 0);
        function.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    pub fn run(&self, program: &Arc<Program>, input: &Input<'_>, world: &mut dyn World, reply: &mut dyn Reply) -> Ended {
        let (manners, straight) = match self.compiled(program) {
            Ok(known) => known,
            Err(text) => return Ended::Failed { text: format!("ERR Error compiling script (new function): {text}"), counted: false },
        };
        if let Some(straight) = straight.filter(|straight| straight.fits(input)) {
            let limit = self.shared.memory_max.load(Ordering::Relaxed);
            let room = if limit == 0 { usize::MAX } else { limit as usize };
            return straight.run(input, (&program.sha, room), world, reply);
        }
        self.desk.is_blind.set(manners == Manners::Blind);
        self.within(world, input.seed, &program.sha, reply, || {
            if input.keys.len() <= FEW_KEYS && input.args.len() <= FEW_ARGS {
                let mut args = input.args.iter().map(|text| pushable(text));
                let (key, first, second) = (input.keys.first().map(|key| pushable(key)), args.next(), args.next());
                let run = if self.wild.replace(manners == Manners::Wild) { &self.prelude.run } else { &self.prelude.run_again };
                run.call((program.number, key, first, second, self.limit()))
            } else {
                self.wild.set(true);
                self.prelude.run_with.call((program.number, self.sequence(input.keys)?, self.sequence(input.args)?, self.limit()))
            }
        })
    }

    /// The last argument of a call into Lua code.
    fn limit(&self) -> Limit {
        Limit(self.desk.memory_limit())
    }

    fn sequence(&self, texts: &[&[u8]]) -> mlua::Result<Table> {
        self.lua.create_sequence_from(texts.iter().map(|text| pushable(text)))
    }

    pub fn call(&self, library: &Arc<Library>, name: &str, input: &Input<'_>, world: &mut dyn World, reply: &mut dyn Reply) -> Ended {
        if !self.libraries.borrow().contains_key(&library.number)
            && let Err(text) = self.keep_library(library)
        {
            return Ended::Failed { text, counted: false };
        }
        self.desk.is_blind.set(false);
        self.within(world, input.seed, name, reply, || {
            self.prelude.call.call((library.number, name, self.sequence(input.keys)?, self.sequence(input.args)?, self.limit()))
        })
    }

    pub fn load(&self, library: &Library, trust: Trust) -> Result<Vec<Function>, String> {
        self.load_functions(library, trust).map(|register| register.functions)
    }

    /// Forgets libraries that are gone, and loads one to stay.
    fn keep_library(&self, library: &Arc<Library>) -> Result<(), String> {
        let prelude = &self.prelude;
        let is_gone = |(_, known): &(&u64, &Weak<Library>)| known.strong_count() == 0;
        let gone: Vec<u64> = self.libraries.borrow().iter().filter(is_gone).map(|(number, _)| *number).collect();
        for number in gone {
            self.libraries.borrow_mut().remove(&number);
            prelude.forget_library.call::<()>(number).map_err(|error| message(&error))?;
        }
        let register = self.load_functions(library, Trust::Accepted)?;
        for (name, callback) in register.callbacks {
            prelude.keep_function.call::<()>((library.number, name, callback)).map_err(|error| message(&error))?;
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
        self.desk.registering.replace(Some(register::Register::default()));
        let patience = if trust == Trust::Accepted { ACCEPTED_PATIENCE } else { LOAD_PATIENCE };
        self.desk.loading_until.set(Some(Instant::now() + patience));
        let outcome: Outcome = self.prelude.load.call((function, self.limit()));
        self.desk.loading_until.set(None);
        let registered = self.desk.registering.take().unwrap_or_default();
        let ending = self.end();
        match (ending, outcome) {
            (Some(Ending::Killed(text, _)), _) => Err(format!("ERR Error registering functions: {text}")),
            (_, Ok((FAILED, _, thrown))) => {
                let text = match &thrown {
                    Value::Table(table) => table.raw_get::<String>("err").unwrap_or_else(|_| "ERR unknown error".into()),
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
        self.desk.ending.replace(None);
        self.desk.protocol.set(Protocol::Resp2);
        self.desk.json.set(json::Choices::default());
        self.desk.random.set(Some(Drand::seeded((seed ^ (seed >> 32)) as u32)));
        self.make_room();
    }

    /// Sees to it that what the last runs have left does not count for the next.
    fn make_room(&self) {
        let limit = self.shared.memory_max.load(Ordering::Relaxed);
        self.desk.memory_max.set(limit);
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
        let ending = self.desk.ending.take();
        if ending.is_some() {
            // The triggers that made it end are not the next run's.
            watch(&self.lua, &self.desk, TICK).expect("a hook can be set");
        }
        ending
    }

    /// Runs something that may call the world, and writes what it returns.
    fn within(&self, world: &mut dyn World, seed: u64, name: &str, reply: &mut dyn Reply, body: impl FnOnce() -> Outcome) -> Ended {
        self.begin(seed);
        // Only what Lua cannot hold panics: more arguments of one call than it has places for.
        let run = std::panic::AssertUnwindSafe(body);
        let outcome = WORLD.set(world, || std::panic::catch_unwind(run));
        let outcome = outcome.unwrap_or_else(|_| Err(mlua::Error::RuntimeError("too many arguments for one call".into())));
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
                let text = at.map_or_else(|| text.clone(), |(source, line)| format!("{text} script: {name}, on {source}:{line}."));
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
                    answer::write(&value, self.desk.protocol.get(), reply);
                    Ended::Answered
                }
            },
            (None, Err(error)) => Ended::Failed { text: format!("ERR {} script: {name}", message(&error)), counted: false },
        }
    }
}

/// Puts the limit of memory into force: behind the last argument of a call, or the last result, when all of them are where they belong. What we
/// put into Lua ourselves is bounded by what we were sent and by what the table holds, and is several times cheaper while no allocation can fail.
struct Limit(u64);

impl IntoLuaMulti for Limit {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        limit_memory(lua, self.0);
        Ok(MultiValue::new())
    }
}

/// Sets how much memory an interpreter may take; 0 for no limit. If it takes more already, it may take no more, but what it has may still be
/// made smaller, which the allocator refuses above the limit.
fn limit_memory(lua: &Lua, bytes: u64) {
    let used = if bytes == 0 { 0 } else { lua.used_memory() as u64 };
    if let Err(error) = lua.set_memory_limit(bytes.max(used) as usize) {
        unreachable!("the allocator is mlua's own: {error}");
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
            () if has(&WRITES) || body.iter().enumerate().any(|(at, byte)| *byte == b'=' && assigns(at)) => Manners::Wild,
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

/// An error of Lua itself, in one line.
pub fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::MemoryError(_) => "not enough memory".into(),
        mlua::Error::CallbackError { cause, .. } => message(cause),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

/// Has the interpreter call back every `instructions` instructions.
fn watch(lua: &Lua, desk: &Rc<Desk>, instructions: u32) -> mlua::Result<()> {
    let clerk = desk.clone();
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(instructions), move |lua, _| {
        if goes_on(lua, &clerk)? {
            return Ok(VmState::Continue);
        }
        native::raise("", false)
    })
}

/// Calls the world's tick. Returns false when the script is to end. From then on every step of it
/// raises an error, whatever it catches.
pub fn goes_on(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<bool> {
    if desk.loading_until.get().is_some_and(|until| Instant::now() > until) {
        desk.ending.replace(Some(Ending::Killed("ERR FUNCTION LOAD timeout".into(), None)));
    } else if desk.loading_until.get().is_none()
        && desk.ending.borrow().is_none()
        && WORLD.is_set()
        && let Some(why) = WORLD.with(|world| world.tick())
    {
        desk.ending.replace(Some(if why.is_empty() { Ending::Unwound } else { Ending::Killed(why.into_owned(), None) }));
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

/// `redis.call`, for all runs of an interpreter.
pub fn gate(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<mlua::Function> {
    let desk = desk.clone();
    lua.create_function(move |lua, args: MultiValue| answer(lua, &desk, move |lua, desk| pass(lua, desk, &args)))
}

/// The same for more arguments than there may be handles for: they are the first ones of a table,
/// and copied one by one.
pub fn gate_of_many(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<mlua::Function> {
    let desk = desk.clone();
    lua.create_function(move |lua, (count, args): (usize, Table)| {
        answer(lua, &desk, move |lua, desk| {
            let mut copies = Vec::with_capacity(count);
            for number in 1..=count {
                let arg = MultiValue::from_iter([args.raw_get::<Value>(number)?]);
                let Some(texts) = texts(&arg) else { return native::raise(NOT_TEXT, false) };
                copies.extend(texts.iter().map(|text| text.to_vec()));
            }
            let words: SmallVec<[&[u8]; 8]> = copies.iter().map(Vec::as_slice).collect();
            pass_on(lua, desk, &words)
        })
    })
}

/// What `ask` returns, if the script has room for it. Its memory has no limit meanwhile.
fn answer(lua: &Lua, desk: &Rc<Desk>, ask: impl FnOnce(&Lua, &Rc<Desk>) -> Answer) -> mlua::Result<(Either<String, Value>, Limit)> {
    limit_memory(lua, 0);
    let mut answer = ask(lua, desk);
    let limit = desk.memory_max.get();
    if limit != 0 && needed(lua, &answer) > limit {
        answer = make_fit(lua, desk, answer);
    }
    match answer {
        Ok(answer) => {
            // A large text is copied into Lua under the limit, where that may fail.
            if matches!(&answer, Either::Left(text) if text.len() > LARGE_BYTES) {
                limit_memory(lua, desk.memory_limit());
            }
            Ok((answer, Limit(desk.memory_limit())))
        }
        Err(error) => {
            limit_memory(lua, desk.memory_limit());
            Err(error)
        }
    }
}

/// How much memory is in use once a reply is in Lua.
fn needed(lua: &Lua, answer: &Answer) -> u64 {
    let text = if let Ok(Either::Left(text)) = answer { text.len() } else { 0 };
    (lua.used_memory() + text) as u64
}

/// With this reply the script would have more memory than it may: garbage is collected, and if that
/// is not enough, the script does not get the reply.
fn make_fit(lua: &Lua, desk: &Rc<Desk>, answer: Answer) -> Answer {
    lua.gc_collect()?;
    // No instruction takes as long as this.
    if !goes_on(lua, desk)? {
        return native::raise("", false);
    }
    if answer.is_err() || needed(lua, &answer) <= desk.memory_max.get() {
        return answer;
    }
    // To say so takes memory, too.
    drop(answer);
    lua.gc_collect()?;
    Err(mlua::Error::MemoryError("not enough memory".into()))
}

fn pass(lua: &Lua, desk: &Rc<Desk>, args: &MultiValue) -> Answer {
    if args.is_empty() {
        return native::raise(NO_ARGUMENT, false);
    }
    let Some(texts) = texts(args) else { return native::raise(NOT_TEXT, false) };
    let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| &**text).collect();
    pass_on(lua, desk, &args)
}

/// Has the world run a command.
fn pass_on(lua: &Lua, desk: &Rc<Desk>, args: &[&[u8]]) -> Answer {
    if desk.ending.borrow().is_some() {
        return native::raise("", false);
    }
    if !WORLD.is_set() {
        return native::raise("ERR redis.call can only be called while a script or a function runs", false);
    }
    let mut sink = Sink::new(lua, desk.protocol.get(), desk.okay.get().filter(|_| desk.is_blind.get()));
    match WORLD.with(|world| world.call(args, &mut sink)) {
        Called::Answered if sink.failed.is_none() => sink.finish(),
        Called::Answered => native::raise(sink.failed.take().unwrap_or_default(), true),
        Called::Refused(text) => native::raise(text, true),
        Called::Unwind => {
            desk.ending.replace(Some(Ending::Unwound));
            watch(lua, desk, 1)?;
            native::raise("", false)
        }
    }
}

/// `redis.acl_check_cmd`.
pub fn may(_: &Lua, args: MultiValue) -> mlua::Result<bool> {
    if args.is_empty() || !WORLD.is_set() {
        return native::raise(NO_ARGUMENT, false);
    }
    let Some(texts) = texts(&args) else { return native::raise(NOT_TEXT, false) };
    let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| &**text).collect();
    match WORLD.with(|world| world.may_call(&args)) {
        Some(allowed) => Ok(allowed),
        None => native::raise("ERR Invalid command passed to redis.acl_check_cmd()", false),
    }
}

const NO_ARGUMENT: &str = "ERR Please specify at least one argument for this redis lib call";
pub const NOT_TEXT: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// The arguments as texts, unless one is neither a string nor a number.
fn texts(values: &MultiValue) -> Option<SmallVec<[Text<'_>; 6]>> {
    let mut texts = SmallVec::new();
    for value in values {
        texts.push(match value {
            Value::String(text) => Text::Bytes(text.as_bytes()),
            Value::Integer(value) => Text::Number(number::argument(*value as f64)),
            Value::Number(value) => Text::Number(number::argument(*value)),
            _ => return None,
        });
    }
    Some(texts)
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
