//! Calls that the protocol makes itself, to reply with what they say.
use polder_base::{Item, Protocol as RespVersion, Reply};
use polder_engine::Memory;
use polder_runtime::{Host, Session};

/// What a call has replied.
#[derive(Default)]
pub struct Capture {
    /// Its strings, whatever stands around them.
    pub bulks: Vec<Vec<u8>>,
    pub item: Option<(u32, u64, Option<u64>, u64, u64)>,
    pub error: Option<String>,
}

impl Capture {
    /// Runs a call with the rights of the session.
    pub fn of(session: &mut Session, (host, memory): (&dyn Host, &Memory), args: &[&[u8]]) -> Capture {
        let mut capture = Capture::default();
        memory.execute(session, host, args, &mut capture);
        capture
    }

    /// The texts of a reply as one.
    pub fn text(&self) -> String {
        self.bulks.iter().map(|bulk| String::from_utf8_lossy(bulk)).collect()
    }
}

impl Reply for Capture {
    fn protocol(&self) -> RespVersion {
        RespVersion::Resp3
    }
    fn error(&mut self, text: &str) {
        self.error = Some(text.into());
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.bulks.push(bytes.to_vec());
    }
    fn begin_bulk(&mut self, _len: u64) {
        self.bulks.push(Vec::new());
    }
    fn piece(&mut self, bytes: &[u8]) {
        if let Some(last) = self.bulks.last_mut() {
            last.extend_from_slice(bytes);
        }
    }
    fn verbatim(&mut self, _format: &str, text: &[u8]) {
        self.bulk(text);
    }
    fn item(&mut self, item: &Item<'_>, _has_value: bool) {
        self.item = Some((item.flags, item.cas, item.ttl_ms, item.bytes, item.idle_seconds));
    }
    fn mark(&self) -> usize {
        self.bulks.len()
    }
    fn rewind(&mut self, mark: usize) {
        self.bulks.truncate(mark);
        (self.item, self.error) = (None, None);
    }
}
