//! The C door: `libpolder.so`, `libpolder.a`, `polder.h` and `polder_client.h`, which are made from these sources and the command table by `cargo x docs`.
//!
//! ```text
//!   C            handle (a number)  -->  threads.rs: what the calling thread has by that number  -->  polder_engine
//!   status code, polder_message()   <--  status.rs: every way in goes through `guarded`
//!   polder_reply (plain structs)    <--  reply.rs: laid over the bytes of an answer, which are not copied
//!   C            handle, URL        -->  client.rs: connections to servers (polder_client.h)             -->  polder_client
//! ```
//!
//! Invariants:
//! - **C1** Nothing that C hands in is believed but that its pointers lead to as much as it says: handles are numbers that are looked up, never
//!   addresses; NULL and impossible sizes are told.
//! - **C2** No panic leaves: it becomes a status, and the caller that was in use is closed. The quick ways, which have nothing in them that panics,
//!   come before that: there a defect would end the process.
//! - **C3** What the thread-local registry lends is taken out of it meanwhile, so that a callback that comes back in finds it in use.
//! - **C4** What a thread remembers as lent last is in its registry.
#![allow(non_camel_case_types)]
// C has no word for what a caller must see to: the header says it, and C1 what is not believed.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

mod calls;
mod client;
mod memory;
mod reply;
mod status;
mod strings;
mod text;
mod threads;

pub use calls::*;
pub use client::*;
pub use memory::*;
pub use reply::{polder_reply, polder_type};
pub use status::{polder_message, polder_status};
pub use strings::*;
pub use text::polder_text;
