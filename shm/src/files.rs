//! Segments that are files: in /dev/shm, on hugetlbfs, on a disk.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use polder_base::Fault;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::Gid;

use crate::mapping::{CreateOptions, Extent, Mapping, Residence, judged, no_segment};
use crate::name::SegmentName;
use crate::pages::{self, PageReport};
use crate::place::{self, Draft, HEAD_BYTES, Signpost};
use crate::presence;
use crate::trouble::{amount, fault, locks};

/// A segment that is mapped, but has no name yet.
struct Drafted {
    mapping: Mapping,
    draft: Draft,
}

/// The way of a file that is mapped to its name.
pub(crate) struct Unnamed {
    draft: Draft,
    /// The place of the file, if that is not at the name's own place.
    behind: Option<PathBuf>,
}

/// Makes a segment in a file without a name: on hugetlbfs if that was asked for and is available, else for
/// the name's own place.
pub(crate) fn draft(
    name: &SegmentName,
    options: &CreateOptions,
    init: impl FnOnce(&Mapping) -> Result<(), Fault>,
) -> Result<(Mapping, Unnamed), Fault> {
    let door = place::door(name);
    let mut refusals = Vec::new();
    for &page_bytes in options.pages.sizes() {
        match draft_in_huge_pages(name, page_bytes, options) {
            Ok((mut drafted, target)) => {
                drafted.mapping.note(refusals);
                drafted.mapping.fill(options, init)?;
                return Ok((drafted.mapping, Unnamed { draft: drafted.draft, behind: Some(target) }));
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    let mut drafted = draft_at(name, &door, options)?;
    drafted.mapping.note(refusals);
    drafted.mapping.fill(options, init)?;
    Ok((drafted.mapping, Unnamed { draft: drafted.draft, behind: None }))
}

/// A file without a name, as long as the ceiling, mapped, with the permissions that it shall have.
fn draft_at(name: &SegmentName, target: &Path, options: &CreateOptions) -> Result<Drafted, Fault> {
    let refused = |errno| fault("create", name, errno);
    let (file, draft) = Draft::beside(target).map_err(refused)?;
    grant(file.as_fd(), options.mode, options.group).map_err(refused)?;
    // Before others can find it. Only the file of a `file:` segment needs it; for the others it is what tools show.
    match presence::enter(&file) {
        Err(errno) if matches!(name, SegmentName::File(_)) => return Err(locks(name, errno)),
        _ => {}
    }
    let ground = pages::ground(&file).map_err(refused)?;
    let ceiling = options
        .ceiling
        .checked_next_multiple_of(ground.page_bytes as u64)
        .ok_or_else(|| refused(Errno::FBIG))?;
    rustix::fs::ftruncate(&file, ceiling).map_err(refused)?;
    let report = PageReport::of(ground, place::directory_of(target));
    let mapping =
        Mapping::of_file(name, file, ground, Extent { ceiling, taken: 0 }, report, options.residence)?;
    Ok(Drafted { mapping, draft })
}

/// A draft on hugetlbfs that has got its first pages, and where it is to stand; or the reason why there is none.
fn draft_in_huge_pages(
    name: &SegmentName,
    page_bytes: usize,
    options: &CreateOptions,
) -> Result<(Drafted, PathBuf), String> {
    let size = amount(page_bytes as u64);
    let SegmentName::Shm(short) = name else {
        return Err(format!("no {size} pages, as a file has those of its file system"));
    };
    if options.ceiling < page_bytes as u64 {
        return Err(format!("no {size} pages, as the ceiling is smaller than one"));
    }
    let target = pages::hugetlbfs(page_bytes)?.join(format!("{short}.{:016x}", place::random_word()));
    let drafted = draft_at(name, &target, options).and_then(|drafted| {
        drafted.mapping.grow_to(options.initial_bytes.max(1))?;
        Ok(drafted)
    });
    let drafted = drafted.map_err(|cause| format!("no {size} pages, as {cause}"))?;
    Ok((drafted, target))
}

impl Unnamed {
    /// Gives the file its name; `EXIST` if another process has taken that first. One that stands elsewhere
    /// gets its place first, and then the signpost, whose link decides which creator was first.
    pub(crate) fn publish(self, mapping: &Mapping, door: &Path) -> Result<(), Errno> {
        let file = mapping.file().expect("what is drafted is a file");
        let Some(target) = self.behind else { return self.draft.publish(file, door) };
        let state = rustix::fs::fstat(file)?;
        self.draft.publish(file, &target)?;
        let signpost = Signpost::File(target.clone());
        raise_signpost(&signpost, door, state.st_mode, Some(state.st_gid)).inspect_err(|_| {
            // No other process knows the name of this file.
            let _ = rustix::fs::unlink(&target);
        })
    }
}

/// Sets group and mode, whatever the umask says. Before the file has a name, so that there is no moment between.
fn grant(file: BorrowedFd<'_>, mode: u32, group: Option<u32>) -> Result<(), Errno> {
    if let Some(group) = group {
        rustix::fs::fchown(file, None, Some(Gid::from_raw(group)))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o777))
}

/// Puts a signpost at the door, readable for the users that may use what it points to.
pub(crate) fn raise_signpost(
    signpost: &Signpost,
    door: &Path,
    mode: u32,
    group: Option<u32>,
) -> Result<(), Errno> {
    let (file, draft) = Draft::beside(door)?;
    let text = signpost.text();
    if rustix::io::write(&file, &text)? != text.len() {
        return Err(Errno::NOSPC);
    }
    grant(file.as_fd(), mode, group)?;
    draft.publish(file.as_fd(), door)
}

/// Checks a file by reading (M3), then maps it.
pub(crate) fn attach(
    name: &SegmentName,
    residence: Residence,
    file: OwnedFd,
    expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
) -> Result<Mapping, Fault> {
    let refused = |errno| fault("open", name, errno);
    // A `file:` segment is entered one at a time, since the first process of a boot puts it in order (`renew.rs`); the turn
    // ends with `Mapping::enter` or with the file.
    if matches!(name, SegmentName::File(_)) {
        presence::await_turn(&file).map_err(|errno| locks(name, errno))?;
    } else {
        // Only for tools that show which processes are attached.
        let _ = presence::enter(&file);
    }
    let mut head = [0; HEAD_BYTES];
    if place::read_head(&file, &mut head).map_err(refused)? < HEAD_BYTES {
        return Err(no_segment(name, "it is too short"));
    }
    let extent = expected(&head)?;
    let ground = pages::ground(&file).map_err(refused)?;
    let state = rustix::fs::fstat(&file).map_err(refused)?;
    let ceiling = judged(name, extent, ground.page_bytes, state.st_size as u64)?;
    // Fewer blocks than were taken: the file has holes, from a copy that skipped zeros or from damage. Filling them asks for
    // space (M1). On a file system that compresses its blocks this changes nothing; it costs a moment and does no harm.
    let whole =
        state.st_blocks as u64 * 512 >= extent.taken.next_multiple_of(ground.step_bytes as u64).min(ceiling);
    let known = Extent { ceiling, taken: if whole { extent.taken } else { 0 } };
    let report = PageReport::of(ground, place::directory_of(&place::door(name)));
    let mapping = Mapping::of_file(name, file, ground, known, report, residence)?;
    mapping.grow_to(extent.taken)?;
    Ok(mapping)
}
