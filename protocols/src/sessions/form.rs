//! The encodings of messages for subscribers.

use crate::doors::Spoken;

/// An encoding of messages. A message for many clients is encoded once in each form, and the bytes are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Resp2,
    Resp3,
    /// An event of [`http`](super::http).
    Events,
    /// A text of [`messages`](super::messages).
    Json,
    Term,
    /// A text on the screen of a [`terminal`](super::terminal).
    Screen,
    /// A message of [`nats`](super::nats).
    Nats,
    /// A message of [`nats`](super::nats) without its headers.
    NatsBare,
}

impl Form {
    pub const ALL: [Form; 8] = [
        Form::Resp2,
        Form::Resp3,
        Form::Events,
        Form::Json,
        Form::Term,
        Form::Screen,
        Form::Nats,
        Form::NatsBare,
    ];

    /// Returns true if a client may take it; `clients` counts those that came in by the doors of each protocol.
    pub fn is_wanted(self, clients: &[usize; Spoken::COUNT]) -> bool {
        match self {
            Form::Resp2 | Form::Resp3 => true,
            Form::Events | Form::Json | Form::Term | Form::Screen => clients[Spoken::Http as usize] > 0,
            // Some come by WebSocket.
            Form::Nats | Form::NatsBare => {
                clients[Spoken::Nats as usize] > 0 || clients[Spoken::Http as usize] > 0
            }
        }
    }
}
