//! The doors of other languages: C against Rust, Python against redis-py over a Unix socket, in one run each.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::{Figures, Scale, median, spread};
use crate::process::{Server, on_path, target_folder};
use crate::scratch::Scratch;

const VALUE: &[u8; 16] = b"0123456789abcdef";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a program to its end: what it has said.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Builds the C program that calls the library, against a release of it.
fn c_program() -> Result<PathBuf, String> {
    let place = target_folder().join("bench-c");
    said(Command::new(root().join("capi/build.sh")).arg(place.join("prefix")).arg("release"))?;
    let (prefix, program) = (place.join("prefix"), place.join("door"));
    let mut compile = Command::new("cc");
    compile
        .arg("-O2")
        .arg("-I")
        .arg(prefix.join("include"))
        .arg("-Wno-unused-function")
        .arg(root().join("capi/bench/door.c"));
    compile
        .arg("-L")
        .arg(prefix.join("lib"))
        .arg("-lpolder")
        .arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
    said(compile.arg("-o").arg(&program))?;
    Ok(program)
}

/// One run of it: nanoseconds of a SET and a GET of `keys` random keys, of both on one key, and of
/// a GET with a reply.
fn c_run(program: &Path, segment: &str, keys: usize) -> Result<Vec<f64>, String> {
    let line = said(Command::new(program).arg(segment).arg(keys.to_string()))?;
    Ok(line.split_whitespace().filter_map(|word| word.parse().ok()).take(5).collect())
}

/// Nanoseconds of GET and SET by the C library on `keys` keys of a segment, where they are: for each round the median of several runs.
pub(super) fn c_latency(scale: &Scale, segment: &str, keys: usize) -> Result<Figures, String> {
    const RUNS: usize = 15;
    let program = c_program()?;
    let (mut sets, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let runs = (0..RUNS).map(|_| c_run(&program, segment, keys)).collect::<Result<Vec<_>, _>>()?;
        sets.push(median(runs.iter().map(|run| run[0]).collect()));
        gets.push(median(runs.iter().map(|run| run[1]).collect()));
    }
    Ok([spread("GET C library ns", gets), spread("SET C library ns", sets)].concat())
}

/// Nanoseconds of GET and SET by the C library and by the engine, on the same keys of one memory.
///
/// # Errors
/// When there is no C compiler, or a call is refused.
pub fn c(scale: &Scale) -> Result<Figures, String> {
    let program = c_program()?;
    let count = scale.of(1_000_000) as usize;
    let scratch = Scratch::with_ceiling(2 << 30);
    let db = scratch.embedder.memory.database(0);
    let key = |number: usize| -> [u8; 16] {
        format!("key:{number:012}").into_bytes().try_into().unwrap_or([b'k'; 16])
    };
    (0..count).try_for_each(|number| db.set(key(number), VALUE)).map_err(|stop| stop.to_string())?;
    let mut random = crate::random::Random::new(7);
    let spread: Vec<[u8; 16]> = (0..count).map(|_| key(random.below(count))).collect();
    let hot = vec![key(1); count];
    let timed = |keys: &[[u8; 16]], call: &dyn Fn(&[u8])| {
        let began = Instant::now();
        keys.iter().for_each(|key| call(key));
        began.elapsed().as_nanos() as f64 / keys.len() as f64
    };
    let set = |key: &[u8]| db.set(key, VALUE).unwrap_or_else(|stop| panic!("{stop}"));
    let get = |key: &[u8]| {
        let mut buffer = [0; 16];
        let read = db.read(key, |value| value.map(|value| buffer[..value.len()].copy_from_slice(value)));
        std::hint::black_box((read.is_ok(), buffer));
    };
    let mut runs: [Vec<f64>; 9] = Default::default();
    for _ in 0..scale.rounds {
        for (at, figure) in [timed(&spread, &set), timed(&spread, &get), timed(&hot, &set), timed(&hot, &get)]
            .into_iter()
            .enumerate()
        {
            runs[at].push(figure);
        }
        for (at, figure) in c_run(&program, &scratch.options.segment, count)?.into_iter().enumerate() {
            runs[4 + at].push(figure);
        }
    }
    let [set, get, hot_set, hot_get, c_set, c_get, c_hot_set, c_hot_get, c_reply] = runs.map(median);
    Ok(vec![
        ("SET Rust ns".into(), set),
        ("SET C ns".into(), c_set),
        ("SET C / Rust".into(), c_set / set),
        ("GET Rust ns".into(), get),
        ("GET C ns".into(), c_get),
        ("GET C / Rust".into(), c_get / get),
        ("hot key SET C / Rust".into(), c_hot_set / hot_set),
        ("hot key GET Rust ns".into(), hot_get),
        ("hot key GET C ns".into(), c_hot_get),
        ("hot key GET C / Rust".into(), c_hot_get / hot_get),
        ("hot key polder_get with a reply ns".into(), c_reply),
    ])
}

/// Millions of calls a second by Python, alone and from eight processes, and by redis-py over a Unix socket to redis-server.
///
/// # Errors
/// When there is no Python with maturin and redis-py (python/test.sh makes one), or no redis-server.
pub fn python(scale: &Scale) -> Result<Figures, String> {
    let place = target_folder().join("python");
    let venv = place.join("venv/bin");
    if !venv.join("maturin").exists() {
        return Err(format!("{} is not there: python/test.sh makes it", venv.display()));
    }
    let (wheels, path) = (place.join("release"), std::env::var("PATH").unwrap_or_default());
    let path = format!("{}:{path}", venv.display());
    // What was built before must not be found.
    let _ = std::fs::remove_dir_all(&wheels);
    said(Command::new(root().join("python/build.sh")).arg(&wheels).arg("release").env("PATH", &path))?;
    let wheel = std::fs::read_dir(&wheels)
        .map_err(|error| error.to_string())?
        .flatten()
        .next()
        .ok_or("no wheel was built")?;
    let installed = place.join("release-site");
    let _ = std::fs::remove_dir_all(&installed);
    let mut install = Command::new(venv.join("pip"));
    said(
        install
            .args(["-q", "install", "--force-reinstall", "--no-deps", "--target"])
            .arg(&installed)
            .arg(wheel.path()),
    )?;

    let redis = on_path("redis-server").ok_or("redis-server is not installed")?;
    let socket = place.join(format!("redis-{}.sock", std::process::id()));
    let _server =
        Server::start(&redis, &["--port", "{port}", "--save", "", "--unixsocket", &socket.to_string_lossy()])
            .map_err(|error| error.to_string())?;
    let scratch = Scratch::with_ceiling(256 << 20);
    let seconds = (3.0 / scale.divisor as f64).max(0.2).to_string();
    let mut figures: Vec<(String, Vec<f64>)> = Vec::new();
    for _ in 0..scale.rounds {
        let mut run = Command::new(venv.join("python"));
        run.arg(root().join("python/bench/door.py"))
            .arg(&scratch.options.segment)
            .arg(&socket)
            .args([&seconds, "8"]);
        for line in said(run.env("PYTHONPATH", &installed))?.lines() {
            let Some((what, figure)) = line.split_once('\t') else { continue };
            let figure: f64 = figure.parse().map_err(|_| format!("{line} is no figure"))?;
            match figures.iter_mut().find(|(known, _)| known == what) {
                Some((_, all)) => all.push(figure),
                None => figures.push((what.into(), vec![figure])),
            }
        }
    }
    let mut medians: Figures = figures.into_iter().flat_map(|(what, all)| spread(&what, all)).collect();
    let of =
        |what: &str| medians.iter().find(|(known, _)| known == what).map_or(f64::NAN, |(_, figure)| *figure);
    let ratio = |door: &str, call: &str| {
        let over =
            of(&format!("8 processes, {door} {call} M/s")) / of(&format!("8 processes, socket {call} M/s"));
        (format!("8 processes, {door} {call} / redis-py"), over)
    };
    let ratios =
        [ratio("cache", "get"), ratio("client", "get"), ratio("cache", "set"), ratio("client", "set")];
    medians.extend(ratios);
    Ok(medians)
}
