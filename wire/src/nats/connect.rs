//! The options of CONNECT: a JSON object, of which the known members are taken.
use crate::http::object::{Member, members};

/// The members of CONNECT that mean something here. What is missing is as in nats-server: verbose, pedantic and echo are on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub verbose: bool,
    pub pedantic: bool,
    /// The client hears its own messages.
    pub echo: bool,
    pub headers: bool,
    pub no_responders: bool,
    /// The client takes INFO at any time.
    pub takes_news: bool,
    pub user: Vec<u8>,
    pub password: Vec<u8>,
    pub token: Vec<u8>,
    pub name: Vec<u8>,
    pub language: Vec<u8>,
    pub version: Vec<u8>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            verbose: true,
            pedantic: true,
            echo: true,
            headers: false,
            no_responders: false,
            takes_news: false,
            user: Vec::new(),
            password: Vec::new(),
            token: Vec::new(),
            name: Vec::new(),
            language: Vec::new(),
            version: Vec::new(),
        }
    }
}

impl Options {
    /// Reads the object; `None` if it is none.
    pub fn read(text: &[u8]) -> Option<Options> {
        let mut options = Options::default();
        members(text, &mut |name, value| {
            let switch = match name {
                b"verbose" => Some(&mut options.verbose),
                b"pedantic" => Some(&mut options.pedantic),
                b"echo" => Some(&mut options.echo),
                b"headers" => Some(&mut options.headers),
                b"no_responders" => Some(&mut options.no_responders),
                _ => None,
            };
            if let (Some(switch), Member::Boolean(value)) = (switch, &value) {
                *switch = *value;
                return;
            }
            if name == b"protocol" {
                options.takes_news = matches!(value, Member::Number(1..));
                return;
            }
            let text = match name {
                b"user" => &mut options.user,
                b"pass" => &mut options.password,
                b"auth_token" => &mut options.token,
                b"name" => &mut options.name,
                b"lang" => &mut options.language,
                b"version" => &mut options.version,
                _ => return,
            };
            if let Member::Text(value) = value {
                *text = value;
            }
        })?;
        Some(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_members_are_taken_and_others_are_passed_by() {
        let options = Options::read(
            br#"{"verbose":false,"tls_required":false,"name":"a \u00e9","x":{"verbose":true,"y":["}",1]},"user":"bob","pass":"p\"w","protocol":1,"sig":null,"no_responders":true,"headers":true}"#,
        )
        .expect("an object");
        assert!(
            !options.verbose && options.pedantic && options.echo && options.no_responders && options.headers
        );
        assert_eq!((&options.user[..], &options.password[..]), (&b"bob"[..], &b"p\"w"[..]));
        assert_eq!(options.name, "a \u{e9}".as_bytes());
        assert_eq!(Options::read(b"{}"), Some(Options::default()));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        let deep = "{\"a\":".repeat(100_000);
        for text in
            ["", "[]", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":tru}", "{} x", "{\"a\":[}", &deep]
        {
            assert_eq!(Options::read(text.as_bytes()), None, "{:?}", &text[..text.len().min(20)]);
        }
    }
}
