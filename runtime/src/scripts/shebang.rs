//! The first line of scripts and libraries: `#!lua flags=no-writes`, `#!lua name=mylib`.
use polder_base::script::{FLAG_NAMES, Flags};
use polder_base::words;
use polder_table::Stop;

/// The words of a `#!` line and how long the line is; `None` where there is no end of it, or its quotes are unbalanced.
fn line(body: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let len = body.iter().position(|byte| *byte == b'\n')?;
    Some((words::split(&body[..len])?, len))
}

fn shown(word: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(word)
}

/// What a script's first line declares, and how long that is: `None` and 0 without one.
///
/// # Errors
/// Redis's texts.
pub fn of_script(body: &[u8]) -> Result<(Option<Flags>, usize), Stop> {
    if !body.starts_with(b"#!") {
        return Ok((None, 0));
    }
    let (words, len) = line(body).ok_or("ERR Invalid script shebang")?;
    let Some((engine, options)) = words.split_first() else {
        return Err("ERR Invalid engine in script shebang".into());
    };
    if engine != b"#!lua" {
        return Err(format!("ERR Unexpected engine in script shebang: {}", shown(engine)).into());
    }
    let mut flags = 0;
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err(format!("ERR Unknown lua shebang option: {}", shown(option)).into());
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            let known = FLAG_NAMES.iter().find(|(_, known)| known.as_bytes() == name);
            flags |=
                known.ok_or_else(|| format!("ERR Unexpected flag in script shebang: {}", shown(name)))?.0;
        }
    }
    Ok((Some(flags), len))
}

/// The name of a library, and how long its first line is.
///
/// # Errors
/// Redis's texts.
pub fn of_library(code: &[u8]) -> Result<(String, usize), Stop> {
    const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";
    if !code.starts_with(b"#!") {
        return Err("ERR Missing library metadata".into());
    }
    let (words, len) = line(code).ok_or("ERR Invalid library metadata")?;
    let Some((engine, options)) = words.split_first() else {
        return Err("ERR Invalid library metadata".into());
    };
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((word, _)) if word.eq_ignore_ascii_case(b"name=") && name.is_some() => {
                return Err("ERR Invalid metadata value, name argument was given multiple times".into());
            }
            Some((word, given)) if word.eq_ignore_ascii_case(b"name=") => name = Some(given),
            _ => return Err(format!("ERR Invalid metadata value given: {}", shown(option)).into()),
        }
    }
    let name = name.ok_or("ERR Library name was not given")?;
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if name.is_empty() || !name.iter().all(fits) {
        return Err(BAD_NAME.into());
    }
    if !engine[2..].eq_ignore_ascii_case(b"lua") {
        return Err(format!("ERR Engine '{}' not found", shown(&engine[2..])).into());
    }
    Ok((shown(name).into_owned(), len))
}
