//! Servers that a test starts and surely ends.
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use polder_testbase::PATIENCE;
pub use polder_testbase::free_port;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// A server process on a port of its own, in a folder of its own; it is killed and its folder removed when this is dropped.
pub struct Server {
    child: Child,
    port: u16,
    /// Where it runs: what it writes without being told where must not end in the sources.
    folder: PathBuf,
}

impl Server {
    /// Starts `program` with `flags` and waits until it listens. `{port}` in a flag becomes the port.
    ///
    /// # Errors
    /// When it cannot be started or does not listen in time.
    pub fn start(program: &Path, flags: &[&str]) -> io::Result<Server> {
        Server::start_at(program, flags, free_port()?)
    }

    /// As [`Server::start`], on a given port.
    ///
    /// # Errors
    /// As there.
    pub fn start_at(program: &Path, flags: &[&str], port: u16) -> io::Result<Server> {
        let flags = flags.iter().map(|flag| flag.replace("{port}", &port.to_string()));
        // setpriv becomes the server; the kernel kills it should this process die without dropping it.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(flags);
        let folder = fresh_folder()?;
        let child = command.current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut server = Server { child, port, folder };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("{} ended at once: {status}", program.display())));
            }
            if started.elapsed() > PATIENCE {
                return Err(io::Error::other(format!(
                    "{} does not listen on port {port}",
                    program.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(status) = server.child.try_wait()? {
            return Err(io::Error::other(format!(
                "{} ended at once, {status}: another listens on port {port}",
                program.display()
            )));
        }
        Ok(server)
    }

    /// A redis-server or valkey-server that keeps nothing.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_redis(program: &Path) -> io::Result<Server> {
        let mut flags = vec!["--port", "{port}", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        flags.extend(["--enable-debug-command", "yes", "--enable-module-command", "yes"]);
        Server::start(program, &flags)
    }

    /// A `polder serve` on a segment, with more flags.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_polder(program: &Path, segment: &str, more: &[&str]) -> io::Result<Server> {
        let mut flags = vec!["serve", "--port", "{port}", "--segment", segment];
        flags.extend(["--enable-debug-command", "yes", "--enable-module-command", "yes"]);
        flags.extend(more);
        Server::start(program, &flags)
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it runs still, or how it has ended: what a test that fails has to say of it.
    pub fn fate(&self) -> String {
        let child = WaitId::Pid(Pid::from_child(&self.child));
        match waitid(child, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT) {
            Ok(None) => "it runs".to_owned(),
            Ok(Some(end)) => format!("it has ended, {end:?}"),
            Err(error) => format!("what became of it is not known: {error}"),
        }
    }

    /// Stops it with SIGSTOP and waits until none of its threads runs any more: the signal alone lets them go on for a while.
    ///
    /// # Panics
    /// When it has ended, or does not stop.
    pub fn stop(&self) {
        self.signal("-STOP");
        let begun = Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < PATIENCE, "the server does not stop");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets it go on after [`Server::stop`].
    ///
    /// # Panics
    /// When it has ended.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, which: &str) {
        assert!(
            Command::new("kill")
                .args([which, &self.pid().to_string()])
                .status()
                .is_ok_and(|status| status.success()),
            "kill {which}"
        );
    }

    /// Whether every thread is stopped: the third field of its `stat`, behind the name in parentheses (proc(5)).
    fn is_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().flatten();
        let mut stats =
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok()).peekable();
        stats.peek().is_some()
            && stats.all(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        // A folder that cannot be removed stays among other temporary files and does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A new folder for one server.
fn fresh_folder() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("polder-server-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A program of the given name on the PATH.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// The folder that cargo builds into, found from where this program lies; absolute, since servers run in folders of their own.
pub fn target_folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        return std::path::absolute(&folder).unwrap_or_else(|_| folder.into());
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
}

/// The `polder` binary of this build.
pub fn polder() -> PathBuf {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    target_folder().join(profile).join("polder")
}

/// A newer server that `xtask/needs.sh newer` has put into a folder of its own: `redis8` or `valkey81`.
pub fn newer(name: &str) -> Option<PathBuf> {
    Some(target_folder().join("peers").join(name)).filter(|program| program.is_file())
}

/// More servers to compare with: every program in the folder that `POLDER_PEERS` names, or else in the one that `xtask/needs.sh newest` fills
/// (`redis-8.6`, `valkey-9.1`, `kevy-3.17`), by the names of their files.
pub fn more_peers() -> Vec<(String, PathBuf)> {
    let folder =
        std::env::var_os("POLDER_PEERS").map_or_else(|| target_folder().join("peers/newest"), PathBuf::from);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let program = |entry: std::fs::DirEntry| {
        let is_program =
            entry.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
        is_program
            .then(|| Some((entry.file_name().into_string().ok()?, std::path::absolute(entry.path()).ok()?)))?
    };
    let mut peers: Vec<(String, PathBuf)> = entries.filter_map(program).collect();
    peers.sort();
    peers
}

/// The valkey-server that `make test` unpacks, if it could be had.
pub fn valkey() -> Option<PathBuf> {
    let unpacked = target_folder().join("peers/valkey/usr/bin/valkey-server");
    if unpacked.is_file() { Some(unpacked) } else { on_path("valkey-server") }
}

/// Every Redis and Valkey server that there is, under a name.
pub fn stock_servers() -> Vec<(String, PathBuf)> {
    let named = [
        ("redis", on_path("redis-server")),
        ("valkey", valkey()),
        ("redis8", newer("redis8")),
        ("valkey81", newer("valkey81")),
    ];
    let found = named.into_iter().filter_map(|(name, program)| Some((name.to_owned(), program?)));
    found.chain(more_peers().into_iter().filter(is_stock)).collect()
}

/// Tells a version of Redis or Valkey from another rival by its name.
pub fn is_stock((name, _): &(String, PathBuf)) -> bool {
    name.starts_with("redis") || name.starts_with("valkey")
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_server_runs_in_a_folder_of_its_own_that_goes_with_it() {
        let Some(program) = on_path("redis-server") else { return };
        let server = Server::start_redis(&program).expect("a server");
        let folder = std::fs::read_link(format!("/proc/{}/cwd", server.pid())).expect("where it runs");
        assert!(
            folder.starts_with(std::env::temp_dir().canonicalize().expect("a folder")),
            "it runs in {folder:?}"
        );
        std::fs::write(folder.join("appendonly"), b"1").expect("a file");
        drop(server);
        assert!(!folder.exists(), "{folder:?} is left behind");
    }

    #[test]
    fn no_process_listens_on_a_free_port_though_programs_are_started_beside() {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        Command::new("true").status().expect("it runs");
                    }
                });
            }
            let answered = (0..400)
                .filter(|_| TcpStream::connect(("127.0.0.1", free_port().expect("a port"))).is_ok())
                .count();
            over.store(true, Ordering::Relaxed);
            assert_eq!(answered, 0, "of 400");
        });
    }
}
