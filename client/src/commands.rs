//! A method for each command: `db.incr("n")` in place of `db.call(("INCR", "n"))`.
//!
//! ```no_run
//! # async fn tour(client: polder_client::Client) -> Result<(), polder_client::Error> {
//! let db = client.db(0);
//! db.set::<()>("greeting", "hello", ("EX", 60)).await?;
//! let greeting: Option<String> = db.get("greeting").await?;
//! let removed: i64 = db.del(["a", "b"]).await?;
//! db.fire().incr("visits");
//! let (visits, members): (i64, i64) = db.transaction().incr("visits").sadd("seen", ("ann", "bob")).send().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What every call of a command has is a parameter of its own; what is optional or a choice is given by the last one, `more`, as
//! the words of the command: `()` for none, a tuple or a slice for several. Where the last argument repeats, one value or several
//! are given for it. The rows are data, made from the command table; this macro makes of each one a method of all that sends
//! calls.

use crate::args::Args;
use crate::client::{Call, Db, Fire, Pipeline};
use crate::condition::Conditional;
use crate::value::FromValue;

/// Methods from rows `name("WORDS" "OF" "THE" "COMMAND", parameter: type, ...);`.
macro_rules! methods {
    ($($(#[$about:meta])* $name:ident($($word:literal)+ $(, $parameter:ident: $type:ty)*);)*) => {
        use super::{Args, Call, Conditional, Db, Fire, FromValue, Pipeline};

        impl Db {
            $($(#[$about])* pub fn $name<T: FromValue>(&self $(, $parameter: $type)*) -> Call<T> {
                self.call((($($word,)+), ($($parameter,)*)))
            })*
        }
        impl Fire {
            $($(#[$about])* pub fn $name(&self $(, $parameter: $type)*) {
                self.call((($($word,)+), ($($parameter,)*)));
            })*
        }
        impl Pipeline {
            $($(#[$about])* pub fn $name(self $(, $parameter: $type)*) -> Pipeline {
                self.call((($($word,)+), ($($parameter,)*)))
            })*
        }
        impl Conditional {
            $($(#[$about])* pub fn $name(self $(, $parameter: $type)*) -> Conditional {
                self.call((($($word,)+), ($($parameter,)*)))
            })*
        }
    };
}
use methods;

mod array;
mod bitmap;
mod cluster;
mod connection;
mod generic;
mod geo;
mod hash;
mod hyperloglog;
mod list;
mod pubsub;
mod scripting;
mod server;
mod set;
mod sorted_set;
mod stream;
mod string;
