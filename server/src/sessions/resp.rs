//! RESP on a connection: the requests that its input holds become frames of the turn's batch, and each frame one call.
use polder_engine::Memory;
use polder_engine::{Host, Progress, Reply, Session};
use polder_wire::Output;
use polder_wire::resp::{Limits, Request, Requests};

use crate::batch::{Batch, Content, Frame, Odd};

/// What is left to read after [`read`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// No whole request.
    Nothing,
    /// Perhaps more, once the batch has been executed.
    Perhaps,
}

/// Puts the requests from `at` on into the batch, until it is full or the input's end is reached.
///
/// A stranger's requests go one at a time, since AUTH changes what the next may be.
pub fn read<'b>(requests: &mut Requests, limits: &Limits, input: &'b [u8], at: &mut usize, place: usize, batch: &mut Batch<'b>) -> Left {
    let mut rest = &input[*at..];
    while !batch.is_full() {
        let from = batch.args.len();
        let from_byte = *at;
        let read = requests.read(&mut rest, limits, &mut batch.args);
        *at = input.len() - rest.len();
        match read {
            Ok(Some(Request::Bulks(_))) => {
                let to = batch.args.len();
                batch.frames.push(Frame { place, content: Content::Args { from, to }, end: *at });
            }
            Ok(Some(Request::Inline(words))) => batch.push_odd(place, Odd::Words(words), *at),
            Ok(None) => {
                // Empty requests before one that is not all there: the reader is past them, and so must the connection be.
                if *at > from_byte {
                    batch.push_odd(place, Odd::Nothing, *at);
                }
                return Left::Nothing;
            }
            Err(malformed) => {
                *at = input.len();
                batch.push_odd(place, Odd::Malformed(malformed), *at);
                return Left::Nothing;
            }
        }
        if limits.stranger {
            break;
        }
    }
    Left::Perhaps
}

/// Runs an inline request. What a browser sends when it is led here by another site's page ends the connection.
pub fn call_inline(memory: &Memory, session: &mut Session, host: &dyn Host, words: &[Vec<u8>], output: &mut Output) -> Progress {
    if words.first().is_some_and(|word| word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")) {
        tracing::warn!(
            client = session.id,
            "possible attack: an HTTP request came in on a RESP port, most likely by a browser of this host; closed"
        );
        session.closing = true;
        return Progress::Answered;
    }
    let args: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    memory.execute(session, host, &args, output)
}

/// Answers nonsense and ends the session.
pub fn reject(session: &mut Session, host: &dyn Host, text: &str, output: &mut Output) {
    host.recorder().count_error(text);
    output.error(text);
    session.closing = true;
}
