//! Inspect: where one key lies, how it is laid out, and what each step to it costs.

use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use polder_base::{Fault, Ref};
use polder_shm::lock;
use polder_values::{Kind, Value};

use crate::access::lookup::{KeyTest, Live};
use crate::api::{Db, Mode, Stop};
use crate::layout::bucket::{self, Words};
use crate::layout::directory::{self, Bucket, Extent, map_at};
use crate::layout::entry::{self, Image};
use crate::layout::hash::{Hash, hash};
use crate::layout::raw;
use crate::layout::record;
use crate::table::Table;
use crate::txn::Txn;
use crate::upkeep::report::quoted;

/// Attempts to see a key that others keep moving.
const ATTEMPTS_MAX: u32 = 1000;
/// Nodes of a value that are counted at most.
const NODES_MAX: u64 = 1 << 24;
/// No tree of nodes is deeper.
const DEPTH_MAX: u32 = 64;

/// All about one key.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Inspection {
    pub db: Db,
    /// The hash: where the key belongs, and the marks that tell it from its neighbours.
    pub position: u64,
    pub tag: u8,
    pub extra: u16,
    /// The extent's place in the segment, its depth in the directory, its pieces and its homes.
    pub extent: u64,
    pub depth: u32,
    pub pieces: u64,
    pub homes: u64,
    /// The bucket that the key belongs to, the one that it lies in, and how it came there.
    pub home: u64,
    pub bucket: u64,
    pub displacement: &'static str,
    /// The first unit of the entry, and how many it has.
    pub unit: usize,
    pub units: usize,
    /// Whether a thread has the bucket locked.
    pub locked: bool,
    pub version: u64,
    pub clock: u32,
    pub kind: &'static str,
    /// `inline`, `record` (key and value in one node) or `tree`.
    pub layout: &'static str,
    /// Nodes of record, value and long key, and their payload in bytes.
    pub nodes: u64,
    pub node_bytes: u64,
    pub key_bytes: u64,
    /// Bytes of a string, entries of a stream, elements of any other collection.
    pub size: u64,
    pub expiry_ms: Option<u64>,
    /// When the first field of a hash expires.
    pub inner_expiry_ms: Option<u64>,
    pub flags: u32,
    /// Nanoseconds of each step, the clock's own included.
    pub hash_ns: u64,
    pub walk_ns: u64,
    pub header_ns: u64,
    pub entry_ns: u64,
    pub record_ns: u64,
}

impl Table {
    /// Everything about one key; none when it is not there. Does not count as an access, and shows expired keys that
    /// have not been removed yet.
    ///
    /// # Errors
    /// An entry that this program cannot read; [`Fault::Damaged`], or when the thread has no seat.
    pub fn inspect(&self, db: Db, key: &[u8]) -> Result<Option<Inspection>, Stop> {
        for _ in 0..ATTEMPTS_MAX {
            let txn = self.begin(Mode::Read)?;
            if let Some(outcome) = txn.inspect_once(db, key)? {
                return Ok(outcome);
            }
        }
        Err(Fault::System("the key's bucket never stood still: try again".into()).into())
    }
}

/// Nanoseconds since `begin`, which becomes now.
fn lap(begin: &mut Instant) -> u64 {
    let now = Instant::now();
    let lap = now.duration_since(*begin).as_nanos() as u64;
    *begin = now;
    lap
}

impl Txn<'_> {
    /// One attempt; `None` when something changed meanwhile.
    fn inspect_once(&self, db: Db, key: &[u8]) -> Result<Option<Option<Inspection>>, Stop> {
        let segment = self.segment();
        let mut clock = Instant::now();
        let hash = hash(key, segment.secret());
        let hash_ns = lap(&mut clock);
        let root = segment.observe(map_at(db) + 8);
        if root == 0 {
            return Ok(Some(None));
        }
        let Some(found) = directory::walk(segment, root, hash.position) else { return Ok(None) };
        let walk_ns = lap(&mut clock);
        if !self.seat.covers_now() {
            return Ok(None);
        }
        let home = found.home_of(hash.position);
        for (index, displacement) in
            found.places(home).into_iter().zip(["home", "next bucket", "stash", "stash"])
        {
            let Some(bucket) = found.bucket(segment, index) else {
                return Err(Fault::Damaged { what: "an extent" }.into());
            };
            let word = segment.observe(bucket.line);
            let seen = self.inspect_bucket(bucket, &hash, key)?;
            segment.acquire_fence();
            if segment.load(bucket.line) != word || word & lock::DEAD != 0 {
                return Ok(None);
            }
            let Some((unit, image, steps)) = seen else { continue };
            let mut inspection = self.inspection(db, &hash, &found, &image)?;
            (inspection.home, inspection.bucket, inspection.displacement) = (home, index, displacement);
            (inspection.unit, inspection.locked) = (unit, lock::owner(word).is_some());
            (inspection.hash_ns, inspection.walk_ns) = (hash_ns, walk_ns);
            [inspection.header_ns, inspection.entry_ns, inspection.record_ns] = steps;
            return Ok(found.is_current(segment).then_some(Some(inspection)));
        }
        Ok(found.is_current(segment).then_some(None))
    }

    /// Looks for the key in one bucket: its unit, its entry, and the time for header, entry and record.
    fn inspect_bucket(
        &self,
        bucket: Bucket,
        hash: &Hash,
        key: &[u8],
    ) -> Result<Option<(usize, Image, [u64; 3])>, Stop> {
        let live = Live { segment: self.segment(), bucket };
        let mut clock = Instant::now();
        let mut candidates = bucket::matches(&live.tag_words(), hash.tag);
        let header_ns = lap(&mut clock);
        while candidates != 0 {
            let unit = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            let image = bucket::image_at(&live, unit);
            let entry_ns = lap(&mut clock);
            if image.is_reference()
                && (entry::extra_of(image.words[1]) != hash.extra || !self.seat.covers_now())
            {
                continue;
            }
            let (same, record_ns) = if image.is_reference() {
                ((self, key).is_key_of(image.record()?)?, lap(&mut clock))
            } else {
                (entry::inline_fields(image.bytes()).is_some_and(|fields| fields.key == key), 0)
            };
            if same {
                return Ok(Some((unit, image, [header_ns, entry_ns, record_ns])));
            }
        }
        Ok(None)
    }

    /// What an entry says of itself and of its value.
    fn inspection(&self, db: Db, hash: &Hash, found: &Extent, image: &Image) -> Result<Inspection, Stop> {
        let kind = image.kind()?;
        let mut inspection = Inspection {
            db,
            position: hash.position,
            tag: hash.tag,
            extra: hash.extra,
            extent: found.at,
            depth: found.depth,
            pieces: found.pieces,
            homes: found.homes,
            units: image.units,
            version: image.version(),
            clock: image.clock(),
            kind: kind.map_or("none: the mark of a watched key, made by an older build", Kind::name),
            layout: "inline",
            ..Inspection::default()
        };
        let size = |value: &Value<'_>| kind.map_or(Ok(0), |kind| polder_values::size(kind, self, value));
        if !image.is_reference() {
            let fields = entry::inline_fields(image.bytes()).ok_or(Fault::Damaged { what: "an entry" })?;
            (inspection.key_bytes, inspection.size) =
                (fields.key.len() as u64, size(&Value::Packed(fields.value))?);
            (inspection.expiry_ms, inspection.flags) = (fields.expiry_ms, fields.flags);
            return Ok(inspection);
        }
        let node = image.record()?;
        let record = self.record(node)?;
        (inspection.expiry_ms, inspection.inner_expiry_ms, inspection.flags) =
            (record.expiry_ms, record.inner_expiry_ms, record.flags);
        self.count_node(node, &mut inspection)?;
        inspection.key_bytes = match record.key {
            record::Key::Short(key) => key.len() as u64,
            record::Key::Long(root) => {
                self.count_tree(root.refs[0], DEPTH_MAX, &mut inspection)?;
                root.count
            }
        };
        inspection.size = size(&record.value)?;
        inspection.layout = match record.value {
            Value::Packed(_) => "record",
            Value::Tree(root) => {
                root.refs.iter().try_for_each(|tree| self.count_tree(*tree, DEPTH_MAX, &mut inspection))?;
                "tree"
            }
        };
        Ok(inspection)
    }

    fn count_node(&self, node: Ref, inspection: &mut Inspection) -> Result<(), Fault> {
        let (header, _) = raw::header(self.segment(), node)?;
        inspection.nodes += 1;
        inspection.node_bytes += header.length() as u64;
        Ok(())
    }

    fn count_tree(&self, node: Ref, depth_left: u32, inspection: &mut Inspection) -> Result<(), Fault> {
        if node.is_none() {
            return Ok(());
        }
        if depth_left == 0 || inspection.nodes > NODES_MAX {
            return Err(Fault::Damaged { what: "a tree" });
        }
        self.count_node(node, inspection)?;
        raw::parts(self.segment(), node)?
            .0
            .iter()
            .try_for_each(|named| self.count_tree(*named, depth_left - 1, inspection))
    }
}

impl Inspection {
    /// All fields with their names, numbers as numbers.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |text: &str| quoted(text);
        vec![
            ("db", self.db.to_string()),
            ("kind", text(self.kind)),
            ("layout", text(self.layout)),
            ("size", self.size.to_string()),
            ("key_bytes", self.key_bytes.to_string()),
            ("nodes", self.nodes.to_string()),
            ("node_bytes", self.node_bytes.to_string()),
            ("version", self.version.to_string()),
            ("clock", self.clock.to_string()),
            ("expiry_ms", self.expiry_ms.map_or("null".into(), |expiry_ms| expiry_ms.to_string())),
            (
                "inner_expiry_ms",
                self.inner_expiry_ms.map_or("null".into(), |expiry_ms| expiry_ms.to_string()),
            ),
            ("flags", self.flags.to_string()),
            ("position", self.position.to_string()),
            ("tag", self.tag.to_string()),
            ("extra", self.extra.to_string()),
            ("extent", offset_text(self.extent)),
            ("depth", self.depth.to_string()),
            ("pieces", self.pieces.to_string()),
            ("homes", self.homes.to_string()),
            ("home", self.home.to_string()),
            ("bucket", self.bucket.to_string()),
            ("displacement", text(self.displacement)),
            ("unit", self.unit.to_string()),
            ("units", self.units.to_string()),
            ("locked", self.locked.to_string()),
            ("hash_ns", self.hash_ns.to_string()),
            ("walk_ns", self.walk_ns.to_string()),
            ("header_ns", self.header_ns.to_string()),
            ("entry_ns", self.entry_ns.to_string()),
            ("record_ns", self.record_ns.to_string()),
        ]
    }

    /// The inspection as one JSON object.
    pub fn json(&self) -> String {
        let fields: Vec<String> =
            self.fields().into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}

fn offset_text(offset: u64) -> String {
    quoted(&format!("{offset:#x}"))
}

impl Display for Inspection {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let lines =
            self.fields().into_iter().map(|(name, value)| format!("{name:<15} {}", value.trim_matches('"')));
        out.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}
