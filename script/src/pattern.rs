//! `string.find`, `match`, `gmatch`, `gsub`: Lua 5.1's patterns, matched without the machine's
//! stack, and in a way that can be ended.
//!
//! Lua's own matcher recurses for optional items, so that a long pattern overflows the stack and
//! ends the process. And while it tries all ways of a pattern that has very many, the script cannot
//! be ended. Here the ways that are still to be tried lie in a list of bounded length, and after
//! many of them [`Watch`] is asked whether to go on.
//!
//! What matches is Lua 5.1's to the letter: a zero ends a pattern, and texts have a zero behind their end.
use mlua::{Lua, Value};

use crate::args::{Args, Results};
use crate::buffer::Buffer;
use crate::complaint::Complaint;

const CAPTURES_MAX: usize = 32;
/// Ways to come back to at most: some megabytes of them.
const CHOICES_MAX: usize = 100_000;
/// Steps between two looks at the world.
const PATIENCE: u64 = 1 << 20;

/// Calls the world's tick. Returns false when the script is to end.
pub type Watch = dyn Fn(&Lua) -> bool;

#[derive(Clone, Copy)]
enum Length {
    Open,
    Position,
    Bytes(usize),
}

#[derive(Clone, Copy)]
struct Capture {
    at: usize,
    length: Length,
}

/// What is to be done when what was tried does not match.
enum Choice {
    /// Goes on without what was optional.
    Skip {
        text: usize,
        pattern: usize,
    },
    /// Takes one repetition fewer.
    Fewer {
        text: usize,
        count: usize,
        end: usize,
    },
    /// Takes one more, if it matches.
    More {
        text: usize,
        item: usize,
        end: usize,
    },
    Unopen,
    Reopen(usize),
}

struct Matcher<'m> {
    text: &'m [u8],
    pattern: &'m [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    choices: Vec<Choice>,
    steps: u64,
    lua: &'m Lua,
    watch: &'m Watch,
}

impl<'m> Matcher<'m> {
    fn new(text: &'m [u8], pattern: &'m [u8], lua: &'m Lua, watch: &'m Watch) -> Matcher<'m> {
        let end = pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len());
        let captures = [Capture { at: 0, length: Length::Open }; CAPTURES_MAX];
        Matcher {
            text,
            pattern: &pattern[..end],
            captures,
            level: 0,
            choices: Vec::new(),
            steps: 0,
            lua,
            watch,
        }
    }

    /// The byte of the pattern at a place, 0 behind its end.
    fn at(&self, place: usize) -> u8 {
        self.pattern.get(place).copied().unwrap_or(0)
    }

    fn step(&mut self, steps: usize) -> Result<(), Complaint> {
        let before = self.steps / PATIENCE;
        self.steps += steps as u64;
        if self.steps / PATIENCE != before && !(self.watch)(self.lua) {
            return Err("the script is to end".into());
        }
        Ok(())
    }

    /// The first match that begins at `from` or, if it may, behind it: where it begins and ends.
    fn search(&mut self, mut from: usize, anchored: bool) -> Result<Option<(usize, usize)>, Complaint> {
        loop {
            self.level = 0;
            if let Some(end) = self.run(from)? {
                return Ok(Some((from, end)));
            }
            if anchored || from >= self.text.len() {
                return Ok(None);
            }
            from += 1;
        }
    }

    /// Where a match that begins at `text` ends.
    fn run(&mut self, mut text: usize) -> Result<Option<usize>, Complaint> {
        self.choices.clear();
        let mut pattern = 0;
        loop {
            self.step(1)?;
            if pattern >= self.pattern.len() {
                return Ok(Some(text));
            }
            let next = match self.advance(text, pattern)? {
                Some(next) => Some(next),
                None => self.turn_back()?,
            };
            let Some(next) = next else { return Ok(None) };
            (text, pattern) = next;
        }
    }

    /// Matches one item of the pattern. Returns where both go on.
    fn advance(&mut self, text: usize, pattern: usize) -> Result<Option<(usize, usize)>, Complaint> {
        match (self.at(pattern), self.at(pattern + 1)) {
            (b'(', b')') => self.open(text, Length::Position).map(|()| Some((text, pattern + 2))),
            (b'(', _) => self.open(text, Length::Open).map(|()| Some((text, pattern + 1))),
            (b')', _) => self.close(text).map(|()| Some((text, pattern + 1))),
            (b'$', 0) => Ok((text == self.text.len()).then_some((text, pattern + 1))),
            (b'%', b'b') => Ok(self.balanced(text, pattern + 2)?.map(|end| (end, pattern + 4))),
            (b'%', b'f') => self.frontier(text, pattern + 2),
            (b'%', digit @ b'0'..=b'9') => {
                let (at, len) = match self.captured(digit)? {
                    Capture { at, length: Length::Bytes(len) } => (at, len),
                    _ => return Ok(None),
                };
                let same = self.text[text..].starts_with(&self.text[at..at + len]);
                self.step(len / 16)?;
                Ok(same.then_some((text + len, pattern + 2)))
            }
            _ => self.single(text, pattern),
        }
    }

    /// Matches one class, as often as what stands behind it says.
    fn single(&mut self, text: usize, pattern: usize) -> Result<Option<(usize, usize)>, Complaint> {
        let end = self.class_end(pattern)?;
        let matches = self.fits(text, pattern, end);
        match self.at(end) {
            b'?' if matches => {
                self.choose(Choice::Skip { text, pattern: end + 1 }).map(|()| Some((text + 1, end + 1)))
            }
            b'?' => Ok(Some((text, end + 1))),
            b'+' if !matches => Ok(None),
            repeat @ (b'*' | b'+') => {
                let first = text + usize::from(repeat == b'+');
                let count = (first..self.text.len()).take_while(|at| self.fits(*at, pattern, end)).count();
                self.step(count)?;
                if count > 0 {
                    self.choose(Choice::Fewer { text: first, count, end })?;
                }
                Ok(Some((first + count, end + 1)))
            }
            b'-' => self.choose(Choice::More { text, item: pattern, end }).map(|()| Some((text, end + 1))),
            _ => Ok(matches.then_some((text + 1, end))),
        }
    }

    fn choose(&mut self, choice: Choice) -> Result<(), Complaint> {
        if self.choices.len() >= CHOICES_MAX {
            return Err("pattern too complex".into());
        }
        self.choices.push(choice);
        Ok(())
    }

    /// What was tried does not match: where to go on, if there is another way.
    fn turn_back(&mut self) -> Result<Option<(usize, usize)>, Complaint> {
        while let Some(choice) = self.choices.pop() {
            match choice {
                Choice::Skip { text, pattern } => return Ok(Some((text, pattern))),
                Choice::Fewer { text, count, end } => {
                    if count > 1 {
                        self.choices.push(Choice::Fewer { text, count: count - 1, end });
                    }
                    return Ok(Some((text + count - 1, end + 1)));
                }
                Choice::More { text, item, end } => {
                    if self.fits(text, item, end) {
                        self.choices.push(Choice::More { text: text + 1, item, end });
                        return Ok(Some((text + 1, end + 1)));
                    }
                }
                Choice::Unopen => self.level -= 1,
                Choice::Reopen(capture) => self.captures[capture].length = Length::Open,
            }
            self.step(1)?;
        }
        Ok(None)
    }

    fn open(&mut self, at: usize, length: Length) -> Result<(), Complaint> {
        let capture = self.captures.get_mut(self.level).ok_or("too many captures")?;
        *capture = Capture { at, length };
        self.level += 1;
        self.choose(Choice::Unopen)
    }

    fn close(&mut self, end: usize) -> Result<(), Complaint> {
        let open = |capture: &Capture| matches!(capture.length, Length::Open);
        let last = self.captures[..self.level].iter().rposition(open).ok_or("invalid pattern capture")?;
        self.captures[last].length = Length::Bytes(end - self.captures[last].at);
        self.choose(Choice::Reopen(last))
    }

    fn captured(&self, digit: u8) -> Result<Capture, Complaint> {
        let known = self.captures[..self.level].get(usize::from(digit).wrapping_sub(usize::from(b'1')));
        known
            .filter(|capture| !matches!(capture.length, Length::Open))
            .copied()
            .ok_or("invalid capture index".into())
    }

    /// Behind what stands between two bytes that belong together.
    fn balanced(&mut self, text: usize, pattern: usize) -> Result<Option<usize>, Complaint> {
        let (opens, closes) = (self.at(pattern), self.at(pattern + 1));
        if opens == 0 || closes == 0 {
            return Err("unbalanced pattern".into());
        }
        if self.text.get(text) != Some(&opens) {
            return Ok(None);
        }
        let mut depth = 1usize;
        for (at, byte) in self.text.iter().enumerate().skip(text + 1) {
            if *byte == closes {
                depth -= 1;
                if depth == 0 {
                    self.step(at - text)?;
                    return Ok(Some(at + 1));
                }
            } else if *byte == opens {
                depth += 1;
            }
        }
        self.step(self.text.len() - text)?;
        Ok(None)
    }

    /// Where a class begins that the byte before is not of.
    fn frontier(&self, text: usize, pattern: usize) -> Result<Option<(usize, usize)>, Complaint> {
        if self.at(pattern) != b'[' {
            return Err("missing '[' after '%f' in pattern".into());
        }
        let end = self.class_end(pattern)?;
        let before = text.checked_sub(1).map_or(0, |before| self.text[before]);
        let here = self.text.get(text).copied().unwrap_or(0);
        let begins = !self.in_set(before, pattern, end - 1) && self.in_set(here, pattern, end - 1);
        Ok(begins.then_some((text, end)))
    }

    /// Behind the class that begins at a place.
    fn class_end(&self, pattern: usize) -> Result<usize, Complaint> {
        let mut at = pattern + 1;
        match self.at(pattern) {
            b'%' if self.at(at) == 0 => Err("malformed pattern (ends with '%')".into()),
            b'%' => Ok(at + 1),
            b'[' => {
                at += usize::from(self.at(at) == b'^');
                loop {
                    match self.at(at) {
                        0 => return Err("malformed pattern (missing ']')".into()),
                        b'%' if self.at(at + 1) != 0 => at += 2,
                        _ => at += 1,
                    }
                    if self.at(at) == b']' {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the byte of the text at a place is of the class that stands from `item` up to `end`.
    fn fits(&self, text: usize, item: usize, end: usize) -> bool {
        let Some(&byte) = self.text.get(text) else { return false };
        match self.at(item) {
            b'.' => true,
            b'%' => is_of_class(byte, self.at(item + 1)),
            b'[' => self.in_set(byte, item, end - 1),
            own => own == byte,
        }
    }

    /// Whether a byte is in the set from its bracket at `from` up to the one at `last`.
    fn in_set(&self, byte: u8, from: usize, last: usize) -> bool {
        let negated = self.at(from + 1) == b'^';
        let mut at = from + 1 + usize::from(negated);
        while at < last {
            if self.at(at) == b'%' {
                at += 1;
                if is_of_class(byte, self.at(at)) {
                    return !negated;
                }
            } else if self.at(at + 1) == b'-' && at + 2 < last {
                at += 2;
                if (self.at(at - 2)..=self.at(at)).contains(&byte) {
                    return !negated;
                }
            } else if self.at(at) == byte {
                return !negated;
            }
            at += 1;
        }
        negated
    }

    /// Returns the captures; if there are none and a match is given, all of it.
    fn show(&self, whole: Option<(usize, usize)>, results: &mut Results) -> Result<(), Complaint> {
        if let (0, Some((from, end))) = (self.level, whole) {
            let text = results.lua.create_string(&self.text[from..end])?;
            return results.add(text);
        }
        self.captures[..self.level].iter().try_for_each(|capture| match capture.length {
            Length::Open => Err("unfinished capture".into()),
            Length::Position => results.add((capture.at + 1) as f64),
            Length::Bytes(len) => {
                let text = results.lua.create_string(&self.text[capture.at..capture.at + len])?;
                results.add(text)
            }
        })
    }

    /// Writes what takes the place of a match.
    fn replace(
        &self,
        with: &[u8],
        (from, end): (usize, usize),
        out: &mut Buffer<'_>,
    ) -> Result<(), Complaint> {
        let mut rest = with.iter();
        out.room(with.len())?;
        while let Some(byte) = rest.next() {
            if *byte != b'%' {
                out.push(*byte);
                continue;
            }
            match rest.next().copied().unwrap_or(0) {
                b'0' => put(out, &self.text[from..end], rest.len())?,
                b'1' if self.level == 0 => put(out, &self.text[from..end], rest.len())?,
                digit @ b'1'..=b'9' => {
                    let capture = self.captures[..self.level]
                        .get(usize::from(digit - b'1'))
                        .ok_or("invalid capture index")?;
                    match capture.length {
                        Length::Open => return Err("unfinished capture".into()),
                        Length::Position => put(out, (capture.at + 1).to_string().as_bytes(), rest.len())?,
                        Length::Bytes(len) => put(out, &self.text[capture.at..capture.at + len], rest.len())?,
                    }
                }
                other => out.push(other),
            }
        }
        Ok(())
    }
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

/// The place that a number stands for, from 0 on: those below 0 count from the end.
fn place(args: &Args, at: usize, function: &str, len: usize) -> Result<usize, Complaint> {
    let given = if args.get(at).is_nil() { 1 } else { args.whole(at, function)? };
    let from = if given < 0 { given.saturating_add(len as i64 + 1) } else { given };
    Ok(from.saturating_sub(1).clamp(0, len as i64) as usize)
}

/// The pattern without the mark that it must match at the beginning, and whether it had one.
fn anchor(pattern: &[u8]) -> (&[u8], bool) {
    match pattern {
        [b'^', rest @ ..] => (rest, true),
        _ => (pattern, false),
    }
}

/// Where `part` stands in `text` first, not before `from`.
fn plain(text: &[u8], part: &[u8], from: usize) -> Option<usize> {
    bstr::ByteSlice::find(&text[from..], part).map(|at| from + at)
}

pub fn find(args: &Args, results: &mut Results, watch: &Watch) -> Result<(), Complaint> {
    let (text, pattern) = (args.text(1, "find")?, args.text(2, "find")?);
    let from = place(args, 3, "find", text.len())?;
    let is_plain = !matches!(args.get(4), Value::Nil | Value::Boolean(false));
    let special = |byte: &u8| b"^$*+?.([%-".contains(byte);
    let (lua, end) = (results.lua, pattern.iter().position(|byte| *byte == 0).unwrap_or(pattern.len()));
    if is_plain || !pattern[..end].iter().any(special) {
        let Some(at) = plain(&text, &pattern, from) else { return results.add(Value::Nil) };
        results.add((at + 1) as f64)?;
        return results.add((at + pattern.len()) as f64);
    }
    let (pattern, anchored) = anchor(&pattern);
    let mut matcher = Matcher::new(&text, pattern, lua, watch);
    let Some((at, end)) = matcher.search(from, anchored)? else { return results.add(Value::Nil) };
    results.add((at + 1) as f64)?;
    results.add(end as f64)?;
    matcher.show(None, results)
}

pub fn first(args: &Args, results: &mut Results, watch: &Watch) -> Result<(), Complaint> {
    let (text, pattern) = (args.text(1, "match")?, args.text(2, "match")?);
    let from = place(args, 3, "match", text.len())?;
    let (pattern, anchored) = anchor(&pattern);
    let mut matcher = Matcher::new(&text, pattern, results.lua, watch);
    match matcher.search(from, anchored)? {
        Some(found) => matcher.show(Some(found), results),
        None => results.add(Value::Nil),
    }
}

/// Looks whether `gmatch` can do what it is asked for.
pub fn each(args: &Args, results: &mut Results, _: &Watch) -> Result<(), Complaint> {
    for at in 1..=2 {
        let text = results.lua.create_string(&*args.text(at, "gmatch")?)?;
        results.add(text)?;
    }
    Ok(())
}

/// The next match in a text from a place on, which counts from 1: where it begins, the place behind it, and its captures. With a third
/// argument it must begin there.
pub fn next(args: &Args, results: &mut Results, watch: &Watch) -> Result<(), Complaint> {
    let (text, pattern) = (args.text(1, "gsub")?, args.text(2, "gsub")?);
    let from = place(args, 3, "gsub", text.len())?;
    let anchored = matches!(args.get(4), Value::Boolean(true));
    let pattern = if anchored { anchor(&pattern).0 } else { &pattern };
    let mut matcher = Matcher::new(&text, pattern, results.lua, watch);
    let Some((at, end)) = matcher.search(from, anchored)? else { return results.add(Value::Nil) };
    results.add((at + 1) as f64)?;
    results.add((end + 1) as f64)?;
    matcher.show(Some((at, end)), results)
}

/// How many replacements there may be.
fn most(args: &Args, len: usize) -> Result<i64, Complaint> {
    if args.get(4).is_nil() { Ok(len as i64 + 1) } else { Ok(i64::from(args.whole(4, "gsub")? as i32)) }
}

/// What `gsub` needs when each match is asked about: text, pattern, how many, and whether it must be at the beginning.
pub fn begin(args: &Args, results: &mut Results, _: &Watch) -> Result<(), Complaint> {
    let (text, pattern) = (args.text(1, "gsub")?, args.text(2, "gsub")?);
    for text in [&*text, &*pattern] {
        let text = results.lua.create_string(text)?;
        results.add(text)?;
    }
    results.add(most(args, text.len())? as f64)?;
    results.add(anchor(&pattern).1)
}

/// Writes a part, and keeps room for `rest` bytes that follow it.
fn put(out: &mut Buffer<'_>, part: &[u8], rest: usize) -> Result<(), Complaint> {
    out.room(part.len() + rest)?;
    out.extend_from_slice(part);
    Ok(())
}

/// `gsub` with a text in the place of each match.
pub fn substitute(args: &Args, results: &mut Results, watch: &Watch) -> Result<(), Complaint> {
    let (text, pattern) = (args.text(1, "gsub")?, args.text(2, "gsub")?);
    let with = match args.get(3) {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => args.text(3, "gsub")?,
        _ => return Err(args.bad(3, "gsub", "string/function/table expected")),
    };
    let (most, (pattern, anchored)) = (most(args, text.len())?, anchor(&pattern));
    let mut matcher = Matcher::new(&text, pattern, results.lua, watch);
    let (mut out, mut at, mut count) = (Buffer::new(results.lua), 0, 0);
    out.room(text.len())?;
    while count < most
        && let Some((from, end)) = matcher.search(at, anchored)?
    {
        count += 1;
        put(&mut out, &text[at..from], 1)?;
        matcher.replace(&with, (from, end), &mut out)?;
        at = end;
        if end == from {
            let Some(byte) = text.get(from) else { break };
            out.push(*byte);
            at += 1;
        }
        if anchored {
            break;
        }
    }
    put(&mut out, &text[at.min(text.len())..], 0)?;
    let replaced = out.finish()?;
    results.add(replaced)?;
    results.add(count as f64)
}

/// The natives by their names.
pub type Row = (&'static str, fn(&Args, &mut Results, &Watch) -> Result<(), Complaint>);
pub const FUNCTIONS: &[Row] = &[
    ("find", find),
    ("match", first),
    ("each", each),
    ("next", next),
    ("begin", begin),
    ("substitute", substitute),
];
