//! The encodings of messages for subscribers.

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
}

impl Form {
    pub const ALL: [Form; 6] = [Form::Resp2, Form::Resp3, Form::Events, Form::Json, Form::Term, Form::Screen];

    /// Whether only clients that came in by HTTP take it.
    pub fn is_of_web(self) -> bool {
        match self {
            Form::Resp2 | Form::Resp3 => false,
            Form::Events | Form::Json | Form::Term | Form::Screen => true,
        }
    }
}
