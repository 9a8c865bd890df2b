//! What the change log is told of a string that has flags, or other attributes of an item: stock servers keep the value, and pass over the rest.
use polder_calls::call::{Call, Outcome};
use polder_table::{Aside, Found, ItemExtras};
use polder_values::string;

/// Says what an item has become, with its value.
pub(crate) fn tell_item(call: &Call<'_>, key: &[u8]) -> Outcome {
    if !call.tells_itself() {
        return Ok(());
    }
    let Some(found) = call.txn.peek(call.db(), key)? else { return Ok(()) };
    let value = string::contiguous(call.txn, &found.value)?;
    match found.expiry_ms {
        None => call.tell(&[b"SET", key, &value]),
        Some(expiry_ms) => call.tell(&[b"SET", key, &value, b"PXAT", expiry_ms.to_string().as_bytes()]),
    }
    call.txn.tell_item(call.db(), key, &found);
    Ok(())
}

/// Says what has become of a key whose value stays. `is_marked`: what an item has beside value and expiry has changed.
pub(crate) fn tell_edited(call: &Call<'_>, key: &[u8], is_marked: bool, expires_as_before: bool) -> Outcome {
    if !call.tells_itself() {
        return Ok(());
    }
    let Some(found) = call.txn.peek(call.db(), key)? else { return Ok(()) };
    // One of both is told: the key has been written.
    if !expires_as_before || !is_marked {
        match found.expiry_ms {
            None => call.tell(&[b"PERSIST", key]),
            Some(expiry_ms) => call.tell(&[b"PEXPIREAT", key, expiry_ms.to_string().as_bytes()]),
        }
    }
    if is_marked {
        tell_mark(call, key, &found);
    }
    Ok(())
}

/// Says all that an item has beside value and expiry, also where that is nothing any more.
fn tell_mark(call: &Call<'_>, key: &[u8], found: &Found<'_>) {
    let extras = ItemExtras::decode(found.extras).portable();
    call.txn.tell_aside(call.db(), &Aside::Item { key, flags: found.flags, extras });
}
