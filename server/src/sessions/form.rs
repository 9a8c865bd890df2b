//! The encodings of messages for subscribers.

/// An encoding of messages. A message for many clients is encoded once in each form, and the bytes are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Resp2,
    Resp3,
}

impl Form {
    pub const ALL: [Form; 2] = [Form::Resp2, Form::Resp3];
}
