//! Sorted sets.
use std::ops::RangeBounds;

use crate::families::row_named;
use polder_base::options::{Words, ZaddOptions, ZcombineOptions};
use polder_table::Stop;

use crate::database::{Database, Scope};
use crate::typed::options::Keyed;

mod combine;
mod options;

pub use options::{Extreme, Zrange};
use options::{lex_ends, score_ends};

/// A member and its score.
pub type Scored = (Vec<u8>, f64);

/// # Sorted sets
///
/// Members stand in the order of their scores, and members of the same score in that of their bytes. To wait for a member, see
/// [`Caller::run`](crate::Caller::run) with `BZPOPMIN`.
///
/// ```
/// # let name = format!("shm:polder-doc-sorted-set-{}", std::process::id());
/// # use polder_engine::{Memory, Options, Zrange};
/// # let memory = Memory::attach(&Options { segment: name.clone(), ceiling: 64 << 20, ..Options::default() })?;
/// let db = memory.database(0);
/// db.zadd("board", &[(7.0, "ann"), (3.5, "bob"), (9.0, "eve")])?;
/// assert_eq!(db.zincrby("board", 4.0, "bob")?, 7.5);
/// assert_eq!(db.zrange("board", &Zrange::by_index(0, 1).rev())?, [b"eve", b"bob"]);
/// assert_eq!(db.zrange_withscores("board", &Zrange::by_score(..7.5))?, [(b"ann".to_vec(), 7.0)]);
/// assert_eq!(db.zrevrank("board", "ann")?, Some(2));
/// # Memory::remove(&name)?;
/// # Ok::<(), polder_engine::Stop>(())
/// ```
impl<S: Scope> Database<'_, S> {
    /// `ZADD`: sets the scores of members, and returns how many of them are new.
    ///
    /// # Errors
    /// A score that is not a number; those of [every call](Database#errors).
    pub fn zadd(&self, key: impl AsRef<[u8]>, pairs: &[(f64, impl AsRef<[u8]>)]) -> Result<u64, Stop> {
        self.one(const { row_named("ZADD") }, Words::new().bytes(&key).scored(pairs))
    }

    /// `ZADD` with options: returns how many members are new, or with [`ZaddOptions::count_changed`] how many are new or changed.
    ///
    /// # Errors
    /// Options that exclude each other, a score that is not a number; those of [every call](Database#errors).
    pub fn zadd_with(
        &self,
        key: impl AsRef<[u8]>,
        options: &ZaddOptions,
        pairs: &[(f64, impl AsRef<[u8]>)],
    ) -> Result<u64, Stop> {
        self.one(const { row_named("ZADD") }, Words::new().bytes(&key).options(options).scored(pairs))
    }

    /// `ZADD ... INCR`: adds to the score of a member if the conditions hold, and returns the sum; `None` if they do not.
    ///
    /// # Errors
    /// As [`Database::zadd_with`].
    pub fn zadd_incr(
        &self,
        key: impl AsRef<[u8]>,
        options: &ZaddOptions,
        by: f64,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<f64>, Stop> {
        self.one(
            const { row_named("ZADD") },
            Words::new().bytes(&key).options(options).bytes("INCR").double(by).bytes(&member),
        )
    }

    /// `ZINCRBY`: adds to the score of a member and returns the sum. An absent member counts as 0.
    ///
    /// # Errors
    /// A sum that is not a number; those of [every call](Database#errors).
    pub fn zincrby(&self, key: impl AsRef<[u8]>, by: f64, member: impl AsRef<[u8]>) -> Result<f64, Stop> {
        self.one(const { row_named("ZINCRBY") }, Words::new().bytes(&key).double(by).bytes(&member))
    }

    /// `ZREM`: removes members, and returns how many there were. The key goes with its last member.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrem(&self, key: impl AsRef<[u8]>, members: &[impl AsRef<[u8]>]) -> Result<u64, Stop> {
        self.one(const { row_named("ZREM") }, Words::new().bytes(&key).all(members))
    }

    /// `ZCARD`: the number of members.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zcard(&self, key: impl AsRef<[u8]>) -> Result<u64, Stop> {
        self.one(const { row_named("ZCARD") }, Words::new().bytes(&key))
    }

    /// `ZSCORE`: the score of a member.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zscore(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<Option<f64>, Stop> {
        self.one(const { row_named("ZSCORE") }, Words::new().bytes(&key).bytes(&member))
    }

    /// `ZMSCORE`: the scores of members, in their order.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zmscore(
        &self,
        key: impl AsRef<[u8]>,
        members: &[impl AsRef<[u8]>],
    ) -> Result<Vec<Option<f64>>, Stop> {
        self.several(const { row_named("ZMSCORE") }, Words::new().bytes(&key).all(members))
    }

    /// `ZRANK`: how many members stand before this one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrank(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<Option<u64>, Stop> {
        self.one(const { row_named("ZRANK") }, Words::new().bytes(&key).bytes(&member))
    }

    /// `ZRANK ... WITHSCORE`: as [`Database::zrank`], with the score.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrank_withscore(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<(u64, f64)>, Stop> {
        self.several(const { row_named("ZRANK") }, Words::new().bytes(&key).bytes(&member).bytes("WITHSCORE"))
    }

    /// `ZREVRANK`: how many members stand behind this one.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrevrank(&self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) -> Result<Option<u64>, Stop> {
        self.one(const { row_named("ZREVRANK") }, Words::new().bytes(&key).bytes(&member))
    }

    /// `ZREVRANK ... WITHSCORE`: as [`Database::zrevrank`], with the score.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrevrank_withscore(
        &self,
        key: impl AsRef<[u8]>,
        member: impl AsRef<[u8]>,
    ) -> Result<Option<(u64, f64)>, Stop> {
        self.several(
            const { row_named("ZREVRANK") },
            Words::new().bytes(&key).bytes(&member).bytes("WITHSCORE"),
        )
    }

    /// `ZCOUNT`: the number of members with scores of a range (`1.0..=5.0`, `2.5..`).
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zcount(&self, key: impl AsRef<[u8]>, range: impl RangeBounds<f64>) -> Result<u64, Stop> {
        let [low, high] = score_ends(&range);
        self.one(const { row_named("ZCOUNT") }, Words::new().bytes(&key).bytes(&low).bytes(&high))
    }

    /// `ZLEXCOUNT`: the number of members from one to another (`"a".."c"`, `""..`), where all have the same score.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zlexcount<T: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<T>,
    ) -> Result<u64, Stop> {
        let [low, high] = lex_ends(&range);
        self.one(const { row_named("ZLEXCOUNT") }, Words::new().bytes(&key).bytes(&low).bytes(&high))
    }

    /// `ZRANGE`: the members of a range.
    ///
    /// # Errors
    /// A limit for a range by index; those of [every call](Database#errors).
    pub fn zrange(&self, key: impl AsRef<[u8]>, range: &Zrange) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("ZRANGE") }, Words::new().bytes(&key).options(range))
    }

    /// `ZRANGE ... WITHSCORES`: the members of a range, with their scores.
    ///
    /// # Errors
    /// As [`Database::zrange`], and a range by members.
    pub fn zrange_withscores(&self, key: impl AsRef<[u8]>, range: &Zrange) -> Result<Vec<Scored>, Stop> {
        self.several(
            const { row_named("ZRANGE") },
            Words::new().bytes(&key).options(range).bytes("WITHSCORES"),
        )
    }

    /// `ZRANGESTORE`: stores the members of a range in another key, and returns how many.
    ///
    /// # Errors
    /// As [`Database::zrange`].
    pub fn zrangestore(
        &self,
        destination: impl AsRef<[u8]>,
        source: impl AsRef<[u8]>,
        range: &Zrange,
    ) -> Result<u64, Stop> {
        self.one(
            const { row_named("ZRANGESTORE") },
            Words::new().bytes(&destination).bytes(&source).options(range),
        )
    }

    /// `ZREMRANGEBYRANK`: removes the members from one index to another, both included, and returns how many.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zremrangebyrank(&self, key: impl AsRef<[u8]>, start: i64, stop: i64) -> Result<u64, Stop> {
        self.one(
            const { row_named("ZREMRANGEBYRANK") },
            Words::new().bytes(&key).integer(start).integer(stop),
        )
    }

    /// `ZREMRANGEBYSCORE`: removes the members with scores of a range, and returns how many.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zremrangebyscore(&self, key: impl AsRef<[u8]>, range: impl RangeBounds<f64>) -> Result<u64, Stop> {
        let [low, high] = score_ends(&range);
        self.one(const { row_named("ZREMRANGEBYSCORE") }, Words::new().bytes(&key).bytes(&low).bytes(&high))
    }

    /// `ZREMRANGEBYLEX`: removes the members from one to another, where all have the same score, and returns how many.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zremrangebylex<T: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<T>,
    ) -> Result<u64, Stop> {
        let [low, high] = lex_ends(&range);
        self.one(const { row_named("ZREMRANGEBYLEX") }, Words::new().bytes(&key).bytes(&low).bytes(&high))
    }

    /// `ZPOPMIN`: takes up to that many members with the lowest scores.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zpopmin(&self, key: impl AsRef<[u8]>, count: u64) -> Result<Vec<Scored>, Stop> {
        self.several(const { row_named("ZPOPMIN") }, Words::new().bytes(&key).count(count))
    }

    /// `ZPOPMAX`: takes up to that many members with the highest scores, the highest first.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zpopmax(&self, key: impl AsRef<[u8]>, count: u64) -> Result<Vec<Scored>, Stop> {
        self.several(const { row_named("ZPOPMAX") }, Words::new().bytes(&key).count(count))
    }

    /// `ZMPOP`: takes up to `count` members from the first of the sorted sets that has any. Returns its key and them.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zmpop(
        &self,
        keys: &[impl AsRef<[u8]>],
        end: Extreme,
        count: u64,
    ) -> Result<Option<Keyed<Scored>>, Stop> {
        self.several(
            const { row_named("ZMPOP") },
            Words::new().counted(keys).bytes(end.word()).bytes("COUNT").count(count),
        )
    }

    /// `ZRANDMEMBER`: a random member.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrandmember(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Stop> {
        self.one(const { row_named("ZRANDMEMBER") }, Words::new().bytes(&key))
    }

    /// `ZRANDMEMBER` with a count: that number of different random members, or all of them; of a negative count that number of members, some
    /// perhaps several times.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrandmember_many(&self, key: impl AsRef<[u8]>, count: i64) -> Result<Vec<Vec<u8>>, Stop> {
        self.several(const { row_named("ZRANDMEMBER") }, Words::new().bytes(&key).integer(count))
    }

    /// `ZRANDMEMBER ... WITHSCORES`: as [`Database::zrandmember_many`], with the scores.
    ///
    /// # Errors
    /// Those of [every call](Database#errors).
    pub fn zrandmember_withscores(&self, key: impl AsRef<[u8]>, count: i64) -> Result<Vec<Scored>, Stop> {
        self.several(
            const { row_named("ZRANDMEMBER") },
            Words::new().bytes(&key).integer(count).bytes("WITHSCORES"),
        )
    }
}
