//! Scripts so simple that they need no Lua: they make calls, compare their replies, and return
//! something.
//!
//! ```text
//!   return redis.call('SET', KEYS[1], ARGV[1])
//!   if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end
//!   local count = redis.call('INCR', KEYS[1]) if count == 1 then redis.call('EXPIRE', KEYS[1], 60) end return count
//! ```
//!
//! Most scripts that run very often are like these, and entering and leaving Lua for each call
//! costs more than the calls themselves. `read.rs` reads them, and `flat.rs` makes of a reply what
//! Lua would make of it. A script with any word that is not understood runs in Lua.
//!
//! **Invariant:** neither what a script does nor its reply shows whether Lua has run it. One
//! difference is allowed: a reply that is returned unchanged takes none of a script's memory.

mod flat;
mod read;

use std::borrow::Cow;
use std::rc::Rc;

use polder_base::Reply;
use polder_base::script::{Called, Ended, Input, World};
use smallvec::SmallVec;

use crate::answer::placed;
use crate::lua_state::NOT_TEXT;
use crate::number;
use flat::{Flat, Out, Parts};

/// What stands for a value.
#[derive(Debug, PartialEq)]
enum Operand {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Box<[u8]>),
    /// `KEYS[1]` is 0.
    Key(usize),
    Arg(usize),
    /// By how many others have been declared before and are still in scope.
    Local(usize),
    Call(Invocation),
}

/// `redis.call(...)`
#[derive(Debug, PartialEq)]
struct Invocation {
    words: Vec<Operand>,
    line: u32,
}

/// What stands behind `if`.
#[derive(Debug, PartialEq)]
enum Condition {
    Holds(Operand),
    HoldsNot(Operand),
    Same(Operand, Operand),
    Differ(Operand, Operand),
}

#[derive(Debug, PartialEq)]
enum Step {
    Call(Invocation),
    Local(Operand),
    /// The branches, and what is done where none of their conditions holds.
    If(Vec<(Condition, Vec<Step>)>, Vec<Step>),
    Return(Operand),
}

/// See the module.
#[derive(Debug, PartialEq)]
pub struct Straight {
    steps: Vec<Step>,
    /// How many keys and arguments it names.
    keys: usize,
    args: usize,
}

/// What a value is at last. Tables are what calls have answered that is neither text nor number.
#[derive(Clone)]
enum Value<'v> {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Cow<'v, [u8]>),
    Table(Rc<Parts>),
}

/// Why a run ends before its end.
enum Halt {
    Failed { text: Cow<'static, str>, counted: bool, line: u32 },
    Unwound,
}

impl Straight {
    /// Whether a run has all that the script names: what is not there is Lua's to deal with.
    pub fn fits(&self, input: &Input<'_>) -> bool {
        self.keys <= input.keys.len() && self.args <= input.args.len()
    }

    /// Runs it. `name`: what errors call it. `room`: how many bytes of replies it may keep.
    pub fn run(
        &self,
        input: &Input<'_>,
        (name, room): (&str, usize),
        world: &mut dyn World,
        reply: &mut dyn Reply,
    ) -> Ended {
        let mut run = Run { input, world, reply, locals: SmallVec::new(), room };
        match run.block(&self.steps) {
            Ok(true) => Ended::Answered,
            Ok(false) => {
                run.reply.null();
                Ended::Answered
            }
            Err(Halt::Failed { text, counted, line }) => {
                Ended::Failed { text: placed(&text, name, "@user_script", line.into()), counted }
            }
            Err(Halt::Unwound) => Ended::Unwound,
        }
    }
}

struct Run<'v, 'w> {
    input: &'v Input<'v>,
    world: &'w mut dyn World,
    reply: &'w mut dyn Reply,
    locals: SmallVec<[Value<'v>; 4]>,
    room: usize,
}

impl<'v> Run<'v, '_> {
    /// Runs the steps of a block. Returns whether one of them has returned something.
    fn block(&mut self, steps: &'v [Step]) -> Result<bool, Halt> {
        let outside = self.locals.len();
        for step in steps {
            match step {
                Step::Call(call) => self.call(call, Out::Nowhere).map(drop)?,
                Step::Local(operand) => {
                    let value = self.value(operand)?;
                    self.room -= value.bytes().min(self.room);
                    self.locals.push(value);
                }
                Step::If(branches, otherwise) => {
                    let mut chosen = otherwise;
                    for (condition, steps) in branches {
                        if self.holds(condition)? {
                            chosen = steps;
                            break;
                        }
                    }
                    if self.block(chosen)? {
                        return Ok(true);
                    }
                }
                Step::Return(operand) => {
                    self.answer(operand)?;
                    return Ok(true);
                }
            }
        }
        self.locals.truncate(outside);
        Ok(false)
    }

    fn holds(&mut self, condition: &'v Condition) -> Result<bool, Halt> {
        Ok(match condition {
            Condition::Holds(operand) => self.value(operand)?.is_true(),
            Condition::HoldsNot(operand) => !self.value(operand)?.is_true(),
            Condition::Same(left, right) => self.value(left)?.is(&self.value(right)?),
            Condition::Differ(left, right) => !self.value(left)?.is(&self.value(right)?),
        })
    }

    fn value(&mut self, operand: &'v Operand) -> Result<Value<'v>, Halt> {
        Ok(match operand {
            Operand::Nil => Value::Nil,
            Operand::Boolean(value) => Value::Boolean(*value),
            Operand::Number(value) => Value::Number(*value),
            Operand::Text(text) => Value::Text(Cow::Borrowed(text)),
            Operand::Key(at) => Value::Text(Cow::Borrowed(self.input.keys[*at])),
            Operand::Arg(at) => Value::Text(Cow::Borrowed(self.input.args[*at])),
            Operand::Local(at) => self.locals[*at].clone(),
            Operand::Call(call) => {
                let out = Out::Kept(Parts::default(), self.room);
                match self.call(call, out)? {
                    Out::Kept(parts, _) => parts.value(),
                    _ => Value::Nil,
                }
            }
        })
    }

    /// Writes what is returned.
    fn answer(&mut self, operand: &'v Operand) -> Result<(), Halt> {
        if let Operand::Call(call) = operand {
            return self.call(call, Out::Reply).map(drop);
        }
        match self.value(operand)? {
            Value::Nil | Value::Boolean(false) => self.reply.null(),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Number(value) => self.reply.integer(number::whole(value)),
            Value::Text(text) => self.reply.bulk(&text),
            Value::Table(parts) => parts.write(self.reply),
        }
        Ok(())
    }

    /// Makes a call, whose reply goes where `out` says.
    fn call(&mut self, call: &'v Invocation, out: Out) -> Result<Out, Halt> {
        let failed = |text: Cow<'static, str>, counted| Halt::Failed { text, counted, line: call.line };
        let mut words = SmallVec::<[Value<'v>; 6]>::new();
        for word in &call.words {
            words.push(self.value(word)?);
        }
        for word in &mut words {
            match word {
                Value::Text(_) => {}
                Value::Number(value) => {
                    *word = Value::Text(Cow::Owned(number::argument(*value).into_bytes()))
                }
                _ => return Err(failed(NOT_TEXT.into(), false)),
            }
        }
        let texts: SmallVec<[&[u8]; 8]> = words.iter().map(Value::text).collect();
        let start = self.reply.mark();
        let mut flat = Flat::new(&mut *self.reply, out);
        let called = self.world.call(&texts, &mut flat);
        let (text, counted) = match (called, flat.end()) {
            (Called::Answered, Ok(out)) => return Ok(out),
            (Called::Answered, Err(why)) => why,
            (Called::Refused(text), _) => (text, true),
            (Called::Unwind, _) => return Err(Halt::Unwound),
        };
        self.reply.rewind(start);
        Err(failed(text, counted))
    }
}

impl Value<'_> {
    fn is_true(&self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }

    /// Whether Lua's `==` holds.
    fn is(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::Nil, Value::Nil) => true,
            (Value::Boolean(one), Value::Boolean(other)) => one == other,
            (Value::Number(one), Value::Number(other)) => one == other,
            (Value::Text(one), Value::Text(other)) => one == other,
            (Value::Table(one), Value::Table(other)) => Rc::ptr_eq(one, other),
            _ => false,
        }
    }

    fn text(&self) -> &[u8] {
        if let Value::Text(text) = self { text } else { b"" }
    }

    /// What it takes of the room for replies.
    fn bytes(&self) -> usize {
        match self {
            Value::Text(Cow::Owned(text)) => text.len(),
            Value::Table(parts) => parts.bytes(),
            _ => 0,
        }
    }
}
