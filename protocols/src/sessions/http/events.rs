//! Server-Sent Events (HTML Living Standard, section 9.2): messages of channels as a response that does not end.
//!
//! ```text
//!   retry: 2000                              how long a browser waits before it connects again
//!   id: 17                                   the client's id; a browser sends it back as Last-Event-ID
//!   event: open
//!   data: {"subjects":["news"],"patterns":[]}
//!
//!   event: gap                               only after a Last-Event-ID: what was published since is lost
//!   data: {"last":"17"}
//!
//!   data: {"subject":"news","data":"hello"}
//!
//!   :                                        a comment now and then, so that proxies do not take the connection for dead
//! ```
//!
//! Messages of channels are not kept, so no event can be sent again. The response says so instead of going on silently.
use polder_hub::Delivery;
use polder_wire::Output;
use polder_wire::http::json;

pub const CONTENT_TYPE: &str = "text/event-stream";
/// Fields of the response. A proxy must neither keep it nor collect it; the last one says that to nginx.
pub const FIELDS: &str = "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n";
/// How often a comment is sent.
pub const SIGN_MS: u64 = 15_000;

/// What a client has asked to hear.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub subjects: Vec<Vec<u8>>,
    pub patterns: Vec<Vec<u8>>,
    /// The id that it has seen last.
    pub last: Option<Vec<u8>>,
}

impl Wish {
    /// The calls that fulfil it.
    pub fn calls(&self) -> Vec<Vec<Vec<u8>>> {
        let call = |name: &[u8], words: &[Vec<u8>]| {
            (!words.is_empty()).then(|| std::iter::once(name.to_vec()).chain(words.iter().cloned()).collect())
        };
        [call(b"SUBSCRIBE", &self.subjects), call(b"PSUBSCRIBE", &self.patterns)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Appends the first events to a response.
    pub fn open(&self, output: &mut Output, client: u64) {
        let mut text = format!("retry: 2000\nid: {client}\nevent: open\ndata: {{\"subjects\":").into_bytes();
        list(&mut text, &self.subjects);
        text.extend_from_slice(b",\"patterns\":");
        list(&mut text, &self.patterns);
        text.extend_from_slice(b"}\n\n");
        if let Some(last) = &self.last {
            text.extend_from_slice(b"event: gap\ndata: {\"last\":");
            json::value(&mut text, last);
            text.extend_from_slice(b"}\n\n");
        }
        output.raw(&text);
    }
}

fn list(text: &mut Vec<u8>, words: &[Vec<u8>]) {
    text.push(b'[');
    for (number, word) in words.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        json::value(text, word);
    }
    text.push(b']');
}

/// Whether a client that hears events is told this.
pub fn accepts(delivery: &Delivery<'_>) -> bool {
    matches!(delivery, Delivery::Message { .. } | Delivery::PatternMessage { .. })
}

/// Appends the event of a message. JSON has no raw line ends, so the data is one line.
pub fn deliver(output: &mut Output, delivery: &Delivery<'_>) {
    let (pattern, channel, payload) = match *delivery {
        Delivery::Message { channel, payload } => (None, channel, payload),
        Delivery::PatternMessage { pattern, channel, payload } => (Some(pattern), channel, payload),
        _ => return,
    };
    let mut text = Vec::with_capacity(payload.len() + channel.len() + 64);
    text.extend_from_slice(b"data: {\"subject\":");
    json::value(&mut text, channel);
    if let Some(pattern) = pattern {
        text.extend_from_slice(b",\"pattern\":");
        json::value(&mut text, pattern);
    }
    text.extend_from_slice(b",\"data\":");
    json::value(&mut text, payload);
    text.extend_from_slice(b"}\n\n");
    output.raw(&text);
}

/// Appends a comment.
pub fn sign(output: &mut Output) {
    output.raw(b":\n\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_one_line_of_json() {
        let message = |channel, payload| Delivery::Message { channel, payload };
        let cases: [(Delivery<'_>, &str); 3] = [
            (message(b"a", b"x\ny\r\n: z"), "data: {\"subject\":\"a\",\"data\":\"x\\ny\\r\\n: z\"}\n\n"),
            (message(b"a", b"\xff"), "data: {\"subject\":\"a\",\"data\":{\"base64\":\"/w==\"}}\n\n"),
            (
                Delivery::PatternMessage { pattern: b"a*", channel: b"ab", payload: b"1" },
                "data: {\"subject\":\"ab\",\"pattern\":\"a*\",\"data\":\"1\"}\n\n",
            ),
        ];
        for (delivery, text) in cases {
            let mut output = Output::default();
            deliver(&mut output, &delivery);
            assert_eq!(String::from_utf8(output.bytes()).unwrap(), text);
        }
    }
}
