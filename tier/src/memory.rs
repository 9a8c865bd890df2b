//! A store in the memory of the process, which may fail on purpose: for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Name, Store, StoreError};

/// See the module.
#[derive(Default)]
pub struct Memory {
    copies: Mutex<BTreeMap<Name, Vec<u8>>>,
    fails: AtomicBool,
}

impl Memory {
    /// Has each put fail from now on, or no longer.
    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Release);
    }

    fn with<R>(&self, work: impl FnOnce(&mut BTreeMap<Name, Vec<u8>>) -> R) -> R {
        work(&mut self.copies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for Memory {
    fn put(&self, copies: &[(Name, &[u8])]) -> Result<(), StoreError> {
        if self.fails.load(Ordering::Acquire) {
            return Err(StoreError("no space is left".into()));
        }
        self.with(|all| all.extend(copies.iter().map(|(name, bytes)| (*name, bytes.to_vec()))));
        Ok(())
    }

    fn get(&self, names: &[Name]) -> Vec<Result<Option<Vec<u8>>, StoreError>> {
        self.with(|all| names.iter().map(|name| Ok(all.get(name).cloned())).collect())
    }

    fn compact(&self) {}

    fn end(&self) {}

    fn copies(&self) -> u64 {
        self.with(|all| all.len() as u64)
    }

    fn memory_bytes(&self) -> u64 {
        self.with(|all| all.values().map(|bytes| bytes.len() as u64).sum())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }

    fn version(&self) -> String {
        "memory".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_there() {
        let store = Memory::default();
        let (one, other) = ([1; 10], [2; 10]);
        store.put(&[(one, b"1"), (other, b"2")]).expect("room");
        store.fail(true);
        assert!(store.put(&[([3; 10], b"3")]).is_err());
        let found: Vec<_> =
            store.get(&[other, [3; 10], one]).into_iter().map(|copy| copy.expect("read")).collect();
        assert_eq!(found, [Some(b"2".to_vec()), None, Some(b"1".to_vec())]);
        assert_eq!(store.memory_bytes(), 2);
    }
}
