//! A JSON object of which single members are wanted.
use super::words::Reader;

/// The value of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Member {
    Text(Vec<u8>),
    Boolean(bool),
    /// A whole number that is not negative.
    Number(u64),
    /// Another number, null, an array or an object.
    Other,
}

/// Calls `visit` with each member of the object that `text` is. Returns none if it is no object; some members may have been visited then.
pub fn members(text: &[u8], visit: &mut dyn FnMut(&[u8], Member)) -> Option<()> {
    let mut reader = Reader::of(text);
    reader.take(b'{')?;
    let mut ends = reader.take(b'}').is_some();
    while !ends {
        reader.skip_blanks();
        let name = reader.string().ok()?;
        reader.take(b':')?;
        let value = member(&mut reader)?;
        visit(&name, value);
        ends = reader.take(b'}').is_some();
        if !ends {
            reader.take(b',')?;
        }
    }
    reader.skip_blanks();
    reader.rest.is_empty().then_some(())
}

fn member(reader: &mut Reader<'_>) -> Option<Member> {
    reader.skip_blanks();
    match reader.rest.first()? {
        b'"' => Some(Member::Text(reader.string().ok()?)),
        b'{' | b'[' => skip_nested(reader).map(|()| Member::Other),
        _ => {
            let end = reader
                .rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\t' | b'\r' | b'\n'))?;
            let (word, rest) = reader.rest.split_at(end);
            reader.rest = rest;
            match word {
                b"true" => Some(Member::Boolean(true)),
                b"false" => Some(Member::Boolean(false)),
                b"null" => Some(Member::Other),
                _ => {
                    let word = std::str::from_utf8(word).ok()?;
                    let whole = word.parse().ok().map(Member::Number);
                    whole.or_else(|| word.parse::<f64>().ok().map(|_| Member::Other))
                }
            }
        }
    }
}

/// Passes by an array or an object, of which only brackets and strings are looked at. It needs a byte for each open bracket, and no stack.
fn skip_nested(reader: &mut Reader<'_>) -> Option<()> {
    let mut open = Vec::new();
    loop {
        match reader.rest.first()? {
            b'"' => {
                reader.string().ok()?;
                continue;
            }
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            close @ (b'}' | b']') if open.pop() != Some(*close) => return None,
            _ => {}
        }
        reader.rest = &reader.rest[1..];
        if open.is_empty() {
            return Some(());
        }
    }
}
