//! `redis.register_function`: what a library declares while it is loaded.
use std::collections::HashMap;

use mlua::{MultiValue, Table, Value};
use polder_base::script::{FLAG_NAMES, Flags, Function};

use crate::args::text;

/// What has been registered so far.
#[derive(Default)]
pub struct Register {
    pub functions: Vec<Function>,
    pub callbacks: HashMap<String, mlua::Function>,
}

const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

impl Register {
    /// Registers by the arguments of a call. Returns what is wrong with them.
    pub fn add(&mut self, args: &MultiValue) -> Result<(), String> {
        match args.len() {
            1 => match &args[0] {
                Value::Table(named) => self.add_named(named),
                _ => Err("ERR calling redis.register_function with a single argument is only applicable to Lua table (representing \
                          named arguments)."
                    .into()),
            },
            2 => {
                let name = text(&args[0]).ok_or("ERR first argument to redis.register_function must be a string")?;
                let Value::Function(callback) = &args[1] else {
                    return Err("ERR second argument to redis.register_function must be a function".into());
                };
                self.declare(name, callback.clone(), None, 0)
            }
            _ => Err("ERR wrong number of arguments to redis.register_function".into()),
        }
    }

    fn add_named(&mut self, named: &Table) -> Result<(), String> {
        let (mut name, mut description, mut callback, mut flags) = (None, None, None, 0);
        for pair in named.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| format!("ERR {error}"))?;
            let key = text(&key)
                .ok_or("ERR named argument key given to redis.register_function is not a string")?;
            match key.to_ascii_lowercase().as_slice() {
                b"function_name" => {
                    name = Some(text(&value).ok_or(
                        "ERR function_name argument given to redis.register_function must be a string",
                    )?);
                }
                b"description" => {
                    description = Some(text(&value).ok_or(
                        "ERR description argument given to redis.register_function must be a string",
                    )?);
                }
                b"callback" => match value {
                    Value::Function(function) => callback = Some(function),
                    _ => {
                        return Err(
                            "ERR callback argument given to redis.register_function must be a function"
                                .into(),
                        );
                    }
                },
                b"flags" => match value {
                    Value::Table(names) => flags = read_flags(&names)?,
                    _ => {
                        return Err("ERR flags argument to redis.register_function must be a table representing function flags".into());
                    }
                },
                _ => return Err("ERR unknown argument given to redis.register_function".into()),
            }
        }
        let name = name.ok_or("ERR redis.register_function must get a function name argument")?;
        let callback = callback.ok_or("ERR redis.register_function must get a callback argument")?;
        self.declare(name, callback, description, flags)
    }

    fn declare(
        &mut self,
        name: Vec<u8>,
        callback: mlua::Function,
        description: Option<Vec<u8>>,
        flags: Flags,
    ) -> Result<(), String> {
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let Some(name) =
            String::from_utf8(name).ok().filter(|name| !name.is_empty() && name.as_bytes().iter().all(fits))
        else {
            return Err(BAD_NAME.into());
        };
        if self.callbacks.contains_key(&name) {
            return Err("ERR Function already exists in the library".into());
        }
        self.functions.push(Function { name: name.clone(), description, flags });
        self.callbacks.insert(name, callback);
        Ok(())
    }
}

fn read_flags(names: &Table) -> Result<Flags, String> {
    let mut flags = 0;
    for at in 1.. {
        let name = match names.raw_get::<Value>(at) {
            Ok(Value::Nil) | Err(_) => break,
            Ok(name) => name,
        };
        let known =
            text(&name).and_then(|name| FLAG_NAMES.iter().find(|(_, known)| known.as_bytes() == name));
        flags |= known.ok_or("ERR unknown flag given")?.0;
    }
    Ok(flags)
}
