//! Methods of the group `hash`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `HDEL key field [field ...]`: Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain.
    hdel("HDEL", key: impl Args, fields: impl Args);

    /// `HEXISTS key field`: Determines whether a field exists in a hash.
    hexists("HEXISTS", key: impl Args, field: impl Args);

    /// `HEXPIRE key seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]`: Sets the expiration time of hash fields in seconds.
    hexpire("HEXPIRE", key: impl Args, seconds: i64, more: impl Args);

    /// `HEXPIREAT key unix-time-seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]`: Sets the expiration time of hash fields to a Unix timestamp in seconds.
    hexpireat("HEXPIREAT", key: impl Args, unix_time_seconds: i64, more: impl Args);

    /// `HEXPIRETIME key FIELDS numfields field [field ...]`: Returns the expiration time of hash fields as a Unix timestamp in seconds.
    hexpiretime("HEXPIRETIME", key: impl Args, more: impl Args);

    /// `HGET key field`: Returns the value of a field in a hash.
    hget("HGET", key: impl Args, field: impl Args);

    /// `HGETALL key`: Returns all fields and values in a hash.
    hgetall("HGETALL", key: impl Args);

    /// `HGETDEL key FIELDS numfields field [field ...]`: Returns the values of hash fields and deletes these. Deletes the hash if no fields remain.
    hgetdel("HGETDEL", key: impl Args, more: impl Args);

    /// `HGETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] FIELDS numfields field [field ...]`: Returns the values of hash fields and sets their expiration time, or removes it.
    hgetex("HGETEX", key: impl Args, more: impl Args);

    /// `HINCRBY key field increment`: Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist.
    hincrby("HINCRBY", key: impl Args, field: impl Args, increment: i64);

    /// `HINCRBYFLOAT key field increment`: Increments the number in a field by a number that need not be whole: in decimal, unless number-mode says otherwise.
    hincrbyfloat("HINCRBYFLOAT", key: impl Args, field: impl Args, increment: impl Args);

    /// `HKEYS key`: Returns all fields in a hash.
    hkeys("HKEYS", key: impl Args);

    /// `HLEN key`: Returns the number of fields in a hash.
    hlen("HLEN", key: impl Args);

    /// `HMGET key field [field ...]`: Returns the values of hash fields, null for those that there are not.
    hmget("HMGET", key: impl Args, fields: impl Args);

    /// `HMSET key field value [field value ...]`: Sets the values of multiple fields.
    hmset("HMSET", key: impl Args, pairs: impl Args);

    /// `HPERSIST key FIELDS numfields field [field ...]`: Removes the expiration time of hash fields.
    hpersist("HPERSIST", key: impl Args, more: impl Args);

    /// `HPEXPIRE key milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]`: Sets the expiration time of hash fields in milliseconds.
    hpexpire("HPEXPIRE", key: impl Args, milliseconds: i64, more: impl Args);

    /// `HPEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]`: Sets the expiration time of hash fields to a Unix timestamp in milliseconds.
    hpexpireat("HPEXPIREAT", key: impl Args, unix_time_milliseconds: i64, more: impl Args);

    /// `HPEXPIRETIME key FIELDS numfields field [field ...]`: Returns the expiration time of hash fields as a Unix timestamp in milliseconds.
    hpexpiretime("HPEXPIRETIME", key: impl Args, more: impl Args);

    /// `HPTTL key FIELDS numfields field [field ...]`: Returns the expiration time of hash fields in milliseconds.
    hpttl("HPTTL", key: impl Args, more: impl Args);

    /// `HRANDFIELD key [count [WITHVALUES]]`: Returns one or more random fields from a hash.
    hrandfield("HRANDFIELD", key: impl Args, more: impl Args);

    /// `HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]`: Iterates over fields and values of a hash.
    hscan("HSCAN", key: impl Args, cursor: impl Args, more: impl Args);

    /// `HSET key field value [field value ...]`: Creates or modifies the value of a field in a hash.
    hset("HSET", key: impl Args, pairs: impl Args);

    /// `HSETEX key [NX|XX] [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL] FIELDS numfields field value [field value ...]`: Sets the values of hash fields with an expiration time.
    hsetex("HSETEX", key: impl Args, more: impl Args);

    /// `HSETNX key field value`: Sets the value of a field in a hash only when the field doesn't exist.
    hsetnx("HSETNX", key: impl Args, field: impl Args, value: impl Args);

    /// `HSTRLEN key field`: Returns the length of the value of a field.
    hstrlen("HSTRLEN", key: impl Args, field: impl Args);

    /// `HTTL key FIELDS numfields field [field ...]`: Returns the expiration time of hash fields in seconds.
    httl("HTTL", key: impl Args, more: impl Args);

    /// `HVALS key`: Returns all values in a hash.
    hvals("HVALS", key: impl Args);
}
