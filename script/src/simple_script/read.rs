//! Reads what a [`Straight`] is from a script that Lua has compiled, so that nothing here is wrong and nothing nested too deep; what is
//! not known here is left to Lua, as a whole.

use super::{Condition, Invocation, Operand, Step, Straight};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'t> {
    Word(&'t [u8]),
    Number(f64),
    Text(&'t [u8]),
    Mark(u8),
    /// `==` and `~=`
    Same,
    Differs,
    End,
    /// Lua's.
    Other,
}

/// What no local variable may be called.
const GLOBALS: [&[u8]; 4] = [b"redis", b"server", b"KEYS", b"ARGV"];
/// Whole numbers of up to this many digits are exact as doubles.
const DIGITS_MAX: usize = 15;

struct Reader<'t> {
    text: &'t [u8],
    /// Behind the token, which ends in this line.
    at: usize,
    line: u32,
    token: Token<'t>,
    /// The local variables in scope.
    names: Vec<&'t [u8]>,
    keys: usize,
    args: usize,
}

/// The longest script that is looked at, in bytes.
const TEXT_MAX: usize = 8 << 10;

impl Straight {
    /// What a valid script does, if it is simple enough.
    pub fn of(text: &[u8]) -> Option<Straight> {
        // How Lua counts such lines is its own affair. Long ones may make many calls: Lua looks at the world between them.
        if text.contains(&b'\r') || text.len() > TEXT_MAX {
            return None;
        }
        let mut reader =
            Reader { text, at: 0, line: 1, token: Token::Mark(b';'), names: Vec::new(), keys: 0, args: 0 };
        reader.advance();
        let steps = reader.block()?;
        (reader.token == Token::End).then_some(Straight { steps, keys: reader.keys, args: reader.args })
    }
}

impl<'t> Reader<'t> {
    /// Goes on to the next token, but not behind one that is Lua's.
    fn advance(&mut self) -> Token<'t> {
        if self.token == Token::Other {
            return Token::Other;
        }
        self.skip();
        let (token, len) = token(&self.text[self.at..]);
        self.at += len;
        std::mem::replace(&mut self.token, token)
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        while let Some(byte) = self.text.get(self.at) {
            let rest = &self.text[self.at..];
            match byte {
                b'\n' => self.line += 1,
                b' ' | b'\t' | 0x0b | 0x0c => {}
                b'-' if rest.starts_with(b"--") && !rest.starts_with(b"--[") => {
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    continue;
                }
                _ => break,
            }
            self.at += 1;
        }
    }

    /// Goes on if the token is this one.
    fn take(&mut self, token: Token<'_>) -> Option<()> {
        (self.token == token).then(|| self.advance()).map(drop)
    }

    fn take_word(&mut self, word: &str) -> Option<()> {
        self.take(Token::Word(word.as_bytes()))
    }

    fn ends_block(&self) -> bool {
        matches!(self.token, Token::End | Token::Word(b"end" | b"else" | b"elseif"))
    }

    fn block(&mut self) -> Option<Vec<Step>> {
        let (mut steps, outside) = (Vec::new(), self.names.len());
        while !self.ends_block() {
            match self.token {
                Token::Mark(b';') => drop(self.advance()),
                Token::Word(b"return") => {
                    self.advance();
                    let nothing = self.ends_block() || self.token == Token::Mark(b';');
                    steps.push(Step::Return(if nothing { Operand::Nil } else { self.operand()? }));
                    let _ = self.take(Token::Mark(b';'));
                    self.ends_block().then_some(())?;
                }
                Token::Word(b"local") => {
                    self.advance();
                    let Token::Word(name) = self.advance() else { return None };
                    self.take(Token::Mark(b'='))?;
                    steps.push(Step::Local(self.operand()?));
                    (!GLOBALS.contains(&name)).then(|| self.names.push(name))?;
                }
                Token::Word(b"if") => steps.push(self.branches()?),
                Token::Word(b"redis" | b"server") => steps.push(Step::Call(self.call()?)),
                _ => return None,
            }
        }
        self.names.truncate(outside);
        Some(steps)
    }

    /// From `if` to `end`.
    fn branches(&mut self) -> Option<Step> {
        let mut branches = Vec::new();
        while matches!(self.token, Token::Word(b"if" | b"elseif")) {
            self.advance();
            let condition = self.condition()?;
            self.take_word("then")?;
            branches.push((condition, self.block()?));
        }
        let otherwise = if self.take_word("else").is_some() { self.block()? } else { Vec::new() };
        self.take_word("end")?;
        Some(Step::If(branches, otherwise))
    }

    fn condition(&mut self) -> Option<Condition> {
        if self.take_word("not").is_some() {
            return self.operand().map(Condition::HoldsNot);
        }
        let left = self.operand()?;
        Some(match self.token {
            Token::Same => {
                self.advance();
                Condition::Same(left, self.operand()?)
            }
            Token::Differs => {
                self.advance();
                Condition::Differ(left, self.operand()?)
            }
            _ => Condition::Holds(left),
        })
    }

    fn operand(&mut self) -> Option<Operand> {
        if matches!(self.token, Token::Word(b"redis" | b"server")) {
            return self.call().map(Operand::Call);
        }
        Some(match self.advance() {
            Token::Number(value) => Operand::Number(value),
            Token::Text(text) => Operand::Text(text.into()),
            Token::Word(b"nil") => Operand::Nil,
            Token::Word(b"true") => Operand::Boolean(true),
            Token::Word(b"false") => Operand::Boolean(false),
            Token::Word(b"KEYS") => {
                let at = self.index()?;
                self.keys = self.keys.max(at + 1);
                Operand::Key(at)
            }
            Token::Word(b"ARGV") => {
                let at = self.index()?;
                self.args = self.args.max(at + 1);
                Operand::Arg(at)
            }
            Token::Word(name) => Operand::Local(self.names.iter().rposition(|known| *known == name)?),
            _ => return None,
        })
    }

    /// `[1]`: 0.
    fn index(&mut self) -> Option<usize> {
        self.take(Token::Mark(b'['))?;
        let Token::Number(number) = self.advance() else { return None };
        self.take(Token::Mark(b']'))?;
        (number >= 1.0).then(|| number as usize - 1)
    }

    /// `redis.call(...)`
    fn call(&mut self) -> Option<Invocation> {
        self.advance();
        self.take(Token::Mark(b'.'))?;
        self.take_word("call")?;
        let line = self.line;
        self.take(Token::Mark(b'('))?;
        let mut words = vec![self.operand()?];
        while self.take(Token::Mark(b',')).is_some() {
            words.push(self.operand()?);
        }
        self.take(Token::Mark(b')'))?;
        Some(Invocation { words, line })
    }
}

/// The token that a text begins with, which is no white space, and its length.
fn token(text: &[u8]) -> (Token<'_>, usize) {
    let Some(&first) = text.first() else { return (Token::End, 0) };
    let second = text.get(1).copied().unwrap_or(b' ');
    match first {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
            let len = text.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            (Token::Word(&text[..len]), len)
        }
        b'0'..=b'9' => number(text, 0),
        b'-' if second.is_ascii_digit() => number(text, 1),
        b'\'' | b'"' => {
            let len = text[1..].iter().position(|byte| *byte == first).unwrap_or(0);
            let inside = &text[1..=len];
            let plain =
                text.get(1 + len) == Some(&first) && !inside.iter().any(|byte| matches!(byte, b'\\' | b'\n'));
            (if plain { Token::Text(inside) } else { Token::Other }, len + 2)
        }
        b'=' if second == b'=' => (Token::Same, 2),
        b'~' if second == b'=' => (Token::Differs, 2),
        // The beginning of a long text; what joins texts, and a fraction.
        b'[' if matches!(second, b'[' | b'=') => (Token::Other, 1),
        b'.' if second == b'.' || second.is_ascii_digit() => (Token::Other, 1),
        b'(' | b')' | b'[' | b']' | b',' | b';' | b'.' | b'=' => (Token::Mark(first), 1),
        _ => (Token::Other, 1),
    }
}

/// A whole number behind `signed` bytes of a sign.
fn number(text: &[u8], signed: usize) -> (Token<'_>, usize) {
    let digits = text[signed..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let len = signed + digits;
    // A fraction, an exponent, another base.
    let goes_on =
        text.get(len).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
    let value = text[signed..len].iter().fold(0.0, |sum, digit| sum * 10.0 + f64::from(digit - b'0'));
    let value = if signed > 0 { -value } else { value };
    (if goes_on || digits > DIGITS_MAX { Token::Other } else { Token::Number(value) }, len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_scripts_are_straight() {
        for text in [
            "return 1",
            "return redis.call('SET',KEYS[1],ARGV[1])",
            "redis.call(\"del\", KEYS[2]); return;",
            "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end",
            "-- a lock\nlocal held = redis.call('GET', KEYS[1])\nif not held then return nil elseif held ~= 'x' then return -1 end return held",
            "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], 60) end return n",
            "if KEYS[1] then end",
            "",
        ] {
            assert!(Straight::of(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_for_lua() {
        for text in [
            "return {1}",
            "return 1.5",
            "return 0x10",
            "return 1e3",
            "return 'a\\n'",
            "return [[a]]",
            "return 'a' .. 'b'",
            "return 1 == 1",
            "return (1)",
            "return KEYS",
            "return KEYS[0]",
            "return KEYS[-1]",
            "return KEYS[1.5]",
            "return #KEYS",
            "return x",
            "local x return x",
            "local KEYS = 1 return KEYS",
            "local a, b = 1, 2 return a",
            "local a = 1 a = 2 return a",
            "if not KEYS[1] == 'a' then return 1 end",
            "if KEYS[1] == 'a' and ARGV[1] then return 1 end",
            "do local a = 1 end return a",
            "if KEYS[1] then local a = 1 end return a",
            "return redis.call",
            "return redis.call'PING'",
            "return redis.call('GET', KEYS[1])[1]",
            "return redis.pcall('GET', KEYS[1])",
            "redis.setresp(3) return redis.call('PING')",
            "return redis.call()",
            "while true do end",
            "--[[ long ]] return 1",
            "return 1\r\n",
            "return redis.call('GET', -KEYS[1])",
            "return 1 - -1",
            "return 12345678901234567890",
        ] {
            assert!(Straight::of(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn a_call_knows_the_line_of_its_bracket() {
        let straight = Straight::of(b"\nredis\n.call(\n'PING')").expect("it is straight");
        assert!(matches!(&straight.steps[..], [Step::Call(Invocation { line: 3, .. })]), "{straight:?}");
    }
}
