//! The head of a request: its first line and its fields.
use std::mem::MaybeUninit;

use super::{Refused, refused};

/// The most bytes of a head, and the most fields in it.
pub const HEAD_BYTES_MAX: usize = 32 << 10;
const FIELDS_MAX: usize = 100;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
    Options,
    /// Any other word.
    Other,
}

/// A head. All of it are slices of the input.
#[derive(Clone, Debug)]
pub struct Head<'b> {
    pub method: Method,
    /// The path and the query.
    pub target: &'b [u8],
    /// Whether the client speaks HTTP/1.0.
    pub is_old: bool,
    pub fields: Fields<'b>,
    /// The length of the body if the head gives one.
    pub length: Option<u64>,
    pub is_chunked: bool,
    /// Whether the connection ends after the response.
    pub closes: bool,
}

/// The fields that a server acts on. A field that must stand alone stands in the request once at most.
#[derive(Clone, Debug, Default)]
pub struct Fields<'b> {
    /// The name of the server that the client has asked for: of `Host`, and of a target that has one.
    pub host: Option<&'b [u8]>,
    pub origin: Option<&'b [u8]>,
    pub sec_fetch_site: Option<&'b [u8]>,
    pub authorization: Option<&'b [u8]>,
    pub content_type: Option<&'b [u8]>,
    pub content_encoding: Option<&'b [u8]>,
    pub accept: Option<&'b [u8]>,
    pub accept_encoding: Option<&'b [u8]>,
    pub if_match: Option<&'b [u8]>,
    pub if_none_match: Option<&'b [u8]>,
    pub if_range: Option<&'b [u8]>,
    pub range: Option<&'b [u8]>,
    pub upgrade: Option<&'b [u8]>,
    pub web_socket_key: Option<&'b [u8]>,
    pub web_socket_version: Option<&'b [u8]>,
    pub web_socket_protocol: Option<&'b [u8]>,
    pub web_socket_extensions: Option<&'b [u8]>,
    pub last_event_id: Option<&'b [u8]>,
    pub cors_method: Option<&'b [u8]>,
    /// The client waits for "100 Continue" before it sends the body.
    pub expects: bool,
    /// What `Connection`, `Content-Length` and `Transfer-Encoding` say; [`Head`] has what follows from it.
    pub connection_closes: bool,
    pub connection_upgrades: bool,
    pub connection_stays: bool,
    pub length: Option<&'b [u8]>,
    pub encoding: Option<&'b [u8]>,
}

impl<'b> Head<'b> {
    /// Reads a head that is there as a whole, with the empty line at its end. The caller has seen that each line ends
    /// with CR and LF.
    ///
    /// # Errors
    /// A head that HTTP does not allow, or that two programs might understand differently.
    pub fn read(bytes: &'b [u8]) -> Result<Head<'b>, Refused> {
        let mut headers = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let parsed = request.parse_with_uninit_headers(bytes, &mut headers).map_err(|error| match error {
            httparse::Error::TooManyHeaders => {
                Refused { status: 431, text: "the request has more than 100 fields" }
            }
            httparse::Error::Version => {
                Refused { status: 505, text: "the server speaks HTTP/1.1 and HTTP/1.0" }
            }
            httparse::Error::HeaderName => {
                Refused { status: 400, text: "a field has a name that HTTP does not allow" }
            }
            httparse::Error::HeaderValue => {
                Refused { status: 400, text: "a field has a value that HTTP does not allow" }
            }
            _ => Refused { status: 400, text: "the request line is not of HTTP" },
        })?;
        let (Ok(true), Some(method), Some(target), Some(version)) =
            (parsed_to(parsed, bytes.len()), request.method, request.path, request.version)
        else {
            return refused(400, "the head of the request is not of HTTP");
        };
        let mut fields = Fields::default();
        for header in &*request.headers {
            fields.note(header.name, header.value)?;
        }
        let is_old = version == 0;
        let method = method_of(method);
        let target = fields.check_target(method, target.as_bytes(), is_old)?;
        let (length, is_chunked) = fields.framing(is_old)?;
        let closes = fields.connection_closes || is_old && !fields.connection_stays;
        Ok(Head { method, target, is_old, length, is_chunked, closes, fields })
    }
}

/// Whether all bytes belong to the head.
fn parsed_to(parsed: httparse::Status<usize>, length: usize) -> Result<bool, ()> {
    match parsed {
        httparse::Status::Complete(end) => Ok(end == length),
        httparse::Status::Partial => Err(()),
    }
}

fn method_of(word: &str) -> Method {
    match word {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "PUT" => Method::Put,
        "POST" => Method::Post,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        _ => Method::Other,
    }
}

impl<'b> Fields<'b> {
    /// Notes a field that counts.
    fn note(&mut self, name: &str, value: &'b [u8]) -> Result<(), Refused> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        // By length first: most fields of a browser are none of these.
        let single = match name.len() {
            4 if is("host") => &mut self.host,
            5 if is("range") => &mut self.range,
            6 if is("origin") => &mut self.origin,
            6 if is("accept") => return set(&mut self.accept, value),
            6 if is("expect") => {
                self.expects = true;
                return if value.eq_ignore_ascii_case(b"100-continue") {
                    Ok(())
                } else {
                    refused(417, "only 100-continue can be expected")
                };
            }
            7 if is("upgrade") => return set(&mut self.upgrade, value),
            8 if is("if-match") => &mut self.if_match,
            8 if is("if-range") => &mut self.if_range,
            10 if is("connection") => {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.connection_closes |= word.eq_ignore_ascii_case(b"close");
                    self.connection_upgrades |= word.eq_ignore_ascii_case(b"upgrade");
                    self.connection_stays |= word.eq_ignore_ascii_case(b"keep-alive");
                }
                return Ok(());
            }
            12 if is("content-type") => &mut self.content_type,
            13 if is("authorization") => &mut self.authorization,
            13 if is("last-event-id") => &mut self.last_event_id,
            13 if is("if-none-match") => &mut self.if_none_match,
            14 if is("content-length") => &mut self.length,
            14 if is("sec-fetch-site") => &mut self.sec_fetch_site,
            15 if is("accept-encoding") => return set(&mut self.accept_encoding, value),
            16 if is("content-encoding") => &mut self.content_encoding,
            17 if is("transfer-encoding") => &mut self.encoding,
            17 if is("sec-websocket-key") => &mut self.web_socket_key,
            21 if is("sec-websocket-version") => &mut self.web_socket_version,
            22 if is("sec-websocket-protocol") => &mut self.web_socket_protocol,
            24 if is("sec-websocket-extensions") => &mut self.web_socket_extensions,
            29 if is("access-control-request-method") => &mut self.cors_method,
            _ => return Ok(()),
        };
        if single.is_some() {
            return refused(400, "a field that must stand alone stands in the request twice");
        }
        *single = Some(value);
        Ok(())
    }

    /// The path and the query of the target. A target that names a server overrides `Host`, so both must be the same.
    fn check_target(&mut self, method: Method, target: &'b [u8], is_old: bool) -> Result<&'b [u8], Refused> {
        if self.host.is_none() && !is_old {
            return refused(400, "the request has no Host");
        }
        if target.contains(&b'#') {
            return refused(400, "the target of a request has no fragment");
        }
        match target {
            [b'/', ..] => return Ok(target),
            b"*" if method == Method::Options => return Ok(target),
            _ => {}
        }
        let (scheme, rest) = target.split_at(target.len().min("http://".len()));
        if !scheme.eq_ignore_ascii_case(b"http://") {
            return refused(400, "the target of a request begins with /");
        }
        let (authority, path) = rest.split_at(memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len()));
        if self.host.is_some_and(|host| !host.eq_ignore_ascii_case(authority)) || !path.starts_with(b"/") {
            return refused(400, "the target of the request names another server than Host does");
        }
        self.host = Some(authority);
        Ok(path)
    }

    /// The length of the body, and whether it comes in chunks.
    fn framing(&self, is_old: bool) -> Result<(Option<u64>, bool), Refused> {
        match (self.length, self.encoding) {
            (Some(_), Some(_)) => refused(400, "a body has either a Content-Length or a Transfer-Encoding"),
            (None, None) => Ok((None, false)),
            (Some(length), None) => {
                let is_number =
                    !length.is_empty() && length.len() <= 18 && length.iter().all(u8::is_ascii_digit);
                let number = || std::str::from_utf8(length).ok()?.parse().ok();
                match is_number.then(number).flatten() {
                    Some(number) => Ok((Some(number), false)),
                    None => refused(400, "Content-Length is one decimal number"),
                }
            }
            (None, Some(_)) if is_old => refused(400, "HTTP/1.0 has no Transfer-Encoding"),
            (None, Some(encoding)) if encoding.eq_ignore_ascii_case(b"chunked") => Ok((None, true)),
            (None, Some(_)) => refused(400, "the only Transfer-Encoding is chunked"),
        }
    }
}

/// Sets a field that may be repeated: the last one counts.
fn set<'b>(field: &mut Option<&'b [u8]>, value: &'b [u8]) -> Result<(), Refused> {
    *field = Some(value);
    Ok(())
}
