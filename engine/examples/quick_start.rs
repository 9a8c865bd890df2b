//! The first calls on a memory: `cargo run -p polder-engine --example quick_start [SEGMENT]`.
use polder_engine::{Memory, Options, Stop};

fn main() -> Result<(), Stop> {
    let segment = std::env::args().nth(1).unwrap_or(format!("shm:polder-quick-start-{}", std::process::id()));
    let memory = Memory::attach(&Options { segment: segment.clone(), ..Options::default() })?;
    let db = memory.database(0);
    db.set(b"greeting", b"hello")?;
    db.read(b"greeting", |value| println!("{value:?}"))?; // shown where it lies, without a copy
    db.transaction(&[b"from", b"to"], |keys| {
        // Both numbers change or neither, also if this process is killed here.
        let from = keys.number(b"from")?;
        keys.set(b"from", (from - 5).to_string().as_bytes())?;
        let to = keys.number(b"to")?;
        keys.set(b"to", (to + 5).to_string().as_bytes())
    })?;
    assert_eq!(db.get(b"to")?, Some(b"5".to_vec()));
    if std::env::args().len() == 1 {
        Memory::remove(&segment)?;
    }
    Ok(())
}
