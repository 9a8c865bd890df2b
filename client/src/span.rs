//! Spans of calls for `tracing` (feature `spans`): from the making of a call to its outcome.
//!
//! The names of the fields are those of OpenTelemetry's semantic conventions for database clients. Without the feature, or
//! while no subscriber wants spans of the target `polder_client::span` at the level INFO, a call has none.

use crate::args::Args;
#[cfg(feature = "spans")]
use crate::error::Error;
use crate::options::Endpoint;
use crate::slot::Outcome;

/// The span of one call.
#[derive(Default)]
pub(crate) struct Span {
    #[cfg(feature = "spans")]
    span: Option<tracing::Span>,
}

#[cfg(feature = "spans")]
impl Span {
    pub(crate) fn of_call(args: &impl Args, db: u32, endpoint: &Endpoint) -> Span {
        if !tracing::span_enabled!(tracing::Level::INFO) {
            return Span::default();
        }
        let mut request = Vec::new();
        crate::args::encode(args, &mut request);
        let name = crate::rows::words(&request)
            .next()
            .map(|name| String::from_utf8_lossy(name).to_ascii_uppercase());
        let span = tracing::info_span!(
            "call",
            "db.system.name" = "redis",
            "db.operation.name" = name.unwrap_or_default(),
            "db.namespace" = db,
            "server.address" = %endpoint,
            "error.type" = tracing::field::Empty,
        );
        Span { span: Some(span) }
    }

    /// Notes how the call has ended.
    pub(crate) fn note(&self, outcome: &Outcome) {
        let (Some(span), Err(error)) = (&self.span, outcome) else { return };
        let kind = match error {
            Error::NotSent(_) => "not sent",
            Error::OutcomeUnknown(_) => "outcome unknown",
            Error::Refused(_) => error.code().unwrap_or_default(),
            Error::TimedOut(_) => "timed out",
            Error::Unexpected { .. } => "unexpected",
            Error::Usage(_) => "usage",
        };
        span.record("error.type", kind);
    }
}

#[cfg(not(feature = "spans"))]
impl Span {
    #[inline]
    pub(crate) fn of_call(_args: &impl Args, _db: u32, _endpoint: &Endpoint) -> Span {
        Span::default()
    }

    #[inline]
    #[expect(clippy::unused_self, reason = "with the feature, it notes the outcome")]
    pub(crate) fn note(&self, _outcome: &Outcome) {}
}
