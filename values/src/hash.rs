//! Hashes: fields with values. A field may have an expiry of its own.
//!
//! ```text
//! element   length of the field x 2 (+ 1 with an expiry) in groups of 7 bits | expiry (6)? | field | value
//!
//! fields    the elements: a tree of them by `member_word(field)`, then by field; packed, in the order of their arrival
//! index     expiry (8) | member_word(field) (8) | tie (4)?, all big-endian, for each field with an expiry: the second tree
//!           of a hash that is a tree; a packed one is short enough to be looked through. Where words tie, all but
//!           the first have a number
//! flags     LARGE     OBJECT ENCODING says `hashtable` and will not say otherwise any more
//!           EXPIRING  some field has had an expiry
//! ```
//! - **H1** Each field with an expiry has one element in the index, and nothing else is there.
//! - **H2** A field whose expiry has come is absent for every command, whether it has been
//!   collected or not.
//! - **H3** The key's record has the earliest expiry of all fields ([`Draft::first_expiry`]): by it
//!   the table's maintenance finds what is due without looking into any hash.
use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::order::{compare_members, member_word};
use crate::part::Part;
use crate::sequence::{self, Edit, Element, Item, Iter, Packed, Removed, Rule, Sequence, Tree, slices};
use crate::string;
use crate::{Fault, Nodes, Value};

/// How fields are sorted.
pub const FIELDS: Rule = Rule { word: field_word, compare: compare_fields, packed_sorted: false };

/// How the index is sorted.
pub const INDEX: Rule = Rule { word: index_word, compare: <[u8]>::cmp, packed_sorted: true };

const LARGE: u8 = 1;
const EXPIRING: u8 = 2;

/// Bytes of an element's head: a length in groups of 7 bits, and an expiry.
const HEAD_MAX: usize = 16;

const DAMAGED: Fault = Fault::Damaged { what: "a field of a hash" };

/// Up to where `OBJECT ENCODING` calls a hash small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    pub entries: u64,
    /// Bytes of a field or a value.
    pub value: u64,
}

impl Thresholds {
    /// Where nothing is put in, the layout stays what it is.
    pub const NONE: Thresholds = Thresholds { entries: u64::MAX, value: u64::MAX };
}

/// How Redis would lay out a hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Listpack,
    /// With expiries of fields.
    ListpackEx,
    Hashtable,
}

/// What Redis would call the layout of a hash.
pub fn encoding(value: &Value<'_>) -> Encoding {
    match sequence::flags(value) {
        flags if flags & LARGE != 0 => Encoding::Hashtable,
        flags if flags & EXPIRING != 0 => Encoding::ListpackEx,
        _ => Encoding::Listpack,
    }
}

/// What stands before an element's field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Head {
    /// Bytes of the head itself, the expiry included.
    len: usize,
    field_len: u64,
    expiry_ms: Option<u64>,
}

impl Head {
    /// Reads the head of an element; `None` when it is cut off.
    #[inline]
    fn read(bytes: &[u8]) -> Option<Head> {
        let (mut stored, mut len) = (0u64, 0);
        loop {
            let byte = *bytes.get(len)?;
            stored |= ((byte & 0x7f) as u64) << (7 * len);
            len += 1;
            if byte < 0x80 {
                break;
            }
            if len == 9 {
                return None;
            }
        }
        let mut expiry_ms = None;
        if stored & 1 != 0 {
            let mut word = [0; 8];
            word[..6].copy_from_slice(bytes.get(len..len + 6)?);
            expiry_ms = Some(u64::from_le_bytes(word));
            len += 6;
        }
        Some(Head { len, field_len: stored >> 1, expiry_ms })
    }

    /// The head of an element with this field.
    fn write(field_len: usize, expiry_ms: Option<u64>) -> SmallVec<[u8; HEAD_MAX]> {
        let mut bytes = SmallVec::new();
        let mut rest = (field_len as u64) << 1 | expiry_ms.is_some() as u64;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
        if let Some(expiry_ms) = expiry_ms {
            bytes.extend_from_slice(&stored_expiry(expiry_ms).to_le_bytes()[..6]);
        }
        bytes
    }
}

/// An expiry as it is stored, in 48 bits.
fn stored_expiry(expiry_ms: u64) -> u64 {
    expiry_ms.min((1 << 48) - 1)
}

/// The field of an element that is in one piece; nothing of a damaged one.
#[inline]
fn name(element: &[u8]) -> &[u8] {
    let Some(head) = Head::read(element) else { return &[] };
    let rest = &element[head.len..];
    rest.get(..head.field_len as usize).unwrap_or(rest)
}

fn field_word(element: &[u8]) -> u64 {
    member_word(name(element))
}

fn compare_fields(one: &[u8], two: &[u8]) -> Ordering {
    compare_members(name(one), name(two))
}

fn index_word(element: &[u8]) -> u64 {
    element.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The number of an element of the index among those whose words tie.
fn tie(element: &[u8]) -> u32 {
    element.get(16..).and_then(<[u8]>::first_chunk).map_or(0, |tie| u32::from_be_bytes(*tie))
}

/// An element of the index, but for a tie.
fn index_element(expiry_ms: u64, word: u64) -> [u8; 16] {
    (u128::from(stored_expiry(expiry_ms)) << 64 | u128::from(word)).to_be_bytes()
}

/// A field with its value.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    element: Element<'a>,
    head: Head,
}

impl<'a> Field<'a> {
    /// Takes an element apart.
    ///
    /// # Errors
    /// [`Fault::Damaged`] when its lengths lead outside.
    pub fn of(nodes: &'a dyn Nodes, element: Element<'a>) -> Result<Field<'a>, Fault> {
        let head = match element {
            Element::Short(bytes) => Head::read(bytes),
            Element::Long(root) => {
                let mut bytes = [0; HEAD_MAX];
                string::read_at(nodes, &Value::Tree(root), 0, &mut bytes)?;
                Head::read(&bytes)
            }
        };
        let head = head
            .filter(|head| head.field_len.saturating_add(head.len as u64) <= element.len())
            .ok_or(DAMAGED)?;
        Ok(Field { element, head })
    }

    /// The field's name.
    pub fn name(&self) -> Part<'a> {
        let start = self.head.len as u64;
        Part { value: self.element.value(), start, end: start + self.head.field_len }
    }

    /// The field's value.
    pub fn value(&self) -> Part<'a> {
        Part {
            value: self.element.value(),
            start: self.head.len as u64 + self.head.field_len,
            end: self.element.len(),
        }
    }

    /// Milliseconds since the Unix epoch.
    pub fn expiry_ms(&self) -> Option<u64> {
        self.head.expiry_ms
    }

    /// Whether its expiry has not come yet (H2). The clock is read only where that has to be known.
    pub fn lives(&self, now_ms: impl FnOnce() -> u64) -> bool {
        self.head.expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms())
    }
}

/// A hash, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Hash<'a> {
    fields: Sequence<'a>,
    index: Tree,
    flags: u8,
}

impl<'a> Hash<'a> {
    /// The hash that a value holds.
    pub fn of(value: &Value<'a>) -> Hash<'a> {
        Hash { fields: Sequence::of(value), index: Sequence::second(value), flags: sequence::flags(value) }
    }

    /// Fields, those included that have expired and wait to be collected.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self) -> Result<u64, Fault> {
        self.fields.count()
    }

    /// Whether it is a tree, in the order of its fields' words.
    pub fn is_tree(&self) -> bool {
        matches!(self.fields, Sequence::Tree(_))
    }

    /// The field with this rank, expired or not.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn at(&self, nodes: &'a dyn Nodes, rank: u64) -> Result<Option<Field<'a>>, Fault> {
        self.fields.at(nodes, rank)?.map(|element| Field::of(nodes, element)).transpose()
    }

    /// Fields that have expired.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn expired(&self, nodes: &'a dyn Nodes, now_ms: impl FnOnce() -> u64) -> Result<u64, Fault> {
        if self.flags & EXPIRING == 0 {
            return Ok(0);
        }
        let now_ms = now_ms();
        if matches!(self.fields, Sequence::Tree(_)) {
            return due(nodes, &self.index, now_ms);
        }
        let mut count = 0;
        for field in self.iter(nodes, 0) {
            count += !field?.lives(|| now_ms) as u64;
        }
        Ok(count)
    }

    /// Fields that are there.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn len(&self, nodes: &'a dyn Nodes, now_ms: impl FnOnce() -> u64) -> Result<u64, Fault> {
        Ok(self.count()?.saturating_sub(self.expired(nodes, now_ms)?))
    }

    /// A field, if it is there.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn get(
        &self,
        nodes: &'a dyn Nodes,
        field: &[u8],
        now_ms: impl FnOnce() -> u64,
    ) -> Result<Option<Field<'a>>, Fault> {
        let (word, mut compare) = search(matches!(self.fields, Sequence::Packed(_)), field);
        let Some(element) = self.fields.find(nodes, &FIELDS, word, &mut compare)? else { return Ok(None) };
        Ok(Some(Field::of(nodes, element)?).filter(|field| field.lives(now_ms)))
    }

    /// Each of these fields, if it is there: in a large hash less work than one after the other.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn get_all(
        &self,
        nodes: &'a dyn Nodes,
        fields: &[&[u8]],
        now_ms: impl Fn() -> u64,
    ) -> Result<Vec<Option<Field<'a>>>, Fault> {
        let packed = matches!(self.fields, Sequence::Packed(_));
        let words: SmallVec<[u64; 128]> = fields.iter().map(|field| word_sought(packed, field)).collect();
        let mut compare = |number: usize, element: &[u8]| compare_sought(packed, element, fields[number]);
        let found = self.fields.find_all(nodes, &FIELDS, &words, &mut compare)?.into_iter();
        found
            .map(|element| {
                Ok(element
                    .map(|element| Field::of(nodes, element))
                    .transpose()?
                    .filter(|field| field.lives(&now_ms)))
            })
            .collect()
    }

    /// All fields from the one with this rank on, the expired ones too.
    pub fn iter(&self, nodes: &'a dyn Nodes, rank: u64) -> Fields<'a> {
        Fields { nodes, elements: self.fields.iter(nodes, rank) }
    }

    /// The rank of the first field whose word is not less than `word`, in a hash that is a tree.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn rank_of_word(&self, nodes: &'a dyn Nodes, word: u64) -> Result<u64, Fault> {
        Ok(self.fields.seek(nodes, &FIELDS, word, &mut |element| field_word(element).cmp(&word))?.rank)
    }

    /// The earliest expiry of all fields.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn first_expiry(&self, nodes: &'a dyn Nodes) -> Result<Option<u64>, Fault> {
        if self.flags & EXPIRING == 0 {
            return Ok(None);
        }
        if matches!(self.fields, Sequence::Tree(_)) {
            return Ok(first_due(nodes, &self.index)?.map(|(expiry_ms, _)| expiry_ms));
        }
        let mut first = None;
        for field in self.iter(nodes, 0) {
            let expiry_ms = field?.expiry_ms();
            first = first.into_iter().chain(expiry_ms).min();
        }
        Ok(first)
    }

    /// Looks at everything and shows every node to `visit`: the rules at the head of this file must hold.
    ///
    /// # Errors
    /// [`Fault::Damaged`] with the first thing that is wrong.
    pub fn check(&self, nodes: &'a dyn Nodes, visit: &mut dyn FnMut(polder_base::Ref)) -> Result<(), Fault> {
        if let Sequence::Tree(tree) = &self.fields {
            sequence::check(nodes, tree, &FIELDS, true, visit)?;
        }
        if self.index.count > 0 {
            sequence::check(nodes, &self.index, &INDEX, true, visit)?;
        }
        let mut expiring = 0;
        for field in self.iter(nodes, 0) {
            let field = field?;
            let Some(expiry_ms) = field.expiry_ms() else { continue };
            expiring += 1;
            if matches!(self.fields, Sequence::Tree(_)) {
                let key = index_element(expiry_ms, member_word(&field.name().bytes(nodes)?));
                if seek_index(&Sequence::Tree(self.index), nodes, &key)?.1.is_none() {
                    return Err(Fault::Damaged { what: "the index of a hash" });
                }
            }
        }
        let indexed = if matches!(self.fields, Sequence::Tree(_)) { expiring } else { 0 };
        if self.index.count != indexed || expiring > 0 && self.flags & EXPIRING == 0 {
            return Err(Fault::Damaged { what: "the index of a hash" });
        }
        Ok(())
    }
}

/// See [`Hash::iter`].
pub struct Fields<'a> {
    nodes: &'a dyn Nodes,
    elements: Iter<'a>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.elements.next()?.and_then(|element| Field::of(self.nodes, element)))
    }
}

/// What steers the search for a field: its word, and how an element of the same word stands to it.
fn search(packed: bool, field: &[u8]) -> (u64, impl FnMut(&[u8]) -> Ordering) {
    (word_sought(packed, field), move |element: &[u8]| compare_sought(packed, element, field))
}

/// Packed fields are in the order of arrival: only whether one is the field counts, and no word has to be computed for that.
fn word_sought(packed: bool, field: &[u8]) -> u64 {
    if packed { 0 } else { member_word(field) }
}

#[inline]
fn compare_sought(packed: bool, element: &[u8], field: &[u8]) -> Ordering {
    /// The first byte of a head tells the length of a shorter field.
    const TOLD: usize = 1 << 6;
    if packed && field.len() < TOLD {
        match element {
            [first, ..] if usize::from(first >> 1) != field.len() => return Ordering::Less,
            [first, rest @ ..] if first & 1 == 0 => {
                // They mostly differ in their last byte.
                let may_be = field.last().is_none_or(|last| rest.get(field.len() - 1) == Some(last));
                return if may_be && rest.starts_with(field) { Ordering::Equal } else { Ordering::Less };
            }
            _ => {}
        }
    }
    match name(element) {
        name if name == field => Ordering::Equal,
        _ if packed => Ordering::Less,
        name => name.cmp(field),
    }
}

/// Where the elements of the index that begin with `key` end, and the tie of the last one of them.
fn seek_index<'a>(
    index: &Sequence<'a>,
    nodes: &'a dyn Nodes,
    key: &[u8; 16],
) -> Result<(u64, Option<u32>), Fault> {
    let begins = |element: &[u8]| element.get(..16).unwrap_or(element).cmp(&key[..]);
    let after = |element: &[u8]| if begins(element).is_le() { Ordering::Less } else { Ordering::Greater };
    let rank = index.seek(nodes, &INDEX, index_word(key), &mut { after })?.rank;
    let Some(last) = rank.checked_sub(1).map(|last| index.at(nodes, last)).transpose()?.flatten() else {
        return Ok((rank, None));
    };
    let last = last.bytes(nodes)?;
    Ok((rank, begins(&last).is_eq().then(|| tie(&last))))
}

/// Elements of the index whose expiry has come.
fn due(nodes: &dyn Nodes, index: &Tree, now_ms: u64) -> Result<u64, Fault> {
    if index.count == 0 {
        return Ok(0);
    }
    let next = now_ms.saturating_add(1);
    Ok(Sequence::Tree(*index).seek(nodes, &INDEX, next, &mut |element| index_word(element).cmp(&next))?.rank)
}

/// Expiry and word of the index's first element.
fn first_due(nodes: &dyn Nodes, index: &Tree) -> Result<Option<(u64, u64)>, Fault> {
    if index.count == 0 {
        return Ok(None);
    }
    let Some(element) = Sequence::Tree(*index).at(nodes, 0)? else { return Ok(None) };
    let bytes = element.bytes(nodes)?;
    let (Some(expiry), Some(word)) = (bytes.first_chunk(), bytes.get(8..).and_then(<[u8]>::first_chunk))
    else {
        return Err(DAMAGED);
    };
    Ok(Some((u64::from_be_bytes(*expiry), u64::from_be_bytes(*word))))
}

/// An element that is going to be put into a packed hash.
pub struct Pair<'n> {
    head: SmallVec<[u8; HEAD_MAX]>,
    field: &'n [u8],
    value: &'n [u8],
}

impl<'n> Pair<'n> {
    /// A field with its value, without an expiry.
    #[inline]
    pub fn of(field: &'n [u8], value: &'n [u8]) -> Pair<'n> {
        Pair { head: Head::write(field.len(), None), field, value }
    }

    /// Its bytes.
    #[inline]
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, self.field, self.value]
    }
}

/// A packed hash none of whose fields has had an expiry, and where one field stands in it.
#[derive(Clone, Copy)]
pub struct Place<'v> {
    hash: Packed<'v>,
    at: Option<usize>,
    value: Option<&'v [u8]>,
}

impl<'v> Place<'v> {
    /// Looks for the field whose [`Pair`] begins with this head; `None` where it takes a [`Draft`].
    #[inline]
    pub fn of(value: Option<&'v [u8]>, head: &[u8], field: &[u8]) -> Option<Place<'v>> {
        let hash = Packed::of(value)?;
        if hash.flags & EXPIRING != 0 {
            return None;
        }
        // No field has an expiry: each of this name begins with the same head.
        let (end, last) = (head.len() + field.len(), field.last().or(head.last()));
        let is_it = |element: &[u8]| {
            element.len() >= end
                && element[..end].last() == last
                && element[head.len()..end] == *field
                && element.starts_with(head)
        };
        let at = hash.position(is_it)?;
        let value = match at {
            Some(at) => Some(hash.at(at)?.get(end..)?),
            None => None,
        };
        Some(Place { hash, at, value })
    }

    /// The field's value.
    pub fn value(&self) -> Option<&'v [u8]> {
        self.value
    }

    /// The hash with another value of the field, `parts` of its [`Pair`].
    #[inline]
    pub fn set<'n>(self, parts: &'n [&'n [u8]; 3], thresholds: Thresholds) -> Option<Edit<'v, 'n>> {
        let (Place { hash, at, .. }, [_, field, new], count) = (self, parts, self.hash.count());
        let after = count as u64 + u64::from(at.is_none());
        let large = field.len().max(new.len()) as u64 > thresholds.value || after > thresholds.entries;
        let flags = hash.flags | if large { LARGE } else { 0 };
        hash.with(flags, at.unwrap_or(count), at.is_some().into(), parts)
    }

    /// The hash without the field.
    #[inline]
    pub fn removed(self) -> Option<Removed<'v, 'static>> {
        self.hash.removed(self.at)
    }
}

/// A packed hash with a field that gets a value (`parts` of its [`Pair`]), and whether the field is new; `None` where that takes a [`Draft`].
#[inline]
pub fn set<'v, 'n>(
    value: Option<&'v [u8]>,
    parts: &'n [&'n [u8]; 3],
    thresholds: Thresholds,
) -> Option<(Edit<'v, 'n>, bool)> {
    let place = Place::of(value, parts[0], parts[1])?;
    let new = place.at.is_none();
    Some((place.set(parts, thresholds)?, new))
}

/// What becomes of a field's expiry when it gets a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    None,
    /// That of the value before, if the field is there.
    Keep,
    At(u64),
}

/// Where a field stands in a draft.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    rank: u64,
    stored: bool,
    expiry_ms: Option<u64>,
    /// It is there, and its expiry has not come.
    pub lives: bool,
}

impl Spot {
    /// When the field expires, if it is there.
    pub fn expiry_ms(&self) -> Option<u64> {
        self.expiry_ms.filter(|_| self.lives)
    }

    /// Whether a field lies there that has expired.
    pub fn has_expired(&self) -> bool {
        self.stored && !self.lives
    }
}

/// A hash that is being changed inside one transaction.
pub struct Draft {
    fields: sequence::Draft,
    index: sequence::Draft,
    flags: u8,
    thresholds: Thresholds,
    /// Expired fields that were replaced or removed, as far as [`Draft::purge`] has not counted them yet.
    replaced: u64,
}

impl Draft {
    /// A hash without fields.
    pub fn empty(thresholds: Thresholds) -> Draft {
        Draft {
            fields: sequence::Draft::empty(),
            index: sequence::Draft::index(Tree::default()),
            flags: 0,
            thresholds,
            replaced: 0,
        }
    }

    /// A copy of a packed hash; a tree is shared until it is written to.
    pub fn of(value: &Value<'_>, thresholds: Thresholds) -> Draft {
        let Hash { fields, index, flags } = Hash::of(value);
        Draft {
            fields: sequence::Draft::of(&fields),
            index: sequence::Draft::index(index),
            flags,
            thresholds,
            replaced: 0,
        }
    }

    /// Says that this many fields are about to be put in, new or not: the layout is the one that
    /// Redis would choose for them.
    pub fn expect(&mut self, fields: u64) {
        if fields > self.thresholds.entries {
            self.flags |= LARGE;
        }
    }

    /// Fields, the expired ones included.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn count(&self) -> Result<u64, Fault> {
        self.fields.sequence().count()
    }

    /// Where a field stands, or would.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn find(&self, nodes: &dyn Nodes, field: &[u8], now_ms: impl FnOnce() -> u64) -> Result<Spot, Fault> {
        Ok(self.look(nodes, field, now_ms)?.0)
    }

    /// As [`Draft::find`], with the field if it is there.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn look<'s>(
        &'s self,
        nodes: &'s dyn Nodes,
        field: &[u8],
        now_ms: impl FnOnce() -> u64,
    ) -> Result<(Spot, Option<Field<'s>>), Fault> {
        let fields = self.fields.sequence();
        let (word, mut compare) = search(matches!(fields, Sequence::Packed(_)), field);
        let place = fields.seek(nodes, &FIELDS, word, &mut compare)?;
        let Some(element) = place.found else {
            return Ok((Spot { rank: place.rank, stored: false, expiry_ms: None, lives: false }, None));
        };
        let field = Field::of(nodes, element)?;
        let lives = field.lives(now_ms);
        Ok((
            Spot { rank: place.rank, stored: true, expiry_ms: field.expiry_ms(), lives },
            Some(field).filter(|_| lives),
        ))
    }

    /// Gives the field at `spot`, which [`Draft::find`] has just answered for it, a value.
    ///
    /// # Errors
    /// [`Fault::Full`], [`Fault::Damaged`]: the transaction must then be given up.
    pub fn put(
        &mut self,
        nodes: &dyn Nodes,
        spot: &Spot,
        field: &[u8],
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), Fault> {
        let expiry_ms = match expiry {
            Expiry::None => None,
            Expiry::Keep => spot.expiry_ms(),
            Expiry::At(expiry_ms) => Some(stored_expiry(expiry_ms)),
        };
        let longest = field.len().max(value.len()) as u64;
        let head = Head::write(field.len(), expiry_ms);
        self.store(nodes, spot, member_word(field), expiry_ms, &[&head, field, value])?;
        self.replaced += u64::from(spot.stored && !spot.lives);
        if longest > self.thresholds.value || self.count()? > self.thresholds.entries {
            self.flags |= LARGE;
        }
        Ok(())
    }

    /// Gives fields of a large hash values, as [`Draft::put`] does without an expiry. Returns for
    /// each whether it is new. Returns `None`, having done nothing, if they must be put in one by
    /// one, since some field may have an expiry.
    ///
    /// # Errors
    /// As [`Draft::put`].
    pub fn put_all(&mut self, nodes: &dyn Nodes, pairs: &[[&[u8]; 2]]) -> Result<Option<Vec<bool>>, Fault> {
        if self.flags != LARGE || !self.fields.is_tree() {
            return Ok(None);
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(pairs.len()));
        for [field, value] in pairs {
            bytes.extend_from_slice(&Head::write(field.len(), None));
            bytes.extend_from_slice(field);
            bytes.extend_from_slice(value);
            ends.push(bytes.len());
        }
        let elements = slices(&bytes, &ends);
        let items = pairs.iter().zip(&elements).enumerate().map(|(number, ([field, _], bytes))| Item {
            word: member_word(field),
            name: field,
            bytes,
            number,
            goes: false,
            found: false,
        });
        // The same value again changes nothing.
        let mut decide = |number: usize, old: Element<'_>| {
            Ok(!matches!(old, Element::Short(old) if old == elements[number]))
        };
        self.fields.upsert_all(nodes, &FIELDS, |element, field| name(element).cmp(field), items, &mut decide)
    }

    /// Stores the parts of an element at `spot`, and keeps the index right.
    fn store(
        &mut self,
        nodes: &dyn Nodes,
        spot: &Spot,
        word: u64,
        expiry_ms: Option<u64>,
        parts: &[&[u8]],
    ) -> Result<(), Fault> {
        if expiry_ms.is_some() {
            self.flags |= EXPIRING;
        }
        let was_tree = self.fields.is_tree();
        if spot.stored {
            self.fields.replace(nodes, &FIELDS, spot.rank, parts)?;
        } else {
            self.fields.insert(nodes, &FIELDS, spot.rank, parts)?;
        }
        match (was_tree, self.fields.is_tree()) {
            (false, true) => self.index_all(nodes),
            (true, true) if spot.expiry_ms != expiry_ms => {
                self.unindex(nodes, spot.expiry_ms, word)?;
                self.index(nodes, expiry_ms, word)
            }
            (true, false) => self.drop_index(nodes),
            _ => Ok(()),
        }
    }

    /// Gives the field at `spot` another expiry, or none. The field must be there.
    ///
    /// # Errors
    /// As [`Draft::put`].
    pub fn expire(&mut self, nodes: &dyn Nodes, spot: &Spot, expiry_ms: Option<u64>) -> Result<(), Fault> {
        let expiry_ms = expiry_ms.map(stored_expiry);
        let fields = self.fields.sequence();
        let element = fields.at(nodes, spot.rank)?.ok_or(DAMAGED)?;
        let field = Field::of(nodes, element)?;
        let word = member_word(&field.name().bytes(nodes)?);
        let head = Head::write(field.head.field_len as usize, expiry_ms);
        match element {
            Element::Short(bytes) => {
                // A copy: it lies in what is about to change.
                let rest: SmallVec<[u8; 128]> = bytes[field.head.len..].into();
                self.store(nodes, spot, word, expiry_ms, &[&head, &rest])
            }
            Element::Long(root) => {
                let mut parts: Vec<&[u8]> = vec![&head];
                for piece in string::pieces(nodes, Value::Tree(root), field.head.len as u64, root.count) {
                    parts.push(piece?.bytes());
                }
                self.store(nodes, spot, word, expiry_ms, &parts)
            }
        }
    }

    /// Takes away the field at `spot`, if it is stored.
    ///
    /// # Errors
    /// As [`Draft::put`].
    pub fn remove(&mut self, nodes: &dyn Nodes, spot: &Spot, field: &[u8]) -> Result<(), Fault> {
        self.replaced += u64::from(spot.stored && !spot.lives);
        if spot.stored { self.take(nodes, spot.rank, spot.expiry_ms, member_word(field)) } else { Ok(()) }
    }

    fn take(&mut self, nodes: &dyn Nodes, rank: u64, expiry_ms: Option<u64>, word: u64) -> Result<(), Fault> {
        if self.fields.is_tree() {
            self.unindex(nodes, expiry_ms, word)?;
        }
        self.fields.remove(nodes, &FIELDS, rank, 1)?;
        if self.fields.is_tree() { Ok(()) } else { self.drop_index(nodes) }
    }

    /// Removes expired fields, at most `most` of them, and shows the name of each to `gone`; returns how many have gone, those included that other
    /// calls have replaced.
    ///
    /// # Errors
    /// As [`Draft::put`].
    pub fn purge(
        &mut self,
        nodes: &dyn Nodes,
        now_ms: impl FnOnce() -> u64,
        most: u64,
        gone: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, Fault> {
        if self.flags & EXPIRING == 0 {
            return Ok(0);
        }
        let (now_ms, mut purged) = (now_ms(), 0);
        while purged < most
            && let Some((rank, expiry_ms, word)) = self.first_expired(nodes, now_ms, gone)?
        {
            self.take(nodes, rank, Some(expiry_ms), word)?;
            purged += 1;
        }
        Ok(purged + std::mem::take(&mut self.replaced))
    }

    /// Rank, expiry and word of a field that has expired, whose name is shown.
    fn first_expired(
        &self,
        nodes: &dyn Nodes,
        now_ms: u64,
        gone: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<(u64, u64, u64)>, Fault> {
        let fields = self.fields.sequence();
        let (mut from, mut wanted) = (0, None);
        if let (true, Some(index)) = (self.fields.is_tree(), self.index.tree()) {
            let Some((expiry_ms, word)) =
                first_due(nodes, &index)?.filter(|(expiry_ms, _)| *expiry_ms <= now_ms)
            else {
                return Ok(None);
            };
            from = fields.seek(nodes, &FIELDS, word, &mut |element| field_word(element).cmp(&word))?.rank;
            wanted = Some((expiry_ms, word));
        }
        for (rank, element) in (from..).zip(fields.iter(nodes, from)) {
            let field = Field::of(nodes, element?)?;
            if let Some(expiry_ms) = field.expiry_ms().filter(|expiry_ms| *expiry_ms <= now_ms) {
                let name = field.name().bytes(nodes)?;
                let word = member_word(&name);
                if wanted.is_none_or(|wanted| wanted == (expiry_ms, word)) {
                    gone(&name);
                    return Ok(Some((rank, expiry_ms, word)));
                }
            }
        }
        if wanted.is_some() { Err(Fault::Damaged { what: "the index of a hash" }) } else { Ok(None) }
    }

    /// Takes away all fields: every node is released.
    ///
    /// # Errors
    /// As [`Draft::put`].
    pub fn clear(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        let count = self.count()?;
        self.fields.remove(nodes, &FIELDS, 0, count)?;
        self.drop_index(nodes)
    }

    fn index(&mut self, nodes: &dyn Nodes, expiry_ms: Option<u64>, word: u64) -> Result<(), Fault> {
        let Some(expiry_ms) = expiry_ms else { return Ok(()) };
        let key = index_element(expiry_ms, word);
        let (rank, tie) = match seek_index(&self.index.sequence(), nodes, &key)? {
            (rank, None) => (rank, None),
            (rank, Some(last)) => (rank, Some(last.checked_add(1).ok_or(DAMAGED)?)),
        };
        let tie = tie.map(u32::to_be_bytes);
        self.index.insert(nodes, &INDEX, rank, &[&key, tie.as_ref().map_or(&[], |tie| &tie[..])])
    }

    fn unindex(&mut self, nodes: &dyn Nodes, expiry_ms: Option<u64>, word: u64) -> Result<(), Fault> {
        let Some(expiry_ms) = expiry_ms else { return Ok(()) };
        let (rank, Some(_)) = seek_index(&self.index.sequence(), nodes, &index_element(expiry_ms, word))?
        else {
            return Err(Fault::Damaged { what: "the index of a hash" });
        };
        self.index.remove(nodes, &INDEX, rank - 1, 1)
    }

    /// Makes the index of a hash that has just become a tree.
    fn index_all(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        if self.flags & EXPIRING == 0 {
            return Ok(());
        }
        let mut expiring: Vec<(u64, u64)> = Vec::new();
        for element in self.fields.sequence().iter(nodes, 0) {
            let field = Field::of(nodes, element?)?;
            if let Some(expiry_ms) = field.expiry_ms() {
                expiring.push((expiry_ms, member_word(&field.name().bytes(nodes)?)));
            }
        }
        expiring.into_iter().try_for_each(|(expiry_ms, word)| self.index(nodes, Some(expiry_ms), word))
    }

    fn drop_index(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        let count = self.index.sequence().count()?;
        self.index.remove(nodes, &INDEX, 0, count)
    }

    /// Fields that are there.
    ///
    /// # Errors
    /// [`Fault::Damaged`].
    pub fn len(&self, nodes: &dyn Nodes, now_ms: impl FnOnce() -> u64) -> Result<u64, Fault> {
        self.hash().len(nodes, now_ms)
    }

    fn hash(&self) -> Hash<'_> {
        Hash {
            fields: self.fields.sequence(),
            index: self.index.tree().unwrap_or_default(),
            flags: self.flags,
        }
    }

    /// The value to publish, and the earliest expiry of its fields (H3).
    ///
    /// # Errors
    /// As [`Draft::put`].
    pub fn finish(&mut self, nodes: &dyn Nodes) -> Result<(Value<'_>, Option<u64>), Fault> {
        let index = self.index.tree().unwrap_or_default();
        let first = self.hash().first_expiry(nodes)?;
        Ok((self.fields.value(self.flags, index), first))
    }
}
