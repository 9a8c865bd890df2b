//! Methods of the group `pubsub`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `PUBLISH channel message`: Posts a message to a channel.
    publish("PUBLISH", channel: impl Args, message: impl Args);

    /// `PUBSUB CHANNELS [pattern]`: Returns the active channels.
    pubsub_channels("PUBSUB" "CHANNELS", more: impl Args);

    /// `PUBSUB HELP`: Prints this help.
    pubsub_help("PUBSUB" "HELP");

    /// `PUBSUB NUMPAT`: Returns a count of unique pattern subscriptions.
    pubsub_numpat("PUBSUB" "NUMPAT");

    /// `PUBSUB NUMSUB [channel [channel ...]]`: Returns a count of subscribers to channels.
    pubsub_numsub("PUBSUB" "NUMSUB", more: impl Args);

    /// `PUBSUB SHARDCHANNELS [pattern]`: Returns the active shard channels.
    pubsub_shardchannels("PUBSUB" "SHARDCHANNELS", more: impl Args);

    /// `PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]`: Returns the count of subscribers of shard channels.
    pubsub_shardnumsub("PUBSUB" "SHARDNUMSUB", more: impl Args);

    /// `SPUBLISH shardchannel message`: Post a message to a shard channel.
    spublish("SPUBLISH", shardchannel: impl Args, message: impl Args);

    /// `SUBJ.LIST [pattern]`: Lists what clients of all processes have subscribed to: subject, queue, and how many do so.
    subj_list("SUBJ.LIST", more: impl Args);

    /// `SUBJ.MONITOR <VARZ|CONNZ|SUBSZ> [SORT field] [LIMIT count] [OFFSET count]`: Returns a monitoring page of nats-server about this server, its NATS clients, or the subscriptions of all processes, in JSON.
    subj_monitor("SUBJ.MONITOR", more: impl Args);

    /// `SUBJ.PUB subject payload [REPLY reply] [HEADERS headers] [NOECHO] [NORESPONDERS]`: Posts a message to a subject, with a subject for replies and headers if these are given.
    subj_pub("SUBJ.PUB", subject: impl Args, payload: impl Args, more: impl Args);
}
