//! Servers that tests start and end.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of the test's own, which ends with it.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// `None` where the program is not installed: the test then says so and passes.
    pub fn start(program: &Path, words: &[&str]) -> Option<Server> {
        let port = polder_testbase::free_port().ok()?;
        let spawned = Command::new(program)
            .args(words)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = spawned else {
            eprintln!("{} is not there: not tested", program.display());
            return None;
        };
        let server = Server { child, port };
        let until = Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "{} does not listen", program.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(server)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
