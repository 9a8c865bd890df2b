//! The console for a browser: files that are compiled into the program. They are served as they stand in `protocols/console`,
//! and ask for nothing from elsewhere.
//!
//! Every client that may connect gets them, because they hold no secret: all data come over `/ws`, where the user logs in.
use super::answer::Answer;

/// What the browser may do with a page of the console: run its own modules, and talk to this server.
///
/// Values of keys are texts to it in any case. If one of them should become markup by a mistake, nothing in it runs.
const FIELDS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
                      X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const MODULE: &str = "text/javascript; charset=utf-8";

/// The path below `/console`, the content type, and the content.
const FILES: &[(&[u8], &str, &str)] = &[
    (b"", HTML, include_str!("../../../console/index.html")),
    (b"/", HTML, include_str!("../../../console/index.html")),
    (b"/console.css", CSS, include_str!("../../../console/console.css")),
    (b"/main.js", MODULE, include_str!("../../../console/main.js")),
    (b"/link.js", MODULE, include_str!("../../../console/link.js")),
    (b"/view.js", MODULE, include_str!("../../../console/view.js")),
    (b"/live.js", MODULE, include_str!("../../../console/live.js")),
    (b"/keys.js", MODULE, include_str!("../../../console/keys.js")),
    (b"/analysis.js", MODULE, include_str!("../../../console/analysis.js")),
    (b"/terminal.js", MODULE, include_str!("../../../console/terminal.js")),
    (b"/watch.js", MODULE, include_str!("../../../console/watch.js")),
];

const WELCOME: &str = include_str!("../../../console/welcome.html");

/// The response at `/` where no key is shown there: a page for browsers, and a line for programs.
pub fn welcome(accept: Option<&[u8]>) -> Answer {
    let takes_html = accept.is_some_and(|accept| memchr::memmem::find(accept, b"text/html").is_some());
    let answer = if takes_html {
        Answer::text(200, HTML, WELCOME).with(FIELDS)
    } else {
        Answer::text(
            404,
            "text/plain; charset=utf-8",
            "This is Polder. A key is at /k/KEY, a command at /js?GET+KEY, the console at /console; / shows the key index.html.\n",
        )
    };
    answer.with("Vary: Accept\r\n")
}

/// The file at a path, if there is one.
pub fn file(path: &[u8]) -> Answer {
    match FILES.iter().find(|(name, ..)| *name == path) {
        Some((_, content_type, content)) => Answer::text(200, content_type, *content).with(FIELDS),
        None => Answer::error(404, "the console has no such file; it begins at /console"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_is_asked_for_is_there_and_none_is_inline() {
        let welcome: (&[u8], _, _) = (b"/", HTML, WELCOME);
        for (name, _, content) in FILES.iter().chain([&welcome]) {
            let paths = content.split(['"', '\'']).filter_map(|text| text.strip_prefix("/console"));
            paths.for_each(|path| assert_eq!(file(path.as_bytes()).status, 200, "{path}"));
            assert!(
                !content.contains("http://") || content.contains("http://www.w3.org/2000/svg"),
                "{name:?}"
            );
            assert!(
                !content.contains("innerHTML")
                    && !content.contains("style=")
                    && !content.contains("onclick=\""),
                "{name:?}"
            );
        }
        assert_eq!(file(b"/../Cargo.toml").status, 404);
    }
}
