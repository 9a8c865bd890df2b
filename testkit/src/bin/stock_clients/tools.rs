//! The tools of libmemcached and curl, as an operator types them.
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::said;

/// A folder for the files of the tools, which ends with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("polder-stock-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self(folder))
    }

    fn file(&self, name: &str, content: &[u8]) -> Result<String, String> {
        let path = self.0.join(name);
        std::fs::write(&path, content).map_err(|error| error.to_string())?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the tool is installed. One that is not is left out.
fn is_here(tool: &str, package: &str) -> bool {
    let found = Path::new("/usr/bin").join(tool).exists();
    if !found {
        println!("{package}: not installed, left out");
    }
    found
}

/// The reply of a tool must be this.
fn expect(tool: &str, words: &[&str], expected: &str) -> Result<(), String> {
    let answer = said(tool, words)?;
    if answer == expected {
        return Ok(());
    }
    Err(format!("{words:?}: {answer:?} in place of {expected:?}"))
}

/// The tool must end with an error.
fn refused(tool: &str, words: &[&str]) -> Result<(), String> {
    match said(tool, words) {
        Ok(answer) => Err(format!("{words:?}: {answer:?} in place of an error")),
        Err(_) => Ok(()),
    }
}

/// libmemcached's own check of a server's text and binary protocol, its load generators, and its tools for one key. All keys of the server are
/// removed.
pub fn libmemcached(port: &str) -> Result<(), String> {
    if !is_here("memccapable", "libmemcached-tools") {
        return Ok(());
    }
    let report = said("memccapable", &["-h", "127.0.0.1", "-p", port])?;
    let passed = report.matches("[pass]").count();
    if passed < 50 || report.contains("FAIL") || !report.contains("All tests passed") {
        return Err(format!("memccapable: {passed} checks passed: {report}"));
    }
    let server = format!("--servers=127.0.0.1:{port}");
    let folder = Folder::new("memcached")?;
    let file = folder.file("greeting.txt", b"hello tools")?;
    said("memcping", &[&server])?;
    said("memcflush", &[&server])?;
    expect("memccp", &[&server, "--flag=7", "--expire=60", &file], "")?;
    expect("memccat", &[&server, "--flags", "greeting.txt"], "7\nhello tools\n")?;
    expect("memcdump", &[&server], "greeting.txt\n")?;
    said("memctouch", &[&server, "--expire=100", "greeting.txt"])?;
    said("memcexist", &[&server, "greeting.txt"])?;
    said("memcrm", &[&server, "greeting.txt"])?;
    refused("memcexist", &[&server, "greeting.txt"])?;
    let figures = said("memcstat", &[&server])?;
    if !figures.contains("curr_items: 0") || !figures.contains("cmd_touch: ") {
        return Err(format!("memcstat: {figures}"));
    }
    for form in [&["--test=set"][..], &["--test=get", "--binary"], &["--test=mget"]] {
        let mut words = vec![server.as_str(), "--concurrency=2", "--execute-number=100"];
        words.extend(form);
        said("memcslap", &words)?;
    }
    let address = format!("127.0.0.1:{port}");
    // Each value that comes back is compared with the one that was sent.
    let load = said("memcaslap", &["-s", &address, "-T", "1", "-c", "4", "-x", "2000", "-v", "1.0"])?;
    for line in ["get_misses: 0\n", "verify_misses: 0\n", "verify_failed: 0\n"] {
        if !load.contains(line) {
            return Err(format!("memcaslap: {line:?} is missing in {load}"));
        }
    }
    said("memcflush", &[&server])?;
    expect("memcdump", &[&server], "")
}

/// curl without TLS at the HTTP port: keys, parts of them, commands, conditions, and what is refused.
pub fn curl(port: &str) -> Result<(), String> {
    if !is_here("curl", "curl") {
        return Ok(());
    }
    let folder = Folder::new("curl")?;
    let small = folder.file("small.txt", b"0123456789")?;
    let bytes: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let large = folder.file("large", &bytes)?;
    let at = |path: &str| format!("http://127.0.0.1:{port}{path}");
    let check = |words: &[&str], path: &str, expected: &str| {
        let url = at(path);
        let mut all = vec!["-s", "--max-time", "20"];
        all.extend(words);
        all.push(&url);
        expect("curl", &all, expected)
    };
    check(&["-T", &small, "-w", "%{http_code}"], "/k/small.txt", "201")?;
    check(&[], "/k/small.txt", "0123456789")?;
    check(
        &["-w", " %{http_code} %{content_type}"],
        "/k/small.txt",
        "0123456789 200 text/plain; charset=utf-8",
    )?;
    check(&["-r", "2-4", "-w", " %{http_code}"], "/k/small.txt", "234 206")?;
    check(&["-I", "-o", "/dev/null", "-w", "%header{content-length}"], "/k/small.txt", "10")?;
    let saved = folder.0.join("etag").to_string_lossy().into_owned();
    check(&["--etag-save", &saved], "/k/small.txt", "0123456789")?;
    check(&["--etag-compare", &saved, "-w", "%{http_code}"], "/k/small.txt", "304")?;
    check(&["-X", "DELETE", "-w", "%{http_code}"], "/k/small.txt", "204")?;
    check(&["-o", "/dev/null", "-w", "%{http_code}"], "/k/small.txt", "404")?;
    // In chunks of unknown number, and back with `Expect: 100-continue`.
    check(&["-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue", "-T", &large], "/k/large", "")?;
    let back = folder.0.join("back").to_string_lossy().into_owned();
    check(&["-o", &back], "/k/large", "")?;
    if std::fs::read(&back).map_err(|error| error.to_string())? != bytes {
        return Err("/k/large: another value came back than was sent".into());
    }
    check(&["-d", r#"["SET","n","1"]"#], "/js", "\"OK\"\n")?;
    check(&["-d", r#"[["INCR","n"],["GET","n"]]"#], "/js?atomic", "[2,\"2\"]\n")?;
    check(&["-g"], "/js?GET+n", "\"2\"\n")?;
    check(&["-o", "/dev/null", "-w", "%{http_code}"], "/js?DEL+n", "405")?;
    let foreign = ["-H", "Origin: http://evil.example", "-o", "/dev/null", "-w", "%{http_code}"];
    check(&foreign, "/k/n", "403")?;
    check(&[], "/healthz", "{\"status\":\"ok\"}\n")?;
    let metrics = said("curl", &["-s", &at("/metrics")])?;
    match metrics.contains("\npolder_uptime_seconds{") {
        true => followed(port),
        false => Err(format!("/metrics: {metrics}")),
    }
}

/// A message that is published by one curl reaches another that follows the channel.
fn followed(port: &str) -> Result<(), String> {
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}?subject=stock");
    let follower = Command::new("curl")
        .args(["-sN", "--max-time", "2", &url("/sub")])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let until = std::time::Instant::now() + std::time::Duration::from_millis(1800);
    while said("curl", &["-s", "-d", "hello", &url("/pub")])?.trim() == "0" {
        if std::time::Instant::now() > until {
            return Err("/pub: the follower of /sub is not there".into());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // It ends at its limit of time, with an exit status that says so.
    let heard = follower.wait_with_output().map_err(|error| error.to_string())?;
    match String::from_utf8_lossy(&heard.stdout).contains("hello") {
        true => Ok(()),
        false => Err(format!("/sub: {heard:?}")),
    }
}
