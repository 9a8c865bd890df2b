//! Which nodes a transaction has made: they may be edited in place.
//!
//! Every node that is made is put in, and most are never looked up, so insertion must be cheap: one word in a table that is half empty, and
//! its place in a list. The list serves to empty the table without a walk over it, which an earlier transaction may have left large.

use polder_base::Ref;

/// Set in a reference that has been taken out: its place stays, so that those behind it are found.
const OUT: u64 = 1 << 63;
/// Places of the smallest table.
const PLACES_MIN: usize = 64;

/// See the module.
#[derive(Default)]
pub struct NewNodes {
    /// References, each at the first free place from its own on; 0 in the others. A power of two, or none.
    places: Vec<u64>,
    taken: Vec<u32>,
}

impl NewNodes {
    /// The place where a reference is looked for first. A client cannot choose the offsets of nodes, so it cannot make them collide.
    #[inline]
    fn home(&self, node: Ref) -> usize {
        let spread = node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & (self.places.len() - 1)
    }

    /// The place where a reference is, or the free one where it would be.
    #[inline]
    fn place(&self, node: Ref) -> usize {
        let mut at = self.home(node);
        while self.places[at] != 0 && self.places[at] & !OUT != node.0 {
            at = (at + 1) & (self.places.len() - 1);
        }
        at
    }

    /// Puts a node in.
    #[inline]
    pub fn insert(&mut self, node: Ref) {
        if self.taken.len() * 2 >= self.places.len() {
            self.grow();
        }
        let at = self.place(node);
        if self.places[at] == 0 {
            self.taken.push(at as u32);
        }
        self.places[at] = node.0;
    }

    /// Takes a node out: it is going to be another one.
    pub fn remove(&mut self, node: Ref) {
        if self.contains(node) {
            let at = self.place(node);
            self.places[at] |= OUT;
        }
    }

    /// Whether a node has been put in.
    #[inline]
    pub fn contains(&self, node: Ref) -> bool {
        !self.taken.is_empty() && !node.is_none() && self.places[self.place(node)] == node.0
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, vec![0; size]);
        for node in std::mem::take(&mut self.taken)
            .into_iter()
            .map(|at| old[at as usize])
            .filter(|node| node & OUT == 0)
        {
            self.insert(Ref(node));
        }
    }

    /// Takes all out.
    #[inline]
    pub fn clear(&mut self) {
        self.taken.drain(..).for_each(|at| self.places[at as usize] = 0);
    }

    /// For how many nodes there is room.
    pub fn capacity(&self) -> usize {
        self.places.len() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_found_until_it_is_cleared() {
        let mut made = NewNodes::default();
        for round in 1..4u64 {
            let nodes = || (0..1000 * round).map(|number| Ref(8 + number * 3 * round));
            assert!(nodes().all(|node| !made.contains(node)) && !made.contains(Ref::NONE));
            nodes().chain(nodes()).for_each(|node| made.insert(node));
            assert!(
                nodes().all(|node| made.contains(node))
                    && !made.contains(Ref::NONE)
                    && !made.contains(Ref(7))
            );
            assert_eq!(made.taken.len() as u64, 1000 * round);
            assert!(made.capacity() as u64 >= 1000 * round);
            nodes().step_by(2).for_each(|node| made.remove(node));
            assert!(nodes().enumerate().all(|(number, node)| made.contains(node) == (number % 2 == 1)));
            nodes().chain((0..4000).map(|number| Ref(1 << 40 | number))).for_each(|node| made.insert(node));
            assert!(
                nodes().all(|node| made.contains(node)),
                "what was put in again is found, also in a larger table"
            );
            made.clear();
            assert!(made.places.iter().all(|place| *place == 0));
        }
    }
}
