//! Messages of PUBLISH and SPUBLISH on replicas: they come in the stream, behind what their client has written before, whatever program publishes.
use polder_testkit::logs::{World, ask, until};
use polder_testkit::process::stock_servers;
use polder_testkit::replicas::{catch_up, figure, follow};
use polder_testkit::resp::Connection;

fn listen(address: &str, command: &str, channel: &str) -> Connection {
    let mut connection = Connection::open(address).expect("a connection");
    connection.call(&[command, channel]).expect("subscribed");
    connection
}

/// The text of the next message.
fn heard(connection: &mut Connection) -> String {
    let shown = connection.receive().expect("a message").shown();
    shown.trim_end().rsplit(' ').next().expect("a word").trim_matches('"').to_owned()
}

#[test]
fn subscribers_of_a_replica_hear_what_any_program_publishes() {
    for (name, program) in stock_servers() {
        let world = World::new(&format!("messages-{name}"));
        let (server, mut first) = world.serve(&[]);
        let (_other, mut second) = world.serve(&[]);
        let (replica_server, mut replica) = follow(&program, server.port(), &[]);
        catch_up(&mut replica, &mut first);
        let mut channel = listen(&replica_server.address(), "SUBSCRIBE", "news");
        let mut pattern = listen(&replica_server.address(), "PSUBSCRIBE", "n*");
        let mut shard = listen(&replica_server.address(), "SSUBSCRIBE", "news");
        // Also one that hears here, so that the message has a receiver in the memory.
        let mut here = listen(&server.address(), "SUBSCRIBE", "news");
        let memory = std::sync::Arc::new(world.attach().expect("the memory"));
        let mut caller = polder_engine::Caller::new(&memory);
        for number in 0..30 {
            let text = number.to_string();
            let own = [["SET", "n", &text], ["PUBLISH", "news", &text]];
            match number % 5 {
                0 => own.iter().for_each(|line| drop(first.call(line).expect("a reply"))),
                1 => own.iter().for_each(|line| drop(caller.run(line).expect("a reply"))),
                2 => {
                    for line in [&["MULTI"][..], &own[0], &own[1], &["EXEC"]] {
                        second.call(line).expect("a reply");
                    }
                }
                3 => {
                    let script =
                        "redis.call('set', 'n', ARGV[1]) return redis.call('publish', 'news', ARGV[1])";
                    assert_eq!(
                        second.call(&["EVAL", script, "1", "n", &text]).expect("a reply").shown().trim_end(),
                        "(integer) 1"
                    );
                }
                // A pipeline.
                _ => {
                    own.iter().for_each(|line| first.send(line).expect("sent"));
                    own.iter().for_each(|_| drop(first.receive().expect("a reply")));
                }
            }
            assert_eq!(heard(&mut channel), text, "{name}");
            assert_eq!(
                ask(&mut replica, "GET n"),
                format!("\"{text}\""),
                "{name}: what was written before is there"
            );
            assert_eq!((heard(&mut pattern), heard(&mut here)), (text.clone(), text), "{name}");
        }
        ask(&mut second, "SPUBLISH news sharded");
        assert_eq!(heard(&mut shard), "sharded", "{name}");
        // Many in one batch, in their order.
        (0..50).for_each(|number| second.send(&["PUBLISH", "news", &number.to_string()]).expect("sent"));
        (0..50).for_each(|_| drop(second.receive().expect("a reply")));
        (0..50).for_each(|number| assert_eq!(heard(&mut channel), number.to_string(), "{name}"));
        catch_up(&mut replica, &mut first);
    }
}

#[test]
fn messages_are_in_no_log_where_no_replica_hears_them() {
    let Some((_, program)) = stock_servers().into_iter().next() else {
        return println!("no server: left out");
    };
    let world = World::new("messages-none");
    let (server, mut primary) = world.serve(&[]);
    let (mut replica_server, mut replica) = follow(&program, server.port(), &[]);
    catch_up(&mut replica, &mut primary);
    replica_server.kill();
    until("it is gone", || figure(&mut primary, "replication", "connected_slaves") == "0");
    let end = figure(&mut primary, "replication", "master_repl_offset");
    (0..10).for_each(|_| assert_eq!(ask(&mut primary, "PUBLISH news m"), "(integer) 0"));
    assert_eq!(figure(&mut primary, "replication", "master_repl_offset"), end);
}
