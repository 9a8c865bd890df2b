//! Replies as `polder cli` prints them, in every form, beside what redis-cli prints for the same bytes.
//!
//! A small server replies to the command `reply N` with the N-th row's bytes, so that replies can
//! be tried which no command gives. If redis-cli is installed, it is asked as well.
use crate::canned::{Canned, Output, polder, run_redis_cli};

/// What a server sends, and how it looks: standard, raw, csv, json, quoted json. Each text lacks its last newline.
struct Row {
    bytes: &'static [u8],
    shown: [&'static str; 5],
    /// redis-cli 7.0 cannot read it, or writes JSON that is none.
    ours_only: bool,
}

const FLAGS: [&str; 5] = ["--no-raw", "--raw", "--csv", "--json", "--quoted-json"];

const fn row(bytes: &'static [u8], shown: [&'static str; 5]) -> Row {
    Row { bytes, shown, ours_only: false }
}

const fn ours(bytes: &'static [u8], shown: [&'static str; 5]) -> Row {
    Row { bytes, shown, ours_only: true }
}

const ROWS: &[Row] = &[
    row(b"+OK\r\n", ["OK", "OK", "\"OK\"", "\"OK\"", "\"OK\""]),
    row(
        b"-ERR no way\r\n",
        [
            "(error) ERR no way",
            "ERR no way\n",
            "ERROR,\"ERR no way\"",
            "error:\"ERR no way\"",
            "error:\"ERR no way\"",
        ],
    ),
    row(b":-42\r\n", ["(integer) -42", "-42", "-42", "-42", "-42"]),
    row(b"$-1\r\n", ["(nil)", "", "NULL", "null", "null"]),
    row(b"*-1\r\n", ["(nil)", "", "NULL", "null", "null"]),
    row(b"_\r\n", ["(nil)", "", "NULL", "null", "null"]),
    row(b"*0\r\n", ["(empty array)", "", "", "[]", "[]"]),
    row(b"%0\r\n", ["(empty hash)", "", "", "{}", "{}"]),
    row(b"~0\r\n", ["(empty set)", "", "", "[]", "[]"]),
    row(b"$0\r\n\r\n", ["\"\"", "", "\"\"", "\"\"", "\"\""]),
    row(
        b"$4\r\na\xc3\xa9\n\r\n",
        [
            "\"a\\xc3\\xa9\\n\"",
            "a\u{e9}\n",
            "\"a\\xc3\\xa9\\n\"",
            "\"a\u{e9}\\n\"",
            "\"a\\\\xc3\\\\xa9\\\\n\"",
        ],
    ),
    row(
        b"$6\r\n\x00\x07\x08\\\t~\r\n",
        [
            "\"\\x00\\a\\b\\\\\\t~\"",
            "\0\x07\x08\\\t~",
            "\"\\x00\\a\\b\\\\\\t~\"",
            "\"\\u0000\\u0007\\b\\\\\\t~\"",
            "\"\\\\x00\\\\a\\\\b\\\\\\\\\\\\t~\"",
        ],
    ),
    row(
        b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n*2\r\n$1\r\nb\r\n$-1\r\n-ERR in\r\n",
        [
            "1) \"a\"\n2) 1) (integer) 1\n   2) 1) \"b\"\n      2) (nil)\n3) (error) ERR in",
            "a\n1\nb\n\nERR in\n",
            "\"a\",1,\"b\",NULL,ERROR,\"ERR in\"",
            "[\"a\",[1,[\"b\",null]],error:\"ERR in\"]",
            "[\"a\",[1,[\"b\",null]],error:\"ERR in\"]",
        ],
    ),
    row(
        b"*10\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n:9\r\n*2\r\n:1\r\n:2\r\n",
        [
            " 1) (integer) 1\n 2) (integer) 2\n 3) (integer) 3\n 4) (integer) 4\n 5) (integer) 5\n 6) (integer) 6\n 7) (integer) 7\n 8) (integer) 8\n 9) (integer) 9\n10) 1) (integer) 1\n    2) (integer) 2",
            "1\n2\n3\n4\n5\n6\n7\n8\n9\n1\n2",
            "1,2,3,4,5,6,7,8,9,1,2",
            "[1,2,3,4,5,6,7,8,9,[1,2]]",
            "[1,2,3,4,5,6,7,8,9,[1,2]]",
        ],
    ),
    row(
        b"%3\r\n$1\r\nk\r\n:1\r\n+m\r\n*2\r\n:1\r\n%1\r\n:2\r\n~2\r\n:3\r\n:4\r\n:5\r\n*1\r\n:6\r\n",
        [
            "1# \"k\" => (integer) 1\n2# m => \n   1) (integer) 1\n   2) 1# (integer) 2 => \n         1~ (integer) 3\n         2~ (integer) 4\n3# (integer) 5 => 1) (integer) 6",
            "k 1\nm 1\n2 3\n4\n5 6",
            "\"k\",1,\"m\",1,2,3,4,5,6",
            "{\"k\":1,\"m\":[1,{\"2\":[3,4]}],\"5\":[6]}",
            "{\"k\":1,\"m\":[1,{\"2\":[3,4]}],\"5\":[6]}",
        ],
    ),
    row(
        b"%3\r\n+a\r\n*1\r\n*2\r\n:1\r\n:2\r\n+b\r\n%1\r\n:1\r\n~1\r\n:2\r\n+c\r\n=9\r\ntxt:x\ny\nz\r\n",
        [
            "1# a => \n   1) 1) (integer) 1\n      2) (integer) 2\n2# b => 1# (integer) 1 => 1~ (integer) 2\n3# c => x\ny\nz",
            "a 1\n2\nb 1 2\nc x\ny\nz",
            "\"a\",1,2,\"b\",1,2,\"c\",\"x\\ny\\nz\"",
            "{\"a\":[[1,2]],\"b\":{\"1\":[2]},\"c\":\"x\\ny\\nz\"}",
            "{\"a\":[[1,2]],\"b\":{\"1\":[2]},\"c\":\"x\\\\ny\\\\nz\"}",
        ],
    ),
    row(
        b"~2\r\n+a\r\n$1\r\nb\r\n",
        ["1~ a\n2~ \"b\"", "a\nb", "\"a\",\"b\"", "[\"a\",\"b\"]", "[\"a\",\"b\"]"],
    ),
    row(b",3.25\r\n", ["(double) 3.25", "3.25", "3.25", "3.25", "3.25"]),
    row(b"#f\r\n", ["(false)", "(false)", "false", "false", "false"]),
    row(b"=8\r\ntxt:a\"cd\r\n", ["a\"cd", "a\"cd", "\"a\\\"cd\"", "\"a\\\"cd\"", "\"a\\\\\\\"cd\""])
        .quoted_json_is_ours(),
    ours(b"(12345678901234567890123\r\n", ["12345678901234567890123"; 5]),
    ours(
        b"|1\r\n+ttl\r\n:100\r\n*1\r\n:5\r\n",
        ["1| ttl => (integer) 100\n1) (integer) 5", "5", "5", "[5]", "[5]"],
    ),
    ours(
        b"%1\r\n*1\r\n+a\r\n:1\r\n",
        ["1# 1) a => (integer) 1", "a 1", "\"a\",1", "{\"[\\\"a\\\"]\":1}", "{\"[\\\"a\\\"]\":1}"],
    ),
];

impl Row {
    /// redis-cli leaves a quote inside a quoted JSON string without its own backslash, which ends the string there.
    const fn quoted_json_is_ours(mut self) -> Row {
        self.ours_only = true;
        self
    }
}

#[test]
fn replies_look_as_redis_cli_prints_them() {
    let server = Canned::start(ROWS.iter().map(|row| row.bytes));
    for (at, row) in ROWS.iter().enumerate() {
        for (flag, shown) in FLAGS.iter().zip(row.shown) {
            let args = ["-3", "-p", &server.port(), flag, "reply", &at.to_string()].map(String::from);
            let ours = polder(&args, b"");
            let expected =
                Output { stdout: format!("{shown}\n").into_bytes(), stderr: vec![], status: Some(0) };
            assert_eq!(ours, expected, "{flag} {:?}", String::from_utf8_lossy(row.bytes));
            if row.ours_only {
                continue;
            }
            if let Some(theirs) = run_redis_cli(&args, b"") {
                assert_eq!(ours, theirs, "redis-cli {flag} {:?}", String::from_utf8_lossy(row.bytes));
            }
        }
    }
}

#[test]
fn json_of_any_reply_without_errors_is_json() {
    let server = Canned::start(ROWS.iter().map(|row| row.bytes));
    let mut seen = 0;
    for (at, _) in
        ROWS.iter().enumerate().filter(|(_, row)| !row.bytes.windows(3).any(|bytes| bytes == b"ERR"))
    {
        for flag in ["--json", "--quoted-json"] {
            let output =
                polder(&["-3", "-p", &server.port(), flag, "reply", &at.to_string()].map(String::from), b"");
            let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
            assert!(parsed.is_ok(), "{flag} {}: {parsed:?}", String::from_utf8_lossy(&output.stdout));
            seen += 1;
        }
    }
    assert!(seen >= 2 * (ROWS.len() - 3));
}
