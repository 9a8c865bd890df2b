//! What a cache does all day: keys with a time to live, eviction by use, events of keys.
use super::network::{Test, measure, report, rivals};
use super::{Figures, Scale};

const PIPELINE: u32 = 16;
const LFU: &[(&str, &str)] = &[("maxmemory", "4gb"), ("maxmemory-policy", "allkeys-lfu")];
const EVENTS: &[(&str, &str)] =
    &[("maxmemory", "0"), ("maxmemory-policy", "noeviction"), ("notify-keyspace-events", "KEA")];

/// Server CPU time at pipeline 16 of SET EX and of GET on keys with a time to live; of SET and GET under LFU, far from the limit; and of SET
/// with keyspace events on, which no client has subscribed to. A million random keys, values of 16 bytes.
///
/// # Errors
/// When a server or redis-benchmark fails.
pub fn cache(scale: &Scale) -> Result<Figures, String> {
    let (keys, requests) = (scale.of(1_000_000), scale.of(2_000_000));
    let test = |name, command: &str, settings| Test {
        name,
        words: format!(
            "-P {PIPELINE} -r {keys} {}",
            command.replace("KEY", "key:__rand_int__").replace("VALUE", "0123456789abcdef")
        ),
        requests,
        settings,
    };
    let tests = [
        test("SET EX of new keys", "SET KEY VALUE EX 10000", &[]),
        test("SET EX", "SET KEY VALUE EX 10000", &[]),
        test("GET of a key with a TTL", "GET KEY", &[]),
        test("SET over a TTL", "SET KEY VALUE", &[]),
        test("SET under LFU", "SET KEY VALUE", LFU),
        test("GET under LFU", "GET KEY", LFU),
        test("SET with keyspace events", "SET KEY VALUE", EVENTS),
        test("SET EX with keyspace events", "SET KEY VALUE EX 10000", EVENTS),
    ];
    Ok(report(&measure(&rivals(scale)?, scale, &tests)?, "cpu ns", |run| run.cpu_ns))
}
