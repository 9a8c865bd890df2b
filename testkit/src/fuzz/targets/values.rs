//! Values whose nodes and records were damaged: every command that reads or changes them ends with a reply or an error.
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use polder_base::Protocol;
use polder_engine::{Memory, Options};

use super::typed;
use crate::caller::{Caller, Embedder};
use crate::scratch::{Scratch, fresh_name};

/// Bytes that say one damage: which of the words that values have put there (4), what is done to it (1), with what (3).
const DAMAGE_BYTES: usize = 8;
const CEILING: u64 = 64 << 20;

/// A segment as a file, and where its words are that came with the values.
struct Image {
    bytes: Vec<u8>,
    file_bytes: u64,
    words: Vec<usize>,
}

/// Keys of every kind: packed, as trees, with elements long enough to be trees themselves.
const FILL: &[&str] = &[
    "RPUSH small-list a 17 repeat:400:b",
    "RPUSH list repeat:600:x repeat:40000:y z",
    "HSET small-hash field value other 12",
    "HSET hash long repeat:3000:v short 1",
    "HSET dying a 1 b repeat:900:2 c 3",
    "HPEXPIRE dying 100000000 FIELDS 2 a b",
    "SADD ints 3 1 2",
    "SADD small-set a b c",
    "SADD set repeat:2000:m short",
    "ZADD small-scores 1 a 2.5 b 1.10 c",
    "ZADD scores 1 repeat:1500:z inf top",
    "XADD stream 5-1 field value other 2",
    "XADD stream 5-2 field repeat:3000:v",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group one COUNT 50 STREAMS stream >",
    "XGROUP CREATECONSUMER stream group two",
    "XDEL stream 7-5",
    "PFADD sketch a b c d e f g",
    "GEOADD places 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    "SET text repeat:60000:t",
    "SETBIT bits 400000 1",
    "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function('f', function() return 1 end)\"",
    "ACL SETUSER ann on >secret ~a* +@read (%R~b* +get)",
];

/// Commands that many times over make trees of several levels, `#` being a number.
const FILL_MANY: &[&str] = &[
    "RPUSH list element:#",
    "HSET hash field:# value:#",
    "HSET dying f# #",
    "HPEXPIRE dying 1000000# FIELDS 1 f#",
    "SADD set member:#",
    "SADD many-ints #",
    "ZADD scores #.5 member:#",
    "XADD stream 7-# field # other value",
    "PFADD dense element:#",
];

/// What is done with the damaged values: all of it reads, then changes, then copies and takes away.
const USES: &[&str] = &[
    "LRANGE list 0 -1",
    "LINDEX list 1",
    "LINDEX list 300",
    "LPOS list element:9",
    "LRANGE small-list 0 -1",
    "LLEN list",
    "OBJECT ENCODING list",
    "HGETALL hash",
    "HGET hash long",
    "HGET hash field:77",
    "HSCAN hash 0 COUNT 1000",
    "HGETALL small-hash",
    "HRANDFIELD hash -20 WITHVALUES",
    "HTTL dying FIELDS 3 a b f9",
    "HGETALL dying",
    "HLEN dying",
    "HSTRLEN hash long",
    "SMEMBERS set",
    "SISMEMBER set short",
    "SSCAN set 0 COUNT 1000",
    "SINTER set small-set",
    "SUNION set ints many-ints",
    "SDIFF many-ints ints",
    "SRANDMEMBER set 20",
    "SMEMBERS ints",
    "SMEMBERS small-set",
    "SINTERCARD 2 set many-ints LIMIT 3",
    "ZRANGE scores 0 -1 WITHSCORES",
    "ZRANK scores member:70",
    "ZSCORE scores member:60",
    "ZRANGEBYSCORE scores 10 200 LIMIT 1 100",
    "ZCOUNT scores 3 70",
    "ZRANGEBYLEX small-scores - +",
    "ZLEXCOUNT scores - +",
    "ZSCAN scores 0 COUNT 1000",
    "ZRANGE small-scores 0 -1",
    "ZRANDMEMBER scores 20",
    "ZUNION 2 scores small-scores WITHSCORES",
    "ZREVRANGEBYSCORE scores +inf -inf LIMIT 0 500",
    "XRANGE stream - +",
    "XREVRANGE stream + - COUNT 30",
    "XLEN stream",
    "XINFO STREAM stream FULL",
    "XINFO STREAM stream",
    "XINFO GROUPS stream",
    "XINFO CONSUMERS stream group",
    "XPENDING stream group",
    "XPENDING stream group - + 100",
    "XREAD COUNT 1000 STREAMS stream 0",
    "PFCOUNT sketch dense",
    "PFDEBUG ENCODING dense",
    "PFDEBUG DECODE sketch",
    "GEOSEARCH places FROMLONLAT 15 37 BYRADIUS 200 km ASC",
    "GEOHASH places Palermo",
    "GEODIST places Palermo Catania",
    "GET text",
    "STRLEN text",
    "GETRANGE text 100 40000",
    "BITCOUNT bits",
    "BITPOS bits 1",
    "BITFIELD bits GET u8 50000",
    "SORT list ALPHA LIMIT 0 5",
    "SORT set BY nosort GET # LIMIT 0 5",
    "SORT many-ints DESC",
    "DUMP list",
    "DUMP hash",
    "DUMP dying",
    "DUMP set",
    "DUMP scores",
    "DUMP stream",
    "DUMP text",
    "DUMP sketch",
    "DEBUG DIGEST",
    "MEMORY USAGE list SAMPLES 0",
    "MEMORY USAGE stream",
    "FUNCTION LIST WITHCODE",
    "FUNCTION DUMP",
    "FCALL f 0",
    "ACL LIST",
    "ACL GETUSER ann",
    "RANDOMKEY",
    "KEYS *",
    "COPY list list2",
    "COPY hash hash2",
    "COPY dying dying2",
    "COPY set set2",
    "COPY scores scores2",
    "COPY stream stream2",
    "COPY text text2",
    "RPUSH list new",
    "LPUSH list repeat:700:n",
    "LINSERT list BEFORE element:30 here",
    "LSET list 40 set",
    "LREM list 0 element:50",
    "LMOVE list list3 LEFT RIGHT",
    "LTRIM list 5 -5",
    "LPOP list 30",
    "RPOP list 30",
    "LPUSH small-list n",
    "LPOP small-list 3",
    "HSET hash new 1 field:80 other",
    "HDEL hash field:3 field:4 long",
    "HINCRBY hash short 1",
    "HPEXPIRE dying 1 FIELDS 2 f1 f2",
    "HPERSIST dying FIELDS 1 a",
    "HDEL dying a f3 f4",
    "HGETDEL hash FIELDS 1 field:9",
    "HSETEX dying EX 100 FIELDS 1 f9 z",
    "HSET small-hash x 1",
    "HEXPIRE small-hash 0 FIELDS 1 x",
    "SADD set new",
    "SREM set member:1 member:2 short",
    "SPOP set 30",
    "SADD ints x",
    "SPOP many-ints 50",
    "SMOVE set ints member:7",
    "SINTERSTORE x set set",
    "SUNIONSTORE x set many-ints",
    "ZADD scores 5 new",
    "ZINCRBY scores 1.1 member:9",
    "ZREM scores member:10 member:11",
    "ZPOPMIN scores 30",
    "ZPOPMAX scores 10",
    "ZREMRANGEBYRANK scores 3 20",
    "ZREMRANGEBYSCORE scores 60 90",
    "ZREMRANGEBYLEX small-scores [a [b",
    "ZUNIONSTORE y 2 scores small-scores WEIGHTS 1 2",
    "ZINTERSTORE z 2 scores scores",
    "ZRANGESTORE w scores 0 50",
    "GEOADD places 14 38 Here",
    "ZDIFFSTORE v 2 scores small-scores",
    "XADD stream * field value other z",
    "XREADGROUP GROUP group two COUNT 20 STREAMS stream >",
    "XREADGROUP GROUP group one STREAMS stream 0",
    "XACK stream group 5-1 7-3",
    "XCLAIM stream group two 0 7-4 7-6",
    "XAUTOCLAIM stream group two 0 0 COUNT 20",
    "XDEL stream 7-7 7-8",
    "XTRIM stream MAXLEN 30",
    "XGROUP DELCONSUMER stream group one",
    "XGROUP SETID stream group 0",
    "XSETID stream 9-9",
    "XGROUP DESTROY stream group",
    "PFADD sketch new",
    "PFMERGE dense sketch",
    "APPEND text more",
    "SETRANGE text 20000 abc",
    "SETBIT bits 300 1",
    "BITOP NOT notted bits",
    "FUNCTION DELETE lib",
    "ACL SETUSER ann +set",
    "ACL DELUSER ann",
    "RENAME list list4",
    "EXPIRE hash 100",
    "PERSIST hash",
    "DEL list small-list list2 list3 list4",
    "UNLINK hash small-hash hash2 dying dying2",
    "DEL set ints small-set many-ints set2",
    "DEL scores small-scores scores2",
    "DEL stream stream2",
    "DEL text text2 bits notted",
    "DEL sketch dense places",
    "FLUSHALL",
];

pub(super) fn seeds() -> Vec<Vec<u8>> {
    // Made here, where the time that it takes does not count as a hang.
    image();
    (0..24u32).map(|number| [&(number * 977).to_le_bytes()[..], &[number as u8, 1, 2, 3]].concat()).collect()
}

fn content(scratch: &Scratch) -> Vec<u8> {
    let path = path_of(&scratch.options);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn path_of(options: &Options) -> String {
    format!("/dev/shm/{}", options.segment.trim_start_matches("shm:"))
}

/// Makes a segment once; every input damages a copy.
fn image() -> &'static Image {
    static IMAGE: OnceLock<Image> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let scratch = Scratch::with_ceiling(CEILING);
        let before = content(&scratch);
        std::thread::scope(|scope| {
            // A thread keeps its seat as long as it lives.
            let filler = scope.spawn(|| fill(&scratch.embedder));
            filler.join().unwrap_or_else(|_| panic!("a whole segment can be filled"));
        });
        let mut bytes = content(&scratch);
        let file_bytes = bytes.len() as u64;
        let used =
            bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1).next_multiple_of(4096);
        bytes.truncate(used);
        let word = |bytes: &[u8], at: usize| bytes.get(at * 8..at * 8 + 8).map(<[u8]>::to_vec);
        let words = (0..used / 8)
            .filter(|at| word(&bytes, *at) != word(&before, *at) && word(&bytes, *at) != Some(vec![0; 8]))
            .collect();
        Image { bytes, file_bytes, words }
    })
}

fn fill(embedder: &Embedder) {
    let mut caller = Caller::new(1, Protocol::Resp3);
    let mut call = |line: &str| {
        let answer = typed(embedder, &mut caller, line);
        assert!(answer.is_ok(), "{line}: {answer:?}");
    };
    for number in 1..120 {
        FILL_MANY.iter().for_each(|line| call(&line.replace('#', &number.to_string())));
    }
    FILL.iter().for_each(|line| call(line));
}

/// A damaged copy of the segment, under a name of its own.
struct Damaged(Options);

impl Damaged {
    fn new(input: &[u8]) -> Damaged {
        let image = image();
        let options = Options { segment: fresh_name(), ceiling: CEILING, ..Options::default() };
        let path = path_of(&options);
        let made = std::fs::File::create_new(&path).and_then(|file| {
            file.set_len(image.file_bytes)?;
            file.write_all_at(&image.bytes, 0)?;
            for damage in input.chunks_exact(DAMAGE_BYTES) {
                let at = image.words[u32::from_le_bytes([damage[0], damage[1], damage[2], damage[3]])
                    as usize
                    % image.words.len()]
                    * 8;
                let mut word: [u8; 8] = std::array::from_fn(|index| image.bytes[at + index]);
                spoil(&mut word, damage[4], [damage[5], damage[6], damage[7]], image);
                file.write_all_at(&word, at as u64)?;
            }
            Ok(())
        });
        made.unwrap_or_else(|error| panic!("{path}: {error}"));
        Damaged(options)
    }
}

impl Drop for Damaged {
    fn drop(&mut self) {
        // It fails only when the segment was not made.
        let _ = std::fs::remove_file(path_of(&self.0));
    }
}

fn spoil(word: &mut [u8; 8], how: u8, with: [u8; 3], image: &Image) {
    let at = usize::from(with[0]) % 8;
    match how % 6 {
        0 | 1 => word[at] ^= 1 << (with[1] % 8),
        2 => word[at] = with[1],
        3 => *word = (i64::from_le_bytes(*word).wrapping_add(i64::from(with[1] as i8))).to_le_bytes(),
        4 => word[at..].fill(with[1]),
        _ => {
            let other =
                image.words[usize::from(u16::from_le_bytes([with[1], with[2]])) * 31 % image.words.len()] * 8;
            word.copy_from_slice(&image.bytes[other..other + 8]);
        }
    }
}

/// Commands on damaged values give errors or odd values, but go on and end.
pub(super) fn damaged_values_give_errors(input: &[u8]) {
    let damaged = Damaged::new(input);
    let Ok(embedder) = Embedder::attach(&damaged.0) else { return };
    let mut caller = Caller::new(1, Protocol::Resp3);
    let _ = embedder.memory.table().verify();
    for line in USES {
        // Which error it is depends on the damage; that there is one reply does not.
        if let Err(problem) = typed(&embedder, &mut caller, line) {
            panic!("{line}: {problem}");
        }
    }
    let _ = embedder.memory.table().verify();
    drop(embedder);
    let _ = Memory::remove(&damaged.0.segment);
}
