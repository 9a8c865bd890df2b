//! One command from the command line, as often as was asked for.
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::Duration;

use super::arguments::Arguments;
use super::client::{Client, Ran};

/// Runs the command `-r` times, `-i` seconds apart.
pub fn run(mut client: Client, arguments: &Arguments, mut words: Vec<Vec<u8>>) -> ExitCode {
    if let Err(text) = add_stdin(arguments, &mut words) {
        eprintln!("{text}");
        return ExitCode::FAILURE;
    }
    let pause = Duration::try_from_secs_f64(arguments.interval.unwrap_or(0.0)).unwrap_or_default();
    let mut out = io::stdout();
    let mut left = arguments.repeat;
    while left != 0 {
        left -= 1;
        match client.run(&words, &mut out) {
            Ok(Ran::Answered) => {}
            Ok(Ran::Refused(_)) if arguments.error_status => return ExitCode::FAILURE,
            Ok(Ran::Refused(_)) => {}
            Ok(Ran::Lost(text)) => {
                eprintln!("{text}");
                return ExitCode::FAILURE;
            }
            // A reader that went away (`| head`) is no failure of ours.
            Err(_) => return ExitCode::SUCCESS,
        }
        if left != 0 {
            std::thread::sleep(pause);
        }
    }
    if client.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Puts standard input in the place that `-x` or `-X TAG` names.
fn add_stdin(arguments: &Arguments, words: &mut Vec<Vec<u8>>) -> Result<(), String> {
    let read = || {
        let mut bytes = Vec::new();
        io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|error| format!("Cannot read standard input: {error}"))?;
        Ok::<_, String>(bytes)
    };
    if arguments.stdin_last {
        words.push(read()?);
    } else if let Some(tag) = &arguments.stdin_tag {
        let word = words
            .iter_mut()
            .find(|word| *word == tag.as_bytes())
            .ok_or("Using -X option but stdin tag not match.")?;
        *word = read()?;
    }
    Ok(())
}
