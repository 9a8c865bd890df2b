//! HIMPORT SET (Redis 8.10): a hash of the fields that the client has named before, and the values of this call.
use std::sync::Arc;

use polder_table::New;
use polder_values::Kind;
use polder_values::hash::{Draft, Expiry};

use super::thresholds;
use polder_calls::call::{Call, Outcome};

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (txn, key, values) = (call.txn, call.args[2], &call.args[4..]);
    let fieldsets = call.caller.fieldsets.as_deref();
    let names = fieldsets.and_then(|all| all.get(call.args[3])).ok_or("ERR no such fieldset")?;
    if names.len() != values.len() {
        return Err("ERR value count does not match the fieldset".into());
    }
    let names = Arc::clone(names);
    let is_there = call.find_kind(key, Kind::Hash)?.is_some();
    let mut draft = Draft::empty(thresholds(call));
    draft.expect(values.len() as u64);
    for (name, value) in names.iter().zip(values) {
        let spot = draft.find(txn, name, || 0)?;
        draft.put(txn, &spot, name, value, Expiry::None)?;
    }
    if is_there {
        call.tell(&[b"DEL", key]);
    }
    let pairs: Vec<&[u8]> = names.iter().zip(values).flat_map(|(name, value)| [&**name, *value]).collect();
    call.tell_many(&[b"HSET", key], &pairs);
    let (value, inner_expiry_ms) = draft.finish(txn)?;
    call.put(key, &New { inner_expiry_ms, ..New::of(Kind::Hash, value) })?;
    call.notify_parts("hset", key, names.iter().map(|name| &**name));
    call.reply.ok();
    Ok(())
}
