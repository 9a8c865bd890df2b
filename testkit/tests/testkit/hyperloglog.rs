//! HyperLogLogs grown at random beside a real redis-server: the strings must be equal, byte for byte, and so must the counts.
use polder_base::Protocol;
use polder_testkit::door::{Door, InProcess, Socket};
use polder_testkit::process::{Server, on_path};
use polder_testkit::random::Random;

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// PFADD of up to 200 elements out of `range`.
fn additions(random: &mut Random, key: &str, range: usize) -> Vec<Vec<u8>> {
    let mut line = words(&["PFADD", key]);
    line.extend((0..random.below(200)).map(|_| random.below(range).to_string().into_bytes()));
    line
}

#[test]
fn the_same_additions_give_redis_bytes() {
    let Some(program) = on_path("redis-server") else { return };
    let server = Server::start_redis(&program).unwrap();
    let (mut ours, mut theirs) =
        (InProcess::new(Protocol::Resp3), Socket::new(&server.address(), Protocol::Resp3, true));
    let mut random = Random::new(20_260_711);
    for (sparse_max, range, rounds) in
        [(3000, 1000, 20), (3000, 1_000_000, 40), (100, 300, 20), (0, 300, 5), (16_000, 100_000, 60)]
    {
        ours.reset().unwrap();
        theirs.reset().unwrap();
        let mut lines = vec![words(&["CONFIG", "SET", "hll-sparse-max-bytes", &sparse_max.to_string()])];
        for round in 0..rounds {
            for key in ["one", "two"] {
                lines.push(additions(&mut random, key, range));
                lines.push(words(&["GET", key]));
            }
            match round % 4 {
                0 => lines.push(words(&["PFCOUNT", "one"])),
                1 => lines.push(words(&["PFCOUNT", "one", "two", "both"])),
                2 => lines.extend([words(&["PFMERGE", "both", "one", "two"]), words(&["GET", "both"])]),
                _ => lines.push(words(&["PFDEBUG", "GETREG", "both"])),
            }
        }
        for line in lines {
            let (mine, other) = (ours.call("a", &line).unwrap(), theirs.call("a", &line).unwrap());
            assert!(
                mine == other,
                "{sparse_max} {range}: {} {}",
                String::from_utf8_lossy(&line[0]),
                String::from_utf8_lossy(&line[1])
            );
        }
    }
}
