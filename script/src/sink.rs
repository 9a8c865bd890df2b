//! Where the reply of a called command becomes Lua values, as Redis converts them (RESP2, or RESP3 after `redis.setresp(3)`).
//!
//! ```text
//!   integer  number            status  {ok=..}     null  false (RESP3: nil)    map   {map={..}}          RESP3 only: map, set, double,
//!   bulk     string            error   {err=..}    array table from 1 on       set   {set={x=true}}      boolean, big number, verbatim
//! ```
use std::cell::Cell;

use mlua::{Either, IntoLua, Lua, Table, Value};
use polder_base::{Protocol, Reply, number};

use crate::args::pushable;

/// A container that is being filled.
struct Frame {
    table: Table,
    kind: Kind,
    /// Elements that have come, and those that have not.
    at: i64,
    left: usize,
}

enum Kind {
    Array,
    Set,
    /// With the key whose value comes next.
    Map(Option<Value>),
    /// What follows is not kept: attributes.
    Nothing,
}

/// The sink of one call.
pub struct Sink<'l> {
    lua: &'l Lua,
    protocol: Protocol,
    frames: Vec<Frame>,
    whole: Option<Either<String, Value>>,
    bulk: Vec<u8>,
    /// What the status OK is, if it need not be made.
    okay: Option<&'l Table>,
    /// The reply as a whole is an error.
    pub failed: Option<String>,
    /// Lua had no memory for it.
    pub full: Option<mlua::Error>,
    written: Cell<usize>,
}

impl<'l> Sink<'l> {
    pub fn new(lua: &'l Lua, protocol: Protocol, okay: Option<&'l Table>) -> Sink<'l> {
        Sink {
            lua,
            protocol,
            frames: Vec::new(),
            whole: None,
            bulk: Vec::new(),
            okay,
            failed: None,
            full: None,
            written: Cell::new(0),
        }
    }

    /// What has been written, as a value.
    pub fn finish(self) -> Result<Either<String, Value>, mlua::Error> {
        match self.full {
            Some(error) => Err(error),
            None => Ok(self.whole.unwrap_or(Either::Right(Value::Nil))),
        }
    }

    fn is_rich(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    /// Puts a value where it belongs.
    fn put(&mut self, value: Value) {
        let placed = self.place(value);
        self.settle(placed);
    }

    /// After a value has come.
    fn settle(&mut self, placed: mlua::Result<()>) {
        self.written.set(self.written.get() + 1);
        if let Err(error) = placed {
            self.full = Some(error);
        }
        while self.frames.last().is_some_and(|frame| frame.left == 0) {
            self.frames.pop();
        }
    }

    fn place(&mut self, value: Value) -> mlua::Result<()> {
        let Some(frame) = self.frames.last_mut() else {
            self.whole = Some(Either::Right(value));
            return Ok(());
        };
        frame.left -= 1;
        frame.at += 1;
        match &mut frame.kind {
            Kind::Array => frame.table.raw_set(frame.at, value),
            Kind::Set if value.is_nil() => Ok(()),
            Kind::Set => frame.table.raw_set(value, true),
            Kind::Map(pending @ None) => {
                *pending = Some(value);
                Ok(())
            }
            Kind::Map(pending) => match pending.take() {
                Some(key) if !key.is_nil() => frame.table.raw_set(key, value),
                _ => Ok(()),
            },
            Kind::Nothing => Ok(()),
        }
    }

    /// Begins a container of `left` values; `wrap` is the field of a table around it.
    fn open(&mut self, kind: Kind, left: usize, wrap: Option<&str>) {
        let elements = if matches!(kind, Kind::Array) { left.min(1 << 16) } else { 0 };
        let made = self.lua.create_table_with_capacity(elements, 0).and_then(|table| match wrap {
            None => Ok((Value::Table(table.clone()), table)),
            Some(name) => {
                let outer = self.lua.create_table_with_capacity(0, 1)?;
                outer.raw_set(name, &table)?;
                Ok((Value::Table(outer), table))
            }
        });
        match made {
            Ok((value, table)) => {
                if let Err(error) = self.place(value) {
                    self.full = Some(error);
                }
                self.frames.push(Frame { table, kind, at: 0, left });
                self.written.set(self.written.get() + 1);
                while self.frames.last().is_some_and(|frame| frame.left == 0) {
                    self.frames.pop();
                }
            }
            Err(error) => self.full = Some(error),
        }
    }

    fn text(&mut self, text: &[u8]) {
        if let Some(Frame { table, kind: Kind::Array, at, left }) = self.frames.last_mut() {
            *at += 1;
            *left -= 1;
            let set = table.raw_set(*at, pushable(text));
            return self.settle(set);
        }
        if let (true, Ok(text)) = (self.frames.is_empty(), std::str::from_utf8(text)) {
            self.whole = Some(Either::Left(text.into()));
            self.written.set(self.written.get() + 1);
            return;
        }
        match self.lua.create_string(text) {
            Ok(string) => self.put(Value::String(string)),
            Err(error) => {
                self.full = Some(error);
                self.put(Value::Nil);
            }
        }
    }

    /// A table of one field.
    fn field(&mut self, name: &str, value: impl IntoLua) {
        match self.lua.create_table_from([(name, value)]) {
            Ok(table) => self.put(Value::Table(table)),
            Err(error) => {
                self.full = Some(error);
                self.put(Value::Nil);
            }
        }
    }

    fn text_field(&mut self, name: &str, text: &[u8]) {
        self.field(name, pushable(text));
    }
}

impl Reply for Sink<'_> {
    fn protocol(&self) -> Protocol {
        self.protocol
    }
    fn status(&mut self, text: &str) {
        if let (Some(okay), "OK") = (self.okay, text) {
            return self.put(Value::Table(okay.clone()));
        }
        self.text_field("ok", text.as_bytes());
    }
    fn error(&mut self, text: &str) {
        if self.frames.is_empty() {
            self.failed = Some(text.into());
        }
        self.text_field("err", text.as_bytes());
    }
    fn integer(&mut self, value: i64) {
        self.put(Value::Number(value as f64));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.text(bytes);
    }
    fn begin_bulk(&mut self, _len: u64) {
        self.bulk.clear();
    }
    fn piece(&mut self, bytes: &[u8]) {
        self.bulk.extend_from_slice(bytes);
    }
    fn end_bulk(&mut self) {
        let bulk = std::mem::take(&mut self.bulk);
        self.text(&bulk);
    }
    fn null(&mut self) {
        self.put(if self.is_rich() { Value::Nil } else { Value::Boolean(false) });
    }
    fn null_array(&mut self) {
        self.null();
    }
    fn array(&mut self, len: usize) {
        self.open(Kind::Array, len, None);
    }
    fn map(&mut self, pairs: usize) {
        if self.is_rich() {
            self.open(Kind::Map(None), pairs * 2, Some("map"));
        } else {
            self.open(Kind::Array, pairs * 2, None);
        }
    }
    fn set(&mut self, len: usize) {
        if self.is_rich() {
            self.open(Kind::Set, len, Some("set"));
        } else {
            self.open(Kind::Array, len, None);
        }
    }
    fn push(&mut self, len: usize) {
        self.open(Kind::Array, len, None);
    }
    fn attribute(&mut self, pairs: usize) {
        if pairs > 0
            && let Ok(table) = self.lua.create_table()
        {
            self.frames.push(Frame { table, kind: Kind::Nothing, at: 0, left: pairs * 2 });
        }
    }
    fn double(&mut self, value: f64) {
        if self.is_rich() {
            self.field("double", Value::Number(value));
        } else {
            self.text(number::double_text(value).as_bytes());
        }
    }
    fn double_text(&mut self, text: &str) {
        match number::double(text.as_bytes()).filter(|_| self.is_rich()) {
            Some(value) => self.field("double", Value::Number(value)),
            None => self.text(text.as_bytes()),
        }
    }
    fn boolean(&mut self, value: bool) {
        self.put(if self.is_rich() {
            Value::Boolean(value)
        } else {
            Value::Number(f64::from(u8::from(value)))
        });
    }
    fn big_number(&mut self, text: &str) {
        if self.is_rich() {
            self.text_field("big_number", text.as_bytes());
        } else {
            self.text(text.as_bytes());
        }
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        if !self.is_rich() {
            return self.text(text);
        }
        let made = self.lua.create_table_with_capacity(0, 2).and_then(|table| {
            table.raw_set("format", self.lua.create_string(format)?)?;
            table.raw_set("string", self.lua.create_string(text)?)?;
            Ok(table)
        });
        match made {
            Ok(table) => self.field("verbatim_string", Value::Table(table)),
            Err(error) => self.full = Some(error),
        }
    }
    fn mark(&self) -> usize {
        self.written.get()
    }
    /// Back to the beginning: the caller of a command rewinds the whole of its reply.
    fn rewind(&mut self, mark: usize) {
        if mark == self.written.get() {
            return;
        }
        assert_eq!(mark, 0, "a command takes back its reply as a whole");
        self.frames.clear();
        self.whole = None;
        self.failed = None;
        self.written.set(0);
    }
}
