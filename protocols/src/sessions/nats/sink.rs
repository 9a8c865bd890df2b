//! The replies of calls in the words of NATS: nothing, `+OK` if the client wants it, or an error that nats-server has.
use polder_base::{Protocol as RespVersion, Reply};
use polder_runtime::subjects::{INVALID, INVALID_REPLY, INVALID_SID, TOO_MANY_TOKENS};
use polder_wire::Output;
use polder_wire::nats::{self, Options};

use super::Kind;

/// Writes the replies to one frame, or to several that publish.
pub struct Sink<'s> {
    output: &'s mut Output,
    kind: Kind,
    options: &'s Options,
    subject: &'s [u8],
    /// A call has failed in a way that NATS has no word for.
    pub has_failed: bool,
    /// The user or the password is wrong.
    pub is_denied: bool,
}

impl<'s> Sink<'s> {
    pub fn new(output: &'s mut Output, kind: Kind, options: &'s Options, subject: &'s [u8]) -> Sink<'s> {
        Sink { output, kind, options, subject, has_failed: false, is_denied: false }
    }

    fn ok(&mut self) {
        if self.options.verbose && self.kind != Kind::Connect {
            self.output.raw(b"+OK\r\n");
        }
    }

    /// A subject that the client has no right to.
    fn refuse_subject(&mut self, doing: &str) {
        let subject = String::from_utf8_lossy(self.subject);
        nats::error(self.output, &format!("Permissions Violation for {doing} \"{subject}\""));
    }
}

impl Reply for Sink<'_> {
    fn protocol(&self) -> RespVersion {
        RespVersion::Resp3
    }

    fn error(&mut self, text: &str) {
        match (self.kind, text) {
            // Client libraries end for good after two of these: only for what another try does not mend.
            (Kind::Connect, _)
                if ["WRONGPASS", "NOAUTH", "ERR"].iter().any(|code| text.starts_with(code)) =>
            {
                self.is_denied = true;
            }
            (Kind::Publish, INVALID | INVALID_REPLY) if self.options.pedantic => {
                nats::error(self.output, "Invalid Publish Subject");
                self.ok();
            }
            // nats-server delivers it by its text, and says nothing.
            (Kind::Publish, INVALID | INVALID_REPLY) => self.ok(),
            (Kind::Subscribe, INVALID | INVALID_SID) => nats::error(self.output, "Invalid Subject"),
            (Kind::Subscribe, TOO_MANY_TOKENS | polder_hub::tokens::TOO_MANY) => {
                nats::error(self.output, text.trim_start_matches("ERR "));
            }
            (Kind::Publish, _) if text.starts_with("NOPERM") => self.refuse_subject("Publish to"),
            (Kind::Subscribe, _) if text.starts_with("NOPERM") => self.refuse_subject("Subscription to"),
            _ => {
                tracing::debug!(text, "closed: a call of a client of NATS failed");
                self.has_failed = true;
            }
        }
    }

    fn integer(&mut self, _value: i64) {
        if self.kind == Kind::Publish {
            self.ok();
        }
    }

    fn push(&mut self, _len: usize) {
        self.ok();
    }

    fn mark(&self) -> usize {
        self.output.mark()
    }

    fn rewind(&mut self, mark: usize) {
        self.output.rewind(mark);
    }

    fn bytes_since(&self, mark: usize) -> usize {
        self.output.bytes_since(mark)
    }

    fn is_overfull(&self) -> bool {
        self.output.is_overfull()
    }

    fn bulk(&mut self, _bytes: &[u8]) {}
}
