//! What is optional in common commands, by methods in place of words: for the last parameter of the typed methods.
//!
//! ```no_run
//! # async fn tour(db: polder_client::Db) -> Result<(), polder_client::Error> {
//! use std::time::Duration;
//! use polder_client::{Expiry, SetOptions, Trim, XaddOptions, ZaddOptions};
//!
//! // SET lock me NX PX 30000, and whether it was done.
//! let lock = SetOptions::new().if_absent().expiry(Expiry::In(Duration::from_secs(30)));
//! let taken: bool = db.set("lock", "me", lock).await?;
//! // SET greeting hello GET KEEPTTL: the value before.
//! let before: Option<String> = db.set("greeting", "hello", ("GET", Expiry::Keep)).await?;
//! // ZADD board GT CH 7 ann: how many scores grew.
//! let grown: i64 = db.zadd("board", (ZaddOptions::new().if_greater().count_changed(), 7, "ann")).await?;
//! // XADD jobs MAXLEN ~ 1000 * kind mail
//! let id: String = db.xadd("jobs", (XaddOptions::new().trim(Trim::maxlen(1000).roughly()), "kind", "mail")).await?;
//! # Ok(())
//! # }
//! ```
//! The builders are those of `polder_base::options`, which typed calls in shared memory take, too.

use polder_base::options::{
    ExpireIf, Expiry, HsetexOptions, LposOptions, ScanOptions, SetOptions, Trim, Words, XaddOptions,
    ZaddOptions, ZcombineOptions,
};

use crate::args::{Args, Encoder};

/// Types whose words a builder fills in.
macro_rules! worded {
    ($($type:ty),* $(,)?) => {$(
        impl Args for $type {
            fn count(&self) -> usize {
                Words::new().options(self).len()
            }
            fn encode(&self, out: &mut Encoder<'_>) {
                Words::new().options(self).iter().for_each(|word| out.bytes(word));
            }
        }
    )*};
}

worded! {
    ExpireIf, Expiry, HsetexOptions, LposOptions, ScanOptions<'_>, SetOptions<'_>, Trim, XaddOptions, ZaddOptions, ZcombineOptions,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_among_other_arguments() {
        let mut out = Vec::new();
        let scored = (ZaddOptions::new().if_present().if_greater().count_changed(), "INCR", 1.5, "a");
        crate::args::encode(&("ZADD", "z", scored), &mut out);
        assert_eq!(
            crate::rows::words(&out).collect::<Vec<_>>(),
            ["ZADD", "z", "XX", "GT", "CH", "INCR", "1.5", "a"].map(str::as_bytes)
        );
        assert!(out.starts_with(b"*8\r\n"));
    }
}
