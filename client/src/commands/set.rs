//! Methods of the group `set`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `SADD key member [member ...]`: Adds one or more members to a set. Creates the key if it doesn't exist.
    sadd("SADD", key: impl Args, members: impl Args);

    /// `SCARD key`: Returns the number of members in a set.
    scard("SCARD", key: impl Args);

    /// `SDIFF key [key ...]`: Returns the difference of multiple sets.
    sdiff("SDIFF", keys: impl Args);

    /// `SDIFFCARD numkeys key [key ...] [LIMIT limit]`: Returns the number of members of the difference of multiple sets.
    sdiffcard("SDIFFCARD", numkeys: i64, keys: impl Args, more: impl Args);

    /// `SDIFFSTORE destination key [key ...]`: Stores the difference of multiple sets in a key.
    sdiffstore("SDIFFSTORE", destination: impl Args, keys: impl Args);

    /// `SINTER key [key ...]`: Returns the intersect of multiple sets.
    sinter("SINTER", keys: impl Args);

    /// `SINTERCARD numkeys key [key ...] [LIMIT limit]`: Returns the number of members of the intersect of multiple sets.
    sintercard("SINTERCARD", numkeys: i64, keys: impl Args, more: impl Args);

    /// `SINTERSTORE destination key [key ...]`: Stores the intersect of multiple sets in a key.
    sinterstore("SINTERSTORE", destination: impl Args, keys: impl Args);

    /// `SISMEMBER key member`: Determines whether a member belongs to a set.
    sismember("SISMEMBER", key: impl Args, member: impl Args);

    /// `SMEMBERS key`: Returns all members of a set.
    smembers("SMEMBERS", key: impl Args);

    /// `SMISMEMBER key member [member ...]`: Determines whether multiple members belong to a set.
    smismember("SMISMEMBER", key: impl Args, members: impl Args);

    /// `SMOVE source destination member`: Moves a member from one set to another.
    smove("SMOVE", source: impl Args, destination: impl Args, member: impl Args);

    /// `SPOP key [count]`: Returns one or more random members from a set after removing them. Deletes the set if the last member was popped.
    spop("SPOP", key: impl Args, more: impl Args);

    /// `SRANDMEMBER key [count]`: Returns one or more random members from a set.
    srandmember("SRANDMEMBER", key: impl Args, more: impl Args);

    /// `SREM key member [member ...]`: Removes one or more members from a set. Deletes the set if the last member was removed.
    srem("SREM", key: impl Args, members: impl Args);

    /// `SSCAN key cursor [MATCH pattern] [COUNT count]`: Iterates over members of a set.
    sscan("SSCAN", key: impl Args, cursor: impl Args, more: impl Args);

    /// `SUNION key [key ...]`: Returns the union of multiple sets.
    sunion("SUNION", keys: impl Args);

    /// `SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]`: Returns the number of members of the union of multiple sets, or about that number.
    sunioncard("SUNIONCARD", numkeys: i64, keys: impl Args, more: impl Args);

    /// `SUNIONSTORE destination key [key ...]`: Stores the union of multiple sets in a key.
    sunionstore("SUNIONSTORE", destination: impl Args, keys: impl Args);
}
