//! A record: the node of an entry that does not fit inline.
//!
//! ```text
//! Plain       key length (1) | key | value
//! Record      options (1) | key length (2) | expiry (6)? | flags (4)? | inner expiry (6)? | extras? | key | value
//! RecordRefs  count of references (8) | value trees (2 x 8), key tree (8)? | count (8) extra (8) of the value
//!             | key count (8) key extra (8)? | then as Record, with an empty value where the value is a tree
//! ```
//!
//! A key of more than [`KEY_MAX`] bytes is a tree of its own, named by the third reference.

use polder_base::{Fault, Ref};
use polder_shm::Segment;
use polder_shm::node::NodeKind;
use polder_values::{Kind, Nodes, Root, Value, string};

use crate::api::{Found, New, Stop};
use crate::layout::entry::{self, Image, expiry_bytes};
use crate::layout::extras;
use crate::layout::raw;

const EXPIRY: u8 = 1;
const FLAGS: u8 = 2;
const RAW: u8 = 4;
const TREE: u8 = 8;
const LONG_KEY: u8 = 16;
const TEXT: u8 = 32;
const INNER: u8 = 64;
/// A second option byte follows, and what it announces: see `extras.rs`.
const MORE: u8 = 128;

/// The most bytes of a record before its key.
const HEAD_MAX: usize = 8 + 3 * 8 + 4 * 8 + 3 + 6 + 4 + 6;

/// The longest key that a record holds itself, in bytes.
pub const KEY_MAX: usize = 4096;

/// A record taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub key: Key<'a>,
    pub value: Value<'a>,
    pub expiry_ms: Option<u64>,
    pub inner_expiry_ms: Option<u64>,
    pub flags: u32,
    pub raw: bool,
    pub text: bool,
    pub extras: &'a [u8],
}

/// A key as its record has it.
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    Short(&'a [u8]),
    /// A tree, as `values::string` makes it.
    Long(Root),
}

const DAMAGED: Fault = Fault::Damaged { what: "a record" };

/// No tree, in a record without references.
const NO_ROOT: Root = Root { refs: [Ref::NONE; 2], count: 0, extra: 0 };

/// Takes a node's payload apart.
///
/// # Errors
/// [`Fault::Damaged`] when lengths lead outside (S5).
pub fn read(kind: NodeKind, payload: &[u8]) -> Result<Record<'_>, Fault> {
    let mut rest = payload;
    if kind == NodeKind::Plain {
        let (&key_len, tail) = rest.split_first().ok_or(DAMAGED)?;
        let (key, value) = tail.split_at_checked(key_len as usize).ok_or(DAMAGED)?;
        let (key, value) = (Key::Short(key), Value::Packed(value));
        return Ok(Record {
            key,
            value,
            expiry_ms: None,
            inner_expiry_ms: None,
            flags: 0,
            raw: false,
            text: false,
            extras: &[],
        });
    }
    let (of_value, of_key) = match kind {
        NodeKind::RecordRefs => roots(&mut rest)?,
        NodeKind::Record => (NO_ROOT, NO_ROOT),
        _ => return Err(DAMAGED),
    };
    let (&options, tail) = rest.split_first().ok_or(DAMAGED)?;
    rest = tail;
    let key_len = u16::from_le_bytes(take(&mut rest, 2)?.try_into().map_err(|_| DAMAGED)?) as usize;
    let expiry_ms = if options & EXPIRY != 0 { Some(expiry(&mut rest)?) } else { None };
    let mut flags = 0;
    if options & FLAGS != 0 {
        flags = u32::from_le_bytes(take(&mut rest, 4)?.try_into().map_err(|_| DAMAGED)?);
    }
    let inner_expiry_ms = if options & INNER != 0 { Some(expiry(&mut rest)?) } else { None };
    let extras = match options & MORE {
        0 => &[][..],
        _ => {
            let len = extras::len_of(rest).ok_or(DAMAGED)?;
            take(&mut rest, len)?
        }
    };
    let key = take(&mut rest, key_len)?;
    let key = match options & LONG_KEY {
        0 => Key::Short(key),
        _ => Key::Long(of_key),
    };
    let value = match options & TREE {
        0 => Value::Packed(rest),
        _ => Value::Tree(of_value),
    };
    Ok(Record {
        key,
        value,
        expiry_ms,
        inner_expiry_ms,
        flags,
        raw: options & RAW != 0,
        text: options & TEXT != 0,
        extras,
    })
}

/// The root of the value and that of the key, which a record with references begins with.
#[inline]
fn roots(rest: &mut &[u8]) -> Result<(Root, Root), Fault> {
    let named = word(rest)?;
    if !(2..=3).contains(&named) {
        return Err(DAMAGED);
    }
    let refs = [Ref(word(rest)?), Ref(word(rest)?)];
    let key = if named == 3 { Ref(word(rest)?) } else { Ref::NONE };
    let value = Root { refs, count: word(rest)?, extra: word(rest)? };
    let (count, extra) = if named == 3 { (word(rest)?, word(rest)?) } else { (0, 0) };
    Ok((value, Root { refs: [key, Ref::NONE], count, extra }))
}

/// Where a record that can be read has the references of a value's root, and where its count and extra word.
pub fn root_places(kind: NodeKind, payload: &[u8]) -> Option<[u64; 2]> {
    let named = payload
        .first_chunk()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .filter(|_| kind == NodeKind::RecordRefs)?;
    Some([8, 8 + named * 8])
}

/// Takes an entry apart; `None` for a marker. The calling thread is pinned.
///
/// # Errors
/// An entry that this program cannot read, [`Fault::Damaged`].
pub fn found<'s>(segment: &'s Segment, image: &'s Image) -> Result<Option<Found<'s>>, Stop> {
    let Some(kind) = image.kind()? else { return Ok(None) };
    if image.is_reference() {
        let (node, payload) = raw::payload(segment, image.record()?)?;
        return Ok(Some(found_in(image, kind, &read(node, payload)?)));
    }
    let (version, clock) = (image.version(), image.clock());
    let fields = entry::inline_fields(image.bytes()).ok_or(Fault::Damaged { what: "an entry" })?;
    let (value, raw) = (Value::Packed(fields.value), fields.meta & entry::RAW != 0);
    let (expiry_ms, flags) = (fields.expiry_ms, fields.flags);
    Ok(Some(Found {
        kind,
        value,
        expiry_ms,
        inner_expiry_ms: None,
        flags,
        raw,
        text: false,
        extras: &[],
        version,
        clock,
    }))
}

/// What an entry of this kind and its record say.
#[inline]
pub fn found_in<'a>(image: &Image, kind: Kind, record: &Record<'a>) -> Found<'a> {
    let Record { value, expiry_ms, inner_expiry_ms, flags, raw, text, extras, .. } = *record;
    let (version, clock) = (image.version(), image.clock());
    Found { kind, value, expiry_ms, inner_expiry_ms, flags, raw, text, extras, version, clock }
}

/// The whole key of an entry. The calling thread is pinned.
///
/// # Errors
/// An entry that this program cannot read, [`Fault::Damaged`].
pub fn key_of(nodes: &dyn Nodes, segment: &Segment, image: &Image) -> Result<Vec<u8>, Stop> {
    if !image.is_reference() {
        return Ok(entry::inline_fields(image.bytes())
            .ok_or(Fault::Damaged { what: "an entry" })?
            .key
            .to_vec());
    }
    let (node, payload) = raw::payload(segment, image.record()?)?;
    match read(node, payload)?.key {
        Key::Short(key) => Ok(key.to_vec()),
        Key::Long(root) => Ok(string::contiguous(nodes, &Value::Tree(root))?.into_owned()),
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Fault> {
    let Some((taken, tail)) = rest.split_at_checked(count) else { return Err(DAMAGED) };
    *rest = tail;
    Ok(taken)
}

fn expiry(rest: &mut &[u8]) -> Result<u64, Fault> {
    let mut stored = [0; 8];
    stored[..6].copy_from_slice(take(rest, 6)?);
    Ok(u64::from_le_bytes(stored))
}

fn word(rest: &mut &[u8]) -> Result<u64, Fault> {
    Ok(u64::from_le_bytes(take(rest, 8)?.try_into().map_err(|_| DAMAGED)?))
}

/// What stands before key and value of a record that says nothing else; `None` where it does, or the value is a tree.
#[inline]
pub fn plain_head(key: &[u8], new: &New<'_>) -> Option<[u8; 1]> {
    let never = new.expiry_ms.is_none() && new.inner_expiry_ms.is_none();
    let plain = matches!(new.value, Value::Packed(_))
        && never
        && new.flags == 0
        && !new.raw
        && !new.text
        && new.extras.is_empty();
    u8::try_from(key.len()).ok().filter(|_| plain).map(|length| [length])
}

/// What stands before extras, key and value of a record whose value is packed.
pub struct Head {
    kind: NodeKind,
    bytes: [u8; HEAD_MAX],
    len: usize,
}

impl Head {
    /// `None` where the key takes a tree of its own.
    #[inline]
    pub fn of(key: &[u8], new: &New<'_>) -> Option<Head> {
        if key.len() > KEY_MAX {
            return None;
        }
        let plain = plain_head(key, new);
        let mut head = Head {
            kind: if plain.is_some() { NodeKind::Plain } else { NodeKind::Record },
            bytes: [0; HEAD_MAX],
            len: 0,
        };
        match plain {
            Some(plain) => head.put(&plain),
            None => head.put_options(key.len(), new, 0),
        }
        Some(head)
    }

    /// The kind of the record's node.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// What comes before the key of a record that is not plain; `more` are options that `new` does not tell.
    fn put_options(&mut self, key_len: usize, new: &New<'_>, more: u8) {
        let mut options = more;
        for (bit, set) in [
            (EXPIRY, new.expiry_ms.is_some()),
            (FLAGS, new.flags != 0),
            (RAW, new.raw),
            (TEXT, new.text),
            (INNER, new.inner_expiry_ms.is_some()),
            (MORE, !new.extras.is_empty()),
        ] {
            options |= if set { bit } else { 0 };
        }
        self.put(&[options]);
        self.put(&(key_len as u16).to_le_bytes());
        if let Some(expiry_ms) = new.expiry_ms {
            self.put(&expiry_bytes(expiry_ms));
        }
        if new.flags != 0 {
            self.put(&new.flags.to_le_bytes());
        }
        if let Some(expiry_ms) = new.inner_expiry_ms {
            self.put(&expiry_bytes(expiry_ms));
        }
    }
}

/// The payload of the record of `key` and `new`, in pieces, for a node of the kind that comes with it.
pub struct Draft<'a> {
    head: Head,
    extras: &'a [u8],
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> Draft<'a> {
    /// Drafts a record. A long key's tree is made here, among `nodes`.
    ///
    /// # Errors
    /// [`Fault::Full`] when there is no room for a long key.
    pub fn new(nodes: &dyn Nodes, key: &'a [u8], new: &New<'a>) -> Result<Draft<'a>, Fault> {
        if let Value::Packed(value) = new.value
            && let Some(head) = Head::of(key, new)
        {
            return Ok(Draft { head, extras: new.extras, key, value });
        }
        let long = if key.len() > KEY_MAX { Some(string::make_tree(nodes, key)?) } else { None };
        let (tree, value) = match new.value {
            Value::Packed(bytes) => (None, bytes),
            Value::Tree(root) => (Some(root), &[][..]),
        };
        let key = if long.is_some() { &[] } else { key };
        let (root, mut head) =
            (tree.unwrap_or_default(), Head { kind: NodeKind::RecordRefs, bytes: [0; HEAD_MAX], len: 0 });
        head.put(&(2 + long.is_some() as u64).to_le_bytes());
        head.put(&root.refs[0].0.to_le_bytes());
        head.put(&root.refs[1].0.to_le_bytes());
        if let Some(long) = long {
            head.put(&long.refs[0].0.to_le_bytes());
        }
        head.put(&root.count.to_le_bytes());
        head.put(&root.extra.to_le_bytes());
        if let Some(long) = long {
            head.put(&long.count.to_le_bytes());
            head.put(&long.extra.to_le_bytes());
        }
        head.put_options(
            key.len(),
            new,
            if tree.is_some() { TREE } else { 0 } | if long.is_some() { LONG_KEY } else { 0 },
        );
        Ok(Draft { head, extras: new.extras, key, value })
    }

    /// The kind of its node.
    pub fn kind(&self) -> NodeKind {
        self.head.kind
    }

    /// The payload's pieces.
    pub fn parts(&self) -> [&[u8]; 4] {
        [self.head.bytes(), self.extras, self.key, self.value]
    }
}

/// Whether the node is the record of `key`.
///
/// # Errors
/// [`Fault::Damaged`].
#[inline]
pub fn is_of(nodes: &dyn Nodes, kind: NodeKind, payload: &[u8], key: &[u8]) -> Result<bool, Fault> {
    if kind != NodeKind::Plain {
        return key_is(nodes, &read(kind, payload)?.key, key);
    }
    match payload.split_first().and_then(|(length, rest)| rest.get(..usize::from(*length))) {
        Some(stored) => Ok(stored == key),
        None => Err(DAMAGED),
    }
}

/// Whether a record's key is `key`.
///
/// # Errors
/// [`Fault::Damaged`] when a long key's tree is damaged.
pub fn key_is(nodes: &dyn Nodes, stored: &Key<'_>, key: &[u8]) -> Result<bool, Fault> {
    match stored {
        Key::Short(bytes) => Ok(*bytes == key),
        Key::Long(root) if root.count == key.len() as u64 => {
            let mut at = 0;
            for piece in string::pieces(nodes, Value::Tree(*root), 0, root.count) {
                let piece = piece?;
                if key.get(at..at + piece.len()) != Some(piece.bytes()) {
                    return Ok(false);
                }
                at += piece.len();
            }
            Ok(true)
        }
        Key::Long(_) => Ok(false),
    }
}
