//! The line editor of a terminal.
use polder_testbase::Screen;
use polder_wire::terminal::{Editor, Event, HISTORY_BYTES_MAX, LINE_BYTES_MAX};

/// The screen is wider than any terminal says that it is, so that nothing wraps.
const SCREEN_COLUMNS: usize = 70_000;
const PROMPT: &str = "polder[3](TX)> ";

/// Sensible inputs.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "set k v\r\x1b[A\x1b[D\x1b[Dx\r",
        "g\t\tget \x01\x0b\x15\x17\x0c\x03\x04",
        "\x1b[1;40Rh\u{e9}llo \u{65e5}\u{672c}\u{8a9e} e\u{301}\x1b[D\x1b[D\x7f\x1b[3~\x1bb\x1bd",
        "\x1b[200~several\nlines\r\n\x1b[201~\x1b]0;t\x07\x1bPx\x1b\\\x1bOA\x1bOB\x10\x0e",
        "a line that is longer than twenty columns, and goes on for a while, until more than eighty of them are full\x01\x05\x02\x06",
    ]
    .iter()
    .map(|keys| keys.as_bytes().to_vec())
    .collect()
}

/// The result of some keys: the events, the line before the cursor, and whether the editor goes on.
type Left = (Vec<Event>, String, bool);

fn press(keys: &[u8], ends: impl Iterator<Item = usize>) -> Left {
    let (mut editor, mut screen) = (Editor::default(), Screen::new(SCREEN_COLUMNS));
    let (mut events, mut from) = (Vec::new(), 0);
    prompt(&mut editor, &mut screen);
    for end in ends {
        let mut rest = &keys[from..end];
        from = end;
        loop {
            let mut out = Vec::new();
            let event = editor.feed(&mut rest, &mut out);
            screen.write(&out);
            match &event {
                Some(Event::Line(line)) => {
                    assert!(line.len() <= LINE_BYTES_MAX && line.len() <= HISTORY_BYTES_MAX);
                    editor.remember(line);
                    prompt(&mut editor, &mut screen);
                }
                Some(Event::Complete) => complete(&mut editor, &mut screen),
                Some(Event::End) => {
                    events.extend(event);
                    return (events, editor.text().to_string(), false);
                }
                None => break,
            }
            events.extend(event);
        }
        shows_the_line(&editor, &screen);
    }
    let text = editor.text().to_string();
    (events, text, true)
}

fn prompt(editor: &mut Editor, screen: &mut Screen) {
    let mut out = Vec::new();
    editor.prompt(PROMPT, &mut out);
    screen.write(&out);
}

fn complete(editor: &mut Editor, screen: &mut Screen) {
    let start = editor.text().rfind(' ').map_or(0, |at| at + 1);
    let typed = &editor.text()[start..];
    let words = ["get", "getdel", "geo\u{e9}", "\"a b\"", "k1", "k2"];
    let fitting: Vec<String> =
        words.iter().filter(|word| word.starts_with(typed)).map(|word| word.to_string()).collect();
    let mut out = Vec::new();
    editor.complete(start, &fitting, &mut out);
    screen.write(&out);
}

/// The row of the cursor is the prompt, the end of what stands before the cursor, and the cursor.
fn shows_the_line(editor: &Editor, screen: &Screen) {
    let (before, _) = screen.here();
    let shown = before.strip_prefix(PROMPT).or(before.strip_prefix("> "));
    // A mark behind the cursor stands on what is before it.
    let bare = |text: &str| text.chars().filter(|letter| !is_mark(*letter)).collect::<String>();
    let shown = bare(shown.unwrap_or_else(|| panic!("no prompt in {before:?}")));
    let typed = bare(editor.text());
    assert!(
        typed.ends_with(&shown) && shown.is_empty() == typed.is_empty(),
        "{shown:?} is shown of {typed:?}"
    );
}

fn is_mark(letter: char) -> bool {
    unicode_width::UnicodeWidthChar::width(letter).unwrap_or(0) == 0
}

/// Lines and cursor are the same however the keys come, and the screen shows them.
pub fn any_keys_leave_a_screen_that_shows_the_line(input: &[u8]) {
    let whole = press(input, std::iter::once(input.len()));
    let split = press(input, 1..=input.len());
    assert_eq!(whole, split);
}
