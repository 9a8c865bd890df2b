//! The first calls on a memory: `cargo run -p polder-engine --example quick_start [SEGMENT]`.
use polder_engine::{Memory, Options, Stop};

fn main() -> Result<(), Stop> {
    let segment = std::env::args().nth(1).unwrap_or(format!("shm:polder-quick-start-{}", std::process::id()));
    let memory = Memory::attach(&Options { segment: segment.clone(), ..Options::default() })?;
    let db = memory.database(0);
    db.set("greeting", "hello")?;
    db.read("greeting", |value| println!("{value:?}"))?; // shown where it lies, without a copy
    db.transaction(&["from", "to"], |keys| {
        // Both numbers change or neither, also if this process is killed here.
        keys.decrby("from", 5)?;
        keys.incrby("to", 5)
    })?;
    assert_eq!(db.get("to")?, Some(b"5".to_vec()));
    db.hset("user:1", &[("name", "ann"), ("city", "Oslo")])?; // every type has its calls
    if std::env::args().len() == 1 {
        Memory::remove(&segment)?;
    }
    Ok(())
}
