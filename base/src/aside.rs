//! Commands that stock servers do not know, as a text that they pass over: what ECHO says of them in a change log.
//!
//! ```text
//!   polder:call 7 XCFGSET 3 key 13 IDMP-DURATION 2 60        the length of each word, and the word
//! ```
//! Other texts of ours stand in `table/src/log/aside.rs`.
use crate::number::unsigned;

/// The beginning of the text of a command.
pub const CALL: &[u8] = b"polder:call ";

/// Puts words together, each behind its length.
pub fn frame(words: &[&[u8]]) -> Vec<u8> {
    let mut text = Vec::new();
    for word in words {
        if !text.is_empty() {
            text.push(b' ');
        }
        text.extend_from_slice(format!("{} ", word.len()).as_bytes());
        text.extend_from_slice(word);
    }
    text
}

/// The words that were put together; none where the text is no such thing, or there is no word.
pub fn unframe(text: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut words, mut rest) = (Vec::new(), text);
    loop {
        let digits = rest.iter().position(|byte| *byte == b' ')?;
        let len = unsigned(&rest[..digits]).and_then(|len| usize::try_from(len).ok())?;
        let (word, behind) = rest[digits + 1..].split_at_checked(len)?;
        words.push(word);
        match behind.split_first() {
            None => return Some(words),
            Some((b' ', behind)) => rest = behind,
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_any_bytes_are_put_together_and_taken_apart() {
        for words in [&[&b"X"[..]][..], &[b"XCFGSET", b"", b" 3 x", b"\r\n\0\xff"]] {
            assert_eq!(unframe(&frame(words)).as_deref(), Some(words));
        }
        assert_eq!(frame(&[b"GET", b"k"]), b"3 GET 1 k");
    }

    #[test]
    fn another_text_is_no_command() {
        for text in
            ["", "3", "3 GE", "3 GETk", "3 GET ", "x GET", "-1 G", "99999999999999999999 G", "3 GET 2 k"]
        {
            assert_eq!(unframe(text.as_bytes()), None, "{text}");
        }
    }
}
