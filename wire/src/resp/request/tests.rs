//! What a server reads: the same requests wherever the input is cut, Redis's own words for nonsense, never a panic.
use proptest::prelude::*;

use super::*;
use crate::resp::command;

/// Everything that a reader makes of `parts`, given one after the other.
fn read_all(parts: &[&[u8]], limits: &Limits) -> Result<Vec<Vec<Vec<u8>>>, Malformed> {
    let (mut requests, mut held, mut got) = (Requests::default(), Vec::new(), Vec::new());
    for part in parts {
        held.extend_from_slice(part);
        let mut input = &held[..];
        let mut args = Vec::new();
        while let Some(request) = requests.read(&mut input, limits, &mut args)? {
            got.push(match request {
                Request::Bulks(count) => args.drain(args.len() - count..).map(<[u8]>::to_vec).collect(),
                Request::Inline(words) => words,
            });
        }
        held = input.to_vec();
    }
    Ok(got)
}

fn error(bytes: &[u8], limits: &Limits) -> Option<String> {
    read_all(&[bytes], limits).err().map(|malformed| malformed.to_string())
}

#[test]
fn nonsense_gets_the_words_of_redis() {
    let cases: &[(&[u8], &str)] = &[
        (b"*x\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*\r\n\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*03\r\n$1\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*2147483648\r\n", "ERR Protocol error: invalid multibulk length"),
        (b"*1\r\nfoo\r\n", "ERR Protocol error: expected '$', got 'f'"),
        (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$+4\r\nPING\r\n", "ERR Protocol error: invalid bulk length"),
        (b"set k \"a\r\n", "ERR Protocol error: unbalanced quotes in request"),
        (&[b'*'; 70_000], "ERR Protocol error: too big mbulk count string"),
        (&[b'x'; 70_000], "ERR Protocol error: too big inline request"),
        (&[b"*1\r\n$".as_slice(), &[b'1'; 70_000]].concat(), "ERR Protocol error: too big bulk count string"),
    ];
    for (bytes, text) in cases {
        assert_eq!(error(bytes, &Limits::default()).as_deref(), Some(*text));
    }
}

#[test]
fn strangers_may_send_little() {
    let stranger = Limits { stranger: true, ..Limits::default() };
    assert_eq!(
        error(b"*11\r\n", &stranger).as_deref(),
        Some("ERR Protocol error: unauthenticated multibulk length")
    );
    assert_eq!(
        error(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", &stranger).as_deref(),
        Some("ERR Protocol error: unauthenticated bulk length")
    );
    assert_eq!(
        read_all(&[b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n"], &stranger),
        Ok(vec![vec![b"AUTH".to_vec(), b"x".to_vec()]])
    );
}

#[test]
fn empty_requests_are_skipped() {
    let got = read_all(&[b"*0\r\n\r\n\n*-1\r\n  \r\nPING\r\n*1\r\n$0\r\n\r\n"], &Limits::default());
    assert_eq!(got, Ok(vec![vec![b"PING".to_vec()], vec![vec![]]]));
}

#[test]
fn a_long_bulk_says_how_much_is_missing_and_is_not_read_twice() {
    let mut bytes = b"*2\r\n$3\r\nGET\r\n$100000\r\n".to_vec();
    let (mut requests, limits) = (Requests::default(), Limits::default());
    let header = bytes.len();
    bytes.resize(header + 50, b'x');
    assert_eq!(requests.read(&mut &bytes[..], &limits, &mut Vec::new()), Ok(None));
    assert_eq!(requests.missing(bytes.len()), 100_002 - 50);
    bytes.resize(header + 100_002, b'x');
    let (mut input, mut args) = (&bytes[..], Vec::new());
    assert_eq!(requests.read(&mut input, &limits, &mut args), Ok(Some(Request::Bulks(2))));
    assert_eq!((args[1].len(), input.len(), requests.missing(0)), (100_000, 0, 0));
}

#[test]
fn a_million_arguments_in_small_packets_take_linear_time() {
    let words: Vec<&[u8]> = vec![b"x"; 1_000_000];
    let mut bytes = Vec::new();
    command(&words, &mut bytes);
    let (mut requests, mut end) = (Requests::default(), 0);
    let began = std::time::Instant::now();
    loop {
        end = (end + 1000).min(bytes.len());
        let mut args = Vec::new();
        if let Some(request) =
            requests.read(&mut &bytes[..end], &Limits::default(), &mut args).expect("well formed")
        {
            assert_eq!(request, Request::Bulks(1_000_000));
            assert_eq!(args.len(), 1_000_000);
            break;
        }
    }
    // Looking at everything again with each of the 7,000 packets would take minutes.
    assert!(began.elapsed().as_secs() < 5);
}

fn request() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let word =
        prop_oneof![prop::collection::vec(any::<u8>(), 0..40), prop::collection::vec(Just(b'\r'), 0..120)];
    prop::collection::vec(word, 1..6)
}

proptest! {
    #[test]
    fn requests_split_anywhere_read_the_same(list in prop::collection::vec(request(), 1..8), second in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        for words in &list {
            command(words, &mut bytes);
        }
        let limits = Limits::default();
        for cut in 0..=bytes.len() {
            let again = cut + second.index(bytes.len() - cut + 1);
            let parts = [&bytes[..cut], &bytes[cut..again], &bytes[again..]];
            prop_assert_eq!(read_all(&parts, &limits), Ok(list.clone()));
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(read_all(&single, &limits), Ok(list));
    }

    #[test]
    fn nonsense_never_panics_and_cuts_do_not_change_it(
        bytes in prop::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'-'), any::<u8>()], 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(bytes.len() + 1);
        let limits = Limits { bulk_bytes_max: 50, stranger: false };
        let (whole, parts) = (read_all(&[&bytes], &limits), read_all(&[&bytes[..cut], &bytes[cut..]], &limits));
        prop_assert_eq!(whole, parts);
    }
}
