//! Scripts against a world of echoes.
use std::borrow::Cow;
use std::sync::Arc;

use polder_base::script::{Called, Ended, Input, Program, Scripts, World};
use polder_base::{Protocol, Reply};
use polder_script::Lua;

/// Replies to a call with its arguments; `no` is refused, and `big` gets another megabyte each
/// time.
#[derive(Default)]
struct Echo {
    calls: usize,
    unwinds: bool,
    ticks: usize,
    kills: bool,
}

impl World for Echo {
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply) -> Called {
        self.calls += 1;
        if self.unwinds {
            return Called::Unwind;
        }
        if args[0] == b"no" {
            return Called::Refused("ERR no".into());
        }
        if args[0] == b"big" {
            let mut text = vec![b' '; 1 << 20];
            text[..8].copy_from_slice(&self.calls.to_le_bytes());
            reply.bulk(&text);
            return Called::Answered;
        }
        reply.array(args.len());
        args.iter().for_each(|arg| reply.bulk(arg));
        Called::Answered
    }
    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool> {
        (args[0] != b"unknown").then_some(true)
    }
    fn tick(&mut self) -> Option<Cow<'static, str>> {
        self.ticks += 1;
        self.kills.then(|| "ERR killed".into())
    }
}

/// What is written, as text.
#[derive(Default)]
struct Text(String);

impl Reply for Text {
    fn protocol(&self) -> Protocol {
        Protocol::Resp3
    }
    fn status(&mut self, text: &str) {
        self.0 += &format!("+{text} ");
    }
    fn error(&mut self, text: &str) {
        self.0 += &format!("-{text} ");
    }
    fn integer(&mut self, value: i64) {
        self.0 += &format!(":{value} ");
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.0 += &format!("{} ", String::from_utf8_lossy(bytes));
    }
    fn begin_bulk(&mut self, _len: u64) {}
    fn piece(&mut self, bytes: &[u8]) {
        self.0 += &String::from_utf8_lossy(bytes);
    }
    fn end_bulk(&mut self) {
        self.0 += " ";
    }
    fn null(&mut self) {
        self.0 += "_ ";
    }
    fn null_array(&mut self) {
        self.null();
    }
    fn array(&mut self, len: usize) {
        self.0 += &format!("*{len} ");
    }
    fn map(&mut self, pairs: usize) {
        self.0 += &format!("%{pairs} ");
    }
    fn set(&mut self, len: usize) {
        self.0 += &format!("~{len} ");
    }
    fn push(&mut self, len: usize) {
        self.array(len);
    }
    fn attribute(&mut self, _pairs: usize) {}
    fn double(&mut self, value: f64) {
        self.0 += &format!(",{value} ");
    }
    fn double_text(&mut self, text: &str) {
        self.0 += &format!(",{text} ");
    }
    fn boolean(&mut self, value: bool) {
        self.0 += &format!("#{value} ");
    }
    fn big_number(&mut self, text: &str) {
        self.0 += &format!("({text} ");
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        self.0 += &format!("={format}:{} ", String::from_utf8_lossy(text));
    }
    fn mark(&self) -> usize {
        self.0.len()
    }
    fn rewind(&mut self, mark: usize) {
        self.0.truncate(mark);
    }
}

fn run_in(lua: &Lua, world: &mut Echo, body: &str, keys: &[&[u8]], args: &[&[u8]]) -> String {
    let program = Arc::new(Program::new("sha".into(), body.as_bytes(), 0, None));
    let mut reply = Text::default();
    match lua.run(&program, &Input { keys, args, seed: 7 }, world, &mut reply) {
        Ended::Answered => reply.0.trim_end().into(),
        Ended::Failed { text, .. } => format!("-{text}"),
        Ended::Unwound => "unwound".into(),
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let lua = Lua::new("7.4.0");
    for (body, answer) in cases {
        assert_eq!(&run_in(&lua, &mut Echo::default(), body, &[b"k1"], &[b"a1", b"a2"]), answer, "{body}");
    }
}

#[test]
fn values_become_replies() {
    check(&[
        ("return {1, 2.9, 'x', true, false, {3}}", "*6 :1 :2 x :1 _ *1 :3"),
        ("return {KEYS[1], ARGV[1], ARGV[2], #KEYS, #ARGV}", "*5 k1 a1 a2 :1 :2"),
        ("return redis.call('a', 1, 2.5)", "*3 a 1 2.5"),
        ("redis.setresp(3) return {true, false}", "*2 #true #false"),
        ("return {double = 3.5}", ",3.5"),
        ("return redis.status_reply('fine')", "+fine"),
    ]);
}

#[test]
fn errors_say_where_they_came_about() {
    check(&[
        ("x = 1", "-ERR user_script:1: Attempt to modify a readonly table script: sha, on @user_script:1."),
        ("\nreturn redis.call('no')", "-ERR no script: sha, on @user_script:2."),
        ("local ok, e = pcall(redis.call, 'no') return e", "ERR no"),
        ("return redis.pcall('no')", "-ERR no"),
        (
            "return cjson.decode('[')",
            "-ERR user_script:1: Expected value but found T_END at character 2 script: sha, on @user_script:1.",
        ),
        ("return select(2, pcall(cjson.decode, '['))", "Expected value but found T_END at character 2"),
        (
            "local f = function() error('deep') end\nf()",
            "-ERR user_script:1: deep script: sha, on @user_script:1.",
        ),
    ]);
}

#[test]
fn what_all_scripts_see_cannot_be_changed() {
    let lua = Lua::new("7.4.0");
    let attempts = [
        "redis.x = 1",
        "rawset(redis, 'x', 1)",
        "setmetatable(_G, {})",
        "table.insert(string, 1)",
        "getmetatable('').x = 1",
        "KEYS = 1",
    ];
    for attempt in attempts {
        let answer = run_in(&lua, &mut Echo::default(), attempt, &[], &[]);
        assert!(answer.contains("Attempt to modify a readonly table"), "{attempt}: {answer}");
    }
    for (_, body) in [
        ("", "return next(redis) ~= nil"),
        ("", "for k in pairs(_G) do if k == 'redis' then return true end end"),
    ] {
        assert_eq!(run_in(&lua, &mut Echo::default(), body, &[], &[]), ":1");
    }
    for absent in [
        "io", "print", "dofile", "loadfile", "require", "module", "debug", "package", "setfenv", "getfenv",
        "newproxy",
    ] {
        let answer = run_in(&lua, &mut Echo::default(), &format!("return {absent}"), &[], &[]);
        assert!(answer.contains("nonexistent global variable"), "{absent}: {answer}");
    }
}

#[test]
fn what_a_script_does_to_its_keys_and_arguments_ends_with_it() {
    let lua = Lua::new("7.4.0");
    let show = "local all = {} for k, v in pairs(KEYS) do all[#all + 1] = v end for k, v in pairs(ARGV) do all[#all + 1] = v end return all";
    let changes = [
        "KEYS[2], KEYS.x, ARGV[7] = 'x', 'y', 'z' return 1",
        "KEYS[1], ARGV[1], ARGV[2] = nil, nil, nil KEYS[false] = 'x' return 1",
        "setmetatable(KEYS, { __index = function() return 'x' end }) return 1",
        "setmetatable(ARGV, { __newindex = error }) return 1",
        "table.insert(ARGV, 1, 'x') error('x')",
    ];
    for change in changes {
        for args in [&[b"a1" as &[u8], b"a2"] as &[&[u8]], &[], &[b"a1"]] {
            run_in(&lua, &mut Echo::default(), change, &[b"k1"], args);
            assert_eq!(run_in(&lua, &mut Echo::default(), show, &[b"k1"], &[b"a1"]), "*2 k1 a1", "{change}");
            assert_eq!(
                run_in(&lua, &mut Echo::default(), "return {#KEYS, #ARGV, ARGV[1] == nil}", &[], &[]),
                "*3 :0 :0 :1",
                "{change}"
            );
        }
    }
    let kept = "return {KEYS, ARGV, KEYS == ARGV}";
    assert_eq!(run_in(&lua, &mut Echo::default(), kept, &[b"k1"], &[b"a1"]), "*3 *1 k1 *1 a1 _");
}

#[test]
fn a_script_that_is_to_end_ends_whatever_it_catches() {
    let lua = Lua::new("7.4.0");
    let mut world = Echo { unwinds: true, ..Echo::default() };
    assert_eq!(run_in(&lua, &mut world, "while true do pcall(redis.call, 'x') end", &[], &[]), "unwound");
    assert_eq!(world.calls, 1);
    assert_eq!(run_in(&lua, &mut world, "while true do redis.pcall('x') end", &[], &[]), "unwound");
    let mut world = Echo { kills: true, ..Echo::default() };
    let body = "while true do pcall(function() while true do end end) end";
    assert_eq!(run_in(&lua, &mut world, body, &[], &[]), "-ERR killed script: sha, on @user_script:1.");
    assert_eq!(run_in(&lua, &mut Echo::default(), "return 1", &[], &[]), ":1");
    let mut world = Echo::default();
    assert_eq!(run_in(&lua, &mut world, "for i = 1, 1e6 do end return 1", &[], &[]), ":1");
    assert!(world.ticks > 5);
}

#[test]
fn random_numbers_follow_the_seed() {
    let lua = Lua::new("7.4.0");
    let body = "return {tostring(math.random()), math.random(10), math.random(5, 6)}";
    let first = run_in(&lua, &mut Echo::default(), body, &[], &[]);
    assert_eq!(run_in(&lua, &mut Echo::default(), body, &[], &[]), first);
    let body = "math.randomseed(7) return {tostring(math.random()), tostring(math.random()), math.random(100), math.random(5, 9)}";
    assert_eq!(
        run_in(&lua, &mut Echo::default(), body, &[], &[]),
        "*4 0.26644419658298 0.68203523041775 :27 :5"
    );
}

#[test]
fn a_long_pattern_is_refused_and_does_not_overflow_the_stack() {
    let long = "-user_script:1: pattern too complex script: sha, on @user_script:1.";
    check(&[
        (
            "return string.find(string.rep('a', 200000), string.rep('a?', 200000) .. 'b')",
            &format!("-ERR {}", &long[1..]),
        ),
        ("return string.find(string.rep('a', 9999), string.rep('a?', 9999) .. 'a')", ":1"),
        ("return {string.gsub('abc', '(b)', '%1%1')}", "*2 abbc :1"),
    ]);
}

#[test]
fn a_script_that_tries_very_many_ways_can_be_killed() {
    let lua = Lua::new("7.4.0");
    let mut world = Echo { kills: true, ..Echo::default() };
    let many = "return string.find(string.rep('a', 40), string.rep('a?', 40) .. string.rep('a', 40) .. 'b')";
    let answer =
        run_in(&lua, &mut world, &format!("pcall(function() {many} end) return 'went on'"), &[], &[]);
    assert!(answer.starts_with("-ERR killed"), "{answer}");
    assert_eq!(world.ticks, 1);
}

#[test]
fn a_script_that_took_all_memory_leaves_room_for_the_next() {
    let lua = Lua::new("7.4.0");
    lua.limit_memory(8 << 20);
    let bombs =
        ["local t = {} while true do t[#t + 1] = {} end", "local s = 'x' while true do s = s .. s end"];
    for (number, bomb) in bombs.iter().cycle().take(6).enumerate() {
        let answer = run_in(&lua, &mut Echo::default(), &format!("{bomb} -- {number}"), &[], &[]);
        assert!(answer.contains("not enough memory") && !answer.contains("compiling"), "{answer}");
        assert_eq!(
            run_in(&lua, &mut Echo::default(), &format!("return {number}"), &[], &[]),
            format!(":{number}")
        );
    }
}

#[test]
fn the_handler_of_an_error_can_be_killed() {
    for body in [
        "xpcall(function() error('x') end, function() while true do end end)",
        "xpcall(function() while true do end end, function() while true do end end)",
    ] {
        let mut world = Echo { kills: true, ..Echo::default() };
        let answer = run_in(&Lua::new("7.4.0"), &mut world, body, &[], &[]);
        assert!(answer.starts_with("-ERR killed"), "{answer}");
    }
}

#[test]
fn what_a_script_does_to_the_collector_ends_with_it() {
    check(&[
        ("return collectgarbage('setpause', 1000)", ":200"),
        ("return collectgarbage('setpause', 300)", ":200"),
        ("collectgarbage('stop') return collectgarbage('setstepmul', 1)", ":200"),
        (
            "local before = collectgarbage('count') for i = 1, 1e6 do local t = {} end return collectgarbage('count') < before + 10000 and 1 or 0",
            ":1",
        ),
    ]);
}

#[test]
fn memory_has_a_limit_and_many_arguments_are_no_end_of_the_thread() {
    let lua = Lua::new("7.4.0");
    lua.limit_memory(8 << 20);
    let answer = run_in(
        &lua,
        &mut Echo::default(),
        "local t = {} while true do t[#t + 1] = string.rep('x', 10000) .. #t end",
        &[],
        &[],
    );
    assert!(answer.contains("not enough memory"), "{answer}");
    assert_eq!(run_in(&lua, &mut Echo::default(), "return 1", &[], &[]), ":1");
    let many = "local t = {} for i = 1, 7900 do t[i] = 's' .. i end return #redis.call(unpack(t, 1, 6000))";
    assert_eq!(run_in(&lua, &mut Echo::default(), many, &[], &[]), ":6000");
    let more = "local t = {} for i = 1, 7998 do t[i] = 's' .. i end return #redis.call('a', 'b', unpack(t))";
    assert_eq!(run_in(&lua, &mut Echo::default(), more, &[], &[]), ":8000");
    assert_eq!(run_in(&lua, &mut Echo::default(), &more.replace("call", "pcall"), &[], &[]), ":8000");
    let holes =
        "local t = {} for i = 1, 7998 do t[i] = i end t[5000] = {} return redis.pcall('a', unpack(t)).err";
    assert!(run_in(&lua, &mut Echo::default(), holes, &[], &[]).contains("must be strings or integers"));
    assert_eq!(run_in(&lua, &mut Echo::default(), "return redis.call('a')", &[], &[]), "*1 a");
}

#[test]
fn replies_that_a_script_keeps_count_against_the_limit() {
    let lua = Lua::new("7.4.0");
    lua.limit_memory(8 << 20);
    let slots = "local t = {} for i = 1, 64 do t[i] = false end ";
    let keep = format!("{slots} for i = 1, 64 do t[i] = redis.call('big') end return #t");
    let mut world = Echo::default();
    for number in 0..3 {
        let answer = run_in(&lua, &mut world, &format!("{keep} -- {number}"), &[], &[]);
        assert!(answer.contains("not enough memory"), "{answer}");
        assert!(world.calls <= 8 * (number + 1), "{}", world.calls);
        assert_eq!(run_in(&lua, &mut Echo::default(), "return redis.call('a')", &[], &[]), "*1 a");
    }
    // A script that catches it goes on with the memory there is; one that keeps nothing is not
    // affected.
    let caught = format!(
        "{slots} local n = 0 for i = 1, 64 do local ok, text = pcall(redis.call, 'big') if ok then t[i] = text n = n + 1 end end return n"
    );
    let answer = run_in(&lua, &mut world, &caught, &[], &[]);
    assert!((":4"..=":7").contains(&answer.as_str()), "{answer}");
    assert_eq!(
        run_in(
            &lua,
            &mut world,
            "local n = 0 for i = 1, 64 do n = n + #redis.call('big') end return n",
            &[],
            &[]
        ),
        ":67108864"
    );
}

#[test]
fn a_script_whose_replies_are_too_much_again_and_again_can_be_killed() {
    let lua = Lua::new("7.4.0");
    lua.limit_memory(8 << 20);
    let mut world = Echo { kills: true, ..Echo::default() };
    let body = "local t = {} for i = 1, 64 do t[i] = false end for i = 1, 64 do local ok, text = pcall(redis.call, 'big') t[i] = ok and text end return 1";
    let answer = run_in(&lua, &mut world, body, &[], &[]);
    assert!(answer.starts_with("-ERR killed"), "{answer}");
    assert_eq!((world.ticks, world.calls <= 8), (1, true));
}

/// Replies in every form that there is, by the name of the call.
#[derive(Default)]
struct Forms(Vec<Vec<Vec<u8>>>);

impl World for Forms {
    fn call(&mut self, args: &[&[u8]], reply: &mut dyn Reply) -> Called {
        self.0.push(args.iter().map(|arg| arg.to_vec()).collect());
        match args[0] {
            b"integer" => reply.integer((1 << 60) + 1),
            b"one" => reply.integer(1),
            b"status" => reply.status("FINE"),
            b"ok" => reply.ok(),
            b"null" => reply.null(),
            b"no-array" => reply.null_array(),
            b"nothing" => {}
            b"text" => reply.bulk(args.get(1).unwrap_or(&&b"a1"[..])),
            b"bytes" => reply.bulk(b"\xff\x00"),
            b"double" => reply.double(2.5),
            b"double-text" => reply.double_text("3.30"),
            b"boolean" => reply.boolean(true),
            b"big" => reply.big_number("12345678901234567890"),
            b"verbatim" => reply.verbatim("txt", b"words"),
            b"error" => reply.error("WRONG way"),
            b"refused" => return Called::Refused("NO such call".into()),
            b"refused-late" => {
                reply.array(2);
                return Called::Refused("NO such call".into());
            }
            b"unwind" => return Called::Unwind,
            b"pieces" => {
                reply.begin_bulk(4);
                reply.piece(b"wo");
                reply.piece(b"rd");
                reply.end_bulk();
            }
            b"again" => {
                reply.array(2);
                reply.integer(1);
                reply.rewind(0);
                reply.status("again");
            }
            _ => {
                reply.array(10);
                reply.map(1);
                reply.bulks(b"keyvalue", &[3, 8]);
                reply.set(1);
                reply.null();
                reply.array(0);
                reply.status("OK");
                reply.error("ERR inside");
                reply.integer(i64::MAX);
                reply.boolean(false);
                reply.double(0.1);
                reply.null_array();
                reply.push(1);
                reply.bulk(b"last");
            }
        }
        Called::Answered
    }
    fn may_call(&mut self, _args: &[&[u8]]) -> Option<bool> {
        None
    }
    fn tick(&mut self) -> Option<Cow<'static, str>> {
        None
    }
}

/// What a script replies and calls.
fn run_with_forms(lua: &Lua, body: &str) -> (String, Vec<Vec<Vec<u8>>>) {
    let (mut world, mut reply) = (Forms::default(), Text::default());
    let program = Arc::new(Program::new("sha".into(), body.as_bytes(), 0, None));
    let input = Input { keys: &[b"k1", b"k2"], args: &[b"a1", b"\xfe"], seed: 7 };
    let ended = lua.run(&program, &input, &mut world, &mut reply);
    // A run that begins again takes back what has been written.
    let written = if ended == Ended::Unwound { String::new() } else { reply.0 };
    (format!("{ended:?} {written}"), world.0)
}

#[test]
fn the_simplest_scripts_do_what_lua_would_do() {
    const FORMS: [&str; 21] = [
        "integer",
        "one",
        "status",
        "ok",
        "null",
        "no-array",
        "nothing",
        "text",
        "bytes",
        "double",
        "double-text",
        "boolean",
        "big",
        "verbatim",
        "error",
        "refused",
        "refused-late",
        "unwind",
        "pieces",
        "again",
        "many",
    ];
    const SHAPES: [&str; 14] = [
        "return redis.call('FORM')",
        "redis.call('FORM')",
        "redis.call('FORM', KEYS[1], ARGV[2], 10, -3) return KEYS[2]",
        "local it = redis.call('FORM') return it",
        "if redis.call('FORM') then return 'yes' else return 'no' end",
        "if not redis.call('FORM') then return 'no' end",
        "if redis.call('FORM') == ARGV[1] then return redis.call('text', KEYS[1]) elseif redis.call('FORM') ~= 1 then return -7 end return true",
        "local it = redis.call('FORM') local same = it if it == same then redis.call('text', 'same') end return false",
        "local it = redis.call('FORM')\nif it ~= redis.call('FORM') then redis.call('text', 'differs') end",
        "return redis.call('text', redis.call('FORM'))",
        "\n\nlocal a = nil local b = redis.call('text',\nredis.call('FORM')) return b",
        "local it = 'outer' if it then local it = redis.call('FORM') redis.call('text', 'in') end return it",
        "if redis.call('FORM') == nil then return 1 elseif redis.call('FORM') == false then return 2 elseif true then return 3 end",
        "-- nothing but\nserver.call( 'FORM' ) ; return ;",
    ];
    let lua = Lua::new("7.4.0");
    for (shape, form) in SHAPES.iter().flat_map(|shape| FORMS.map(|form| (shape, form))) {
        let body = shape.replace("FORM", form);
        let by_lua = run_with_forms(&lua, &format!("local never = {{}} {body}"));
        assert_eq!(run_with_forms(&lua, &body), by_lua, "{body}");
    }
}

#[test]
fn a_reply_that_a_simple_script_keeps_counts_against_the_limit() {
    let lua = Lua::new("7.4.0");
    lua.limit_memory(1 << 19);
    let answer = run_in(&lua, &mut Echo::default(), "local it = redis.call('big') return 1", &[], &[]);
    assert_eq!(answer, "-ERR not enough memory script: sha, on @user_script:1.");
    assert_eq!(run_in(&lua, &mut Echo::default(), "redis.call('big') return 1", &[], &[]), ":1");
    assert!(run_in(&lua, &mut Echo::default(), "return redis.call('big')", &[], &[]).starts_with('\u{1}'));
}

#[test]
fn unpack_refuses_more_values_than_lua_can_hold() {
    let lua = Lua::new("7.4.0");
    let ranges = [
        "0, 2147483647",
        "1, 2147483647",
        "-2147483648, 2147483647",
        "-1, 2147483647",
        "-2147483648, 0",
        "1, 8001",
        "0, 8000",
    ];
    let takes = [
        "return {unpack({}, RANGE)}",
        "local f = unpack return f({1}, RANGE)",
        "return redis.call('a', unpack({}, RANGE))",
    ];
    for (range, body) in ranges.iter().flat_map(|range| takes.map(|body| (range, body))) {
        let answer = run_in(&lua, &mut Echo::default(), &body.replace("RANGE", range), &[], &[]);
        assert_eq!(
            answer, "-ERR user_script:1: too many results to unpack script: sha, on @user_script:1.",
            "{body} {range}"
        );
    }
    check(&[
        ("return select('#', unpack({}, 2147483640, 2147483647))", ":8"),
        ("return select('#', unpack({}, -2147483648, -2147483647))", ":2"),
        ("return select('#', unpack({}, 2147483647, -2147483648))", ":0"),
        ("return ({})[-2147483648] == nil and 1", ":1"),
    ]);
}

/// Strings of 64 bytes of which Lua's own hash, which looks at every third byte, sees the same.
fn alike_to_lua(count: usize) -> Vec<Vec<u8>> {
    let unseen: Vec<usize> = (0..64).filter(|at| (63 - at) % 3 != 0).collect();
    let alike = |number: usize| {
        let mut text = vec![b'x'; 64];
        (0..20).for_each(|bit| text[unseen[bit]] = b'a' + (number >> bit & 1) as u8);
        text
    };
    (0..count).map(alike).collect()
}

#[test]
fn strings_of_one_lua_hash_cost_no_more_than_others() {
    let lua = Lua::new("7.4.0");
    let alike = alike_to_lua(20_000);
    let others: Vec<Vec<u8>> = (0..alike.len()).map(|number| format!("{number:064}").into_bytes()).collect();
    // The strings as arguments, and as the keys of a table.
    for body in ["return #ARGV", "local t = {} for i = 1, #ARGV do t[ARGV[i]] = i end return t[ARGV[#ARGV]]"]
    {
        let took = |args: &[Vec<u8>]| {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let start = std::time::Instant::now();
            assert_eq!(run_in(&lua, &mut Echo::default(), body, &[], &args), format!(":{}", alike.len()));
            start.elapsed()
        };
        let plain = took(&others).max(std::time::Duration::from_millis(5));
        let crafted = took(&alike);
        assert!(crafted < 10 * plain, "{crafted:?} for crafted strings, {plain:?} for others: {body}");
    }
}

#[test]
fn numbers_of_one_lua_hash_cost_no_more_than_others() {
    // Lua's own hash of a number is the sum of its halves.
    let fill = "local t, sum = {}, 0 for i = 1, 20000 do t[NUMBER] = i end for i = 1, 20000 do sum = sum + t[NUMBER] end return sum";
    let crafted = "(2 ^ 52 + i * 2 ^ 32 + (20000 - i)) * 1";
    let took = |number: &str| {
        let start = std::time::Instant::now();
        assert_eq!(
            run_in(&Lua::new("7.4.0"), &mut Echo::default(), &fill.replace("NUMBER", number), &[], &[]),
            ":200010000"
        );
        start.elapsed()
    };
    let plain = took("(2 ^ 52 + i * 977)").max(std::time::Duration::from_millis(5));
    let crafted = took(crafted);
    assert!(crafted < 10 * plain, "{crafted:?} for crafted numbers, {plain:?} for others");
}

#[test]
fn small_tables_keep_the_order_of_lua() {
    let order = "local t = {} for name in ('id name price created_at tags owner'):gmatch('%S+') do t[name] = 1 end return cjson.encode(t)";
    let first = run_in(&Lua::new("7.4.0"), &mut Echo::default(), order, &[], &[]);
    assert_eq!(first, r#"{"name":1,"tags":1,"price":1,"owner":1,"created_at":1,"id":1}"#);
}

#[test]
fn compiled_code_is_never_loaded() {
    check(&[
        (
            "return select(2, loadstring(string.dump(function() return 1 end)))",
            "attempt to load a binary chunk",
        ),
        (
            "local done = false return select(2, load(function() if not done then done = true return string.dump(function() end) end end))",
            "attempt to load a binary chunk",
        ),
    ]);
}

#[test]
fn the_name_of_a_chunk_outlives_a_collection_while_it_is_read() {
    let body = "local left = 200 \
                local function read() left = left - 1 collectgarbage() return left > 0 and 'x = 1 ' or left == 0 and ']' or nil end \
                local f, wrong = load(read, 'n' .. left .. ('m'):rep(40)) return wrong";
    check(&[(body, &format!("[string \"n200{}\"]:1: unexpected symbol near ']'", "m".repeat(40)))]);
}

#[test]
fn the_text_of_an_error_is_one_line() {
    check(&[
        ("return redis.error_reply('-ERR\\r\\n-ERR FAKE')", "-ERR  -ERR FAKE"),
        ("return {err = 'ERR a\\r\\n+FAKE\\r\\n'}", "-ERR a  +FAKE"),
        ("return {{err = 'ERR a\\n+FAKE\\n'}}", "*1 -ERR a +FAKE"),
        ("error({err = 'ERR a\\n+FAKE'})", "-ERR a +FAKE script: sha, on @user_script:1."),
        ("return redis.error_reply('x\\0\\r\\n+FAKE')", "-ERR x"),
        ("return {ok = 'a\\r\\n+FAKE'}", "+a  +FAKE"),
    ]);
}
