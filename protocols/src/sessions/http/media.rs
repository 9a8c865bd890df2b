//! Content types: stored with a value, or by the suffix of its key.

/// A content type.
#[derive(Debug)]
pub struct Media {
    suffix: &'static str,
    pub content_type: &'static str,
    /// A browser runs what is in it, as a page of this server.
    pub is_active: bool,
}

const fn passive(suffix: &'static str, content_type: &'static str) -> Media {
    Media { suffix, content_type, is_active: false }
}

const fn active(suffix: &'static str, content_type: &'static str) -> Media {
    Media { suffix, content_type, is_active: true }
}

/// The first one is that of a key without a known suffix.
pub static MEDIA: &[Media] = &[
    passive("", "application/octet-stream"),
    passive("txt", "text/plain; charset=utf-8"),
    active("html", "text/html; charset=utf-8"),
    active("htm", "text/html; charset=utf-8"),
    passive("css", "text/css; charset=utf-8"),
    passive("js", "text/javascript; charset=utf-8"),
    passive("mjs", "text/javascript; charset=utf-8"),
    passive("json", "application/json"),
    active("xml", "application/xml"),
    passive("csv", "text/csv; charset=utf-8"),
    passive("md", "text/markdown; charset=utf-8"),
    passive("yaml", "application/yaml"),
    passive("yml", "application/yaml"),
    active("svg", "image/svg+xml"),
    passive("png", "image/png"),
    passive("jpg", "image/jpeg"),
    passive("jpeg", "image/jpeg"),
    passive("gif", "image/gif"),
    passive("webp", "image/webp"),
    passive("avif", "image/avif"),
    passive("ico", "image/vnd.microsoft.icon"),
    active("pdf", "application/pdf"),
    passive("mp3", "audio/mpeg"),
    passive("ogg", "audio/ogg"),
    passive("wav", "audio/wav"),
    passive("mp4", "video/mp4"),
    passive("webm", "video/webm"),
    passive("wasm", "application/wasm"),
    passive("woff", "font/woff"),
    passive("woff2", "font/woff2"),
    passive("zip", "application/zip"),
    passive("gz", "application/gzip"),
];

/// The number of a key's content type in [`MEDIA`], and whether the value is shown as that type in gzip: for `page.html.gz`
/// if the client takes gzip.
pub fn of_key(key: &[u8], takes_gzip: bool) -> (u8, bool) {
    match suffix(key) {
        Some((rest, last)) if takes_gzip && last.eq_ignore_ascii_case(b"gz") => {
            (suffix(rest).map_or(0, |(_, inner)| of_suffix(inner)), true)
        }
        Some((_, last)) => (of_suffix(last), false),
        None => (0, false),
    }
}

/// The content type to be stored with a value, of the one that a request names. None is stored that says nothing: that of the
/// suffix, and that of forms, which `curl -d` gives to whatever it sends.
pub fn to_store<'b>(key: &[u8], content_type: &'b [u8]) -> Option<&'b [u8]> {
    let usual = MEDIA[usize::from(of_key(key, false).0)].content_type.as_bytes();
    let says_something =
        !content_type.is_empty() && essence(content_type) != b"application/x-www-form-urlencoded";
    (says_something && !content_type.eq_ignore_ascii_case(usual)).then_some(content_type)
}

/// A stored content type as it is sent, and whether a browser may run what is in it: any type that is not known to be
/// harmless may. Another client may have stored a text that is no field of HTTP, which is not sent.
pub fn stored(content_type: &[u8]) -> Option<(&str, bool)> {
    let text = std::str::from_utf8(content_type)
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~')))?;
    let is_known =
        |media: &&Media| essence(media.content_type.as_bytes()).eq_ignore_ascii_case(essence(content_type));
    // Of several types in one field browsers may take the last one.
    Some((text, text.contains(',') || MEDIA.iter().find(is_known).is_none_or(|media| media.is_active)))
}

/// Whether the number is that of a compressed file, whatever is in it.
pub fn is_packed(number: u8) -> bool {
    MEDIA.get(usize::from(number)).is_some_and(|media| media.suffix == "gz")
}

/// A content type without its parameters.
fn essence(content_type: &[u8]) -> &[u8] {
    content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

fn suffix(key: &[u8]) -> Option<(&[u8], &[u8])> {
    // A longer suffix than these is none.
    let begin = key.len().saturating_sub(6);
    let at = begin + memchr::memrchr(b'.', &key[begin..])?;
    Some((&key[..at], &key[at + 1..]))
}

fn of_suffix(suffix: &[u8]) -> u8 {
    let found = MEDIA.iter().skip(1).position(|media| media.suffix.as_bytes().eq_ignore_ascii_case(suffix));
    found.map_or(0, |at| at as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(key: &str, takes_gzip: bool) -> (&'static str, bool) {
        let (number, is_gzip) = of_key(key.as_bytes(), takes_gzip);
        (MEDIA[usize::from(number)].content_type, is_gzip)
    }

    #[test]
    fn the_suffix_of_a_key_says_what_it_is() {
        assert_eq!(shown("a/page.HTML", false), ("text/html; charset=utf-8", false));
        assert_eq!(shown("font.woff2", false), ("font/woff2", false));
        assert_eq!(shown("noSuffix", true), ("application/octet-stream", false));
        assert_eq!(shown("a.unknown", true), ("application/octet-stream", false));
        assert_eq!(shown("", true), ("application/octet-stream", false));
    }

    #[test]
    fn a_content_type_is_stored_if_it_says_something() {
        assert_eq!(to_store(b"a.json", b"application/json"), None);
        assert_eq!(to_store(b"a.json", b"application/problem+json"), Some(&b"application/problem+json"[..]));
        assert_eq!(to_store(b"a", b"application/octet-stream"), None);
        assert_eq!(to_store(b"a", b"text/css"), Some(&b"text/css"[..]));
        assert_eq!(to_store(b"a", b"application/x-www-form-urlencoded"), None);
        assert_eq!(to_store(b"a", b""), None);
    }

    #[test]
    fn what_a_browser_may_run_is_known() {
        assert_eq!(stored(b"text/plain; charset=latin1"), Some(("text/plain; charset=latin1", false)));
        assert_eq!(stored(b"TEXT/HTML"), Some(("TEXT/HTML", true)));
        assert_eq!(
            stored(b"text/plain;a=b, text/html").map(|(_, is_active)| is_active),
            Some(true),
            "browsers may take the last one"
        );
        assert_eq!(stored(b"application/xhtml+xml"), Some(("application/xhtml+xml", true)));
        assert_eq!(stored(b"text/plain\r\nSet-Cookie: a=b"), None);
        assert_eq!((stored(b""), stored(b"\xff")), (None, None));
    }

    #[test]
    fn a_compressed_page_is_a_page_only_where_gzip_is_taken() {
        assert_eq!(shown("page.html.gz", true), ("text/html; charset=utf-8", true));
        assert_eq!(shown("page.html.gz", false), ("application/gzip", false));
        assert_eq!(shown("page.gz", true), ("application/octet-stream", true));
    }
}
