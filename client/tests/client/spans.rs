//! Spans of calls: one for each, with its command, its database and how it ended.
#![cfg(feature = "spans")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polder_client::Client;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the fields of all spans as text, one line for each.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

struct Line<'l>(&'l mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.0.lock().expect("no panic");
        let mut line = String::new();
        span.record(&mut Line(&mut line));
        spans.push(line);
        Id::from_u64(spans.len() as u64)
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().expect("no panic");
        values.record(&mut Line(&mut spans[span.into_u64() as usize - 1]));
    }
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn event(&self, _event: &Event<'_>) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn a_call_has_a_span_that_says_how_it_ended() {
    // Nothing listens there once the listener is gone.
    let port = polder_testbase::free_port().expect("a port");
    let client = Client::connect_in_thread(&format!("redis://127.0.0.1:{port}")).expect("starts");
    let kept = Kept::default();
    tracing::subscriber::with_default(kept.clone(), || {
        let db = client.db(7).within(Duration::from_millis(20));
        assert!(db.get::<String>("secret").wait().is_err());
        assert!(db.transaction().incr("n").send::<(i64,)>().wait().is_err());
        assert!(db.call::<()>(("SELECT", 1)).wait().is_err());
    });
    let spans = kept.0.lock().expect("no panic");
    let expected = |name: &str, kind: &str| {
        format!(
            "db.system.name=\"redis\" db.operation.name=\"{name}\" db.namespace=7 server.address=127.0.0.1:{port} error.type=\"{kind}\" "
        )
    };
    assert_eq!(
        *spans,
        [expected("GET", "timed out"), expected("MULTI", "timed out"), expected("SELECT", "usage")]
    );
}
