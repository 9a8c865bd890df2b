//! The server on real sockets: serving, starting and stopping.
mod acl;
mod barred;
mod door;
mod events;
mod http;
mod hub;
mod limits;
mod list;
mod matrix;
mod moving;
mod patterns;
mod serving;
mod sorted_set;
mod stopping;
mod tls;
mod waiting;
mod web_socket;
