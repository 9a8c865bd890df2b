//! Writing responses: the status line, the fields that each response has, and those of its own.
use std::cell::RefCell;

use crate::Output;

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'r> {
    pub status: u16,
    /// Empty for none.
    pub content_type: &'r str,
    /// The length of the body; `None` for a response that ends with the connection, or has no body by its status.
    pub length: Option<u64>,
    pub connection: Connection,
    /// More fields, each with CR and LF at its end.
    pub fields: &'r [u8],
}

/// What becomes of the connection after a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connection {
    /// It stays, which HTTP/1.1 need not say.
    Stays,
    /// It stays, and the client speaks HTTP/1.0.
    StaysOld,
    Closes,
}

impl ResponseHead<'_> {
    /// Appends the head, with its empty line. `now_seconds` is the time since the Unix epoch.
    pub fn write(&self, output: &mut Output, now_seconds: u64) {
        output.raw(status_line(self.status));
        dated(now_seconds, |date| output.raw(date));
        if !self.content_type.is_empty() {
            output.raw(b"Content-Type: ");
            output.raw(self.content_type.as_bytes());
            output.raw(b"\r\nX-Content-Type-Options: nosniff\r\n");
        }
        if let Some(length) = self.length {
            output.raw(b"Content-Length: ");
            output.raw(itoa::Buffer::new().format(length).as_bytes());
            output.raw(b"\r\n");
        }
        output.raw(match self.connection {
            Connection::Stays => b"",
            Connection::StaysOld => b"Connection: keep-alive\r\n",
            Connection::Closes => b"Connection: close\r\n",
        });
        output.raw(self.fields);
        output.raw(b"\r\n");
    }
}

fn status_line(status: u16) -> &'static [u8] {
    match status {
        100 => b"HTTP/1.1 100 Continue\r\n",
        200 => b"HTTP/1.1 200 OK\r\n",
        201 => b"HTTP/1.1 201 Created\r\n",
        204 => b"HTTP/1.1 204 No Content\r\n",
        206 => b"HTTP/1.1 206 Partial Content\r\n",
        304 => b"HTTP/1.1 304 Not Modified\r\n",
        400 => b"HTTP/1.1 400 Bad Request\r\n",
        401 => b"HTTP/1.1 401 Unauthorized\r\n",
        403 => b"HTTP/1.1 403 Forbidden\r\n",
        404 => b"HTTP/1.1 404 Not Found\r\n",
        405 => b"HTTP/1.1 405 Method Not Allowed\r\n",
        408 => b"HTTP/1.1 408 Request Timeout\r\n",
        409 => b"HTTP/1.1 409 Conflict\r\n",
        412 => b"HTTP/1.1 412 Precondition Failed\r\n",
        413 => b"HTTP/1.1 413 Content Too Large\r\n",
        415 => b"HTTP/1.1 415 Unsupported Media Type\r\n",
        416 => b"HTTP/1.1 416 Range Not Satisfiable\r\n",
        417 => b"HTTP/1.1 417 Expectation Failed\r\n",
        421 => b"HTTP/1.1 421 Misdirected Request\r\n",
        426 => b"HTTP/1.1 426 Upgrade Required\r\n",
        431 => b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
        501 => b"HTTP/1.1 501 Not Implemented\r\n",
        503 => b"HTTP/1.1 503 Service Unavailable\r\n",
        505 => b"HTTP/1.1 505 HTTP Version Not Supported\r\n",
        507 => b"HTTP/1.1 507 Insufficient Storage\r\n",
        _ => b"HTTP/1.1 500 Internal Server Error\r\n",
    }
}

thread_local! {
    /// The second of the last response, and its field.
    static DATE: RefCell<(u64, Vec<u8>)> = const { RefCell::new((u64::MAX, Vec::new())) };
}

/// Calls `write` with the `Date` field of a second, which is made once in it.
fn dated(now_seconds: u64, write: impl FnOnce(&[u8])) {
    DATE.with_borrow_mut(|(second, field)| {
        if *second != now_seconds {
            (*second, *field) = (now_seconds, format!("Date: {}\r\n", date(now_seconds)).into_bytes());
        }
        write(field);
    });
}

/// A time as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "{}, {day:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[month - 1]
    )
}

/// The date of a day since the Unix epoch: its year, month and day, counted from 1. The year is taken to begin with March,
/// so that the day of a leap year is its last one.
fn civil(days: u64) -> (u64, usize, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_rfc_9110_says() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(date(1_795_480_859), "Tue, 24 Nov 2026 00:40:59 GMT");
    }
}
