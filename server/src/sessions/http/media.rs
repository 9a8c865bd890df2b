//! Content types by the suffix of a key.

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
    fn a_compressed_page_is_a_page_only_where_gzip_is_taken() {
        assert_eq!(shown("page.html.gz", true), ("text/html; charset=utf-8", true));
        assert_eq!(shown("page.html.gz", false), ("application/gzip", false));
        assert_eq!(shown("page.gz", true), ("application/octet-stream", true));
    }
}
