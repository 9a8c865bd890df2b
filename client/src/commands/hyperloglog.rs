//! Methods of the group `hyperloglog`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `PFADD key [element ...]`: Adds elements to a HyperLogLog key. Creates the key if it doesn't exist.
    pfadd("PFADD", key: impl Args, more: impl Args);

    /// `PFCOUNT key [key ...]`: Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s).
    pfcount("PFCOUNT", keys: impl Args);

    /// `PFDEBUG subcommand key`: Internal commands for debugging HyperLogLog values.
    pfdebug("PFDEBUG", subcommand: impl Args, key: impl Args);

    /// `PFMERGE destkey [sourcekey ...]`: Merges one or more HyperLogLog values into a single key.
    pfmerge("PFMERGE", destkey: impl Args, more: impl Args);

    /// `PFSELFTEST`: An internal command for testing HyperLogLog values.
    pfselftest("PFSELFTEST");
}
