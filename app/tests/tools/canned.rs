//! What the tests of `polder cli` share: a server with prepared replies, and running the two command lines.
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A server that replies to `reply N` with the N-th of its prepared replies, to ECHO as it should,
/// and to anything else with OK.
pub struct Canned {
    port: u16,
}

impl Canned {
    /// Starts it on a free port of this host; it ends with the test's process.
    pub fn start(replies: impl Iterator<Item = &'static [u8]>) -> Canned {
        let replies: Arc<Vec<&'static [u8]>> = Arc::new(replies.collect());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let replies = replies.clone();
                std::thread::spawn(move || answer(stream, &replies));
            }
        });
        Canned { port }
    }

    /// The port, as an argument.
    pub fn port(&self) -> String {
        self.port.to_string()
    }
}

fn answer(stream: TcpStream, replies: &[&'static [u8]]) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let args = request(&mut reader)?;
        let reply = match args.as_slice() {
            [name, number] if name == b"reply" => {
                replies[std::str::from_utf8(number).ok()?.parse::<usize>().ok()?].to_vec()
            }
            [name, text] if name == b"ECHO" => {
                [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
            }
            _ => b"+OK\r\n".to_vec(),
        };
        reader.get_mut().write_all(&reply).ok()?;
    }
}

fn request(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let number = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        while line.trim_end().is_empty() {
            line.clear();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        line.get(1..)?.trim_end().parse::<usize>().ok()
    };
    (0..number(reader)?)
        .map(|_| {
            let mut bytes = vec![0; number(reader)? + 2];
            reader.read_exact(&mut bytes).ok()?;
            bytes.truncate(bytes.len() - 2);
            Some(bytes)
        })
        .collect()
}

/// What a command left behind.
#[derive(PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub status: Option<i32>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{:?}\n  and {:?}, status {:?}",
            String::from_utf8_lossy(&self.stdout),
            String::from_utf8_lossy(&self.stderr),
            self.status
        )
    }
}

/// Runs `polder` with any subcommand.
pub fn run_polder(args: &[&str], stdin: &[u8]) -> Output {
    run(Command::new(env!("CARGO_BIN_EXE_polder")), args, stdin)
        .expect("the binary that this test was built with")
}

/// Runs `polder cli`.
pub fn polder(args: &[String], stdin: &[u8]) -> Output {
    let args: Vec<&str> = std::iter::once("cli").chain(args.iter().map(String::as_str)).collect();
    run_polder(&args, stdin)
}

/// Runs redis-cli, where it is installed.
pub fn run_redis_cli(args: &[String], stdin: &[u8]) -> Option<Output> {
    run(Command::new("redis-cli"), args, stdin)
}

fn run(mut command: Command, args: &[impl AsRef<std::ffi::OsStr>], stdin: &[u8]) -> Option<Output> {
    let mut child = command
        .args(args)
        .env_remove("REDISCLI_AUTH")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    // A program that ends without reading its input is no failure of the test.
    let _ = child.stdin.take()?.write_all(stdin);
    let output = child.wait_with_output().ok()?;
    Some(Output { stdout: output.stdout, stderr: output.stderr, status: output.status.code() })
}
