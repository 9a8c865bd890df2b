//! Fieldsets: names of fields that a client has told once (HIMPORT PREPARE), so that each call with values for them need not repeat them.
//!
//! They belong to the session of one connection. Copies of a session (EXEC) share them until one changes its own.
use std::sync::Arc;

/// The names of a fieldset's fields, in the order in which values for them come.
pub type Names = Arc<[Box<[u8]>]>;

/// Bytes that the list and the allocator take for a name.
const NAME_BYTES: usize = 32;

/// The fieldsets of a session, each under its name.
#[derive(Clone, Default)]
pub struct Fieldsets {
    all: Vec<(Box<[u8]>, Names)>,
    bytes: usize,
}

impl Fieldsets {
    /// The names of a fieldset's fields.
    pub fn get(&self, name: &[u8]) -> Option<&Names> {
        self.all.iter().find(|(own, _)| **own == *name).map(|(_, names)| names)
    }

    /// Adds a fieldset, or replaces the one of this name.
    pub fn set(&mut self, name: &[u8], names: &[&[u8]]) {
        self.remove(name);
        let names: Names = names.iter().map(|name| Box::from(*name)).collect();
        self.bytes += bytes_of(name, &names);
        self.all.push((name.into(), names));
    }

    /// Takes a fieldset away. Returns whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(at) = self.all.iter().position(|(own, _)| **own == *name) else { return false };
        let (name, names) = self.all.swap_remove(at);
        self.bytes -= bytes_of(&name, &names);
        true
    }

    /// Returns their number.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes_of(name: &[u8], names: &Names) -> usize {
    name.len() + NAME_BYTES + names.iter().map(|name| name.len() + NAME_BYTES).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fieldset_that_goes_gives_its_memory_back() {
        let mut fieldsets = Fieldsets::default();
        fieldsets.set(b"one", &[b"a", b"b"]);
        let before = fieldsets.bytes();
        fieldsets.set(b"two", &[b"a", b"longer name"]);
        fieldsets.set(b"two", &[b"c"]);
        assert_eq!(fieldsets.get(b"two").map(|names| names.len()), Some(1));
        assert!(fieldsets.remove(b"two") && !fieldsets.remove(b"two"));
        assert_eq!((fieldsets.len(), fieldsets.bytes()), (1, before));
    }
}
