//! `polder cli` from scripts: repeating, standard input, pipes, errors, and what it says where there is no server.
use crate::canned::{Canned, Output, polder, run_polder, run_redis_cli};
use crate::segment::Scratch;

/// A list of arguments.
fn args(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// Runs a line against a fresh server of prepared replies, in both command lines where redis-cli is installed.
fn check(replies: &'static [&'static [u8]], line: &str, stdin: &[u8], expected: (&str, &str, i32)) {
    let server = Canned::start(replies.iter().copied());
    let args = args(&format!("-p {} {line}", server.port()));
    let ours = polder(&args, stdin);
    let (stdout, stderr, status) = expected;
    assert_eq!(ours, Output { stdout: stdout.into(), stderr: stderr.into(), status: Some(status) }, "{line}");
    if let Some(theirs) = run_redis_cli(&args, stdin) {
        assert_eq!(ours, theirs, "redis-cli {line}");
    }
}

#[test]
fn a_command_is_repeated_as_often_as_asked() {
    check(&[b":7\r\n"], "-r 3 -i 0.001 reply 0", b"", ("7\n7\n7\n", "", 0));
    check(&[b":7\r\n"], "-r 0 reply 0", b"", ("", "", 0));
}

#[test]
fn an_error_is_a_status_only_when_asked_for() {
    check(&[b"-ERR no\r\n"], "reply 0", b"", ("ERR no\n\n", "", 0));
    check(&[b"-ERR no\r\n"], "-e reply 0", b"", ("", "ERR no\n", 1));
    check(&[b"*1\r\n-ERR no\r\n"], "-e --no-raw reply 0", b"", ("1) (error) ERR no\n", "", 0));
}

#[test]
fn an_argument_comes_from_standard_input() {
    check(&[b"+zero\r\n", b"+one\r\n"], "-x reply", b"1", ("one\n", "", 0));
    check(&[b"+zero\r\n", b"+one\r\n"], "-X TAG reply TAG", b"1", ("one\n", "", 0));
    check(&[b"+zero\r\n"], "-X OTHER reply 0", b"1", ("", "Using -X option but stdin tag not match.\n", 1));
}

#[test]
fn commands_are_read_line_by_line() {
    let lines = b"reply 0\n\n  reply \"0\"\r\nreply 'unbalanced\n2 reply 0\nreply 1\nquit\nreply 0\n";
    check(&[b":1\r\n", b"-ERR no\r\n"], "", lines, ("1\n1\nInvalid argument(s)\n1\n1\nERR no\n\n", "", 0));
    check(&[b":1\r\n", b"-ERR no\r\n"], "--json", b"reply 0\nreply 1", ("1\nerror:\"ERR no\"\n", "", 0));
}

#[test]
fn a_pipe_counts_replies_and_errors() {
    let request = b"*2\r\n$5\r\nreply\r\n$1\r\n0\r\n";
    let refused = b"*2\r\n$5\r\nreply\r\n$1\r\n1\r\n";
    const REPLIES: &[&[u8]] = &[b"*2\r\n+a\r\n$2\r\nbc\r\n", b"-ERR no\r\n"];
    let summary = |errors: u32, replies: u32| {
        format!(
            "All data transferred. Waiting for the last reply...\nLast reply received from server.\nerrors: {errors}, replies: {replies}\n"
        )
    };
    check(REPLIES, "--pipe", b"", (&summary(0, 0), "", 0));
    check(REPLIES, "--pipe", &request.repeat(5000), (&summary(0, 5000), "", 0));
    check(
        REPLIES,
        "--pipe",
        &[request.as_slice(), refused, request].concat(),
        (&summary(1, 3), "ERR no\n", 1),
    );
}

#[test]
fn raw_delimiters_stand_between_and_after() {
    check(&[b"*2\r\n+a\r\n+b\r\n"], "-d , -D ; reply 0", b"", ("a,b;", "", 0));
    check(&[b"%1\r\n+a\r\n*2\r\n+b\r\n+c\r\n"], "-3 -d / reply 0", b"", ("a b/c\n", "", 0));
}

#[test]
fn quoted_arguments_are_unquoted_when_asked() {
    check(&[b"+zero\r\n"], "--quoted-input \"re\\x70ly\" 0", b"", ("zero\n", "", 0));
    let unbalanced = polder(&args("--quoted-input \"reply 0"), b"");
    assert_eq!(
        (unbalanced.stderr.as_slice(), unbalanced.status),
        (b"Invalid quoted string\n".as_slice(), Some(1))
    );
}

#[test]
fn no_server_is_a_line_that_says_so() {
    let nobody = "Could not connect to Redis at 127.0.0.1:1: Connection refused\n";
    for (line, status) in [("-p 1 ping", 1), ("-p 1 --scan", 1)] {
        let output = polder(&args(line), b"");
        assert_eq!(output, Output { stdout: vec![], stderr: nobody.into(), status: Some(status) }, "{line}");
    }
    let socket = polder(&args("-s /nonexistent ping"), b"");
    assert_eq!(socket.stderr, b"Could not connect to Redis at /nonexistent: No such file or directory\n");
    let unknown = polder(&args("--nonsense"), b"");
    assert_eq!(unknown.stderr, b"Unrecognized option or bad number of args for: '--nonsense'\n");
}

#[test]
fn a_refused_login_is_told_and_the_command_still_runs() {
    let server = Canned::start([b"+fine\r\n".as_slice()].into_iter());
    let output = polder(&args(&format!("-u redis://me:p%40ss@127.0.0.1:{}/3 reply 0", server.port())), b"");
    assert_eq!(output.stdout, b"fine\n");
    let warning =
        "Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), warning);
    let tls = polder(&args("-u rediss://127.0.0.1 ping"), b"");
    assert_eq!(tls.status, Some(1));
}

#[test]
fn a_latency_probe_prints_one_line_for_a_program() {
    let server = Canned::start([].into_iter());
    let output = polder(&args(&format!("-p {} --latency --csv -i 0.05", server.port())), b"");
    let line = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<f64> = line.trim().split(',').map(|field| field.parse().unwrap()).collect();
    assert!(fields.len() == 4 && fields[3] >= 1.0 && fields[0] <= fields[2] + 1.0, "{line}");
}

#[test]
fn keys_and_functions_are_written_to_a_file_that_is_read_again() {
    let (from, to) = (Scratch::new("rdb-from"), Scratch::new("rdb-to"));
    let file = std::env::temp_dir().join(format!("polder-cli-{}.rdb", std::process::id()));
    let path = file.to_str().unwrap();
    let cli = |segment: &Scratch, args: &[&str]| {
        let output = run_polder(&[&["cli", "--segment", segment.name()], args].concat(), b"");
        assert_eq!(output.status, Some(0), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let library = "#!lua name=lib\nredis.register_function('f', function() return 7 end)";
    cli(&from, &["set", "key", "value"]);
    cli(&from, &["function", "load", library]);
    assert!(cli(&from, &["--rdb", path]).starts_with("1 keys and the functions were written"));
    let loaded = run_polder(&["import", "--segment", to.name(), path], b"");
    assert_eq!(loaded.status, Some(0), "{loaded:?}");
    assert_eq!(cli(&to, &["get", "key"]) + &cli(&to, &["fcall", "f", "0"]), "value\n7\n");
    cli(&to, &["flushall"]);
    cli(&to, &["function", "flush"]);
    cli(&from, &["--functions-rdb", path]);
    run_polder(&["import", "--segment", to.name(), path], b"");
    assert_eq!(cli(&to, &["dbsize"]) + &cli(&to, &["fcall", "f", "0"]), "0\n7\n");
    std::fs::remove_file(&file).unwrap();
    let streamed = run_polder(&["cli", "--segment", from.name(), "--rdb", "-"], b"");
    assert!(streamed.stdout.starts_with(b"REDIS"), "{streamed:?}");
}

#[test]
fn a_password_is_read_from_standard_input_when_asked_for() {
    let server = Canned::start([b"+fine\r\n".as_slice()].into_iter());
    let output = polder(&args(&format!("-p {} --askpass reply 0", server.port())), b"secret\n");
    assert_eq!((output.stdout.as_slice(), output.status), (b"fine\n".as_slice(), Some(0)), "{output:?}");
}

#[test]
fn keys_that_are_used_much_are_found_where_the_policy_counts_them() {
    let segment = Scratch::new("hot");
    let cli = |args: &[&str]| run_polder(&[&["cli", "--segment", segment.name()], args].concat(), b"");
    cli(&["set", "hot", "1"]);
    let refused = cli(&["--hotkeys"]);
    assert!(
        refused.status == Some(1) && String::from_utf8_lossy(&refused.stderr).contains("LFU"),
        "{refused:?}"
    );
    cli(&["config", "set", "maxmemory-policy", "allkeys-lfu"]);
    let found = String::from_utf8(cli(&["--hotkeys"]).stdout).unwrap();
    assert!(found.contains("hot key found with counter: "), "{found}");
}

#[test]
fn the_machines_own_latency_needs_no_server() {
    let output = polder(&args("--intrinsic-latency 1"), b"");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Max latency so far: ") && text.contains("total runs"), "{text}");
}
