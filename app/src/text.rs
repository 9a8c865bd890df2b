//! Numbers, times and tables as people read them; what every tool's output shares.
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use polder_engine::{Memory, NoSuchUser, Options, Owner};

/// `1.05M`
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count}B") } else { format!("{value:.2}{}", UNITS[unit]) }
}

/// `1,234,567`
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

/// `1.2M`, for rates
pub fn rate(per_second: f64) -> String {
    match per_second {
        small if small < 1e3 => format!("{small:.0}"),
        thousands if thousands < 1e6 => format!("{:.1}k", thousands / 1e3),
        millions => format!("{:.2}M", millions / 1e6),
    }
}

/// `3d 4h`, `5m 6s`
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// How long ago a moment was, in milliseconds since the Unix epoch.
pub fn since_ms(moment_ms: u64) -> Duration {
    now().saturating_sub(Duration::from_millis(moment_ms))
}

/// Now, since the Unix epoch.
pub fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// An error without the number that Rust adds, as C programs print it.
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    text.strip_prefix("ERR ").unwrap_or(text).to_string()
}

/// A failure's text without the code that protocols put first.
pub fn plain(failure: &impl std::fmt::Display) -> String {
    let text = failure.to_string();
    text.strip_prefix("ERR ").unwrap_or(&text).into()
}

/// The owners of the segments that a tool attaches.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Whose {
    /// Attach also a segment of this user (name, number, or `any`); by default only one's own and root's.
    #[arg(long = "segment-owner", value_name = "USER", value_parser = owner, default_value = "", hide_default_value = true)]
    pub owner: Owner,
}

impl Whose {
    /// The flag that says the same to another process.
    pub fn flag(&self) -> Option<String> {
        match self.owner {
            Owner::Own => None,
            Owner::User(number) => Some(format!("--segment-owner={number}")),
            Owner::Any => Some("--segment-owner=any".into()),
        }
    }
}

fn owner(text: &str) -> Result<Owner, NoSuchUser> {
    text.parse()
}

/// Why a tool has not done its work, and its exit status.
#[derive(Debug)]
pub struct Failed {
    pub text: String,
    pub status: u8,
}

impl Failed {
    /// The status of every tool that could not attach its segment; any other failure is 1.
    pub const UNATTACHED: u8 = 2;

    /// Nothing can be said, for want of what was to be looked at.
    pub fn unattached(text: String) -> Failed {
        Failed { text, status: Failed::UNATTACHED }
    }

    /// Nothing can be said: what is attached could not be read.
    pub fn unknown(failure: &impl std::fmt::Display) -> Failed {
        Failed::unattached(plain(failure))
    }

    /// Says it on standard error.
    pub fn tell(&self) -> ExitCode {
        eprintln!("{}", self.text);
        ExitCode::from(self.status)
    }
}

impl From<String> for Failed {
    fn from(text: String) -> Failed {
        Failed { text, status: 1 }
    }
}

impl From<&str> for Failed {
    fn from(text: &str) -> Failed {
        text.to_owned().into()
    }
}

/// Attaches a segment that must be there, and takes a seat in it: a tool without one would see nothing.
///
/// # Errors
/// A line that says what to do.
pub fn attach(segment: &str, whose: &Whose) -> Result<Memory, Failed> {
    attached(&Options { segment: segment.into(), create: false, owner: whose.owner, ..Options::default() })
}

/// The same with all options. A tool that uses the data must look whether it is there (`opened::check_open`).
///
/// # Errors
/// A line that says what to do.
pub fn attached(options: &Options) -> Result<Memory, Failed> {
    let failed = Failed::unattached;
    let memory = Memory::attach_unread(options).map_err(|fault| failed(plain(&fault)))?;
    let seat = memory
        .table()
        .seat()
        .map_err(|fault| failed(format!("cannot look at {}: {}", options.segment, plain(&fault))));
    seat.map(|_| memory)
}

/// A warning where a new segment of this size (0: the default) cannot grow as large as it says.
pub fn doubt_of_size(segment: &str, wanted: u64) -> Option<String> {
    let room = segment.parse().ok().and_then(|name| polder_shm::room(&name))?;
    (wanted > room).then(|| {
        let (wanted, room) = (bytes(wanted), bytes(room));
        format!(
            "{segment} may grow to {wanted}, but its place holds {room} in all: writes fail from there on; set a smaller size or maxmemory"
        )
    })
}

/// Rows under their heads, each column as wide as its widest cell; the first column leans left, numbers lean right.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(head.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(5 << 30)], ["0B", "1023B", "1.50K", "5.00G"]);
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([rate(12.4), rate(1234.0), rate(2_500_000.0)], ["12", "1.2k", "2.50M"]);
        assert_eq!(age(Duration::from_secs(3 * 86_400 + 4 * 3600)), "3d 4h");
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["long".into(), "22222".into()]];
        assert_eq!(table(&["NAME", "SIZE"], &rows), "NAME   SIZE\na         1\nlong  22222\n");
    }
}
