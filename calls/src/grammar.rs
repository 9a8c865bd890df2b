//! The little language in which a command's arguments are written, and what is derived from it.
//!
//! ```text
//! key [NX|XX] [EX seconds|PX milliseconds] <LEFT|RIGHT> field value [field value ...]
//!  |     |        |                          |            |
//!  |     |        |                          |            one or more times: "..." closes an optional group
//!  |     |        alternatives are whole sequences        that repeats what stands before it
//!  |     optional                            one of, required
//!  a lower-case word is a placeholder, an upper-case word is typed as it stands
//! ```
//!
//! Some placeholders are keys (see `is_key`), and `numkeys` says how many keys follow it. From that come
//! the arity, the positions of the keys in Redis's two notations, and the arguments of `COMMAND DOCS`.
//! All of it is computed at compile time: a grammar that cannot be read does not compile.
//!
//! Never here: what a command does with its arguments. A grammar is looser than the function that reads it.

/// The most separate sources of keys in one command (GEORADIUS has three).
pub const SPECS_MAX: usize = 3;

/// Where the keys of one source begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// At this argument; the command's name is argument 0.
    Index(usize),
    /// After the first argument, from this one on, that is this word in any case.
    Keyword(&'static str, usize),
}

/// How the keys of one source go on from where they begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// To `last` (relative to the first key, or to the end when negative), every `step`-th argument; of what is left
    /// only the first 1/`limit` when `limit` is not 0.
    Range { last: isize, step: usize, limit: usize },
    /// The argument at the beginning is the number of keys, which follow it: every `step`-th argument is one.
    Numkeys { step: usize },
}

/// One source of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeySpec {
    pub begin: Begin,
    pub find: Find,
}

/// What follows from a grammar.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Arguments with the name; negative when more may follow, as Redis counts it.
    pub arity: i32,
    specs: [KeySpec; SPECS_MAX],
    specs_len: usize,
}

/// A piece of a grammar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Word,
    /// `[`
    Open,
    /// `]`
    Close,
    /// `<`
    Either,
    /// `>`
    Chosen,
    /// `|`
    Bar,
    /// `...`
    Dots,
    End,
}

/// A piece and the place of its text.
#[derive(Clone, Copy, Debug)]
struct Token {
    piece: Piece,
    start: usize,
    end: usize,
}

/// The piece at `at`, blanks skipped.
const fn next(text: &[u8], mut at: usize) -> Token {
    while at < text.len() && text[at] == b' ' {
        at += 1;
    }
    let start = at;
    if at == text.len() {
        return Token { piece: Piece::End, start, end: at };
    }
    let piece = match text[at] {
        b'[' => Piece::Open,
        b']' => Piece::Close,
        b'<' => Piece::Either,
        b'>' => Piece::Chosen,
        b'|' => Piece::Bar,
        b'.' => {
            assert!(
                at + 2 < text.len() && text[at + 1] == b'.' && text[at + 2] == b'.',
                "a lone dot in a grammar"
            );
            return Token { piece: Piece::Dots, start, end: at + 3 };
        }
        _ => {
            while at < text.len() && !matches!(text[at], b' ' | b'[' | b']' | b'<' | b'>' | b'|' | b'.') {
                at += 1;
            }
            return Token { piece: Piece::Word, start, end: at };
        }
    };
    Token { piece, start, end: at + 1 }
}

/// Whether the text of `token` is `word`.
const fn says(text: &[u8], token: Token, word: &[u8]) -> bool {
    if !matches!(token.piece, Piece::Word) || token.end - token.start != word.len() {
        return false;
    }
    let mut at = 0;
    while at < word.len() {
        if text[token.start + at] != word[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Whether two words of one grammar are the same.
const fn same(text: &[u8], one: Token, two: Token) -> bool {
    says(text, one, text.split_at(two.end).0.split_at(two.start).1)
}

/// The placeholders that stand for keys.
const KEYS: [&str; 8] = ["key", "key1", "key2", "newkey", "source", "destination", "destkey", "sourcekey"];

/// Whether a placeholder stands for a key.
const fn is_key(text: &[u8], token: Token) -> bool {
    let mut at = 0;
    while at < KEYS.len() {
        if says(text, token, KEYS[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// Whether a word is typed as it stands.
const fn is_literal(text: &[u8], token: Token) -> bool {
    matches!(token.piece, Piece::Word)
        && (text[token.start].is_ascii_uppercase() || !text[token.start].is_ascii_alphabetic())
}

/// The walk over a grammar that finds its shape.
struct Walk {
    shape: Shape,
    /// The argument that the next required word is.
    position: usize,
    /// Whether more arguments may follow the required ones.
    open: bool,
    /// The last required key word: what a group must begin with in order to repeat it.
    key: Token,
    /// Where `numkeys` stood, 0 for nowhere.
    numkeys: usize,
    /// The required literal just before, 0..0 for none.
    literal: Token,
    /// Whether the last source of keys runs to the end, so that required words behind it shorten it.
    tail: bool,
}

const NOTHING: Token = Token { piece: Piece::End, start: 0, end: 0 };

impl Shape {
    /// The shape of a command whose first argument is number `base` (1, or 2 behind a subcommand's name).
    pub const fn of(grammar: &'static str, base: usize) -> Shape {
        let text = grammar.as_bytes();
        let none = KeySpec { begin: Begin::Index(0), find: Find::Numkeys { step: 1 } };
        let shape = Shape { arity: 0, specs: [none; SPECS_MAX], specs_len: 0 };
        let mut walk = Walk {
            shape,
            position: base,
            open: false,
            key: NOTHING,
            numkeys: 0,
            literal: NOTHING,
            tail: false,
        };
        let mut at = 0;
        loop {
            let token = next(text, at);
            at = match token.piece {
                Piece::End => break,
                Piece::Word => {
                    walk.required(grammar, token);
                    token.end
                }
                Piece::Open => walk.optional(grammar, token.end),
                Piece::Either => walk.choice(text, token.end),
                Piece::Close | Piece::Chosen | Piece::Bar | Piece::Dots => {
                    panic!("this piece of a grammar needs a bracket before it")
                }
            };
        }
        walk.shape.arity = if walk.open { -(walk.position as i32) } else { walk.position as i32 };
        walk.shape
    }

    /// The sources of keys.
    pub const fn specs(&self) -> &[KeySpec] {
        self.specs.split_at(self.specs_len).0
    }

    /// Redis's older notation: first key, last key, step; zeros without fixed keys.
    pub fn legacy(&self) -> (usize, isize, usize) {
        let mut range = (0, 0, 0);
        for spec in self.specs() {
            let (Begin::Index(index), Find::Range { last, step, .. }) = (spec.begin, spec.find) else {
                continue;
            };
            let last = if last < 0 { last } else { index as isize + last };
            match range {
                (0, ..) => range = (index, last, step),
                (first, before, 1) if before + 1 == index as isize => range = (first, last, step),
                _ => {}
            }
        }
        range
    }

    /// Whether the fixed positions alone do not show all the keys.
    pub fn keys_move(&self) -> bool {
        let moves = |spec: &KeySpec| {
            matches!((spec.begin, spec.find), (Begin::Keyword(..), _) | (_, Find::Numkeys { .. }))
        };
        self.specs().iter().any(moves)
    }
}

impl Walk {
    const fn add(&mut self, begin: Begin, find: Find) {
        assert!(self.shape.specs_len < SPECS_MAX, "too many sources of keys in a grammar");
        self.shape.specs[self.shape.specs_len] = KeySpec { begin, find };
        self.shape.specs_len += 1;
    }

    /// The range of the last source, changed by `last` places, to `step` and `limit`.
    const fn extend(&mut self, to: isize, by: usize, limited: usize) {
        if let Find::Range { last, step, limit } = &mut self.shape.specs[self.shape.specs_len - 1].find {
            *last = to;
            *step = by;
            *limit = limited;
        }
    }

    const fn last(&self) -> isize {
        match self.shape.specs[self.shape.specs_len - 1].find {
            Find::Range { last, .. } => last,
            Find::Numkeys { .. } => 0,
        }
    }

    /// A required word outside all brackets.
    const fn required(&mut self, grammar: &'static str, token: Token) {
        let text = grammar.as_bytes();
        let literal = self.literal;
        self.literal = NOTHING;
        if is_literal(text, token) {
            self.literal = token;
        } else if says(text, token, b"numkeys") {
            self.numkeys = self.position;
        } else if is_key(text, token) {
            self.key = token;
            if says(text, token, b"key2") {
                self.extend(1, 1, 0);
            } else if self.numkeys != 0 {
                self.add(Begin::Index(self.numkeys), Find::Numkeys { step: 1 });
            } else if literal.end != 0 && self.open {
                self.add(
                    Begin::Keyword(word(grammar, literal), self.position - 1),
                    Find::Range { last: 0, step: 1, limit: 0 },
                );
            } else {
                self.add(Begin::Index(self.position), Find::Range { last: 0, step: 1, limit: 0 });
            }
        } else if self.tail {
            let last = self.last();
            self.extend(last - 1, 1, 0);
        }
        self.position += 1;
    }

    /// An optional group. Returns the place behind it.
    const fn optional(&mut self, grammar: &'static str, at: usize) -> usize {
        let text = grammar.as_bytes();
        let end = closing(text, at, true);
        let first = next(text, at);
        let repeats = dotted(text, at);
        if is_key(text, first) && repeats != 0 {
            self.repeated(text, first, repeats);
        } else if repeats != 0 && self.tail && self.last() == -2 {
            // A second list as long as the keys, such as the identifiers of XREAD.
            self.extend(-1, 1, 2);
        } else {
            self.alternatives(grammar, at);
        }
        self.open = true;
        end
    }

    /// A group that begins with a key and repeats: more of the keys just before, or keys of its own.
    const fn repeated(&mut self, text: &[u8], first: Token, words: usize) {
        if self.numkeys != 0 {
            if self.shape.specs_len == 0 {
                self.add(Begin::Index(self.numkeys), Find::Numkeys { step: words });
            } else if let Find::Numkeys { step } = &mut self.shape.specs[self.shape.specs_len - 1].find {
                *step = words;
            }
        } else if self.key.end != 0 && same(text, first, self.key) {
            self.extend(-1, words, 0);
            self.tail = true;
        } else {
            self.add(Begin::Index(self.position), Find::Range { last: -1, step: words, limit: 0 });
            self.tail = true;
        }
    }

    /// The keys behind literals in an optional group, as in `[STORE key|STOREDIST key]`.
    const fn alternatives(&mut self, grammar: &'static str, mut at: usize) {
        let text = grammar.as_bytes();
        loop {
            let (literal, key) = (next(text, at), next(text, next(text, at).end));
            if is_literal(text, literal) && is_key(text, key) {
                self.add(
                    Begin::Keyword(word(grammar, literal), self.position),
                    Find::Range { last: 0, step: 1, limit: 0 },
                );
            }
            loop {
                let token = next(text, at);
                at = token.end;
                match token.piece {
                    Piece::Bar => break,
                    Piece::Close => return,
                    Piece::Open => at = closing(text, at, true),
                    Piece::Either => at = closing(text, at, false),
                    Piece::End => panic!("a bracket is not closed in a grammar"),
                    Piece::Word | Piece::Dots | Piece::Chosen => {}
                }
            }
        }
    }

    /// A required choice counts as many arguments as its shortest alternative.
    const fn choice(&mut self, text: &[u8], at: usize) -> usize {
        let choice = Choice::at(text, at);
        self.open |= choice.varies;
        self.position += choice.shortest;
        self.literal = NOTHING;
        choice.end
    }
}

/// The lengths of the alternatives of a required choice.
struct Choice {
    /// Words of the shortest one.
    shortest: usize,
    /// Not all of them are that long, or each of them always.
    varies: bool,
    /// The place behind its bracket.
    end: usize,
}

impl Choice {
    /// The choice whose content starts at `at`.
    const fn at(text: &[u8], mut at: usize) -> Choice {
        let (mut words, mut shortest, mut varies) = (0, usize::MAX, false);
        loop {
            let token = next(text, at);
            at = token.end;
            match token.piece {
                Piece::Word => words += 1,
                Piece::Open => {
                    at = closing(text, at, true);
                    varies = true;
                }
                Piece::Either => {
                    let inner = Choice::at(text, at);
                    at = inner.end;
                    words += inner.shortest;
                    varies |= inner.varies;
                }
                Piece::Bar | Piece::Chosen => {
                    varies |= shortest != usize::MAX && shortest != words;
                    if words < shortest {
                        shortest = words;
                    }
                    words = 0;
                }
                _ => panic!("a choice holds words, choices and optional groups only"),
            }
            if matches!(token.piece, Piece::Chosen) {
                return Choice { shortest, varies, end: at };
            }
        }
    }
}

/// The place behind the bracket that closes the group whose content starts at `at`.
const fn closing(text: &[u8], mut at: usize, square: bool) -> usize {
    loop {
        let token = next(text, at);
        at = token.end;
        match token.piece {
            Piece::Close => {
                assert!(square, "a choice is closed by ']'");
                return at;
            }
            Piece::Chosen => {
                assert!(!square, "an optional group is closed by '>'");
                return at;
            }
            Piece::Open => at = closing(text, at, true),
            Piece::Either => at = closing(text, at, false),
            Piece::End => panic!("a bracket is not closed in a grammar"),
            Piece::Word | Piece::Bar | Piece::Dots => {}
        }
    }
}

/// How many words a group holds when it ends in dots; 0 when it does not repeat.
const fn dotted(text: &[u8], mut at: usize) -> usize {
    let mut words = 0;
    loop {
        let token = next(text, at);
        at = token.end;
        match token.piece {
            Piece::Word => words += 1,
            Piece::Dots => return words,
            Piece::Open => at = closing(text, at, true),
            Piece::Either => {
                at = closing(text, at, false);
                words += 1;
            }
            Piece::Close | Piece::Chosen | Piece::End => return 0,
            Piece::Bar => {}
        }
    }
}

/// The text of a word.
const fn word(grammar: &'static str, token: Token) -> &'static str {
    grammar.split_at(token.end).0.split_at(token.start).1
}

/// An argument as COMMAND DOCS describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    pub name: String,
    /// Redis's word: `key`, `string`, `integer`, `double`, `unix-time`, `pattern`, `pure-token`, `oneof` or `block`.
    pub kind: &'static str,
    /// What is typed before it.
    pub token: Option<&'static str>,
    pub optional: bool,
    pub multiple: bool,
    /// The alternatives of a `oneof`, the parts of a `block`.
    pub inner: Vec<Argument>,
}

/// The arguments of a grammar.
pub fn arguments(grammar: &'static str) -> Vec<Argument> {
    sequence(grammar, &mut 0).0
}

/// Arguments up to the end of the sequence, and the piece that ended it.
fn sequence(grammar: &'static str, at: &mut usize) -> (Vec<Argument>, Piece) {
    let text = grammar.as_bytes();
    let mut found: Vec<Argument> = Vec::new();
    let ended = loop {
        let token = next(text, *at);
        *at = token.end;
        match token.piece {
            Piece::Word if is_literal(text, token) => found.push(Argument::literal(word(grammar, token))),
            Piece::Word => found.push(Argument::placeholder(word(grammar, token), is_key(text, token))),
            Piece::Either => found.push(group(grammar, at).0),
            Piece::Open => {
                let (inner, repeats) = group(grammar, at);
                join(&mut found, inner, repeats);
            }
            ended => break ended,
        }
    };
    (with_tokens(found), ended)
}

/// The content of a bracket, as one argument, and whether it repeats.
fn group(grammar: &'static str, at: &mut usize) -> (Argument, bool) {
    let mut alternatives = Vec::new();
    loop {
        let (inner, ended) = sequence(grammar, at);
        alternatives.push(Argument::one(inner));
        match ended {
            Piece::Bar => {}
            Piece::Dots => {
                *at = next(grammar.as_bytes(), *at).end;
                return (Argument::choice(alternatives), true);
            }
            _ => return (Argument::choice(alternatives), false),
        }
    }
}

/// Adds an optional group to the arguments before it: they may be repeated by it.
fn join(found: &mut Vec<Argument>, mut inner: Argument, repeats: bool) {
    let parts = if inner.kind == "block" { inner.inner.clone() } else { vec![inner.clone()] };
    if repeats && found.ends_with(&parts) {
        found.truncate(found.len() - parts.len());
        inner.multiple = true;
    } else {
        inner.optional = true;
        inner.multiple |= repeats;
    }
    found.push(inner);
}

/// Gives each literal that stands before placeholders to them as their token.
fn with_tokens(flat: Vec<Argument>) -> Vec<Argument> {
    let mut found = Vec::new();
    let mut rest = flat.into_iter().peekable();
    while let Some(argument) = rest.next() {
        let mut owned = Vec::new();
        if argument.kind == "pure-token" && !argument.optional {
            let takes = |next: &Argument| next.kind != "pure-token" && !next.optional && next.token.is_none();
            owned.extend(std::iter::from_fn(|| rest.next_if(takes)));
        }
        found.push(match owned.len() {
            0 => argument,
            1 => Argument { token: argument.token, ..owned.remove(0) },
            _ => Argument { kind: "block", inner: owned, ..argument },
        });
    }
    found
}

impl Argument {
    fn new(name: String, kind: &'static str) -> Argument {
        Argument { name, kind, token: None, optional: false, multiple: false, inner: Vec::new() }
    }

    fn literal(word: &'static str) -> Argument {
        Argument { token: Some(word), ..Argument::new(word.to_ascii_lowercase(), "pure-token") }
    }

    fn placeholder(word: &'static str, key: bool) -> Argument {
        let kind = match word {
            _ if key => "key",
            "pattern" => "pattern",
            "increment-float" | "longitude" | "latitude" | "radius" | "width" | "height" | "weight"
            | "score" => "double",
            "seconds" | "milliseconds" | "count" | "index" | "offset" | "start" | "stop" | "end"
            | "numkeys" | "increment" => "integer",
            "decrement" | "db" | "destination-db" | "timeout" | "cursor" | "limit" | "len" | "rank"
            | "maxlen" | "client-id" => "integer",
            _ if word.starts_with("unix-time") => "unix-time",
            _ => "string",
        };
        Argument::new(word.into(), kind)
    }

    /// One argument for a sequence.
    fn one(mut parts: Vec<Argument>) -> Argument {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        Argument { inner: parts.clone(), ..Argument::new(joined(&parts, "_"), "block") }
    }

    /// One argument for alternatives.
    fn choice(mut alternatives: Vec<Argument>) -> Argument {
        if alternatives.len() == 1 {
            return alternatives.remove(0);
        }
        Argument { inner: alternatives.clone(), ..Argument::new(joined(&alternatives, "-"), "oneof") }
    }
}

fn joined(arguments: &[Argument], with: &str) -> String {
    arguments.iter().map(|argument| argument.name.as_str()).collect::<Vec<_>>().join(with)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(index: usize, last: isize, step: usize) -> KeySpec {
        KeySpec { begin: Begin::Index(index), find: Find::Range { last, step, limit: 0 } }
    }

    fn check(grammar: &'static str, arity: i32, specs: &[KeySpec]) {
        let shape = Shape::of(grammar, 1);
        assert_eq!((shape.arity, shape.specs()), (arity, specs), "{grammar}");
    }

    #[test]
    fn arity_and_fixed_keys_follow_from_the_words() {
        check("", 1, &[]);
        check("[message]", -1, &[]);
        check("key", 2, &[range(1, 0, 1)]);
        check("key [NX|XX] [EX seconds|PX milliseconds]", -2, &[range(1, 0, 1)]);
        check("source destination <LEFT|RIGHT> <LEFT|RIGHT>", 5, &[range(1, 0, 1), range(2, 0, 1)]);
        check("key1 key2 [LEN]", -3, &[range(1, 1, 1)]);
        check("key <BEFORE pivot|AFTER pivot> element", 5, &[range(1, 0, 1)]);
        check("key <BYRADIUS radius <M|KM>|BYBOX width height <M|KM>>", -5, &[range(1, 0, 1)]);
    }

    #[test]
    fn repeated_groups_extend_the_keys_before_them() {
        check("key [key ...]", -2, &[range(1, -1, 1)]);
        check("key value [key value ...]", -3, &[range(1, -1, 2)]);
        check("key [key ...] timeout", -3, &[range(1, -2, 1)]);
        check("operation destkey key [key ...]", -4, &[range(2, 0, 1), range(3, -1, 1)]);
        check("destkey [sourcekey ...]", -2, &[range(1, 0, 1), range(2, -1, 1)]);
    }

    #[test]
    fn counted_and_announced_keys_are_found() {
        let numkeys = |index| KeySpec { begin: Begin::Index(index), find: Find::Numkeys { step: 1 } };
        check("numkeys key [key ...] <LEFT|RIGHT> [COUNT count]", -4, &[numkeys(1)]);
        check("script numkeys [key ...] [arg ...]", -3, &[numkeys(2)]);
        check(
            "destination numkeys key [key ...] [WEIGHTS weight [weight ...]]",
            -4,
            &[range(1, 0, 1), numkeys(2)],
        );
        let pairs = KeySpec { begin: Begin::Index(1), find: Find::Numkeys { step: 2 } };
        check("numkeys key value [key value ...] [NX|XX] [EX seconds|KEEPTTL]", -4, &[pairs]);
        let streams = |from| KeySpec {
            begin: Begin::Keyword("STREAMS", from),
            find: Find::Range { last: -1, step: 1, limit: 2 },
        };
        check("[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]", -4, &[streams(1)]);
        check(
            "GROUP group consumer [COUNT count] [NOACK] STREAMS key [key ...] id [id ...]",
            -7,
            &[streams(4)],
        );
    }

    #[test]
    fn arguments_are_described_as_redis_describes_them() {
        fn shown(arguments: &[Argument]) -> String {
            let one = |a: &Argument| {
                let marks =
                    format!("{}{}", if a.optional { "?" } else { "" }, if a.multiple { "+" } else { "" });
                let inner = if a.inner.is_empty() { String::new() } else { format!("({})", shown(&a.inner)) };
                format!(
                    "{}:{}{marks}{}{inner}",
                    a.token.unwrap_or("-"),
                    a.name,
                    if a.kind == "pure-token" { "!" } else { "" }
                )
            };
            arguments.iter().map(one).collect::<Vec<_>>().join(" ")
        }
        let cases = [
            ("key", "-:key"),
            ("key [key ...]", "-:key+"),
            ("key value [key value ...]", "-:key_value+(-:key -:value)"),
            ("cursor [MATCH pattern] [REPLACE]", "-:cursor MATCH:pattern? REPLACE:replace?!"),
            (
                "key [NX|XX] [EX seconds|KEEPTTL]",
                "-:key -:nx-xx?(NX:nx! XX:xx!) -:seconds-keepttl?(EX:seconds KEEPTTL:keepttl!)",
            ),
            ("[LIMIT offset count]", "LIMIT:limit?(-:offset -:count)"),
            ("[WEIGHTS weight [weight ...]]", "WEIGHTS:weight?+"),
            ("STREAMS key [key ...] id [id ...]", "STREAMS:streams(-:key+ -:id+)"),
        ];
        for (grammar, expected) in cases {
            assert_eq!(shown(&arguments(grammar)), expected, "{grammar}");
        }
    }
}
