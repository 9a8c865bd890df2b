//! What is optional in commands of sorted sets.
use super::{Fill, Words};

/// What is optional in ZADD, for `Database::zadd_with`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZaddOptions {
    presence: Option<&'static str>,
    order: Option<&'static str>,
    counts_changed: bool,
}

impl ZaddOptions {
    /// No condition; what is new is counted.
    #[must_use]
    pub fn new() -> ZaddOptions {
        ZaddOptions::default()
    }

    /// `NX`: only members that are not there.
    #[must_use]
    pub fn if_absent(self) -> ZaddOptions {
        ZaddOptions { presence: Some("NX"), ..self }
    }

    /// `XX`: only members that are there.
    #[must_use]
    pub fn if_present(self) -> ZaddOptions {
        ZaddOptions { presence: Some("XX"), ..self }
    }

    /// `GT`: of members that are there, only those whose score rises.
    #[must_use]
    pub fn if_greater(self) -> ZaddOptions {
        ZaddOptions { order: Some("GT"), ..self }
    }

    /// `LT`: of members that are there, only those whose score falls.
    #[must_use]
    pub fn if_less(self) -> ZaddOptions {
        ZaddOptions { order: Some("LT"), ..self }
    }

    /// `CH`: members whose score changes are counted, too.
    #[must_use]
    pub fn count_changed(self) -> ZaddOptions {
        ZaddOptions { counts_changed: true, ..self }
    }
}

impl Fill for ZaddOptions {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        for condition in [self.presence, self.order].into_iter().flatten() {
            words.bytes(condition);
        }
        words.flag(self.counts_changed, "CH");
    }
}

/// What becomes of the scores of a member that is in several sorted sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Aggregate {
    /// Their sum.
    #[default]
    Sum,
    /// The lowest.
    Min,
    /// The highest.
    Max,
}

/// How scores are combined by unions and intersections of sorted sets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ZcombineOptions {
    weights: Vec<f64>,
    aggregate: Aggregate,
}

impl ZcombineOptions {
    /// The sum of the scores.
    #[must_use]
    pub fn new() -> ZcombineOptions {
        ZcombineOptions::default()
    }

    /// `WEIGHTS`: the scores of each sorted set are multiplied first, by a factor for each key.
    #[must_use]
    pub fn weights(self, weights: &[f64]) -> ZcombineOptions {
        ZcombineOptions { weights: weights.to_vec(), ..self }
    }

    /// `AGGREGATE`: what becomes of several scores of a member.
    #[must_use]
    pub fn aggregate(self, aggregate: Aggregate) -> ZcombineOptions {
        ZcombineOptions { aggregate, ..self }
    }
}

impl Fill for ZcombineOptions {
    fn fill<'w>(&'w self, words: &mut Words<'w>) {
        if !self.weights.is_empty() {
            words.bytes("WEIGHTS");
            self.weights.iter().for_each(|weight| _ = words.double(*weight));
        }
        match self.aggregate {
            Aggregate::Sum => {}
            Aggregate::Min => drop(words.bytes("AGGREGATE").bytes("MIN")),
            Aggregate::Max => drop(words.bytes("AGGREGATE").bytes("MAX")),
        }
    }
}
