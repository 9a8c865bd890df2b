//! The thresholds by which Redis names encodings. Polder's own layouts do not depend on them; `OBJECT ENCODING` does.
use super::{Setting, integer, memory};

const INT_MAX: i64 = i32::MAX as i64;

pub(super) const SETTINGS: &[Setting] = &[
    integer("hash-max-listpack-entries", 0, i64::MAX, 512)
        .alias("hash-max-ziplist-entries")
        .segment()
        .about("Fields up to which `OBJECT ENCODING` calls a hash a listpack."),
    memory("hash-max-listpack-value", 0, i64::MAX, 64)
        .alias("hash-max-ziplist-value")
        .segment()
        .about("Bytes of the longest field or value up to which a hash is called a listpack."),
    integer("list-max-listpack-size", i32::MIN as i64, INT_MAX, -2)
        .alias("list-max-ziplist-size")
        .segment()
        .about("Elements (or, negative, one of five sizes in KiB) up to which a list is called a listpack."),
    integer("list-compress-depth", 0, INT_MAX, 0).inert(),
    integer("set-max-intset-entries", 0, i64::MAX, 512)
        .segment()
        .about("Members up to which a set of integers is called an intset."),
    integer("set-max-listpack-entries", 0, i64::MAX, 128)
        .segment()
        .about("Members up to which a set is called a listpack."),
    integer("set-max-listpack-value", 0, i64::MAX, 64)
        .segment()
        .about("Bytes of the longest member up to which a set is called a listpack."),
    integer("zset-max-listpack-entries", 0, i64::MAX, 128)
        .alias("zset-max-ziplist-entries")
        .segment()
        .about("Members up to which a sorted set is called a listpack."),
    memory("zset-max-listpack-value", 0, i64::MAX, 64)
        .alias("zset-max-ziplist-value")
        .segment()
        .about("Bytes of the longest member up to which a sorted set is called a listpack."),
    memory("hll-sparse-max-bytes", 0, i64::MAX, 3000)
        .segment()
        .about("Bytes up to which a HyperLogLog is kept sparse."),
    memory("stream-node-max-bytes", 0, i64::MAX, 4096)
        .segment()
        .about("Bytes of one node of a stream, as XADD's approximate trimming counts."),
    integer("stream-node-max-entries", 0, i64::MAX, 100)
        .segment()
        .about("Entries of one node of a stream, as XADD's approximate trimming counts."),
    integer("stream-idmp-duration", 1, 86_400, 100)
        .segment()
        .about("Seconds for which a new stream knows an entry by its producer's id (XADD with IDMP); XCFGSET sets it for one stream."),
    integer("stream-idmp-maxsize", 1, 10_000, 100)
        .segment()
        .about("Ids of a producer that a new stream keeps at most; XCFGSET sets it for one stream."),
];
