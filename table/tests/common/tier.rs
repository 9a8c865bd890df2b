//! A tier for tests: copies of all segments of this process, in its own memory. A forked child has those of its parent.

use std::collections::HashMap;
use std::sync::Mutex;

use polder_table::{Cold, Name, Part, Table, Told, Victim};

/// Copies by their segments and names.
type Copies = HashMap<(u64, Name), Vec<u8>>;

static COPIES: Mutex<Option<Copies>> = Mutex::new(None);

fn with<R>(work: impl FnOnce(&mut Copies) -> R) -> R {
    work(COPIES.lock().expect("no test has panicked here").get_or_insert_default())
}

/// Keeps the copy of a victim.
pub fn keep(table: &Table, victim: &Victim) {
    if let Some(parcel) = &victim.parcel {
        with(|copies| copies.insert((table.segment().id(), victim.name), parcel.clone()));
    }
}

/// Keeps the copy that a key's value would have, and returns the victim that it is.
pub fn victim(table: &Table, db: u16, key: &[u8]) -> Option<Victim> {
    let victim = table.victim_of(db, key).expect("readable")?;
    keep(table, &victim);
    Some(victim)
}

/// Spills a key; returns false where it stays.
pub fn spill(table: &Table, db: u16, key: &[u8]) -> bool {
    victim(table, db, key).is_some_and(|victim| table.spill(&victim).expect("nothing is in the way"))
}

/// The copy with this name.
pub fn copy(table: &Table, name: Name) -> Option<Vec<u8>> {
    with(|copies| copies.get(&(table.segment().id(), name)).cloned())
}

/// Copies of one segment, as a snapshot reads them.
pub struct Kept(pub u64);

impl polder_table::Copies for Kept {
    fn get(&self, name: Name) -> Result<Option<Vec<u8>>, String> {
        Ok(with(|copies| copies.get(&(self.0, name)).cloned()))
    }
}

/// Brings values back.
pub fn fetch(table: &Table, wanted: &[Cold]) {
    assert!(!wanted.is_empty(), "a stop names what it wants");
    for Cold { db, name, part } in wanted {
        let copy = copy(table, *name).expect("each stub has a copy");
        match part {
            Part::Value => _ = table.install(*db, *name, &copy).expect("nothing is in the way"),
            Part::Key => {
                let head = polder_table::head(&copy).expect("whole");
                table.learn(std::iter::once((*name, Told::new(head.key, head.expiry_ms))));
            }
        }
    }
}
