//! The server on real sockets: serving, starting and stopping.
mod barred;
mod door;
mod hub;
mod serving;
mod stopping;
mod waiting;
