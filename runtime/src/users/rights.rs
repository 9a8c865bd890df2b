//! What the user of a session may do, as far as that is known without asking again.
use std::sync::Arc;

use super::kept::Users;
use super::user::User;

/// As which user a session acts, and what that user may do.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// The user; without one, the session is trusted with everything.
    pub(crate) user: Option<Arc<User>>,
    /// The version of the users that this is of; 0 before the first.
    pub(crate) version: u64,
    /// Whether the user may do everything.
    pub(crate) free: bool,
}

impl Rights {
    /// Returns true if there is something that the user may not do.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.user.is_some() && !self.free
    }

    /// The rights of a user.
    pub fn of(user: &Arc<User>, version: u64) -> Rights {
        Rights { user: Some(user.clone()), version, free: user.is_free() }
    }

    /// The user, if the session is not simply trusted.
    pub fn user(&self) -> Option<&User> {
        self.user.as_deref()
    }

    /// Whether nothing limits the session, for all that this process knows.
    #[inline]
    pub fn is_free(&self, users: &Users) -> bool {
        self.user.is_none() || self.free && self.version == users.version()
    }

    /// Whether the session is trusted, whichever users there are.
    #[inline]
    pub fn is_trusted(&self) -> bool {
        self.user.is_none()
    }
}
