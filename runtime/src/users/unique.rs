//! A list without duplicates: it keeps the order of insertion, and a look by name takes a logarithmic time.
//!
//! The rules of a user are such lists. With a search from the front for each new rule, one ACL SETUSER of 200,000 patterns takes minutes, in which
//! its transaction holds a lock and a pin: other clients wait, and what they overwrite cannot be freed.
use std::collections::BTreeMap;
use std::ops::Range;

/// The list. A removed item leaves a gap until half of the list is gaps.
#[derive(Clone, Debug)]
pub struct Unique<V> {
    items: Vec<Option<(Vec<u8>, V)>>,
    places: BTreeMap<Vec<u8>, usize>,
}

impl<V> Default for Unique<V> {
    fn default() -> Unique<V> {
        Unique { items: Vec::new(), places: BTreeMap::new() }
    }
}

impl<V: PartialEq> PartialEq for Unique<V> {
    /// The same items in the same order.
    fn eq(&self, other: &Unique<V>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<V: Eq> Eq for Unique<V> {}

impl<V> Unique<V> {
    /// All items, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &V)> {
        self.items.iter().flatten().map(|(name, value)| (&name[..], value))
    }

    /// The item of this name.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut V> {
        let place = *self.places.get(name)?;
        self.items[place].as_mut().map(|(_, value)| value)
    }

    /// Adds an item at the end, unless there is one of this name.
    pub fn add(&mut self, name: &[u8], value: V) {
        if !self.places.contains_key(name) {
            self.places.insert(name.to_vec(), self.items.len());
            self.items.push(Some((name.to_vec(), value)));
        }
    }

    /// Removes an item; returns whether it was there.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        let Some(place) = self.places.remove(name) else { return false };
        self.items[place] = None;
        self.close_gaps();
        true
    }

    /// Removes the items whose names are in this range, in the order of bytes.
    pub fn remove_range(&mut self, names: Range<Vec<u8>>) {
        let gone: Vec<Vec<u8>> = self.places.range(names).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| _ = self.remove(name));
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.items.clear();
        self.places.clear();
    }

    fn close_gaps(&mut self) {
        if self.places.len() * 2 < self.items.len() {
            self.items.retain(Option::is_some);
            for (place, (name, _)) in self.items.iter().flatten().enumerate() {
                *self.places.get_mut(name).expect("each item has its place") = place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_order_whatever_is_removed() {
        let mut list = Unique::default();
        ["d", "a|x", "c", "a", "a|y", "ab"]
            .iter()
            .enumerate()
            .for_each(|(number, name)| list.add(name.as_bytes(), number));
        list.add(b"c", 9);
        assert!(list.remove(b"d") && !list.remove(b"d"));
        list.remove_range(b"a|".to_vec()..b"a}".to_vec());
        assert_eq!(list.iter().collect::<Vec<_>>(), [(&b"c"[..], &2), (b"a", &3), (b"ab", &5)]);
        list.add(b"d", 7);
        *list.get_mut(b"a").expect("it is there") = 8;
        assert_eq!(list.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [2, 8, 5, 7]);
    }
}
