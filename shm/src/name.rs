//! How a segment is called.
//!
//! ```text
//!   written            where it lives                                      gone after
//!   shm:NAME           /dev/shm/NAME, or hugetlbfs with a signpost there   reboot
//!   NAME               the same
//!   sysv:NAME          a System V segment with a signpost in /dev/shm      reboot
//!   file:PATH          any file that can be mapped                         never by itself
//! ```
//!
//! A name says where to look and nothing else: no name is opened or created here.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest NAME, so that prefixes and random endings still fit into a file name of 255 bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// The name of a segment. It prints as it parses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SegmentName {
    /// POSIX shared memory: a file in /dev/shm.
    Shm(String),
    /// System V shared memory, for places where /dev/shm is small and may not be made larger.
    Sysv(String),
    /// A file that can be mapped; a relative path counts from the working directory of the process that opens it.
    File(PathBuf),
}

/// Why a text is no segment name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a segment name is 'shm:NAME', 'sysv:NAME' or 'file:PATH', but this one is empty")]
    Empty,
    #[error("'{0}' is longer than {NAME_BYTES_MAX} bytes")]
    TooLong(String),
    #[error("'{0}' starts with a dot: such names in /dev/shm are Polder's own")]
    Dot(String),
    #[error("'{0}' contains a slash: write 'file:{0}' for a file")]
    Slash(String),
    #[error("'{0}' starts with no known kind of memory: use 'shm:', 'sysv:' or 'file:'")]
    Kind(String),
    #[error("{0:?} contains a character that a segment name cannot have")]
    Character(String),
}

impl FromStr for SegmentName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<SegmentName, NameError> {
        match text.split_once(':') {
            Some(("shm", name)) => Ok(SegmentName::Shm(plain(name)?)),
            Some(("sysv", name)) => Ok(SegmentName::Sysv(plain(name)?)),
            Some(("file", path)) => Ok(SegmentName::File(path_of(path)?)),
            Some(_) if text.contains('/') => Err(NameError::Slash(text.to_owned())),
            Some(_) => Err(NameError::Kind(text.to_owned())),
            None => Ok(SegmentName::Shm(plain(text)?)),
        }
    }
}

/// Checks a NAME; it becomes a file name, so that it must not lead out of its directory.
fn plain(name: &str) -> Result<String, NameError> {
    let owned = || name.to_owned();
    match name {
        "" => Err(NameError::Empty),
        _ if name.len() > NAME_BYTES_MAX => Err(NameError::TooLong(owned())),
        _ if name.starts_with('.') => Err(NameError::Dot(owned())),
        _ if name.contains('/') => Err(NameError::Slash(owned())),
        // A second colon is most often a mistyped kind, such as "shm:file:x".
        _ if name.contains(|c: char| c.is_control() || c == ':') => Err(NameError::Character(owned())),
        _ => Ok(owned()),
    }
}

fn path_of(path: &str) -> Result<PathBuf, NameError> {
    match path {
        "" => Err(NameError::Empty),
        _ if path.contains(char::is_control) || path.ends_with('/') => {
            Err(NameError::Character(path.to_owned()))
        }
        _ => Ok(PathBuf::from(path)),
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentName::Shm(name) => write!(out, "shm:{name}"),
            SegmentName::Sysv(name) => write!(out, "sysv:{name}"),
            SegmentName::File(path) => write!(out, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_as_they_parse() {
        for text in
            ["shm:polder", "sysv:orders-2", "file:/var/lib/polder/a:b.seg", "file:relative.seg", "shm:é"]
        {
            assert_eq!(text.parse::<SegmentName>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bare_name_is_posix_memory() {
        assert_eq!("polder".parse(), Ok(SegmentName::Shm("polder".to_owned())));
    }

    #[test]
    fn names_that_cannot_be_say_why() {
        type Refusal = fn(String) -> NameError;
        let cases: [(&str, Refusal); 9] = [
            ("", |_| NameError::Empty),
            ("shm:", |_| NameError::Empty),
            ("file:", |_| NameError::Empty),
            ("a/b", NameError::Slash),
            ("c:/a/b", NameError::Slash),
            (".hidden", NameError::Dot),
            ("sysV:x", NameError::Kind),
            ("a\0b", NameError::Character),
            ("..", NameError::Dot),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<SegmentName>(), Err(error(text.to_owned())), "{text:?}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(long.parse::<SegmentName>(), Err(NameError::TooLong(long)));
        assert_eq!("shm:file:x".parse::<SegmentName>(), Err(NameError::Character("file:x".to_owned())));
    }
}
