//! Why a server does not start, or does not listen elsewhere.
use std::io;

/// Why a server does not start; one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// An address or path cannot be listened on.
    pub(crate) fn listen(place: &str, error: &io::Error) -> Failure {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another server is there: stop it, choose another --port or --unixsocket, or share a port with '--share-port yes' on both"
            }
            io::ErrorKind::PermissionDenied => "choose a --port above 1023 or a path that you may write to",
            io::ErrorKind::AddrNotAvailable => "this host has no such address: correct --bind",
            io::ErrorKind::NotFound => "the folder of the socket does not exist: create it or choose another --unixsocket",
            _ => "correct --bind, --port or --unixsocket",
        };
        Failure(format!("cannot listen on {place}: {error}; {advice}"))
    }

    /// There is no address at all.
    pub(crate) fn nowhere() -> Failure {
        Failure("there is nothing to listen on: give --port or --unixsocket, and an address of this host to --bind".into())
    }

    /// A server that ends does not move.
    pub(crate) fn ending() -> Failure {
        Failure("the server is about to end, and listens where it did until then".into())
    }

    pub(crate) fn system(what: &str, error: &io::Error) -> Failure {
        Failure(format!("{what}: {error}"))
    }
}
