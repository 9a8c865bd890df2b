//! Sets: members, each there once.
//!
//! ```text
//! element   the member
//! members   the elements: a tree of them by `member_word`, then by bytes; packed, in the order of their arrival, but
//!           by their numbers while the set is an intset
//! flags     INTSET    all members are integers, and few enough: OBJECT ENCODING says `intset`
//!           LARGE     it says `hashtable` and will not say otherwise any more; with neither of the two, `listpack`
//! ```
use std::borrow::Cow;
use std::cmp::Ordering;

use polder_base::number;
use smallvec::SmallVec;

use crate::order::{compare_members, is_same, member_word};
use crate::sequence::{self, Edit, Element, Item, Packed, Removed, Rule, Sequence, Tree};
use crate::{Fault, Nodes, Value};

/// How members are sorted.
pub const MEMBERS: Rule = Rule { word: member_word, compare: compare_members, packed_sorted: false };

pub mod algebra;

const LARGE: u8 = 1;
const INTSET: u8 = 2;

/// The longest text of an integer of 64 bits.
const INTEGER_MAX: u64 = 20;

/// Up to this many members are added one by one: no more than a packed set holds, whose order is
/// another one.
const FEW: usize = 1024;

/// Up to where `OBJECT ENCODING` calls a set small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    pub intset_entries: u64,
    pub entries: u64,
    /// Bytes of a member.
    pub value: u64,
}

/// How Redis would lay out a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Intset,
    Listpack,
    Hashtable,
}

fn encoding_of(flags: u8) -> Encoding {
    match flags {
        flags if flags & LARGE != 0 => Encoding::Hashtable,
        flags if flags & INTSET != 0 => Encoding::Intset,
        _ => Encoding::Listpack,
    }
}

/// What Redis would call the layout of a set.
pub fn encoding(value: &Value<'_>) -> Encoding {
    encoding_of(sequence::flags(value))
}

/// Where a member stands, if it does.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn find(nodes: &dyn Nodes, members: &Sequence<'_>, member: &[u8]) -> Result<Option<u64>, Fault> {
    let (word, mut compare) = search(members, member);
    let place = members.seek(nodes, &MEMBERS, word, &mut compare)?;
    Ok(place.found.map(|_| place.rank))
}

/// Whether a member is there: less work than [`find`].
///
/// # Errors
/// [`Fault::Damaged`].
pub fn contains(nodes: &dyn Nodes, members: &Sequence<'_>, member: &[u8]) -> Result<bool, Fault> {
    let (word, mut compare) = search(members, member);
    Ok(members.find(nodes, &MEMBERS, word, &mut compare)?.is_some())
}

/// Whether each of these members is there: in a large set less work than one after the other.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn contains_all(nodes: &dyn Nodes, members: &Sequence<'_>, sought: &[&[u8]]) -> Result<Vec<bool>, Fault> {
    if matches!(members, Sequence::Packed(_)) {
        return sought.iter().map(|member| contains(nodes, members, member)).collect();
    }
    let words: SmallVec<[u64; 128]> = sought.iter().map(|member| member_word(member)).collect();
    let found =
        members.find_all(nodes, &MEMBERS, &words, &mut |number, element| element.cmp(sought[number]))?;
    Ok(found.iter().map(Option::is_some).collect())
}

/// What steers the search for a member: its word, and how an element of the same word stands to it. Packed members are not in the order
/// of words: only whether one is the member counts, and no word has to be computed for that.
fn search(members: &Sequence<'_>, member: &[u8]) -> (u64, impl FnMut(&[u8]) -> Ordering) {
    let packed = matches!(members, Sequence::Packed(_));
    let compare = move |element: &[u8]| match element {
        element if is_same(element, member) => Ordering::Equal,
        element => {
            if packed {
                Ordering::Less
            } else {
                element.cmp(member)
            }
        }
    };
    (if packed { 0 } else { member_word(member) }, compare)
}

/// The rank of the first member whose word is not less than `word`, in a set that is a tree.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn rank_of_word(nodes: &dyn Nodes, members: &Sequence<'_>, word: u64) -> Result<u64, Fault> {
    Ok(members.seek(nodes, &MEMBERS, word, &mut |element| member_word(element).cmp(&word))?.rank)
}

/// The members in the order in which SMEMBERS shows them where that is another one than theirs: an intset that is a tree.
///
/// # Errors
/// [`Fault::Damaged`].
pub fn by_number<'a>(nodes: &'a dyn Nodes, value: &Value<'a>) -> Result<Option<Vec<Element<'a>>>, Fault> {
    if encoding(value) != Encoding::Intset || matches!(value, Value::Packed(_)) {
        return Ok(None);
    }
    numbered(nodes, &Sequence::of(value)).map(Some)
}

/// The members in the order of their numbers.
fn numbered<'a>(nodes: &'a dyn Nodes, members: &Sequence<'a>) -> Result<Vec<Element<'a>>, Fault> {
    let mut numbered = Vec::new();
    for element in members.iter(nodes, 0) {
        let element = element?;
        numbered.push((number::integer(&element.bytes(nodes)?), element));
    }
    numbered.sort_unstable_by_key(|(number, _)| *number);
    Ok(numbered.into_iter().map(|(_, element)| element).collect())
}

/// A packed set with one more member (`member` in one part); nothing where it has that already. The outer `None`: it takes a [`Draft`].
#[inline]
pub fn added<'v, 'n>(
    value: Option<&'v [u8]>,
    member: &'n [&'n [u8]; 1],
    thresholds: Thresholds,
) -> Option<Option<Edit<'v, 'n>>> {
    let (set, [bytes]) = (Packed::of(value)?, member);
    // Numbers have an order and a layout of their own.
    if set.flags & INTSET != 0 || value.is_none() && number::integer(bytes).is_some() {
        return None;
    }
    if set.position(|element| is_same(element, bytes))?.is_some() {
        return Some(None);
    }
    let count = set.count();
    let large = bytes.len() as u64 > thresholds.value || count as u64 >= thresholds.entries;
    set.with(set.flags | if large { LARGE } else { 0 }, count, 0, member).map(Some)
}

/// A packed set without a member; `None` where that takes a [`Draft`].
#[inline]
pub fn removed<'v>(value: &'v [u8], member: &[u8]) -> Option<Removed<'v, 'static>> {
    let set = Packed::of(Some(value))?;
    set.removed(set.position(|element| is_same(element, member))?)
}

/// The member of a packed set at the rank that `choose` returns, which is told how many there are,
/// and the set without that member, if there are others. `None` if that takes a [`Draft`].
#[inline]
pub fn taken<'v>(
    value: &'v [u8],
    choose: impl FnOnce(u64) -> u64,
) -> Option<(&'v [u8], Option<Edit<'v, 'static>>)> {
    let set = Packed::of(Some(value))?;
    let count = set.count();
    let at = choose(count as u64) as usize;
    let member = if at < count { set.at(at)? } else { return None };
    Some((member, if count > 1 { Some(set.without(at)?) } else { None }))
}

/// A set that is being changed inside one transaction.
pub struct Draft {
    members: sequence::Draft,
    flags: u8,
    thresholds: Thresholds,
}

impl Draft {
    /// The empty set, which Redis would lay out as `encoding`.
    pub fn empty(encoding: Encoding, thresholds: Thresholds) -> Draft {
        let flags = match encoding {
            Encoding::Intset => INTSET,
            Encoding::Listpack => 0,
            Encoding::Hashtable => LARGE,
        };
        Draft { members: sequence::Draft::empty(), flags, thresholds }
    }

    /// The empty set for `count` members to come, the first of which is `first`.
    pub fn for_members(first: &[u8], count: u64, thresholds: Thresholds) -> Draft {
        let encoding = if number::integer(first).is_some() && count <= thresholds.intset_entries {
            Encoding::Intset
        } else if count <= thresholds.entries {
            Encoding::Listpack
        } else {
            Encoding::Hashtable
        };
        Draft::empty(encoding, thresholds)
    }

    /// A copy of a packed set; a tree is shared until it is written to.
    pub fn of(value: &Value<'_>, thresholds: Thresholds) -> Draft {
        Draft {
            members: sequence::Draft::of(&Sequence::of(value)),
            flags: sequence::flags(value),
            thresholds,
        }
    }

    /// Says that this many members are about to be added, new or not: the layout is the one that
    /// Redis would choose for them.
    pub fn expect(&mut self, members: u64) {
        let Thresholds { intset_entries, entries, .. } = self.thresholds;
        if members > if self.flags & INTSET != 0 { intset_entries } else { entries } {
            self.flags = LARGE;
        }
    }

    /// The members as they are now.
    pub fn members(&self) -> Sequence<'_> {
        self.members.sequence()
    }

    /// How many members there are.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self) -> Result<u64, Fault> {
        self.members.sequence().count()
    }

    /// Adds a member. Returns whether it is new.
    ///
    /// # Errors
    /// [`Fault::Full`], [`Fault::Damaged`]: the transaction must then be given up.
    pub fn add(&mut self, nodes: &dyn Nodes, member: &[u8]) -> Result<bool, Fault> {
        let number = if self.flags & INTSET != 0 { number::integer(member) } else { None };
        let place = match number {
            // In the order of the numbers, which are few.
            Some(number) if !self.members.is_tree() => self.place_of_number(nodes, number)?,
            _ => {
                let members = self.members.sequence();
                let (word, mut compare) = search(&members, member);
                let place = members.seek(nodes, &MEMBERS, word, &mut compare)?;
                (place.rank, place.found.is_some())
            }
        };
        let (rank, false) = place else { return Ok(false) };
        self.members.insert(nodes, &MEMBERS, rank, &[member])?;
        self.fit(nodes, member, number.is_some())?;
        Ok(true)
    }

    /// Adds members to a large set. Returns for each whether it is new. Returns `None`, having done
    /// nothing, if they must be added one by one.
    ///
    /// # Errors
    /// As [`Draft::add`].
    pub fn add_all(&mut self, nodes: &dyn Nodes, members: &[&[u8]]) -> Result<Option<Vec<bool>>, Fault> {
        if self.flags & LARGE == 0 || !self.members.is_tree() {
            return Ok(None);
        }
        let items = members.iter().copied().enumerate();
        let items = items.map(|(number, bytes)| Item {
            word: member_word(bytes),
            name: bytes,
            bytes,
            number,
            goes: false,
            found: false,
        });
        self.members.upsert_all(nodes, &MEMBERS, <[u8]>::cmp, items, &mut |_, _| Ok(false))
    }

    /// Where a number stands in a packed intset, or would, and whether it does.
    fn place_of_number(&self, nodes: &dyn Nodes, number: i64) -> Result<(u64, bool), Fault> {
        let mut rank = 0;
        for element in self.members.sequence().iter(nodes, 0) {
            match number::integer(&element?.bytes(nodes)?).cmp(&Some(number)) {
                Ordering::Less => rank += 1,
                order => return Ok((rank, order == Ordering::Equal)),
            }
        }
        Ok((rank, false))
    }

    /// Finds out how Redis would lay out the set with this new member.
    fn fit(&mut self, nodes: &dyn Nodes, member: &[u8], numeric: bool) -> Result<(), Fault> {
        if self.flags & LARGE != 0 {
            return Ok(());
        }
        let (count, Thresholds { intset_entries, entries, value }) = (self.count()?, self.thresholds);
        if self.flags & INTSET != 0 && numeric {
            if count > intset_entries {
                self.flags = LARGE;
            }
            return Ok(());
        }
        let was_intset = self.flags & INTSET != 0;
        self.flags = 0;
        let long =
            member.len() as u64 > value || was_intset && value < INTEGER_MAX && self.longest(nodes)? > value;
        if long || count > entries {
            self.flags = LARGE;
        }
        Ok(())
    }

    /// Bytes of the longest member.
    fn longest(&self, nodes: &dyn Nodes) -> Result<u64, Fault> {
        self.members.sequence().iter(nodes, 0).try_fold(0, |longest, element| Ok(element?.len().max(longest)))
    }

    /// Removes a member. Returns whether it was there.
    ///
    /// # Errors
    /// As [`Draft::add`].
    pub fn remove(&mut self, nodes: &dyn Nodes, member: &[u8]) -> Result<bool, Fault> {
        let Some(rank) = find(nodes, &self.members.sequence(), member)? else { return Ok(false) };
        self.remove_at(nodes, rank)?;
        Ok(true)
    }

    /// Takes the member of a rank away.
    ///
    /// # Errors
    /// As [`Draft::add`].
    pub fn remove_at(&mut self, nodes: &dyn Nodes, rank: u64) -> Result<(), Fault> {
        let was_tree = self.members.is_tree();
        self.members.remove(nodes, &MEMBERS, rank, 1)?;
        if was_tree && !self.members.is_tree() && self.flags & INTSET != 0 {
            self.sort_numbers(nodes)
        } else {
            Ok(())
        }
    }

    /// Puts the members of an intset that has become packed again into the order of their numbers.
    fn sort_numbers(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        let mut sorted = sequence::Draft::empty();
        for element in numbered(nodes, &self.members.sequence())? {
            sorted.insert(nodes, &MEMBERS, sorted.sequence().count()?, &[&element.bytes(nodes)?])?;
        }
        self.members = sorted;
        Ok(())
    }

    /// Adds members that are sorted as [`MEMBERS`] has it, each once, to the empty set.
    ///
    /// # Errors
    /// As [`Draft::add`].
    pub fn fill(&mut self, nodes: &dyn Nodes, members: &[Element<'_>]) -> Result<(), Fault> {
        if members.len() <= FEW {
            return members.iter().try_for_each(|element| self.add(nodes, &element.bytes(nodes)?).map(drop));
        }
        let (mut longest, mut numeric) = (0, true);
        for members in members.chunks(FEW) {
            let runs: Vec<Cow<'_, [u8]>> =
                members.iter().map(|element| element.bytes(nodes)).collect::<Result<_, _>>()?;
            longest = runs.iter().fold(longest, |longest, run| longest.max(run.len() as u64));
            numeric = numeric && runs.iter().all(|run| number::integer(run).is_some());
            self.members.extend(nodes, &MEMBERS, &mut runs.iter().map(|run| &**run))?;
        }
        let (count, Thresholds { intset_entries, entries, value }) = (members.len() as u64, self.thresholds);
        self.flags = match self.flags {
            _ if numeric && count <= intset_entries => INTSET,
            flags if flags & LARGE == 0 && longest <= value && count <= entries => 0,
            _ => LARGE,
        };
        Ok(())
    }

    /// The value to publish.
    pub fn value(&mut self) -> Value<'_> {
        self.members.value(self.flags, Tree::default())
    }
}
