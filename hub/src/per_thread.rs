//! Memory of one thread in one segment: it begins empty with the seat's life, and ends with the thread.
use std::cell::RefCell;
use std::thread::LocalKey;

use polder_table::Table;

/// The thread that owns a state: segment, seat and life.
type Owner = (u64, u64, u64);

/// A state of the calling thread for each segment that it is attached to.
pub(crate) struct PerThread<T>(RefCell<Vec<(Owner, T)>>);

impl<T: Default> PerThread<T> {
    pub(crate) const fn new() -> PerThread<T> {
        PerThread(RefCell::new(Vec::new()))
    }
}

/// Uses the calling thread's state in this segment; `None` without a seat, or at the thread's end.
pub(crate) fn with<T: Default, R>(
    states: &'static LocalKey<PerThread<T>>,
    table: &Table,
    work: impl FnOnce(&mut T) -> R,
) -> Option<R> {
    let seat = table.seat().ok()?;
    let owner = (table.segment().id(), seat.index(), seat.life());
    states
        .try_with(|states| {
            let mut states = states.0.borrow_mut();
            let at = match states.iter().position(|(of, _)| *of == owner) {
                Some(at) => at,
                None => {
                    // An earlier life's, or a parent's from before a fork.
                    states.retain(|(of, _)| of.0 != owner.0);
                    states.push((owner, T::default()));
                    states.len() - 1
                }
            };
            work(&mut states[at].1)
        })
        .ok()
}
