//! Methods of the group `array`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `ARCOUNT key`: Returns the number of values in an array.
    arcount("ARCOUNT", key: impl Args);

    /// `ARDEL key index [index ...]`: Deletes the values at indexes of an array. Deletes the array if no value remains.
    ardel("ARDEL", key: impl Args, indexs: impl Args);

    /// `ARDELRANGE key start end [start end ...]`: Deletes the values in ranges of indexes of an array. Deletes the array if no value remains.
    ardelrange("ARDELRANGE", key: impl Args, pairs: impl Args);

    /// `ARGET key index`: Returns the value at an index of an array.
    arget("ARGET", key: impl Args, index: i64);

    /// `ARGETRANGE key start end`: Returns what stands at each index of a range, null where nothing does; backwards if the range begins behind its end.
    argetrange("ARGETRANGE", key: impl Args, start: impl Args, end: impl Args);

    /// `ARGREP key start end <EXACT string|MATCH string|GLOB pattern|RE pattern> [EXACT string|MATCH string|GLOB pattern|RE pattern ...] [AND|OR] [LIMIT limit] [WITHVALUES] [NOCASE]`: Returns the indexes of values that are equal to a text, contain it, or match a pattern or a regular expression.
    argrep("ARGREP", key: impl Args, start: impl Args, end: impl Args, more: impl Args);

    /// `ARINFO key [FULL]`: Returns information about an array.
    arinfo("ARINFO", key: impl Args, more: impl Args);

    /// `ARINSERT key value [value ...]`: Puts values at the cursor of an array, which moves behind them. Creates the key if it doesn't exist.
    arinsert("ARINSERT", key: impl Args, values: impl Args);

    /// `ARLASTITEMS key count [REV]`: Returns the values that were inserted last.
    arlastitems("ARLASTITEMS", key: impl Args, count: i64, more: impl Args);

    /// `ARLEN key`: Returns the greatest index of an array that holds a value, and one.
    arlen("ARLEN", key: impl Args);

    /// `ARMGET key index [index ...]`: Returns the values at indexes of an array, null where there is none.
    armget("ARMGET", key: impl Args, indexs: impl Args);

    /// `ARMSET key index value [index value ...]`: Puts values at indexes of an array. Creates the key if it doesn't exist.
    armset("ARMSET", key: impl Args, pairs: impl Args);

    /// `ARNEXT key`: Returns the index at which ARINSERT would put a value.
    arnext("ARNEXT", key: impl Args);

    /// `AROP key start end <SUM|MIN|MAX|AND|OR|XOR|USED|MATCH> [value]`: Combines the values of a range of an array: their sum, least, greatest, bitwise operations, or how many there are or are equal to a text.
    arop("AROP", key: impl Args, start: impl Args, end: impl Args, more: impl Args);

    /// `ARRING key size value [value ...]`: Puts values into an array that is a ring of a size: behind the last index comes the first.
    arring("ARRING", key: impl Args, size: impl Args, values: impl Args);

    /// `ARSCAN key start end [LIMIT limit]`: Returns the values of a range of an array with their indexes, without holes; backwards if the range begins behind its end.
    arscan("ARSCAN", key: impl Args, start: impl Args, end: impl Args, more: impl Args);

    /// `ARSEEK key index`: Moves the cursor of an array.
    arseek("ARSEEK", key: impl Args, index: i64);

    /// `ARSET key index value [value ...]`: Puts values at an index of an array and behind it. Creates the key if it doesn't exist.
    arset("ARSET", key: impl Args, index: i64, values: impl Args);
}
