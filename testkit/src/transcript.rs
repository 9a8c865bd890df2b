//! Transcripts: what was typed and what came back, as redis-cli shows it.
//!
//! ```text
//! # A comment. Blank lines mean nothing.
//! @setting number-mode redis         before the first case: a setting for every case of the file
//! @case INCR counts from nothing     starts a case: an empty memory and no clients
//! > INCR n
//! (integer) 1
//! > HGETALL h                        where RESP2 and RESP3 differ, both are written down
//! @resp2
//! 1) "a"
//! 2) "1"
//! @resp3
//! 1# "a" => "1"
//! > TIME                             `~` starts a regular expression for the rest of the line
//! 1) ~"\d+"
//! 2) ~"\d+"
//! @sorted                            the order of the next reply means nothing: it is sorted by its text first
//! > KEYS *
//! @not-redis we count exactly        the next reply differs from redis-server on purpose
//! > MEMORY USAGE n
//! @only socket                       the case needs a server (or, `@only in-process`, must have none)
//! @client b                          the commands that follow come from another client
//! @sleep 20                          milliseconds
//! ```
//! Arguments are split as redis-cli does it (see [`crate::arguments`]).
use std::path::Path;

use crate::arguments;

/// One file.
#[derive(Debug)]
pub struct Transcript {
    pub name: String,
    pub settings: Vec<(String, String)>,
    pub cases: Vec<Case>,
}

/// One case: steps that start with an empty memory.
#[derive(Debug)]
pub struct Case {
    pub title: String,
    pub line: usize,
    pub only: Option<Place>,
    pub steps: Vec<Step>,
}

/// Where a case can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    InProcess,
    Socket,
}

/// One thing that happens.
#[derive(Debug)]
pub enum Step {
    Call(Exchange),
    SleepMs(u64),
}

/// A command and what it must answer.
#[derive(Debug)]
pub struct Exchange {
    pub line: usize,
    pub client: String,
    pub text: String,
    pub args: Vec<Vec<u8>>,
    pub sorted: bool,
    /// Why redis-server replies otherwise, when it does.
    pub not_redis: Option<String>,
    pub resp2: Vec<String>,
    pub resp3: Vec<String>,
}

impl Transcript {
    /// Reads a file.
    ///
    /// # Errors
    /// `FILE:LINE: what is wrong`.
    pub fn read(path: &Path) -> Result<Transcript, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Transcript::parse(&name, &text).map_err(|error| format!("{}:{error}", path.display()))
    }

    /// Reads a transcript from its text.
    ///
    /// # Errors
    /// `LINE: what is wrong`.
    pub fn parse(name: &str, text: &str) -> Result<Transcript, String> {
        let mut reader = Reader::new(name);
        for (at, line) in text.lines().enumerate() {
            reader.line(at + 1, line).map_err(|error| format!("{}: {error}", at + 1))?;
        }
        reader.finish()
    }

    /// The names of all commands, in upper case, and `CONTAINER|NAME` where a command may be a subcommand.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        let calls = self.cases.iter().flat_map(|case| &case.steps).filter_map(|step| match step {
            Step::Call(exchange) => Some(&exchange.args),
            Step::SleepMs(_) => None,
        });
        calls.flat_map(|args| {
            let upper = |word: &Vec<u8>| String::from_utf8_lossy(word).to_uppercase();
            let second = args.get(1).map(|word| format!("{}|{}", upper(&args[0]), upper(word)));
            std::iter::once(upper(&args[0])).chain(second)
        })
    }
}

/// Which replies the next expected lines belong to.
#[derive(Clone, Copy)]
enum Expecting {
    Both,
    Resp2,
    Resp3,
}

struct Reader {
    transcript: Transcript,
    client: String,
    sorted: bool,
    not_redis: Option<String>,
    expecting: Expecting,
}

impl Reader {
    fn new(name: &str) -> Reader {
        Reader {
            transcript: Transcript { name: name.into(), settings: vec![], cases: vec![] },
            client: "a".into(),
            sorted: false,
            not_redis: None,
            expecting: Expecting::Both,
        }
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(directive) = line.strip_prefix('@') {
            let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
            return self.directive(number, word, rest.trim());
        }
        match line.strip_prefix("> ") {
            Some(command) => self.command(number, command),
            None => self.expected(line),
        }
    }

    fn directive(&mut self, number: usize, word: &str, rest: &str) -> Result<(), String> {
        match word {
            "setting" if self.transcript.cases.is_empty() => {
                let (name, value) = rest.split_once(' ').ok_or("@setting NAME VALUE")?;
                self.transcript.settings.push((name.into(), value.trim().into()));
            }
            "setting" => return Err("@setting stands before the first case".into()),
            "case" => {
                self.transcript.cases.push(Case {
                    title: rest.into(),
                    line: number,
                    only: None,
                    steps: vec![],
                });
                self.client = "a".into();
            }
            "only" => self.case()?.only = Some(place(rest)?),
            "client" => self.client = rest.into(),
            "sorted" => self.sorted = true,
            "not-redis" if rest.is_empty() => return Err("@not-redis needs a reason".into()),
            "not-redis" => self.not_redis = Some(rest.into()),
            "resp2" => self.expecting = Expecting::Resp2,
            "resp3" => self.expecting = Expecting::Resp3,
            "sleep" => {
                let step = Step::SleepMs(rest.parse().map_err(|_| "@sleep MILLISECONDS")?);
                self.case()?.steps.push(step);
            }
            _ => return Err(format!("there is no @{word}")),
        }
        Ok(())
    }

    fn case(&mut self) -> Result<&mut Case, String> {
        self.transcript.cases.last_mut().ok_or_else(|| "@case comes first".into())
    }

    fn command(&mut self, line: usize, command: &str) -> Result<(), String> {
        let args = arguments::split(command)?;
        if args.is_empty() {
            return Err("a command without a name".into());
        }
        let exchange = Exchange {
            line,
            client: self.client.clone(),
            text: command.into(),
            args,
            sorted: std::mem::take(&mut self.sorted),
            not_redis: self.not_redis.take(),
            resp2: vec![],
            resp3: vec![],
        };
        self.expecting = Expecting::Both;
        self.case()?.steps.push(Step::Call(exchange));
        Ok(())
    }

    fn expected(&mut self, line: &str) -> Result<(), String> {
        let expecting = self.expecting;
        let Some(Step::Call(exchange)) = self.case()?.steps.last_mut() else {
            return Err("a reply without a command".into());
        };
        match expecting {
            Expecting::Both => {
                exchange.resp2.push(line.into());
                exchange.resp3.push(line.into());
            }
            Expecting::Resp2 => exchange.resp2.push(line.into()),
            Expecting::Resp3 => exchange.resp3.push(line.into()),
        }
        Ok(())
    }

    fn finish(self) -> Result<Transcript, String> {
        for case in &self.transcript.cases {
            for step in &case.steps {
                match step {
                    Step::Call(exchange) if exchange.resp2.is_empty() || exchange.resp3.is_empty() => {
                        return Err(format!("{}: no expected reply", exchange.line));
                    }
                    _ => {}
                }
            }
        }
        Ok(self.transcript)
    }
}

fn place(word: &str) -> Result<Place, String> {
    match word {
        "socket" => Ok(Place::Socket),
        "in-process" => Ok(Place::InProcess),
        _ => Err("@only socket or @only in-process".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read_as_it_is_written() {
        let text = "@setting number-mode redis\n@case one\n> SET a \"b c\"\nOK\n\n@client b\n@sorted\n@not-redis why\n> KEYS *\n@resp2\n1) \"a\"\n@resp3\n1~ \"a\"\n@sleep 5\n";
        let transcript = Transcript::parse("t", text).unwrap();
        assert_eq!(transcript.settings, [("number-mode".into(), "redis".into())]);
        assert_eq!(transcript.commands().collect::<Vec<_>>(), ["SET", "SET|A", "KEYS", "KEYS|*"]);
        let [Step::Call(set), Step::Call(keys), Step::SleepMs(5)] = &transcript.cases[0].steps[..] else {
            panic!("{transcript:?}");
        };
        assert_eq!((set.client.as_str(), set.args[2].as_slice(), set.sorted), ("a", &b"b c"[..], false));
        assert_eq!((keys.client.as_str(), keys.sorted, keys.not_redis.as_deref()), ("b", true, Some("why")));
        assert_eq!(
            (&keys.resp2[..], &keys.resp3[..]),
            (&["1) \"a\"".to_string()][..], &["1~ \"a\"".to_string()][..])
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        let cases = [
            ("> GET a\n(nil)", "1: @case comes first"),
            ("@case c\n(nil)", "2: a reply without a command"),
            ("@case c\n> GET a", "2: no expected reply"),
            ("@case c\n@what", "2: there is no @what"),
            ("@case c\n> GET \"a\nx", "2: unbalanced quotes"),
        ];
        for (text, error) in cases {
            assert_eq!(Transcript::parse("t", text).unwrap_err(), error);
        }
    }
}
