//! A cache of slow results for all processes: one of them computes a result, and the others wait for it.
//!
//! ```text
//! shared_cache                      four processes want the same three results; each result is computed once
//! shared_cache SEGMENT              one of these processes
//! ```
use std::error::Error;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use polder_engine::{Caller, Memory, Options};

/// The result for a key, from the memory or computed here. If the computing process dies, its lock expires and another process computes.
fn cached(caller: &mut Caller, key: &str, compute: impl Fn() -> String) -> Result<String, Box<dyn Error>> {
    let (lock, channel) = (format!("{key}:lock"), format!("{key}:done"));
    loop {
        // With the lock it looks once more: another process may have finished in between.
        let locked =
            caller.show(&["SET", &lock, "1", "NX", "PX", "5000"], |reply| reply.bytes().is_some())?;
        let found = caller.show(&["GET", key], |reply| reply.bytes().map(<[u8]>::to_vec))?;
        if locked && found.is_none() {
            let result = compute();
            caller.run(&["SET", key, &result, "EX", "60"])?;
            caller.run(&["PUBLISH", &channel, ""])?;
            caller.run(&["DEL", &lock])?;
            return Ok(result);
        }
        if locked {
            caller.run(&["DEL", &lock])?;
        }
        if let Some(found) = found {
            return Ok(String::from_utf8(found)?);
        }
        // Listens first and looks again then, so that a result that comes in between is not missed.
        caller.run(&["SUBSCRIBE", &channel])?;
        if caller.show(&["EXISTS", key], |reply| reply.integer())? == Some(0) {
            caller.hear(Duration::from_millis(200), |_| ())?;
        }
        caller.run(&["UNSUBSCRIBE", &channel])?;
    }
}

fn client(segment: &str) -> Result<(), Box<dyn Error>> {
    let memory = Arc::new(Memory::attach(&Options { segment: segment.into(), ..Options::default() })?);
    let mut caller = Caller::new(&memory);
    for key in ["one", "two", "three"] {
        let result = cached(&mut caller, key, || {
            // Something slow.
            std::thread::sleep(Duration::from_millis(100));
            println!("computed");
            key.to_uppercase()
        })?;
        assert_eq!(result, key.to_uppercase());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(segment) = std::env::args().nth(1) {
        return client(&segment);
    }
    let segment = format!("shm:polder-shared-cache-{}", std::process::id());
    let client = || Command::new(std::env::current_exe()?).arg(&segment).stdout(Stdio::piped()).spawn();
    let clients = (0..4).map(|_| client()).collect::<Result<Vec<_>, _>>()?;
    let mut computed = 0;
    for client in clients {
        let output = client.wait_with_output()?;
        assert!(output.status.success());
        computed += String::from_utf8(output.stdout)?.lines().count();
    }
    Memory::remove(&segment)?;
    println!("3 results for 4 processes: {computed} computations");
    Ok(())
}
