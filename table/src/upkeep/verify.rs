//! Verify: a walk over everything in the segment, which trusts nothing that it reads.
//!
//! ```text
//! map of databases -> directories -> extents -> pieces -> buckets -> entries -> records -> trees of nodes     (this file)
//! flushed databases that wait for the sweeper, the same way
//! seats: caches, journals, retired lists; slabs: bitmaps, counts, locks                                 (shm::audit)
//! ```
//!
//! While other threads work, a pass may see nodes that are on their way from one place to another. So verify makes several passes, and
//! reports only what all of them have found. Sums (tallies, counts of bytes) are compared only if nothing changed during a pass. If no other
//! thread is attached, one pass is exact.
//!
//! Dead seats are recovered first, since what they left unfinished is not damage. Nothing else is written.

use std::collections::{HashMap, HashSet};

use polder_base::{Fault, Ref};
use polder_shm::audit::{Audit, Finding};
use polder_shm::layout::seat as at;
use polder_shm::node::NodeKind;
use polder_shm::{Seat, Segment, lock, offset_of, sync};
use polder_values::hash::Hash;
use polder_values::{Kind, Value};

use crate::access::lookup::view;
use crate::api::{Mode, SYSTEM};
use crate::layout::bucket::{self, PIECE_BUCKETS, UNITS, WORDS, Words};
use crate::layout::directory::{
    self, Extent, GARBAGE_AT, GARBAGE_SLOTS, LEVEL_BITS, LEVELS_MAX, MAP_LOCK, Named, SLOTS, SWEEP_LOCK,
    Slot, database, extent, map_at,
};
use crate::layout::entry::{self, Image};
use crate::layout::entry::{has_expiry, has_inner_expiry, is_key};
use crate::layout::hash;
use crate::layout::hash::{CONTINUED, FREE};
use crate::layout::raw;
use crate::layout::record::{self, Key};
use crate::layout::stub::{self, Name};
use crate::table::Table;
use crate::txn::Txn;
use crate::upkeep::grow::stash_buckets;
use crate::upkeep::report::Report;

/// Passes over a living memory before what has been seen in all of them is believed.
const PASSES_MAX: u32 = 12;
/// Exact passes beside others that must agree.
const EXACT_PASSES: u32 = 2;
/// Attempts to read one bucket as one state.
const VIEWS_MAX: u32 = 1000;
/// A key that claims to be longer is damage.
const KEY_BYTES_MAX: u64 = 512 << 20;

impl Table {
    /// Verifies everything.
    ///
    /// # Errors
    /// When the thread has no seat, or a transaction open.
    pub fn verify(&self) -> Result<Report, Fault> {
        let segment = self.segment();
        let own = self.seat()?.index();
        let mut seen = Seen::default();
        let mut report = Report::default();
        for number in 1..=PASSES_MAX {
            segment.recover_dead();
            let (alone, before) = (segment.is_alone(own), segment.pulse());
            let mut pass = Pass::new(self);
            pass.run(number % 2 == 0)?;
            let alone = alone && segment.is_alone(own);
            let exact = alone || (!pass.torn && before.is_some() && before == segment.pulse());
            seen.add(&pass.audit.findings, exact);
            report = pass.counts;
            report.count_memory(&pass.audit.counts);
            (report.passes, report.exact) = (number, exact);
            if alone || seen.is_settled() {
                break;
            }
            sync::sleep(std::time::Duration::from_millis(2 * number as u64));
        }
        report.findings = seen.believed(segment.is_alone(own));
        Ok(report)
    }
}

/// What the passes have seen alike.
#[derive(Default)]
struct Seen {
    always: Option<HashSet<Finding>>,
    sums: Option<HashSet<Finding>>,
    exact: u32,
    /// In the order of the first pass.
    order: Vec<Finding>,
}

impl Seen {
    fn add(&mut self, findings: &[Finding], exact: bool) {
        if self.always.is_none() || self.sums.is_none() && exact {
            self.order = findings.to_vec();
        }
        let of =
            |sum: bool| findings.iter().filter(|finding| finding.sum == sum).cloned().collect::<HashSet<_>>();
        let both = |old: &mut Option<HashSet<Finding>>, new: HashSet<Finding>| match old {
            Some(old) => old.retain(|finding| new.contains(finding)),
            None => *old = Some(new),
        };
        both(&mut self.always, of(false));
        if exact {
            both(&mut self.sums, of(true));
            self.exact += 1;
        }
    }

    /// Whether another pass would tell nothing new.
    fn is_settled(&self) -> bool {
        let none = |set: &Option<HashSet<Finding>>| set.as_ref().is_some_and(HashSet::is_empty);
        self.exact >= EXACT_PASSES || none(&self.always) && none(&self.sums)
    }

    fn believed(self, alone: bool) -> Vec<String> {
        let sums = self.sums.filter(|_| alone || self.exact >= EXACT_PASSES).unwrap_or_default();
        let always = self.always.unwrap_or_default();
        self.order
            .into_iter()
            .filter(|finding| always.contains(finding) || sums.contains(finding))
            .map(|finding| finding.text)
            .collect()
    }
}

/// One walk.
struct Pass<'t> {
    table: &'t Table,
    audit: Audit<'t>,
    counts: Report,
    /// Which database uses a tally.
    tallies: HashMap<u64, String>,
    /// Something changed so that a part could not be looked at.
    torn: bool,
}

/// What is known of the database being walked.
struct Walked {
    name: String,
    /// Polder's own: settings, users, subscriptions. What users count does not include it.
    own: bool,
    /// Emptied already and waiting for the sweep: slots may be empty, and its tally may belong to another database.
    garbage: bool,
    keys: u64,
    expires: u64,
    inner: u64,
    cold: u64,
    expiry_min: u64,
}

/// The name of Polder's own database in findings.
fn own_name() -> String {
    format!("database {SYSTEM}")
}

/// A bucket as one state.
struct Copy([u64; WORDS]);

impl Words for Copy {
    fn word(&self, index: usize) -> u64 {
        self.0[index]
    }
}

/// What is known of the extent being walked.
struct Homes {
    /// Entries of each home that lie in the next bucket and in the stash: those that are there, and those that the home tells.
    there: Vec<(u64, u64)>,
    told: Vec<(u64, u64)>,
    keys: HashSet<Vec<u8>>,
    expiry_min: u64,
}

impl Homes {
    /// Counts an entry in bucket `index` that is at home in another one.
    fn place(&mut self, found: &Extent, index: u64, home: u64) -> Result<(), String> {
        match index {
            _ if index == home => {}
            _ if index == home + 1 => self.there[home as usize].0 += 1,
            _ if found.places(home).contains(&index) => self.there[home as usize].1 += 1,
            _ => return Err(format!("is at home in bucket {home}, far away")),
        }
        Ok(())
    }
}

impl<'t> Pass<'t> {
    fn new(table: &'t Table) -> Pass<'t> {
        let audit = Audit::new(table.segment());
        Pass { table, audit, counts: Report::default(), tallies: HashMap::new(), torn: false }
    }

    fn segment(&self) -> &'t Segment {
        self.table.segment()
    }

    /// Walks everything; the seats first or last, since a node that moves the one way is missed by the one order and found by the other.
    fn run(&mut self, seats_first: bool) -> Result<(), Fault> {
        if seats_first {
            self.audit.seats();
        }
        self.databases()?;
        self.audit.change_log();
        if !seats_first {
            self.audit.seats();
        }
        self.audit.slabs();
        Ok(())
    }

    fn databases(&mut self) -> Result<(), Fault> {
        let segment = self.segment();
        for (lock, place) in [(MAP_LOCK, "the map of databases"), (SWEEP_LOCK, "the sweeper's work")] {
            self.audit.lock(segment.observe(lock), &place);
        }
        for db in directory::all_databases() {
            let (node, root) = (segment.observe(map_at(db)), segment.observe(map_at(db) + 8));
            match (node, root) {
                (0, 0) => {}
                (0, _) | (_, 0) => {
                    self.audit.find(format!("the map of database {db} is half there: {node:#x}, {root:#x}"))
                }
                _ => self.database(format!("database {db}"), node, Some(root))?,
            }
        }
        for cell in 0..GARBAGE_SLOTS {
            let node = segment.observe(GARBAGE_AT + cell * 8);
            if node != 0 {
                self.database(format!("flushed database in cell {cell}"), node, None)?;
            }
        }
        Ok(())
    }

    /// Walks the database of a node; `root` is none for one that waits for the sweeper.
    fn database(&mut self, name: String, node: u64, root: Option<u64>) -> Result<(), Fault> {
        let segment = self.segment();
        if !self.claim(node, NodeKind::Database, &name) {
            return Ok(());
        }
        let own = name == own_name();
        self.counts.databases += (root.is_some() && !own) as u64;
        let (directory, tally) =
            (segment.load(node + database::DIRECTORY), segment.load(node + database::TALLY));
        if root.is_some_and(|root| {
            directory::directory_of(root) != directory || directory::tally_of(root) != tally
        }) {
            self.audit.find(format!("{name}: its node and its root word disagree"));
        }
        if tally >= at::TALLY_SLOTS {
            self.audit.find(format!("{name}: counted in tally {tally}, which there is not"));
        } else if let Some(other) = self.tallies.insert(tally, name.clone()) {
            self.audit.find(format!("{name} and {other} are counted in one tally"));
        }
        let mut walked = Walked {
            name,
            own,
            garbage: root.is_none(),
            keys: 0,
            expires: 0,
            inner: 0,
            cold: 0,
            expiry_min: u64::MAX,
        };
        for found in self.extents(directory, &walked)? {
            self.extent(&found, &mut walked)?;
        }
        if !walked.garbage && tally < at::TALLY_SLOTS {
            self.sums(node, tally, &walked);
        }
        Ok(())
    }

    /// Compares what was counted with the tallies, and the earliest expiry with its bound.
    fn sums(&mut self, node: u64, tally: u64, walked: &Walked) {
        let segment = self.segment();
        for (word, what, there) in [
            (0, "keys", walked.keys),
            (1, "keys with an expiry", walked.expires),
            (2, "keys with fields that expire", walked.inner),
            (3, "stubs", walked.cold),
        ] {
            let base = segment.load(node + database::KEYS_BASE + word * 8);
            let told =
                segment.sum_over_seats(at::TALLIES + tally * at::TALLY_BYTES + word * 8).wrapping_sub(base);
            if told != there {
                self.audit.find_sum(format!(
                    "{}: {there} {what} are there, and {} are told",
                    walked.name, told as i64
                ));
            }
        }
        let bound = segment.observe(node + database::EXPIRY_MIN);
        if bound > walked.expiry_min {
            self.audit.find(format!(
                "{}: a key expires at {}, and nothing is told to expire before {bound}",
                walked.name, walked.expiry_min
            ));
        }
        if !walked.own {
            self.counts.keys += walked.keys;
            self.counts.expires += walked.expires;
        }
    }

    /// Claims the node at `offset`, which must be of `kind`.
    fn claim(&mut self, offset: u64, kind: NodeKind, place: &str) -> bool {
        if !self.audit.claim(offset, &place) {
            return false;
        }
        let right = self.audit.kind_at(offset) == Some(kind);
        if !right {
            self.audit.find(format!("{place}: node {offset:#x} is no {kind:?}"));
        }
        right
    }

    /// All extents that a directory names.
    fn extents(&mut self, directory: u64, walked: &Walked) -> Result<Vec<Extent>, Fault> {
        let txn = self.table.begin(Mode::Read)?;
        let mut extents = Vec::new();
        self.directory(&txn.seat, directory, (0, 0), walked, &mut extents);
        Ok(extents)
    }

    /// Walks a directory node that stands for the positions from `prefix` on, at `level`.
    fn directory(
        &mut self,
        seat: &Seat,
        node: u64,
        (level, prefix): (u32, u64),
        walked: &Walked,
        extents: &mut Vec<Extent>,
    ) {
        let segment = self.segment();
        if level >= LEVELS_MAX {
            return self.audit.find(format!("{}: its directory is deeper than any", walked.name));
        }
        while !seat.covers_now() {}
        if !self.claim(node, NodeKind::Directory, &walked.name) || !segment.check(node, (SLOTS + 1) * 8) {
            return;
        }
        let mut index = 0;
        while index < SLOTS {
            let slot_at = directory::slot_at(node, index);
            let word = segment.observe(slot_at);
            let position = prefix | index << (64 - (level + 1) * LEVEL_BITS);
            let mut slots = 1;
            match directory::slot_of(segment, word) {
                Slot::Empty if walked.garbage => {}
                Slot::Empty => self
                    .audit
                    .find(format!("{}: nothing is told of the positions from {position:#x} on", walked.name)),
                Slot::Node(below) => self.directory(seat, below, (level + 1, position), walked, extents),
                Slot::Extent(place) => {
                    match Extent::read(segment, &Named { extent: place, slot_at, slot: word, node, level }) {
                        Some(found) => slots = self.slots(&found, position, index, walked, extents),
                        None => {
                            self.audit.find(format!("{}: the extent at {place:#x} has no shape", walked.name))
                        }
                    }
                }
            }
            index += slots;
        }
    }

    /// Takes in an extent if all the slots that it should have name it; returns their number.
    fn slots(
        &mut self,
        found: &Extent,
        position: u64,
        index: u64,
        walked: &Walked,
        extents: &mut Vec<Extent>,
    ) -> u64 {
        let segment = self.segment();
        let fits = found.depth <= (found.level + 1) * LEVEL_BITS
            && found.prefix == position
            && found.slots() + index <= SLOTS;
        if !fits || found.homes != found.pieces * PIECE_BUCKETS - stash_buckets(found.pieces) {
            self.audit.find(format!(
                "{}: the extent at {:#x} is not the one for the positions from {position:#x} on",
                walked.name, found.at
            ));
            return 1;
        }
        let same = (0..found.slots()).all(|slot| segment.observe(found.slot_at + slot * 8) == found.slot);
        if !same {
            self.audit.find(format!("{}: the slots from {position:#x} on disagree", walked.name));
        }
        extents.push(*found);
        if same { found.slots() } else { 1 }
    }

    fn extent(&mut self, found: &Extent, walked: &mut Walked) -> Result<(), Fault> {
        let segment = self.segment();
        // A pin of its own: a walk over a large memory must not hold back everything that others retire meanwhile.
        let txn = self.table.begin(Mode::Read)?;
        while !txn.seat.covers_now() {}
        if !found.is_current(segment) {
            self.torn = true;
            return Ok(());
        }
        let place = format!("{}, extent {:#x}", walked.name, found.at);
        if !self.claim(found.at, NodeKind::Extent, &place) {
            return Ok(());
        }
        for piece in 0..directory::PIECES_MAX {
            let node = offset_of(Ref(segment.load(found.at + extent::PIECES + piece * 8)));
            if piece < found.pieces && !self.claim(node, NodeKind::Piece, &place) {
                return Ok(());
            }
        }
        self.counts.extents += 1;
        let many = found.buckets() as usize;
        let mut homes = Homes {
            there: vec![(0, 0); many],
            told: vec![(0, 0); many],
            keys: HashSet::new(),
            expiry_min: u64::MAX,
        };
        for index in 0..found.buckets() {
            self.bucket(&txn, found, index, &mut homes, walked);
        }
        for (index, (there, told)) in homes.there.iter().zip(&homes.told).enumerate() {
            if there != told {
                self.audit
                    .find(format!("{place}: {there:?} entries of bucket {index} lie next door and in the stash, it tells of {told:?}"));
            }
        }
        // If a thread searched the database for expired keys while it was flushed, it has raised the bound but removed no key.
        if !walked.garbage && found.expiry_min(segment) > homes.expiry_min {
            let bound = found.expiry_min(segment);
            self.audit.find(format!(
                "{place}: a key expires at {}, and nothing is told to expire before {bound}",
                homes.expiry_min
            ));
        }
        walked.expiry_min = walked.expiry_min.min(homes.expiry_min);
        Ok(())
    }

    fn bucket(&mut self, txn: &Txn<'_>, found: &Extent, index: u64, homes: &mut Homes, walked: &mut Walked) {
        let segment = self.segment();
        let Some(bucket) = found.bucket(segment, index) else { return };
        let place = format!("{}, extent {:#x}, bucket {index}", walked.name, found.at);
        let word = segment.observe(bucket.line);
        self.audit.lock(word, &place);
        self.counts.buckets += 1;
        let copy = (0..VIEWS_MAX)
            .find_map(|_| view(&txn.seat, bucket, |words| Copy(std::array::from_fn(|at| words.word(at)))));
        let Some(copy) = copy else {
            self.torn = true;
            if word & lock::DEAD != 0 && found.is_current(segment) {
                self.audit.find(format!("{place} is dead"));
            }
            return;
        };
        while !txn.seat.covers_now() {}
        let (next, stash) = bucket::displaced(copy.word(7));
        homes.told[index as usize] = (next as u64, stash as u64);
        let tags = bucket::tags(&copy);
        let mut unit = 0;
        while unit < UNITS {
            match tags[unit] {
                FREE => unit += 1,
                CONTINUED => {
                    self.audit.find(format!("{place}: unit {unit} continues nothing"));
                    unit += 1;
                }
                tag => {
                    let image = bucket::image_at(&copy, unit);
                    let units = bucket::units_at(&tags, unit);
                    let whole = image.is_reference() || entry::inline_fields(image.bytes()).is_some();
                    if units != image.units || !whole {
                        self.audit.find(format!(
                            "{place}: the entry in unit {unit} has {units} units and tells of {}",
                            image.units
                        ));
                    } else if let Err(wrong) = self.entry(txn, found, index, tag, &image, homes, walked) {
                        self.audit.find(format!("{place}: the entry in unit {unit} {wrong}"));
                    }
                    unit += units;
                }
            }
        }
    }

    /// Checks one entry; the error says what is wrong with it.
    #[allow(
        clippy::too_many_arguments,
        reason = "an entry is judged by where it lies and by what lies around it"
    )]
    fn entry(
        &mut self,
        txn: &Txn<'_>,
        found: &Extent,
        index: u64,
        tag: u8,
        image: &Image,
        homes: &mut Homes,
        walked: &mut Walked,
    ) -> Result<(), String> {
        self.counts.entries += 1;
        if let Some(name) = image.stub() {
            return self.stub(found, index, image, name, homes, walked);
        }
        let kind = image.kind().map_err(|_| {
            format!("is of kind {}, which this program does not know", image.meta() & entry::KIND)
        })?;
        let bound_ms = if image.is_reference() {
            self.record(txn, image, kind)?
        } else {
            entry::inline_fields(image.bytes()).and_then(|fields| fields.expiry_ms)
        };
        let key = txn.key_of(image).map_err(|fault| format!("has a key that cannot be read: {fault}"))?;
        let hash = hash::hash(&key, self.segment().secret());
        let extra = if image.is_reference() { entry::extra_of(image.words[1]) } else { hash.extra };
        if hash.tag != tag || hash.extra != extra {
            return Err("has the marks of another key".into());
        }
        if found.depth > 0 && (hash.position ^ found.prefix) >> (64 - found.depth) != 0 {
            return Err("belongs to another extent".into());
        }
        homes.place(found, index, found.home_of(hash.position))?;
        if !homes.keys.insert(key) {
            return Err("has a key that is there twice".into());
        }
        walked.keys += is_key(image) as u64;
        walked.expires += has_expiry(image) as u64;
        walked.inner += has_inner_expiry(image) as u64;
        homes.expiry_min = homes.expiry_min.min(bound_ms.unwrap_or(u64::MAX));
        Ok(())
    }

    /// Checks a stub. Its copy is not looked at.
    fn stub(
        &mut self,
        found: &Extent,
        index: u64,
        image: &Image,
        name: Name,
        homes: &mut Homes,
        walked: &mut Walked,
    ) -> Result<(), String> {
        image.stored_kind().ok_or("is a stub of no kind")?;
        if found.cuts(name.granule()) {
            return Err("is a stub whose place cannot be told".into());
        }
        homes.place(found, index, found.home_of(name.granule().first))?;
        if !homes.keys.insert(name.bytes().to_vec()) {
            return Err("is a stub that is there twice".into());
        }
        walked.keys += 1;
        walked.cold += 1;
        walked.expires += has_expiry(image) as u64;
        walked.inner += has_inner_expiry(image) as u64;
        // A due stub waits for its value, and is looked at again after a time.
        let bound_ms = stub::bound_of(image).filter(|bound_ms| *bound_ms > polder_base::time::now_ms());
        homes.expiry_min = homes.expiry_min.min(bound_ms.unwrap_or(u64::MAX));
        Ok(())
    }

    /// Claims an entry's record and all that it names; returns the earliest expiry of all of it.
    fn record(&mut self, txn: &Txn<'_>, image: &Image, kind: Option<Kind>) -> Result<Option<u64>, String> {
        let segment = self.segment();
        let node = entry::record_of(image.words[1]);
        if !self.audit.claim(offset_of(node), &"an entry") {
            return Err(format!("names record {:#x}, which cannot be its own", offset_of(node)));
        }
        self.counts.records += 1;
        let unreadable =
            |fault: Fault| format!("has a record at {:#x} that cannot be read: {fault}", offset_of(node));
        let (form, payload) = raw::payload(segment, node).map_err(unreadable)?;
        let record = record::read(form, payload).map_err(unreadable)?;
        if record.expiry_ms.is_some() != (image.meta() & entry::EXPIRY != 0) {
            return Err("and its record disagree about an expiry".into());
        }
        if record.inner_expiry_ms.is_some() != (image.meta() & entry::INNER != 0) {
            return Err("and its record disagree about the expiry of a part".into());
        }
        let place = format!("the value of record {:#x}", offset_of(node));
        let mut whole = true;
        if let Value::Tree(root) = record.value {
            let trees = root.refs.into_iter().filter(|tree| !tree.is_none());
            let nodes: Vec<_> = trees.map(|tree| self.audit.claim_tree(tree, &place)).collect();
            let nodes = nodes.into_iter().sum::<Option<u64>>();
            whole = nodes.is_some();
            if let (Some(kind), Some(nodes)) = (kind, nodes) {
                let mut seen = 0;
                let wrong = |fault: Fault| format!("has a {} that is none: {fault}", kind.name());
                polder_values::check(kind, txn, &root, &mut |_| seen += 1).map_err(wrong)?;
                if seen != nodes {
                    return Err(format!("has a {} of {seen} nodes that names {nodes}", kind.name()));
                }
            }
        }
        if let Key::Long(root) = record.key
            && (root.count > KEY_BYTES_MAX
                || !root.refs[0].is_none() && self.audit.claim_tree(root.refs[0], &"a long key").is_none())
        {
            return Err(format!("has a key of {} bytes that is none", root.count));
        }
        // Of a record that could not be claimed as a whole the value is not looked at.
        if kind == Some(Kind::Hash) && whole {
            let first = Hash::of(&record.value).first_expiry(txn).map_err(unreadable)?;
            if first != record.inner_expiry_ms {
                return Err(format!(
                    "says that its first field expires at {:?}, and that does at {first:?}",
                    record.inner_expiry_ms
                ));
            }
        }
        Ok(record.expiry_ms.into_iter().chain(record.inner_expiry_ms).min())
    }
}
