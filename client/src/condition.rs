//! Transactions that run only if conditions hold: WATCH, read, judge, then MULTI and EXEC or nothing.
//!
//! WATCH belongs to a connection, so such a transaction has a side connection for itself while it lasts. If another client
//! changes a watched key between the judgement and EXEC, the conditions are judged again, a bounded number of times.

use crate::args::{self, Args};
use crate::client::{Db, Side};
use crate::error::Error;
use crate::traits::{Shape, Traits};
use crate::value::{FromValue, Value};

/// How often conditions are judged again because a watched key was changed meanwhile.
const ROUNDS_MAX: u32 = 16;

/// How often a transaction follows its keys from node to node of a cluster.
const MOVES_MAX: u32 = 16;

/// What must hold of a key for a transaction to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    KeyExists(Vec<u8>),
    KeyAbsent(Vec<u8>),
    /// The key holds a string of just these bytes.
    ValueEquals(Vec<u8>, Vec<u8>),
    /// The key is absent, or holds a string of other bytes.
    ValueDiffers(Vec<u8>, Vec<u8>),
    /// The hash at the key has the field.
    FieldExists(Vec<u8>, Vec<u8>),
    /// The field of the hash at the key has just this value.
    FieldEquals(Vec<u8>, Vec<u8>, Vec<u8>),
    /// The set at the key has the member.
    MemberExists(Vec<u8>, Vec<u8>),
    /// The list at the key has this many elements.
    LengthEquals(Vec<u8>, u64),
}

impl Condition {
    fn key(&self) -> &[u8] {
        match self {
            Condition::KeyExists(key) | Condition::KeyAbsent(key) | Condition::LengthEquals(key, _) => key,
            Condition::ValueEquals(key, _) | Condition::ValueDiffers(key, _) => key,
            Condition::FieldExists(key, _)
            | Condition::FieldEquals(key, _, _)
            | Condition::MemberExists(key, _) => key,
        }
    }

    /// The call whose reply decides.
    fn question(&self, out: &mut Vec<u8>) {
        let mut ask = |words: &dyn Args| args::encode(&words, out);
        match self {
            Condition::KeyExists(key) | Condition::KeyAbsent(key) => ask(&("EXISTS", key)),
            Condition::ValueEquals(key, _) | Condition::ValueDiffers(key, _) => ask(&("GET", key)),
            Condition::FieldExists(key, field) => ask(&("HEXISTS", key, field)),
            Condition::FieldEquals(key, field, _) => ask(&("HGET", key, field)),
            Condition::MemberExists(key, member) => ask(&("SISMEMBER", key, member)),
            Condition::LengthEquals(key, _) => ask(&("LLEN", key)),
        }
    }

    fn holds(&self, reply: &Value) -> bool {
        let is = |expected: &[u8]| matches!(reply, Value::Bulk(bytes) if bytes == expected);
        match self {
            Condition::KeyExists(_) | Condition::FieldExists(..) | Condition::MemberExists(..) => {
                *reply == Value::Integer(1)
            }
            Condition::KeyAbsent(_) => *reply == Value::Integer(0),
            Condition::ValueEquals(_, value) | Condition::FieldEquals(_, _, value) => is(value),
            Condition::ValueDiffers(_, value) => !is(value) && !matches!(reply, Value::Error(_)),
            Condition::LengthEquals(_, length) => {
                matches!(reply, Value::Integer(have) if u64::try_from(*have) == Ok(*length))
            }
        }
    }
}

impl Db {
    /// Several calls that run as one transaction, and only if conditions hold. They fail together, and the reply says which
    /// conditions did not hold. It goes over a connection of its own, for WATCH: in no order with calls that are not awaited before it is sent.
    pub fn transaction_if(&self, conditions: impl IntoIterator<Item = Condition>) -> Conditional {
        Conditional::new(self.clone(), conditions.into_iter().collect())
    }
}

/// What became of a transaction with conditions.
#[derive(Clone, PartialEq, Debug)]
pub enum Committed<T> {
    /// All conditions held; the replies of its calls.
    Yes(T),
    /// Nothing ran: these conditions did not hold.
    Unmet(Vec<Condition>),
    /// Nothing ran: the watched keys were changed by others each time.
    Contended,
}

/// A transaction that runs only if its conditions hold.
#[must_use = "nothing is sent before `send()`"]
pub struct Conditional {
    db: Db,
    conditions: Vec<Condition>,
    bytes: Vec<u8>,
    calls: u32,
    error: Option<Error>,
}

impl Conditional {
    pub(crate) fn new(db: Db, conditions: Vec<Condition>) -> Conditional {
        let error = conditions
            .is_empty()
            .then(|| Error::usage("a transaction without conditions is made by `transaction()`"));
        Conditional { db, conditions, bytes: Vec::new(), calls: 0, error }
    }

    /// Adds a call.
    pub fn call(mut self, args: impl Args) -> Conditional {
        let start = self.bytes.len();
        args::encode(&args, &mut self.bytes);
        self.calls += 1;
        if let Err(error) = crate::rows::traits(&self.bytes[start..]) {
            self.error = self.error.or(Some(error));
        }
        self
    }

    /// Judges the conditions and runs the calls if all hold.
    ///
    /// # Errors
    /// Those of any call. After [`Error::OutcomeUnknown`] and a deadline the transaction may have run.
    pub async fn send<T: FromValue>(self) -> Result<Committed<T>, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut requests = self.bytes.clone();
        self.conditions.iter().for_each(|condition| condition.question(&mut requests));
        for _ in 1..MOVES_MAX {
            let side = Side::take(&self.db.at_keys_of(&requests)?)?;
            match self.send_over(&side).await {
                // A side connection that was moved away from holds nothing, and another node has the keys.
                Err(error) if side.is_moved(&error) => {}
                Ok(Some(committed)) => {
                    side.give_back();
                    return Ok(committed);
                }
                Ok(None) => {
                    side.give_back();
                    return Ok(Committed::Contended);
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::usage("the keys of the transaction went from node to node of the cluster; make it again"))
    }

    /// Judges and runs over one connection; `None` if the keys were changed by others each time.
    async fn send_over<T: FromValue>(&self, side: &Side) -> Result<Option<Committed<T>>, Error> {
        for _ in 0..ROUNDS_MAX {
            let unmet = self.judge(side).await?;
            if !unmet.is_empty() {
                side.call::<()>(Traits::SINGLE, |out| args::encode(&"UNWATCH", out)).await?;
                return Ok(Some(Committed::Unmet(unmet)));
            }
            let traits = Traits { replies: self.calls + 2, shape: Shape::Transaction, ..Traits::SINGLE };
            let ran = side
                .call::<Value>(traits, |out| {
                    args::encode(&"MULTI", out);
                    out.extend_from_slice(&self.bytes);
                    args::encode(&"EXEC", out);
                })
                .await;
            side.wrote(&self.bytes);
            let value = ran?;
            if value != Value::Null {
                return T::from_value(value).map(|value| Some(Committed::Yes(value)));
            }
        }
        Ok(None)
    }

    /// Watches the keys and returns the conditions that do not hold.
    async fn judge(&self, side: &Side) -> Result<Vec<Condition>, Error> {
        let keys: Vec<&[u8]> = self.conditions.iter().map(Condition::key).collect();
        let replies = self.conditions.len() as u32 + 1;
        let group = Traits { replies, shape: Shape::Group, ..Traits::SINGLE };
        let replies: Vec<Value> = side
            .call(group, |out| {
                args::encode(&("WATCH", &keys[..]), out);
                self.conditions.iter().for_each(|condition| condition.question(out));
            })
            .await?;
        if let Some(Value::Error(text)) = replies.first() {
            return Err(crate::value::refused(text));
        }
        let judged = self.conditions.iter().zip(&replies[1..]);
        Ok(judged
            .filter(|(condition, reply)| !condition.holds(reply))
            .map(|(condition, _)| condition.clone())
            .collect())
    }
}
