//! Methods of the group `sorted-set`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `BZMPOP timeout numkeys key [key ...] <MIN|MAX> [COUNT count]`: Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.
    bzmpop("BZMPOP", timeout: f64, numkeys: i64, keys: impl Args, more: impl Args);

    /// `BZPOPMAX key [key ...] timeout`: Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available otherwise. Deletes the sorted set if the last element was popped.
    bzpopmax("BZPOPMAX", keys: impl Args, timeout: f64);

    /// `BZPOPMIN key [key ...] timeout`: Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped.
    bzpopmin("BZPOPMIN", keys: impl Args, timeout: f64);

    /// `ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]`: Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.
    zadd("ZADD", key: impl Args, more: impl Args);

    /// `ZCARD key`: Returns the number of members in a sorted set.
    zcard("ZCARD", key: impl Args);

    /// `ZCOUNT key min max`: Returns the count of members in a sorted set that have scores within a range.
    zcount("ZCOUNT", key: impl Args, min: impl Args, max: impl Args);

    /// `ZDIFF numkeys key [key ...] [WITHSCORES]`: Returns the difference between multiple sorted sets.
    zdiff("ZDIFF", numkeys: i64, keys: impl Args, more: impl Args);

    /// `ZDIFFSTORE destination numkeys key [key ...]`: Stores the difference of multiple sorted sets in a key.
    zdiffstore("ZDIFFSTORE", destination: impl Args, numkeys: i64, keys: impl Args);

    /// `ZINCRBY key increment member`: Increments the score of a member in a sorted set: in decimal, unless number-mode says otherwise.
    zincrby("ZINCRBY", key: impl Args, increment: f64, member: impl Args);

    /// `ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]`: Returns the intersect of multiple sorted sets.
    zinter("ZINTER", numkeys: i64, keys: impl Args, more: impl Args);

    /// `ZINTERCARD numkeys key [key ...] [LIMIT limit]`: Returns the number of members of the intersect of multiple sorted sets.
    zintercard("ZINTERCARD", numkeys: i64, keys: impl Args, more: impl Args);

    /// `ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]`: Stores the intersect of multiple sorted sets in a key.
    zinterstore("ZINTERSTORE", destination: impl Args, numkeys: i64, keys: impl Args, more: impl Args);

    /// `ZLEXCOUNT key min max`: Returns the number of members in a sorted set within a lexicographical range.
    zlexcount("ZLEXCOUNT", key: impl Args, min: impl Args, max: impl Args);

    /// `ZMPOP numkeys key [key ...] <MIN|MAX> [COUNT count]`: Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped.
    zmpop("ZMPOP", numkeys: i64, keys: impl Args, more: impl Args);

    /// `ZMSCORE key member [member ...]`: Returns the score of one or more members in a sorted set.
    zmscore("ZMSCORE", key: impl Args, members: impl Args);

    /// `ZPOPMAX key [count]`: Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.
    zpopmax("ZPOPMAX", key: impl Args, more: impl Args);

    /// `ZPOPMIN key [count]`: Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped.
    zpopmin("ZPOPMIN", key: impl Args, more: impl Args);

    /// `ZRANDMEMBER key [count [WITHSCORES]]`: Returns one or more random members from a sorted set.
    zrandmember("ZRANDMEMBER", key: impl Args, more: impl Args);

    /// `ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`: Returns members in a sorted set within a range of indexes, of scores or of members.
    zrange("ZRANGE", key: impl Args, start: impl Args, stop: impl Args, more: impl Args);

    /// `ZRANGEBYLEX key min max [LIMIT offset count]`: Returns members in a sorted set within a lexicographical range.
    zrangebylex("ZRANGEBYLEX", key: impl Args, min: impl Args, max: impl Args, more: impl Args);

    /// `ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]`: Returns members in a sorted set within a range of scores.
    zrangebyscore("ZRANGEBYSCORE", key: impl Args, min: impl Args, max: impl Args, more: impl Args);

    /// `ZRANGESTORE destination source min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]`: Stores a range of members from sorted set in a key.
    zrangestore("ZRANGESTORE", destination: impl Args, source: impl Args, min: impl Args, max: impl Args, more: impl Args);

    /// `ZRANK key member [WITHSCORE]`: Returns the index of a member in a sorted set ordered by ascending scores.
    zrank("ZRANK", key: impl Args, member: impl Args, more: impl Args);

    /// `ZREM key member [member ...]`: Removes one or more members from a sorted set. Deletes the sorted set if all members were removed.
    zrem("ZREM", key: impl Args, members: impl Args);

    /// `ZREMRANGEBYLEX key min max`: Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed.
    zremrangebylex("ZREMRANGEBYLEX", key: impl Args, min: impl Args, max: impl Args);

    /// `ZREMRANGEBYRANK key start stop`: Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed.
    zremrangebyrank("ZREMRANGEBYRANK", key: impl Args, start: i64, stop: i64);

    /// `ZREMRANGEBYSCORE key min max`: Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed.
    zremrangebyscore("ZREMRANGEBYSCORE", key: impl Args, min: impl Args, max: impl Args);

    /// `ZREVRANGE key start stop [WITHSCORES]`: Returns members in a sorted set within a range of indexes in reverse order.
    zrevrange("ZREVRANGE", key: impl Args, start: impl Args, stop: impl Args, more: impl Args);

    /// `ZREVRANGEBYLEX key max min [LIMIT offset count]`: Returns members in a sorted set within a lexicographical range in reverse order.
    zrevrangebylex("ZREVRANGEBYLEX", key: impl Args, max: impl Args, min: impl Args, more: impl Args);

    /// `ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]`: Returns members in a sorted set within a range of scores in reverse order.
    zrevrangebyscore("ZREVRANGEBYSCORE", key: impl Args, max: impl Args, min: impl Args, more: impl Args);

    /// `ZREVRANK key member [WITHSCORE]`: Returns the index of a member in a sorted set ordered by descending scores.
    zrevrank("ZREVRANK", key: impl Args, member: impl Args, more: impl Args);

    /// `ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]`: Iterates over members and scores of a sorted set.
    zscan("ZSCAN", key: impl Args, cursor: impl Args, more: impl Args);

    /// `ZSCORE key member`: Returns the score of a member in a sorted set.
    zscore("ZSCORE", key: impl Args, member: impl Args);

    /// `ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]`: Returns the union of multiple sorted sets.
    zunion("ZUNION", numkeys: i64, keys: impl Args, more: impl Args);

    /// `ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]`: Stores the union of multiple sorted sets in a key.
    zunionstore("ZUNIONSTORE", destination: impl Args, numkeys: i64, keys: impl Args, more: impl Args);
}
