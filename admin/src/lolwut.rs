//! LOLWUT: land below the sea, drawn anew each time, and the version.
use polder_base::number;

use polder_calls::call::{NOT_AN_INTEGER, Outcome, is};
use polder_calls::command::{FAST, READONLY};
use polder_runtime::row::{Row, SessionCall, session};

/// The family's rows.
pub const COMMANDS: &[Row] = &[session("LOLWUT", "[VERSION version [arg ...]]", lolwut)
    .with(READONLY | FAST)
    .since("5.0.0")
    .about("Displays computer art and the Redis version")];

/// Columns and rows of the picture when nothing else is asked for, and at most.
const USUAL: [usize; 2] = [66, 10];
const MOST: [usize; 2] = [200, 60];

fn lolwut(call: &mut SessionCall<'_>) -> Outcome {
    let mut size = USUAL;
    if let [_, word, version, rest @ ..] = call.args
        && is(word, "VERSION")
    {
        number::integer(version).ok_or(NOT_AN_INTEGER)?;
        for ((side, most), arg) in size.iter_mut().zip(MOST).zip(rest) {
            *side = number::integer(arg).ok_or(NOT_AN_INTEGER)?.clamp(1, most as i64) as usize;
        }
    }
    let picture = draw(size, polder_base::time::now_us());
    let text = format!("{picture}\nA polder, seen from its windmill. Redis ver. {}\n", call.host.version());
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// Fields of different crops between straight ditches, below a dike with the sea behind it.
fn draw([columns, rows]: [usize; 2], seed: u64) -> String {
    const CROPS: &[u8] = b".,:;\"'vwiI";
    let mut random = seed | 1;
    let mut draw = |below: usize| {
        // xorshift: good enough for a field.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 33) as usize % below
    };
    let widths: Vec<usize> = std::iter::repeat_with(|| 4 + draw(12)).take(columns).collect();
    let mut lines = vec!["~".repeat(columns), "=".repeat(columns)];
    while lines.len() < rows {
        let crops: Vec<char> = widths.iter().map(|_| char::from(CROPS[draw(CROPS.len())])).collect();
        let strip: String = widths
            .iter()
            .zip(crops)
            .flat_map(|(width, crop)| std::iter::repeat_n(crop, *width).chain(['|']))
            .take(columns)
            .collect();
        let height = (1 + draw(3)).min(rows - lines.len());
        lines.extend(std::iter::repeat_n(strip, height));
    }
    lines.truncate(rows);
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_has_the_size_asked_for() {
        for size in [[1, 1], [66, 10], [200, 60]] {
            let picture = draw(size, 42);
            assert_eq!(picture.lines().count(), size[1]);
            assert!(picture.lines().all(|line| line.len() == size[0]), "{picture}");
        }
    }
}
