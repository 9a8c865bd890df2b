//! Values that are larger than what the change log and its followers take at once: replicas take them, and go on.
use polder_testkit::answer::Answer;
use polder_testkit::logs::{World, ask};
use polder_testkit::process::on_path;
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

/// Sets this many values of a size, one after another, without a word between them.
fn set_large(primary: &mut Connection, count: usize, bytes: usize) {
    let value = "0123456789abcdef".repeat(bytes / 16);
    for number in 0..count {
        primary.send(&["SET", &format!("large:{number}"), &value]).expect("sent");
        assert_eq!(primary.receive().expect("a reply"), Answer::Status("OK".into()));
    }
}

#[test]
fn values_beyond_every_limit_of_the_log_reach_a_replica() {
    let Some(program) = on_path("redis-server") else { return println!("no redis-server: left out") };
    let world = World::new("replica-large");
    let (server, mut primary) = world.serve(&["--segment-size", "3gb"]);
    let (_replica, mut replica) = follow(&program, server.port(), &[]);
    catch_up(&mut replica, &mut primary);
    for (count, bytes) in [(3, 80 << 20), (1, 270 << 20)] {
        set_large(&mut primary, count, bytes);
        // Another connection's commits stand behind them, in the same outbox.
        assert_eq!(ask(&mut primary, "SET behind 1"), "OK");
        catch_up(&mut replica, &mut primary);
        for number in 0..count {
            let (key, last) = (format!("large:{number}"), (bytes - 20).to_string());
            for line in [["STRLEN", &key, "", ""], ["GETRANGE", &key, &last, "-1"]] {
                let line: Vec<&str> = line.into_iter().filter(|word| !word.is_empty()).collect();
                assert_eq!(
                    replica.call(&line).expect("a reply"),
                    primary.call(&line).expect("a reply"),
                    "{line:?}"
                );
            }
        }
    }
    assert_eq!(figure(&mut primary, "stats", "sync_full"), "1");
    assert_eq!(figure(&mut primary, "stats", "sync_partial_ok"), "0");
    assert_eq!(figure(&mut primary, "stats", "client_output_buffer_limit_disconnections"), "0");
}
