//! Replies of this process to the questions of others ([`polder_runtime::cross_process`]).
use polder_runtime::acl;
use polder_runtime::session::Host;

use crate::{client, commandlog, latency, metrics};

/// Replies to a question of another process about this one.
pub fn answer(host: &dyn Host, words: &[&[u8]]) -> Vec<u8> {
    match words {
        [b"INFO"] => metrics::report::write(host).into_bytes(),
        [b"RESETSTAT"] => {
            host.recorder().reset();
            Vec::new()
        }
        [b"COMMANDLOG", words @ ..] => commandlog::answer(host, words).into_bytes(),
        [b"LATENCY", words @ ..] => latency::answer(host, words).into_bytes(),
        [b"DENIALS", words @ ..] => acl::log::answer(host, words).into_bytes(),
        words => client::answer(host, words),
    }
}
