//! Scripts by their SHA-1, so that their text travels once.

use std::sync::Arc;

use crate::args::Args;
use crate::client::Db;
use crate::error::Error;
use crate::value::FromValue;

/// A script that is sent by its SHA-1 and loaded where the server does not have it.
#[derive(Clone, Debug)]
pub struct Script {
    text: Arc<str>,
    sha: Arc<str>,
}

impl Script {
    /// A script of Lua.
    pub fn new(text: &str) -> Script {
        use sha1::Digest;
        let digest = sha1::Sha1::digest(text.as_bytes());
        let sha: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Script { text: text.into(), sha: sha.into() }
    }

    /// The script's SHA-1 in hexadecimal digits.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// Runs the script in a database: by EVALSHA, and by EVAL where the server does not know it yet.
    ///
    /// # Errors
    /// Those of any call.
    pub async fn run<T: FromValue>(&self, db: &Db, keys: impl Args, args: impl Args) -> Result<T, Error> {
        let count = keys.count();
        match db.call::<T>(("EVALSHA", &*self.sha, count, &keys, &args)).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                db.call(("EVAL", &*self.text, count, &keys, &args)).await
            }
            other => other,
        }
    }
}
