//! Keys of every type, strings, counters and HyperLogLogs.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use polder_engine::{ExpireIf, Expiry, ScanOptions, SetOptions};

use crate::equal::Row;

/// In the year 2100, in milliseconds.
const LATER_MS: u64 = 4_102_444_800_000;

fn later() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(LATER_MS)
}

fn soon() -> Duration {
    Duration::from_secs(1000)
}

fn ok(done: bool) -> Option<&'static str> {
    done.then_some("OK")
}

pub const ROWS: &[Row] = rows! {
    db;
    "SET k value" => db.set("k", "value");
    "GET k" => db.get("k");
    "GET nothing" => db.get("nothing");
    "SET k other NX" => db.set_with("k", "other", &SetOptions::new().if_absent()).map(ok);
    "SET new v NX" => db.set_with("new", "v", &SetOptions::new().if_absent()).map(ok);
    "SET none v XX" => db.set_with("none", "v", &SetOptions::new().if_present()).map(ok);
    "SET k v2 IFEQ value" => db.set_with("k", "v2", &SetOptions::new().if_equal("value")).map(ok);
    "SET k v3 IFEQ value" => db.set_with("k", "v3", &SetOptions::new().if_equal("value")).map(ok);
    "SET k v4 PXAT 4102444800000" => db.set_with("k", "v4", &SetOptions::new().expiry(Expiry::at_ms(LATER_MS))).map(ok);
    "SET k v5 KEEPTTL" => db.set_with("k", "v5", &SetOptions::new().expiry(Expiry::Keep)).map(ok);
    "SET k v6 GET" => db.set_get("k", "v6", &SetOptions::new());
    "SET fresh v GET" => db.set_get("fresh", "v", &SetOptions::new());
    "SET k v PX 0" => db.set_with("k", "v", &SetOptions::new().expiry(Expiry::In(Duration::ZERO))).map(ok);
    "GETEX k PXAT 4102444800000" => db.getex("k", Expiry::at_ms(LATER_MS));
    "GETEX k" => db.getex("k", Expiry::Keep);
    "GETEX k PERSIST" => db.getex("k", Expiry::Never);
    "GETDEL fresh" => db.getdel("fresh");
    "GETDEL fresh" => db.getdel("fresh");
    "APPEND k tail" => db.append("k", "tail");
    "STRLEN k" => db.strlen("k");
    "STRLEN nothing" => db.strlen("nothing");
    "GETRANGE k 1 -2" => db.getrange("k", 1, -2);
    "SETRANGE k 3 xyz" => db.setrange("k", 3, "xyz");
    "INCR n" => db.incr("n");
    "INCRBY n 41" => db.incrby("n", 41);
    "DECR n" => db.decr("n");
    "DECRBY n -5" => db.decrby("n", -5);
    "INCRBY k 1" => db.incrby("k", 1);
    "INCRBY n 9223372036854775807" => db.incrby("n", i64::MAX);
    "INCRBYFLOAT n 0.5" => db.incrbyfloat("n", 0.5);
    "INCRBYFLOAT n 1e10" => db.incrbyfloat("n", 1e10);
    "INCRBYFLOAT k 1" => db.incrbyfloat("k", 1.0);
    "MSET a 1 b 2" => db.mset(&[("a", "1"), ("b", "2")]);
    "MSETNX a 3 c 3" => db.msetnx(&[("a", "3"), ("c", "3")]);
    "MSETNX c 3 d 4" => db.msetnx(&[("c", "3"), ("d", "4")]);
    "MGET a nothing d" => db.mget(&["a", "nothing", "d"]);
    "MSET one ohmytext two mynewtext" => db.mset(&[("one", "ohmytext"), ("two", "mynewtext")]);
    "LCS one two" => db.lcs("one", "two");
    "LCS one two LEN" => db.lcs_len("one", "two");
    "RPUSH list a" => db.rpush("list", &["a"]);
    "GET list" => db.get("list");
    "SET nothing v GET XX" => db.set_get("nothing", "v", &SetOptions::new().if_present());
    "INCR list" => db.incr("list");
    "MGET list a" => db.mget(&["list", "a"]);
    "APPEND list x" => db.append("list", "x");
    "TYPE list" => db.type_of("list").map(|name| name.unwrap_or("none".into()));
    "TYPE a" => db.type_of("a").map(|name| name.unwrap_or("none".into()));
    "TYPE nothing" => db.type_of("nothing").map(|name| name.unwrap_or("none".into()));
    "EXISTS a b nothing a" => db.exists(&["a", "b", "nothing", "a"]);
    "TOUCH a nothing" => db.touch(&["a", "nothing"]);
    "PEXPIREAT a 4102444800000" => db.expireat("a", later(), ExpireIf::Always);
    "PEXPIRETIME a" => db.expiretime("a");
    "PEXPIRETIME b" => db.expiretime("b");
    "PEXPIRETIME nothing" => db.expiretime("nothing");
    "PEXPIREAT a 4102444800000 NX" => db.expireat("a", later(), ExpireIf::Endless);
    "PEXPIREAT b 4102444800000 XX" => db.expireat("b", later(), ExpireIf::Limited);
    "PEXPIREAT a 4102444800000 GT" => db.expireat("a", later(), ExpireIf::Later);
    "PEXPIREAT b 4102444800000 LT" => db.expireat("b", later(), ExpireIf::Sooner);
    "PEXPIREAT nothing 4102444800000" => db.expireat("nothing", later(), ExpireIf::Always);
    "PEXPIREAT b 0" => db.expireat("b", UNIX_EPOCH, ExpireIf::Always);
    "PERSIST a" => db.persist("a");
    "PERSIST a" => db.persist("a");
    "PEXPIRE a 1000000" => db.expire("a", soon(), ExpireIf::Always);
    "PTTL a" => db.ttl("a");
    "PTTL list" => db.ttl("list");
    "PTTL nothing" => db.ttl("nothing");
    "PEXPIREAT a 4102444800000" => db.expireat("a", later(), ExpireIf::Always);
    "RENAME a a2" => db.rename("a", "a2");
    "RENAME nothing x" => db.rename("nothing", "x");
    "RENAMENX a2 list" => db.renamenx("a2", "list");
    "RENAMENX a2 a3" => db.renamenx("a2", "a3");
    "COPY a3 a4" => db.copy("a3", "a4", false);
    "COPY list a4" => db.copy("list", "a4", false);
    "COPY list a4 REPLACE" => db.copy("list", "a4", true);
    "MOVE a4 9" => db.move_to("a4", 9);
    "MOVE nothing 9" => db.move_to("nothing", 9);
    "DBSIZE" => db.dbsize();
    "KEYS a*" => db.keys("a*");
    "SCAN 0 MATCH a3 COUNT 1000" => db.scan(0, &ScanOptions::new().matching("a3").count(1000));
    "SCAN 0 MATCH none COUNT 1000" => db.scan(0, &ScanOptions::new().matching("none").count(1000));
    "PFADD sketch a b a" => db.pfadd("sketch", &["a", "b", "a"]);
    "PFADD sketch b" => db.pfadd("sketch", &["b"]);
    "PFADD made" => db.pfadd("made", &[] as &[&str]);
    "PFCOUNT sketch" => db.pfcount(&["sketch"]);
    "PFMERGE made sketch nothing" => db.pfmerge("made", &["sketch", "nothing"]);
    "PFCOUNT made sketch" => db.pfcount(&["made", "sketch"]);
    "PFADD list a" => db.pfadd("list", &["a"]);
    "PFCOUNT list" => db.pfcount(&["list"]);
    "DUMP nothing" => db.dump("nothing");
    "RESTORE back 0 bad" => db.restore("back", "bad", None, false);
    "DEL a3 nothing" => db.del(&["a3", "nothing"]);
    "DEL list" => db.del(&["list"]);
    "UNLINK c d" => db.unlink(&["c", "d"]);
    "FLUSHDB" => db.flushdb();
    "RANDOMKEY" => db.randomkey();
    "SET only v" => db.set("only", "v");
    "RANDOMKEY" => db.randomkey();
};
