//! What the sender knows of a request beside its bytes.

use polder_wire::resp::Value;

/// How the replies of a request make one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// There is one.
    Single,
    /// All of them, in order.
    Group,
    /// The last of them, which is EXEC's; but an error that came before it says why EXEC was refused.
    Transaction,
}

impl Shape {
    /// The replies of a request as one.
    pub(crate) fn join(self, mut replies: Vec<Value>) -> Value {
        if self != Shape::Transaction {
            return Value::Array(replies);
        }
        let last = replies.pop().unwrap_or(Value::Null);
        match replies.into_iter().find(|reply| matches!(reply, Value::Error(_))) {
            Some(error) if matches!(last, Value::Error(_)) => error,
            _ => last,
        }
    }
}

/// What the sender knows of a request beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits {
    /// Replies that it gets.
    pub replies: u32,
    pub shape: Shape,
    /// Whether it only reads, so that it may be sent again after a reconnect.
    pub reads: bool,
    /// Whether the connection's database is uncertain behind it.
    pub moves: bool,
    /// Whether it may wait in the server, so that it wants a connection of its own.
    pub blocks: bool,
    /// Whether its reply depends on its first argument's key alone, so that it may be kept while that is unchanged.
    pub caches: bool,
    /// Whether it begins with an ASKING of a cluster.
    pub asks: bool,
    /// How often it was sent on from one node of a cluster to another.
    pub hops: u8,
}

impl Traits {
    /// One request, one reply.
    pub(crate) const SINGLE: Traits = Traits {
        replies: 1,
        shape: Shape::Single,
        reads: false,
        moves: false,
        blocks: false,
        caches: false,
        asks: false,
        hops: 0,
    };

    /// The same request behind an ASKING.
    pub(crate) fn asking(self) -> Traits {
        Traits { replies: self.replies + 1, shape: Shape::Transaction, asks: true, ..self }
    }

    /// The same request without its ASKING. A transaction has three replies at least.
    pub(crate) fn not_asking(self) -> Traits {
        let replies = self.replies - u32::from(self.asks);
        Traits { replies, shape: if replies == 1 { Shape::Single } else { self.shape }, asks: false, ..self }
    }
}
