//! The users of a segment as they were at one moment.
use std::collections::BTreeMap;
use std::sync::Arc;

use super::DEFAULT_USER;
use super::user::User;

/// All users at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) mark: u64,
    pub(crate) default: Arc<User>,
    /// Each with the version of the key that holds it.
    pub(crate) users: BTreeMap<Vec<u8>, (u64, Arc<User>)>,
}

impl Snapshot {
    /// U3.
    pub(crate) fn first() -> Snapshot {
        let default = Arc::new(User::first());
        let users = BTreeMap::from([(DEFAULT_USER.to_vec(), (0, default.clone()))]);
        Snapshot { mark: 0, default, users }
    }

    /// The user of that name.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name).map(|(_, user)| user)
    }

    /// Everyone, by name.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Arc<User>> {
        self.users.values().map(|(_, user)| user)
    }

    /// The user that a client is before it says who it is.
    pub fn default_user(&self) -> &Arc<User> {
        &self.default
    }

    /// Whether they have never been changed.
    pub fn is_untouched(&self) -> bool {
        self.mark == 0
    }

    /// Whether clients need not say who they are.
    pub fn is_open(&self) -> bool {
        self.default.on && self.default.open
    }
}

/// A number for a new user that no other one has had.
pub fn fresh_serial() -> u64 {
    let mut bytes = [0; 8];
    super::random(&mut bytes);
    u64::from_le_bytes(bytes).max(1)
}
