//! Making a segment, attaching one, removing one.
//!
//! The header is written before the segment has a name; an attacher judges a copy of its first page before anything is
//! mapped. What is refused: another layout (export with the old binary, import with the new one), a segment of another boot that
//! was not closed cleanly (a `file:` on disk after a power cut), one that was removed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use polder_base::Fault;

use crate::directory::Listed;
use crate::layout::{self, Geometry, LAYOUT, MAGIC, header, seat};
use crate::machine;
use crate::mapping::{AttachError, CreateError, CreateOptions, Extent, Mapping, Residence};
use crate::name::SegmentName;
use crate::pages::PageChoice;
use crate::place::HEAD_BYTES;
use crate::segment::Segment;

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
        SegmentOptions { ceiling: 0, pages: PageChoice::Default, mode: 0o600, group: None, residence: Residence::default() }
    }
}

/// The ceiling of a segment whose maker names none: three quarters of the machine's memory.
pub fn default_ceiling() -> u64 {
    let system = rustix::system::sysinfo();
    (system.totalram as u64).saturating_mul(system.mem_unit.max(1) as u64) / 4 * 3
}

impl Segment {
    /// Makes a segment. Whole or not at all: it has its name once it can be used.
    ///
    /// # Errors
    /// [`CreateError::AlreadyExists`], or a fault that says what to do.
    pub fn create(name: &SegmentName, options: &SegmentOptions) -> Result<Arc<Segment>, CreateError> {
        let wanted = if options.ceiling == 0 { default_ceiling() } else { options.ceiling };
        let ceiling = (layout::SEATS_AT + layout::SEATS_MAX * seat::BYTES + wanted.max(2 << 20)).next_multiple_of(4096);
        let geometry = Geometry::of(ceiling);
        let mapping_options = CreateOptions {
            ceiling,
            pages: options.pages,
            mode: options.mode,
            group: options.group,
            initial_bytes: layout::SEATS_AT,
            residence: options.residence,
        };
        let mapping = Mapping::create(name, &mapping_options, |mapping| write_header(mapping, &geometry))?;
        Ok(Arc::new(Segment::over(mapping, geometry)))
    }

    /// Attaches a segment that exists.
    ///
    /// # Errors
    /// [`AttachError::Absent`], or a fault that says what to do: another layout, not closed cleanly before a reboot, damaged.
    pub fn attach(name: &SegmentName, residence: Residence) -> Result<Arc<Segment>, AttachError> {
        let durable = matches!(name, SegmentName::File(_));
        let mapping = Mapping::attach(name, residence, |head| judge(head, durable))?;
        // SAFETY: M3, the head was judged; the mapping is at least as long as the ceiling it names.
        let ceiling = unsafe { &*(mapping.base().add(header::CEILING as usize) as *const std::sync::atomic::AtomicU64) };
        let geometry = Geometry::of(ceiling.load(Ordering::Relaxed));
        let segment = Segment::over(mapping, geometry);
        segment.word(header::CLEAN).store(0, Ordering::Release);
        Ok(Arc::new(segment))
    }

    /// Marks the segment removed for all who are attached and takes its name away.
    ///
    /// # Errors
    /// [`Fault::System`] when there is no such segment or it may not be removed.
    pub fn remove(name: &SegmentName) -> Result<(), Fault> {
        crate::directory::remove(name, || {
            // What cannot be attached has no users to tell.
            if let Ok(mapping) = Mapping::attach(name, Residence::default(), |head| judge(head, false)) {
                // SAFETY: M3, the head was judged, so the word exists; a single atomic store (S2: a designated word).
                let removed = unsafe { &*(mapping.base().add(header::REMOVED as usize) as *const std::sync::atomic::AtomicU64) };
                removed.store(1, Ordering::Release);
                // SAFETY: as above.
                let bells = unsafe { &*(mapping.base().add(header::BELLS as usize) as *const std::sync::atomic::AtomicU64) };
                crate::bell::remove_all(name, bells.load(Ordering::Relaxed));
            }
            Ok(())
        })
    }

    /// The segments behind `shm:` and `sysv:` names on this machine that we may open.
    ///
    /// # Errors
    /// When /dev/shm cannot be read.
    pub fn list() -> Result<Vec<Listed>, Fault> {
        crate::directory::list(|head| head.starts_with(&MAGIC.to_le_bytes()))
    }

    /// Says that everything is on its medium: a `file:` segment can be attached after a reboot.
    ///
    /// # Errors
    /// What the disk says.
    pub fn close_cleanly(&self) -> Result<(), Fault> {
        self.mapping().sync()?;
        self.word(header::CLEAN).store(1, Ordering::Release);
        self.mapping().sync()
    }

    /// Has seat `index` backed by memory.
    pub(crate) fn back_seat(&self, index: u64) -> Result<(), Fault> {
        self.mapping().back(self.seat_at(index), self.seat_at(index + 1))
    }

    /// Has slabs `from..to` and their bookkeeping backed by memory.
    pub(crate) fn back_slabs(&self, from: u64, to: u64) -> Result<(), Fault> {
        self.mapping().back(self.slab_lock_at(from), self.slab_lock_at(to))?;
        self.mapping().back(self.slab_bits_at(from), self.slab_bits_at(to))?;
        self.mapping().back(self.slab_at(from), self.slab_at(to))
    }
}

fn write_header(mapping: &Mapping, geometry: &Geometry) -> Result<(), Fault> {
    let word = |offset: u64, value: u64| {
        // SAFETY: S2, nobody else sees the segment yet; the header lies in its first bytes, which are backed.
        unsafe { (mapping.base().add(offset as usize) as *mut u64).write(value) }
    };
    word(header::LAYOUT, LAYOUT as u64);
    word(header::CEILING, geometry.ceiling);
    word(header::PAGE_BYTES, mapping.pages().page_bytes as u64);
    word(header::SEATS_MAX, layout::SEATS_MAX);
    word(header::SLABS_MAX, geometry.slabs_max);
    word(header::CREATED_MS, crate::now_ms());
    word(header::EPOCH, 1);
    let boot = machine::boot_id()?;
    word(header::BOOT_ID, u64::from_ne_bytes(boot[..8].try_into().expect("8 bytes")));
    word(header::BOOT_ID + 8, u64::from_ne_bytes(boot[8..].try_into().expect("8 bytes")));
    let bells = machine::random_seed()?;
    word(header::BELLS, u64::from_ne_bytes(bells[..8].try_into().expect("8 bytes")));
    for at in (0..header::SECRET_BYTES as u64).step_by(16) {
        let seed = machine::random_seed()?;
        word(header::SECRET + at, u64::from_ne_bytes(seed[..8].try_into().expect("8 bytes")));
        word(header::SECRET + at + 8, u64::from_ne_bytes(seed[8..].try_into().expect("8 bytes")));
    }
    for index in 0..layout::SEATS_MAX {
        // SAFETY: the witnesses lie inside the backed first bytes; nobody else sees the segment yet.
        unsafe { crate::witness::Witness::at(mapping.base().add((layout::WITNESSES_AT + index * layout::WITNESS_BYTES) as usize)).init() };
    }
    // Without the magic it is no segment: last.
    word(header::MAGIC, MAGIC);
    Ok(())
}

/// Judges the first page of what wants to be attached.
fn judge(head: &[u8; HEAD_BYTES], durable: bool) -> Result<Extent, Fault> {
    let word = |offset: u64| u64::from_le_bytes(head[offset as usize..][..8].try_into().expect("8 bytes"));
    let refuse = |text: String| Err(Fault::System(text));
    if word(header::MAGIC) != MAGIC {
        return refuse("this is no Polder segment: give another name".into());
    }
    if word(header::LAYOUT) != LAYOUT as u64 {
        return refuse(format!(
            "the segment has layout {}, this program knows layout {LAYOUT}: use 'polder export' of the version that made it and 'polder import' of this one",
            word(header::LAYOUT)
        ));
    }
    let ceiling = word(header::CEILING);
    if ceiling < layout::CEILING_MIN || ceiling % 4096 != 0 || Geometry::of(ceiling).slabs_max != word(header::SLABS_MAX) {
        return Err(Fault::Damaged { what: "the header's sizes" });
    }
    if word(header::REMOVED) != 0 {
        return refuse("the segment has been removed: wait until its last user is gone, or give another name".into());
    }
    let boot = machine::boot_id()?;
    let same_boot = head[header::BOOT_ID as usize..][..16] == boot;
    if durable && !same_boot && word(header::CLEAN) != 1 {
        return refuse(
            "the segment was not closed cleanly before the machine went down: check it with 'polder verify', or remove it".into(),
        );
    }
    Ok(Extent { ceiling, taken: layout::SEATS_AT })
}
