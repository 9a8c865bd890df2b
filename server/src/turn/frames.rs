//! Which requests of a batch share a transaction, and which must wait for the end of a pause.
use polder_calls::command::{QUEUES, RUNS_QUEUE};
use polder_engine::{BatchPlan, Memory};
use polder_runtime::{Host, Session, TOGETHER_MAX, execute};
use smallvec::SmallVec;

use crate::host::{Pause, Process};
use polder_protocols::batch::{Content, Frame, Odd};

/// How many of the requests in `frames`, from the first on, are of one connection and may share a transaction.
pub fn group(
    frames: &[Frame],
    args: &[&[u8]],
    (session, host, memory): (&Session, &dyn Host, &Memory),
    (plan, number): (&BatchPlan, usize),
) -> usize {
    if session.multi.is_some() {
        return exec_group(frames, plan, number);
    }
    let (mut many, mut common) = (0, None);
    for (at, frame) in frames.iter().take(TOGETHER_MAX).enumerate() {
        let Content::Args { from, to } = frame.content else { break };
        match memory.batch_key(plan, number + at, &args[from..to]) {
            Some(own) if frame.place == frames[0].place && *common.get_or_insert(own) == own => many += 1,
            _ => break,
        }
        // If two requests with the same key may not share a transaction, the others need not be looked at.
        if many == 2 && common.is_some_and(|common| !memory.may_share(session, host, common)) {
            return 1;
        }
    }
    many
}

/// If the first of `frames` is an EXEC: how many requests it is, with the complete transactions (MULTI to EXEC) behind it.
fn exec_group(frames: &[Frame], plan: &BatchPlan, number: usize) -> usize {
    let has = |at: usize, flag| plan.command(number + at).is_some_and(|command| command.has(flag));
    let (mut many, mut is_inside) = (1, false);
    if !has(0, RUNS_QUEUE) {
        return many;
    }
    for at in 1..frames.iter().take(TOGETHER_MAX).take_while(|frame| frame.place == frames[0].place).count() {
        if has(at, QUEUES) && !is_inside {
            is_inside = true;
        } else if has(at, RUNS_QUEUE) && is_inside {
            (many, is_inside) = (at + 1, false);
        } else if !is_inside || has(at, QUEUES) || plan.command(number + at).is_none() {
            break;
        }
    }
    many
}

/// The arguments of the requests that are slices of the input.
pub fn calls_of<'f, 'a>(frames: &[Frame], args: &'f [&'a [u8]]) -> SmallVec<[&'f [&'a [u8]]; TOGETHER_MAX]> {
    let of = |frame: &Frame| {
        if let Content::Args { from, to } = frame.content { Some(&args[from..to]) } else { None }
    };
    frames.iter().filter_map(of).collect()
}

/// Whether a pause makes this request wait.
pub fn holds_back(
    pause: Pause,
    session: &Session,
    process: &Process,
    content: Content,
    args: &[&[u8]],
    odds: &[Odd],
) -> bool {
    // What is no call touches no key, and a client that gets no sign of life would give up.
    let is_own = matches!(content, Content::Odd(number) if matches!(odds[number], Odd::Own));
    if !pause.writers_only || is_own {
        return !is_own;
    }
    let writes = |args: &[&[u8]]| execute::may_write(process.memory.table(), session, process, args);
    match content {
        Content::Args { from, to } => writes(&args[from..to]),
        Content::Odd(number) => match &odds[number] {
            Odd::Words(words) => writes(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            Odd::Nothing | Odd::Own | Odd::Wrong(_) | Odd::Rejected(_) => false,
        },
    }
}
