//! What the change log is told of a string that has flags, or other attributes of an item: no command of Redis keeps them.
use polder_calls::call::{Call, Outcome};
use polder_table::ItemExtras;
use polder_values::string;

/// Says what an item has become. That a client has won it is not told: elsewhere another one may win it.
pub(crate) fn tell_item(call: &Call<'_>, key: &[u8]) -> Outcome {
    if !call.tells_itself() {
        return Ok(());
    }
    let Some(found) = call.txn.peek(call.db(), key)? else { return Ok(()) };
    let extras = ItemExtras::decode(found.extras);
    let value = string::contiguous(call.txn, &found.value)?;
    // A version means nothing elsewhere.
    let chosen = extras.chosen_cas();
    let [flags, cas, expiry] = [u64::from(found.flags), chosen.unwrap_or(0), found.expiry_ms.unwrap_or(0)]
        .map(|number| number.to_string());
    let mut words: Vec<&[u8]> = vec![b"ITEM.SET", key, &value];
    for (is_said, option, text) in [
        (found.flags != 0, "FLAGS", flags.as_bytes()),
        (chosen.is_some(), "NEWCAS", cas.as_bytes()),
        (!extras.content_type.is_empty(), "TYPE", extras.content_type),
        (found.expiry_ms.is_some(), "PXAT", expiry.as_bytes()),
    ] {
        if is_said {
            words.extend([option.as_bytes(), text]);
        }
    }
    call.tell(&words);
    if extras.stale {
        let mut words: Vec<&[u8]> = vec![b"ITEM.DEL", key, b"STALE"];
        if chosen.is_some() {
            words.extend([&b"NEWCAS"[..], cas.as_bytes()]);
        }
        call.tell(&words);
    }
    Ok(())
}
