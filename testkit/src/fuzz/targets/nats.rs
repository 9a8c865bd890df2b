//! The reader of NATS: operations are the same however the bytes come, and none takes more than it says.
use polder_wire::nats::{Operation, Options, Requests, Violation};

const PAYLOAD_MAX: usize = 1 << 16;

/// Sensible inputs.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "CONNECT {\"verbose\":false,\"pedantic\":false,\"user\":\"a\\u00e9\",\"x\":[{}]}\r\nPING\r\n",
        "SUB orders.*.new workers 7\r\nUNSUB 7 100\r\n",
        "PUB orders.eu.new _INBOX.a.1 5\r\nhello\r\nPUB a 0\r\n\r\n",
        "HPUB a 22 25\r\nNATS/1.0\r\nBar: Baz\r\n\r\nabc\r\nHPUB a r 0 1\r\nx\r\n",
        "pub\ta\t1\nx\r\n+OK\r\nINFO {}\nPONG\r\n",
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The operations in some bytes, each with its length, and how the reading ended.
fn read(input: &[u8], cuts: impl Iterator<Item = usize>) -> (Vec<(String, usize)>, Option<Violation>) {
    let (mut reader, mut operations, mut taken) = (Requests::default(), Vec::new(), 0);
    for end in cuts {
        loop {
            match reader.read(&input[taken..end], PAYLOAD_MAX) {
                Ok(Some((operation, length))) => {
                    if let Operation::Connect(text) = operation {
                        let _ = Options::read(text);
                    }
                    operations.push((format!("{operation:?}"), length));
                    taken += length;
                }
                Ok(None) => {
                    assert!(
                        reader.missing(end - taken) <= PAYLOAD_MAX + 2,
                        "no more is announced than a payload may have"
                    );
                    break;
                }
                Err(violation) => return (operations, Some(violation)),
            }
        }
    }
    (operations, None)
}

/// Operations are the same however the bytes come.
pub fn operations_are_read_alike_however_they_are_cut(input: &[u8]) {
    let whole = read(input, std::iter::once(input.len()));
    assert_eq!(whole, read(input, 1..=input.len()));
}
