//! A leaderboard that any number of processes keep together, in a sorted set.
//!
//! ```text
//! leaderboard SEGMENT add PLAYER POINTS      adds points; prints the player's sum and place
//! leaderboard SEGMENT top COUNT              prints the best
//! ```
//!
//! `redis-cli` on a server of the same segment sees the same board, and so do the leaderboards of `capi/examples` and `python/examples`.
use std::error::Error;
use std::sync::Arc;

use polder_engine::{Caller, Item, Memory, Options};

const BOARD: &str = "leaderboard";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [segment, rest @ ..] = words.as_slice() else {
        return Err("leaderboard SEGMENT add PLAYER POINTS | top COUNT".into());
    };
    let memory = Arc::new(Memory::attach(&Options { segment: (*segment).into(), ..Options::default() })?);
    let mut caller = Caller::new(&memory);
    match rest {
        ["add", player, points] => add(&mut caller, player, points),
        ["top", count] => top(&mut caller, count.parse()?),
        _ => Err("leaderboard SEGMENT add PLAYER POINTS | top COUNT".into()),
    }
}

/// Adds points and looks up the place in one transaction, so that the two agree.
fn add(caller: &mut Caller, player: &str, points: &str) -> Result<(), Box<dyn Error>> {
    caller.run(&["MULTI"])?;
    caller.run(&["ZINCRBY", BOARD, points, player])?;
    caller.run(&["ZREVRANK", BOARD, player])?;
    let done = caller.run(&["EXEC"])?;
    let replies: Vec<Item<'_>> = done.item().items().into_iter().flatten().collect();
    let [Item::Double(sum), Item::Integer(place)] = replies[..] else {
        return Err(format!("{replies:?}").into());
    };
    println!("{player}: {sum} points, place {}", place + 1);
    Ok(())
}

fn top(caller: &mut Caller, count: i64) -> Result<(), Box<dyn Error>> {
    let last = (count - 1).to_string();
    let best = caller.run(&["ZREVRANGE", BOARD, "0", &last, "WITHSCORES"])?;
    for (place, pair) in best.item().items().into_iter().flatten().enumerate() {
        let pair: Vec<Item<'_>> = pair.items().into_iter().flatten().collect();
        if let [Item::Bulk(player), Item::Double(points)] = pair[..] {
            println!("{}. {} {points}", place + 1, String::from_utf8_lossy(player));
        }
    }
    Ok(())
}
