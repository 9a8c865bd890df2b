//! Streams and groups of consumers.
use std::ops::Bound;
use std::time::Duration;

use polder_engine::{Claimed, PendingSummary, StreamEntry, StreamId, Trim, XaddOptions};

use crate::equal::{Row, Scratch, Show};

const fn id(ms: u64) -> StreamId {
    StreamId::new(ms, 0)
}

fn at(ms: u64) -> XaddOptions {
    XaddOptions::new().id(id(ms))
}

impl Show for StreamId {
    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Show for StreamEntry {
    fn shown(&self) -> String {
        (self.id, self.fields.clone()).shown()
    }
}

impl Show for Claimed {
    fn shown(&self) -> String {
        [self.next.shown(), self.entries.shown(), self.deleted.shown()].join(" ")
    }
}

impl Show for PendingSummary {
    fn shown(&self) -> String {
        let ids = self.ids.map_or("nil nil".into(), |ids| ids.shown());
        let consumers = if self.ids.is_none() { "nil".into() } else { self.consumers.shown() };
        [self.count.shown(), ids, consumers].join(" ")
    }
}

pub const STREAMS: &[Row] = rows! {
    db;
    "XADD s 1-0 f a" => db.xadd_with("s", &at(1), &[("f", "a")]);
    "XADD s 2-0 f b g c" => db.xadd_with("s", &at(2), &[("f", "b"), ("g", "c")]);
    "XADD s 2-0 f b" => db.xadd_with("s", &at(2), &[("f", "b")]);
    "XADD nothing NOMKSTREAM 2-0 f b" => db.xadd_with("nothing", &at(2).if_present(), &[("f", "b")]);
    "XADD s 3-0 f d" => db.xadd_with("s", &at(3), &[("f", "d")]);
    "XADD s MAXLEN = 3 4-0 f e" => db.xadd_with("s", &at(4).trim(Trim::maxlen(3)), &[("f", "e")]);
    "XADD s MINID ~ 1-0 5-0 f g" => db.xadd_with("s", &at(5).trim(Trim::minid(id(1)).roughly()), &[("f", "g")]);
    "XLEN s" => db.xlen("s");
    "XLEN nothing" => db.xlen("nothing");
    "XRANGE s - + COUNT 10" => db.xrange("s", .., 10);
    "XRANGE s (2-0 4-0 COUNT 10" => db.xrange("s", (Bound::Excluded(id(2)), Bound::Included(id(4))), 10);
    "XRANGE s 2-0 (4-0 COUNT 10" => db.xrange("s", id(2)..id(4), 10);
    "XRANGE nothing - + COUNT 10" => db.xrange("nothing", .., 10);
    "XREVRANGE s + 3-0 COUNT 2" => db.xrevrange("s", id(3).., 2);
    "XREAD COUNT 2 STREAMS s nothing 2-0 0-0" => db.xread(&[("s", id(2)), ("nothing", id(0))], 2);
    "XREAD COUNT 2 STREAMS s 9-0" => db.xread(&[("s", id(9))], 2);
    "XDEL s 3-0 9-0" => db.xdel("s", &[id(3), id(9)]);
    "XTRIM s MAXLEN = 2" => db.xtrim("s", &Trim::maxlen(2));
    "XTRIM s MINID = 5-0" => db.xtrim("s", &Trim::minid(id(5)));
    "XADD s 6-0 f h" => db.xadd_with("s", &at(6), &[("f", "h")]);
    "XGROUP CREATE s g 0-0" => db.xgroup_create("s", "g", Some(id(0)), false);
    "XGROUP CREATE s g 0-0" => db.xgroup_create("s", "g", Some(id(0)), false);
    "XGROUP CREATE none g $" => db.xgroup_create("none", "g", None, false);
    "XGROUP CREATE made g $ MKSTREAM" => db.xgroup_create("made", "g", None, true);
    "XGROUP CREATECONSUMER s g me" => db.xgroup_createconsumer("s", "g", "me");
    "XGROUP CREATECONSUMER s g me" => db.xgroup_createconsumer("s", "g", "me");
    "XPENDING s g" => db.xpending("s", "g");
    "XREADGROUP GROUP g me COUNT 1 STREAMS s >" => db.xreadgroup("g", "me", &["s"], 1);
    "XREADGROUP GROUP g me COUNT 9 STREAMS s made > >" => db.xreadgroup("g", "me", &["s", "made"], 9);
    "XREADGROUP GROUP g me COUNT 9 STREAMS s >" => db.xreadgroup("g", "me", &["s"], 9);
    "XREADGROUP GROUP other me COUNT 9 STREAMS s >" => db.xreadgroup("other", "me", &["s"], 9);
    "XPENDING s g" => db.xpending("s", "g");
    "XCLAIM s g you 0 5-0" => db.xclaim("s", "g", "you", Duration::ZERO, &[id(5)]);
    "XCLAIM s g you 3600000 6-0" => db.xclaim("s", "g", "you", Duration::from_secs(3600), &[id(6)]);
    "XDEL s 6-0" => db.xdel("s", &[id(6)]);
    "XAUTOCLAIM s g you 0 0-0 COUNT 9" => db.xautoclaim("s", "g", "you", Duration::ZERO, id(0), 9);
    "XACK s g 5-0 9-0" => db.xack("s", "g", &[id(5), id(9)]);
    "XGROUP SETID s g 0-0" => db.xgroup_setid("s", "g", Some(id(0)));
    "XGROUP DELCONSUMER s g you" => db.xgroup_delconsumer("s", "g", "you");
    "XGROUP DESTROY s g" => db.xgroup_destroy("s", "g");
    "XGROUP DESTROY s g" => db.xgroup_destroy("s", "g");
    "SET text v" => db.set("text", "v");
    "XADD text 1-0 f a" => db.xadd_with("text", &at(1), &[("f", "a")]);
    "XLEN text" => db.xlen("text");
};

#[test]
fn what_is_pending_tells_consumer_and_deliveries() {
    let scratch = Scratch::new("pending");
    let db = scratch.memory.database(0);
    db.xgroup_create("s", "g", Some(id(0)), true).expect("a group");
    let first = db.xadd("s", &[("f", "a")]).expect("room");
    assert_eq!(db.xreadgroup("g", "me", &["s"], 9).expect("readable").len(), 1);
    let again = db.xreadgroup_again("s", "g", "me", id(0), 9).expect("readable");
    assert_eq!(again, [StreamEntry { id: first, fields: vec![(b"f".to_vec(), b"a".to_vec())] }]);
    let pending = db.xpending_range("s", "g", Duration::ZERO, .., 9).expect("readable");
    assert_eq!(
        (pending.len(), pending[0].id, &pending[0].consumer[..], pending[0].deliveries),
        (1, first, &b"me"[..], 2)
    );
    assert!(db.xpending_range("s", "g", Duration::from_secs(3600), .., 9).expect("readable").is_empty());
}
