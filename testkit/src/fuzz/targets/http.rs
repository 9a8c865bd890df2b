//! The reader of HTTP, and the readers of its bodies.
use polder_wire::http::{Limits, Read, Refused, Requests, json, words};
use polder_wire::resp::{Replies, command};

/// Sensible inputs.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "GET /k/a%20b?db=1 HTTP/1.1\r\nHost: localhost:8080\r\nIf-None-Match: \"1\"\r\n\r\n",
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabcGET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "PUT /k/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nA: b\r\n\r\n",
        "POST /js?atomic HTTP/1.1\r\nHost: [::1]\r\nExpect: 100-continue\r\nContent-Length: 39\r\n\r\n[[\"SET\",\"\\u00e9\",1.5],[{\"base64\":\"/w==\"}]]",
        "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\nSec-Fetch-Site: cross-site\r\n\r\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The requests in some bytes, each as its length and body, and how the reading ended.
fn read(input: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<(usize, Vec<u8>)>, Option<Refused>) {
    let (mut reader, mut requests, mut taken) = (Requests::default(), Vec::new(), 0);
    for end in cuts {
        while taken < end {
            match reader.read(&input[taken..end], Limits { body_bytes_max: 1 << 16 }) {
                Ok(Read::Whole { body, length, .. }) => {
                    requests.push((length, body.into_owned()));
                    taken += length;
                }
                Ok(Read::Head(_)) => {
                    assert!(
                        reader.missing(end - taken) <= 1 << 16,
                        "no more is announced than a body may have"
                    );
                    break;
                }
                Ok(Read::Nothing) => break,
                Err(refused) => return (requests, Some(refused)),
            }
        }
    }
    (requests, None)
}

/// Requests are the same however the bytes come, and each body is read to an end.
pub fn requests_are_read_alike_however_they_are_cut(input: &[u8]) {
    let whole = read(input, std::iter::once(input.len()));
    let split = read(input, 1..=input.len());
    assert_eq!(whole.0, split.0);
    assert_eq!(whole.1.is_some(), split.1.is_some());
    for body in whole.0.iter().map(|(_, body)| body.as_slice()).chain([input]) {
        if let Ok(words::Commands::One(words)) = words::read(body) {
            // What was read as words is written as JSON again.
            let mut reply = Vec::new();
            command(&words, &mut reply);
            let text = json::of_resp(&reply);
            assert!(std::str::from_utf8(&text).is_ok());
            if !words.is_empty() {
                assert_eq!(words::read(&text), Ok(words::Commands::One(words)));
            }
        }
        let mut rest = body;
        if let Ok(Some(_)) = Replies::default().read(&mut rest) {
            assert!(std::str::from_utf8(&json::of_resp(body)).is_ok());
        }
    }
}
