//! The command line of `polder cli`: redis-cli's names and meanings, and `--segment`.
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use polder_base::words::split;

use rustix::termios::{LocalModes, OptionalActions};

use crate::link::{Login, Place, TlsArguments};
use crate::text::Whose;
use crate::text::reason;
use polder_wire::resp::text::{Form, Format};

/// The port Redis listens on.
const PORT: u16 = 6379;

/// Talks to the memory: over TCP, a Unix socket, or straight on the segment.
///
/// Without a command it reads commands from the terminal, with line editing, completion and hints, or line by line from
/// another program.
#[derive(Args, Debug, Clone)]
#[command(disable_help_flag = true, args_override_self = true)]
pub struct Arguments {
    /// Server's host name [default: 127.0.0.1].
    #[arg(short = 'h', value_name = "HOST")]
    pub host: Option<String>,
    /// Server's port [default: 6379].
    #[arg(short, value_name = "PORT")]
    pub port: Option<u16>,
    /// Server's Unix socket.
    #[arg(short, value_name = "PATH", conflicts_with_all = ["host", "port", "uri", "segment"])]
    pub socket: Option<String>,
    /// Work straight on this segment (`shm:NAME`, `sysv:NAME`, `file:PATH`); no server is needed.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["host", "port", "uri"])]
    pub segment: Option<String>,
    #[command(flatten)]
    pub whose: Whose,
    #[command(flatten)]
    pub tls: TlsArguments,
    /// Server's address as `redis://[[USER:]PASSWORD@]HOST[:PORT][/DB]`, or `rediss://` for TLS.
    #[arg(short, value_name = "URI")]
    pub uri: Option<String>,
    /// Password; REDISCLI_AUTH in the environment gives it without showing it to others.
    #[arg(short = 'a', long = "pass", value_name = "PASSWORD")]
    pub password: Option<String>,
    /// Ask for the password on the terminal; -a and REDISCLI_AUTH are not looked at.
    #[arg(long)]
    pub askpass: bool,
    /// Name to log in with; needs a password.
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Do not warn of a password on the command line.
    #[arg(long)]
    pub no_auth_warning: bool,
    /// Database number.
    #[arg(short = 'n', value_name = "DB")]
    pub db: Option<u32>,
    /// Speak RESP2.
    #[arg(short = '2')]
    pub resp2: bool,
    /// Speak RESP3.
    #[arg(short = '3', conflicts_with = "resp2")]
    pub resp3: bool,
    /// Run the command this many times; -1 for ever.
    #[arg(short = 'r', value_name = "COUNT", default_value_t = 1, allow_negative_numbers = true)]
    pub repeat: i64,
    /// Seconds to wait between repetitions, or between the cycles of --scan, --stat and --latency.
    #[arg(short = 'i', value_name = "SECONDS")]
    pub interval: Option<f64>,
    /// The last argument is read from standard input.
    #[arg(short = 'x')]
    pub stdin_last: bool,
    /// The argument that reads TAG is read from standard input.
    #[arg(short = 'X', value_name = "TAG", conflicts_with = "stdin_last")]
    pub stdin_tag: Option<String>,
    /// What stands between the elements of raw replies.
    #[arg(short = 'd', value_name = "DELIMITER", default_value = "\n", hide_default_value = true)]
    pub between: String,
    /// What stands after each raw reply.
    #[arg(short = 'D', value_name = "DELIMITER", default_value = "\n", hide_default_value = true)]
    pub after: String,
    /// End with status 1 and the text on standard error if the command replies with an error.
    #[arg(short = 'e')]
    pub error_status: bool,
    /// Print replies as they are (the default when the output is no terminal).
    #[arg(long)]
    pub raw: bool,
    /// Print replies with their types, even when the output is no terminal.
    #[arg(long, conflicts_with = "raw")]
    pub no_raw: bool,
    /// Print replies as CSV.
    #[arg(long)]
    pub csv: bool,
    /// Print replies as JSON; speaks RESP3 unless -2 is given.
    #[arg(long)]
    pub json: bool,
    /// As --json, with strings quoted into plain ASCII.
    #[arg(long)]
    pub quoted_json: bool,
    /// Arguments are quoted strings.
    #[arg(long)]
    pub quoted_input: bool,
    /// Whether out-of-band messages of RESP3 are shown (yes or no) [default: yes on a terminal].
    #[arg(long, value_name = "YES|NO", value_parser = ["yes", "no"])]
    pub show_pushes: Option<String>,
    /// Run the script in this file: `--eval FILE KEY... , ARGUMENT...`.
    #[arg(long, value_name = "FILE")]
    pub eval: Option<PathBuf>,
    /// Send commands from standard input, in the Redis protocol or one a line, as fast as they are taken.
    #[arg(long)]
    pub pipe: bool,
    /// Seconds that --pipe waits for replies once everything is sent; 0 for ever.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub pipe_timeout: u64,
    /// List all keys.
    #[arg(long)]
    pub scan: bool,
    /// Only keys that match, for --scan, --bigkeys and --memkeys.
    #[arg(long, value_name = "GLOB")]
    pub pattern: Option<String>,
    /// As --pattern, written as a quoted string.
    #[arg(long, value_name = "GLOB", conflicts_with = "pattern")]
    pub quoted_pattern: Option<String>,
    /// Keys to look at per call of --scan.
    #[arg(long, value_name = "KEYS", default_value_t = 10)]
    pub count: u64,
    /// Find the keys with the most elements.
    #[arg(long)]
    pub bigkeys: bool,
    /// Find the keys that take the most memory.
    #[arg(long)]
    pub memkeys: bool,
    /// Find the keys that are used most; the server's maxmemory-policy must be one of LFU.
    #[arg(long)]
    pub hotkeys: bool,
    /// Write all keys to an RDB file; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub rdb: Option<PathBuf>,
    /// As --rdb, with the functions alone.
    #[arg(long, value_name = "FILE")]
    pub functions_rdb: Option<PathBuf>,
    /// Measure how long a PING takes, again and again.
    #[arg(long)]
    pub latency: bool,
    /// As --latency, with a new line every 15 seconds (or -i).
    #[arg(long)]
    pub latency_history: bool,
    /// As --latency, as a spectrum: a line a second (or -i), brighter where more PINGs took so long. For terminals of 256 colours.
    #[arg(long)]
    pub latency_dist: bool,
    /// Measure for SECONDS how long this machine keeps a running program waiting, without any server.
    #[arg(long, value_name = "SECONDS")]
    pub intrinsic_latency: Option<u64>,
    /// Print figures of the server, a line a second (or -i).
    #[arg(long)]
    pub stat: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
    /// Command and its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl Arguments {
    /// Where the memory is, and how to log in there.
    ///
    /// # Errors
    /// A line that says what is wrong.
    pub fn target(&self) -> Result<(Place, Login), String> {
        let resp3 =
            self.resp3 || (!self.resp2 && matches!(self.format().form, Form::Json | Form::QuotedJson));
        let password = match self.askpass {
            true => Some(ask_password().map_err(|error| format!("Cannot read the password: {error}"))?),
            false => self.password.clone().or_else(|| std::env::var("REDISCLI_AUTH").ok()),
        };
        let mut login = Login { user: self.user.clone(), password, db: self.db.unwrap_or(0), resp3 };
        let place = match (&self.segment, &self.socket, &self.uri) {
            (Some(segment), ..) => Place::Segment(segment.clone(), self.whose.owner),
            (_, Some(path), _) => Place::Unix(path.clone()),
            (_, _, Some(uri)) => self.place_of_uri(uri, &mut login)?,
            _ => Place::server(
                self.host.clone().unwrap_or_else(|| "127.0.0.1".into()),
                self.port.unwrap_or(PORT),
                &self.tls,
            ),
        };
        Ok((place, login))
    }

    /// `redis://[[USER:]PASSWORD@]HOST[:PORT][/DB]`, or `rediss://`; what the flags say wins over it.
    fn place_of_uri(&self, uri: &str, login: &mut Login) -> Result<Place, String> {
        let (is_secure, rest) = match uri.split_once("://") {
            Some(("redis" | "valkey", rest)) => (false, rest),
            Some(("rediss" | "valkeys", rest)) => (true, rest),
            _ => return Err("Invalid URI scheme".into()),
        };
        let (authority, db) = rest.split_once('/').unwrap_or((rest, ""));
        let (login_part, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        if !login_part.is_empty() {
            let (user, password) = login_part
                .split_once(':')
                .map_or((None, login_part), |(user, password)| (Some(user), password));
            login.user = login.user.take().or(user.filter(|user| !user.is_empty()).map(decoded));
            login.password = Some(self.password.clone().unwrap_or_else(|| decoded(password)));
        }
        if self.db.is_none() && !db.is_empty() {
            login.db = db.parse().map_err(|_| format!("Invalid database number '{db}' in the URI"))?;
        }
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| format!("Invalid port '{port}' in the URI"))?)
            }
            _ => (address, PORT),
        };
        let host = self.host.clone().unwrap_or_else(|| match host.trim_matches(['[', ']']) {
            "" => "127.0.0.1".into(),
            host => host.into(),
        });
        let tls = TlsArguments { tls: is_secure || self.tls.tls, ..self.tls.clone() };
        Ok(Place::server(host, self.port.unwrap_or(port), &tls))
    }

    /// Whether the command line shows a password to everyone who can list processes.
    pub fn shows_password(&self) -> bool {
        self.password.is_some() || self.uri.as_ref().is_some_and(|uri| uri.contains('@'))
    }

    /// How replies are printed.
    pub fn format(&self) -> Format {
        let form = match (self.csv, self.json, self.quoted_json) {
            (true, ..) => Form::Csv,
            (_, true, _) => Form::Json,
            (_, _, true) => Form::QuotedJson,
            _ if self.raw || (!self.no_raw && !std::io::stdout().is_terminal()) => Form::Raw,
            _ => Form::Standard,
        };
        Format { form, between: self.between.clone().into_bytes(), after: self.after.clone().into_bytes() }
    }

    /// The command's words, unquoted when they are quoted strings.
    ///
    /// # Errors
    /// A line that says what is wrong.
    pub fn words(&self) -> Result<Vec<Vec<u8>>, String> {
        if let Some(first) = self.command.first().filter(|first| first.as_encoded_bytes().starts_with(b"-")) {
            return Err(format!(
                "Unrecognized option or bad number of args for: '{}'",
                first.to_string_lossy()
            ));
        }
        let words = self.command.iter().map(|word| word.clone().into_vec());
        if let Some(file) = &self.eval {
            let words: Vec<Vec<u8>> = words.collect();
            return eval(file, &words);
        }
        if self.quoted_input { words.map(|word| unquoted(&word)).collect() } else { Ok(words.collect()) }
    }

    /// The keys to list.
    ///
    /// # Errors
    /// As [`Arguments::words`].
    pub fn glob(&self) -> Result<Option<Vec<u8>>, String> {
        match &self.quoted_pattern {
            Some(quoted) => unquoted(quoted.as_bytes()).map(Some),
            None => Ok(self.pattern.clone().map(String::into_bytes)),
        }
    }
}

/// EVAL of a file's script: keys, a comma, arguments.
fn eval(file: &Path, words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let script = std::fs::read(file)
        .map_err(|error| format!("Can't open file '{}': {}", file.display(), reason(&error)))?;
    let comma = words.iter().position(|word| word == b",").unwrap_or(words.len());
    let (keys, arguments) = (&words[..comma], words.get(comma + 1..).unwrap_or_default());
    let count = keys.len().to_string().into_bytes();
    Ok([&[b"EVAL".to_vec(), script, count], keys, arguments].concat())
}

/// A line from standard input; a terminal does not show what is typed.
fn ask_password() -> io::Result<String> {
    let input = io::stdin();
    let shown = rustix::termios::tcgetattr(&input).ok();
    if let Some(shown) = &shown {
        eprint!("Please input password: ");
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        rustix::termios::tcsetattr(&input, OptionalActions::Flush, &hidden)?;
    }
    let mut line = String::new();
    let read = input.read_line(&mut line);
    if let Some(shown) = &shown {
        rustix::termios::tcsetattr(&input, OptionalActions::Flush, shown)?;
        eprintln!();
    }
    read.map(|_| line.trim_end_matches(['\r', '\n']).to_owned())
}

/// A word that may be quoted.
pub fn unquoted(word: &[u8]) -> Result<Vec<u8>, String> {
    match split(word) {
        Some(mut words) if words.len() == 1 => Ok(words.remove(0)),
        _ => Err("Invalid quoted string".into()),
    }
}

/// Text of a URI with its `%HH` resolved.
fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).filter(|_| *first == b'%').and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parsed(line: &str) -> Arguments {
        Line::parse_from(std::iter::once("cli").chain(line.split_whitespace())).arguments
    }

    fn target(line: &str) -> Result<(String, Login), String> {
        parsed(line).target().map(|(place, login)| (place.to_string(), login))
    }

    #[test]
    fn a_script_file_has_keys_and_arguments_on_either_side_of_a_comma() {
        let file = std::env::temp_dir().join(format!("polder-eval-{}.lua", std::process::id()));
        std::fs::write(&file, "return KEYS").unwrap();
        let words = |rest: &str| parsed(&format!("--eval {} {rest}", file.display())).words().unwrap();
        let texts = |rest: &str| {
            words(rest)
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect::<Vec<_>>()
                .join("|")
        };
        assert_eq!(texts("a b , c"), "EVAL|return KEYS|2|a|b|c");
        assert_eq!(texts("a"), "EVAL|return KEYS|1|a");
        assert_eq!(texts(", c"), "EVAL|return KEYS|0|c");
        std::fs::remove_file(&file).unwrap();
        assert!(
            parsed(&format!("--eval {}", file.display())).words().unwrap_err().starts_with("Can't open file")
        );
    }

    #[test]
    fn a_uri_names_place_and_user() {
        let (place, login) = target("-u redis://me:p%40ss@host:7000/3").unwrap();
        assert_eq!(
            (place.as_str(), login.user.as_deref(), login.password.as_deref(), login.db),
            ("host:7000", Some("me"), Some("p@ss"), 3)
        );
        let (place, login) = target("-u redis://secret@host").unwrap();
        assert_eq!(
            (place.as_str(), login.user, login.password.as_deref(), login.db),
            ("host:6379", None, Some("secret"), 0)
        );
        assert_eq!(target("-u redis://[::1]:7000").unwrap().0, "[::1]:7000");
        assert_eq!(target("-u redis://[::1]").unwrap().0, "[::1]:6379");
        assert!(
            target("-u http://host").is_err()
                && target("-u redis://host:no").is_err()
                && target("-u redis://host/no").is_err()
        );
    }

    #[test]
    fn flags_win_over_the_uri() {
        let (place, login) = target("-u redis://a@host:7000/3 -h other -p 1 -n 4 -a b").unwrap();
        assert_eq!((place.as_str(), login.password.as_deref(), login.db), ("other:1", Some("b"), 4));
    }

    #[test]
    fn what_follows_the_command_is_its_own() {
        let arguments = parsed("-r 2 set k -1 -p 5 --raw");
        assert_eq!(
            arguments.words().unwrap(),
            ["set", "k", "-1", "-p", "5", "--raw"].map(|word| word.as_bytes().to_vec())
        );
        assert_eq!((arguments.repeat, arguments.port, arguments.raw), (2, None, false));
        assert!(parsed("--unknown").words().is_err());
    }

    #[test]
    fn json_speaks_resp3_unless_told_otherwise() {
        assert!(target("--json").unwrap().1.resp3);
        assert!(!target("--json -2").unwrap().1.resp3 && !target("--csv").unwrap().1.resp3);
    }
}
