//! Stock clients, unmodified, against a `polder serve`: redis-cli, redis-benchmark and redis-py; pymemcache, pylibmc and
//! python-binary-memcached at its memcached ports, and generated traffic there and against memcached itself, and libmemcached's
//! tools; nats-py at its NATS port; curl and websockets at its HTTP port and the package ws of Node.js, and xterm.js and the console there in Chromium.
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};

use polder_testkit::process::{Server, free_port, polder, target_folder};
use polder_testkit::scratch::Scratch;

fn main() -> ExitCode {
    let scratch = Scratch::new();
    let memcached_port = free_port().map_or("0".into(), |port| port.to_string());
    let http_port = free_port().map_or("0".into(), |port| port.to_string());
    let nats_port = free_port().map_or("0".into(), |port| port.to_string());
    let udp_port = free_port().map_or("0".into(), |port| port.to_string());
    let path = std::env::temp_dir()
        .join(format!("polder-stock-{}.sock", std::process::id()))
        .to_string_lossy()
        .into_owned();
    let flags = [
        ["--memcache-port", &memcached_port],
        ["--memcache-unixsocket", &path],
        ["--memcache-udp-port", &udp_port],
        ["--http-port", &http_port],
        ["--nats-port", &nats_port],
    ]
    .concat();
    let server = match Server::start_polder(&polder(), &scratch.options.segment, &flags) {
        Ok(server) => server,
        Err(error) => {
            println!("{error}\nstock clients: 0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };
    let port = server.port().to_string();
    let checks = [
        ("redis-cli", redis_cli(&port)),
        ("redis-benchmark", redis_benchmark(&port)),
        ("libmemcached", tools::libmemcached(&memcached_port)),
        ("curl", tools::curl(&http_port)),
    ];
    let failed = checks.iter().filter(|(_, check)| check.is_err()).count();
    for (name, check) in &checks {
        if let Err(error) = check {
            println!("{name}: {error}");
        }
    }
    println!("stock clients: {} passed, {failed} failed", checks.len() - failed);
    let python = redis_py(&port);
    let memcached = memcached_clients(&["--unix", &path, "--udp", &udp_port, &memcached_port]);
    let web_socket = web_socket_client(&http_port) && node_client(&http_port);
    let nats = nats_client(&nats_port, &port);
    // The console is the last: it sets passwords. Screenshots are left below target/console.
    let console = xterm(&http_port, &port) && in_browser("console", &[&http_port, &port]);
    if failed == 0 && python && memcached && web_socket && nats && console {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn said(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{args:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn redis_cli(port: &str) -> Result<(), String> {
    let cases: [(&[&str], &str); 5] = [
        (&["SET", "k", "v"], "OK\n"),
        (&["--no-raw", "GET", "k"], "\"v\"\n"),
        (&["-3", "--no-raw", "GET", "none"], "(nil)\n"),
        (&["-n", "3", "DBSIZE"], "0\n"),
        (&["--scan", "--pattern", "k*"], "k\n"),
    ];
    for (words, expected) in cases {
        let mut args = vec!["-p", port];
        args.extend(words);
        let answer = said("redis-cli", &args)?;
        if answer != expected {
            return Err(format!("{words:?}: {answer:?} in place of {expected:?}"));
        }
    }
    said("redis-cli", &["-p", port, "--bigkeys"])?;
    said("redis-cli", &["-p", port, "--memkeys"]).map(drop)
}

fn redis_benchmark(port: &str) -> Result<(), String> {
    let tests = "ping_inline,ping_mbulk,set,get,incr,mset";
    let rows = said(
        "redis-benchmark",
        &["-p", port, "-t", tests, "-n", "20000", "-P", "16", "-r", "1000", "--csv"],
    )?;
    match rows.lines().filter(|row| row.starts_with('"') && !row.starts_with("\"test\"")).count() {
        6 => Ok(()),
        count => Err(format!("{count} of 6 tests ran: {rows}")),
    }
}

/// Runs the Python script, which prints its own counts; left out when there is no redis-py.
fn redis_py(port: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        println!("redis-py: not installed, left out");
        return true;
    }
    let status = Command::new(python).arg(root.join("tests/clients/redis_py.py")).arg(port).status();
    status.is_ok_and(|status| status.success())
}

/// The same for websockets.
fn web_socket_client(port: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".venv/bin/python");
    if said(&python.to_string_lossy(), &["-c", "import websockets"]).is_err() {
        println!("websockets: not installed, left out");
        return true;
    }
    let status = Command::new(python).arg(root.join("tests/clients/web_socket.py")).arg(port).status();
    status.is_ok_and(|status| status.success())
}

/// Runs the Python script for nats-py; left out when there is none.
fn nats_client(nats_port: &str, port: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".venv/bin/python");
    if said(&python.to_string_lossy(), &["-c", "import nats, redis"]).is_err() {
        println!("nats-py: not installed, left out");
        return true;
    }
    let status =
        Command::new(python).arg(root.join("tests/clients/nats_py.py")).args([nats_port, port]).status();
    status.is_ok_and(|status| status.success())
}

/// The same for Node.js.
fn node_client(port: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let packages = target_folder().join("node/node_modules");
    if !packages.join("ws").exists() || said("node", &["--version"]).is_err() {
        println!("node ws: not installed, left out");
        return true;
    }
    let mut command = Command::new("node");
    command.arg(root.join("tests/clients/web_socket.cjs")).arg(port).env("NODE_PATH", packages);
    command.status().is_ok_and(|status| status.success())
}

/// Tests xterm.js in a browser. Its screenshot is left below target/console.
fn xterm(http_port: &str, port: &str) -> bool {
    let packages = target_folder().join("node/node_modules");
    if !packages.join("@xterm/addon-attach").exists() {
        println!("xterm: not installed, left out");
        return true;
    }
    in_browser("xterm", &[http_port, port, &packages.to_string_lossy()])
}

/// Runs a Python script that drives a browser, `tests/clients/NAME.py`; left out where there is no browser.
fn in_browser(name: &str, words: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".venv/bin/python");
    if !python.exists()
        || said("chromedriver", &["--version"]).is_err()
        || !Path::new("/usr/bin/chromium-headless-shell").exists()
    {
        println!("{name}: no chromedriver or chromium-headless-shell, left out");
        return true;
    }
    let mut command = Command::new(python);
    command.arg(root.join(format!("tests/clients/{name}.py"))).args(words).arg(root.join("target/console"));
    command.status().is_ok_and(|status| status.success())
}

/// The same for clients of memcached. Where memcached is installed, both are sent the same requests.
fn memcached_clients(places: &[&str]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        println!("memcached clients: no Python environment, left out");
        return true;
    }
    // memcached does not run as root; its first flag is ignored for others.
    let flags = ["-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", "{port}"];
    let peer = Server::start(Path::new("memcached"), &flags);
    let mut command = Command::new(python);
    command.arg(root.join("tests/clients/memcached.py")).args(places);
    if let Ok(peer) = &peer {
        command.arg(peer.port().to_string());
    } else {
        println!("memcached: not installed, nothing is compared with it");
    }
    command.status().is_ok_and(|status| status.success())
}
