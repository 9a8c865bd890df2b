//! Where a command writes its reply, whatever protocol carries it.
//!
//! A command function knows nothing of RESP: it says "an array of three, a bulk, an integer", and the
//! sink writes RESP2, RESP3, JSON or native values. Containers are announced with their length first
//! and closed by their last element, as in RESP.

/// The version of RESP that decides which types a reply has. Callers without a protocol of their own use [`Protocol::Resp3`], the richer one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Strings, integers, errors and arrays.
    #[default]
    Resp2,
    /// Also maps, sets, doubles, booleans, big numbers and pushes.
    Resp3,
}

/// A string with what memcached and HTTP keep beside it: the reply of the ITEM commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Item<'a> {
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// A number that is another one after each change of the key. Only equality means something.
    pub cas: u64,
    /// How long it lives on, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// How long ago it was read or written before this call, in seconds.
    pub idle_seconds: u64,
    /// Whether it was read before.
    pub fetched: bool,
    /// The length of the value, in bytes.
    pub bytes: u64,
    /// The value may be used, but a newer one is wanted.
    pub stale: bool,
    pub recache: Recache,
    /// The call has made it.
    pub is_new: bool,
    /// The content type; empty for none.
    pub content_type: &'a [u8],
}

/// Whether a client is to renew an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recache {
    /// Nothing has asked for that.
    #[default]
    None,
    /// This client.
    Won,
    /// Another client.
    Taken,
}

/// What became of an item that a call was to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// The change was made; the CAS of the item that it left is a number, or 0 if it left none.
    Done(u64),
    /// A condition about the presence of the key does not hold.
    NotStored,
    /// The item has another CAS than the client named.
    Exists,
    NotFound,
}

/// A sink for one reply. All text is bytes: Redis replies are binary-safe. A sink that looks at some kinds of
/// replies only drops the others.
pub trait Reply {
    /// The richest form this client understands; a few commands answer in another shape in RESP3.
    fn protocol(&self) -> Protocol;
    /// What follows is written in this form (HELLO); sinks that know one form only stay with it.
    fn speak(&mut self, _protocol: Protocol) {}
    /// A simple string such as `OK`, without CR or LF.
    fn status(&mut self, _text: &str) {}
    /// An error, its code first: `ERR syntax error`, `WRONGTYPE Operation ...`. CR and LF become spaces.
    fn error(&mut self, text: &str);
    /// An integer.
    fn integer(&mut self, _value: i64) {}
    /// A string value.
    fn bulk(&mut self, bytes: &[u8]);
    /// Bulk strings that lie side by side in `bytes`, each up to where `ends` says; the last ends with the bytes.
    fn bulks(&mut self, bytes: &[u8], ends: &[u16]) {
        let mut start = 0;
        for end in ends {
            self.bulk(&bytes[start..usize::from(*end)]);
            start = usize::from(*end);
        }
    }
    /// A bulk string in pieces whose lengths add up to `len`: `begin_bulk`, any number of `piece`, `end_bulk`.
    fn begin_bulk(&mut self, _len: u64) {}
    /// The next piece of a bulk string that [`Reply::begin_bulk`] has announced.
    fn piece(&mut self, _bytes: &[u8]) {}
    /// The end of such a bulk string.
    fn end_bulk(&mut self) {}
    /// Nothing: `$-1` in RESP2, `_` in RESP3.
    fn null(&mut self) {}
    /// No array: `*-1` in RESP2, `_` in RESP3.
    fn null_array(&mut self) {}
    /// An array, whose elements follow.
    fn array(&mut self, _len: usize) {}
    /// A map of `pairs` keys and values; in RESP2 an array of twice as many elements.
    fn map(&mut self, _pairs: usize) {}
    /// A set; in RESP2 an array.
    fn set(&mut self, _len: usize) {}
    /// An out-of-band push; in RESP2 an array.
    fn push(&mut self, _len: usize) {}
    /// Attributes that precede a reply (RESP3 only; the caller checks the protocol).
    fn attribute(&mut self, _pairs: usize) {}
    /// A double: shortest text that reads back the same; in RESP2 a bulk string.
    fn double(&mut self, _value: f64) {}
    /// A number in text form that the caller has already formatted (RESP3 double, RESP2 bulk).
    fn double_text(&mut self, _text: &str) {}
    /// A boolean: `#t`/`#f` in RESP3, `:1`/`:0` in RESP2.
    fn boolean(&mut self, _value: bool) {}
    /// A big number in decimal text; in RESP2 a bulk string.
    fn big_number(&mut self, _text: &str) {}
    /// Text with a three-letter format (`txt`, `mkd`); in RESP2 a bulk string.
    fn verbatim(&mut self, _format: &str, _text: &[u8]) {}
    /// The present place in the reply, for [`Reply::rewind`].
    fn mark(&self) -> usize;
    /// Bytes written since `mark`, if they are to leave the process.
    fn bytes_since(&self, _mark: usize) -> usize {
        0
    }
    /// Drops what was written since `mark`: the call is run again, or fails.
    fn rewind(&mut self, mark: usize);

    /// Whether the client will be disconnected for the length of its replies, so that a command that writes without end may stop.
    fn is_overfull(&self) -> bool {
        false
    }

    /// An item, without its value unless `has_value` says that the value follows as a bulk string.
    fn item(&mut self, item: &Item<'_>, has_value: bool) {
        let recache = item.recache != Recache::None;
        let more = [item.stale, recache, !item.content_type.is_empty(), has_value];
        self.map(4 + more.into_iter().filter(|there| *there).count());
        self.bulk(b"flags");
        self.integer(item.flags.into());
        self.bulk(b"cas");
        self.integer(item.cas as i64);
        self.bulk(b"ttl");
        self.integer(item.ttl_ms.map_or(-1, |ms| ms as i64));
        self.bulk(b"bytes");
        self.integer(item.bytes as i64);
        if item.stale {
            self.bulk(b"stale");
            self.boolean(true);
        }
        if recache {
            self.bulk(b"won");
            self.boolean(item.recache == Recache::Won);
        }
        if !item.content_type.is_empty() {
            self.bulk(b"type");
            self.bulk(item.content_type);
        }
        if has_value {
            self.bulk(b"value");
        }
    }

    /// Whether a reply of [`Reply::written`] shows the CAS. Where it does not, a call need not find out.
    fn shows_cas(&self) -> bool {
        true
    }

    /// Tells whether SET and ITEM.SET are to say that a key is new ([`Reply::new_key`]). A call need not find out for other sinks.
    fn hears_of_new_keys(&self) -> bool {
        false
    }

    /// Notes that the key which a call has given a value is a new one.
    fn new_key(&mut self) {}

    /// Notes the length of the value that a call leaves, in bytes, where it has written behind or in front of another.
    fn grown(&mut self, _bytes: u64) {}

    /// What became of an item.
    fn written(&mut self, written: Written) {
        match written {
            Written::Done(cas) => {
                self.array(2);
                self.status("STORED");
                self.integer(cas as i64);
            }
            Written::NotStored => self.status("NOT_STORED"),
            Written::Exists => self.status("EXISTS"),
            Written::NotFound => self.status("NOT_FOUND"),
        }
    }

    /// The status `OK`.
    fn ok(&mut self) {
        self.status("OK");
    }
}
