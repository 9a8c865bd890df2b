//! The server on real sockets: serving, starting and stopping.
mod barred;
mod door;
mod serving;
mod stopping;
