//! The users of a segment: their rules ([`user`]), where they are kept ([`kept`]) and read from ([`file`]), and what a session may do as one of
//! them ([`rights`]). Calls are checked by `acl`.
pub mod file;
pub mod kept;
pub mod rights;
pub mod rows;
pub mod snapshot;
mod unique;
pub mod user;

pub use kept::Users;
pub use rights::Rights;

/// The user that a client is before it says who it is.
pub(crate) const DEFAULT_USER: &[u8] = b"default";

/// Fills a buffer with bytes that cannot be foreseen.
///
/// # Panics
/// When the system has no random bytes, which Linux rules out.
pub(crate) fn random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no random bytes: {error}"),
        }
    }
}
