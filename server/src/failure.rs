//! Why a server does not start, or does not listen elsewhere.
use std::io;
use std::net::SocketAddr;

use polder_protocols::doors::Door;

/// Why a server does not start; one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// An address or path of a door cannot be listened on.
    pub(crate) fn listen(place: &str, door: &Door, tls: bool, error: &io::Error) -> Failure {
        let [place_setting, how] = door.place.settings(tls).map(|id| id.row().name);
        let advice = match (error.kind(), door.is_local()) {
            (io::ErrorKind::AddrInUse, false) => {
                format!(
                    "another server is there: stop it, choose another --{place_setting}, or share the port with '--share-port yes' on both"
                )
            }
            (io::ErrorKind::AddrInUse, true) => {
                format!(
                    "another server is there: stop it, choose another --{place_setting}, or take it over with '--share-port yes'"
                )
            }
            (io::ErrorKind::PermissionDenied, false) => format!("choose a --{place_setting} above 1023"),
            (io::ErrorKind::PermissionDenied, true) => {
                format!("choose a --{place_setting} that you may write to")
            }
            (io::ErrorKind::AddrNotAvailable, _) => format!("this host has no such address: correct --{how}"),
            (io::ErrorKind::NotFound, true) => {
                format!(
                    "the folder of the socket does not exist: create it or choose another --{place_setting}"
                )
            }
            _ => format!("correct --{place_setting} or --{how}"),
        };
        Failure(format!("cannot listen on {place}: {error}; {advice}"))
    }

    /// A UDP port would be open to strangers.
    pub(crate) fn datagrams(address: SocketAddr, door: &Door, why: &str) -> Failure {
        let port = door.place.settings(false)[0].row().name;
        Failure(format!("cannot take datagrams at {address}: {why}, or set --{port} 0"))
    }

    /// Clients of memcached would have a database that is not there.
    pub(crate) fn database(number: i64, databases: u16) -> Failure {
        Failure(format!(
            "memcache-database is {number}, and there are {databases} databases, numbered from 0: give a lower number, or raise --databases"
        ))
    }

    /// There is no address at all.
    pub(crate) fn nowhere() -> Failure {
        Failure("there is nothing to listen on: give --port or --unixsocket, and an address of this host to --bind".into())
    }

    /// A server that ends does not move.
    pub(crate) fn ending() -> Failure {
        Failure("the server is about to end, and listens where it did until then".into())
    }

    /// TLS cannot be used; the reason is a whole line.
    pub(crate) fn tls(why: String) -> Failure {
        Failure(why)
    }

    /// The tier's library cannot be loaded; the reason is a whole line.
    pub(crate) fn tier(why: String) -> Failure {
        Failure(why)
    }

    pub(crate) fn system(what: &str, error: &io::Error) -> Failure {
        Failure(format!("{what}: {error}"))
    }
}
