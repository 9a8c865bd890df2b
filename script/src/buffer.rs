//! What a native writes before it becomes a string of Lua.
//!
//! A short program can name one long string many times, so a native can be asked for much more text than the program holds. Lua would count that text
//! against `lua-memory-limit`. A [`Buffer`] counts it too, and it fails where the system has no memory; a plain `Vec` would end the process there.
//!
//! **Invariant.** A native asks for room before it writes anything whose length the script decides. What it writes without asking is a few bytes
//! (see [`SLACK`]).
use std::ops::{Deref, DerefMut};

use mlua::Lua;

use crate::complaint::Complaint;

/// What each call of [`Buffer::room`] leaves for numbers, quotes, heads and separators.
const SLACK: usize = 64;

pub struct Buffer<'l> {
    lua: &'l Lua,
    bytes: Vec<u8>,
}

impl<'l> Buffer<'l> {
    pub fn new(lua: &'l Lua) -> Buffer<'l> {
        Buffer { lua, bytes: Vec::new() }
    }

    /// Makes room for `bytes` more and a little beside them.
    pub fn room(&mut self, bytes: usize) -> Result<(), Complaint> {
        let wanted = bytes.saturating_add(SLACK);
        if self.bytes.capacity() - self.bytes.len() >= wanted { Ok(()) } else { self.grow(wanted) }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) -> Result<(), Complaint> {
        let lacking = || Complaint::from("not enough memory");
        let left = match memory_limit(self.lua)? {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.lua.used_memory()).saturating_sub(self.bytes.len()),
        };
        if wanted > left {
            return Err(lacking());
        }
        // Twice as much each time, so that many small pieces are not copied again and again.
        self.bytes.try_reserve_exact(wanted.max(self.bytes.len().min(left))).map_err(|_| lacking())
    }

    /// The string of Lua.
    pub fn finish(self) -> Result<mlua::String, Complaint> {
        Ok(self.lua.create_string(self.bytes)?)
    }
}

/// The limit that is in force; 0 for none. mlua returns it only when another is set.
fn memory_limit(lua: &Lua) -> mlua::Result<usize> {
    let limit = lua.set_memory_limit(0)?;
    lua.set_memory_limit(limit)?;
    Ok(limit)
}

impl Deref for Buffer<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}
