//! What is left in the end, against everything that was noted.
use std::path::Path;

use super::actor::{check_history, group_of, journal_of, tokens_of};
use super::journal::History;
use super::tokens::Account;
use super::{COUNTERS, GROUP_KEYS, QUEUES, SHARED_GROUPS, counter_key, ledgers, shared_key};
use crate::answer::Answer;
use crate::way::Way;

/// Compares the memory with the files of `actors` actors; what is wrong goes to `failures`. Returns
/// how many deeds were acknowledged.
///
/// # Errors
/// When a file cannot be read, or the memory gives no reply.
pub fn journals(place: &str, folder: &Path, actors: u32, failures: &mut Vec<String>) -> Result<u64, String> {
    let mut way = Way::to(place)?;
    let (mut histories, mut account) = (Vec::new(), Account::default());
    for id in 0..actors {
        let history = History::read(&journal_of(folder, id)).map_err(|error| error.to_string())?;
        failures.extend(check_history(&mut way, id, &history).err());
        histories.push(history);
        account.add(&std::fs::read_to_string(tokens_of(folder, id)).unwrap_or_default());
    }
    for group in 0..SHARED_GROUPS {
        let keys: Vec<String> = (0..GROUP_KEYS).map(|at| shared_key(group, at)).collect();
        failures.extend(group_of(&mut way, &keys).err());
    }
    failures.extend(ledgers::check_accounts(&mut way).err());
    failures.extend(account.settle(left_in_queues(&mut way)?));
    for counter in 0..COUNTERS {
        failures.extend(miscounted(&mut way, counter, &histories)?);
    }
    Ok(histories.iter().map(|history| history.acknowledged).sum())
}

fn left_in_queues(way: &mut Way) -> Result<Vec<String>, String> {
    let mut left = Vec::new();
    for queue in 0..QUEUES {
        match way.ask(&["LRANGE", &format!("queue:{queue}"), "0", "-1"])? {
            Answer::Array(items) => left.extend(items.into_iter().map(|item| match item {
                Answer::Bulk(token) => String::from_utf8_lossy(&token).into_owned(),
                other => other.shown(),
            })),
            other => return Err(format!("LRANGE queue:{queue}: {}", other.shown())),
        }
    }
    Ok(left)
}

fn miscounted(way: &mut Way, counter: u32, histories: &[History]) -> Result<Option<String>, String> {
    let sum = |of: fn(&History) -> &std::collections::BTreeMap<u32, u64>| -> u64 {
        histories.iter().filter_map(|history| of(history).get(&counter)).sum()
    };
    let (least, more) = (sum(|history| &history.counted), sum(|history| &history.perhaps_counted));
    let key = counter_key(counter);
    let found = match way.ask(&["GET", &key])? {
        Answer::Bulk(text) => String::from_utf8_lossy(&text).parse().unwrap_or(u64::MAX),
        _ => 0,
    };
    let right = (least..=least + more).contains(&found);
    Ok((!right).then(|| format!("{key} is {found}; {least} were acknowledged and {more} more begun")))
}
