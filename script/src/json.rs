//! `cjson`: JSON, as Redis's library writes and reads it.
use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use crate::args::{Args, Results, function, kind};
use crate::buffer::Buffer;
use crate::complaint::Complaint;
use crate::number;

/// Deeper than this a thread's stack does not reach, whatever a script allows.
const DEPTH_BOUND: i64 = 2000;
/// How much longer an escaped character is than its byte, at most.
const ESCAPE_BYTES_MAX: usize = 5;

/// What scripts can choose.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth: i64,
    decode_depth: i64,
    /// 0: refused, 1: written, 2: as null.
    encode_invalid: u8,
    decode_invalid: bool,
    precision: i64,
    keep_buffer: bool,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            encode_invalid: 0,
            decode_invalid: true,
            precision: 14,
            keep_buffer: true,
        }
    }
}

type Shelf = Rc<Cell<Choices>>;

/// The natives, over choices of their own.
pub fn library(lua: &Lua, choices: &Shelf) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let shelf = choices.clone();
    let encode = move |args: &Args, results: &mut Results| {
        if args.count() != 1 {
            return Err(args.bad(1, "encode", "expected 1 argument"));
        }
        let text = encode(results.lua, &shelf.get(), args.get(1))?;
        results.add(text)
    };
    table.set("encode", function(lua, encode)?)?;
    let shelf = choices.clone();
    let decode = move |args: &Args, results: &mut Results| {
        if args.count() != 1 {
            return Err(args.bad(1, "decode", "expected 1 argument"));
        }
        let value = match args.get(1) {
            Value::String(text) => decode(results.lua, &shelf.get(), &text.as_bytes()),
            _ => decode(results.lua, &shelf.get(), &args.string(1, "decode")?),
        }?;
        results.add(value)
    };
    table.set("decode", function(lua, decode)?)?;
    for (name, choose) in CHOICES {
        let shelf = choices.clone();
        let run = move |args: &Args, results: &mut Results| {
            let mut choices = shelf.get();
            // What stood before a wrong argument holds.
            let chosen = choose(&mut choices, args, results);
            shelf.set(choices);
            chosen
        };
        table.set(*name, function(lua, run)?)?;
    }
    Ok(table)
}

type Choose = fn(&mut Choices, &Args, &mut Results) -> Result<(), Complaint>;

const CHOICES: &[(&str, Choose)] = &[
    ("encode_sparse_array", |choices, args, results| {
        most(args, 3, "encode_sparse_array")?;
        choices.sparse_convert = switch(args, 1, "encode_sparse_array", choices.sparse_convert)?;
        results.add(choices.sparse_convert)?;
        choices.sparse_ratio =
            integer(args, 2, "encode_sparse_array", (0, i64::from(i32::MAX)), choices.sparse_ratio)?;
        results.add(choices.sparse_ratio as f64)?;
        choices.sparse_safe =
            integer(args, 3, "encode_sparse_array", (0, i64::from(i32::MAX)), choices.sparse_safe)?;
        results.add(choices.sparse_safe as f64)
    }),
    ("encode_max_depth", |choices, args, results| {
        most(args, 1, "encode_max_depth")?;
        choices.encode_depth =
            integer(args, 1, "encode_max_depth", (1, i64::from(i32::MAX)), choices.encode_depth)?;
        results.add(choices.encode_depth as f64)
    }),
    ("decode_max_depth", |choices, args, results| {
        most(args, 1, "decode_max_depth")?;
        choices.decode_depth =
            integer(args, 1, "decode_max_depth", (1, i64::from(i32::MAX)), choices.decode_depth)?;
        results.add(choices.decode_depth as f64)
    }),
    ("encode_number_precision", |choices, args, results| {
        most(args, 1, "encode_number_precision")?;
        choices.precision = integer(args, 1, "encode_number_precision", (1, 14), choices.precision)?;
        results.add(choices.precision as f64)
    }),
    ("encode_keep_buffer", |choices, args, results| {
        most(args, 1, "encode_keep_buffer")?;
        choices.keep_buffer = switch(args, 1, "encode_keep_buffer", choices.keep_buffer)?;
        results.add(choices.keep_buffer)
    }),
    ("encode_invalid_numbers", |choices, args, results| {
        most(args, 1, "encode_invalid_numbers")?;
        choices.encode_invalid = match args.get(1) {
            Value::Nil => choices.encode_invalid,
            Value::String(word) if *word.as_bytes() == *b"null" => 2,
            _ => u8::from(switch(args, 1, "encode_invalid_numbers", false)?),
        };
        match choices.encode_invalid {
            2 => {
                let null = results.lua.create_string("null")?;
                results.add(null)
            }
            invalid => results.add(invalid == 1),
        }
    }),
    ("decode_invalid_numbers", |choices, args, results| {
        most(args, 1, "decode_invalid_numbers")?;
        choices.decode_invalid = switch(args, 1, "decode_invalid_numbers", choices.decode_invalid)?;
        results.add(choices.decode_invalid)
    }),
];

fn most(args: &Args, count: usize, name: &str) -> Result<(), Complaint> {
    if args.count() > count { Err(args.bad(count + 1, name, "found too many arguments")) } else { Ok(()) }
}

fn switch(args: &Args, at: usize, name: &str, now: bool) -> Result<bool, Complaint> {
    match args.get(at) {
        Value::Nil => Ok(now),
        Value::Boolean(value) => Ok(*value),
        _ => {
            let word = args.string(at, name)?;
            match word.as_slice() {
                b"on" => Ok(true),
                b"off" => Ok(false),
                other => {
                    Err(args.bad(at, name, &format!("invalid option '{}'", String::from_utf8_lossy(other))))
                }
            }
        }
    }
}

fn integer(args: &Args, at: usize, name: &str, bounds: (i64, i64), now: i64) -> Result<i64, Complaint> {
    if args.get(at).is_nil() {
        return Ok(now);
    }
    let value = args.whole(at, name)?;
    let (least, most) = bounds;
    if value < least || value > most {
        return Err(args.bad(1, name, &format!("expected integer between {least} and {most}")));
    }
    Ok(value)
}

fn encode(lua: &Lua, choices: &Choices, value: &Value) -> Result<mlua::String, Complaint> {
    let mut out = Buffer::new(lua);
    put(choices, &mut out, value, 0)?;
    out.finish()
}

fn refusal(value: &Value, why: &str) -> Complaint {
    format!("Cannot serialise {}: {why}", kind(value)).into()
}

fn put(choices: &Choices, out: &mut Buffer<'_>, value: &Value, depth: i64) -> Result<(), Complaint> {
    out.room(0)?;
    match value {
        Value::String(text) => put_string(out, &text.as_bytes())?,
        Value::Integer(value) => {
            out.extend_from_slice(number::general(*value as f64, choices.precision as usize).as_bytes())
        }
        Value::Number(number) => put_number(choices, out, *number, value)?,
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(pointer) if pointer.0.is_null() => out.extend_from_slice(b"null"),
        Value::Table(table) => put_table(choices, out, table, depth + 1)?,
        other => return Err(refusal(other, "type not supported")),
    }
    Ok(())
}

fn put_number(choices: &Choices, out: &mut Vec<u8>, number: f64, value: &Value) -> Result<(), Complaint> {
    if !number.is_finite() {
        match choices.encode_invalid {
            0 => return Err(refusal(value, "must not be NaN or Inf")),
            1 if number.is_nan() => out.extend_from_slice(b"nan"),
            1 => out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" }),
            _ => out.extend_from_slice(b"null"),
        }
        return Ok(());
    }
    if number.fract() == 0.0
        && number.abs() < 1e14
        && choices.precision == 14
        && (number != 0.0 || number.is_sign_positive())
    {
        out.extend_from_slice((number as i64).to_string().as_bytes());
    } else {
        out.extend_from_slice(number::general(number, choices.precision as usize).as_bytes());
    }
    Ok(())
}

fn put_string(out: &mut Buffer<'_>, text: &[u8]) -> Result<(), Complaint> {
    let escaped = text.iter().filter(|byte| matches!(byte, 0..32 | 127 | b'"' | b'\\' | b'/')).count();
    out.room(text.len() + escaped * ESCAPE_BYTES_MAX)?;
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' | b'/' => out.extend_from_slice(&[b'\\', *byte]),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..32 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
    Ok(())
}

/// How long a table is as an array; `None` if it is none.
fn array_len(choices: &Choices, table: &Table) -> Result<Option<i64>, Complaint> {
    let (mut most, mut items) = (0i32, 0i64);
    for pair in table.pairs::<Value, Value>() {
        let key = match pair?.0 {
            Value::Integer(key) => key as f64,
            Value::Number(key) => key,
            _ => return Ok(None),
        };
        if key < 1.0 || key.fract() != 0.0 {
            return Ok(None);
        }
        if key > f64::from(most) {
            most = number::short(key);
        }
        items += 1;
    }
    let most = i64::from(most);
    if choices.sparse_ratio > 0
        && most > items.saturating_mul(choices.sparse_ratio)
        && most > choices.sparse_safe
    {
        if !choices.sparse_convert {
            return Err("Cannot serialise table: excessively sparse array".into());
        }
        return Ok(None);
    }
    Ok(Some(most).filter(|most| *most > 0))
}

fn put_table(choices: &Choices, out: &mut Buffer<'_>, table: &Table, depth: i64) -> Result<(), Complaint> {
    if depth > choices.encode_depth.min(DEPTH_BOUND) {
        return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
    }
    if let Some(len) = array_len(choices, table)? {
        out.push(b'[');
        for at in 1..=len {
            if at > 1 {
                out.push(b',');
            }
            put(choices, out, &table.raw_get::<Value>(at)?, depth)?;
        }
        out.push(b']');
        return Ok(());
    }
    out.push(b'{');
    for (count, pair) in table.pairs::<Value, Value>().enumerate() {
        let (key, value) = pair?;
        if count > 0 {
            out.push(b',');
        }
        match &key {
            Value::String(text) => put_string(out, &text.as_bytes())?,
            Value::Integer(_) | Value::Number(_) => {
                out.push(b'"');
                put(choices, out, &key, depth)?;
                out.push(b'"');
            }
            _ => return Err(refusal(&key, "table key must be a number or string")),
        }
        out.push(b':');
        put(choices, out, &value, depth)?;
    }
    out.push(b'}');
    Ok(())
}

fn decode(lua: &Lua, choices: &Choices, text: &[u8]) -> Result<Value, Complaint> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut reader = Reader { lua, choices, text, at: 0, index: 0, depth: 0 };
    let first = reader.next()?;
    let value = reader.value(first)?;
    match reader.next()? {
        Token::End => Ok(value),
        other => Err(reader.unexpected("the end", &other)),
    }
}

/// A piece of JSON.
enum Token {
    Mark(u8),
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    End,
    /// What is wrong.
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::Mark(b'{') => "T_OBJ_BEGIN",
            Token::Mark(b'}') => "T_OBJ_END",
            Token::Mark(b'[') => "T_ARR_BEGIN",
            Token::Mark(b']') => "T_ARR_END",
            Token::Mark(b':') => "T_COLON",
            Token::Mark(_) => "T_COMMA",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::End => "T_END",
            Token::Wrong(what) => what,
        }
    }
}

struct Reader<'r> {
    lua: &'r Lua,
    choices: &'r Choices,
    text: &'r [u8],
    at: usize,
    /// Where the last token began, or went wrong.
    index: usize,
    depth: i64,
}

impl Reader<'_> {
    fn unexpected(&self, wanted: &str, found: &Token) -> Complaint {
        format!("Expected {wanted} but found {} at character {}", found.name(), self.index + 1).into()
    }

    /// The byte at a distance; 0 past the end, as in the C string that it is there.
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn wrong(&mut self, what: &'static str) -> Token {
        self.index = self.at;
        Token::Wrong(what)
    }

    fn next(&mut self) -> Result<Token, Complaint> {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.index = self.at;
        let rest = &self.text[self.at.min(self.text.len())..];
        Ok(match self.peek(0) {
            0 => Token::End,
            mark @ (b'{' | b'}' | b'[' | b']' | b':' | b',') => {
                self.at += 1;
                Token::Mark(mark)
            }
            b'"' => self.string()?,
            b'-' | b'0'..=b'9' if !self.choices.decode_invalid && self.is_invalid_number() => {
                self.wrong("invalid number")
            }
            b'-' | b'0'..=b'9' => self.number(),
            _ if rest.starts_with(b"true") => {
                self.at += 4;
                Token::Boolean(true)
            }
            _ if rest.starts_with(b"false") => {
                self.at += 5;
                Token::Boolean(false)
            }
            _ if rest.starts_with(b"null") => {
                self.at += 4;
                Token::Null
            }
            b'+' | b'i' | b'I' | b'n' | b'N' if self.choices.decode_invalid && self.is_invalid_number() => {
                self.number()
            }
            _ => self.wrong("invalid token"),
        })
    }

    /// Whether what follows is a number for C, but not for JSON.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let skip = usize::from(self.peek(0) == b'-');
        match self.peek(skip) {
            b'0' => matches!(self.peek(skip + 1), b'x' | b'X' | b'0'..=b'9'),
            0..=b'9' => false,
            _ => {
                let rest = self.text.get(self.at + skip..self.at + skip + 3).unwrap_or_default();
                rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        match number::prefix(&self.text[self.at..]) {
            Some((value, len)) => {
                self.at += len;
                Token::Number(value)
            }
            None => self.wrong("invalid number"),
        }
    }

    fn string(&mut self) -> Result<Token, Complaint> {
        let mut out = Vec::new();
        self.at += 1;
        loop {
            match self.peek(0) {
                b'"' => break,
                0 => return Ok(self.wrong("unexpected end of string")),
                b'\\' => {
                    let plain = match self.peek(1) {
                        escaped @ (b'"' | b'\\' | b'/') => escaped,
                        b'b' => 8,
                        b'f' => 12,
                        b'n' => 10,
                        b'r' => 13,
                        b't' => 9,
                        b'u' => match self.unicode(&mut out) {
                            Some(len) => {
                                self.at += len;
                                continue;
                            }
                            None => return Ok(self.wrong("invalid unicode escape code")),
                        },
                        _ => return Ok(self.wrong("invalid escape code")),
                    };
                    out.push(plain);
                    self.at += 2;
                }
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(Token::String(out))
    }

    /// Four hexadecimal digits.
    fn hex4(&self, ahead: usize) -> Option<u32> {
        (0..4).try_fold(0, |sum, at| Some(sum << 4 | char::from(self.peek(ahead + at)).to_digit(16)?))
    }

    /// Adds what an escape of four hexadecimal digits, or two of them, stands for. Returns how long
    /// that is.
    fn unicode(&self, out: &mut Vec<u8>) -> Option<usize> {
        let (mut code, mut len) = (self.hex4(2)?, 6);
        if code & 0xf800 == 0xd800 {
            if code & 0x400 != 0 || self.peek(6) != b'\\' || self.peek(7) != b'u' {
                return None;
            }
            let low = self.hex4(8)?;
            if low & 0xfc00 != 0xdc00 {
                return None;
            }
            code = (((code & 0x3ff) << 10) | (low & 0x3ff)) + 0x1_0000;
            len = 12;
        }
        let mut bytes = [0; 4];
        out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut bytes).as_bytes());
        Some(len)
    }

    fn value(&mut self, token: Token) -> Result<Value, Complaint> {
        match token {
            Token::String(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Token::Number(value) => Ok(Value::Number(value)),
            Token::Boolean(value) => Ok(Value::Boolean(value)),
            Token::Null => Ok(Value::NULL),
            Token::Mark(b'{') => self.object(),
            Token::Mark(b'[') => self.array(),
            other => Err(self.unexpected("value", &other)),
        }
    }

    fn descend(&mut self) -> Result<(), Complaint> {
        self.depth += 1;
        if self.depth > self.choices.decode_depth.min(DEPTH_BOUND) {
            return Err(format!(
                "Found too many nested data structures ({}) at character {}",
                self.depth, self.at
            )
            .into());
        }
        Ok(())
    }

    fn object(&mut self) -> Result<Value, Complaint> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if matches!(token, Token::Mark(b'}')) {
            self.depth -= 1;
            return Ok(Value::Table(table));
        }
        loop {
            let Token::String(key) = token else { return Err(self.unexpected("object key string", &token)) };
            match self.next()? {
                Token::Mark(b':') => {}
                other => return Err(self.unexpected("colon", &other)),
            }
            let first = self.next()?;
            let value = self.value(first)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            match self.next()? {
                Token::Mark(b'}') => {
                    self.depth -= 1;
                    return Ok(Value::Table(table));
                }
                Token::Mark(b',') => token = self.next()?,
                other => return Err(self.unexpected("comma or object end", &other)),
            }
        }
    }

    fn array(&mut self) -> Result<Value, Complaint> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.next()?;
        if matches!(token, Token::Mark(b']')) {
            self.depth -= 1;
            return Ok(Value::Table(table));
        }
        for at in 1.. {
            table.raw_set(at, self.value(token)?)?;
            match self.next()? {
                Token::Mark(b']') => break,
                Token::Mark(b',') => token = self.next()?,
                other => return Err(self.unexpected("comma or array end", &other)),
            }
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }
}
