//! Making a segment, attaching one, removing one.
//!
//! The header is written before the segment has a name; an attacher judges a copy of its first page before anything is
//! mapped. What is refused: another user's segment (`owner.rs`), another layout (export with the old binary, import with the new
//! one), one that was removed. A `file:` segment of another boot is put in order first (`renew.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use polder_base::Fault;

use crate::directory::{self, Figures, Listed, Listing, Words};
use crate::layout::{self, Geometry, LAYOUT, MAGIC, features, header, seat};
use crate::machine;
use crate::mapping::{CreateOptions, Extent, Mapping, Residence};
use crate::name::SegmentName;
use crate::opening::{AttachError, CreateError, Unnamed};
use crate::owner::Admission;
use crate::pages::PageChoice;
use crate::place::HEAD_BYTES;
use crate::renew::Check;
use crate::segment::Segment;

/// The bits of a new segment's first version: an eighth of the 40 bits of versions.
const FIRST_VERSION_BITS: u32 = 37;

/// What a segment is made with; an attacher only brings its `residence`.
#[derive(Debug, Clone)]
pub struct SegmentOptions {
    /// The most bytes of nodes, buckets and their bookkeeping; 0 means [`default_ceiling`].
    pub ceiling: u64,
    pub pages: PageChoice,
    /// Permission bits of the file.
    pub mode: u32,
    pub group: Option<u32>,
    pub residence: Residence,
}

impl Default for SegmentOptions {
    fn default() -> SegmentOptions {
        SegmentOptions {
            ceiling: 0,
            pages: PageChoice::Default,
            mode: 0o600,
            group: None,
            residence: Residence::default(),
        }
    }
}

/// How a process attaches a segment.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttachOptions {
    pub residence: Residence,
    /// Which users' segments it attaches.
    pub admission: Admission,
}

/// The ceiling of a segment whose maker names none: three quarters of the machine's memory.
pub fn default_ceiling() -> u64 {
    let system = rustix::system::sysinfo();
    (system.totalram as u64).saturating_mul(system.mem_unit.max(1) as u64) / 4 * 3
}

/// How much memory or disk there is in all where a segment of this name stands, in bytes; none where that is not known.
pub fn room(name: &SegmentName) -> Option<u64> {
    let system = rustix::system::sysinfo();
    let memory = (system.totalram as u64).saturating_mul(system.mem_unit.max(1) as u64);
    let door = directory::door_of(name);
    let place = rustix::fs::statvfs(crate::place::directory_of(&door))
        .ok()
        .map(|place| place.f_blocks * place.f_frsize);
    match name {
        SegmentName::Sysv(_) => Some(memory),
        SegmentName::Shm(_) => Some(memory.min(place?)),
        SegmentName::File(_) => place,
    }
}

/// A segment that has no name yet. If it is dropped, or its process dies, there never was one.
pub struct SegmentDraft {
    segment: Arc<Segment>,
    unnamed: Unnamed,
}

impl SegmentDraft {
    /// The segment, for the threads of this process.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// [`CreateError::AlreadyExists`], or a fault that says what to do.
    pub fn publish(self) -> Result<Arc<Segment>, CreateError> {
        self.unnamed.publish(self.segment.mapping())?;
        Ok(self.segment)
    }
}

impl Segment {
    /// Makes a segment. Whole or not at all: it has its name once it can be used.
    ///
    /// # Errors
    /// [`CreateError::AlreadyExists`], or a fault that says what to do.
    pub fn create(name: &SegmentName, options: &SegmentOptions) -> Result<Arc<Segment>, CreateError> {
        Segment::create_with_secret(name, options, &machine::random_secret()?)
    }

    /// As [`Segment::create`], with a known secret, so that two runs of a test place every key alike. Not for data: clients that know the
    /// secret can choose keys that collide.
    ///
    /// # Errors
    /// As [`Segment::create`].
    #[doc(hidden)]
    pub fn create_with_secret(
        name: &SegmentName,
        options: &SegmentOptions,
        secret: &[u8; header::SECRET_BYTES],
    ) -> Result<Arc<Segment>, CreateError> {
        Segment::draft(name, options, secret)?.publish()
    }

    /// Makes a segment with this secret that has no name yet: what is filled first appears whole or not at
    /// all. A secret that is another segment's serves copies of its data, whose keys then lie in the same
    /// order.
    ///
    /// # Errors
    /// Those of [`Segment::create`].
    pub fn draft(
        name: &SegmentName,
        options: &SegmentOptions,
        secret: &[u8; header::SECRET_BYTES],
    ) -> Result<SegmentDraft, CreateError> {
        let wanted = if options.ceiling == 0 { default_ceiling() } else { options.ceiling };
        let ceiling =
            (layout::SEATS_AT + layout::SEATS_MAX * seat::BYTES + wanted.max(2 << 20)).next_multiple_of(4096);
        let geometry = Geometry::of(ceiling);
        let mapping_options = CreateOptions {
            ceiling,
            pages: options.pages,
            mode: options.mode,
            group: options.group,
            initial_bytes: layout::SEATS_AT + layout::SEATS_SPARE * seat::BYTES,
            residence: options.residence,
        };
        let (mapping, unnamed) =
            Mapping::draft(name, &mapping_options, |mapping| write_header(mapping, &geometry, secret))?;
        Ok(SegmentDraft { segment: Arc::new(Segment::over(mapping, geometry)), unnamed })
    }

    /// Attaches a segment that exists. If it is a file of an earlier boot it is put in order first (`renew.rs`), and `check`
    /// walks it: what `check` refuses stays as it is for the next attempt.
    ///
    /// # Errors
    /// [`AttachError::Absent`], or a fault that says what to do: another layout, another user's, damaged.
    pub fn attach(
        name: &SegmentName,
        options: &AttachOptions,
        check: Check<'_>,
    ) -> Result<Arc<Segment>, AttachError> {
        let mapping = Mapping::attach_in_turn(name, options.residence, options.admission, judge)?;
        // SAFETY: M3, the head was judged; the mapping is at least as long as the ceiling it names.
        let ceiling = unsafe {
            &*(mapping.base().add(header::CEILING as usize) as *const std::sync::atomic::AtomicU64)
        };
        let geometry = Geometry::of(ceiling.load(Ordering::Relaxed));
        let segment = Arc::new(Segment::over(mapping, geometry));
        segment.renew_after_boot(check)?;
        segment.mapping().enter()?;
        Ok(segment)
    }

    /// Marks the segment removed for all attached processes and removes its name.
    ///
    /// # Errors
    /// [`Fault::System`] when there is no such segment or it may not be removed.
    pub fn remove(name: &SegmentName) -> Result<(), Fault> {
        let is_segment = |head: &[u8; HEAD_BYTES]| head.starts_with(&MAGIC.to_le_bytes());
        directory::remove(name, is_segment, |found| {
            // What cannot be attached has no users to tell.
            if let Some(Ok(mapping)) = found.map(|found| found.map(name, Residence::default(), judge)) {
                // SAFETY: M3, the head was judged, so the word exists; a single atomic store (S2: a designated word).
                let removed = unsafe {
                    &*(mapping.base().add(header::REMOVED as usize) as *const std::sync::atomic::AtomicU64)
                };
                removed.store(1, Ordering::Release);
                // SAFETY: as above.
                let names = unsafe {
                    &*(mapping.base().add(header::WAKEUPS as usize) as *const std::sync::atomic::AtomicU64)
                };
                crate::wakeup::remove_all(name, names.load(Ordering::Relaxed));
            }
            Ok(())
        })
    }

    /// The segments behind `shm:` and `sysv:` names on this machine.
    ///
    /// # Errors
    /// When /dev/shm cannot be read.
    pub fn list() -> Result<Listing, Fault> {
        directory::list(figures)
    }

    /// What a name leads to, without attaching it: none if there is no segment, or none that may be read.
    pub fn find(name: &SegmentName) -> Option<Listed> {
        directory::find(name, figures)
    }

    /// Has seat `index` backed by memory.
    pub(crate) fn back_seat(&self, index: u64) -> Result<(), Fault> {
        self.mapping().back(self.seat_at(index), self.seat_at(index + 1))
    }

    /// Backs the seats from `index` on with memory, as many as are kept in reserve, or none if
    /// there is no memory: until they are needed that does no harm.
    pub(crate) fn back_spare_seats(&self, index: u64) {
        let end = (index + layout::SEATS_SPARE).min(layout::SEATS_MAX);
        let _ = self.mapping().back(self.seat_at(index), self.seat_at(end));
    }

    /// Has slabs `from..to` and their bookkeeping backed by memory.
    pub(crate) fn back_slabs(&self, from: u64, to: u64) -> Result<(), Fault> {
        self.mapping().back(self.slab_lock_at(from), self.slab_lock_at(to))?;
        self.mapping().back(self.slab_bits_at(from), self.slab_bits_at(to))?;
        self.mapping().back(self.slab_at(from), self.slab_at(to))
    }
}

fn write_header(
    mapping: &Mapping,
    geometry: &Geometry,
    secret: &[u8; header::SECRET_BYTES],
) -> Result<(), Fault> {
    let word = |offset: u64, value: u64| {
        // SAFETY: S2, no other process sees the segment yet; the header lies in its first bytes,
        // which are backed.
        unsafe { (mapping.base().add(offset as usize) as *mut u64).write(value) }
    };
    word(header::LAYOUT, LAYOUT as u64);
    word(header::CEILING, geometry.ceiling);
    word(header::PAGE_BYTES, mapping.pages().page_bytes as u64);
    word(header::SEATS_MAX, layout::SEATS_MAX);
    word(header::SLABS_MAX, geometry.slabs_max);
    word(header::CREATED_MS, crate::now_ms());
    word(header::EPOCH, 1);
    let boot = machine::boot_words()?;
    word(header::BOOT_ID, boot[0]);
    word(header::BOOT_ID + 8, boot[1]);
    let names = machine::random_seed()?;
    word(header::WAKEUPS, u64::from_ne_bytes(names[..8].try_into().expect("8 bytes")));
    word(header::VERSIONS, machine::random_distance(FIRST_VERSION_BITS)?);
    let id = machine::random_seed()?;
    word(header::MEMORY_ID, u64::from_ne_bytes(id[..8].try_into().expect("8 bytes")));
    word(header::MEMORY_ID + 8, u64::from_ne_bytes(id[8..].try_into().expect("8 bytes")));
    for (at, part) in (header::SECRET..).step_by(8).zip(secret.chunks_exact(8)) {
        word(at, u64::from_ne_bytes(part.try_into().expect("8 bytes")));
    }
    for index in 0..layout::SEATS_MAX {
        // SAFETY: the liveness locks lie inside the backed first bytes; no other process sees the
        // segment yet.
        unsafe {
            crate::liveness::LivenessLock::at(
                mapping.base().add((layout::LIVENESS_AT + index * layout::LIVENESS_BYTES) as usize),
            )
            .init()
        };
    }
    // Without the magic it is no segment: last.
    word(header::MAGIC, MAGIC);
    Ok(())
}

/// What a segment says of itself, by the same sums as [`Segment::committed_bytes`] and [`Segment::used_bytes`].
fn figures(word: Words<'_>) -> Option<Figures> {
    if word(header::MAGIC)? != MAGIC {
        return None;
    }
    if word(header::LAYOUT)? as u32 != LAYOUT || features::unknown(word(header::LAYOUT)?) != 0 {
        return Some(Figures {
            created_ms: word(header::CREATED_MS)?,
            ceiling: word(header::CEILING)?,
            ..Figures::default()
        });
    }
    let seats = word(header::SEATS_HIGH)?.min(layout::SEATS_MAX);
    let fixed = layout::SEATS_AT + seats * seat::BYTES;
    let slabs = word(header::SLABS_READY)?.min(word(header::SLABS_MAX)?);
    let node_bytes = |index: u64| word(layout::SEATS_AT + index * seat::BYTES + seat::NODE_BYTES);
    let nodes = (0..seats).filter_map(node_bytes).fold(0, u64::wrapping_add);
    // A liveness lock begins with the lock word, which names the thread that holds it.
    let is_held = |index: &u64| {
        word(layout::LIVENESS_AT + index * layout::LIVENESS_BYTES).is_some_and(crate::liveness::is_held)
    };
    let owner =
        |index: u64| word(layout::SEATS_AT + index * seat::BYTES + seat::OWNER).map(|owner| owner as u32);
    let mut processes: Vec<u32> = (0..seats).filter(is_held).filter_map(owner).collect();
    processes.sort_unstable();
    processes.dedup();
    Some(Figures {
        created_ms: word(header::CREATED_MS)?,
        ceiling: layout::usable(word(header::CEILING)?),
        committed: fixed.saturating_add(layout::slab_bytes(slabs)),
        used: layout::used(fixed, nodes),
        processes,
    })
}

/// Judges the first page of what wants to be attached.
fn judge(head: &[u8; HEAD_BYTES]) -> Result<Extent, Fault> {
    let word = |offset: u64| u64::from_le_bytes(head[offset as usize..][..8].try_into().expect("8 bytes"));
    let refuse = |text: String| Err(Fault::System(text));
    if word(header::MAGIC) != MAGIC {
        return refuse("this is no Polder segment: give another name".into());
    }
    let (layout, unknown) = (word(header::LAYOUT) as u32, features::unknown(word(header::LAYOUT)));
    if layout != LAYOUT {
        return refuse(format!(
            "the segment has layout {layout}, this program knows layout {LAYOUT}: use 'polder export' of the version that made it and 'polder import' of this one"
        ));
    }
    if unknown != 0 {
        return refuse(format!(
            "the segment uses features that this program does not know (bits {:#x}): use the version that made it, or its 'polder export' and 'polder import' of this one",
            unknown >> features::REQUIRED.trailing_zeros()
        ));
    }
    let ceiling = word(header::CEILING);
    if ceiling < layout::CEILING_MIN
        || ceiling % 4096 != 0
        || Geometry::of(ceiling).slabs_max != word(header::SLABS_MAX)
    {
        return Err(Fault::Damaged { what: "the header's sizes" });
    }
    if word(header::REMOVED) != 0 {
        return refuse(
            "the segment has been removed: wait until its last user is gone, or give another name".into(),
        );
    }
    Ok(Extent { ceiling, taken: layout::SEATS_AT })
}
