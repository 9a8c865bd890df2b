//! Bytes as C hands them in.
use crate::status::{Done, misuse};

/// Some bytes, which may be any. They need not end with a NUL.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct polder_text {
    pub bytes: *const u8,
    pub length: usize,
}

impl polder_text {
    /// The bytes, for as long as the call lasts.
    ///
    /// # Errors
    /// NULL with a length, a length that nothing can have.
    pub(crate) fn read<'c>(self) -> Done<&'c [u8]> {
        read(self.bytes, self.length)
    }

    /// The bytes where there are some; else [`polder_text::read`] says what is wrong, if anything is.
    #[inline(always)]
    pub(crate) fn peek<'c>(self) -> Option<&'c [u8]> {
        if self.bytes.is_null() || self.length > isize::MAX as usize {
            return None;
        }
        // SAFETY: C1, as in `read`.
        Some(unsafe { std::slice::from_raw_parts(self.bytes, self.length) })
    }
}

/// As many things as C says that lie there.
pub(crate) fn read<'c, T>(at: *const T, count: usize) -> Done<&'c [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return misuse("NULL where there should be something");
    }
    if count > isize::MAX as usize / size_of::<T>().max(1) || !at.is_aligned() {
        return misuse("a size or an address that nothing can have");
    }
    // SAFETY: C1, it points to `count` items, which do not change while the call lasts (stated in the header).
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

/// The arguments of a call, for as long as the call lasts.
pub(crate) fn words<'c>(args: *const polder_text, count: usize) -> Done<Vec<&'c [u8]>> {
    read(args, count)?.iter().map(|arg| arg.read()).collect()
}

/// The text that a C string is.
pub(crate) fn string<'c>(at: *const std::ffi::c_char) -> Done<&'c str> {
    if at.is_null() {
        return misuse("NULL where there should be a name");
    }
    // SAFETY: C1, it leads to bytes of which one is NUL.
    let text = unsafe { std::ffi::CStr::from_ptr(at) };
    text.to_str().or_else(|_| misuse("a name that is no UTF-8"))
}

/// Writes a result where C wants it; NULL says that it does not.
pub(crate) fn give<T>(to: *mut T, value: T) {
    if !to.is_null() && to.is_aligned() {
        // SAFETY: C1, it leads to room for one.
        unsafe { to.write(value) };
    }
}
