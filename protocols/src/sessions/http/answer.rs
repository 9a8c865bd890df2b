//! Responses that are no value of a key: errors and texts.
use polder_base::time::coarse_ms;
use polder_wire::Output;
use polder_wire::http::response::{Connection, ResponseHead};

pub const JSON: &str = "application/json";

/// A response that is known as a whole.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// More fields, each with CR and LF at its end.
    pub fields: Vec<u8>,
}

/// What a request adds to its response, whatever the response is.
#[derive(Clone, Copy, Debug)]
pub struct Style<'s> {
    pub connection: Connection,
    /// The request is a HEAD: the response has no body.
    pub is_head: bool,
    /// More fields, each with CR and LF at its end.
    pub fields: &'s [u8],
}

impl Style<'_> {
    /// That of a plain request.
    pub const PLAIN: Style<'static> = Style { connection: Connection::Stays, is_head: false, fields: b"" };
    /// That of a request that ends the connection.
    pub const LAST: Style<'static> = Style { connection: Connection::Closes, is_head: false, fields: b"" };
}

impl Answer {
    /// A response without a body.
    pub fn empty(status: u16) -> Answer {
        Answer { status, ..Answer::default() }
    }

    /// A text.
    pub fn text(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status, content_type, body: body.into(), fields: Vec::new() }
    }

    /// An error as JSON.
    pub fn error(status: u16, text: &str) -> Answer {
        let mut body = b"{\"error\":".to_vec();
        polder_wire::http::json::string(&mut body, text);
        body.extend_from_slice(b"}\n");
        let answer = Answer::text(status, JSON, body);
        match status {
            401 => answer.with("WWW-Authenticate: Basic realm=\"polder\", charset=\"UTF-8\"\r\n"),
            503 => answer.with("Retry-After: 1\r\n"),
            _ => answer,
        }
    }

    /// The error that a call replies with: its code decides the status.
    pub fn of_call(text: &str) -> Answer {
        Answer::error(status_of(text), text)
    }

    /// The same response with one more field.
    pub fn with(mut self, field: &str) -> Answer {
        self.fields.extend_from_slice(field.as_bytes());
        self
    }

    /// Appends the response.
    pub fn write(&self, output: &mut Output, style: Style<'_>) {
        let mut fields = self.fields.clone();
        fields.extend_from_slice(style.fields);
        let has_no_body = matches!(self.status, 204 | 304);
        let length = (!has_no_body).then_some(self.body.len() as u64);
        begin(output, self.status, self.content_type, length, Style { fields: &fields, ..style });
        if !style.is_head {
            output.raw(&self.body);
        }
    }
}

/// Appends the head of a response.
pub fn begin(output: &mut Output, status: u16, content_type: &str, length: Option<u64>, style: Style<'_>) {
    let head =
        ResponseHead { status, content_type, length, connection: style.connection, fields: style.fields };
    head.write(output, coarse_ms() / 1000);
}

/// The status for an error by its code.
fn status_of(text: &str) -> u16 {
    match text.split(' ').next().unwrap_or_default() {
        "NOAUTH" | "WRONGPASS" => 401,
        "NOPERM" => 403,
        "WRONGTYPE" => 409,
        "OOM" => 507,
        "BUSY" | "LOADING" | "TRYAGAIN" | "MISCONF" | "READONLY" | "MASTERDOWN" | "NOREPLICAS" => 503,
        _ => 400,
    }
}
