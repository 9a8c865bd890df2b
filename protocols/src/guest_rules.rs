//! What clients over UDP may do: they have no connection, and nothing shows that they are who they say.

/// What guests may do at present.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuestRules {
    /// Whether guests are served: the default user needs no password.
    pub is_open: bool,
    /// Whether other hosts are not.
    pub is_protected: bool,
    /// The longest reply, in bytes.
    pub reply_bytes_max: usize,
    /// How many times the bytes of a request a reply to another host may have; 0 for no limit.
    pub amplification: usize,
}
