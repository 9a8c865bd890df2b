//! Runs transcripts through a door and says where they differ.
use std::time::Duration;

use polder_base::Protocol;
use regex::Regex;

use crate::answer::Answer;
use crate::door::Door;
use crate::transcript::{Case, Exchange, Step, Transcript};

/// What came of a run.
#[derive(Default, Debug)]
pub struct Outcome {
    pub passed: usize,
    /// One text per failed case: file and line, what was expected, what came.
    pub failures: Vec<String>,
}

/// Runs every case of a transcript that the door can run; a case fails at its first wrong reply.
pub fn run(transcript: &Transcript, door: &mut dyn Door) -> Outcome {
    let mut outcome = Outcome::default();
    for case in &transcript.cases {
        if case.only.is_some_and(|place| place != door.place()) {
            continue;
        }
        match run_case(&transcript.settings, case, door) {
            Ok(()) => outcome.passed += 1,
            Err((line, text)) => {
                let place = format!("tests/transcripts/{}.transcript:{line}", transcript.name);
                outcome.failures.push(format!("{place}: {} ({})\n{text}", case.title, door.name()));
            }
        }
    }
    outcome
}

type Failure = (usize, String);

fn run_case(settings: &[(String, String)], case: &Case, door: &mut dyn Door) -> Result<(), Failure> {
    let at_case = |text: String| (case.line, text);
    door.reset().map_err(at_case)?;
    for (name, value) in settings {
        set(door, name, value).map_err(at_case)?;
    }
    for step in &case.steps {
        match step {
            Step::SleepMs(ms) => std::thread::sleep(Duration::from_millis(*ms)),
            Step::Call(exchange) => run_exchange(exchange, door).map_err(|text| (exchange.line, text))?,
        }
    }
    Ok(())
}

/// Sets one setting; one that redis-server does not know has no meaning there.
fn set(door: &mut dyn Door, name: &str, value: &str) -> Result<(), String> {
    let args = ["CONFIG", "SET", name, value].map(|word| word.as_bytes().to_vec());
    match door.call("settings", &args)? {
        Answer::Status(ok) if ok == "OK" => Ok(()),
        Answer::Error(_) if door.is_redis() => Ok(()),
        other => Err(format!("CONFIG SET {name} {value}: {}", other.shown())),
    }
}

fn run_exchange(exchange: &Exchange, door: &mut dyn Door) -> Result<(), String> {
    let answer = door.call(&exchange.client, &exchange.args)?;
    if door.is_redis() && exchange.not_redis.is_some() {
        return Ok(());
    }
    let answer = if exchange.sorted { answer.sorted() } else { answer };
    let expected = match door.protocol() {
        Protocol::Resp2 => &exchange.resp2,
        Protocol::Resp3 => &exchange.resp3,
    };
    let shown = answer.shown();
    if fits(expected, &shown)? {
        return Ok(());
    }
    let indented = |text: &str| text.lines().map(|line| format!("      {line}\n")).collect::<String>();
    Err(format!(
        "    > {}\n    expected:\n{}    got:\n{}",
        exchange.text,
        indented(&expected.join("\n")),
        indented(&shown)
    ))
}

/// Whether a reply's text is as expected, line by line.
fn fits(expected: &[String], shown: &str) -> Result<bool, String> {
    let lines: Vec<&str> = shown.split('\n').collect();
    if lines.len() != expected.len() {
        return Ok(false);
    }
    for (pattern, line) in expected.iter().zip(lines) {
        if !line_fits(pattern, line)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A `~` at the start of a line, after the element's number or after `=> `, makes the rest a regular expression.
fn line_fits(pattern: &str, line: &str) -> Result<bool, String> {
    let Some((literal, expression)) = matcher(pattern) else {
        return Ok(pattern == line);
    };
    let regex = Regex::new(&format!("^(?:{expression})$")).map_err(|error| error.to_string())?;
    Ok(line.strip_prefix(literal).is_some_and(|rest| regex.is_match(rest)))
}

fn matcher(pattern: &str) -> Option<(&str, &str)> {
    if let Some(expression) = pattern.strip_prefix('~') {
        return Some(("", expression));
    }
    let text_starts = pattern.find('"').unwrap_or(pattern.len());
    let after_number = pattern.find(" ~").filter(|&at| at < text_starts);
    let at = after_number.or_else(|| pattern.find("=> ~").map(|at| at + 2))?;
    Some((&pattern[..=at], &pattern[at + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tilde_makes_the_rest_of_a_line_an_expression() {
        let cases = [
            ("\"a\"", "\"a\"", true),
            ("\"a ~b\"", "\"a ~b\"", true),
            ("~\\(integer\\) \\d+", "(integer) 12", true),
            ("~\\(integer\\) \\d", "(integer) 12", false),
            ("1) ~\"\\d+\"", "1) \"123\"", true),
            ("2) ~\"\\d+\"", "1) \"123\"", false),
            ("1~ \"a\"", "1~ \"a\"", true),
            ("1# \"proto\" => ~\\(integer\\) [23]", "1# \"proto\" => (integer) 3", true),
        ];
        for (pattern, line, fits) in cases {
            assert_eq!(line_fits(pattern, line), Ok(fits), "{pattern} and {line}");
        }
    }
}
