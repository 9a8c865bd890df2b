//! A child that was forked with an attachment goes on with a seat of its own; what listened stays its parent's.
//!
//! Its own program, since only a process of one thread forks here.

use std::sync::Arc;
use std::time::Duration;

use polder_engine::{Caller, Error, Memory, Options};
use polder_shm::crash::{Child, End};

fn main() {
    let segment = format!("shm:polder-fork-{}", std::process::id());
    let options = Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() };
    let memory = Arc::new(Memory::attach(&options).expect("a segment"));
    let (mut plain, mut listener) = (Caller::new(&memory), Caller::new(&memory));
    let own_descriptor = listener.descriptor().expect("a descriptor");
    listener.run(&["SUBSCRIBE", "c"]).expect("a place");
    plain.run(&["SET", "n", "0"]).expect("room");
    let own = plain.id();
    for _ in 0..5 {
        let child = Child::of(|| {
            assert_eq!(listener.run(&["PING"]).map(drop), Err(Error::Forked));
            assert_eq!(listener.hear(Duration::ZERO, |_| {}), Err(Error::Forked));
            for _ in 0..1000 {
                plain.run(&["INCR", "n"]).expect("room");
            }
            assert_ne!(plain.id(), own);
            // It listens by itself, and hears what its parent hears as well.
            let mut fresh = Caller::new(&memory);
            fresh.descriptor().expect("a descriptor of its own");
            fresh.run(&["SUBSCRIBE", "c"]).expect("a place");
            plain.run(&["PUBLISH", "c", "from the child"]).expect("sent");
            assert_eq!(fresh.hear(Duration::from_secs(10), |_| {}), Ok(1));
            // As the destructors of a child that ends by itself.
            drop(fresh);
        });
        for _ in 0..1000 {
            plain.run(&["INCR", "n"]).expect("room");
        }
        assert_eq!(child.wait(), End::Done);
        assert_eq!(listener.hear(Duration::from_secs(10), |_| {}), Ok(1));
    }
    assert_eq!(plain.show(&["GET", "n"], |item| item.integer()), Ok(Some(10_000)));
    assert_eq!(plain.show(&["PUBLISH", "c", "m"], |item| item.integer()), Ok(Some(1)));
    drop(own_descriptor);
    Memory::remove(&segment).expect("it is there");
    println!("fork: 1 passed, 0 failed");
}
