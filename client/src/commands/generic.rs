//! Methods of the group `generic`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `COPY source destination [DB destination-db] [REPLACE]`: Copies the value of a key to a new key.
    copy("COPY", source: impl Args, destination: impl Args, more: impl Args);

    /// `DEL key [key ...]`: Deletes one or more keys.
    del("DEL", keys: impl Args);

    /// `DUMP key`: Returns a serialized representation of the value stored at a key.
    dump("DUMP", key: impl Args);

    /// `EXISTS key [key ...]`: Determines whether one or more keys exist.
    exists("EXISTS", keys: impl Args);

    /// `EXPIRE key seconds [NX|XX|GT|LT]`: Sets the expiration time of a key in seconds.
    expire("EXPIRE", key: impl Args, seconds: i64, more: impl Args);

    /// `EXPIREAT key unix-time-seconds [NX|XX|GT|LT]`: Sets the expiration time of a key to a Unix timestamp.
    expireat("EXPIREAT", key: impl Args, unix_time_seconds: i64, more: impl Args);

    /// `EXPIRETIME key`: Returns the expiration time of a key as a Unix timestamp.
    expiretime("EXPIRETIME", key: impl Args);

    /// `ITEM.VIEW key`: Returns a string as ITEM.GET does, and a value of another type as the command that returns all of it.
    item_view("ITEM.VIEW", key: impl Args);

    /// `KEYS pattern`: Returns all key names that match a pattern.
    keys("KEYS", pattern: impl Args);

    /// `MIGRATE host port key destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username password] [KEYS key [key ...]]`: Transfers keys to another server, and takes them away here.
    migrate("MIGRATE", host: impl Args, port: impl Args, key: impl Args, destination_db: i64, timeout: f64, more: impl Args);

    /// `MOVE key db`: Moves a key to another database.
    move_to("MOVE", key: impl Args, db: i64);

    /// `OBJECT ENCODING key`: Returns the internal encoding of a Redis object.
    object_encoding("OBJECT" "ENCODING", key: impl Args);

    /// `OBJECT FREQ key`: Returns the logarithmic access frequency counter of a Redis object.
    object_freq("OBJECT" "FREQ", key: impl Args);

    /// `OBJECT HELP`: Prints this help.
    object_help("OBJECT" "HELP");

    /// `OBJECT IDLETIME key`: Returns the time since the last access to a Redis object.
    object_idletime("OBJECT" "IDLETIME", key: impl Args);

    /// `OBJECT REFCOUNT key`: Returns the reference count of a value of a key.
    object_refcount("OBJECT" "REFCOUNT", key: impl Args);

    /// `PERSIST key`: Removes the expiration time of a key.
    persist("PERSIST", key: impl Args);

    /// `PEXPIRE key milliseconds [NX|XX|GT|LT]`: Sets the expiration time of a key in milliseconds.
    pexpire("PEXPIRE", key: impl Args, milliseconds: i64, more: impl Args);

    /// `PEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT]`: Sets the expiration time of a key to a Unix milliseconds timestamp.
    pexpireat("PEXPIREAT", key: impl Args, unix_time_milliseconds: i64, more: impl Args);

    /// `PEXPIRETIME key`: Returns the expiration time of a key as a Unix milliseconds timestamp.
    pexpiretime("PEXPIRETIME", key: impl Args);

    /// `PTTL key`: Returns the expiration time in milliseconds of a key.
    pttl("PTTL", key: impl Args);

    /// `RANDOMKEY`: Returns a random key name from the database.
    randomkey("RANDOMKEY");

    /// `RENAME key newkey`: Renames a key and overwrites the destination.
    rename("RENAME", key: impl Args, newkey: impl Args);

    /// `RENAMENX key newkey`: Renames a key only when the target key name doesn't exist.
    renamenx("RENAMENX", key: impl Args, newkey: impl Args);

    /// `RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`: Creates a key from the serialized representation of a value.
    restore("RESTORE", key: impl Args, ttl: impl Args, serialized_value: impl Args, more: impl Args);

    /// `RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`: An internal command for migrating keys in a cluster.
    restore_asking("RESTORE-ASKING", key: impl Args, ttl: impl Args, serialized_value: impl Args, more: impl Args);

    /// `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]`: Sorts the elements in a list, a set, or a sorted set, optionally storing the result.
    sort("SORT", key: impl Args, more: impl Args);

    /// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]`: Returns the sorted elements of a list, a set, or a sorted set.
    sort_ro("SORT_RO", key: impl Args, more: impl Args);

    /// `TOUCH key [key ...]`: Returns the number of existing keys out of those specified after updating the time they were last accessed.
    touch("TOUCH", keys: impl Args);

    /// `TTL key`: Returns the expiration time in seconds of a key.
    ttl("TTL", key: impl Args);

    /// `TYPE key`: Determines the type of value stored at a key.
    type_of("TYPE", key: impl Args);

    /// `UNLINK key [key ...]`: Asynchronously deletes one or more keys.
    unlink("UNLINK", keys: impl Args);

    /// `WAIT numreplicas timeout`: Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed.
    wait("WAIT", numreplicas: impl Args, timeout: f64);

    /// `WAITAOF numlocal numreplicas timeout`: Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master and/or replicas.
    waitaof("WAITAOF", numlocal: impl Args, numreplicas: impl Args, timeout: f64);
}
