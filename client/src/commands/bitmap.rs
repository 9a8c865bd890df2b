//! Methods of the group `bitmap`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `BITCOUNT key [start [end [BYTE|BIT]]]`: Counts the number of set bits (population counting) in a string.
    bitcount("BITCOUNT", key: impl Args, more: impl Args);

    /// `BITFIELD key [GET encoding offset|[OVERFLOW <WRAP|SAT|FAIL>] <SET encoding offset value|INCRBY encoding offset increment> ...]`: Performs arbitrary bitfield integer operations on strings.
    bitfield("BITFIELD", key: impl Args, more: impl Args);

    /// `BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]`: Performs arbitrary read-only bitfield integer operations on strings.
    bitfield_ro("BITFIELD_RO", key: impl Args, more: impl Args);

    /// `BITOP <AND|OR|XOR|NOT> destkey key [key ...]`: Performs bitwise operations on multiple strings, and stores the result.
    bitop("BITOP", more: impl Args);

    /// `BITPOS key bit [start [end [BYTE|BIT]]]`: Finds the first set (1) or clear (0) bit in a string.
    bitpos("BITPOS", key: impl Args, bit: impl Args, more: impl Args);

    /// `GETBIT key offset`: Returns a bit value by offset.
    getbit("GETBIT", key: impl Args, offset: i64);

    /// `SETBIT key offset value`: Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist.
    setbit("SETBIT", key: impl Args, offset: i64, value: impl Args);
}
