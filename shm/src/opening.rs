//! Makes segments under a name, finds them by it, and opens what was found.

use std::os::fd::OwnedFd;

use polder_base::Fault;
use rustix::io::Errno;

use crate::mapping::{CreateOptions, Extent, Mapping, Residence, no_segment};
use crate::name::SegmentName;
use crate::owner::Admission;
use crate::place::{self, HEAD_BYTES, Memory, Refusal};
use crate::shmget::Attached;
use crate::trouble::{amount, fault};
use crate::{files, fork, sysv};

/// Why there is no new segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The name is taken; attach to it. If several processes create it at once, all but one get this.
    #[error("ERR {0} exists already")]
    AlreadyExists(SegmentName),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a segment could not be attached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// There is none of this name.
    #[error("ERR there is no segment {0}")]
    Absent(SegmentName),
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The way of a segment that is whole, but has no name yet, to that name. If it is dropped, there never was
/// such a segment.
pub struct Unnamed {
    name: SegmentName,
    way: Way,
}

enum Way {
    File(files::Unnamed),
    Sysv(sysv::Unnamed),
}

impl Unnamed {
    /// Gives the segment its name: from here on others can attach it (M2).
    ///
    /// # Errors
    /// [`CreateError::AlreadyExists`] if another process has taken the name first, or a fault.
    pub fn publish(self, mapping: &Mapping) -> Result<(), CreateError> {
        let door = place::door(&self.name);
        let published = match self.way {
            Way::File(file) => file.publish(mapping, &door),
            Way::Sysv(memory) => memory.publish(&door),
        };
        published.map_err(|errno| match errno {
            Errno::EXIST => CreateError::AlreadyExists(self.name),
            errno => fault("create", &self.name, errno).into(),
        })
    }
}

impl Mapping {
    /// Makes a segment, has `init` fill it, and only then lets others see it under its name (M2). If anything fails,
    /// nothing is left. In `init` the first `initial_bytes` may be touched and are zero.
    pub fn create(
        name: &SegmentName,
        options: &CreateOptions,
        init: impl FnOnce(&Mapping) -> Result<(), Fault>,
    ) -> Result<Mapping, CreateError> {
        let (mapping, unnamed) = Mapping::draft(name, options, init)?;
        unnamed.publish(&mapping)?;
        Ok(mapping)
    }

    /// Makes a segment like [`Mapping::create`] that has no name yet: if the process dies, nothing is left of
    /// it. (Of a `sysv:` segment the memory is left, which `ipcrm` removes.)
    ///
    /// # Errors
    /// Those of [`Mapping::create`].
    pub fn draft(
        name: &SegmentName,
        options: &CreateOptions,
        init: impl FnOnce(&Mapping) -> Result<(), Fault>,
    ) -> Result<(Mapping, Unnamed), CreateError> {
        fork::watch();
        if std::fs::symlink_metadata(place::door(name)).is_ok() {
            return Err(CreateError::AlreadyExists(name.clone()));
        }
        if options.initial_bytes > options.ceiling || options.ceiling == 0 {
            let text = format!(
                "a ceiling of {} has no room for {} at the start",
                amount(options.ceiling),
                amount(options.initial_bytes)
            );
            return Err(Fault::System(text).into());
        }
        let (mapping, way) = match name {
            SegmentName::Sysv(_) => {
                let (mapping, memory) = sysv::draft(name, options, init)?;
                (mapping, Way::Sysv(memory))
            }
            SegmentName::Shm(_) | SegmentName::File(_) => {
                let (mapping, file) = files::draft(name, options, init)?;
                (mapping, Way::File(file))
            }
        };
        Ok((mapping, Unnamed { name: name.clone(), way }))
    }

    /// Maps a segment that exists. `expected` judges its first `HEAD_BYTES` bytes, a copy, and says how large it is.
    pub fn attach(
        name: &SegmentName,
        residence: Residence,
        admission: Admission,
        expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
    ) -> Result<Mapping, AttachError> {
        let mapping = Mapping::attach_in_turn(name, residence, admission, expected)?;
        mapping.enter()?;
        Ok(mapping)
    }

    /// The same, but [`Mapping::enter`] is left to the caller: until then no other process attaches or leaves a `file:` segment.
    pub(crate) fn attach_in_turn(
        name: &SegmentName,
        residence: Residence,
        admission: Admission,
        expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
    ) -> Result<Mapping, AttachError> {
        fork::watch();
        Ok(found(name, admission)?.map(name, residence, expected)?)
    }
}

/// What a name was found to lead to, opened.
pub struct Found(Kind);

enum Kind {
    File(OwnedFd),
    Sysv(Attached),
}

impl Found {
    pub(crate) fn file(file: OwnedFd) -> Found {
        Found(Kind::File(file))
    }

    pub(crate) fn sysv(memory: Attached) -> Found {
        Found(Kind::Sysv(memory))
    }

    /// As [`Mapping::attach`], of what has been opened.
    pub(crate) fn map(
        self,
        name: &SegmentName,
        residence: Residence,
        expected: impl FnOnce(&[u8; HEAD_BYTES]) -> Result<Extent, Fault>,
    ) -> Result<Mapping, Fault> {
        let mapping = match self.0 {
            Kind::File(file) => files::attach(name, residence, file, expected)?,
            Kind::Sysv(memory) => sysv::attach(name, residence, memory, expected)?,
        };
        mapping.reside()?;
        Ok(mapping)
    }
}

/// How often to look again at a name that leads to nothing before it is called broken.
const LOOKS: u32 = 100;

/// Follows a name to its memory. A segment that is removed meanwhile counts as absent, or is another segment by then. A
/// door that leads to nothing at every look is broken, which is an error of its own: `create` could not mend it, so a
/// caller that attaches or creates by turns would never end if it counted as absent.
fn found(name: &SegmentName, admission: Admission) -> Result<Found, AttachError> {
    for _ in 0..LOOKS {
        match place::open(name, admission) {
            Ok(Memory::File(file)) => return Ok(Found::file(file)),
            Ok(Memory::Sysv(id)) => match Attached::new(id) {
                Ok(memory) => {
                    memory.judge(name, admission)?;
                    return Ok(Found::sysv(memory));
                }
                Err(Errno::INVAL | Errno::IDRM) => {}
                Err(errno) => return Err(fault("open", name, errno).into()),
            },
            Err(Refusal::Judged(fault)) => return Err(fault.into()),
            Err(Refusal::System(Errno::NOENT)) if std::fs::symlink_metadata(place::door(name)).is_err() => {
                return Err(AttachError::Absent(name.clone()));
            }
            Err(Refusal::System(Errno::NOENT)) => {}
            Err(Refusal::System(Errno::BADMSG | Errno::NODEV)) => {
                return Err(no_segment(name, "it is something else").into());
            }
            Err(Refusal::System(errno)) => return Err(fault("open", name, errno).into()),
        }
        std::thread::yield_now();
    }
    let advice = format!("'polder segment remove {name}' frees the name");
    Err(Fault::System(format!(
        "the memory of {name} is gone (removed by ipcrm or rm, or in another container): {advice}"
    ))
    .into())
}
