//! Sorted sets: members in the order of their scores, found by either.
//!
//! ```text
//!   packed   one run in the order of the scores
//!   tree     refs[0]: the same order            refs[1]: the same elements by the hash of the member
//!
//!   an element   [ head ][ score ][ text ][ member ]
//!     head       bits 6..8: the score is 0: a double of 8 bytes, 1, 2, 3: a whole number of 1, 2, 4 bytes; all little-endian
//!                bits 0..6: length of the text, the exact decimal that the score was given as (base::score), mostly 0
//! ```
//! - **Z1** Elements are in the order of their doubles (0 and -0 are one), those of one double in the order of their members' bytes.
//! - **Z2** While the first sequence is a tree, the second one is a tree of the very same elements; while it is packed there is none.
//! - **Z3** No score is NaN. What claims to be an element and is none sorts somewhere and is damage when it is read (S5).
use std::borrow::Cow;
use std::cmp::Ordering;

use polder_base::score::{Score, TEXT_MAX};
use smallvec::SmallVec;

use crate::order::{compare_members, member_word, score_word};
use crate::sequence::{self, ByName, Edit, Element, Item, Packed, Removed, Rule, Sequence, Tree, slices};
use crate::{Fault, Nodes, Ref, Value};

/// The order of the first sequence (Z1).
pub const BY_SCORE: Rule = Rule { word: element_word, compare: compare_by_score, packed_sorted: true };

/// The order of the second one.
pub const BY_MEMBER: Rule = Rule { word: hash_word, compare: compare_by_member, packed_sorted: true };

/// For looking through a packed set.
const AS_THEY_STAND: Rule = Rule { packed_sorted: false, ..BY_SCORE };

/// The flag of a set that once was too large for what Redis calls a listpack: it stays on.
const LARGE: u8 = 1;

/// Sets that are small to Redis are walked by lex up to this many members.
const WALKED_MAX: u64 = 512;

/// Bytes before the text.
const HEAD_MAX: usize = 1 + 8;

/// Bytes before the member at most.
const PREFIX_MAX: usize = HEAD_MAX + TEXT_MAX;

const DAMAGED: Fault = Fault::Damaged { what: "a member of a sorted set" };

/// The parts of an element's bytes.
#[derive(Clone, Copy)]
struct Parts<'a> {
    value: f64,
    text: &'a [u8],
    member: &'a [u8],
}

/// Takes an element apart.
#[inline]
fn split(bytes: &[u8]) -> Option<Parts<'_>> {
    let (&head, rest) = bytes.split_first()?;
    let (value, rest) = match head >> 6 {
        0 => rest.split_first_chunk().map(|(word, rest)| (f64::from_le_bytes(*word), rest)),
        1 => rest.split_first_chunk().map(|(word, rest)| (f64::from(i8::from_le_bytes(*word)), rest)),
        2 => rest.split_first_chunk().map(|(word, rest)| (f64::from(i16::from_le_bytes(*word)), rest)),
        _ => rest.split_first_chunk().map(|(word, rest)| (f64::from(i32::from_le_bytes(*word)), rest)),
    }?;
    let (text, member) = rest.split_at_checked(usize::from(head & 63))?;
    Some(Parts { value, text, member })
}

/// What stands before the member.
struct Prefix {
    bytes: [u8; PREFIX_MAX],
    len: usize,
}

impl Prefix {
    fn of(score: &Score) -> Prefix {
        let mut prefix = Prefix { bytes: [0; PREFIX_MAX], len: 1 };
        let (value, text) = (score.value(), score.text().as_bytes());
        // Whole numbers have no -0: it is kept as 0, which it equals.
        let whole = value as i32;
        let form = if f64::from(whole) != value {
            prefix.push(&value.to_le_bytes());
            0
        } else if let Ok(small) = i8::try_from(whole) {
            prefix.push(&small.to_le_bytes());
            1
        } else if let Ok(middle) = i16::try_from(whole) {
            prefix.push(&middle.to_le_bytes());
            2
        } else {
            prefix.push(&whole.to_le_bytes());
            3
        };
        // A text that is too long was never parsed: base::score keeps none of these.
        let text = if text.len() <= TEXT_MAX { text } else { &[] };
        prefix.push(text);
        prefix.bytes[0] = form << 6 | text.len() as u8;
        prefix
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn element_word(bytes: &[u8]) -> u64 {
    split(bytes).map_or(0, |parts| score_word(parts.value))
}

fn compare_by_score(one: &[u8], two: &[u8]) -> Ordering {
    match (split(one), split(two)) {
        (Some(one), Some(two)) => {
            score_word(one.value).cmp(&score_word(two.value)).then_with(|| one.member.cmp(two.member))
        }
        _ => one.cmp(two),
    }
}

fn member_of(bytes: &[u8]) -> &[u8] {
    split(bytes).map_or(bytes, |parts| parts.member)
}

fn hash_word(bytes: &[u8]) -> u64 {
    member_word(member_of(bytes))
}

fn compare_by_member(one: &[u8], two: &[u8]) -> Ordering {
    compare_members(member_of(one), member_of(two))
}

/// One member with its score.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    value: f64,
    /// Where text and member begin.
    text_at: u8,
    member_at: u8,
    bytes: Cow<'a, [u8]>,
}

impl<'a> Entry<'a> {
    fn read(nodes: &'a dyn Nodes, element: Element<'a>) -> Result<Entry<'a>, Fault> {
        let bytes = element.bytes(nodes)?;
        let parts = split(&bytes).filter(|parts| !parts.value.is_nan()).ok_or(DAMAGED)?;
        let member_at = bytes.len() - parts.member.len();
        let text_at = member_at - parts.text.len();
        Ok(Entry { value: parts.value, text_at: text_at as u8, member_at: member_at as u8, bytes })
    }

    pub fn member(&self) -> &[u8] {
        &self.bytes[usize::from(self.member_at)..]
    }

    /// The member, borrowed for as long as the nodes are where it lies in one piece.
    pub fn into_member(self) -> Cow<'a, [u8]> {
        let at = usize::from(self.member_at);
        match self.bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[at..]),
            Cow::Owned(mut bytes) => {
                bytes.drain(..at);
                Cow::Owned(bytes)
            }
        }
    }

    /// The score's double.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The exact text of the score, where it says more than the double; else empty.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[usize::from(self.text_at)..usize::from(self.member_at)])
            .unwrap_or_default()
    }

    pub fn score(&self) -> Score {
        Score::with_text(self.value, self.text())
    }
}

/// An end of a range of scores.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScoreBound {
    pub value: f64,
    /// The range does not reach the value itself.
    pub open: bool,
}

/// An end of a range of members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LexBound<'b> {
    /// Before every member.
    Least,
    /// After every member.
    Greatest,
    Closed(&'b [u8]),
    Open(&'b [u8]),
}

impl LexBound<'_> {
    /// Whether a member lies at or behind this lower end.
    fn lets_from(&self, member: &[u8]) -> bool {
        match *self {
            LexBound::Least => true,
            LexBound::Greatest => false,
            LexBound::Closed(bound) => member >= bound,
            LexBound::Open(bound) => member > bound,
        }
    }

    /// Whether a member lies at or before this upper end.
    fn lets_upto(&self, member: &[u8]) -> bool {
        match *self {
            LexBound::Least => false,
            LexBound::Greatest => true,
            LexBound::Closed(bound) => member <= bound,
            LexBound::Open(bound) => member < bound,
        }
    }

    /// Whether no member can lie between this lower end and `upper`.
    fn excludes_all(&self, upper: &LexBound<'_>) -> bool {
        match (self, upper) {
            (LexBound::Greatest, _) | (_, LexBound::Least) => true,
            (LexBound::Least, _) | (_, LexBound::Greatest) => false,
            (LexBound::Closed(one), LexBound::Closed(two)) => one > two,
            (LexBound::Closed(one) | LexBound::Open(one), LexBound::Closed(two) | LexBound::Open(two)) => {
                one >= two
            }
        }
    }
}

/// Members that are shown together.
#[derive(Clone, Copy, Debug)]
pub enum Members<'m> {
    /// They lie side by side, each up to its end.
    Some {
        bytes: &'m [u8],
        ends: &'m [u16],
    },
    One(&'m [u8]),
}

/// A sorted set, for reading.
#[derive(Clone, Copy, Debug)]
pub struct SortedSet<'a> {
    by_score: Sequence<'a>,
    by_member: Tree,
    flags: u8,
}

impl<'a> SortedSet<'a> {
    /// The set that an absent key counts as.
    pub const EMPTY: SortedSet<'static> = SortedSet {
        by_score: Sequence::Packed(&[0; 2]),
        by_member: Tree { root: Ref::NONE, count: 0, height: 0 },
        flags: 0,
    };

    /// The set of a value of kind `SortedSet`.
    pub fn of(value: &Value<'a>) -> SortedSet<'a> {
        SortedSet {
            by_score: Sequence::of(value),
            by_member: Sequence::second(value),
            flags: sequence::flags(value),
        }
    }

    /// Whether Redis would keep it as a skiplist.
    pub fn is_large(&self) -> bool {
        self.flags & LARGE != 0
    }

    /// Whether it is one run of bytes.
    pub fn is_packed(&self) -> bool {
        matches!(self.by_score, Sequence::Packed(_))
    }

    /// How many members there are.
    ///
    /// # Errors
    /// [`Fault::Damaged`], as of all that follows, when the value is none.
    pub fn count(&self) -> Result<u64, Fault> {
        self.by_score.count()
    }

    /// The member of a rank, counted from the lowest score.
    pub fn at(&self, nodes: &'a dyn Nodes, rank: u64) -> Result<Option<Entry<'a>>, Fault> {
        self.by_score.at(nodes, rank)?.map(|element| Entry::read(nodes, element)).transpose()
    }

    /// The members from a rank upwards.
    pub fn iter(
        &self,
        nodes: &'a dyn Nodes,
        rank: u64,
    ) -> impl Iterator<Item = Result<Entry<'a>, Fault>> + use<'a> {
        self.by_score.iter(nodes, rank).map(move |element| Entry::read(nodes, element?))
    }

    /// The members from a rank downwards.
    pub fn iter_back(
        &self,
        nodes: &'a dyn Nodes,
        rank: u64,
    ) -> impl Iterator<Item = Result<Entry<'a>, Fault>> + use<'a> {
        self.by_score.iter_back(nodes, rank).map(move |element| Entry::read(nodes, element?))
    }

    /// Shows up to `count` members from a rank upwards. Returns how many there were. Less work than
    /// taking their entries.
    pub fn each_members(
        &self,
        nodes: &'a dyn Nodes,
        rank: u64,
        count: u64,
        visit: &mut dyn FnMut(Members<'_>),
    ) -> Result<usize, Fault> {
        let (mut shown, mut bytes, mut ends) =
            (0, SmallVec::<[u8; 1024]>::new(), SmallVec::<[u16; 64]>::new());
        for stretch in self.by_score.stretches(nodes, rank, count) {
            for element in stretch?.elements() {
                match element? {
                    Element::Short(element) => match split(element) {
                        Some(parts) => {
                            bytes.extend_from_slice(parts.member);
                            // S5: elements of one node that lie over each other.
                            let Ok(end) = u16::try_from(bytes.len()) else { return Err(DAMAGED) };
                            ends.push(end);
                        }
                        None => return Err(DAMAGED),
                    },
                    long => {
                        visit(Members::Some { bytes: &bytes, ends: &ends });
                        bytes.clear();
                        ends.clear();
                        visit(Members::One(Entry::read(nodes, long)?.member()));
                    }
                }
                shown += 1;
            }
            visit(Members::Some { bytes: &bytes, ends: &ends });
            bytes.clear();
            ends.clear();
        }
        Ok(shown)
    }

    /// Shows the members behind a cursor (0: all) to `visit`, at least `count` of them if there are
    /// as many. Returns the next cursor, 0 at the end. A member that is there all the while is
    /// shown at least once. A packed set is shown at once.
    pub fn scan(
        &self,
        nodes: &'a dyn Nodes,
        cursor: u64,
        count: u64,
        visit: &mut dyn FnMut(Entry<'a>),
    ) -> Result<u64, Fault> {
        if self.is_packed() {
            self.iter(nodes, 0).try_for_each(|entry| entry.map(&mut *visit))?;
            return Ok(0);
        }
        // A cursor is a member's word without its last bit, so that clients may keep it in a signed number.
        let index = Sequence::Tree(self.by_member);
        let word = cursor << 1;
        let mut compare =
            |bytes: &[u8]| if hash_word(bytes) < word { Ordering::Less } else { Ordering::Greater };
        let rank = index.seek(nodes, &BY_MEMBER, word, &mut compare)?.rank;
        let mut last = 0;
        for (shown, element) in index.iter(nodes, rank).enumerate() {
            let entry = Entry::read(nodes, element?)?;
            let place = member_word(entry.member()) >> 1;
            // Those of one cursor are shown together, lest some of them never are.
            if shown as u64 >= count && place != last {
                return Ok(place);
            }
            last = place;
            visit(entry);
        }
        Ok(0)
    }

    /// A member's entry.
    pub fn find(&self, nodes: &'a dyn Nodes, member: &[u8]) -> Result<Option<Entry<'a>>, Fault> {
        if self.is_packed() {
            return Ok(self.spot(nodes, member)?.1);
        }
        let mut compare = |bytes: &[u8]| member_of(bytes).cmp(member);
        let found =
            Sequence::Tree(self.by_member).find(nodes, &BY_MEMBER, member_word(member), &mut compare)?;
        found.map(|element| Entry::read(nodes, element)).transpose()
    }

    /// The entry of each of these members, if it is there: in a large set less work than one after the other.
    pub fn find_all(&self, nodes: &'a dyn Nodes, members: &[&[u8]]) -> Result<Vec<Option<Entry<'a>>>, Fault> {
        if self.is_packed() {
            return members.iter().map(|member| self.find(nodes, member)).collect();
        }
        let words: SmallVec<[u64; 128]> = members.iter().map(|member| member_word(member)).collect();
        let mut compare = |number: usize, bytes: &[u8]| member_of(bytes).cmp(members[number]);
        let found =
            Sequence::Tree(self.by_member).find_all(nodes, &BY_MEMBER, &words, &mut compare)?.into_iter();
        found.map(|element| element.map(|element| Entry::read(nodes, element)).transpose()).collect()
    }

    /// A member's rank and entry.
    pub fn rank(&self, nodes: &'a dyn Nodes, member: &[u8]) -> Result<Option<(u64, Entry<'a>)>, Fault> {
        match self.spot(nodes, member)? {
            (_, None) => Ok(None),
            (rank, Some(entry)) if self.is_packed() => Ok(Some((rank, entry))),
            (_, Some(entry)) => Ok(Some((self.rank_of(nodes, entry.value, member)?.rank, entry))),
        }
    }

    /// The rank and entry of each of these members, as [`SortedSet::find_all`].
    pub fn rank_all(
        &self,
        nodes: &'a dyn Nodes,
        members: &[&[u8]],
    ) -> Result<Vec<Option<(u64, Entry<'a>)>>, Fault> {
        if self.is_packed() {
            return members.iter().map(|member| self.rank(nodes, member)).collect();
        }
        let entries = self.find_all(nodes, members)?;
        self.by_score.bring(nodes, entries.iter().flatten().map(|entry| score_word(entry.value)));
        let ranked = entries.into_iter().zip(members).map(|(entry, member)| match entry {
            Some(entry) => Ok(Some((self.rank_of(nodes, entry.value, member)?.rank, entry))),
            None => Ok(None),
        });
        ranked.collect()
    }

    /// The member's rank in the run of a packed set, in the second sequence of a tree; and its entry if it is there.
    fn spot(&self, nodes: &'a dyn Nodes, member: &[u8]) -> Result<(u64, Option<Entry<'a>>), Fault> {
        if self.is_packed() {
            let mut compare =
                |bytes: &[u8]| if member_of(bytes) == member { Ordering::Equal } else { Ordering::Less };
            let place = self.by_score.seek(nodes, &AS_THEY_STAND, 0, &mut compare)?;
            return Ok((place.rank, place.found.map(|element| Entry::read(nodes, element)).transpose()?));
        }
        let word = member_word(member);
        let mut compare = |bytes: &[u8]| member_of(bytes).cmp(member);
        let place = Sequence::Tree(self.by_member).seek(nodes, &BY_MEMBER, word, &mut compare)?;
        Ok((place.rank, place.found.map(|element| Entry::read(nodes, element)).transpose()?))
    }

    /// Where a member of this score stands, or would.
    fn rank_of(&self, nodes: &'a dyn Nodes, value: f64, member: &[u8]) -> Result<sequence::Place<'a>, Fault> {
        let word = score_word(value);
        // Asked only where the words, which are the scores, are the same.
        let mut compare = |bytes: &[u8]| member_of(bytes).cmp(member);
        self.by_score.seek(nodes, &BY_SCORE, word, &mut compare)
    }

    /// Brings near what is going to be looked at where these scores are, the misses of all together.
    pub fn bring(&self, nodes: &dyn Nodes, scores: impl Iterator<Item = f64>) {
        self.by_score.bring(nodes, scores.map(score_word));
    }

    /// How many members have a score below `value`, and below or equal where `equal`.
    fn count_below(&self, nodes: &'a dyn Nodes, value: f64, equal: bool) -> Result<u64, Fault> {
        match (value, equal) {
            (f64::NEG_INFINITY, false) => return Ok(0),
            (f64::INFINITY, true) => return self.count(),
            _ => {}
        }
        let word = score_word(value);
        let below = |held: u64| held < word || equal && held == word;
        let mut compare =
            |bytes: &[u8]| if below(element_word(bytes)) { Ordering::Less } else { Ordering::Greater };
        Ok(self.by_score.seek(nodes, &BY_SCORE, word, &mut compare)?.rank)
    }

    /// The ranks of a range of scores: the first and the one after the last.
    pub fn ranks_by_score(
        &self,
        nodes: &'a dyn Nodes,
        min: ScoreBound,
        max: ScoreBound,
    ) -> Result<(u64, u64), Fault> {
        let from = self.count_below(nodes, min.value, min.open)?;
        let upto = self.count_below(nodes, max.value, !max.open)?;
        Ok((from, upto.max(from)))
    }

    /// The ranks of a range of members, all of which must have one score for this to mean anything: else a small set shows
    /// what Redis shows of a listpack, and a large one what its order leads to.
    pub fn ranks_by_lex(
        &self,
        nodes: &'a dyn Nodes,
        min: LexBound<'_>,
        max: LexBound<'_>,
        back: bool,
    ) -> Result<(u64, u64), Fault> {
        let count = self.count()?;
        if count == 0 || min.excludes_all(&max) {
            return Ok((0, 0));
        }
        if self.is_packed() || !self.is_large() && count <= WALKED_MAX {
            return self.ranks_by_lex_walked(nodes, min, max, back);
        }
        let first = self.at(nodes, 0)?.ok_or(Fault::Damaged { what: "an empty tree" })?;
        let word = score_word(first.value);
        let seek = |before: &dyn Fn(&[u8]) -> bool| {
            let mut compare = |bytes: &[u8]| {
                let same = element_word(bytes) <= word;
                if same && before(member_of(bytes)) { Ordering::Less } else { Ordering::Greater }
            };
            Ok::<_, Fault>(self.by_score.seek(nodes, &BY_SCORE, word, &mut compare)?.rank)
        };
        let from = if min == LexBound::Least { 0 } else { seek(&|member| !min.lets_from(member))? };
        let upto = if max == LexBound::Greatest { count } else { seek(&|member| max.lets_upto(member))? };
        Ok((from, upto.max(from)))
    }

    fn ranks_by_lex_walked(
        &self,
        nodes: &'a dyn Nodes,
        min: LexBound<'_>,
        max: LexBound<'_>,
        back: bool,
    ) -> Result<(u64, u64), Fault> {
        let mut lets: Vec<(bool, bool)> = Vec::new();
        for entry in self.iter(nodes, 0) {
            let entry = entry?;
            lets.push((min.lets_from(entry.member()), max.lets_upto(entry.member())));
        }
        let reaches = lets.last().is_some_and(|last| last.0) && lets.first().is_some_and(|first| first.1);
        let range = match back {
            _ if !reaches => None,
            false => lets.iter().position(|lets| lets.0).map(|from| {
                let upto = lets[from..].iter().position(|lets| !lets.1);
                (from, upto.map_or(lets.len(), |upto| from + upto))
            }),
            true => lets.iter().rposition(|lets| lets.1).map(|last| {
                let before = lets[..=last].iter().rposition(|lets| !lets.0);
                (before.map_or(0, |before| before + 1), last + 1)
            }),
        };
        Ok(range.map_or((0, 0), |(from, upto)| (from as u64, upto as u64)))
    }
}

/// Where a member is, or would be, in a [`Draft`]: good until the draft is changed.
#[derive(Clone, Debug)]
pub struct Spot {
    /// In the run of a packed set, in the second sequence of a tree.
    rank: u64,
    /// The score, if the member is there.
    pub score: Option<Score>,
}

/// What has become of a member that was given a score.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Became {
    New,
    /// It has another score.
    Moved,
    /// It has another text of the same double.
    Retold,
    Same,
}

impl Became {
    /// What it means to give the score `new` to a member whose score is `old`.
    pub fn of(old: Option<&Score>, new: &Score) -> Became {
        match old {
            None => Became::New,
            Some(old) if old != new => Became::Moved,
            Some(old) if old.text() != new.text() => Became::Retold,
            Some(_) => Became::Same,
        }
    }
}

/// A packed sorted set, and where one member stands in it.
#[derive(Clone, Copy)]
pub struct Place<'v, 'm> {
    set: Packed<'v>,
    member: &'m [u8],
    at: Option<usize>,
    parts: Option<Parts<'v>>,
}

impl<'v, 'm> Place<'v, 'm> {
    /// Looks for a member; `None` where it takes a [`Draft`].
    #[inline]
    pub fn of(value: Option<&'v [u8]>, member: &'m [u8]) -> Option<Place<'v, 'm>> {
        let set = Packed::of(value)?;
        let is_it = |element: &[u8]| {
            element.last() == member.last() && element.ends_with(member) && member_of(element) == member
        };
        // The element of an empty member ends with its score.
        let at = if member.is_empty() {
            set.position(|element| member_of(element).is_empty())?
        } else {
            set.position(is_it)?
        };
        let parts = match at {
            Some(at) => Some(split(set.at(at)?).filter(|parts| !parts.value.is_nan())?),
            None => None,
        };
        Some(Place { set, member, at, parts })
    }

    /// The member's score.
    pub fn score(&self) -> Option<Score> {
        let parts = self.parts?;
        Some(Score::with_text(parts.value, std::str::from_utf8(parts.text).unwrap_or_default()))
    }

    /// The set in which the member has a score, the `parts` of which are those of its [`Scored`].
    /// `is_large`: whether Redis would keep a set of that many members as a skiplist.
    #[inline]
    pub fn put<'n>(
        self,
        value: f64,
        parts: &'n [&'n [u8]; 2],
        is_large: impl FnOnce(u64) -> bool,
    ) -> Option<Edit<'v, 'n>> {
        let Place { set, member, at, .. } = self;
        // Its rank among those that stay (Z1).
        let (mut rank, mut end) = (0, set.count() - usize::from(at.is_some()));
        while rank < end {
            let middle = (rank + end) / 2;
            let other = split(set.at(middle + usize::from(at.is_some_and(|at| middle >= at)))?)?;
            if other.value < value || other.value == value && other.member < member {
                rank = middle + 1;
            } else {
                end = middle;
            }
        }
        let count = set.count() + usize::from(at.is_none());
        let flags = set.flags | if set.flags & LARGE == 0 && is_large(count as u64) { LARGE } else { 0 };
        match at {
            None => set.with(flags, rank, 0, parts),
            Some(at) => set.moved(flags, at, rank, parts),
        }
    }

    /// The set without the member.
    #[inline]
    pub fn removed(self) -> Option<Removed<'v, 'static>> {
        self.set.removed(self.at)
    }
}

/// What stands before a member in its element.
pub struct Scored(Prefix);

impl Scored {
    pub fn of(score: &Score) -> Scored {
        Scored(Prefix::of(score))
    }

    /// The parts of the element.
    pub fn parts<'n>(&'n self, member: &'n [u8]) -> [&'n [u8]; 2] {
        [self.0.bytes(), member]
    }
}

/// A sorted set that is being changed inside one transaction.
///
/// After a fault the transaction must be given up: the draft is between two states.
pub struct Draft {
    by_score: sequence::Draft,
    /// Of a packed set: an empty tree.
    by_member: sequence::Draft,
    flags: u8,
}

impl Draft {
    /// The empty set.
    pub fn empty() -> Draft {
        Draft::of(&SortedSet::EMPTY)
    }

    /// A draft of what a key holds.
    pub fn of(set: &SortedSet<'_>) -> Draft {
        Draft {
            by_score: sequence::Draft::of(&set.by_score),
            by_member: sequence::Draft::index(set.by_member),
            flags: set.flags,
        }
    }

    /// The set as it is now.
    pub fn set(&self) -> SortedSet<'_> {
        SortedSet {
            by_score: self.by_score.sequence(),
            by_member: self.by_member.tree().unwrap_or_default(),
            flags: self.flags,
        }
    }

    /// The value to publish; an empty set is none.
    pub fn value(&mut self) -> Value<'_> {
        let second = self.by_member.tree().unwrap_or_default();
        self.by_score.value(self.flags, second)
    }

    /// Says that Redis would keep it as a skiplist from now on.
    pub fn set_large(&mut self) {
        self.flags |= LARGE;
    }

    /// Looks a member up.
    ///
    /// # Errors
    /// As of all that follows: [`Fault::Full`] without room for new nodes, [`Fault::Damaged`] when the value is none.
    pub fn spot(&self, nodes: &dyn Nodes, member: &[u8]) -> Result<Spot, Fault> {
        let (rank, entry) = self.set().spot(nodes, member)?;
        Ok(Spot { rank, score: entry.map(|entry| entry.score()) })
    }

    /// Gives a member a score: it is inserted, moved, or only shown with another text.
    pub fn put(&mut self, nodes: &dyn Nodes, spot: Spot, score: &Score, member: &[u8]) -> Result<(), Fault> {
        let prefix = Prefix::of(score);
        let parts = [prefix.bytes(), member];
        match (&spot.score, self.by_score.is_tree()) {
            (None, false) => {}
            (None, true) => self.by_member.insert(nodes, &BY_MEMBER, spot.rank, &parts)?,
            (Some(_), false) => self.by_score.remove(nodes, &BY_SCORE, spot.rank, 1)?,
            (Some(old), true) => {
                self.by_member.replace(nodes, &BY_MEMBER, spot.rank, &parts)?;
                let rank = self.rank_in_tree(nodes, old.value(), member)?;
                if old.value() == score.value() {
                    return self.by_score.replace(nodes, &BY_SCORE, rank, &parts);
                }
                self.by_score.remove(nodes, &BY_SCORE, rank, 1)?;
            }
        }
        let rank = self.set().rank_of(nodes, score.value(), member)?.rank;
        self.by_score.insert(nodes, &BY_SCORE, rank, &parts)?;
        self.settle(nodes)
    }

    /// Gives members of a large set their scores, one after the other. Returns what has become of
    /// each. Returns `None`, having done nothing, if they must be put one by one: the set might
    /// become packed meanwhile.
    pub fn put_all(
        &mut self,
        nodes: &dyn Nodes,
        pairs: &[(Score, &[u8])],
    ) -> Result<Option<Vec<Became>>, Fault> {
        const FEW: u64 = 1024;
        if self.flags & LARGE == 0
            || !self.by_score.is_tree()
            || self.set().count()? < FEW + pairs.len() as u64
        {
            return Ok(None);
        }
        let mut became = Vec::with_capacity(pairs.len());
        self.put_parts(nodes, pairs, &mut became)?;
        Ok(Some(became))
    }

    /// As [`Draft::put_all`], of a set that stays large.
    fn put_parts(
        &mut self,
        nodes: &dyn Nodes,
        pairs: &[(Score, &[u8])],
        became: &mut Vec<Became>,
    ) -> Result<(), Fault> {
        // What the second score of a member changes, the first one decides: these two go different ways.
        let mut order: SmallVec<[(u64, usize); 128]> =
            pairs.iter().enumerate().map(|(at, (_, member))| (member_word(member), at)).collect();
        order.sort_unstable();
        if order.is_sorted_by(|one, two| one.0 < two.0) {
            return self.put_different(nodes, pairs, &order, became);
        }
        let (first, second) = pairs.split_at(pairs.len() / 2);
        self.put_parts(nodes, first, became)?;
        self.put_parts(nodes, second, became)
    }

    /// Gives members, no two of which have the same word, their scores. `order`: the words in their
    /// order, each with its member's number.
    fn put_different(
        &mut self,
        nodes: &dyn Nodes,
        pairs: &[(Score, &[u8])],
        order: &[(u64, usize)],
        all: &mut Vec<Became>,
    ) -> Result<(), Fault> {
        let length = pairs.iter().map(|(_, member)| HEAD_MAX + member.len()).sum();
        let (mut bytes, mut ends) = (Vec::with_capacity(length), Vec::with_capacity(pairs.len()));
        for (score, member) in pairs {
            bytes.extend_from_slice(Prefix::of(score).bytes());
            bytes.extend_from_slice(member);
            ends.push(bytes.len());
        }
        let elements = &slices(&bytes, &ends)[..];
        let item = |at: usize, number, word| Item {
            word,
            name: pairs[at].1,
            bytes: elements[at],
            number,
            goes: false,
            found: false,
        };
        let by_name: ByName = |element, member| member_of(element).cmp(member);
        let (mut became, mut moved) = (vec![Became::New; pairs.len()], Vec::with_capacity(pairs.len()));
        let mut decide = |at: usize, element: Element<'_>| {
            let (old, (score, member)) = (Entry::read(nodes, element)?.score(), &pairs[at]);
            became[at] = Became::of(Some(&old), score);
            if became[at] == Became::Moved {
                moved.push((score_word(old.value()), *member));
            }
            Ok(became[at] != Became::Same)
        };
        let items = order.iter().map(|(word, at)| item(*at, *at, *word));
        self.by_member.upsert_all(nodes, &BY_MEMBER, by_name, items, &mut decide)?;
        let changed = (0..pairs.len()).filter(|at| became[*at] != Became::Same).enumerate();
        let mut items: Vec<Item<'_>> = Vec::with_capacity(pairs.len() + moved.len());
        items.extend(changed.map(|(number, at)| item(at, number, score_word(pairs[at].0.value()))));
        let many = items.len();
        let gone = moved.into_iter().enumerate();
        items.extend(gone.map(|(number, (word, name))| Item {
            word,
            name,
            bytes: &[],
            number: many + number,
            goes: true,
            found: false,
        }));
        self.by_score.upsert_all(nodes, &BY_SCORE, by_name, items.into_iter(), &mut |_, _| Ok(true))?;
        all.extend(became);
        Ok(())
    }

    /// The rank of a member that is there.
    fn rank_in_tree(&self, nodes: &dyn Nodes, value: f64, member: &[u8]) -> Result<u64, Fault> {
        let place = self.set().rank_of(nodes, value, member)?;
        if place.found.is_some() {
            Ok(place.rank)
        } else {
            Err(Fault::Damaged { what: "the two trees of a sorted set" })
        }
    }

    /// Takes a member away that [`Draft::spot`] has found; does nothing for one that is not there.
    pub fn remove(&mut self, nodes: &dyn Nodes, spot: Spot, member: &[u8]) -> Result<(), Fault> {
        let Some(score) = spot.score else { return Ok(()) };
        if !self.by_score.is_tree() {
            return self.by_score.remove(nodes, &BY_SCORE, spot.rank, 1);
        }
        let rank = self.rank_in_tree(nodes, score.value(), member)?;
        self.by_member.remove(nodes, &BY_MEMBER, spot.rank, 1)?;
        self.by_score.remove(nodes, &BY_SCORE, rank, 1)?;
        self.settle(nodes)
    }

    /// Takes `count` members away from a rank on.
    pub fn remove_range(&mut self, nodes: &dyn Nodes, rank: u64, count: u64) -> Result<(), Fault> {
        for rank in if self.by_score.is_tree() { rank..rank + count } else { 0..0 } {
            let entry =
                self.set().at(nodes, rank)?.ok_or(Fault::Damaged { what: "the count of a sorted set" })?;
            let member = entry.into_member().into_owned();
            let spot = self.spot(nodes, &member)?;
            self.by_member.remove(nodes, &BY_MEMBER, spot.rank, 1)?;
        }
        self.by_score.remove(nodes, &BY_SCORE, rank, count)?;
        self.settle(nodes)
    }

    /// Adds members behind the last: in the order of the set, each of them once, none of them in it.
    pub fn extend<'e>(
        &mut self,
        nodes: &dyn Nodes,
        entries: impl Iterator<Item = (&'e Score, &'e [u8])>,
    ) -> Result<(), Fault> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for (score, member) in entries {
            bytes.extend_from_slice(Prefix::of(score).bytes());
            bytes.extend_from_slice(member);
            ends.push(bytes.len());
        }
        let elements = slices(&bytes, &ends);
        self.by_score.extend(nodes, &BY_SCORE, &mut elements.iter().copied())?;
        if self.set().by_member.count > 0 {
            self.index(nodes, elements)?;
        }
        self.settle(nodes)
    }

    /// Adds elements to the second sequence, which holds none of them.
    fn index(&mut self, nodes: &dyn Nodes, mut elements: Vec<&[u8]>) -> Result<(), Fault> {
        if self.set().by_member.count == 0 {
            elements.sort_by_cached_key(|bytes| (hash_word(bytes), member_of(bytes)));
            return self.by_member.extend(nodes, &BY_MEMBER, &mut elements.into_iter());
        }
        for bytes in elements {
            let rank = self.set().spot(nodes, member_of(bytes))?.0;
            self.by_member.insert(nodes, &BY_MEMBER, rank, &[bytes])?;
        }
        Ok(())
    }

    /// Makes Z2 true again when the first sequence has become a tree, or is none any more.
    fn settle(&mut self, nodes: &dyn Nodes) -> Result<(), Fault> {
        let Tree { root, count, .. } = self.set().by_member;
        if self.by_score.is_tree() == (count > 0) {
            return Ok(());
        }
        if count > 0 {
            nodes.release_tree(root);
            self.by_member = sequence::Draft::index(Tree::default());
            return Ok(());
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for element in self.by_score.sequence().iter(nodes, 0) {
            bytes.extend_from_slice(&element?.bytes(nodes)?);
            ends.push(bytes.len());
        }
        self.index(nodes, slices(&bytes, &ends))
    }
}

/// Looks at every node of a sorted set and shows each to `visit`: all rules at the head of this file must hold.
///
/// # Errors
/// [`Fault::Damaged`] with the first thing that is wrong.
pub fn check(nodes: &dyn Nodes, value: &Value<'_>, visit: &mut dyn FnMut(Ref)) -> Result<(), Fault> {
    let set = SortedSet::of(value);
    let mut last: Option<Entry<'_>> = None;
    for (rank, entry) in set.iter(nodes, 0).enumerate() {
        let entry = entry?;
        let sorted = last.is_none_or(|last| compare_by_score(&last.bytes, &entry.bytes) == Ordering::Less);
        let twin = set.rank(nodes, entry.member())?;
        if !sorted
            || twin.is_none_or(|(twin_rank, twin)| twin_rank != rank as u64 || twin.bytes != entry.bytes)
        {
            return Err(Fault::Damaged { what: "the order of a sorted set" });
        }
        last = Some(entry);
    }
    match set.by_score {
        Sequence::Packed(_) => Ok(()),
        Sequence::Tree(tree) if tree.count == set.by_member.count => {
            sequence::check(nodes, &tree, &BY_SCORE, true, visit)?;
            sequence::check(nodes, &set.by_member, &BY_MEMBER, true, visit)
        }
        Sequence::Tree(_) => Err(Fault::Damaged { what: "the two trees of a sorted set" }),
    }
}

#[cfg(test)]
mod tests;
