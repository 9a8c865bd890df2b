//! Methods of the group `server`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `ACL CAT [category]`: Lists the ACL categories, or the commands inside a category.
    acl_cat("ACL" "CAT", more: impl Args);

    /// `ACL DELUSER username [username ...]`: Deletes ACL users, and terminates their connections.
    acl_deluser("ACL" "DELUSER", usernames: impl Args);

    /// `ACL DRYRUN username command [arg ...]`: Simulates the execution of a command by a user, without executing the command.
    acl_dryrun("ACL" "DRYRUN", username: impl Args, command: impl Args, more: impl Args);

    /// `ACL GENPASS [bits]`: Generates a pseudorandom, secure password that can be used to identify ACL users.
    acl_genpass("ACL" "GENPASS", more: impl Args);

    /// `ACL GETUSER username`: Lists the ACL rules of a user.
    acl_getuser("ACL" "GETUSER", username: impl Args);

    /// `ACL HELP`: Returns helpful text about the different subcommands.
    acl_help("ACL" "HELP");

    /// `ACL LIST`: Dumps the effective rules in ACL file format.
    acl_list("ACL" "LIST");

    /// `ACL LOAD`: Reloads the rules from the configured ACL file.
    acl_load("ACL" "LOAD");

    /// `ACL LOG [count|RESET]`: Lists recent security events generated due to ACL rules.
    acl_log("ACL" "LOG", more: impl Args);

    /// `ACL SAVE`: Saves the effective ACL rules in the configured ACL file.
    acl_save("ACL" "SAVE");

    /// `ACL SETUSER username [rule [rule ...]]`: Creates and modifies an ACL user and its rules.
    acl_setuser("ACL" "SETUSER", username: impl Args, more: impl Args);

    /// `ACL USERS`: Lists all ACL users.
    acl_users("ACL" "USERS");

    /// `ACL WHOAMI`: Returns the authenticated username of the current connection.
    acl_whoami("ACL" "WHOAMI");

    /// `BGREWRITEAOF`: Has another base of the append-only log written in the background, by the process that writes the log.
    bgrewriteaof("BGREWRITEAOF");

    /// `BGSAVE [SCHEDULE|CANCEL]`: Writes the databases to the RDB file in the background. All keys are in it as they were at one instant.
    bgsave("BGSAVE", more: impl Args);

    /// `COMMANDLOG GET count type`: Returns the specified command log's entries: slow, large-request or large-reply.
    commandlog_get("COMMANDLOG" "GET", count: i64, type_: impl Args);

    /// `COMMANDLOG HELP`: Show helpful text about the different subcommands.
    commandlog_help("COMMANDLOG" "HELP");

    /// `COMMANDLOG LEN type`: Returns the number of entries in the specified type of command log.
    commandlog_len("COMMANDLOG" "LEN", type_: impl Args);

    /// `COMMANDLOG RESET type`: Clears all entries from the specified type of command log.
    commandlog_reset("COMMANDLOG" "RESET", type_: impl Args);

    /// `COMMAND COUNT`: Returns a count of commands.
    command_count("COMMAND" "COUNT");

    /// `COMMAND DOCS [command-name ...]`: Returns documentary information about one, multiple or all commands.
    command_docs("COMMAND" "DOCS", more: impl Args);

    /// `COMMAND GETKEYS command [arg ...]`: Extracts the key names from an arbitrary command.
    command_getkeys("COMMAND" "GETKEYS", command: impl Args, more: impl Args);

    /// `COMMAND GETKEYSANDFLAGS command [arg ...]`: Extracts the key names and access flags for an arbitrary command.
    command_getkeysandflags("COMMAND" "GETKEYSANDFLAGS", command: impl Args, more: impl Args);

    /// `COMMAND HELP`: Prints this help.
    command_help("COMMAND" "HELP");

    /// `COMMAND INFO [command-name ...]`: Returns information about one, multiple or all commands.
    command_info("COMMAND" "INFO", more: impl Args);

    /// `COMMAND LIST [FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern>]`: Returns a list of command names.
    command_list("COMMAND" "LIST", more: impl Args);

    /// `CONFIG GET parameter [parameter ...]`: Returns the effective values of configuration parameters.
    config_get("CONFIG" "GET", parameters: impl Args);

    /// `CONFIG HELP`: Returns helpful text about the different subcommands.
    config_help("CONFIG" "HELP");

    /// `CONFIG RESETSTAT`: Resets the server's statistics.
    config_resetstat("CONFIG" "RESETSTAT");

    /// `CONFIG REWRITE`: Persists the effective configuration to file.
    config_rewrite("CONFIG" "REWRITE");

    /// `CONFIG SET parameter value [parameter value ...]`: Sets configuration parameters in-flight.
    config_set("CONFIG" "SET", pairs: impl Args);

    /// `DBSIZE`: Returns the number of keys in the database.
    dbsize("DBSIZE");

    /// `DEBUG subcommand [arg ...]`: A container for debugging commands.
    debug("DEBUG", subcommand: impl Args, more: impl Args);

    /// `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`: Starts a coordinated failover from a server to one of its replicas.
    failover("FAILOVER", more: impl Args);

    /// `FLUSHALL [ASYNC|SYNC]`: Removes all keys from all databases.
    flushall("FLUSHALL", more: impl Args);

    /// `FLUSHDB [ASYNC|SYNC]`: Removes all keys from the current database.
    flushdb("FLUSHDB", more: impl Args);

    /// `HOTKEYS GET`: Returns the keys that have cost this server most, by the metrics that HOTKEYS START has named.
    hotkeys_get("HOTKEYS" "GET");

    /// `HOTKEYS HELP`: Returns helpful text about the different subcommands.
    hotkeys_help("HOTKEYS" "HELP");

    /// `HOTKEYS RESET`: Forgets what was tracked.
    hotkeys_reset("HOTKEYS" "RESET");

    /// `HOTKEYS START [METRICS count [CPU] [NET]] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]`: Starts to track which keys cost this server most time or bytes. Each call is timed meanwhile.
    hotkeys_start("HOTKEYS" "START", more: impl Args);

    /// `HOTKEYS STOP`: Stops tracking. HOTKEYS GET still shows what was tracked.
    hotkeys_stop("HOTKEYS" "STOP");

    /// `INFO [section ...]`: Returns information and statistics about the server.
    info("INFO", more: impl Args);

    /// `ITEM.FLUSH [EX seconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]`: Removes all keys from the current database, at once or at a later moment. A later call replaces the moment; one without a moment forgets it, and so do FLUSHDB and FLUSHALL. A server has to be there at the moment, or the next one does it when it starts.
    item_flush("ITEM.FLUSH", more: impl Args);

    /// `LASTSAVE`: Returns the Unix timestamp of the last successful save to disk.
    lastsave("LASTSAVE");

    /// `LATENCY DOCTOR`: Returns a human-readable latency analysis report.
    latency_doctor("LATENCY" "DOCTOR");

    /// `LATENCY GRAPH event`: Returns a latency graph for an event.
    latency_graph("LATENCY" "GRAPH", event: impl Args);

    /// `LATENCY HELP`: Returns helpful text about the different subcommands.
    latency_help("LATENCY" "HELP");

    /// `LATENCY HISTOGRAM [command ...]`: Returns the cumulative distribution of latencies of a subset or all commands.
    latency_histogram("LATENCY" "HISTOGRAM", more: impl Args);

    /// `LATENCY HISTORY event`: Returns timestamp-latency samples for an event.
    latency_history("LATENCY" "HISTORY", event: impl Args);

    /// `LATENCY LATEST`: Returns the latest latency samples for all events.
    latency_latest("LATENCY" "LATEST");

    /// `LATENCY RESET [event ...]`: Resets the latency data for one or more events.
    latency_reset("LATENCY" "RESET", more: impl Args);

    /// `LOLWUT [VERSION version [arg ...]]`: Displays computer art and the Redis version.
    lolwut("LOLWUT", more: impl Args);

    /// `MEMORY DOCTOR`: Outputs a memory problems report.
    memory_doctor("MEMORY" "DOCTOR");

    /// `MEMORY HELP`: Returns helpful text about the different subcommands.
    memory_help("MEMORY" "HELP");

    /// `MEMORY MALLOC-STATS`: Returns the allocator statistics.
    memory_malloc_stats("MEMORY" "MALLOC-STATS");

    /// `MEMORY PURGE`: Asks the allocator to release memory.
    memory_purge("MEMORY" "PURGE");

    /// `MEMORY STATS`: Returns details about memory usage.
    memory_stats("MEMORY" "STATS");

    /// `MEMORY USAGE key [SAMPLES count]`: Estimates the memory usage of a key.
    memory_usage("MEMORY" "USAGE", key: impl Args, more: impl Args);

    /// `METRICS [OPENMETRICS|HISTORY]`: Returns the figures of this server and its segment in the text format of Prometheus, or in that of OpenMetrics; or a sample of each ten seconds of the last hour.
    metrics("METRICS", more: impl Args);

    /// `MODULE HELP`: Returns helpful text about the different subcommands.
    module_help("MODULE" "HELP");

    /// `MODULE LIST`: Returns all loaded modules.
    module_list("MODULE" "LIST");

    /// `MODULE LOAD path [arg ...]`: Loads a module.
    module_load("MODULE" "LOAD", path: impl Args, more: impl Args);

    /// `MODULE LOADEX path [CONFIG name value [name value ...]] [ARGS arg [arg ...]]`: Loads a module using extended parameters.
    module_loadex("MODULE" "LOADEX", path: impl Args, more: impl Args);

    /// `MODULE UNLOAD name`: Unloads a module.
    module_unload("MODULE" "UNLOAD", name: impl Args);

    /// `REPLICAOF host port`: Configures a server as replica of another, or promotes it to a master.
    replicaof("REPLICAOF", host: impl Args, port: impl Args);

    /// `ROLE`: Returns the replication role.
    role("ROLE");

    /// `SAVE`: Writes the databases to the RDB file and waits until that is done. All keys are in it as they were at one instant.
    save("SAVE");

    /// `SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]`: Shuts the server down, after saving where that is asked for or save points are set; the segment stays.
    shutdown("SHUTDOWN", more: impl Args);

    /// `SLAVEOF host port`: Sets a Redis server as a replica of another, or promotes it to being a master.
    slaveof("SLAVEOF", host: impl Args, port: impl Args);

    /// `SLOWLOG GET [count]`: Returns the slow log's entries.
    slowlog_get("SLOWLOG" "GET", more: impl Args);

    /// `SLOWLOG HELP`: Show helpful text about the different subcommands.
    slowlog_help("SLOWLOG" "HELP");

    /// `SLOWLOG LEN`: Returns the number of entries in the slow log.
    slowlog_len("SLOWLOG" "LEN");

    /// `SLOWLOG RESET`: Clears all entries from the slow log.
    slowlog_reset("SLOWLOG" "RESET");

    /// `SWAPDB index1 index2`: Swaps two databases.
    swapdb("SWAPDB", index1: impl Args, index2: impl Args);

    /// `TIME`: Returns the server time.
    time("TIME");
}
