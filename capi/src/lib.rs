//! The C library: `libpolder.so`, `libpolder.a`, `polder.h` and `polder_client.h`, which `cargo x docs` makes from these sources and the
//! command table.
//!
//! ```text
//!   C            handle (a number)  -->  threads.rs: what the calling thread has by that number  -->  polder_engine
//!   status code, polder_message()   <--  status.rs: every way in goes through `guarded`
//!   polder_reply (plain structs)    <--  reply.rs: laid over the bytes of an answer, which are not copied
//!   C            handle, URL        -->  client.rs: connections to servers (polder_client.h)             -->  polder_client
//! ```
//!
//! Invariants:
//! - **C1** Arguments from C are checked, except one thing: a pointer is trusted to lead to as many bytes or items as C says. Handles are numbers
//!   that are looked up, and never addresses. NULL and impossible sizes are errors.
//! - **C2** No panic leaves a function: it becomes a status, and the caller that was in use is closed. The fast paths for strings run before
//!   that guard, and contain nothing that panics; a defect there would end the process.
//! - **C3** The thread-local registry marks a caller as in use while it is lent. So a callback that calls in again finds it in use.
//! - **C4** The caller that a thread remembers as lent last is in its registry.
#![allow(non_camel_case_types)]
// C has no `unsafe`: the header states what a caller must ensure, and C1 says what is checked.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod calls;
mod changes;
mod client;
mod memory;
mod reply;
mod status;
mod strings;
mod text;
mod threads;

pub use calls::*;
pub use changes::*;
pub use client::*;
pub use memory::*;
pub use reply::{polder_reply, polder_type};
pub use status::{polder_message, polder_status};
pub use strings::*;
pub use text::polder_text;
