//! Runs groups of sequences on both sides, and makes a failed one shorter.
use std::time::Instant;

use polder_testbase::until;

use super::compare::{Pair, compare};
use super::connections::Connections;
use super::generate::{Features, sequence};
use super::rules::Rules;
use super::{Request, Step, Told, Way, render};

/// One sequence that is run.
struct Running {
    number: usize,
    /// The beginning of its keys' names.
    name: String,
    steps: Vec<Step>,
    told: (Told, Told),
    failure: Option<Failure>,
}

/// A sequence whose replies differ.
pub struct Failure {
    pub number: usize,
    pub steps: Vec<Step>,
    /// The step whose replies differ, and how.
    pub at: usize,
    pub how: String,
}

/// Both sides.
pub struct Sides {
    pub ours: Connections,
    pub theirs: Connections,
    pub rules: Rules,
    pub features: Features,
    pub seed: u64,
    /// Groups that have been run: no key is used twice.
    pub runs: usize,
}

impl Sides {
    /// Runs these sequences, which belong to one group.
    ///
    /// # Errors
    /// A text when a connection fails.
    pub fn run(&mut self, numbers: impl Iterator<Item = usize>) -> Result<Vec<Failure>, String> {
        let sequences = numbers.map(|number| (number, sequence(self.seed, number, self.features))).collect();
        self.run_steps(sequences)
    }

    fn run_steps(&mut self, sequences: Vec<(usize, Vec<Step>)>) -> Result<Vec<Failure>, String> {
        self.runs += 1;
        let mut running: Vec<Running> = sequences
            .into_iter()
            .map(|(number, steps)| Running {
                number,
                name: format!("r{}s{number}", self.runs),
                steps,
                told: (Told::default(), Told::default()),
                failure: None,
            })
            .collect();
        let began = Instant::now();
        let rounds = running.iter().map(|each| each.steps.len()).max().unwrap_or(0);
        for round in 0..rounds {
            self.round(&mut running, round, began)?;
        }
        Ok(running.into_iter().filter_map(|each| each.failure).collect())
    }

    fn round(&mut self, running: &mut [Running], round: usize, began: Instant) -> Result<(), String> {
        let mut asked = Vec::new();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (at, each) in running.iter().enumerate() {
            let Some(step) = each.steps.get(round).filter(|_| each.failure.is_none()) else { continue };
            match step.request {
                Request::Wait => return self.await_expiry(round),
                Request::Flush => {
                    let flush = [(Way::Text(0), b"flush_all\r\n".to_vec())];
                    let replies = (self.ours.round(&flush)?, self.theirs.round(&flush)?);
                    return if replies.0 == replies.1 { Ok(()) } else { Err("flush_all fails".into()) };
                }
                _ => {}
            }
            asked.push(at);
            ours.push((step.way, render(step, &each.name, &each.told.0)));
            theirs.push((step.way, render(step, &each.name, &each.told.1)));
        }
        let (ours, theirs) = (self.ours.round(&ours)?, self.theirs.round(&theirs)?);
        let seconds = 2 + began.elapsed().as_secs();
        for ((at, ours), theirs) in asked.into_iter().zip(&ours).zip(&theirs) {
            let each = &mut running[at];
            let step = &each.steps[round];
            let told = (&mut each.told.0, &mut each.told.1);
            if let Err(how) = compare(step, &each.name, &Pair { ours, theirs, seconds }, told, &self.rules) {
                let steps = each.steps.clone();
                each.failure = Some(Failure { number: each.number, steps, at: round, how });
            }
        }
        Ok(())
    }

    /// Waits until the items of both sides have expired that had a second to live: one that is stored now expires last.
    fn await_expiry(&mut self, round: usize) -> Result<(), String> {
        let name = format!("r{}w{round}", self.runs);
        let mut ask = |request: String| -> Result<[Vec<Vec<u8>>; 2], String> {
            let request = [(Way::Text(0), request.into_bytes())];
            Ok([self.ours.round(&request)?, self.theirs.round(&request)?])
        };
        if ask(format!("set {name} 0 1 1\r\nx\r\n"))? != [[b"STORED\r\n"], [b"STORED\r\n"]] {
            return Err("an item that expires is not stored".into());
        }
        let mut failure = None;
        until("what has a second to live expires", || match ask(format!("get {name}\r\n")) {
            Ok(replies) => replies == [[b"END\r\n"], [b"END\r\n"]],
            Err(error) => {
                failure = Some(error);
                true
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Leaves out steps as long as the same step differs.
    ///
    /// # Errors
    /// A text when a connection fails.
    pub fn shrink(&mut self, failure: Failure) -> Result<Failure, String> {
        let mut best = failure;
        best.steps.truncate(best.at + 1);
        let mut at = best.at;
        while at > 0 {
            at -= 1;
            let mut steps = best.steps.clone();
            let last = steps.last().cloned();
            steps.remove(at);
            let found = self.run_steps(vec![(best.number, steps)])?.pop();
            let kind = |how: &str| how.split('(').next().map(str::to_owned);
            let is_same = |found: &Failure| {
                found.steps.get(found.at) == last.as_ref() && kind(&found.how) == kind(&best.how)
            };
            if let Some(found) = found.filter(is_same) {
                best = found;
                best.steps.truncate(best.at + 1);
                at = at.min(best.at);
            }
        }
        Ok(best)
    }
}
