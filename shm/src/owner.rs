//! Which users' segments a process attaches.
//!
//! A process follows offsets, takes locks and runs settings and users (ACL) that it finds in a segment, so each user that
//! may write to the segment is trusted with the process. /dev/shm is a directory that every user may write to: any of them
//! can take a name first. Therefore a segment is refused unless it belongs to the process's own user or to root, and unless
//! no more users may write to it than its owner and its group.
//!
//! What is judged is the opened file (`fstat`) or the attached System V memory, never a path: a path may lead to something
//! else a moment later. A signpost (`place.rs`) is judged before it is followed, and what it leads to once more.

use std::fmt;
use std::str::FromStr;

use polder_base::Fault;
use rustix::fs::Stat;

use crate::name::SegmentName;

/// The permission bit that lets every user write.
const ALL_WRITE: u32 = 0o002;
const ROOT: u32 = 0;

/// Whose segments are attached, beside those of the process's own user and of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owner {
    /// No other user's.
    #[default]
    Own,
    /// Those of the user with this number.
    User(u32),
    /// Any user's, even if every user may write to it.
    Any,
}

/// Why a text names no owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no user '{0}' in /etc/passwd: give its number, or 'any'")]
pub struct NoSuchUser(String);

impl FromStr for Owner {
    type Err = NoSuchUser;

    /// Reads `any`, the name or the number of a user; nothing means [`Owner::Own`].
    fn from_str(text: &str) -> Result<Owner, NoSuchUser> {
        match text {
            "" => Ok(Owner::Own),
            "any" => Ok(Owner::Any),
            _ => match text.parse() {
                Ok(number) => Ok(Owner::User(number)),
                Err(_) => users(|name, number| (name == text).then_some(Owner::User(number)))
                    .ok_or_else(|| NoSuchUser(text.into())),
            },
        }
    }
}

/// What a process admits when it attaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Admission {
    pub owner: Owner,
    /// Also a segment that every user may write to, if its owner is admitted.
    pub writable_by_all: bool,
}

impl Admission {
    /// Whatever there is: for what is only looked at and never followed.
    pub const ALL: Admission = Admission { owner: Owner::Any, writable_by_all: true };

    /// Whether this user's segments are admitted.
    pub fn admits(&self, user: u32) -> bool {
        match self.owner {
            Owner::Any => true,
            Owner::User(admitted) if admitted == user => true,
            _ => user == ROOT || user == own(),
        }
    }

    /// Refuses what belongs to a user that is not admitted, or may be written to by every user.
    ///
    /// # Errors
    /// [`Fault::System`], with what to do.
    pub(crate) fn judge(&self, name: &SegmentName, user: u32, mode: u32) -> Result<(), Fault> {
        if !self.admits(user) {
            return Err(Fault::System(format!(
                "{name} belongs to {}, this process to {}: a segment's owner controls every process that attaches it; if that user is \
                 trusted, name it as segment-owner ('--segment-owner {}'), or run as that user; otherwise use another name",
                Named(user),
                Named(own()),
                login(user).unwrap_or_else(|| user.to_string()),
            )));
        }
        if mode & ALL_WRITE != 0 && !self.writable_by_all && self.owner != Owner::Any {
            return Err(Fault::System(format!(
                "every user of this machine may write to {name} (mode {:04o}) and so control each process that attaches it: make it anew \
                 with a mode such as 0600 or 0660, or accept that by '--segment-owner any'",
                mode & 0o7777
            )));
        }
        Ok(())
    }

    /// [`Admission::judge`] of an opened file.
    pub(crate) fn judge_file(&self, name: &SegmentName, state: &Stat) -> Result<(), Fault> {
        self.judge(name, state.st_uid, state.st_mode)
    }
}

/// The user that this process acts as.
pub fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A user's name, if /etc/passwd has it.
pub fn login(user: u32) -> Option<String> {
    users(|name, number| (number == user).then(|| name.to_owned()))
}

/// The first user of /etc/passwd for which `pick` returns something. Users of a directory service are known by number.
fn users<T>(pick: impl Fn(&str, u32) -> Option<T>) -> Option<T> {
    let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?.parse().ok()?);
        pick(name, number)
    })
}

/// A user in a message: name and number.
struct Named(u32);

impl fmt::Display for Named {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match login(self.0) {
            Some(name) => write!(out, "user '{name}' ({})", self.0),
            None => write!(out, "user {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_by_name_and_number() {
        assert_eq!("".parse(), Ok(Owner::Own));
        assert_eq!("any".parse(), Ok(Owner::Any));
        assert_eq!("root".parse(), Ok(Owner::User(0)));
        assert_eq!("4711".parse(), Ok(Owner::User(4711)));
        let refusal = "no-such-user".parse::<Owner>().unwrap_err().to_string();
        assert!(refusal.contains("no-such-user") && refusal.contains("number"), "{refusal}");
    }

    #[test]
    fn strangers_and_what_all_may_write_to_are_refused() {
        let name: SegmentName = "shm:x".parse().unwrap();
        let stranger = own() + 1;
        let admits = |owner, writable_by_all, user, mode| {
            Admission { owner, writable_by_all }.judge(&name, user, mode).is_ok()
        };
        assert!(admits(Owner::Own, false, own(), 0o600));
        assert!(admits(Owner::Own, false, ROOT, 0o660));
        assert!(!admits(Owner::Own, false, stranger, 0o600));
        assert!(!admits(Owner::User(stranger + 1), false, stranger, 0o600));
        assert!(admits(Owner::User(stranger), false, stranger, 0o660));
        assert!(!admits(Owner::User(stranger), false, stranger, 0o666));
        assert!(!admits(Owner::Own, false, own(), 0o602));
        assert!(admits(Owner::Own, true, own(), 0o666));
        assert!(admits(Owner::Any, false, stranger, 0o666));
    }
}
