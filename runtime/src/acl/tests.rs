//! Rules, their canonical texts, and what they let pass.
use super::*;
use crate::acl::check::check_user;
use crate::acl::user::{Wrong, merged};

/// Rules behind `reset`, and the text of the user that they make, or the error; as Valkey 8.0
/// replies.
#[rustfmt::skip]
const RULES: &[(&[&str], &str)] = &[
    (&[], "off sanitize-payload resetchannels -@all"),
    (&["on"], "on sanitize-payload resetchannels -@all"),
    (&["on", ">a", ">b"], "on sanitize-payload #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb #3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d resetchannels -@all"),
    (&["on", ">b", ">a"], "on sanitize-payload #3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d #ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb resetchannels -@all"),
    (&["nopass"], "off nopass sanitize-payload resetchannels -@all"),
    (&[">a", "nopass"], "off nopass sanitize-payload resetchannels -@all"),
    (&["~*", "&*", "+@all"], "off sanitize-payload ~* &* +@all"),
    (&["+@all", "-get"], "off sanitize-payload resetchannels +@all -get"),
    (&["-get"], "off sanitize-payload resetchannels -@all -get"),
    (&["+get"], "off sanitize-payload resetchannels -@all +get"),
    (&["+get", "+set"], "off sanitize-payload resetchannels -@all +get +set"),
    (&["+set", "+get"], "off sanitize-payload resetchannels -@all +set +get"),
    (&["+get", "-get"], "off sanitize-payload resetchannels -@all -get"),
    (&["+@read"], "off sanitize-payload resetchannels -@all +@read"),
    (&["+@read", "-get"], "off sanitize-payload resetchannels -@all +@read -get"),
    (&["+@read", "-get", "+get"], "off sanitize-payload resetchannels -@all +@read +get"),
    (&["+@read", "-get", "+set", "+get"], "off sanitize-payload resetchannels -@all +@read +set +get"),
    (&["+@read", "-@write"], "off sanitize-payload resetchannels -@all +@read -@write"),
    (&["+@all", "-@dangerous", "+keys"], "off sanitize-payload resetchannels +@all -@dangerous +keys"),
    (&["+config|get"], "off sanitize-payload resetchannels -@all +config|get"),
    (&["+config|get", "+config|set"], "off sanitize-payload resetchannels -@all +config|get +config|set"),
    (&["+config|get", "+config"], "off sanitize-payload resetchannels -@all +config"),
    (&["+config", "-config|get"], "off sanitize-payload resetchannels -@all +config -config|get"),
    (&["+config", "-config|get", "+config|get"], "off sanitize-payload resetchannels -@all +config +config|get"),
    (&["-config|get"], "off sanitize-payload resetchannels -@all -config|get"),
    (&["+@all", "-config|get"], "off sanitize-payload resetchannels +@all -config|get"),
    (&["+@all", "-config|get", "-config"], "off sanitize-payload resetchannels +@all -config"),
    (&["+@all", "-@all", "+get"], "off sanitize-payload resetchannels -@all +get"),
    (&["allcommands"], "off sanitize-payload resetchannels +@all"),
    (&["nocommands"], "off sanitize-payload resetchannels -@all"),
    (&["+select|0"], "off sanitize-payload resetchannels -@all +select|0"),
    (&["+select|0", "+select|1"], "off sanitize-payload resetchannels -@all +select|0 +select|1"),
    (&["+select|0", "+select"], "off sanitize-payload resetchannels -@all +select"),
    (&["-select|0"], "'-select|0': Unknown command or category name in ACL"),
    (&["+get|foo", "+set"], "off sanitize-payload resetchannels -@all +get|foo +set"),
    (&["+nosuch"], "'+nosuch': Unknown command or category name in ACL"),
    (&["+config|nosuch"], "'+config|nosuch': Unknown command or category name in ACL"),
    (&["+config|get|x"], "'+config|get|x': Allowing first-arg of a subcommand is not supported"),
    (&["+@nosuch"], "'+@nosuch': Unknown command or category name in ACL"),
    (&["-@nosuch"], "'-@nosuch': Unknown command or category name in ACL"),
    (&["+@READ", "+GET"], "off sanitize-payload resetchannels -@all +@read +get"),
    (&["+acl|setuser", "+@admin", "-@admin", "+@admin"], "off sanitize-payload resetchannels -@all +acl|setuser +@admin"),
    (&["~a", "~b", "~a"], "off sanitize-payload ~a ~b resetchannels -@all"),
    (&["%R~a", "%W~b", "%RW~c"], "off sanitize-payload %R~a %W~b ~c resetchannels -@all"),
    (&["%R~a", "%W~a"], "off sanitize-payload ~a resetchannels -@all"),
    (&["~a", "%R~a"], "off sanitize-payload ~a resetchannels -@all"),
    (&["%R"], "off sanitize-payload %R~ resetchannels -@all"),
    (&["%RW"], "off sanitize-payload ~ resetchannels -@all"),
    (&["%R~"], "off sanitize-payload %R~ resetchannels -@all"),
    (&["~"], "off sanitize-payload ~ resetchannels -@all"),
    (&["(%R)"], "off sanitize-payload resetchannels -@all (%R~ resetchannels -@all)"),
    (&["%R~a%W~b"], "off sanitize-payload %R~a%W~b resetchannels -@all"),
    (&["%"], "'%': Syntax error"),
    (&["%R%W~a"], "'%R%W~a': Syntax error"),
    (&["%~a"], "'%~a': Syntax error"),
    (&["%X~a"], "'%X~a': Syntax error"),
    (&["%RR~a"], "'%RR~a': Syntax error"),
    (&["%rw~a"], "off sanitize-payload ~a resetchannels -@all"),
    (&["~*", "~a"], "'~a': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"),
    (&["%R~*"], "off sanitize-payload %R~* resetchannels -@all"),
    (&["%RW~*"], "off sanitize-payload ~* resetchannels -@all"),
    (&["%R~*", "~a"], "off sanitize-payload %R~* ~a resetchannels -@all"),
    (&["%RW~*", "~a"], "off sanitize-payload ~* ~a resetchannels -@all"),
    (&["~a", "%RW~*"], "off sanitize-payload ~a ~* resetchannels -@all"),
    (&["%RW~*", "%R~a"], "off sanitize-payload ~* %R~a resetchannels -@all"),
    (&["(%RW~* ~a)"], "off sanitize-payload resetchannels -@all (~* ~a resetchannels -@all)"),
    (&["%R~*", "%W~*"], "off sanitize-payload ~* resetchannels -@all"),
    (&["allkeys", "%R~a"], "'%R~a': Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns"),
    (&["allkeys", "~*"], "off sanitize-payload ~* resetchannels -@all"),
    (&["allkeys", "resetkeys", "~a"], "off sanitize-payload ~a resetchannels -@all"),
    (&["&a", "&b"], "off sanitize-payload resetchannels &a &b -@all"),
    (&["&*"], "off sanitize-payload &* -@all"),
    (&["&*", "&a"], "'&a': Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"),
    (&["allchannels", "&a"], "'&a': Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try 'resetchannels' to start with an empty list of channels"),
    (&["allchannels", "resetchannels", "&a"], "off sanitize-payload resetchannels &a -@all"),
    (&["(+get ~a)"], "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get)"),
    (&["(+get ~a", "%R~b)", "(+set ~*)"], "off sanitize-payload resetchannels -@all (~a %R~b resetchannels -@all +get) (~* resetchannels -@all +set)"),
    (&["(+get ~a)", "clearselectors"], "off sanitize-payload resetchannels -@all"),
    (&["(+get ~a"], "ERR Unmatched parenthesis in acl selector starting at '(+get ~a'."),
    (&["()"], "off sanitize-payload resetchannels -@all (resetchannels -@all)"),
    (&["( +get ~a )"], "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get)"),
    (&["(+@all allkeys &*)"], "off sanitize-payload resetchannels -@all (~* &* +@all)"),
    (&["(on)"], "'(on)': Syntax error"),
    (&["(+get ~a) (+set)"], "'(+get ~a) (+set)': Syntax error"),
    (&["(+get (+set))"], "'(+get (+set))': Syntax error"),
    (&["sanitize-payload"], "off sanitize-payload resetchannels -@all"),
    (&["skip-sanitize-payload"], "off skip-sanitize-payload resetchannels -@all"),
    (&["#e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"], "off sanitize-payload #e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 resetchannels -@all"),
    (&["#E3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"], "'#E3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
    (&["#abc"], "'#abc': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
    (&["!abc"], "'!abc': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
    (&["!e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"], "'!e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855': The password you are trying to remove from the user does not exist"),
    (&["<a"], "'<a': The password you are trying to remove from the user does not exist"),
    (&[">a", "<a"], "off sanitize-payload resetchannels -@all"),
    (&["foo"], "'foo': Syntax error"),
    (&[""], "off sanitize-payload resetchannels -@all"),
    (&["~"], "off sanitize-payload ~ resetchannels -@all"),
    (&["&"], "off sanitize-payload resetchannels & -@all"),
    (&[">"], "off sanitize-payload #e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 resetchannels -@all"),
    (&["#"], "'#': The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
    (&["+"], "'+': Unknown command or category name in ACL"),
    (&["-"], "'-': Unknown command or category name in ACL"),
    (&["("], "ERR Unmatched parenthesis in acl selector starting at '('."),
    (&[")"], "')': Syntax error"),
    (&["ON", "NOPASS", "ALLKEYS", "ALLCOMMANDS"], "on nopass sanitize-payload ~* resetchannels +@all"),
    (&["+"], "'+': Unknown command or category name in ACL"),
    (&["+@"], "'+@': Unknown command or category name in ACL"),
    (&["+|"], "'+|': Unknown command or category name in ACL"),
    (&["+get|"], "'+get|': Syntax error"),
    (&["+config|"], "'+config|': Syntax error"),
    (&["~a b"], "'~a b': Syntax error"),
    (&[r#"~a"b"#], r#"off sanitize-payload ~a"b resetchannels -@all"#),
    (&["+@all", "-@read", "+@read", "-get", "+@read"], "off sanitize-payload resetchannels +@all -get +@read"),
    (&["+@string", "-@string"], "off sanitize-payload resetchannels -@all -@string"),
    (&["+@all", "+@read"], "off sanitize-payload resetchannels +@all +@read"),
    (&["-@all", "+@read"], "off sanitize-payload resetchannels -@all +@read"),
    (&["+@hash", "+@string", "-@hash"], "off sanitize-payload resetchannels -@all +@string -@hash"),
    (&["+@hash", "+@string", "+@hash"], "off sanitize-payload resetchannels -@all +@string +@hash"),
    (&["+@write", "+@read", "-set", "+@write"], "off sanitize-payload resetchannels -@all +@read -set +@write"),
    (&["+@all", "-debug", "-debug|segfault"], "'-debug|segfault': Unknown command or category name in ACL"),
    (&["-debug", "+debug|digest"], "off sanitize-payload resetchannels -@all -debug +debug|digest"),
    (&["+@all", "-debug|digest"], "'-debug|digest': Unknown command or category name in ACL"),
    (&["+client|id", "+client|setname", "-client"], "off sanitize-payload resetchannels -@all -client"),
    (&["+client|id", "-client|id"], "off sanitize-payload resetchannels -@all -client|id"),
    (&["+client", "-client|id", "+client"], "off sanitize-payload resetchannels -@all +client"),
    (&["resetpass", ">a", "resetpass"], "off sanitize-payload resetchannels -@all"),
    (&["on", "~a", "+get", "(~b +set)", "reset"], "off sanitize-payload resetchannels -@all"),
];

fn user_of(rules: &[&str]) -> Result<User, String> {
    let mut user = User::new(b"t", 7, false);
    let rules = merged(rules).map_err(|word| {
        format!("ERR Unmatched parenthesis in acl selector starting at '{}'.", String::from_utf8_lossy(&word))
    })?;
    for rule in rules {
        user.apply(&rule, false)
            .map_err(|wrong| format!("'{}': {}", String::from_utf8_lossy(&rule), wrong.text()))?;
    }
    Ok(user)
}

#[test]
fn rules_are_written_as_valkey_writes_them() {
    for (rules, expected) in RULES {
        let text = match user_of(rules) {
            Ok(user) => String::from_utf8(user.text()).unwrap(),
            Err(why) => why,
        };
        assert_eq!(text, *expected, "{rules:?}");
    }
}

#[test]
fn a_user_is_read_back_as_it_was() {
    let odd: [&[&str]; 3] =
        [&["(~a)b +get)"], &["(~a\u{22}b +set)", "(%R~( allchannels)"], &["~(a", "&b)", "+get|x"]];
    for rules in RULES.iter().map(|(rules, _)| *rules).chain(odd) {
        if let Ok(user) = user_of(rules) {
            assert_eq!(User::read(b"t", 7, &user.stored()), user, "{rules:?}");
        }
    }
}

#[test]
fn a_user_in_a_file_is_read_back_as_it_was() {
    let odd: [&[&str]; 5] = [
        &[r#"("~\"*\"" +get)"#],
        &[r#"(~a" ~b +@all)"#],
        &["(~x) ~y) +@all)"],
        &["(~x) +@all ~'y)"],
        &[r"(~\x +@read -get &c\ +@all)"],
    ];
    for rules in RULES.iter().map(|(rules, _)| *rules).chain(odd) {
        let Ok(user) = user_of(rules) else { continue };
        let text = String::from_utf8(user.text()).unwrap();
        let line = String::from_utf8(user.line_in_file()).unwrap();
        let written: Vec<&str> = line.split(' ').skip(2).collect();
        let again = user_of(&written).unwrap_or_else(|why| panic!("{why}: {line}"));
        assert_eq!(String::from_utf8(again.text()).unwrap(), text, "{rules:?}");
        assert_eq!(again.selectors()[1..], user.selectors()[1..], "{rules:?}");
    }
}

#[test]
fn a_rule_has_no_blank_in_which_a_second_rule_could_hide() {
    for blank in [" ", "\t", "\n", "\r", "\u{b}", "\u{c}", "\0"] {
        for rule in [
            "+get|xB+@all",
            "~aB+@all",
            "%R~aB+@all",
            "&aB+@all",
            "+@readB+@all",
            "+getB+@all",
            "-getB+@all",
            "onB+@all",
        ] {
            let rule = rule.replace('B', blank);
            let mut user = User::new(b"t", 7, false);
            let before = user.clone();
            assert!(user.apply(rule.as_bytes(), false).is_err(), "{rule:?}");
            let quoted = format!("({})", polder_base::words::quote(rule.as_bytes()));
            assert!(user.apply(quoted.as_bytes(), false).is_err(), "{quoted:?}");
            assert_eq!(user, before, "{rule:?}");
        }
    }
}

#[test]
fn what_cannot_be_read_takes_more_than_it_gives() {
    let user = User::read(b"t", 7, b"on nopass ~* +@all -no-such-command");
    assert!(!user.is_free() && check_user(&user, crate::find(b"get").unwrap(), &[b"get", b"k"]).is_err());
    let user = User::read(b"t", 7, b"on nopass ~* -@all +no-such-command +get");
    assert!(check_user(&user, crate::find(b"get").unwrap(), &[b"get", b"k"]).is_ok());
}

/// Rules, a call, and what is not allowed of it.
#[rustfmt::skip]
const CALLS: &[(&[&str], &str, Option<&str>)] = &[
    (&["+get", "~a"], "get a", None),
    (&["+get", "~a"], "get b", Some("User t has no permissions to access the 'b' key")),
    (&["+get", "~a"], "set b c", Some("User t has no permissions to run the 'set' command")),
    (&["+get", "~a", "(+set ~b)"], "set b c", None),
    (&["+get", "~a", "(+set ~b)"], "get b", Some("User t has no permissions to access the 'b' key")),
    (&["+get", "~a", "(+set ~b)"], "set a c", Some("User t has no permissions to access the 'a' key")),
    (&["+config|get"], "config get x", None),
    (&["+config|get"], "config set x y", Some("User t has no permissions to run the 'config|set' command")),
    (&["+config", "-config|get"], "config get x", Some("User t has no permissions to run the 'config|get' command")),
    (&["+config", "-config|get"], "config set x y", None),
    (&["+select|1"], "select 1", None),
    (&["+select|1"], "select 2", Some("User t has no permissions to run the 'select' command")),
    (&["+select|1", "-select"], "select 1", Some("User t has no permissions to run the 'select' command")),
    (&["+debug|Object"], "debug OBJECT x", None),
    (&[], "auth x", None),
    (&[], "hello", None),
    (&[], "ping", Some("User t has no permissions to run the 'ping' command")),
    (&["+@all", "-@dangerous"], "keys *", Some("User t has no permissions to run the 'keys' command")),
    (&["+@all", "-@dangerous", "+keys"], "keys *", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "get r", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "get w", Some("User t has no permissions to access the 'w' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "set w x", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "set r x", Some("User t has no permissions to access the 'r' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "set w x get", Some("User t has no permissions to access the 'w' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "append w x", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "copy r w", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "copy w r", Some("User t has no permissions to access the 'w' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "exists w r", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "incr w", Some("User t has no permissions to access the 'w' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "mset w 1 r 2", Some("User t has no permissions to access the 'r' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "bitfield r get u8 0", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "bitfield r set u8 0 1", Some("User t has no permissions to access the 'r' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "getex r", Some("User t has no permissions to access the 'r' key")),
    (&["+@all", "%R~r", "%W~w", "~b"], "memory usage w", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "object encoding w", None),
    (&["+@all", "%R~r", "%W~w", "~b"], "rename b w", None),
    (&["+@all", "~*"], "keys *", None),
];

#[test]
fn calls_are_allowed_or_denied() {
    for (rules, call, expected) in CALLS {
        let user = user_of(rules).unwrap();
        let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        let denied =
            check_user(&user, resolve(&args).unwrap(), &args).err().map(|denied| denied.text(b"t", true));
        assert_eq!(denied.as_deref(), *expected, "{rules:?}: {call}");
    }
}

#[test]
fn a_name_of_redis_that_is_not_here_is_kept_and_another_is_refused() {
    let user = user_of(&["+@all", "-psync", "-module|load"]).unwrap();
    assert_eq!(user.text(), b"off sanitize-payload resetchannels +@all -psync -module|load");
    assert_eq!(User::new(b"t", 7, false).apply(b"-nosuch", false), Err(Wrong::Unknown));
}

#[test]
fn passwords_let_in_users_that_are_on() {
    let user = user_of(&["on", ">p", ">q"]).unwrap();
    assert!(user.admits(b"p") && user.admits(b"q") && !user.admits(b"") && !user.admits(b"pq"));
    assert!(!user_of(&[">p"]).unwrap().admits(b"p"), "off");
    assert!(user_of(&["on", "nopass"]).unwrap().admits(b"whatever"));
    assert!(!user_of(&["on"]).unwrap().admits(b""), "no password is not an empty one");
}

#[test]
fn many_rules_of_each_kind_take_linear_time() {
    const RULES: usize = 50_000;
    let begun = std::time::Instant::now();
    let mut user = User::new(b"t", 7, false);
    for number in 0..RULES {
        for rule in [
            format!("~pattern:{number}:*"),
            format!("&channel:{number}"),
            format!("+get|word:{number}"),
            format!("#{number:064x}"),
        ] {
            user.apply(rule.as_bytes(), false).unwrap();
        }
    }
    let again = User::read(b"t", 7, &user.stored());
    assert!(again == user);
    for number in 0..RULES {
        user.apply(format!("!{number:064x}").as_bytes(), false).unwrap();
    }
    user.apply(b"+get", false).unwrap();
    assert_eq!((user.hashes().count(), user.selectors()[0].commands_text()), (0, b"-@all +get".to_vec()));
    // A search from the front for each rule takes minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
}
