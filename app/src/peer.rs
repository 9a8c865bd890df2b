//! The data a tool works on: a segment in this process, or a server.
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polder_calls::settings::file;
use polder_engine::{Memory, Options};
use polder_runtime::configuration::Configuration;
use polder_wire::resp::Value;

use crate::link::{Link, Login, Place};
use crate::text::reason;
use crate::text::{self, Failed};

const PORT: u16 = 6379;

/// Where the data is.
#[derive(clap::Args)]
pub struct Peer {
    /// The segment [default: shm:polder].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["host", "port", "socket"])]
    segment: Option<String>,
    #[command(flatten)]
    whose: text::Whose,
    /// A server's host name, in place of a segment [default: 127.0.0.1].
    #[arg(short = 'h', long, value_name = "HOST")]
    host: Option<String>,
    /// A server's port [default: 6379].
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// A server's Unix socket.
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["host", "port"])]
    socket: Option<String>,
    /// The user's name for a server.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The password for a server; the environment variable POLDER_PASSWORD keeps it out of the list of processes.
    #[arg(short = 'a', long = "password", value_name = "PASSWORD")]
    password: Option<String>,
}

/// The data's place, opened.
pub enum Opened {
    Segment(Box<Memory>),
    Server(Box<Link>),
}

impl Peer {
    /// Connects, or attaches the segment, which is made if there is none and `create` says so.
    ///
    /// # Errors
    /// A line that says what is wrong.
    pub fn open(&self, create: bool) -> Result<Opened, Failed> {
        let place = match (&self.socket, &self.host, self.port) {
            (Some(path), ..) => Place::Unix(path.clone()),
            (None, None, None) => {
                let segment = self.segment.clone().unwrap_or_else(|| "shm:polder".into());
                let options = Options { segment, create, owner: self.whose.owner, ..Options::default() };
                return Ok(Opened::Segment(Box::new(text::attached(&options)?)));
            }
            (None, host, port) => Place::Tcp {
                host: host.clone().unwrap_or_else(|| "127.0.0.1".into()),
                port: port.unwrap_or(PORT),
            },
        };
        let mut link = Link::open(&place)
            .map_err(|error| format!("could not connect to {place}: {}", reason(&error)))?;
        let password = self.password.clone().or_else(|| std::env::var("POLDER_PASSWORD").ok());
        let login = Login { user: self.user.clone(), password, db: 0, resp3: false };
        match link.login(&login).map_err(|error| reason(&error))? {
            Some(refused) => Err(refused.into()),
            None => Ok(Opened::Server(Box::new(link))),
        }
    }
}

/// One call, whose refusal is an error.
///
/// # Errors
/// What the server or the connection says.
pub fn call(link: &mut Link, args: &[impl AsRef<[u8]>]) -> Result<Value, String> {
    match link.call(args).map_err(|error| reason(&error))? {
        Value::Error(text) => Err(String::from_utf8_lossy(&text).into_owned()),
        value => Ok(value),
    }
}

/// Whether a server knows items: strings with flags and content types. Other servers than Polder do not, and then none are lost.
pub fn has_items(link: &mut Link) -> bool {
    let rows = call(link, &["COMMAND", "INFO", "ITEM.GET"]);
    matches!(rows, Ok(Value::Array(rows)) if matches!(rows.first(), Some(Value::Array(_))))
}

/// Settings out of flags.
///
/// # Errors
/// The flag that is wrong.
pub fn settings(flags: &[(&str, Option<String>)]) -> Result<Configuration, String> {
    let words: Vec<String> = flags
        .iter()
        .filter_map(|(name, value)| Some([format!("--{name}"), value.clone()?]))
        .flatten()
        .collect();
    let (_, assignments) = file::flags(&words).map_err(|wrong| wrong.to_string())?;
    Configuration::begin(None, &[], &assignments).map_err(|wrong| wrong.to_string())
}

/// A bar that shows on terminals only.
pub fn bar(total: u64, unit: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    let template = match unit {
        "bytes" => "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        _ => "{bar:40} {human_pos} of {human_len} keys, {per_sec}, {eta} left",
    };
    // The template is ours; the plain one would do as well.
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
