//! Sessions of a web server: each request brings a cookie, and its session lives for half an hour after the last request.
//!
//! ```text
//! web_sessions [URL]      a hundred requests of three users at once, against redis://127.0.0.1:6379
//! ```
use std::collections::BTreeMap;

use polder_client::{Client, Committed, Condition, Db, Error};

const SESSION_SECONDS: i64 = 1800;

/// Sessions in a database of their own.
#[derive(Clone)]
struct Sessions {
    db: Db,
}

impl Sessions {
    /// Makes a session for a user who has logged in. A cookie that is taken already is refused.
    async fn begin(&self, cookie: &str, user: &str) -> Result<bool, Error> {
        let key = format!("session:{cookie}");
        let begun = self.db.transaction_if([Condition::KeyAbsent(key.clone().into())]);
        let begun = begun.hset(&key, [("user", user), ("requests", "0")]).expire(&key, SESSION_SECONDS, ());
        Ok(matches!(begun.send::<(i64, i64)>().await?, Committed::Yes(_)))
    }

    /// Counts a request, and returns the session if there is one. All of it is one step to the server.
    async fn touch(&self, cookie: &str) -> Result<Option<BTreeMap<String, String>>, Error> {
        let key = format!("session:{cookie}");
        if !self.db.exists::<bool>(&key).await? {
            return Ok(None);
        }
        let touched = self
            .db
            .transaction()
            .hincrby(&key, "requests", 1)
            .expire(&key, SESSION_SECONDS, ())
            .hgetall(&key);
        let (_, _, session): (i64, i64, BTreeMap<String, String>) = touched.send().await?;
        // The session may have ended meanwhile: what the count has made is no session, since it has no user.
        Ok(Some(session).filter(|session| session.contains_key("user")))
    }

    /// Ends a session. The reply is not waited for.
    fn end(&self, cookie: &str) {
        self.db.fire().del(format!("session:{cookie}"));
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let sessions = Sessions { db: Client::connect(&url)?.db(1) };
    for (cookie, user) in [("c1", "ann"), ("c2", "bob"), ("c3", "cy")] {
        // Awaited, since a transaction with conditions does not wait for calls before it.
        sessions.db.del::<i64>(format!("session:{cookie}")).await?;
        assert!(sessions.begin(cookie, user).await?, "the cookie is new");
    }
    let requests: Vec<_> = (0..100)
        .map(|request| {
            let sessions = sessions.clone();
            tokio::spawn(async move { sessions.touch(["c1", "c2", "c3", "forged"][request % 4]).await })
        })
        .collect();
    let mut refused = 0;
    for request in requests {
        refused += u32::from(request.await.expect("no request panics")?.is_none());
    }
    let ann = sessions.touch("c1").await?.unwrap_or_default();
    sessions.end("c1");
    let is_over = sessions.touch("c1").await?.is_none();
    println!(
        "{}: {} requests, {refused} without a session, logged out: {is_over}",
        ann["user"], ann["requests"]
    );
    Ok(())
}
