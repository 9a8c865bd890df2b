//! One change of a packed sequence, written straight to where the new value is going to lie.
//!
//! A [`Draft`](super::Draft) copies the value, changes the copy and has it copied again into its
//! node. A change of one element that is published right away (`table/access/update.rs`) has no use for
//! the copy between. An [`Edit`] borrows the old value and the new element, says how long the new
//! value is, and writes it once. It returns `None` in all other cases: what would not stay packed,
//! and what is damaged (S5), which the draft then reports.

use super::run::{Patch, Run, length_of};
use super::{RUN_MAX, SHORT_MAX};

/// A packed sequence, for a change.
#[derive(Clone, Copy)]
pub struct Packed<'v> {
    pub flags: u8,
    run: Run<'v>,
}

/// The new value.
pub struct Edit<'v, 'n> {
    flags: u8,
    run: Run<'v>,
    patch: Patch<'n>,
    /// An element that goes, too, besides those that the patch replaces.
    gone: Option<usize>,
    len: usize,
}

/// What taking an element away leaves behind.
pub enum Removed<'v, 'n> {
    /// The element was not there.
    Nothing,
    One(Edit<'v, 'n>),
    /// It was the last one.
    Last,
}

impl Removed<'_, '_> {
    /// Whether the element was there.
    pub fn is_some(&self) -> bool {
        !matches!(self, Removed::Nothing)
    }
}

impl<'v> Packed<'v> {
    /// The sequence of a value; without one, an empty sequence.
    #[inline]
    pub fn of(value: Option<&'v [u8]>) -> Option<Packed<'v>> {
        let (&flags, run) = value.unwrap_or(&[0, 0, 0]).split_first()?;
        Some(Packed { flags, run: Run::read(run, &[]).ok()? })
    }

    /// How many elements there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.run.count()
    }

    /// The element at `index`, which is below the count.
    #[inline]
    pub fn at(&self, index: usize) -> Option<&'v [u8]> {
        if self.run.is_long(index) { None } else { self.run.slice(index, index + 1).ok() }
    }

    /// The first element that `is` it, if there is one.
    #[inline]
    pub fn position(&self, mut is: impl FnMut(&[u8]) -> bool) -> Option<Option<usize>> {
        for (index, element) in self.run.short_ones().enumerate() {
            if is(element?) {
                return Some(Some(index));
            }
        }
        Some(None)
    }

    /// It with an element, `parts` one after the other, in the place of `gone` ones from `at` on.
    #[inline]
    pub fn with<'n>(self, flags: u8, at: usize, gone: usize, parts: &'n [&'n [u8]]) -> Option<Edit<'v, 'n>> {
        if length_of(parts) > SHORT_MAX {
            None
        } else {
            self.patched(flags, Patch { at, gone, new: Some(parts), long: false })
        }
    }

    /// It without the element at `at`.
    #[inline]
    pub fn without<'n>(self, at: usize) -> Option<Edit<'v, 'n>> {
        self.patched(self.flags, Patch { at, gone: 1, new: None, long: false })
    }

    /// The same of one that may be there; the outer `None`: it takes a [`Draft`](super::Draft).
    #[inline]
    pub fn removed<'n>(self, at: Option<usize>) -> Option<Removed<'v, 'n>> {
        match at {
            None => Some(Removed::Nothing),
            Some(_) if self.count() == 1 => Some(Removed::Last),
            Some(at) => self.without(at).map(Removed::One),
        }
    }

    /// It without the element at `from`, and with a new one, `parts` one after the other, before which there are then `rank` others.
    #[inline]
    pub fn moved<'n>(
        self,
        flags: u8,
        from: usize,
        rank: usize,
        parts: &'n [&'n [u8]],
    ) -> Option<Edit<'v, 'n>> {
        if rank == from {
            return self.with(flags, from, 1, parts);
        }
        let patch =
            Patch { at: if rank < from { rank } else { rank + 1 }, gone: 0, new: Some(parts), long: false };
        if length_of(parts) > SHORT_MAX || from.max(rank) >= self.count() {
            return None;
        }
        let len = 1 + self.run.moved_len(&patch, from).ok()?;
        (len <= RUN_MAX).then_some(Edit { flags, run: self.run, patch, gone: Some(from), len })
    }

    #[inline]
    fn patched<'n>(self, flags: u8, patch: Patch<'n>) -> Option<Edit<'v, 'n>> {
        if patch.at + patch.gone > self.count() {
            return None;
        }
        let len = 1 + self.run.patched_len(&patch).ok()?;
        (len <= RUN_MAX).then_some(Edit { flags, run: self.run, patch, gone: None, len })
    }
}

impl Edit<'_, '_> {
    /// Bytes of the new value.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Writes it to `target`, which is that long.
    #[inline]
    pub fn write(&self, target: &mut [u8]) {
        let Some((flags, run)) = target.split_first_mut() else { return };
        *flags = self.flags;
        match self.gone {
            None => self.run.patch_into(&self.patch, run),
            Some(from) => self.run.move_into(&self.patch, from, run),
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use bumpalo::Bump;

    use super::super::{BY_POSITION, Draft, Sequence, Tree};
    use super::*;
    use crate::Value;
    use crate::testing::Memory;

    /// Edits come to what a draft does, as long as they are answered.
    #[test]
    fn an_edit_writes_what_a_draft_would() {
        let arena = Bump::new();
        let nodes = Memory::new(&arena);
        let (mut value, mut word, mut grown) = (vec![3, 0, 0], 88_172_645_463_325_252u64, 0);
        for _ in 0..20_000 {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            let packed = Packed::of(Some(&value)).unwrap();
            let mut draft = Draft::of(&Sequence::of(&Value::Packed(&value)));
            let (count, element) = (packed.count(), vec![word as u8; (word >> 8) as usize % 40]);
            let at = (word >> 16) as usize % (count + 1);
            let parts = [&element[..element.len() / 2], &element[element.len() / 2..]];
            let edit = match word >> 60 {
                0..3 if at < count => {
                    let rank = (word >> 40) as usize % count;
                    draft.remove(&nodes, &BY_POSITION, at as u64, 1).unwrap();
                    draft.insert(&nodes, &BY_POSITION, rank as u64, &parts).unwrap();
                    packed.moved(3, at, rank, &parts)
                }
                0..7 if at < count => {
                    draft.remove(&nodes, &BY_POSITION, at as u64, 1).unwrap();
                    packed.without(at)
                }
                7..9 if at < count => {
                    draft.replace(&nodes, &BY_POSITION, at as u64, &parts).unwrap();
                    packed.with(3, at, 1, &parts)
                }
                _ => {
                    draft.insert(&nodes, &BY_POSITION, at as u64, &parts).unwrap();
                    packed.with(3, at, 0, &parts)
                }
            };
            let Some(edit) = edit else {
                assert!(draft.is_tree(), "refused what stays packed");
                grown += 1;
                value = vec![3, 0, 0];
                continue;
            };
            let mut written = vec![0xee; edit.bytes()];
            edit.write(&mut written);
            assert_eq!(draft.value(3, Tree::default()), Value::Packed(&written));
            value = written;
        }
        assert!(grown > 10, "the longest ones were hardly ever met");
    }

    #[test]
    fn what_is_damaged_or_too_long_is_refused() {
        for value in [&[][..], &[0], &[0, 1, 0], &[0, 2, 0, 9, 0]] {
            assert!(
                Packed::of(Some(value)).is_none_or(|packed| packed.position(|_| false).is_none()),
                "{value:?}"
            );
        }
        let outside = [0, 1, 0, 200, 0, b'x'];
        let packed = Packed::of(Some(&outside)).unwrap();
        assert!(
            packed.at(0).is_none() && packed.without(0).is_none() && packed.with(0, 1, 0, &[b"y"]).is_none()
        );
        assert!(Packed::of(None).unwrap().with(0, 0, 0, &[&[0; SHORT_MAX + 1]]).is_none());
        assert!(Packed::of(None).unwrap().without(0).is_none());
    }
}
