//! Methods of the group `string`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `APPEND key value`: Appends a string to the value of a key. Creates the key if it doesn't exist.
    append("APPEND", key: impl Args, value: impl Args);

    /// `DECR key`: Decrements the integer value of a key by one.
    decr("DECR", key: impl Args);

    /// `DECRBY key decrement`: Decrements a number from the integer value of a key.
    decrby("DECRBY", key: impl Args, decrement: i64);

    /// `DELEX key [IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest]`: Deletes a key, or only if the string that it holds, or the digest of that, is equal to another or is not.
    delex("DELEX", key: impl Args, more: impl Args);

    /// `DELIFEQ key value`: Deletes a key if it holds this string: a command of Valkey, which Redis has as `DELEX` with `IFEQ`.
    delifeq("DELIFEQ", key: impl Args, value: impl Args);

    /// `DIGEST key`: Returns the digest of a string: its XXH3 hash of 64 bits, as 16 hexadecimal digits.
    digest("DIGEST", key: impl Args);

    /// `GET key`: Returns the string value of a key.
    get("GET", key: impl Args);

    /// `GETDEL key`: Returns the string value of a key after deleting the key.
    getdel("GETDEL", key: impl Args);

    /// `GETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]`: Returns the string value of a key after setting its expiration time.
    getex("GETEX", key: impl Args, more: impl Args);

    /// `GETRANGE key start end`: Returns a substring of the string stored at a key.
    getrange("GETRANGE", key: impl Args, start: i64, end: i64);

    /// `GETSET key value`: Returns the previous string value of a key after setting it to a new value.
    getset("GETSET", key: impl Args, value: impl Args);

    /// `INCR key`: Increments the integer value of a key by one.
    incr("INCR", key: impl Args);

    /// `INCRBY key increment`: Increments the integer value of a key by a number.
    incrby("INCRBY", key: impl Args, increment: i64);

    /// `INCRBYFLOAT key increment`: Increments the number in a key by a number that need not be whole: in decimal, unless number-mode says otherwise.
    incrbyfloat("INCRBYFLOAT", key: impl Args, increment: impl Args);

    /// `INCREX key [BYFLOAT float|BYINT integer] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] [ENX]`: Increments the number in a key by a number within bounds, and sets its expiration time.
    increx("INCREX", key: impl Args, more: impl Args);

    /// `ITEM.CAT key value <APPEND|PREPEND> [CAS cas] [NEWCAS new-cas] [CREATE] [FLAGS flags] [EX seconds|EXAT unix-time-seconds]`: Writes bytes behind the value of an item, or in front of it. CREATE makes the item where there is none, with these flags and this expiry.
    item_cat("ITEM.CAT", key: impl Args, value: impl Args, more: impl Args);

    /// `ITEM.DEL key [CAS cas] [NEWCAS new-cas] [STALE] [EMPTY] [EX seconds|EXAT unix-time-seconds|PERSIST]`: Deletes an item. STALE keeps it and marks it as stale, with a new expiry if one is given; EMPTY keeps it without its value and flags.
    item_del("ITEM.DEL", key: impl Args, more: impl Args);

    /// `ITEM.EXP key <EX seconds|EXAT unix-time-seconds|PERSIST>`: Sets the expiry of an item, or removes it.
    item_exp("ITEM.EXP", key: impl Args, more: impl Args);

    /// `ITEM.GAT key [PEEK] [HEAD] [NOWIN] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds] [RECACHE seconds] [NEWCAS new-cas]`: Returns an item and says which client is to renew it. VIVIFY makes an empty item where there is none; RECACHE asks one client to renew an item that expires sooner; where EX, EXAT or PERSIST stand in front of it, it looks at the expiry that they give. NOWIN leaves it to another client to renew the item. NEWCAS is for an item that VIVIFY makes.
    item_gat("ITEM.GAT", key: impl Args, more: impl Args);

    /// `ITEM.GET key [PEEK] [HEAD]`: Returns a string with its flags, CAS and time to live. PEEK does not count as an access, HEAD leaves the value out.
    item_get("ITEM.GET", key: impl Args, more: impl Args);

    /// `ITEM.INC key delta [DOWN] [CAS cas] [NEWCAS new-cas] [CREATE initial] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds]`: Adds to a number of 64 bits without a sign, which wraps, or subtracts from it, down to 0. CREATE makes an item with this number where there is none, which lives as long as VIVIFY says.
    item_inc("ITEM.INC", key: impl Args, delta: impl Args, more: impl Args);

    /// `ITEM.MARK key [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [STALE] [WON]`: Gives an item these flags, this chosen CAS, this content type and these marks, in the place of all that it had; value and expiry stay. It is what a change log says by ECHO.
    item_mark("ITEM.MARK", key: impl Args, more: impl Args);

    /// `ITEM.SET key value [ADD|REPLACE|CAS cas] [STALE] [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]`: Sets a string with its flags and expiry: always, or only if the key is absent or present, or has this CAS. With STALE, a value with an older CAS is stored and marked as stale.
    item_set("ITEM.SET", key: impl Args, value: impl Args, more: impl Args);

    /// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]`: Finds the longest common substring.
    lcs("LCS", key1: impl Args, key2: impl Args, more: impl Args);

    /// `MGET key [key ...]`: Returns the string values of one or more keys.
    mget("MGET", keys: impl Args);

    /// `MSET key value [key value ...]`: Creates or modifies the string values of one or more keys, all at once.
    mset("MSET", pairs: impl Args);

    /// `MSETEX numkeys key value [key value ...] [NX|XX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]`: Sets the string values of one or more keys and one expiry for all of them, all at once, and only if none of them exists or if all do.
    msetex("MSETEX", numkeys: i64, pairs: impl Args, more: impl Args);

    /// `MSETNX key value [key value ...]`: Creates the string values of one or more keys, all at once, when none of the keys exists.
    msetnx("MSETNX", pairs: impl Args);

    /// `PSETEX key milliseconds value`: Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist.
    psetex("PSETEX", key: impl Args, milliseconds: i64, value: impl Args);

    /// `SET key value [NX|XX|IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]`: Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.
    set("SET", key: impl Args, value: impl Args, more: impl Args);

    /// `SETEX key seconds value`: Sets the string value and expiration time of a key. Creates the key if it doesn't exist.
    setex("SETEX", key: impl Args, seconds: i64, value: impl Args);

    /// `SETNX key value`: Sets the string value of a key only when the key doesn't exist.
    setnx("SETNX", key: impl Args, value: impl Args);

    /// `SETRANGE key offset value`: Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.
    setrange("SETRANGE", key: impl Args, offset: i64, value: impl Args);

    /// `STRLEN key`: Returns the length of a string value.
    strlen("STRLEN", key: impl Args);

    /// `SUBSTR key start end`: Returns a substring from a string value: the old name of GETRANGE.
    substr("SUBSTR", key: impl Args, start: i64, end: i64);
}
