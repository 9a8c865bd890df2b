//! The server on real sockets: serving, starting and stopping.
mod door;
mod serving;
mod stopping;
