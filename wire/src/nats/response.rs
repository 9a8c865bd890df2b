//! Lines and messages of a server.
use crate::Output;
use crate::http::json;

/// The facts of INFO.
#[derive(Clone, Debug, Default)]
pub struct Info<'i> {
    pub server_id: &'i str,
    pub server_name: &'i str,
    pub version: &'i str,
    pub host: &'i str,
    pub port: u16,
    pub payload_bytes_max: usize,
    pub client_id: u64,
    pub client_ip: &'i str,
    pub asks_login: bool,
    pub is_encrypted: bool,
    /// The client may begin TLS after INFO.
    pub may_be_encrypted: bool,
    /// The servers to which the client may go.
    pub servers: &'i [String],
    /// The server ends soon: the client is to go to another one.
    pub is_leaving: bool,
}

/// Appends INFO.
pub fn info(output: &mut Output, info: &Info<'_>) {
    let mut text = b"INFO {".to_vec();
    let name = |text: &mut Vec<u8>, name: &str| {
        if text.last() != Some(&b'{') {
            text.push(b',');
        }
        text.extend_from_slice(format!("\"{name}\":").as_bytes());
    };
    let texts = [
        ("server_id", info.server_id),
        ("server_name", info.server_name),
        ("version", info.version),
        ("host", info.host),
        ("client_ip", info.client_ip),
    ];
    for (member, value) in texts {
        name(&mut text, member);
        json::value(&mut text, value.as_bytes());
    }
    let numbers = [
        ("proto", 1),
        ("port", u64::from(info.port)),
        ("max_payload", info.payload_bytes_max as u64),
        ("client_id", info.client_id),
    ];
    for (member, value) in numbers {
        name(&mut text, member);
        text.extend_from_slice(value.to_string().as_bytes());
    }
    let switches = [
        ("headers", true),
        ("auth_required", info.asks_login),
        ("tls_required", info.is_encrypted),
        ("tls_available", info.may_be_encrypted),
        ("ldm", info.is_leaving),
    ];
    for (member, _) in switches.into_iter().filter(|(_, is_on)| *is_on) {
        name(&mut text, member);
        text.extend_from_slice(b"true");
    }
    if !info.servers.is_empty() {
        name(&mut text, "connect_urls");
        for (number, server) in info.servers.iter().enumerate() {
            text.push(if number == 0 { b'[' } else { b',' });
            json::value(&mut text, server.as_bytes());
        }
        text.push(b']');
    }
    text.extend_from_slice(b"}\r\n");
    output.raw(&text);
}

/// Appends a message: MSG, or HMSG where there are headers. An empty reply is none.
pub fn message(
    output: &mut Output,
    (sid, subject): (&[u8], &[u8]),
    reply: &[u8],
    headers: &[u8],
    payload: &[u8],
) {
    let mut digits = itoa::Buffer::new();
    let head = headers.len();
    output.raw(if head == 0 { b"MSG " } else { b"HMSG " });
    output.raw(subject);
    output.raw(b" ");
    output.raw(sid);
    output.raw(b" ");
    if !reply.is_empty() {
        output.raw(reply);
        output.raw(b" ");
    }
    if head != 0 {
        output.raw(digits.format(head).as_bytes());
        output.raw(b" ");
    }
    output.raw(digits.format(head + payload.len()).as_bytes());
    output.raw(b"\r\n");
    output.raw(headers);
    output.raw(payload);
    output.raw(b"\r\n");
}

/// Appends an error.
pub fn error(output: &mut Output, text: &str) {
    output.raw(b"-ERR '");
    output.raw(text.replace(['\r', '\n'], " ").as_bytes());
    output.raw(b"'\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_lengths() {
        let mut output = Output::default();
        message(&mut output, (b"7", b"a.b"), b"", b"", b"hello");
        message(&mut output, (b"7", b"a.b"), b"r", b"", b"");
        message(&mut output, (b"7", b"a.b"), b"r", b"NATS/1.0\r\n\r\n", b"x");
        error(&mut output, "Invalid\r\nSubject");
        assert_eq!(
            String::from_utf8(output.bytes()).unwrap(),
            "MSG a.b 7 5\r\nhello\r\nMSG a.b 7 r 0\r\n\r\nHMSG a.b 7 r 12 13\r\nNATS/1.0\r\n\r\nx\r\n-ERR 'Invalid  Subject'\r\n"
        );
    }

    #[test]
    fn info_is_one_line_of_json() {
        let mut output = Output::default();
        let facts =
            Info { server_id: "S", version: "2.10.0", port: 4222, asks_login: true, ..Info::default() };
        info(&mut output, &facts);
        let text = String::from_utf8(output.bytes()).unwrap();
        assert!(
            text.starts_with("INFO {\"server_id\":\"S\",") && text.ends_with("\"auth_required\":true}\r\n"),
            "{text}"
        );
    }
}
