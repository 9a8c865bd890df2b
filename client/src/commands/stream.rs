//! Methods of the group `stream`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `XACK key group id [id ...]`: Returns the number of messages that were successfully acknowledged by the consumer group member of a stream.
    xack("XACK", key: impl Args, group: impl Args, ids: impl Args);

    /// `XACKDEL key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]`: Acknowledges messages for a consumer group and deletes them: always, with the references that other groups keep, or only if no group keeps one.
    xackdel("XACKDEL", key: impl Args, group: impl Args, more: impl Args);

    /// `XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [<IDMPAUTO pid|IDMP pid iid>] [<MAXLEN|MINID> [=|~] threshold [LIMIT count]] <*|id> field value [field value ...]`: Appends a new message to a stream. Creates the key if it doesn't exist.
    xadd("XADD", key: impl Args, more: impl Args);

    /// `XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]`: Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as consumer group member.
    xautoclaim("XAUTOCLAIM", key: impl Args, group: impl Args, consumer: impl Args, min_idle_time: impl Args, start: impl Args, more: impl Args);

    /// `XCFGSET key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]`: Sets for how long, and how many, ids of entries a stream keeps of each producer (`XADD` with `IDMP`). Forgets those it has if that is a change.
    xcfgset("XCFGSET", key: impl Args, more: impl Args);

    /// `XCLAIM key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]`: Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer group member.
    xclaim("XCLAIM", key: impl Args, group: impl Args, consumer: impl Args, min_idle_time: impl Args, ids: impl Args, more: impl Args);

    /// `XDEL key id [id ...]`: Returns the number of messages after removing them from a stream.
    xdel("XDEL", key: impl Args, ids: impl Args);

    /// `XDELEX key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]`: Deletes messages: always, with the references that consumer groups keep, or only if no group keeps one.
    xdelex("XDELEX", key: impl Args, more: impl Args);

    /// `XGROUP CREATE key group <id|$> [MKSTREAM] [ENTRIESREAD entries-read]`: Creates a consumer group.
    xgroup_create("XGROUP" "CREATE", key: impl Args, group: impl Args, more: impl Args);

    /// `XGROUP CREATECONSUMER key group consumer`: Creates a consumer in a consumer group.
    xgroup_createconsumer("XGROUP" "CREATECONSUMER", key: impl Args, group: impl Args, consumer: impl Args);

    /// `XGROUP DELCONSUMER key group consumer`: Deletes a consumer from a consumer group.
    xgroup_delconsumer("XGROUP" "DELCONSUMER", key: impl Args, group: impl Args, consumer: impl Args);

    /// `XGROUP DESTROY key group`: Destroys a consumer group.
    xgroup_destroy("XGROUP" "DESTROY", key: impl Args, group: impl Args);

    /// `XGROUP HELP`: Returns helpful text about the different subcommands.
    xgroup_help("XGROUP" "HELP");

    /// `XGROUP SETID key group <id|$> [ENTRIESREAD entries-read]`: Sets the last-delivered ID of a consumer group.
    xgroup_setid("XGROUP" "SETID", key: impl Args, group: impl Args, more: impl Args);

    /// `XIDMPRECORD key pid iid stream-id`: An internal command for the id by which a producer knows a message.
    xidmprecord("XIDMPRECORD", key: impl Args, pid: impl Args, iid: impl Args, stream_id: impl Args);

    /// `XINFO CONSUMERS key group`: Returns a list of the consumers in a consumer group.
    xinfo_consumers("XINFO" "CONSUMERS", key: impl Args, group: impl Args);

    /// `XINFO GROUPS key`: Returns a list of the consumer groups of a stream.
    xinfo_groups("XINFO" "GROUPS", key: impl Args);

    /// `XINFO HELP`: Returns helpful text about the different subcommands.
    xinfo_help("XINFO" "HELP");

    /// `XINFO STREAM key [FULL [COUNT count]]`: Returns information about a stream.
    xinfo_stream("XINFO" "STREAM", key: impl Args, more: impl Args);

    /// `XLEN key`: Return the number of messages in a stream.
    xlen("XLEN", key: impl Args);

    /// `XNACK key group <SILENT|FAIL|FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]`: Gives pending messages back, so that any consumer of the group may claim them at once.
    xnack("XNACK", key: impl Args, group: impl Args, more: impl Args);

    /// `XPENDING key group [[IDLE min-idle-time] start end count [consumer]]`: Returns the information and entries from a stream consumer group's pending entries list.
    xpending("XPENDING", key: impl Args, group: impl Args, more: impl Args);

    /// `XRANGE key start end [COUNT count]`: Returns the messages from a stream within a range of IDs.
    xrange("XRANGE", key: impl Args, start: impl Args, end: impl Args, more: impl Args);

    /// `XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]`: Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise.
    xread("XREAD", more: impl Args);

    /// `XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]`: Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise.
    xreadgroup("XREADGROUP", more: impl Args);

    /// `XREVRANGE key end start [COUNT count]`: Returns the messages from a stream within a range of IDs in reverse order.
    xrevrange("XREVRANGE", key: impl Args, end: impl Args, start: impl Args, more: impl Args);

    /// `XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]`: An internal command for replicating stream values.
    xsetid("XSETID", key: impl Args, last_id: impl Args, more: impl Args);

    /// `XTRIM key <MAXLEN|MINID> [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]`: Deletes messages from the beginning of a stream.
    xtrim("XTRIM", key: impl Args, more: impl Args);
}
