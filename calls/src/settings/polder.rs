//! Polder's own settings: the segment, the threads, and how numbers and versions are shown.
use super::{Setting, choice, integer, memory, setting, switch, text};
use super::{Shape, Start};

pub(super) const SETTINGS: &[Setting] = &[
    text("segment", "shm:polder").at_start_here().about("The memory to attach to or create: `shm:NAME`, `sysv:NAME` or `file:PATH`."),
    memory("segment-size", 0, i64::MAX, 0)
        .at_start_here()
        .about("The most that a new segment may grow to; 0 takes three quarters of the machine's memory."),
    choice("segment-pages", &["auto", "4kb", "2mb", "1gb"], 0)
        .at_start_here()
        .about("The page size to ask for when the segment is created; smaller ones are tried if that size is not available."),
    setting("segment-mode", Shape::Octal { max: 0o777 }, Start::Number(0o600))
        .at_start_here()
        .about("The permissions of a new segment, in octal. Each user that may write to it is fully trusted."),
    text("segment-group", "")
        .at_start_here()
        .about("The group that a new segment belongs to, by name or number; empty leaves it to the system."),
    text("segment-owner", "").at_start_here().about(
        "The user whose segment may be attached, beside the server's own user and root: a name, a number, or `any`, which also \
         admits a segment that every user may write to. The owner of a segment controls every process that attaches it.",
    ),
    integer("threads", 1, 512, 1).at_start_here().about("Event loops of this server, each with a seat of its own in the segment."),
    switch("all-protocols", false)
        .at_start_here()
        .about("Whether each protocol whose port is not set listens on its usual port; one that is in use is left out, with a warning."),
    switch("share-port", false)
        .at_start_here()
        .about("Whether other servers may listen on the same port: start a new one, then stop the old one, and clients notice nothing."),
    choice("number-mode", &["decimal", "redis"], 0)
        .segment()
        .about("How INCRBYFLOAT and its relatives count: `decimal` keeps 1.10 + 2.2 = 3.30, `redis` prints the nearest binary double."),
    text("redis-version", "7.4.0").about("The version that INFO and HELLO report, since clients choose their features by it."),
    choice("log-format", &["text", "json"], 0).at_start_here().about("The form of a log line."),
];
