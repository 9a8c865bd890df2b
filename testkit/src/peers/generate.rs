//! Makes commands from the grammars of the rows: mostly sensible, often at a boundary, sometimes nonsense.
//!
//! The grammar is read as `calls/src/grammar.rs` describes it. A placeholder's name decides what stands there, so a
//! new command is tried without a line written here.
use polder_base::number;

use crate::random::Random;

use super::Line;

/// What a grammar consists of.
#[derive(Debug, PartialEq)]
enum Piece {
    /// A placeholder, or a word in upper case that stands for itself.
    Word(String),
    /// One of the alternatives or nothing; with dots, any number of times.
    Optional {
        choices: Vec<Vec<Piece>>,
        repeats: bool,
    },
    OneOf(Vec<Vec<Piece>>),
}

/// One command that can be generated.
pub struct Template {
    name: Vec<String>,
    pieces: Vec<Piece>,
}

impl Template {
    /// The template of a row; the name of a subcommand is `CONTAINER|NAME`.
    pub fn new(name: &str, grammar: &str) -> Template {
        let spaced = ["[", "]", "<", ">", "|", "..."]
            .iter()
            .fold(grammar.to_string(), |text, mark| text.replace(mark, &format!(" {mark} ")));
        let mut tokens = spaced.split_whitespace().collect::<Vec<_>>().into_iter().peekable();
        let pieces = sequence(&mut tokens);
        Template { name: name.split('|').map(String::from).collect(), pieces }
    }

    /// The name as it is typed, a container and its subcommand as two words.
    pub fn words(&self) -> Line {
        self.name.iter().map(|word| word.clone().into_bytes()).collect()
    }

    /// One call in which everything that the grammar lets repeat stands `times` more times; `fill`
    /// says what stands for a placeholder.
    pub fn repeated(&self, times: usize, fill: &mut dyn FnMut(&str) -> Vec<u8>) -> Line {
        let mut line = self.words();
        repeat(&self.pieces, times, fill, &mut line);
        line
    }

    /// One command.
    pub fn line(&self, random: &mut Random) -> Line {
        let mut line = self.words();
        let names = line.len();
        let mut maker = Maker {
            random,
            line: &mut line,
            keys: 0,
            keys_left: None,
            numbered: false,
            name: self.name.join(" "),
        };
        maker.sequence(&self.pieces);
        match random.below(100) {
            0..=1 if line.len() > names => {
                let at = names + random.below(line.len() - names);
                line.remove(at);
            }
            2..=3 => line.push(junk(random)),
            4..=8 if line.len() > names => {
                let at = names + random.below(line.len() - names);
                line[at] = junk(random);
            }
            _ => {}
        }
        tame_timeout(&mut line);
        line
    }
}

fn repeat(pieces: &[Piece], times: usize, fill: &mut dyn FnMut(&str) -> Vec<u8>, line: &mut Line) {
    for piece in pieces {
        match piece {
            Piece::Word(word) if matches!(&word[..], "numkeys" | "numfields") => {
                line.push((times + 1).to_string().into_bytes())
            }
            Piece::Word(word) if word.chars().any(char::is_lowercase) => line.push(fill(word)),
            Piece::Word(word) => line.push(word.clone().into_bytes()),
            Piece::OneOf(choices) => repeat(&choices[0], times, fill, line),
            Piece::Optional { choices, repeats: true } => {
                (0..times).for_each(|_| repeat(&choices[0], times, fill, line))
            }
            Piece::Optional { .. } => {}
        }
    }
}

/// Lets no call wait for long: no other client would end it.
fn tame_timeout(line: &mut Line) {
    let at = match line[0].as_slice() {
        b"BZMPOP" | b"BLMPOP" => 1,
        b"BZPOPMIN" | b"BZPOPMAX" | b"BLPOP" | b"BRPOP" | b"BLMOVE" | b"BRPOPLPUSH" => line.len() - 1,
        b"BLMOVEM" => 5,
        _ => return,
    };
    let waits_long = |text: &Vec<u8>| {
        number::double(text).is_some_and(|seconds| seconds == 0.0 || seconds > 0.05 && seconds < 1e18)
    };
    if let Some(timeout) = line.get_mut(at).filter(|timeout| waits_long(timeout)) {
        *timeout = b"0.01".to_vec();
    }
}

type Tokens<'g> = std::iter::Peekable<std::vec::IntoIter<&'g str>>;

fn sequence(tokens: &mut Tokens<'_>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while let Some(&token) = tokens.peek() {
        match token {
            "[" | "<" => {
                tokens.next();
                pieces.push(group(tokens, token == "["));
            }
            "]" | ">" | "|" | "..." => break,
            word => {
                tokens.next();
                pieces.push(Piece::Word(word.into()));
            }
        }
    }
    pieces
}

fn group(tokens: &mut Tokens<'_>, optional: bool) -> Piece {
    let mut choices = vec![sequence(tokens)];
    let mut repeats = false;
    while let Some(token) = tokens.next() {
        match token {
            "|" => choices.push(sequence(tokens)),
            "..." => repeats = true,
            _ => break,
        }
    }
    if optional { Piece::Optional { choices, repeats } } else { Piece::OneOf(choices) }
}

/// Fills one line from a grammar.
struct Maker<'m> {
    random: &'m mut Random,
    line: &'m mut Line,
    /// How many keys a `numkeys` has promised, and how many of them (or of their weights) are still to come.
    keys: usize,
    /// Members and fields get numbers, so that a collection becomes large.
    numbered: bool,
    keys_left: Option<usize>,
    name: String,
}

impl Maker<'_> {
    fn sequence(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Word(word) => self.word(word),
                Piece::OneOf(choices) => self.choice(choices),
                Piece::Optional { choices, repeats: false } => {
                    if self.random.chance(25) {
                        self.choice(choices);
                    }
                }
                Piece::Optional { choices, repeats: true } => {
                    let times = match self.keys_left.take() {
                        Some(left) => left,
                        None if grows(choices) && self.random.chance(4) => {
                            self.numbered = true;
                            let most = if self.random.chance(5) { 14 } else { 10 };
                            1 << self.random.below(most)
                        }
                        None => self.random.below(4),
                    };
                    (0..times).for_each(|_| self.choice(choices));
                    self.numbered = false;
                }
            }
        }
    }

    fn choice(&mut self, choices: &[Vec<Piece>]) {
        let chosen = self.random.below(choices.len());
        self.sequence(&choices[chosen]);
    }

    fn word(&mut self, word: &str) {
        let upper = word.chars().all(|c| !c.is_lowercase());
        let argument = match word {
            "WEIGHTS" => {
                self.keys_left = Some(self.keys.saturating_sub(1));
                b"WEIGHTS".to_vec()
            }
            // Words are known in any case.
            _ if upper && self.random.chance(20) => word.to_lowercase().into_bytes(),
            _ if upper => word.as_bytes().to_vec(),
            "numkeys" | "numfields" => {
                let keys = 1 + self.random.below(3);
                (self.keys, self.keys_left) = (keys, Some(keys - 1));
                keys.to_string().into_bytes()
            }
            _ => self.placeholder(word),
        };
        self.line.push(argument);
    }

    fn placeholder(&mut self, name: &str) -> Vec<u8> {
        match name {
            "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey" | "sourcekey" => {
                key(self.random)
            }
            "increment" | "decrement" if self.name.contains("FLOAT") => decimal(self.random),
            "encoding" => pick(
                self.random,
                &["u8", "i8", "u1", "i5", "u16", "i16", "u32", "i32", "u63", "i64", "u64", "i65", "u0", "x8"],
            ),
            "subcommand" if self.name == "PFDEBUG" => {
                pick(self.random, &["ENCODING", "DECODE", "TODENSE", "GETREG", "decode", "none"])
            }
            "operation" => pick(self.random, &["AND", "OR", "XOR", "NOT", "and"]),
            "bit" => pick(self.random, &["0", "1", "0", "1", "2"]),
            "offset" if self.name == "SETBIT" || self.name.starts_with("BITFIELD") => bit_offset(self.random),
            "offset" if self.name == "SETRANGE" => {
                pick(self.random, &["0", "1", "5", "10", "100", "9000", "-1", "536870912"])
            }
            "seconds" => pick(
                self.random,
                &["100", "1000", "86400", "0", "-1", "9223372036854775", "9223372036854775807", "1.5"],
            ),
            // A call that waits for longer holds up the test.
            "milliseconds" if self.name.starts_with("XREAD") => {
                pick(self.random, &["1", "2", "3", "-1", "x"])
            }
            "id" | "last-id" | "lastid" | "max-deleted-id" => id(self.random, self.name.starts_with("XREAD")),
            "start" | "end" if self.name.starts_with('X') => range_end(self.random),
            "threshold" => {
                if self.random.chance(50) {
                    integer(self.random)
                } else {
                    id(self.random, false)
                }
            }
            // With numbers for elements these lead to the keys of the others.
            "pattern" if self.name.starts_with("SORT") => pick(
                self.random,
                &["k*", "k*", "nosort", "#", "k*->a", "k*->f", "*", "k*->", "none*", "*k", "k1", ""],
            ),
            "index" if self.name == "LINDEX" || self.name == "LSET" => integer(self.random),
            "increment" if self.name == "ZINCRBY" => score(self.random),
            "member" | "field" | "value" | "element"
                if self.numbered && (name != "value" || self.random.chance(95)) =>
            {
                format!("{}{}", if self.random.chance(30) { "m" } else { "" }, self.random.below(4000))
                    .into_bytes()
            }
            "count" if self.name == "SPOP" => pick(self.random, &["0", "100000", "100000", "-1", "x"]),
            "count" if ["ZRANDMEMBER", "HRANDFIELD", "SRANDMEMBER"].contains(&&self.name[..]) => {
                pick(self.random, &["0", "1", "-1", "3", "100", "-9223372036854775808", "x"])
            }
            "min" | "max" | "start" | "stop" if self.name.starts_with('Z') => self.bound(),
            _ => self.placeholder_of_all(name),
        }
    }

    /// The words that mean the same in every command.
    fn placeholder_of_all(&mut self, name: &str) -> Vec<u8> {
        match name {
            "min-idle-time" => pick(self.random, &["0", "0", "0", "-1", "100000", "x"]),
            "group" => pick(self.random, &["g", "g", "h", ""]),
            "consumer" => pick(self.random, &["c", "d", "e"]),
            "milliseconds" => pick(
                self.random,
                &["100000", "86400000", "0", "-1", "9223372036854775807", "-9223372036854775808"],
            ),
            "unix-time-seconds" => pick(self.random, &["4102444800", "1", "0", "-1", "9223372036854775807"]),
            "unix-time-milliseconds" => {
                pick(self.random, &["4102444800000", "1", "0", "-1", "9223372036854775807"])
            }
            "pattern" => {
                pick(self.random, &["*", "k*", "k?", "k[1-3]", "k[^1]", "\\k1", "", "*1*", "k[", "[k-"])
            }
            "type" => pick(self.random, &["string", "hash", "list", "nothing"]),
            "cursor" => pick(self.random, &["0", "0", "x"]),
            "index" | "index1" | "index2" | "destination-db" | "db" => {
                pick(self.random, &["0", "0", "1", "2", "15", "16", "-1", "x"])
            }
            "timeout" => pick(self.random, &["0.001", "0.01", "0.003", "-1", "x", ""]),
            "score" | "weight" => score(self.random),
            "member" | "member1" | "member2" | "field" => member(self.random),
            "longitude" => degrees(self.random, 18_000, &["179.9", "-180", "180", "181", "x", "0"]),
            "latitude" => {
                degrees(self.random, 8_500, &["84.9", "-85.05112878", "85.05112878", "86", "x", "0"])
            }
            "radius" | "width" | "height" => pick(
                self.random,
                &["0", "1", "100", "200.5", "3000", "70000", "1000000", "30000000", "-1", "x"],
            ),
            _ if is_number(name) => integer(self.random),
            _ => value(self.random),
        }
    }
}

impl Maker<'_> {
    /// An end of a range of a sorted set: a rank, a score or a member, mostly as the command's name has it.
    fn bound(&mut self) -> Vec<u8> {
        const LEX: [&str; 13] = ["-", "+", "[a", "(a", "[b", "(b", "[c", "[aa", "(", "[", "a", "[m17", "(m4"];
        const SCORES: [&str; 13] =
            ["-inf", "+inf", "0", "1", "(1", "2", "(2", "(0", "2.5", "-1", "x", "500", "(505"];
        const RANKS: [&str; 10] = ["0", "-1", "1", "2", "-2", "100", "-100", "1.5", "450", "-1490"];
        let by_name = if self.name.contains("LEX") {
            0
        } else if self.name.contains("SCORE") || self.name == "ZCOUNT" {
            1
        } else {
            2
        };
        let kind = if self.random.chance(if self.name.starts_with("ZRANGE") { 40 } else { 5 }) {
            self.random.below(3)
        } else {
            by_name
        };
        pick(self.random, [&LEX[..], &SCORES, &RANKS][kind])
    }
}

/// A score: mostly one of few, so that they tie, and one that every peer prints alike.
fn score(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=9 => pick(random, &["0", "1", "2", "3"]),
        10..=14 => integer(random),
        15..=17 => pick(random, &["0.5", "-2.25", "1e3", "inf", "-inf", "1e20", "0x10", "+1", ".5"]),
        _ => decimal(random),
    }
}

/// Degrees in hundredths: of four places mostly, so that some are near each other.
fn degrees(random: &mut Random, hundredths_max: usize, edges: &[&str]) -> Vec<u8> {
    if random.chance(15) {
        return pick(random, edges);
    }
    let around = [0, 1500, 8000, hundredths_max - 100][random.below(4)];
    let spread = if random.chance(70) { 100 } else { hundredths_max - around };
    let sign = if random.chance(30) { "-" } else { "" };
    format!("{sign}{:.6}", (around + random.below(spread)) as f64 / 100.0 + random.below(1_000) as f64 / 1e6)
        .into_bytes()
}

/// A member: mostly one of few, so that they meet.
fn member(random: &mut Random) -> Vec<u8> {
    if random.chance(85) {
        pick(random, &["a", "b", "c", "d", "e", "aa", "ab", "", "m1", "m17", "m99", "m400", "m1999"])
    } else {
        value(random)
    }
}

/// Whether what is repeated are the elements of a collection.
fn grows(choices: &[Vec<Piece>]) -> bool {
    let element = |piece: &Piece| matches!(piece, Piece::Word(word) if ["member", "field", "element"].contains(&&word[..]));
    choices.iter().any(|choice| choice.iter().any(element))
}

/// An entry of a stream; few, so that commands meet each other's. `reads`: where it says what was seen last.
fn id(random: &mut Random, reads: bool) -> Vec<u8> {
    const ODD: [&str; 12] = [
        "x",
        "-",
        "+",
        "0-0",
        "5-*",
        "1-",
        "07-1",
        " 1-1",
        "1-1-1",
        "18446744073709551615-18446744073709551615",
        "",
        "2-18446744073709551615",
    ];
    match random.below(12) {
        0 => pick(random, &ODD),
        1..=4 if reads => pick(random, &[">", ">", "$", "0", "0-0"]),
        1..=3 => (1 + random.below(9)).to_string().into_bytes(),
        _ => format!("{}-{}", 1 + random.below(9), random.below(4)).into_bytes(),
    }
}

/// An end of a range of entries.
fn range_end(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0..=1 => b"-".to_vec(),
        2..=3 => b"+".to_vec(),
        4 => [&b"("[..], &id(random, false)].concat(),
        _ => id(random, false),
    }
}

fn is_number(name: &str) -> bool {
    [
        "start",
        "end",
        "stop",
        "offset",
        "count",
        "increment",
        "decrement",
        "len",
        "min-match-len",
        "samples",
        "freq",
        "idletime",
        "rank",
        "num-matches",
        "entries-read",
        "entries-added",
    ]
    .contains(&name)
}

fn pick(random: &mut Random, texts: &[&str]) -> Vec<u8> {
    random.pick(texts).as_bytes().to_vec()
}

/// Few keys, so that commands meet each other's values.
pub const KEYS: [&str; 6] = ["k1", "k2", "k3", "k4", "k5", "key with \u{0} and \u{e9}"];

fn key(random: &mut Random) -> Vec<u8> {
    if random.chance(1) { Vec::new() } else { pick(random, &KEYS) }
}

fn bit_offset(random: &mut Random) -> Vec<u8> {
    pick(
        random,
        &["0", "1", "7", "8", "9", "63", "100", "65535", "600000", "#0", "#1", "#7", "-1", "4294967296", "x"],
    )
}

fn integer(random: &mut Random) -> Vec<u8> {
    const EDGES: [&str; 10] = [
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "2147483648",
        "-0",
        "+1",
        " 1",
        "1.0",
        "",
        "0x10",
    ];
    match random.below(20) {
        0..=1 => pick(random, &EDGES),
        2 => (random.bits() as i64).to_string().into_bytes(),
        _ => (random.below(24) as i64 - 8).to_string().into_bytes(),
    }
}

fn decimal(random: &mut Random) -> Vec<u8> {
    const EDGES: [&str; 12] =
        ["inf", "-inf", "nan", "1e400", "1e5", "1.e1", ".5", "-0", "0x1p3", "1e-10", " 1", ""];
    match random.below(10) {
        0 => pick(random, &EDGES),
        1..=4 => integer(random),
        _ => format!("{}.{}", random.below(200) as i64 - 100, random.below(1000)).into_bytes(),
    }
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(20) {
        0..=5 => integer(random),
        6..=8 => decimal(random),
        9 => Vec::new(),
        10 => vec![b'a' + random.below(26) as u8; 30 + random.below(60)],
        11 if random.chance(20) => vec![b'a' + random.below(26) as u8; 7_000 + random.below(100_000)],
        12..=13 => (0..random.below(12)).map(|_| random.bits() as u8).collect(),
        _ => (0..1 + random.below(10)).map(|_| b'a' + random.below(4) as u8).collect(),
    }
}

fn junk(random: &mut Random) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "NX",
        "XX",
        "GET",
        "EX",
        "KEEPTTL",
        "COUNT",
        "MATCH",
        "BIT",
        "junk",
        "-1",
        "",
        "99999999999999999999",
    ];
    if random.chance(70) { pick(random, &WORDS) } else { value(random) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Piece {
        Piece::Word(text.into())
    }

    #[test]
    fn grammars_are_read_into_their_pieces() {
        let template = Template::new("SET", "key value [NX|XX] <EX seconds|KEEPTTL> [field value ...]");
        let expected = vec![
            word("key"),
            word("value"),
            Piece::Optional { choices: vec![vec![word("NX")], vec![word("XX")]], repeats: false },
            Piece::OneOf(vec![vec![word("EX"), word("seconds")], vec![word("KEEPTTL")]]),
            Piece::Optional { choices: vec![vec![word("field"), word("value")]], repeats: true },
        ];
        assert_eq!(template.pieces, expected);
    }

    #[test]
    fn a_seed_repeats_its_lines_and_names_stay_whole() {
        let template = Template::new("OBJECT|FREQ", "key");
        let lines = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| template.line(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(lines(3), lines(3));
        assert!(lines(4).iter().all(|line| line[0] == b"OBJECT" && line[1] == b"FREQ"));
    }

    #[test]
    fn as_many_keys_follow_as_numkeys_says() {
        let template = Template::new("X", "numkeys key [key ...]");
        let mut random = Random::new(1);
        let fitting = (0..200)
            .map(|_| template.line(&mut random))
            .filter(|line| line[1] == (line.len() - 2).to_string().as_bytes());
        assert!(fitting.count() > 170);
    }
}
