//! What natives share with their interpreter, and how a script calls commands.
//!
//! ```text
//!   redis.call -> gate -> pass_on -> World::call -> Sink -> Lua's value, if the script has room for it
//! ```
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use mlua::{Either, HookTriggers, IntoLuaMulti, Lua, MultiValue, Table, Value, VmState};
use polder_base::Protocol;
use polder_base::script::{Called, World};
use scoped_tls_hkt::scoped_thread_local;
use smallvec::SmallVec;

use crate::args::Text;
use crate::drand::Drand;
use crate::sink::Sink;
use crate::thrown::{raise, whereabouts};
use crate::{json, number, register};

const NO_ARGUMENT: &str = "ERR Please specify at least one argument for this redis lib call";
pub const NOT_TEXT: &str = "ERR Lua redis lib command arguments must be strings or integers";

scoped_thread_local!(
    /// What the running script can call: natives outlive runs, and find the world of this one here.
    pub static mut WORLD: for<'w> &'w mut (dyn World + 'w)
);

/// What natives share with their interpreter.
#[derive(Default)]
pub struct LuaState {
    pub random: Cell<Option<Drand>>,
    /// In which form the replies of called commands are wanted (`redis.setresp`).
    pub protocol: Cell<Protocol>,
    /// The choices of the `cjson` that all scripts share: those of one last as long as its run.
    pub json: Rc<Cell<json::Choices>>,
    /// What the library that is being loaded registers.
    pub registering: RefCell<Option<register::Register>>,
    /// The status OK as a table that all scripts may share which are `Manners::Blind`.
    pub okay: OnceCell<Table>,
    /// The one that runs is.
    pub is_blind: Cell<bool>,
    /// When the code of the library that is being loaded must have come to its end.
    pub loading_until: Cell<Option<Instant>>,
    /// The most memory that Lua code may take; 0 for no limit.
    pub memory_max: Cell<u64>,
    /// Why the run must end.
    pub ending: RefCell<Option<Ending>>,
}

impl LuaState {
    /// The limit that is in force while Lua code runs. There always is one: without a limit mlua expects no allocation to fail, and a script for
    /// which the system has no memory would end the process.
    pub fn memory_limit(&self) -> u64 {
        match self.memory_max.get() {
            0 => isize::MAX as u64,
            limit => limit,
        }
    }
}

#[derive(Clone)]
pub enum Ending {
    Unwound,
    /// With what is said, and where the script was.
    Killed(String, Option<(String, i64)>),
}

/// What is shorter is put into Lua without a limit.
const LARGE_BYTES: usize = 1 << 20;
/// What a called command has answered: a text goes to Lua as it is, without a handle of its own.
type Answer = mlua::Result<Either<String, Value>>;

/// Has the interpreter call back every `instructions` instructions.
pub fn watch(lua: &Lua, lua_state: &Rc<LuaState>, instructions: u32) -> mlua::Result<()> {
    let clerk = lua_state.clone();
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(instructions), move |lua, _| {
        if goes_on(lua, &clerk)? {
            return Ok(VmState::Continue);
        }
        raise("", false)
    })
}

/// Calls the world's tick. Returns false when the script is to end. From then on every step of it
/// raises an error, whatever it catches.
pub fn goes_on(lua: &Lua, lua_state: &Rc<LuaState>) -> mlua::Result<bool> {
    if lua_state.loading_until.get().is_some_and(|until| Instant::now() > until) {
        lua_state.ending.replace(Some(Ending::Killed("ERR FUNCTION LOAD timeout".into(), None)));
    } else if lua_state.loading_until.get().is_none()
        && lua_state.ending.borrow().is_none()
        && WORLD.is_set()
        && let Some(why) = WORLD.with(|world| world.tick())
    {
        lua_state.ending.replace(Some(if why.is_empty() {
            Ending::Unwound
        } else {
            Ending::Killed(why.into_owned(), None)
        }));
    }
    if let Some(Ending::Killed(_, at @ None)) = &mut *lua_state.ending.borrow_mut() {
        *at = whereabouts(lua, 0);
    }
    if lua_state.ending.borrow().is_none() {
        return Ok(true);
    }
    watch(lua, lua_state, 1)?;
    Ok(false)
}

/// `redis.call`, for all runs of an interpreter.
pub fn gate(lua: &Lua, lua_state: &Rc<LuaState>) -> mlua::Result<mlua::Function> {
    let lua_state = lua_state.clone();
    lua.create_function(move |lua, args: MultiValue| {
        answer(lua, &lua_state, move |lua, lua_state| pass(lua, lua_state, &args))
    })
}

/// The same for more arguments than there may be handles for: they are the first ones of a table,
/// and copied one by one.
pub fn gate_of_many(lua: &Lua, lua_state: &Rc<LuaState>) -> mlua::Result<mlua::Function> {
    let lua_state = lua_state.clone();
    lua.create_function(move |lua, (count, args): (usize, Table)| {
        answer(lua, &lua_state, move |lua, lua_state| {
            let mut copies = Vec::with_capacity(count);
            for number in 1..=count {
                let arg = MultiValue::from_iter([args.raw_get::<Value>(number)?]);
                let Some(texts) = texts(&arg) else { return raise(NOT_TEXT, false) };
                copies.extend(texts.iter().map(|text| text.to_vec()));
            }
            let words: SmallVec<[&[u8]; 8]> = copies.iter().map(Vec::as_slice).collect();
            pass_on(lua, lua_state, &words)
        })
    })
}

/// What `ask` returns, if the script has room for it. Its memory has no limit meanwhile.
fn answer(
    lua: &Lua,
    lua_state: &Rc<LuaState>,
    ask: impl FnOnce(&Lua, &Rc<LuaState>) -> Answer,
) -> mlua::Result<(Either<String, Value>, Limit)> {
    limit_memory(lua, 0);
    let mut answer = ask(lua, lua_state);
    let limit = lua_state.memory_max.get();
    if limit != 0 && needed(lua, &answer) > limit {
        answer = make_fit(lua, lua_state, answer);
    }
    match answer {
        Ok(answer) => {
            // A large text is copied into Lua under the limit, where that may fail.
            if matches!(&answer, Either::Left(text) if text.len() > LARGE_BYTES) {
                limit_memory(lua, lua_state.memory_limit());
            }
            Ok((answer, Limit(lua_state.memory_limit())))
        }
        Err(error) => {
            limit_memory(lua, lua_state.memory_limit());
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
fn make_fit(lua: &Lua, lua_state: &Rc<LuaState>, answer: Answer) -> Answer {
    lua.gc_collect()?;
    // No instruction takes as long as this.
    if !goes_on(lua, lua_state)? {
        return raise("", false);
    }
    if answer.is_err() || needed(lua, &answer) <= lua_state.memory_max.get() {
        return answer;
    }
    // To say so takes memory, too.
    drop(answer);
    lua.gc_collect()?;
    Err(mlua::Error::MemoryError("not enough memory".into()))
}

fn pass(lua: &Lua, lua_state: &Rc<LuaState>, args: &MultiValue) -> Answer {
    if args.is_empty() {
        return raise(NO_ARGUMENT, false);
    }
    let Some(texts) = texts(args) else { return raise(NOT_TEXT, false) };
    let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| &**text).collect();
    pass_on(lua, lua_state, &args)
}

/// Has the world run a command.
fn pass_on(lua: &Lua, lua_state: &Rc<LuaState>, args: &[&[u8]]) -> Answer {
    if lua_state.ending.borrow().is_some() {
        return raise("", false);
    }
    if !WORLD.is_set() {
        return raise("ERR redis.call can only be called while a script or a function runs", false);
    }
    let mut sink =
        Sink::new(lua, lua_state.protocol.get(), lua_state.okay.get().filter(|_| lua_state.is_blind.get()));
    match WORLD.with(|world| world.call(args, &mut sink)) {
        Called::Answered if sink.failed.is_none() => sink.finish(),
        Called::Answered => raise(sink.failed.take().unwrap_or_default(), true),
        Called::Refused(text) => raise(text, true),
        Called::Unwind => {
            lua_state.ending.replace(Some(Ending::Unwound));
            watch(lua, lua_state, 1)?;
            raise("", false)
        }
    }
}

/// `redis.acl_check_cmd`.
pub fn may(_: &Lua, args: MultiValue) -> mlua::Result<bool> {
    if args.is_empty() || !WORLD.is_set() {
        return raise(NO_ARGUMENT, false);
    }
    let Some(texts) = texts(&args) else { return raise(NOT_TEXT, false) };
    let args: SmallVec<[&[u8]; 8]> = texts.iter().map(|text| &**text).collect();
    match WORLD.with(|world| world.may_call(&args)) {
        Some(allowed) => Ok(allowed),
        None => raise("ERR Invalid command passed to redis.acl_check_cmd()", false),
    }
}

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

/// Puts the limit of memory into force: behind the last argument of a call, or the last result, when all of them are where they belong. What we
/// put into Lua ourselves is bounded by what we were sent and by what the table holds, and is several times cheaper while no allocation can fail.
pub struct Limit(pub u64);

impl IntoLuaMulti for Limit {
    fn into_lua_multi(self, lua: &Lua) -> mlua::Result<MultiValue> {
        limit_memory(lua, self.0);
        Ok(MultiValue::new())
    }
}

/// Sets how much memory an interpreter may take; 0 for no limit. If it takes more already, it may take no more, but what it has may still be
/// made smaller, which the allocator refuses above the limit.
pub fn limit_memory(lua: &Lua, bytes: u64) {
    let used = if bytes == 0 { 0 } else { lua.used_memory() as u64 };
    if let Err(error) = lua.set_memory_limit(bytes.max(used) as usize) {
        unreachable!("the allocator is mlua's own: {error}");
    }
}
