//! Lists and hashes.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use polder_engine::{End, ExpireIf, Expiry, HsetexOptions, LposOptions, ScanOptions, Side};

use crate::equal::Row;

fn later() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(4_102_444_800_000)
}

/// As the command says that an element was not inserted.
fn inserted(length: Option<u64>, otherwise: i64) -> i64 {
    length.map_or(otherwise, |length| length as i64)
}

pub const LISTS: &[Row] = rows! {
    db;
    "RPUSH l b" => db.rpush("l", &["b"]);
    "LPUSH l a" => db.lpush("l", &["a"]);
    "RPUSH l c d b" => db.rpush("l", &["c", "d", "b"]);
    "LPUSH l x y" => db.lpush("l", &["x", "y"]);
    "LPUSHX nothing a" => db.lpushx("nothing", &["a"]);
    "RPUSHX nothing a" => db.rpushx("nothing", &["a"]);
    "RPUSHX l e" => db.rpushx("l", &["e"]);
    "LPUSHX l z" => db.lpushx("l", &["z"]);
    "LLEN l" => db.llen("l");
    "LLEN nothing" => db.llen("nothing");
    "LRANGE l 0 -1" => db.lrange("l", 0, -1);
    "LRANGE l -2 100" => db.lrange("l", -2, 100);
    "LRANGE nothing 0 -1" => db.lrange("nothing", 0, -1);
    "LINDEX l 1" => db.lindex("l", 1);
    "LINDEX l 100" => db.lindex("l", 100);
    "LSET l 1 second" => db.lset("l", 1, "second");
    "LSET l 100 x" => db.lset("l", 100, "x");
    "LSET nothing 0 x" => db.lset("nothing", 0, "x");
    "LINSERT l BEFORE c before" => db.linsert("l", Side::Before, "c", "before").map(|length| inserted(length, -1));
    "LINSERT l AFTER c after" => db.linsert("l", Side::After, "c", "after").map(|length| inserted(length, -1));
    "LINSERT l AFTER none x" => db.linsert("l", Side::After, "none", "x").map(|length| inserted(length, -1));
    "LINSERT nothing AFTER none x" => db.linsert("nothing", Side::After, "none", "x").map(|length| inserted(length, 0));
    "LPOS l b" => db.lpos("l", "b");
    "LPOS l none" => db.lpos("l", "none");
    "LPOS l b COUNT 0 MAXLEN 0" => db.lpos_many("l", "b", &LposOptions::new());
    "LPOS l b RANK -1 COUNT 1 MAXLEN 3" => db.lpos_many("l", "b", &LposOptions::new().rank(-1).count(1).maxlen(3));
    "LPOS l b RANK 0 COUNT 0 MAXLEN 0" => db.lpos_many("l", "b", &LposOptions::new().rank(0));
    "LREM l 1 b" => db.lrem("l", 1, "b");
    "LREM l -1 b" => db.lrem("l", -1, "b");
    "LREM l 0 none" => db.lrem("l", 0, "none");
    "LTRIM l 1 -2" => db.ltrim("l", 1, -2);
    "LPOP l" => db.lpop("l");
    "RPOP l" => db.rpop("l");
    "LMOVE l other LEFT RIGHT" => db.lmove("l", "other", End::Left, End::Right);
    "LMOVE l l RIGHT LEFT" => db.lmove("l", "l", End::Right, End::Left);
    "LMOVE nothing l LEFT LEFT" => db.lmove("nothing", "l", End::Left, End::Left);
    "LMPOP 2 nothing l LEFT COUNT 2" => db.lmpop(&["nothing", "l"], End::Left, 2);
    "LMPOP 1 nothing RIGHT COUNT 2" => db.lmpop(&["nothing"], End::Right, 2);
    "LPOP l 2" => db.lpop_many("l", 2);
    "RPOP l 100" => db.rpop_many("l", 100);
    "LPOP l 2" => db.lpop_many("l", 2);
    "LPOP l" => db.lpop("l");
    "SET s v" => db.set("s", "v");
    "LPUSH s a" => db.lpush("s", &["a"]);
    "RPOP s" => db.rpop("s");
    "LRANGE s 0 1" => db.lrange("s", 0, 1);
    "LMOVE s other LEFT LEFT" => db.lmove("s", "other", End::Left, End::Left);
    "LPUSH l 0123456789012345678901234567890123456789012345678901234567890123456789"
        => db.lpush("l", &["0123456789012345678901234567890123456789012345678901234567890123456789"]);
};

pub const HASHES: &[Row] = rows! {
    db;
    "HSET h f 1" => db.hset("h", &[("f", "1")]);
    "HSET h f 2 g 3 i 4" => db.hset("h", &[("f", "2"), ("g", "3"), ("i", "4")]);
    "HSETNX h f 9" => db.hsetnx("h", "f", "9");
    "HSETNX h j 9" => db.hsetnx("h", "j", "9");
    "HGET h f" => db.hget("h", "f");
    "HGET h none" => db.hget("h", "none");
    "HGET nothing f" => db.hget("nothing", "f");
    "HMGET h f none g" => db.hmget("h", &["f", "none", "g"]);
    "HGETALL h" => db.hgetall("h");
    "HGETALL nothing" => db.hgetall("nothing");
    "HKEYS h" => db.hkeys("h");
    "HVALS h" => db.hvals("h");
    "HLEN h" => db.hlen("h");
    "HSTRLEN h f" => db.hstrlen("h", "f");
    "HEXISTS h f" => db.hexists("h", "f");
    "HEXISTS h none" => db.hexists("h", "none");
    "HDEL h j none" => db.hdel("h", &["j", "none"]);
    "HINCRBY h f 40" => db.hincrby("h", "f", 40);
    "HINCRBY h n -1" => db.hincrby("h", "n", -1);
    "HINCRBY h n -9223372036854775808" => db.hincrby("h", "n", i64::MIN);
    "HINCRBYFLOAT h f 0.25" => db.hincrbyfloat("h", "f", 0.25);
    "HINCRBY h f 1" => db.hincrby("h", "f", 1);
    "HSET one f v" => db.hset("one", &[("f", "v")]);
    "HRANDFIELD one" => db.hrandfield("one");
    "HRANDFIELD nothing" => db.hrandfield("nothing");
    "HRANDFIELD one -3" => db.hrandfield_many("one", -3);
    "HRANDFIELD nothing 3" => db.hrandfield_many("nothing", 3);
    "HRANDFIELD one 2 WITHVALUES" => db.hrandfield_withvalues("one", 2);
    "HPEXPIREAT h 4102444800000 FIELDS 2 f none" => db.hexpireat("h", later(), ExpireIf::Always, &["f", "none"]);
    "HPEXPIREAT h 4102444800000 NX FIELDS 1 f" => db.hexpireat("h", later(), ExpireIf::Endless, &["f"]);
    "HPEXPIREAT h 0 FIELDS 1 n" => db.hexpireat("h", UNIX_EPOCH, ExpireIf::Always, &["n"]);
    "HPEXPIREAT nothing 0 FIELDS 1 n" => db.hexpireat("nothing", UNIX_EPOCH, ExpireIf::Always, &["n"]);
    "HPEXPIRETIME h FIELDS 3 f g none" => db.hexpiretime("h", &["f", "g", "none"]);
    "HPEXPIRE h 600000 FIELDS 1 g" => db.hexpire("h", Duration::from_secs(600), ExpireIf::Always, &["g"]);
    "HPTTL h FIELDS 3 g i none" => db.httl("h", &["g", "i", "none"]);
    "HPTTL nothing FIELDS 1 g" => db.httl("nothing", &["g"]);
    "HPERSIST h FIELDS 3 g i none" => db.hpersist("h", &["g", "i", "none"]);
    "HGETEX h PXAT 4102444800000 FIELDS 2 g none" => db.hgetex("h", Expiry::At(later()), &["g", "none"]);
    "HGETEX h PERSIST FIELDS 1 g" => db.hgetex("h", Expiry::Never, &["g"]);
    "HGETEX h FIELDS 1 g" => db.hgetex("h", Expiry::Keep, &["g"]);
    "HGETDEL h FIELDS 2 g none" => db.hgetdel("h", &["g", "none"]);
    "HSETEX h FIELDS 1 p 1" => db.hsetex("h", &HsetexOptions::new(), &[("p", "1")]);
    "HSETEX h FNX FIELDS 1 p 2" => db.hsetex("h", &HsetexOptions::new().if_absent(), &[("p", "2")]);
    "HSETEX h FXX PXAT 4102444800000 FIELDS 1 p 3"
        => db.hsetex("h", &HsetexOptions::new().if_present().expiry(Expiry::At(later())), &[("p", "3")]);
    "HSETEX h KEEPTTL FIELDS 1 p 4" => db.hsetex("h", &HsetexOptions::new().expiry(Expiry::Keep), &[("p", "4")]);
    "SET s v" => db.set("s", "v");
    "HSET s f v" => db.hset("s", &[("f", "v")]);
    "HGETALL s" => db.hgetall("s");
    "HDEL s f" => db.hdel("s", &["f"]);
    "HSCAN one 0" => db.hscan("one", 0, &ScanOptions::new());
    "HSCAN one 0 MATCH x* COUNT 5" => db.hscan("one", 0, &ScanOptions::new().matching("x*").count(5));
    "HSCAN s 0" => db.hscan("s", 0, &ScanOptions::new());
    "HDEL one f" => db.hdel("one", &["f"]);
};
