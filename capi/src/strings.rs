//! Strings by direct calls: no arguments to put together and no replies to release. They do not take part in an open MULTI.
use std::ffi::c_void;

use polder_engine::{Database, Expiry, SetOptions};

use crate::memory::polder_caller;
use crate::status::polder_status::{self, POLDER_OK, POLDER_TOO_SMALL};
use crate::status::{Done, Failure, absent, guarded, misuse};
use crate::text::{give, polder_text};
use crate::threads::{lend, lend_again};

/// Is shown the string in a key where it lies; NULL where there is none. It must not call Polder, and must not keep the address.
pub type polder_seen = Option<unsafe extern "C" fn(context: *mut c_void, bytes: *const u8, length: usize)>;

fn on_database<R>(caller: polder_caller, work: impl FnOnce(Database<'_>) -> Done<R>) -> Done<R> {
    lend(caller.handle, |door| {
        let number = u8::try_from(door.caller.database()).or_else(|_| misuse("a database beyond 255"))?;
        door.caller.admit()?;
        work(door.caller.memory().database(number))
    })
}

/// Copies the string in a key to `buffer`. `length` gets its length, also when the room is too small (POLDER_TOO_SMALL: nothing is copied). No such
/// key: POLDER_ABSENT.
#[unsafe(no_mangle)]
pub extern "C" fn polder_string_copy(
    caller: polder_caller,
    key: polder_text,
    buffer: *mut u8,
    room: usize,
    length: *mut usize,
) -> polder_status {
    let copied = lend_again(caller.handle, |door| {
        let key = key.peek()?;
        let fits = door.caller.read_quickly(key, |value| {
            let fits = value.len() <= room && !buffer.is_null();
            if fits {
                // SAFETY: C1, as below.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), buffer, value.len()) };
                give(length, value.len());
            }
            fits
        });
        fits.filter(|fits| *fits)
    });
    if copied.is_some() { POLDER_OK } else { copy_guarded(caller, key, (buffer, room), length) }
}

#[inline(never)]
fn copy_guarded(
    caller: polder_caller,
    key: polder_text,
    (buffer, room): (*mut u8, usize),
    length: *mut usize,
) -> polder_status {
    guarded(|| {
        let key = key.read()?;
        if buffer.is_null() && room > 0 {
            return misuse("NULL where the string should be written");
        }
        let copied = on_database(caller, |database| {
            Ok(database.read(key, |value| {
                let value = value?;
                if !value.is_empty() && value.len() <= room {
                    // SAFETY: C1, the buffer has room for `room` bytes; the value lies in the segment and not in C's own buffer.
                    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), buffer, value.len()) };
                }
                Some(value.len())
            })?)
        })?;
        let Some(whole) = copied else { return absent() };
        give(length, whole);
        if whole > room {
            Err(Failure(POLDER_TOO_SMALL, format!("ERR the string has {whole} bytes")))
        } else {
            Ok(())
        }
    })
}

/// Shows the string in a key where it lies, without a copy of a long value. If a writer changes it meanwhile, it is shown again: the last time
/// counts.
#[unsafe(no_mangle)]
pub extern "C" fn polder_string_see(
    caller: polder_caller,
    key: polder_text,
    seen: polder_seen,
    context: *mut c_void,
) -> polder_status {
    guarded(|| {
        let (key, Some(seen)) = (key.read()?, seen) else {
            return misuse("NULL where the callback should be");
        };
        on_database(caller, |database| {
            Ok(database.read(key, |value| {
                let (bytes, length) =
                    value.map_or((std::ptr::null(), 0), |value| (value.as_ptr(), value.len()));
                // SAFETY: C1, a function that takes these.
                unsafe { seen(context, bytes, length) };
            })?)
        })
    })
}

/// Gives a key a string; an expiry that it had is gone.
#[unsafe(no_mangle)]
pub extern "C" fn polder_string_put(
    caller: polder_caller,
    key: polder_text,
    value: polder_text,
) -> polder_status {
    let put = lend_again(caller.handle, |door| Some(door.caller.set_quickly(key.peek()?, value.peek()?)));
    if put == Some(true) { POLDER_OK } else { put_guarded(caller, key, value) }
}

#[inline(never)]
fn put_guarded(caller: polder_caller, key: polder_text, value: polder_text) -> polder_status {
    guarded(|| {
        let (key, value) = (key.read()?, value.read()?);
        on_database(caller, |database| Ok(database.set(key, value)?))
    })
}

/// As `polder_string_put`, with an expiry in milliseconds since the Unix epoch.
#[unsafe(no_mangle)]
pub extern "C" fn polder_string_put_until(
    caller: polder_caller,
    key: polder_text,
    value: polder_text,
    expiry_ms: u64,
) -> polder_status {
    guarded(|| {
        let (key, value) = (key.read()?, value.read()?);
        let until = SetOptions::new().expiry(Expiry::at_ms(expiry_ms));
        on_database(caller, |database| Ok(database.set_with(key, value, &until).map(drop)?))
    })
}

/// Adds to the integer in a key, where an absent one counts as 0; `sum` gets the sum.
#[unsafe(no_mangle)]
pub extern "C" fn polder_string_add(
    caller: polder_caller,
    key: polder_text,
    by: i64,
    sum: *mut i64,
) -> polder_status {
    guarded(|| {
        let key = key.read()?;
        give(sum, on_database(caller, |database| Ok(database.incrby(key, by)?))?);
        Ok(())
    })
}
