//! Draws the steps of a sequence from a seed.
//!
//! Times to live are far from each other and from the limits of `R`, so that a slow machine changes no reply. One of a second stands only in
//! front of a step that waits for its end.
use super::{BASE64_KEY, CHOSEN, Cas, KEYS, Loose, NEVER_TOLD, Piece, Request, Step, Way};
use crate::random::Random;

/// Sequences that run in lockstep.
pub const GROUP: usize = 100;
/// The number of groups of which one waits for what expires: it has short times to live.
const WAITING: usize = 25;
/// The number of groups of which one empties the server.
const FLUSHING: usize = 4;
/// The steps at which a waiting group waits, and the step at which a group flushes.
const WAITS: [usize; 2] = [6, 13];
const FLUSH: usize = 9;

/// Features that memcached has got since 1.6.18.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// A CAS that the client chooses (E), `x` of `md`, `N` and `s` of `ms`.
    pub is_new: bool,
}

/// The group of a sequence.
fn group_of(number: usize) -> usize {
    number / GROUP
}

/// The steps of a sequence.
pub fn sequence(seed: u64, number: usize, features: Features) -> Vec<Step> {
    let mut drawn = Drawn {
        // Streams of neighbouring seeds would be parts of each other.
        random: Random::new(Random::new(seed << 32 ^ number as u64).bits()),
        features,
        loose: [Loose::default(); KEYS],
        is_short: false,
        is_wrong: false,
    };
    let (waits, flushes) = (group_of(number) % WAITING == 3, group_of(number) % FLUSHING == 1);
    let length = 8 + drawn.random.below(18);
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < length {
        let at = steps.len();
        let pause = if waits && WAITS.contains(&at) {
            Some(Request::Wait)
        } else {
            (flushes && at == FLUSH).then_some(Request::Flush)
        };
        drawn.is_short = waits && WAITS.contains(&(at + 1));
        steps.push(match pause {
            Some(request) => Step { way: Way::Text(0), key: 0, request, loose: drawn.loose },
            None => drawn.step(),
        });
    }
    steps
}

/// The state of a sequence that is drawn.
struct Drawn {
    random: Random,
    features: Features,
    loose: [Loose; KEYS],
    /// A wait follows this step.
    is_short: bool,
    /// The line that is drawn may be wrong.
    is_wrong: bool,
}

/// A value, and whether a number in it may become shorter.
const VALUES: [(&str, bool); 12] = [
    ("x", false),
    ("value", false),
    ("", false),
    ("5", false),
    ("10", false),
    ("99", false),
    ("12345", false),
    ("18446744073709551615", true),
    ("007", true),
    ("7 ", true),
    (" 8", true),
    ("12abc", false),
];

impl Drawn {
    fn step(&mut self) -> Step {
        let key = *self.random.pick(&[0, 0, 0, 1, 1, BASE64_KEY]);
        let way = *self.random.pick(&[
            Way::Text(0),
            Way::Text(0),
            Way::Text(0),
            Way::Text(1),
            Way::Text(1),
            Way::Text(1),
            Way::Binary,
            Way::Binary,
            Way::Binary,
            Way::Udp,
        ]);
        let before = self.loose[key];
        self.is_wrong = false;
        let request = match way {
            Way::Binary => self.binary(key),
            Way::Text(_) => self.text(key),
            Way::Udp => Request::Text(self.datagram(key)),
        };
        if self.is_wrong {
            // It may have no effect.
            self.loose[key].padded |= before.padded;
            self.loose[key].counted |= before.counted;
            self.loose[key].expiry |= before.expiry;
        }
        Step { way, key, request, loose: self.loose }
    }

    fn text(&mut self, key: usize) -> Request {
        Request::Text(match self.random.below(100) {
            0..30 => self.meta_get(key, true),
            30..45 => self.meta_set(key, true),
            45..55 => self.meta_delete(key, true),
            55..63 => self.meta_count(key, true),
            63..66 => self.meta_debug(key),
            66..76 => self.get(key),
            76..88 => self.store(key, true),
            88..92 => self.count(key, true),
            92..95 => self.touch(key, true),
            95..98 => self.delete(key, true),
            // Later versions tell other errors.
            _ if self.features.is_new => self.get(key),
            _ => self.oddity(key),
        })
    }

    /// A request that has one reply.
    fn datagram(&mut self, key: usize) -> Vec<Piece> {
        match self.random.below(8) {
            0..3 => self.meta_get(key, false),
            3 => self.meta_set(key, false),
            4 => self.meta_delete(key, false),
            5 => self.meta_count(key, false),
            6 => self.store(key, false),
            _ => self.touch(key, false),
        }
    }

    /// A time to live.
    fn seconds(&mut self) -> Piece {
        if self.is_short && self.random.chance(70) {
            return bytes("1");
        }
        match self.random.below(12) {
            0..3 => bytes("0"),
            3..6 => bytes("300"),
            6..8 => bytes("1000"),
            8..10 => bytes("9000"),
            10 => Piece::Time(9_000),
            _ => bytes("-1"),
        }
    }

    fn lasting_seconds(&mut self) -> Piece {
        bytes(*self.random.pick(&["0", "300", "1000", "9000"]))
    }

    fn cas(&mut self, key: usize) -> Cas {
        match self.random.below(20) {
            0..13 => Cas::Told { key, back: 0 },
            13..15 => Cas::Told { key, back: 1 },
            15 => Cas::Told { key, back: 2 },
            16 => Cas::Told { key: (key + 1) % KEYS, back: 0 },
            17 => Cas::Number(0),
            18 if self.features.is_new => Cas::Number(*self.random.pick(&CHOSEN)),
            _ => Cas::Number(NEVER_TOLD),
        }
    }

    fn value(&mut self, key: usize) -> Vec<u8> {
        if self.random.chance(8) {
            return vec![b'l'; *self.random.pick(&[70, 200, 1_200, 5_000])];
        }
        let (value, shortens) = *self.random.pick(&VALUES);
        self.loose[key].padded |= shortens || self.loose[key].counted;
        value.into()
    }

    /// The key as a meta command names it, and the flag that says so.
    fn key(&self, key: usize, flags: &mut Vec<Vec<Piece>>) -> Piece {
        if key != BASE64_KEY {
            return Piece::Key(key);
        }
        flags.push(vec![bytes("b")]);
        Piece::Base64(key)
    }

    /// Some of these flags without a token.
    fn plain_flags(&mut self, letters: &str, percent: usize, flags: &mut Vec<Vec<Piece>>) {
        for letter in letters.chars() {
            if self.random.chance(percent) {
                flags.push(vec![bytes(letter.to_string())]);
            }
        }
    }

    /// A line: name, key, what stands behind it, and the flags in any order, now and then a wrong one.
    fn line(&mut self, name: &str, key: Piece, rest: &str, mut flags: Vec<Vec<Piece>>) -> Vec<Piece> {
        if self.random.chance(15) {
            let opaque = format!("O{}", self.random.below(10_000));
            flags.push(vec![bytes(opaque)]);
        }
        if !self.features.is_new && self.random.chance(2) {
            let wrong = *self.random.pick(&["!", "v", "Tx", "Cx", "MX", "MSET", "Fx", "Nx", "c", "Jx", "Dx"]);
            flags.push(vec![bytes(wrong)]);
            self.is_wrong = true;
        }
        let mut pieces = vec![bytes(format!("{name} ")), key, bytes(rest)];
        while !flags.is_empty() {
            let at = self.random.below(flags.len());
            pieces.push(bytes(" "));
            pieces.extend(flags.swap_remove(at));
        }
        pieces.push(bytes("\r\n"));
        pieces
    }

    fn chosen(&mut self, percent: usize, flags: &mut Vec<Vec<Piece>>) {
        if self.features.is_new && self.random.chance(percent) {
            flags.push(vec![bytes(format!("E{}", self.random.pick(&CHOSEN)))]);
        }
    }

    fn meta_get(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let mut flags = Vec::new();
        let name = self.key(key, &mut flags);
        self.plain_flags("fhklstv", 25, &mut flags);
        self.plain_flags("c", 60, &mut flags);
        self.plain_flags("u", 10, &mut flags);
        self.plain_flags(if may_be_quiet { "q" } else { "" }, 15, &mut flags);
        self.chosen(8, &mut flags);
        if self.random.chance(25) {
            let seconds = self.seconds();
            flags.push(vec![bytes("T"), seconds]);
        }
        if self.random.chance(30) {
            let seconds = self.seconds();
            flags.push(vec![bytes("N"), seconds]);
        }
        if !self.loose[key].expiry && self.random.chance(25) {
            flags.push(vec![bytes(*self.random.pick(&["R30", "R600", "R4000", "R0", "R-1"]))]);
        }
        self.line("mg", name, "", flags)
    }

    fn meta_set(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let mut flags = Vec::new();
        let name = self.key(key, &mut flags);
        let modes: &[&str] = if self.loose[key].padded {
            &["", "", "S", "E", "R", "s"]
        } else {
            &["", "", "", "S", "E", "R", "A", "P", "a", "p"]
        };
        let mode = *self.random.pick(modes);
        if !mode.is_empty() {
            flags.push(vec![bytes(format!("M{mode}"))]);
        }
        self.plain_flags("c", 60, &mut flags);
        self.plain_flags("k", 20, &mut flags);
        self.plain_flags(if self.features.is_new { "s" } else { "" }, 20, &mut flags);
        let marks = self.random.chance(20);
        flags.extend(marks.then(|| vec![bytes("I")]));
        self.plain_flags(if may_be_quiet { "q" } else { "" }, 15, &mut flags);
        if self.random.chance(40) {
            let cas = self.cas(key);
            // memcached's numbers are in an order, those of other keys and of clients among them.
            let is_own = matches!(cas, Cas::Told { key: of, .. } if of == key)
                || matches!(cas, Cas::Number(0 | NEVER_TOLD));
            let cas = if marks && !is_own { Cas::Told { key, back: 0 } } else { cas };
            flags.push(vec![bytes("C"), Piece::Cas(cas)]);
        } else if matches!(mode, "" | "S") {
            self.loose[key] = Loose::default();
        }
        self.chosen(12, &mut flags);
        if self.random.chance(30) {
            flags.push(vec![bytes(format!("F{}", self.random.pick(&["0", "5", "4294967295"])))]);
        }
        if self.random.chance(30) {
            let seconds = self.seconds();
            flags.push(vec![bytes("T"), seconds]);
        }
        if self.features.is_new && self.random.chance(15) {
            let seconds = self.seconds();
            flags.push(vec![bytes("N"), seconds]);
        }
        let value = self.value(key);
        let mut pieces = self.line("ms", name, &format!(" {}", value.len()), flags);
        pieces.extend([bytes(value), bytes("\r\n")]);
        pieces
    }

    fn meta_delete(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let mut flags = Vec::new();
        let name = self.key(key, &mut flags);
        self.plain_flags("k", 20, &mut flags);
        self.plain_flags("I", 70, &mut flags);
        self.plain_flags(if may_be_quiet { "q" } else { "" }, 15, &mut flags);
        self.chosen(8, &mut flags);
        if self.random.chance(50) {
            let cas = self.cas(key);
            flags.push(vec![bytes("C"), Piece::Cas(cas)]);
        }
        if self.random.chance(30) {
            let seconds = self.seconds();
            flags.push(vec![bytes("T"), seconds]);
        }
        self.line("md", name, "", flags)
    }

    fn meta_count(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let mut flags = Vec::new();
        let name = self.key(key, &mut flags);
        self.plain_flags("ktv", 30, &mut flags);
        self.plain_flags("c", 60, &mut flags);
        self.plain_flags(if may_be_quiet { "q" } else { "" }, 15, &mut flags);
        let mode = *self.random.pick(&["", "", "MI", "M+", "Mi", "MD", "M-", "Md"]);
        if !mode.is_empty() {
            flags.push(vec![bytes(mode)]);
        }
        let is_down = mode.ends_with(['D', '-', 'd']);
        let delta = *self.random.pick(&["", "", "D1", "D0", "D7", "D100", "D18446744073709551610"]);
        if !delta.is_empty() {
            flags.push(vec![bytes(delta)]);
        }
        self.loose[key].counted = true;
        self.loose[key].padded |= is_down || delta.len() > 5;
        if self.random.chance(25) {
            let cas = self.cas(key);
            flags.push(vec![bytes("C"), Piece::Cas(cas)]);
        }
        if self.random.chance(30) {
            let seconds = self.lasting_seconds();
            flags.push(vec![bytes("N"), seconds]);
            let initial = *self.random.pick(&["0", "9", "18446744073709551615"]);
            self.loose[key].padded |= initial.len() > 5;
            flags.push(vec![bytes(format!("J{initial}"))]);
        }
        if self.random.chance(20) {
            let seconds = self.lasting_seconds();
            self.loose[key].expiry = true;
            flags.push(vec![bytes("T"), seconds]);
        }
        self.line("ma", name, "", flags)
    }

    fn meta_debug(&mut self, key: usize) -> Vec<Piece> {
        let key = if self.features.is_new && key == BASE64_KEY { 0 } else { key };
        let mut flags = Vec::new();
        let name = self.key(key, &mut flags);
        self.line("me", name, "", flags)
    }

    fn get(&mut self, key: usize) -> Vec<Piece> {
        let name = *self.random.pick(&["get", "gets", "gets", "gat", "gats"]);
        let mut pieces = vec![bytes(format!("{name} "))];
        if name.starts_with("gat") {
            let seconds = self.seconds();
            pieces.extend([seconds, bytes(" ")]);
        }
        pieces.push(Piece::Key(key));
        if self.random.chance(25) {
            pieces.extend([bytes(" "), Piece::Key((key + 1) % KEYS)]);
        }
        pieces.push(bytes("\r\n"));
        pieces
    }

    fn no_reply(&mut self, may_be_quiet: bool) -> Piece {
        bytes(if may_be_quiet && self.random.chance(15) { " noreply\r\n" } else { "\r\n" })
    }

    fn store(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let names: &[&str] = if self.loose[key].padded {
            &["set", "add", "replace", "cas", "cas"]
        } else {
            &["set", "set", "add", "replace", "append", "prepend", "cas", "cas", "cas"]
        };
        let name = *self.random.pick(names);
        if name == "set" {
            self.loose[key] = Loose::default();
        }
        let value = self.value(key);
        let flags = *self.random.pick(&["0", "0", "7", "4294967295"]);
        let seconds = self.seconds();
        let mut pieces =
            vec![bytes(format!("{name} ")), Piece::Key(key), bytes(format!(" {flags} ")), seconds];
        pieces.push(bytes(format!(" {}", value.len())));
        if name == "cas" {
            let cas = self.cas(key);
            pieces.extend([bytes(" "), Piece::Cas(cas)]);
        }
        pieces.extend([self.no_reply(may_be_quiet), bytes(value), bytes("\r\n")]);
        pieces
    }

    fn count(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let name = *self.random.pick(&["incr", "incr", "decr"]);
        let delta = *self.random.pick(&["1", "5", "0", "1000", "18446744073709551615", "x", "-1"]);
        self.loose[key].counted = true;
        self.loose[key].padded |= name == "decr" || delta.len() > 5;
        let end = self.no_reply(may_be_quiet);
        vec![bytes(format!("{name} ")), Piece::Key(key), bytes(format!(" {delta}")), end]
    }

    fn touch(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let seconds = self.seconds();
        let end = self.no_reply(may_be_quiet);
        vec![bytes("touch "), Piece::Key(key), bytes(" "), seconds, end]
    }

    fn delete(&mut self, key: usize, may_be_quiet: bool) -> Vec<Piece> {
        let zero =
            *self.random.pick(if self.features.is_new { &["", "", " 0", ""] } else { &["", "", " 0", " 5"] });
        let end = self.no_reply(may_be_quiet);
        vec![bytes("delete "), Piece::Key(key), bytes(zero), end]
    }

    /// A line that is rare, or wrong.
    fn oddity(&mut self, key: usize) -> Vec<Piece> {
        match self.random.below(5) {
            0 => vec![bytes("verbosity 0\r\n")],
            1 => vec![bytes("ms "), Piece::Key(key), bytes(" x\r\n")],
            2 => vec![bytes("mg\r\nma\r\nmd\r\nme\r\nmx\r\n")],
            3 => vec![bytes("touch "), Piece::Key(key), bytes("\r\nincr "), Piece::Key(key), bytes("\r\n")],
            _ => vec![bytes("verbosity\r\nget\r\ngat 5\r\nnonsense\r\n")],
        }
    }

    fn binary(&mut self, key: usize) -> Request {
        use polder_wire::memcached::binary::op;
        const QUIET: u8 = op::SETQ - op::SET;
        const OPCODES: [u8; 11] = [
            op::GET,
            op::GETK,
            op::GETQ,
            op::SET,
            op::ADD,
            op::REPLACE,
            op::DELETE,
            op::INCREMENT,
            op::DECREMENT,
            op::TOUCH,
            op::GAT,
        ];
        let more: &[u8] =
            if self.loose[key].padded { &[op::GATQ] } else { &[op::GATQ, op::APPEND, op::PREPEND] };
        let opcode = *self.random.pick(&[&OPCODES[..], more].concat());
        let (mut extras, mut value) = (Vec::new(), Vec::new());
        let mut cas = if self.random.chance(40) { self.cas(key) } else { Cas::Number(0) };
        match opcode {
            op::SET | op::ADD | op::REPLACE => {
                if opcode == op::SET && cas == Cas::Number(0) {
                    self.loose[key] = Loose::default();
                }
                value = self.value(key);
                extras = [self.random.pick(&[0u32, 3, 77]).to_be_bytes(), self.binary_seconds()].concat();
            }
            op::APPEND | op::PREPEND => value = self.value(key),
            op::INCREMENT | op::DECREMENT => {
                let delta = *self.random.pick(&[1u64, 3, 100, u64::MAX]);
                self.loose[key].counted = true;
                self.loose[key].padded |= opcode == op::DECREMENT || delta == u64::MAX;
                extras = [delta, *self.random.pick(&[0u64, 50])].map(u64::to_be_bytes).concat();
                extras.extend(self.random.pick(&[0u32, 900, u32::MAX]).to_be_bytes());
            }
            op::TOUCH | op::GAT | op::GATQ => extras = self.binary_seconds().to_vec(),
            op::DELETE => {}
            _ => cas = Cas::Number(0),
        }
        let may_be_quiet = (op::SET..=op::DECREMENT).contains(&opcode);
        let quiet = if may_be_quiet && self.random.chance(15) { QUIET } else { 0 };
        Request::Binary { opcode: opcode + quiet, key, extras, value, cas }
    }

    fn binary_seconds(&mut self) -> [u8; 4] {
        if self.is_short && self.random.chance(70) {
            return 1u32.to_be_bytes();
        }
        self.random.pick(&[0u32, 0, 300, 1_000, 9_000]).to_be_bytes()
    }
}

fn bytes(text: impl Into<Vec<u8>>) -> Piece {
    Piece::Bytes(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_number_name_a_sequence() {
        let features = Features { is_new: false };
        for number in [0, 1, 301, 999] {
            assert_eq!(sequence(7, number, features), sequence(7, number, features));
        }
        assert_ne!(sequence(7, 1, features), sequence(7, 2, features));
        assert_ne!(sequence(7, 1, features), sequence(8, 1, features));
    }
}
