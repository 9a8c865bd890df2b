//! What a segment has to know of the machine and its present life.

use polder_base::Fault;
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;

use crate::layout::header;
use crate::trouble::fault;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Which life of the machine this is: another one after each start. Containers on one machine see the same.
pub fn boot_id() -> Result<[u8; 16], Fault> {
    let text = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    let digits: String = text.trim().chars().filter(|&c| c != '-').collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(id) if digits.len() == 32 => Ok(id.to_be_bytes()),
        _ => Err(Fault::System(format!(
            "cannot read {BOOT_ID}: mount /proc, so that a segment can be told from one before a reboot"
        ))),
    }
}

/// The same as it stands in a header.
pub(crate) fn boot_words() -> Result<[u64; 2], Fault> {
    let boot = boot_id()?;
    let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| boot[at + byte]));
    Ok([word(0), word(8)])
}

/// Secret bytes: the seed of a segment's hash, which a client must not be able to guess. Waits for the kernel's randomness, which
/// takes time only in the first seconds of a machine's life.
pub fn random_seed() -> Result<[u8; 16], Fault> {
    let mut seed = [0; 16];
    loop {
        match rustix::rand::getrandom(&mut seed, GetRandomFlags::empty()) {
            Ok(16) => return Ok(seed),
            // Up to 256 bytes come whole, unless a signal came first.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(fault("read", &"random bytes", errno)),
        }
    }
}

/// A random distance between versions, of this many bits. A client may keep versions (as a CAS or ETag) from an earlier memory of the
/// same data. Versions that begin, or go on, at a random place are others.
pub fn random_distance(bits: u32) -> Result<u64, Fault> {
    let random = random_seed()?;
    Ok(u64::from_ne_bytes(random[..8].try_into().expect("8 bytes")) >> (u64::BITS - bits))
}

/// The secret of a new segment's hash.
pub fn random_secret() -> Result<[u8; header::SECRET_BYTES], Fault> {
    let mut secret = [0; header::SECRET_BYTES];
    for part in secret.chunks_exact_mut(16) {
        part.copy_from_slice(&random_seed()?);
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_one_id() {
        assert_eq!(boot_id(), boot_id());
        assert_ne!(boot_id().unwrap(), [0; 16]);
    }

    #[test]
    fn no_two_seeds_are_alike() {
        assert_ne!(random_seed().unwrap(), random_seed().unwrap());
    }
}
