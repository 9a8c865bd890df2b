//! Values in every type and encoding, made by commands; and payloads that no living server writes.

/// One value, and how it comes to be.
pub struct Shape {
    pub name: &'static str,
    /// Commands, one a line. A word `N*text` is the text N times; an underscore is a space.
    pub lines: &'static str,
}

const fn shape(name: &'static str, lines: &'static str) -> Shape {
    Shape { name, lines }
}

/// The settings that shapes change, as they are without.
pub const SETTINGS: [(&str, &str); 8] = [
    ("list-max-listpack-size", "-2"),
    ("set-max-intset-entries", "512"),
    ("set-max-listpack-entries", "128"),
    ("hash-max-listpack-entries", "512"),
    ("zset-max-listpack-entries", "128"),
    ("stream-node-max-entries", "100"),
    ("rdb-version", "lowest"),
    ("rdbcompression", "yes"),
];

/// The values whose payloads are damaged.
pub const SHAPES: &[Shape] = &[
    shape("string", "SET payload hello"),
    shape("string, an integer", "SET payload 17"),
    shape("string, an integer of two bytes", "SET payload -1234"),
    shape("string, an integer of four bytes", "SET payload 12345678"),
    shape("string, compressed", "SET payload 60*ab"),
    shape("string, long", "CONFIG SET rdbcompression no\nSET payload 70*x"),
    shape("list", "RPUSH payload a 17 bc -1 300 70000 5000000000"),
    shape("list, nodes", "CONFIG SET list-max-listpack-size 2\nRPUSH payload a b c d e"),
    shape("list, plain nodes", "CONFIG SET list-max-listpack-size 1\nRPUSH payload a b 9000*x"),
    shape("set, integers", "SADD payload 1 2 3 -5 70"),
    shape("set, integers of four bytes", "SADD payload 1 -70000 70000"),
    shape("set, integers of eight bytes", "SADD payload 1 5000000000"),
    shape("set, listpack", "SADD payload a b 17 c"),
    shape("set, table", "CONFIG SET set-max-listpack-entries 0\nSADD payload a b 17 c"),
    shape("hash, listpack", "HSET payload a 1 b two 17 x"),
    shape("hash, table", "CONFIG SET hash-max-listpack-entries 0\nHSET payload a 1 b two 17 x"),
    shape("sorted set, listpack", "ZADD payload 1 a 2.5 b 3 17 inf c"),
    shape("sorted set, table", "CONFIG SET zset-max-listpack-entries 0\nZADD payload 1 a 2.5 b 3 17 inf c"),
    shape(
        "hash with expiries, listpack",
        "HSET payload a 1 b two 17 x d y\nHPEXPIREAT payload 4000000000000 FIELDS 1 a\n\
         HPEXPIREAT payload 4000000001000 FIELDS 1 17",
    ),
    shape("hash with expiries, all", "HSET payload a 1 b two\nHPEXPIREAT payload 4000000000000 FIELDS 2 a b"),
    shape(
        "hash with expiries, table",
        "CONFIG SET hash-max-listpack-entries 0\nHSET payload a 1 b two 17 x d y\n\
         HPEXPIREAT payload 4000000000000 FIELDS 1 a\nHPEXPIREAT payload 4000000001000 FIELDS 1 17",
    ),
    shape("stream", "XADD payload 1-1 f v\nXADD payload 1-2 f w\nXADD payload 5-0 other 17 g x"),
    shape(
        "stream, nodes",
        "CONFIG SET stream-node-max-entries 2\nXADD payload 1-1 f v\nXADD payload 1-2 f w\nXADD payload 5-0 f x",
    ),
    shape(
        "stream, deleted entries",
        "XADD payload 1-1 f v\nXADD payload 1-2 f w\nXADD payload 5-0 f x\nXDEL payload 1-2",
    ),
    shape("stream, empty", "XADD payload 1-1 f v\nXDEL payload 1-1"),
    shape(
        "stream, groups",
        "XADD payload 1-1 f v\nXADD payload 1-2 f w\nXADD payload 5-0 f x\nXGROUP CREATE payload g 0\n\
         XGROUP CREATE payload h $\nXREADGROUP GROUP g one COUNT 2 STREAMS payload >\n\
         XREADGROUP GROUP g two COUNT 1 STREAMS payload >\nXGROUP CREATECONSUMER payload g idle",
    ),
];

/// What a word of a shape's line stands for.
pub fn word(text: &str) -> Vec<u8> {
    match text.split_once('*') {
        Some((count, part)) if !part.is_empty() => part.repeat(count.parse().unwrap_or(1)).into_bytes(),
        _ => text.as_bytes().to_vec(),
    }
}

/// Bodies of payloads in encodings that older servers wrote, which the newest still read.
pub const HISTORIC: &[(&str, &[u8])] = &[
    ("old list", b"\x01\x03\x01a\xc0\x11\x02bc"),
    ("old list, ziplist", b"\x0a\x10\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff"),
    (
        "old quicklist of ziplists",
        b"\x0e\x02\x10\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff\
          \x10\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01b\x03\xf3\xff",
    ),
    ("old hash, zipmap", b"\x09\x0c\x02\x01a\x01\x00x\x01b\x01\x01yz\xff"),
    ("old hash, ziplist", b"\x0d\x10\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff"),
    ("old sorted set, ziplist", b"\x0c\x10\x10\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\x01a\x03\xf3\xff"),
    ("old sorted set, scores as text", b"\x03\x03\x01a\x031.5\x01b\xfe\x01c\x02-2"),
    ("hash, counted", b"\x04\x02\x01a\x011\x01b\xc0\x11"),
];

/// A listpack of these elements: short texts, or integers.
fn listpack(elements: &[Result<i64, &str>]) -> Vec<u8> {
    let mut entries = Vec::new();
    for element in elements {
        let before = entries.len();
        match element {
            Ok(number) => {
                entries.push(0xf4);
                entries.extend_from_slice(&number.to_le_bytes());
            }
            Err(text) => {
                entries.push(0x80 | text.len() as u8);
                entries.extend_from_slice(text.as_bytes());
            }
        }
        entries.push((entries.len() - before) as u8);
    }
    let mut pack = (entries.len() as u32 + 7).to_le_bytes().to_vec();
    pack.extend_from_slice(&(elements.len() as u16).to_le_bytes());
    pack.extend(entries);
    pack.push(0xff);
    pack
}

/// A string of a payload.
fn string(text: &[u8]) -> Vec<u8> {
    [&[0x80, 0, 0, 0, text.len() as u8], text].concat()
}

/// Names, versions and bodies of payloads that no change of one byte makes.
pub fn crafted() -> Vec<(&'static str, u32, Vec<u8>)> {
    let mut made = field_expiries();
    made.extend(impossible_collections());
    made
}

/// Hashes whose fields expire at moments that are too late, in the past, or in another order.
fn field_expiries() -> Vec<(&'static str, u32, Vec<u8>)> {
    // Moments around the greatest ones that Redis knows, 2^46 and 2^48.
    const MOMENTS: [i64; 12] = [
        -2,
        -1,
        0,
        1,
        4_000_000_000_000,
        (1 << 46) - 1,
        1 << 46,
        (1 << 46) + 1,
        (1 << 48) - 1,
        1 << 48,
        1 << 62,
        i64::MAX,
    ];
    let mut made = Vec::new();
    let mut add = |name, version, parts: &[&[u8]]| made.push((name, version, parts.concat()));
    let packed = |least: i64, fields: &[i64]| {
        let names = ["a", "b", "c"];
        let elements: Vec<_> =
            names.iter().zip(fields).flat_map(|(name, time)| [Err(*name), Err("v"), Ok(*time)]).collect();
        [&[25], &least.to_le_bytes()[..], &string(&listpack(&elements))].concat()
    };
    for one in MOMENTS {
        add("hash, listpack: an expiry", 12, &[&packed(one, &[one])]);
        add("hash, listpack: the least expiry", 12, &[&packed(one, &[4_000_000_000_000])]);
        add("hash, listpack: no expiry but a least one", 12, &[&packed(one, &[0, 0])]);
        let counted = |after: &[u8]| [&[24], &one.to_le_bytes()[..], &[1], after, b"\x01a\x01v"].concat();
        add("hash, table: an expiry", 12, &[&counted(&[1])]);
        add("hash, table: no expiry but a least one", 12, &[&counted(&[0])]);
        add("hash, table: an expiry after the least one", 12, &[&counted(&[0x80, 0, 0, 0, 200])]);
        add(
            "hash, table: an expiry long after the least one",
            12,
            &[&counted(&[[0x81].as_slice(), &[0xff; 8]].concat())],
        );
        add("hash of valkey", 80, &[b"\x16\x01\x01a\x01v", &one.to_le_bytes()]);
    }
    let (first, second) = (4_000_000_000_000, 4_000_000_001_000);
    for times in [
        [first, second, 0],
        [second, first, 0],
        [0, first, second],
        [first, 0, second],
        [first, first, 0],
        [0, 0, first],
        [first, second, -1],
    ] {
        add("hash, listpack: an order of expiries", 12, &[&packed(first, &times)]);
    }
    made
}

/// Collections without elements, with one twice, or with more than there can be.
fn impossible_collections() -> Vec<(&'static str, u32, Vec<u8>)> {
    let mut made = Vec::new();
    let mut add = |name, version, parts: &[&[u8]]| made.push((name, version, parts.concat()));
    let (node, none) = (string(&listpack(&[Err("a"), Ok(17)])), string(&listpack(&[])));
    add("list: an empty plain node", 10, &[&[18, 2, 1, 0, 2], &node]);
    add("list: an empty plain node behind another", 10, &[&[18, 2, 2], &node, &[1, 0]]);
    add("list: a node without bytes", 10, &[&[18, 2, 2, 0, 2], &node]);
    add("list: a node without elements", 10, &[&[18, 2, 2], &none, &[2], &node]);
    add("list: nodes without elements", 10, &[&[18, 2, 2], &none, &[2], &none]);
    add("list: no nodes", 10, &[&[18, 0]]);
    add("list: more nodes than there are", 10, &[&[18, 3, 2], &node, &[2], &node]);
    add("list: no elements", 10, &[&[1, 0]]);
    add("set: no elements", 10, &[&[2, 0]]);
    add("set, listpack: no elements", 11, &[&[20], &none]);
    add("set, listpack: an element twice", 11, &[&[20], &string(&listpack(&[Err("a"), Err("b"), Err("a")]))]);
    add("set, listpack: a number twice", 11, &[&[20], &string(&listpack(&[Ok(17), Err("17")]))]);
    add("set, integers: no elements", 10, &[&[11], &string(&[2, 0, 0, 0, 0, 0, 0, 0])]);
    add("set: an element twice", 10, &[b"\x02\x02\x01a\x01a"]);
    add("hash: a field twice", 10, &[b"\x04\x02\x01a\x011\x01a\x012"]);
    add("hash: no fields", 10, &[&[4, 0]]);
    add("hash, listpack: no fields", 10, &[&[16], &none]);
    add(
        "hash, listpack: a field twice",
        10,
        &[&[16], &string(&listpack(&[Err("a"), Ok(1), Err("a"), Ok(2)]))],
    );
    add(
        "hash, listpack: a field without its value",
        10,
        &[&[16], &string(&listpack(&[Err("a"), Ok(1), Err("b")]))],
    );
    add("sorted set: no members", 10, &[&[5, 0]]);
    add("sorted set: a score that is no number", 10, &[b"\x05\x01\x01a", &f64::NAN.to_le_bytes()]);
    add("sorted set: negative zero", 10, &[b"\x05\x01\x01a", &(-0.0f64).to_le_bytes()]);
    add("sorted set: a member twice", 10, &[b"\x05\x02\x01a", &[0; 8], b"\x01a", &[0; 8]]);
    add("sorted set, listpack: no members", 10, &[&[17], &none]);
    add(
        "sorted set, listpack: a member twice",
        10,
        &[&[17], &string(&listpack(&[Err("a"), Ok(1), Err("a"), Ok(2)]))],
    );
    add("a string that is longer than all memory", 10, &[&[0, 0x81], &[0x7f; 8], b"text"]);
    add(
        "a compressed string that says it is long",
        10,
        &[&[0, 0xc3, 4, 0x81, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], b"\x02abc"],
    );
    for count in [2u8, 4, 5] {
        add("more elements than any memory holds", 10, &[&[count, 0x81], &[0x0f; 8], b"\x01a\x01b"]);
    }
    made
}
