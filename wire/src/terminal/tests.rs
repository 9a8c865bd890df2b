//! Keys in, screen out.
use polder_testbase::Screen;

use super::*;

const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const RIGHT: &str = "\x1b[C";
const LEFT: &str = "\x1b[D";

/// A terminal with an editor at its other end, which repeats each line.
struct Stage {
    editor: Editor,
    screen: Screen,
    lines: Vec<String>,
    candidates: Vec<String>,
    has_ended: bool,
}

impl Stage {
    fn new(columns: usize) -> Stage {
        let mut stage = Stage {
            editor: Editor::default(),
            screen: Screen::new(columns),
            lines: Vec::new(),
            candidates: Vec::new(),
            has_ended: false,
        };
        stage.editor.set_columns(columns);
        stage.prompt();
        stage
    }

    fn prompt(&mut self) {
        let mut out = Vec::new();
        self.editor.prompt("> ", &mut out);
        self.screen.write(&out);
    }

    fn press(&mut self, keys: &[u8]) {
        let mut rest = keys;
        loop {
            let mut out = Vec::new();
            let event = self.editor.feed(&mut rest, &mut out);
            self.screen.write(&out);
            match event {
                Some(Event::Line(line)) => {
                    self.editor.remember(&line);
                    self.lines.push(line);
                    self.prompt();
                }
                Some(Event::Complete) => {
                    let text = self.editor.text();
                    let start = text.rfind(' ').map_or(0, |at| at + 1);
                    let typed = text[start..].to_string();
                    let fitting: Vec<String> =
                        self.candidates.iter().filter(|word| word.starts_with(&typed)).cloned().collect();
                    let mut out = Vec::new();
                    self.editor.complete(start, &fitting, &mut out);
                    self.screen.write(&out);
                }
                Some(Event::End) => self.has_ended = true,
                None => break,
            }
        }
    }
}

/// Presses keys on a screen of 80 columns, and compares what it shows; `|` is the cursor.
fn check(keys: &str, expected: &str) {
    let mut whole = Stage::new(80);
    whole.press(keys.as_bytes());
    assert_eq!(whole.screen.text(), expected, "{keys:?}");
    let mut split = Stage::new(80);
    keys.as_bytes().iter().for_each(|byte| split.press(&[*byte]));
    assert_eq!(split.screen.text(), expected, "{keys:?}, byte by byte");
    assert_eq!(whole.lines, split.lines, "{keys:?}");
}

#[test]
fn keys_edit_the_line() {
    for (keys, expected) in [
        ("get a", "> get a|"),
        ("get a\r", "> get a\n> |"),
        ("a\r\nb\nc\r\rd", "> a\n> b\n> c\n>\n> d|"),
        // Moving and inserting.
        ("gt\x1b[De", "> ge|t"),
        ("et\x01g\x05!", "> get!|"),
        ("et\x1b[Hg\x1b[F!", "> get!|"),
        ("et\x1b[1~g\x1b[4~!", "> get!|"),
        ("et\x1bOHg\x1bOF!", "> get!|"),
        ("ab\x02\x02\x02x\x06y", "> xay|b"),
        ("one two\x1bb\x1bbx\x1bfy", "> xoney| two"),
        ("one two\x1b[1;5D\x1b[1;5Dx\x1b[1;5Cy", "> xoney| two"),
        // Removing.
        ("abc\x7f\x08", "> a|"),
        ("abc\x1b[D\x7f", "> a|c"),
        ("abc\x01\x1b[3~", "> |bc"),
        ("abc\x01\x04", "> |bc"),
        ("\x7f\x1b[3~", "> |"),
        ("one two\x1b[D\x15", "> |o"),
        ("one two\x1b[D\x0b", "> one tw|"),
        ("one two  \x17x", "> one x|"),
        ("one two\x01\x1bd", "> | two"),
        // Characters of several bytes, of two columns, and marks.
        ("h\u{e9}llo\x1b[D\x1b[D\x1b[D\x1b[Dx", "> hx|\u{e9}llo"),
        ("\u{65e5}\u{672c}\x1b[D-", "> \u{65e5}-|\u{672c}"),
        ("e\u{301}x\x1b[D\x7f", "> |x"),
        // The history.
        ("a\rb\r\x1b[A", "> a\n> b\n> b|"),
        ("a\rb\rc\x1b[A\x1b[A\x1b[A", "> a\n> b\n> a|"),
        ("a\rb\rdraft\x10\x10\x0e\x0e\x0e", "> a\n> b\n> draft|"),
        ("a\r\x1b[Ab\r\x1b[A", "> a\n> ab\n> ab|"),
        ("a\ra\r\x1b[A\x1b[A", "> a\n> a\n> a|"),
        // The rest.
        ("abc\x1b[D\x03x", "> abc^C\n> x|"),
        ("a\rbc\x0c", "> bc|"),
        ("a\x1b[5~\x1b[15~\x1b]0;title\x07\x1bPq\x1b\\b\x00\x1c", "> ab|"),
        ("\x1b[200~get a\tb\x03\x1b[201~", "> get a b|"),
        ("a\x1b[1;2;3;4;5;6;7;8;9;10;11;12mb", "> ab|"),
    ] {
        check(keys, expected);
    }
}

#[test]
fn a_line_longer_than_the_screen_is_scrolled() {
    let mut stage = Stage::new(20);
    stage.press(b"0123456789abcdefghijklmnop");
    assert_eq!(stage.screen.text(), "> 9abcdefghijklmnop|");
    stage.press(LEFT.repeat(20).as_bytes());
    assert_eq!(stage.screen.text(), "> 2345|6789abcdefghi");
    stage.press(b"-");
    assert_eq!(stage.screen.text(), "> 2345-|6789abcdefgh");
    stage.press(b"\x05");
    assert_eq!(stage.screen.text(), "> 9abcdefghijklmnop|");
    stage.press("\u{65e5}\u{672c}".as_bytes());
    assert_eq!(stage.screen.text(), "> defghijklmnop\u{65e5}\u{672c}|");
    stage.press(b"\x01");
    assert_eq!(stage.screen.text(), "> |012345-6789abcdef");
    stage.press(b"\r");
    assert_eq!(stage.lines, ["012345-6789abcdefghijklmnop\u{65e5}\u{672c}"]);
}

#[test]
fn a_line_that_is_scrolled_may_get_text_at_its_beginning() {
    let mut stage = Stage::new(20);
    stage.press(b"0123456789abcdefghijklmnop");
    // In one piece: nothing is drawn in between.
    stage.press("\x01until no\u{e9}\u{e9}\u{e9}".as_bytes());
    assert_eq!(stage.screen.text(), "> until no\u{e9}\u{e9}\u{e9}|012345");
}

#[test]
fn the_terminal_says_how_wide_it_is() {
    let mut stage = Stage::new(200);
    stage.editor.set_columns(COLUMNS);
    stage.press(&[b'x'; 100]);
    assert_eq!(stage.screen.text(), format!("> {}|", "x".repeat(77)));
    stage.press(b"\x1b[1;150R");
    assert_eq!(stage.screen.text(), format!("> {}|", "x".repeat(100)));
    // What was not asked for is a key (Shift-F3).
    stage.press(b"\x1b[1;30R");
    assert_eq!(stage.screen.text(), format!("> {}|", "x".repeat(100)));
    stage.press(b"\r\r");
    assert_eq!(stage.screen.asked, 2, "it is asked again once it has replied");
}

#[test]
fn words_are_completed_or_listed() {
    let mut stage = Stage::new(40);
    stage.candidates =
        ["get", "getdel", "getset", "user:1:name", "user:2:name", "\u{e9}t\u{e9}"].map(String::from).to_vec();
    stage.press(b"g\t");
    assert_eq!(stage.screen.text(), "> get|");
    stage.press(b"\t");
    assert_eq!(stage.screen.text(), "> get\nget     getdel  getset\n> get|");
    stage.press(b"d\t");
    assert_eq!(stage.screen.text(), "> get\nget     getdel  getset\n> getdel |");
    stage.press(b"us\t2\t");
    assert!(stage.screen.text().ends_with("\n> getdel user:2:name |"), "{}", stage.screen.text());
    stage.press("\u{e9}\t".as_bytes());
    assert!(stage.screen.text().ends_with("user:2:name \u{e9}t\u{e9} |"), "{}", stage.screen.text());
    stage.press(b"none\t");
    assert!(stage.screen.text().ends_with(" none|"), "{}", stage.screen.text());
    stage.candidates = (0..250).map(|number| format!("k{number}")).collect();
    stage.press(b"\x15k\t");
    assert!(stage.screen.text().ends_with("... and 150 more\n> k|"), "{}", stage.screen.text());
}

#[test]
fn a_message_is_shown_above_the_line() {
    let mut stage = Stage::new(40);
    stage.press(b"get a\x1b[D");
    let mut out = CLEAR_ROW.to_vec();
    append_lines(b"1) \"message\"\n2) \"hi\"\n", &mut out);
    stage.editor.redraw(&mut out);
    stage.screen.write(&out);
    assert_eq!(stage.screen.text(), "1) \"message\"\n2) \"hi\"\n> get |a");
}

#[test]
fn the_end_comes_on_an_empty_line_only() {
    let mut stage = Stage::new(40);
    stage.press(b"a\x01\x04");
    assert!(!stage.has_ended);
    stage.press(b"\x04");
    assert!(stage.has_ended);
}

#[test]
fn escape_at_the_end_of_a_message_is_a_key_of_its_own() {
    let mut stage = Stage::new(40);
    stage.press(b"a\x1b");
    stage.editor.end_message();
    stage.press(b"bc\x1b");
    stage.press(b"[D-");
    assert_eq!(stage.screen.text(), "> ab-|c");
}

#[test]
fn memory_is_bounded() {
    let mut stage = Stage::new(80);
    let long = vec![b'x'; LINE_BYTES_MAX * 3];
    stage.press(&long);
    stage.press(b"\r");
    assert_eq!(stage.lines[0].len(), LINE_BYTES_MAX);
    for number in 0..1000 {
        stage.press(format!("{number:0>500}\r").as_bytes());
    }
    stage.press(UP.repeat(2000).as_bytes());
    let oldest: usize = stage.editor.text().parse().expect("a number");
    assert_eq!(oldest, 1000 - HISTORY_BYTES_MAX / 500);
    stage.press(DOWN.repeat(2000).as_bytes());
    stage.press(RIGHT.as_bytes());
    assert_eq!(stage.editor.text(), "");
}

#[test]
fn text_of_others_is_harmless() {
    let mut out = Vec::new();
    harmless(b"a\x1b[2Jb\r\n\tc\rd\x9b\xc2\x9b\xff\n", &mut out);
    assert_eq!(String::from_utf8_lossy(&out), "a\\x1b[2Jb\r\n\tc\\x0dd\u{fffd}\\x9b\u{fffd}\n");
}
