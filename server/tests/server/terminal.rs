//! The sub-protocol `term` with a terminal at the other end, which sends keys as they are typed and shows what comes.
use polder_testbase::Screen;

use crate::http::Web;
use crate::web_socket::Peer;

const PROTOCOL: &str = "Sec-WebSocket-Protocol: term\r\n";

/// A terminal: xterm.js with its add-on `attach`.
struct Terminal {
    peer: Peer,
    screen: Screen,
    columns: usize,
    asked: usize,
}

impl Terminal {
    /// The terminal of a page, which is greeted.
    fn open(web: &Web) -> Terminal {
        Terminal::with(web, "/ws", &format!("{PROTOCOL}Origin: http://localhost\r\n"), 80)
    }

    fn with(web: &Web, target: &str, fields: &str, columns: usize) -> Terminal {
        let peer = Peer::with(web, target, fields);
        Terminal { peer, screen: Screen::new(columns), columns, asked: 0 }
    }

    /// Types characters, each a message of its own.
    fn type_(&mut self, text: &str) {
        text.chars().for_each(|letter| self.peer.say(&letter.to_string()));
    }

    /// Waits until the screen's rows end with these.
    fn shows(&mut self, expected: &str) {
        while !self.screen.text().ends_with(expected) {
            let shown = || format!("{expected}\n--- is not shown by\n{}", self.screen.text());
            match self.peer.frame() {
                Some((0x81, said)) => self.screen.write(&said),
                // A sign of life is asked for where nothing has come for long.
                _ => panic!("{}", shown()),
            }
            while self.asked < self.screen.asked {
                self.asked += 1;
                self.peer.say(&format!("\x1b[1;{}R", self.columns));
            }
        }
    }

    /// The same, from the prompt on.
    fn types(&mut self, keys: &str, expected: &str) {
        self.type_(keys);
        self.shows(expected);
    }
}

#[test]
fn keys_are_echoed_and_edited_and_called_up_again() {
    let web = Web::open("");
    let mut terminal = Terminal::open(&web);
    terminal.shows("Ctrl-D closes.\npolder> |");
    terminal.types("set greeting helo\r", "polder> set greeting helo\nOK\npolder> |");
    terminal.peer.say("\x1b[A");
    terminal.shows("OK\npolder> set greeting helo|");
    terminal.peer.say("\x1b[D");
    terminal.types("l\r", "polder> set greeting hello\nOK\npolder> |");
    terminal.types("get greeting\r", "polder> get greeting\n\"hello\"\npolder> |");
    terminal.types("nope\r", "\n(error) ERR unknown command 'nope', with args beginning with:\npolder> |");
    terminal.types("get 'a\r", "a word ends with the quote that it began with\npolder> |");
    terminal.types("\r", "\npolder>\npolder> |");
    terminal.types("select 2\rmulti\r", "\npolder[2](TX)> |");
    terminal.types("incr n\r", "\npolder[2](TX)> incr n\nQUEUED\npolder[2](TX)> |");
    terminal.types("exec\r", "exec\n1) (integer) 1\npolder[2]> |");
    terminal.types("get \u{e9}\u{65e5}\r", "polder[2]> get \u{e9}\u{65e5}\n(nil)\npolder[2]> |");
    terminal.types("help get\r", "\n  group: string\npolder[2]> |");
    terminal.types("client reply off\r", "e the sub-protocol resp for it\npolder[2]> |");
    // Several lines in one message, as they are pasted.
    terminal.peer.say("\x1b[200~incr n\nincr n\r\nincr\x1b[201~");
    terminal.shows("incr n\n(integer) 2\npolder[2]> incr n\n(integer) 3\npolder[2]> incr|");
    terminal.type_("\u{3}\u{4}");
    terminal.shows("polder[2]> incr^C\npolder[2]>\n|");
    assert_eq!(terminal.peer.close_code(), Some(1000));
}

#[test]
fn replies_have_colours_and_no_controls_of_others() {
    let web = Web::open("");
    let mut peer = Peer::with(&web, "/ws?columns=100", PROTOCOL);
    let mut reply = |line: &str| {
        peer.say(&format!("{line}\r"));
        let mut said = String::new();
        while !said.contains(&format!("{line}\r\n")) || !said.ends_with("\x1b8") {
            said.push_str(&peer.hear());
        }
        let after = said.split_once(&format!("{line}\r\n")).expect("the line is shown").1.to_string();
        after.split("\r\n").next().expect("a reply").to_string()
    };
    assert_eq!(reply("set k v"), "\x1b[32mOK\x1b[0m");
    assert_eq!(reply("get k"), "\x1b[36m\"v\"\x1b[0m");
    assert_eq!(reply("strlen k"), "\x1b[33m(integer) 1\x1b[0m");
    assert_eq!(reply("get none"), "\x1b[90m(nil)\x1b[0m");
    assert!(reply("incr k").starts_with("\x1b[31m(error) ERR "));
    let evil = reply("eval \"return redis.error_reply('E \\\\27[2J')\" 0");
    assert_eq!(evil, "\x1b[31m(error) E \\x1b[2J\x1b[0m");
}

#[test]
fn tab_completes_commands_and_keys_that_the_user_may_read() {
    let web = Web::open("");
    let mut client = web.door.client();
    for key in ["own:first", "own:second", "other:x", "own:a\u{20}b"] {
        assert_eq!(client.ask_words(&["SET", key, "1"]), "+OK");
    }
    client.ask("ACL SETUSER half on >pw ~own:* +@all");
    client.ask("ACL SETUSER blind on >pw ~* +get");
    let mut terminal = Terminal::open(&web);
    terminal.shows("polder> |");
    terminal.types("getd\t", "polder> getdel |");
    terminal.types("oth\t", "polder> getdel other:x |");
    terminal.types("\u{15}get own:f\t\r", "polder> get own:first\n\"1\"\npolder> |");
    terminal.types("get own:\t", "\n\"own:a b\"   own:first   own:second\npolder> get own:|");
    terminal.types("\u{15}get \"own:a\t\r", "polder> get \"own:a b\"\n\"1\"\npolder> |");
    terminal.types("object en\t", "polder> object encoding |");
    terminal.types("own:s\t", "polder> object encoding own:second |");
    terminal.types("\u{15}set k v e\t\t", "\nex    exat\npolder> set k v ex|");
    // Inside a transaction the walk over the keys would be queued.
    terminal.types("\u{15}multi\rget oth\tx", "polder(TX)> get othx|");
    terminal.types("\u{15}discard\rauth half pw\r", "\nOK\npolder> |");
    terminal.types("get oth\tx", "polder> get othx|");
    terminal.types("\u{15}get own:f\t", "polder> get own:first |");
    terminal.types("\u{15}auth blind pw\r", "\nOK\npolder> |");
    terminal.types("get own:f\tx", "polder> get own:fx|");
}

#[test]
fn passwords_are_not_called_up_again() {
    let web = Web::open("");
    web.door.client().ask("CONFIG SET requirepass secret");
    let mut terminal = Terminal::open(&web);
    terminal.shows("polder> |");
    terminal.types("get a\r", "\n(error) NOAUTH Authentication required.\npolder> |");
    terminal.types("auth secret\r", "\nOK\npolder> |");
    terminal.peer.say("\x1b[A");
    terminal.shows("OK\npolder> get a|");
}

#[test]
fn messages_are_shown_above_the_line() {
    let web = Web::open("");
    let mut terminals: Vec<Terminal> = (0..20).map(|_| Terminal::open(&web)).collect();
    for terminal in &mut terminals {
        terminal.types("subscribe news\r", "3) (integer) 1\npolder> |");
        terminal.type_("get ab");
        terminal.peer.say("\x1b[D");
        terminal.shows("polder> get a|b");
    }
    let mut client = web.door.client();
    // From 16 clients on they share the bytes of a message.
    assert_eq!(client.ask("PUBLISH news hi"), ":20");
    for terminal in &mut terminals {
        terminal.shows("1) \"message\"\n2) \"news\"\n3) \"hi\"\npolder> get a|b");
        terminal.types("x\r", "polder> get axb\n(nil)\npolder> |");
    }
    terminals.truncate(1);
    polder_testbase::until("the others have gone", || client.ask("PUBLISH news ho") == ":1");
    terminals[0].shows("3) \"ho\"\npolder> |");
}

#[test]
fn a_call_that_waits_is_executed_once() {
    let web = Web::open("");
    let mut client = web.door.client();
    let mut terminal = Terminal::open(&web);
    terminal.shows("polder> |");
    terminal.type_("blpop queue 0\rget x");
    polder_testbase::until("it waits", || client.ask("INFO clients").contains("blocked_clients:1"));
    assert_eq!(client.ask("RPUSH queue a b"), ":2");
    terminal.shows("polder> blpop queue 0\n1) \"queue\"\n2) \"a\"\npolder> get x|");
    assert_eq!(client.ask("LLEN queue"), ":1");
}

#[test]
fn whole_lines_are_executed_until_a_key_comes() {
    let web = Web::open("");
    let mut lines = Peer::open(&web, "term");
    assert_eq!(lines.ask("SET a 1"), "OK\n");
    assert_eq!(lines.ask("GET a\r\n"), "\"1\"\n");
    let mut keys = Terminal { peer: lines, screen: Screen::new(80), columns: 80, asked: 0 };
    keys.types("incr a\r", "polder> incr a\n(integer) 2\npolder> |");
    // A whole line of a terminal is typed, too.
    keys.peer.say("incr a\r");
    keys.shows("polder> incr a\n(integer) 3\npolder> |");
    // A page is greeted, and may go on with lines.
    let mut page = Peer::with(&web, "/ws", &format!("{PROTOCOL}Origin: http://localhost\r\n"));
    assert!(page.hear().contains("polder> "));
    assert_eq!(page.ask("GET a"), "\"3\"\n");
    let mut program = Peer::with(&web, "/ws?columns=0", &format!("{PROTOCOL}Origin: http://localhost\r\n"));
    assert!(program.ask("s").starts_with("(error) ERR unknown command 's'"));
    let mut narrow = Terminal::with(&web, "/ws?columns=30", PROTOCOL, 30);
    narrow.types("set a 0123456789abcdefghijklmnop", "polder> 56789abcdefghijklmnop|");
    for target in ["/ws?columns=x", "/ws?columns=99999"] {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{PROTOCOL}\r\n"
        );
        assert_eq!(crate::http::parts(&web.raw(request.as_bytes())).0, 400, "{target}");
    }
}
