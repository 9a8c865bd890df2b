//! Shared memory in place of a connection: where the URL names it, and where `?transport=auto` finds it behind a server.
//!
//! ```text
//!   polder://shm:NAME                  attached, or an error
//!   redis://127.0.0.1?transport=auto   the server is asked for its segment (INFO), which is attached
//!                                      a channel of a random name is subscribed to in the segment
//!                                      the server counts one subscriber: calls run in the segment; anything else: the socket
//! ```
//!
//! Invariant **T1**: calls run in a segment only if it is that of the server which the URL names. A server in a container may
//! name a segment of the same name that is another one; it knows no subscriber of the channel.

use super::Client;
use crate::driver::Secrets;
use crate::error::Error;
use crate::options::{Endpoint, Options};

/// A client of shared memory, or the options for one that needs a connection.
type Found = Result<Client, Options>;

#[cfg(not(feature = "shm"))]
impl Client {
    pub(super) fn in_memory(options: Options, _secrets: &Secrets) -> Result<Found, Error> {
        match options.endpoint {
            Endpoint::Memory { .. } => Err(Error::usage(
                "this build has no shared memory; build polder-client with the feature 'shm'",
            )),
            _ => Ok(Err(options)),
        }
    }
}

#[cfg(feature = "shm")]
mod shared {
    use std::collections::hash_map::RandomState;
    use std::hash::BuildHasher;
    use std::sync::Arc;

    use super::{Client, Endpoint, Error, Found, Options, Secrets};
    use crate::args;
    use crate::connection::Connection;
    use crate::driver::{Shared, sentinel};
    use crate::memory::Local;
    use crate::options::Transport;
    use crate::value::FromValue;

    impl Client {
        pub(in crate::client) fn in_memory(options: Options, secrets: &Secrets) -> Result<Found, Error> {
            let memory = match (&options.endpoint, options.transport) {
                (Endpoint::Memory { segment, create }, _) => Some(Local::attach(segment, *create)?),
                (Endpoint::Tcp { host, port }, Transport::Auto) => {
                    match behind(&options, secrets, host, *port) {
                        Ok(memory) => Some(memory),
                        Err(why) => {
                            tracing::debug!("calls go over the socket: {why}");
                            None
                        }
                    }
                }
                _ => None,
            };
            Ok(match memory {
                Some(memory) => Ok(Client {
                    connection: Connection::to_memory(Shared::without_driver(options), memory),
                    cluster: None,
                }),
                None => Err(options),
            })
        }
    }

    /// The segment of a server of this machine.
    ///
    /// # Errors
    /// Why its segment is not used: it is another machine's, no Polder, not to be attached, or another one of the name.
    fn behind(options: &Options, secrets: &Secrets, host: &str, port: u16) -> Result<Arc<Local>, String> {
        let is_here = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        if !is_here {
            return Err(format!("{host} may be another machine"));
        }
        let ask = |question: &dyn args::Args| {
            sentinel::ask(options, secrets, (host, port), question, options.connect_timeout)
                .map_err(|error| error.to_string())
        };
        let info = String::from_value(ask(&("INFO", "polder"))?).map_err(|error| error.to_string())?;
        let segment = fact(&info, "segment").ok_or("the server has no segment")?;
        let memory = Local::attach(segment, false).map_err(|error| error.to_string())?;
        let random = || RandomState::new().hash_one(0u8);
        let channel = format!("polder-client:{:016x}{:016x}", random(), random());
        // Subscribed for as long as it lives.
        let mut caller = memory.caller();
        caller.run(&["SUBSCRIBE", &channel]).map_err(|error| error.to_string())?;
        match <(String, u64)>::from_value(ask(&("PUBSUB", "NUMSUB", &channel))?) {
            Ok((_, 1)) => Ok(memory),
            Ok(_) => Err(format!("{segment} of this machine is not the segment of this server")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// A line `name:value` of INFO.
    fn fact<'i>(info: &'i str, name: &str) -> Option<&'i str> {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }
}
