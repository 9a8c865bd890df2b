//! A command line as redis-cli splits it, which is also how RESP's inline requests are split.
//!
//! One addition for big values: the argument `repeat:COUNT:TEXT` stands for TEXT, COUNT times over.
use polder_base::words;

/// Splits a line into arguments.
///
/// # Errors
/// A text that names what is wrong: unbalanced quotes, or a count that is none.
pub fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    words::split(line.as_bytes()).ok_or("unbalanced quotes")?.into_iter().map(repeated).collect()
}

fn repeated(word: Vec<u8>) -> Result<Vec<u8>, String> {
    let Some(rest) = word.strip_prefix(b"repeat:") else {
        return Ok(word);
    };
    let parts = rest.iter().position(|&byte| byte == b':').map(|at| (&rest[..at], &rest[at + 1..]));
    let (count, text) = parts.ok_or("repeat:COUNT:TEXT has two colons")?;
    let count: usize =
        String::from_utf8_lossy(count).parse().map_err(|_| "repeat:COUNT:TEXT needs a number")?;
    Ok(text.repeat(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_arguments_are_written_short() {
        assert_eq!(
            split("SET \"a b\" repeat:3:ab").unwrap(),
            [b"SET".to_vec(), b"a b".to_vec(), b"ababab".to_vec()]
        );
    }

    #[test]
    fn lines_that_cannot_be_split_are_refused() {
        for line in ["\"a", "'a", "\"a\"b", "repeat:x:y", "repeat:1"] {
            assert!(split(line).is_err(), "{line}");
        }
    }
}
