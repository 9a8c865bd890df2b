//! The engine through its public interface: callers, typed calls, facts about commands.
mod calls;
mod changes;
mod equal;
mod examples;
mod facts;
mod fast_paths;
mod polling;
mod unreadable;
