//! What is optional in common commands, by methods in place of words: for the last parameter of the typed methods.
//!
//! ```no_run
//! # async fn tour(db: polder_client::Db) -> Result<(), polder_client::Error> {
//! use polder_client::{Expiry, SetOptions, TrimOptions, ZaddOptions};
//!
//! // SET lock me NX EX 30, and whether it was done.
//! let taken: bool = db.set("lock", "me", SetOptions::new().if_absent().expiry(Expiry::Seconds(30))).await?;
//! // SET greeting hello KEEPTTL GET: the value before.
//! let before: Option<String> = db.set("greeting", "hello", SetOptions::new().expiry(Expiry::Keep).get()).await?;
//! // ZADD board GT CH 7 ann: how many scores grew.
//! let grown: i64 = db.zadd("board", (ZaddOptions::new().if_greater().count_changed(), (7, "ann"))).await?;
//! // XADD jobs MAXLEN ~ 1000 * kind mail
//! let id: String = db.xadd("jobs", (TrimOptions::to_length(1000).roughly(), "*", ("kind", "mail"))).await?;
//! # Ok(())
//! # }
//! ```

use crate::args::{Args, Encoder};

/// When a key expires: for SET and GETEX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// EX: in this many seconds.
    Seconds(u64),
    /// PX: in this many milliseconds.
    Millis(u64),
    /// EXAT: at a time, in seconds since the Unix epoch.
    AtSeconds(u64),
    /// PXAT: at a time, in milliseconds since the Unix epoch.
    AtMillis(u64),
    /// KEEPTTL: as before (SET only).
    Keep,
    /// PERSIST: never (GETEX only).
    Never,
}

impl Expiry {
    fn words(self) -> (&'static str, Option<u64>) {
        match self {
            Expiry::Seconds(time) => ("EX", Some(time)),
            Expiry::Millis(time) => ("PX", Some(time)),
            Expiry::AtSeconds(time) => ("EXAT", Some(time)),
            Expiry::AtMillis(time) => ("PXAT", Some(time)),
            Expiry::Keep => ("KEEPTTL", None),
            Expiry::Never => ("PERSIST", None),
        }
    }
}

impl Args for Expiry {
    fn count(&self) -> usize {
        self.words().count()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        self.words().encode(out);
    }
}

/// Types whose words are made by an expression.
macro_rules! worded {
    ($($type:ty => |$value:ident| $words:expr;)*) => {$(
        impl Args for $type {
            fn count(&self) -> usize {
                let $value = self;
                $words.count()
            }
            fn encode(&self, out: &mut Encoder<'_>) {
                let $value = self;
                $words.encode(out);
            }
        }
    )*};
}

worded! {
    SetOptions => |set| (set.condition, set.get.then_some("GET"), set.expiry);
    ZaddOptions => |zadd| (zadd.condition, zadd.comparison, zadd.count_changed.then_some("CH"), zadd.increment.then_some("INCR"));
    TrimOptions => |trim| (trim.kind, if trim.roughly { "~" } else { "=" }, &trim.threshold, trim.limit.map(|limit| ("LIMIT", limit)));
}

/// What is optional in SET.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetOptions {
    condition: Option<&'static str>,
    get: bool,
    expiry: Option<Expiry>,
}

impl SetOptions {
    /// None of them.
    #[must_use]
    pub fn new() -> SetOptions {
        SetOptions::default()
    }
    /// NX: only if the key is absent.
    #[must_use]
    pub fn if_absent(self) -> SetOptions {
        SetOptions { condition: Some("NX"), ..self }
    }
    /// XX: only if the key is there.
    #[must_use]
    pub fn if_present(self) -> SetOptions {
        SetOptions { condition: Some("XX"), ..self }
    }
    /// GET: the reply is the value before, null if there was none.
    #[must_use]
    pub fn get(self) -> SetOptions {
        SetOptions { get: true, ..self }
    }
    /// When the key expires; without it, never.
    #[must_use]
    pub fn expiry(self, expiry: Expiry) -> SetOptions {
        SetOptions { expiry: Some(expiry), ..self }
    }
}

/// What is optional in ZADD; scores and members follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZaddOptions {
    condition: Option<&'static str>,
    comparison: Option<&'static str>,
    count_changed: bool,
    increment: bool,
}

impl ZaddOptions {
    /// None of them.
    #[must_use]
    pub fn new() -> ZaddOptions {
        ZaddOptions::default()
    }
    /// NX: only members that are absent.
    #[must_use]
    pub fn if_absent(self) -> ZaddOptions {
        ZaddOptions { condition: Some("NX"), ..self }
    }
    /// XX: only members that are there.
    #[must_use]
    pub fn if_present(self) -> ZaddOptions {
        ZaddOptions { condition: Some("XX"), ..self }
    }
    /// GT: a member that is there only if its score grows.
    #[must_use]
    pub fn if_greater(self) -> ZaddOptions {
        ZaddOptions { comparison: Some("GT"), ..self }
    }
    /// LT: a member that is there only if its score shrinks.
    #[must_use]
    pub fn if_less(self) -> ZaddOptions {
        ZaddOptions { comparison: Some("LT"), ..self }
    }
    /// CH: the reply counts members that were changed, too.
    #[must_use]
    pub fn count_changed(self) -> ZaddOptions {
        ZaddOptions { count_changed: true, ..self }
    }
    /// INCR: the score is added to that of the one member; the reply is the sum.
    #[must_use]
    pub fn increment(self) -> ZaddOptions {
        ZaddOptions { increment: true, ..self }
    }
}

/// How far a stream is trimmed: for XADD and XTRIM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrimOptions {
    kind: &'static str,
    roughly: bool,
    threshold: String,
    limit: Option<u64>,
}

impl TrimOptions {
    /// MAXLEN: to this many entries.
    #[must_use]
    pub fn to_length(length: u64) -> TrimOptions {
        TrimOptions { kind: "MAXLEN", roughly: false, threshold: length.to_string(), limit: None }
    }
    /// MINID: to the entries from this one on.
    #[must_use]
    pub fn to_id(id: impl Into<String>) -> TrimOptions {
        TrimOptions { kind: "MINID", roughly: false, threshold: id.into(), limit: None }
    }
    /// `~`: some more may stay, which is faster.
    #[must_use]
    pub fn roughly(self) -> TrimOptions {
        TrimOptions { roughly: true, ..self }
    }
    /// LIMIT: removes at most this many entries at once; only with [`TrimOptions::roughly`].
    #[must_use]
    pub fn limit(self, entries: u64) -> TrimOptions {
        TrimOptions { limit: Some(entries), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: impl Args) -> String {
        let mut out = Vec::new();
        crate::args::encode(&args, &mut out);
        let found: Vec<&[u8]> = crate::rows::words(&out).collect();
        assert_eq!(found.len(), args.count());
        found.into_iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_are_the_words_of_the_command() {
        assert_eq!(words(SetOptions::new()), "");
        assert_eq!(words(SetOptions::new().if_absent().get().expiry(Expiry::Millis(5))), "NX GET PX 5");
        assert_eq!(words(SetOptions::new().if_present().expiry(Expiry::Keep)), "XX KEEPTTL");
        assert_eq!(words((Expiry::Never, Expiry::AtSeconds(7), Expiry::AtMillis(8), Expiry::Seconds(9))), "PERSIST EXAT 7 PXAT 8 EX 9");
        assert_eq!(words((ZaddOptions::new().if_present().if_greater().count_changed().increment(), 1.5, "a")), "XX GT CH INCR 1.5 a");
        assert_eq!(words(ZaddOptions::new().if_absent().if_less()), "NX LT");
        assert_eq!(words(TrimOptions::to_length(10)), "MAXLEN = 10");
        assert_eq!(words(TrimOptions::to_id("5-0").roughly().limit(100)), "MINID ~ 5-0 LIMIT 100");
    }
}
