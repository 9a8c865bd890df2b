/* A function for each command of Polder. Made from the command table by `cargo x docs`; do not edit.
 *
 * Arguments that every call has come first; what is optional, repeated or a choice follows as `more`, in the order in
 * which the command wants it. `reply` may be NULL; otherwise it gets the reply, to be released (polder_release).
 */
#ifndef POLDER_COMMANDS_H
#define POLDER_COMMANDS_H

#include "polder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- generic ---- */

/* COPY source destination [DB destination-db] [REPLACE]
 * Copies the value of a key to a new key. */
static inline polder_status polder_copy(polder_caller caller, polder_text source, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("COPY");
    args[1] = source;
    args[2] = destination;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* DEL key [key ...]
 * Deletes one or more keys. */
static inline polder_status polder_del(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("DEL");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* EXISTS key [key ...]
 * Determines whether one or more keys exist. */
static inline polder_status polder_exists(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("EXISTS");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* MOVE key db
 * Moves a key to another database. */
static inline polder_status polder_move(polder_caller caller, polder_text key, int64_t db, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits db_digits;
    args[0] = polder_string("MOVE");
    args[1] = key;
    args[2] = polder_integer(&db_digits, db);
    return polder_run(caller, 3, args, reply);
}

/* RENAME key newkey
 * Renames a key and overwrites the destination. */
static inline polder_status polder_rename(polder_caller caller, polder_text key, polder_text newkey, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("RENAME");
    args[1] = key;
    args[2] = newkey;
    return polder_run(caller, 3, args, reply);
}

/* RENAMENX key newkey
 * Renames a key only when the target key name doesn't exist. */
static inline polder_status polder_renamenx(polder_caller caller, polder_text key, polder_text newkey, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("RENAMENX");
    args[1] = key;
    args[2] = newkey;
    return polder_run(caller, 3, args, reply);
}

/* TOUCH key [key ...]
 * Returns the number of existing keys out of those specified after updating the time they were last accessed. */
static inline polder_status polder_touch(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("TOUCH");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* TYPE key
 * Determines the type of value stored at a key. */
static inline polder_status polder_type_of(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("TYPE");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* UNLINK key [key ...]
 * Asynchronously deletes one or more keys. */
static inline polder_status polder_unlink(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("UNLINK");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- generic ---- */

/* EXPIRE key seconds [NX|XX|GT|LT]
 * Sets the expiration time of a key in seconds. */
static inline polder_status polder_expire(polder_caller caller, polder_text key, int64_t seconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits seconds_digits;
    args[0] = polder_string("EXPIRE");
    args[1] = key;
    args[2] = polder_integer(&seconds_digits, seconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* EXPIREAT key unix-time-seconds [NX|XX|GT|LT]
 * Sets the expiration time of a key to a Unix timestamp. */
static inline polder_status polder_expireat(polder_caller caller, polder_text key, int64_t unix_time_seconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits unix_time_seconds_digits;
    args[0] = polder_string("EXPIREAT");
    args[1] = key;
    args[2] = polder_integer(&unix_time_seconds_digits, unix_time_seconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* EXPIRETIME key
 * Returns the expiration time of a key as a Unix timestamp. */
static inline polder_status polder_expiretime(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("EXPIRETIME");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* PERSIST key
 * Removes the expiration time of a key. */
static inline polder_status polder_persist(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PERSIST");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* PEXPIRE key milliseconds [NX|XX|GT|LT]
 * Sets the expiration time of a key in milliseconds. */
static inline polder_status polder_pexpire(polder_caller caller, polder_text key, int64_t milliseconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits milliseconds_digits;
    args[0] = polder_string("PEXPIRE");
    args[1] = key;
    args[2] = polder_integer(&milliseconds_digits, milliseconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* PEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT]
 * Sets the expiration time of a key to a Unix milliseconds timestamp. */
static inline polder_status polder_pexpireat(polder_caller caller, polder_text key, int64_t unix_time_milliseconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits unix_time_milliseconds_digits;
    args[0] = polder_string("PEXPIREAT");
    args[1] = key;
    args[2] = polder_integer(&unix_time_milliseconds_digits, unix_time_milliseconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* PEXPIRETIME key
 * Returns the expiration time of a key as a Unix milliseconds timestamp. */
static inline polder_status polder_pexpiretime(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PEXPIRETIME");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* PTTL key
 * Returns the expiration time in milliseconds of a key. */
static inline polder_status polder_pttl(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PTTL");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* TTL key
 * Returns the expiration time in seconds of a key. */
static inline polder_status polder_ttl(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("TTL");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* ---- generic ---- */

/* KEYS pattern
 * Returns all key names that match a pattern. */
static inline polder_status polder_keys(polder_caller caller, polder_text pattern, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("KEYS");
    args[1] = pattern;
    return polder_run(caller, 2, args, reply);
}

/* RANDOMKEY 
 * Returns a random key name from the database. */
static inline polder_status polder_randomkey(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("RANDOMKEY");
    return polder_run(caller, 1, args, reply);
}

/* SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]
 * Iterates over the key names in the database. */
static inline polder_status polder_scan(polder_caller caller, polder_text cursor, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCAN");
    args[1] = cursor;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- generic ---- */

/* OBJECT ENCODING key
 * Returns the internal encoding of a Redis object. */
static inline polder_status polder_object_encoding(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("OBJECT");
    args[1] = polder_string("ENCODING");
    args[2] = key;
    return polder_run(caller, 3, args, reply);
}

/* OBJECT FREQ key
 * Returns the logarithmic access frequency counter of a Redis object. */
static inline polder_status polder_object_freq(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("OBJECT");
    args[1] = polder_string("FREQ");
    args[2] = key;
    return polder_run(caller, 3, args, reply);
}

/* OBJECT IDLETIME key
 * Returns the time since the last access to a Redis object. */
static inline polder_status polder_object_idletime(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("OBJECT");
    args[1] = polder_string("IDLETIME");
    args[2] = key;
    return polder_run(caller, 3, args, reply);
}

/* OBJECT REFCOUNT key
 * Returns the reference count of a value of a key. */
static inline polder_status polder_object_refcount(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("OBJECT");
    args[1] = polder_string("REFCOUNT");
    args[2] = key;
    return polder_run(caller, 3, args, reply);
}

/* OBJECT HELP 
 * Prints this help. */
static inline polder_status polder_object_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("OBJECT");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* ---- generic ---- */

/* DUMP key
 * Returns a serialized representation of the value stored at a key. */
static inline polder_status polder_dump(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("DUMP");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
 * Creates a key from the serialized representation of a value. */
static inline polder_status polder_restore(polder_caller caller, polder_text key, polder_text ttl, polder_text serialized_value, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("RESTORE");
    args[1] = key;
    args[2] = ttl;
    args[3] = serialized_value;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]
 * An internal command for migrating keys in a cluster. */
static inline polder_status polder_restore_asking(polder_caller caller, polder_text key, polder_text ttl, polder_text serialized_value, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("RESTORE-ASKING");
    args[1] = key;
    args[2] = ttl;
    args[3] = serialized_value;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* MIGRATE host port key destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username password] [KEYS key [key ...]]
 * Transfers keys to another server, and takes them away here. */
static inline polder_status polder_migrate(polder_caller caller, polder_text host, polder_text port, polder_text key, int64_t destination_db, double timeout, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[6];
    polder_digits destination_db_digits;
    polder_digits timeout_digits;
    args[0] = polder_string("MIGRATE");
    args[1] = host;
    args[2] = port;
    args[3] = key;
    args[4] = polder_integer(&destination_db_digits, destination_db);
    args[5] = polder_double(&timeout_digits, timeout);
    return polder_run_more(caller, 6, args, more_count, more, reply);
}

/* ---- generic ---- */

/* ITEM.VIEW key
 * Returns a string as ITEM.GET does, and a value of another type as the command that returns all of it. */
static inline polder_status polder_item_view(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ITEM.VIEW");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* ---- generic ---- */

/* SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]
 * Sorts the elements in a list, a set, or a sorted set, optionally storing the result. */
static inline polder_status polder_sort(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SORT");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]
 * Returns the sorted elements of a list, a set, or a sorted set. */
static inline polder_status polder_sort_ro(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SORT_RO");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- generic ---- */

/* WAIT numreplicas timeout
 * Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed. */
static inline polder_status polder_wait(polder_caller caller, polder_text numreplicas, double timeout, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits timeout_digits;
    args[0] = polder_string("WAIT");
    args[1] = numreplicas;
    args[2] = polder_double(&timeout_digits, timeout);
    return polder_run(caller, 3, args, reply);
}

/* WAITAOF numlocal numreplicas timeout
 * Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master and/or replicas. */
static inline polder_status polder_waitaof(polder_caller caller, polder_text numlocal, polder_text numreplicas, double timeout, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits timeout_digits;
    args[0] = polder_string("WAITAOF");
    args[1] = numlocal;
    args[2] = numreplicas;
    args[3] = polder_double(&timeout_digits, timeout);
    return polder_run(caller, 4, args, reply);
}

/* ---- connection ---- */

/* AUTH [username] password
 * Authenticates the connection. */
static inline polder_status polder_auth(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("AUTH");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ECHO message
 * Returns the given string. */
static inline polder_status polder_echo(polder_caller caller, polder_text message, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ECHO");
    args[1] = message;
    return polder_run(caller, 2, args, reply);
}

/* HELLO [protover [AUTH username password] [SETNAME clientname]]
 * Handshakes with the server. */
static inline polder_status polder_hello(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("HELLO");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* PING [message]
 * Returns the server's liveliness response. */
static inline polder_status polder_ping(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("PING");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* QUIT [arg ...]
 * Closes the connection. */
static inline polder_status polder_quit(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("QUIT");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* RESET 
 * Resets the connection. */
static inline polder_status polder_reset(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("RESET");
    return polder_run(caller, 1, args, reply);
}

/* SELECT index
 * Changes the selected database. */
static inline polder_status polder_select(polder_caller caller, int64_t index, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits index_digits;
    args[0] = polder_string("SELECT");
    args[1] = polder_integer(&index_digits, index);
    return polder_run(caller, 2, args, reply);
}

/* ---- connection ---- */

/* CLIENT CACHING <YES|NO>
 * Instructs the server whether to track the keys in the next request. */
static inline polder_status polder_client_caching(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("CACHING");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT CAPA capability [capability ...]
 * Tells the server what the client can do. */
static inline polder_status polder_client_capa(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("CAPA");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT GETNAME 
 * Returns the name of the connection. */
static inline polder_status polder_client_getname(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("GETNAME");
    return polder_run(caller, 2, args, reply);
}

/* CLIENT GETREDIR 
 * Returns the client ID to which the connection's tracking notifications are redirected. */
static inline polder_status polder_client_getredir(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("GETREDIR");
    return polder_run(caller, 2, args, reply);
}

/* CLIENT HELP 
 * Prints this help. */
static inline polder_status polder_client_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* CLIENT ID 
 * Returns the unique client ID of the connection. */
static inline polder_status polder_client_id(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("ID");
    return polder_run(caller, 2, args, reply);
}

/* CLIENT IMPORT-SOURCE <ON|OFF>
 * Mark this client as an import source when server is in import mode. */
static inline polder_status polder_client_import_source(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("IMPORT-SOURCE");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT INFO 
 * Returns information about the connection. */
static inline polder_status polder_client_info(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("INFO");
    return polder_run(caller, 2, args, reply);
}

/* CLIENT KILL <ip:port|filter> [ID client-id [client-id ...]] [TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] [NOT-IP ip]
 * Terminates open connections. */
static inline polder_status polder_client_kill(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("KILL");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT LIST [TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [ID client-id [client-id ...]] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] [NOT-IP ip]
 * Lists open connections. */
static inline polder_status polder_client_list(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("LIST");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT NO-EVICT <ON|OFF>
 * Sets the client eviction mode of the connection. */
static inline polder_status polder_client_no_evict(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("NO-EVICT");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT NO-TOUCH <ON|OFF>
 * Controls whether commands sent by the client affect the LRU/LFU of accessed keys. */
static inline polder_status polder_client_no_touch(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("NO-TOUCH");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT PAUSE timeout [WRITE|ALL]
 * Suspends commands processing. */
static inline polder_status polder_client_pause(polder_caller caller, double timeout, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits timeout_digits;
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("PAUSE");
    args[2] = polder_double(&timeout_digits, timeout);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* CLIENT REPLY <ON|OFF|SKIP>
 * Instructs the server whether to reply to commands. */
static inline polder_status polder_client_reply(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("REPLY");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT SETINFO <LIB-NAME libname|LIB-VER libver>
 * Sets information specific to the client or connection. */
static inline polder_status polder_client_setinfo(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("SETINFO");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT SETNAME connection-name
 * Sets the connection name. */
static inline polder_status polder_client_setname(polder_caller caller, polder_text connection_name, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("SETNAME");
    args[2] = connection_name;
    return polder_run(caller, 3, args, reply);
}

/* CLIENT TRACKING <ON|OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
 * Controls server-assisted client-side caching for the connection. */
static inline polder_status polder_client_tracking(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("TRACKING");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLIENT TRACKINGINFO 
 * Returns information about server-assisted client-side caching for the connection. */
static inline polder_status polder_client_trackinginfo(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("TRACKINGINFO");
    return polder_run(caller, 2, args, reply);
}

/* CLIENT UNBLOCK client-id [TIMEOUT|ERROR]
 * Unblocks a client blocked by a blocking command from a different connection. */
static inline polder_status polder_client_unblock(polder_caller caller, int64_t client_id, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits client_id_digits;
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("UNBLOCK");
    args[2] = polder_integer(&client_id_digits, client_id);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* CLIENT UNPAUSE 
 * Resumes processing commands from paused clients. */
static inline polder_status polder_client_unpause(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLIENT");
    args[1] = polder_string("UNPAUSE");
    return polder_run(caller, 2, args, reply);
}

/* ---- cluster ---- */

/* ASKING 
 * Signals that a cluster client is following an -ASK redirect. */
static inline polder_status polder_asking(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("ASKING");
    return polder_run(caller, 1, args, reply);
}

/* READONLY 
 * Enables read-only queries for a connection to a Redis Cluster replica node. */
static inline polder_status polder_readonly(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("READONLY");
    return polder_run(caller, 1, args, reply);
}

/* READWRITE 
 * Enables read-write queries for a connection to a Redis Cluster replica node. */
static inline polder_status polder_readwrite(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("READWRITE");
    return polder_run(caller, 1, args, reply);
}

/* ---- cluster ---- */

/* CLUSTER ADDSLOTS slot [slot ...]
 * Assign new hash slots to receiving node. */
static inline polder_status polder_cluster_addslots(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("ADDSLOTS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]
 * Assign new hash slots to receiving node. */
static inline polder_status polder_cluster_addslotsrange(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("ADDSLOTSRANGE");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLUSTER BUMPEPOCH 
 * Advance the cluster config epoch. */
static inline polder_status polder_cluster_bumpepoch(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("BUMPEPOCH");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER COUNT-FAILURE-REPORTS node-id
 * Return the number of failure reports active for a given node. */
static inline polder_status polder_cluster_count_failure_reports(polder_caller caller, polder_text node_id, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("COUNT-FAILURE-REPORTS");
    args[2] = node_id;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER COUNTKEYSINSLOT slot
 * Return the number of local keys in the specified hash slot. */
static inline polder_status polder_cluster_countkeysinslot(polder_caller caller, polder_text slot, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("COUNTKEYSINSLOT");
    args[2] = slot;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER DELSLOTS slot [slot ...]
 * Set hash slots as unbound in receiving node. */
static inline polder_status polder_cluster_delslots(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("DELSLOTS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]
 * Set hash slots as unbound in receiving node. */
static inline polder_status polder_cluster_delslotsrange(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("DELSLOTSRANGE");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLUSTER FAILOVER [FORCE|TAKEOVER]
 * Forces a replica to perform a manual failover of its master. */
static inline polder_status polder_cluster_failover(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("FAILOVER");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLUSTER FLUSHSLOTS 
 * Delete a node's own slots information. */
static inline polder_status polder_cluster_flushslots(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("FLUSHSLOTS");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER FORGET node-id
 * Remove a node from the nodes table. */
static inline polder_status polder_cluster_forget(polder_caller caller, polder_text node_id, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("FORGET");
    args[2] = node_id;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER GETKEYSINSLOT slot count
 * Return local key names in the specified hash slot. */
static inline polder_status polder_cluster_getkeysinslot(polder_caller caller, polder_text slot, int64_t count, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits count_digits;
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("GETKEYSINSLOT");
    args[2] = slot;
    args[3] = polder_integer(&count_digits, count);
    return polder_run(caller, 4, args, reply);
}

/* CLUSTER HELP 
 * Prints this help. */
static inline polder_status polder_cluster_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER INFO 
 * Provides info about Redis Cluster node state. */
static inline polder_status polder_cluster_info(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("INFO");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER KEYSLOT name
 * Returns the hash slot of the specified key. */
static inline polder_status polder_cluster_keyslot(polder_caller caller, polder_text name, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("KEYSLOT");
    args[2] = name;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER LINKS 
 * Returns a list of all TCP links to and from peer nodes in cluster. */
static inline polder_status polder_cluster_links(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("LINKS");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER MEET ip port [cluster-bus-port]
 * Force a node cluster to handshake with another node. */
static inline polder_status polder_cluster_meet(polder_caller caller, polder_text ip, polder_text port, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("MEET");
    args[2] = ip;
    args[3] = port;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* CLUSTER MYID 
 * Return the node id. */
static inline polder_status polder_cluster_myid(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("MYID");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER MYSHARDID 
 * Returns the shard ID of a node. */
static inline polder_status polder_cluster_myshardid(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("MYSHARDID");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER NODES 
 * Get Cluster config for the node. */
static inline polder_status polder_cluster_nodes(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("NODES");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER REPLICAS node-id
 * List replica nodes of the specified master node. */
static inline polder_status polder_cluster_replicas(polder_caller caller, polder_text node_id, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("REPLICAS");
    args[2] = node_id;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER REPLICATE node-id
 * Reconfigure a node as a replica of the specified master node. */
static inline polder_status polder_cluster_replicate(polder_caller caller, polder_text node_id, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("REPLICATE");
    args[2] = node_id;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER RESET [HARD|SOFT]
 * Reset a Redis Cluster node. */
static inline polder_status polder_cluster_reset(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("RESET");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CLUSTER SAVECONFIG 
 * Forces the node to save cluster state on disk. */
static inline polder_status polder_cluster_saveconfig(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("SAVECONFIG");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER SET-CONFIG-EPOCH config-epoch
 * Set the configuration epoch in a new node. */
static inline polder_status polder_cluster_set_config_epoch(polder_caller caller, polder_text config_epoch, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("SET-CONFIG-EPOCH");
    args[2] = config_epoch;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER SETSLOT slot <IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE>
 * Bind a hash slot to a specific node. */
static inline polder_status polder_cluster_setslot(polder_caller caller, polder_text slot, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("SETSLOT");
    args[2] = slot;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* CLUSTER SHARDS 
 * Get array of cluster slots to node mappings. */
static inline polder_status polder_cluster_shards(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("SHARDS");
    return polder_run(caller, 2, args, reply);
}

/* CLUSTER SLAVES node-id
 * List replica nodes of the specified master node. */
static inline polder_status polder_cluster_slaves(polder_caller caller, polder_text node_id, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("SLAVES");
    args[2] = node_id;
    return polder_run(caller, 3, args, reply);
}

/* CLUSTER SLOTS 
 * Get array of Cluster slot to node mappings. */
static inline polder_status polder_cluster_slots(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CLUSTER");
    args[1] = polder_string("SLOTS");
    return polder_run(caller, 2, args, reply);
}

/* ---- server ---- */

/* DBSIZE 
 * Returns the number of keys in the database. */
static inline polder_status polder_dbsize(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("DBSIZE");
    return polder_run(caller, 1, args, reply);
}

/* FLUSHALL [ASYNC|SYNC]
 * Removes all keys from all databases. */
static inline polder_status polder_flushall(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("FLUSHALL");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* FLUSHDB [ASYNC|SYNC]
 * Removes all keys from the current database. */
static inline polder_status polder_flushdb(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("FLUSHDB");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SWAPDB index1 index2
 * Swaps two databases. */
static inline polder_status polder_swapdb(polder_caller caller, polder_text index1, polder_text index2, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SWAPDB");
    args[1] = index1;
    args[2] = index2;
    return polder_run(caller, 3, args, reply);
}

/* TIME 
 * Returns the server time. */
static inline polder_status polder_time(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("TIME");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* ITEM.FLUSH [EX seconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]
 * Removes all keys from the current database, at once or at a later moment. A later call replaces the moment; one without a moment forgets it, and so do FLUSHDB and FLUSHALL. A server has to be there at the moment, or the next one does it when it starts. */
static inline polder_status polder_item_flush(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("ITEM.FLUSH");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- string ---- */

/* APPEND key value
 * Appends a string to the value of a key. Creates the key if it doesn't exist. */
static inline polder_status polder_append(polder_caller caller, polder_text key, polder_text value, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("APPEND");
    args[1] = key;
    args[2] = value;
    return polder_run(caller, 3, args, reply);
}

/* DECR key
 * Decrements the integer value of a key by one. */
static inline polder_status polder_decr(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("DECR");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* DECRBY key decrement
 * Decrements a number from the integer value of a key. */
static inline polder_status polder_decrby(polder_caller caller, polder_text key, int64_t decrement, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits decrement_digits;
    args[0] = polder_string("DECRBY");
    args[1] = key;
    args[2] = polder_integer(&decrement_digits, decrement);
    return polder_run(caller, 3, args, reply);
}

/* DELEX key [IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest]
 * Deletes a key, or only if the string that it holds, or the digest of that, is equal to another or is not. */
static inline polder_status polder_delex(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("DELEX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* DELIFEQ key value
 * Deletes a key if it holds this string: a command of Valkey, which Redis has as `DELEX` with `IFEQ`. */
static inline polder_status polder_delifeq(polder_caller caller, polder_text key, polder_text value, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("DELIFEQ");
    args[1] = key;
    args[2] = value;
    return polder_run(caller, 3, args, reply);
}

/* DIGEST key
 * Returns the digest of a string: its XXH3 hash of 64 bits, as 16 hexadecimal digits. */
static inline polder_status polder_digest(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("DIGEST");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* GET key
 * Returns the string value of a key. */
static inline polder_status polder_get(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GET");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* GETDEL key
 * Returns the string value of a key after deleting the key. */
static inline polder_status polder_getdel(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GETDEL");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* GETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]
 * Returns the string value of a key after setting its expiration time. */
static inline polder_status polder_getex(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GETEX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* GETRANGE key start end
 * Returns a substring of the string stored at a key. */
static inline polder_status polder_getrange(polder_caller caller, polder_text key, int64_t start, int64_t end, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits start_digits;
    polder_digits end_digits;
    args[0] = polder_string("GETRANGE");
    args[1] = key;
    args[2] = polder_integer(&start_digits, start);
    args[3] = polder_integer(&end_digits, end);
    return polder_run(caller, 4, args, reply);
}

/* GETSET key value
 * Returns the previous string value of a key after setting it to a new value. */
static inline polder_status polder_getset(polder_caller caller, polder_text key, polder_text value, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("GETSET");
    args[1] = key;
    args[2] = value;
    return polder_run(caller, 3, args, reply);
}

/* INCR key
 * Increments the integer value of a key by one. */
static inline polder_status polder_incr(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("INCR");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* INCRBY key increment
 * Increments the integer value of a key by a number. */
static inline polder_status polder_incrby(polder_caller caller, polder_text key, int64_t increment, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits increment_digits;
    args[0] = polder_string("INCRBY");
    args[1] = key;
    args[2] = polder_integer(&increment_digits, increment);
    return polder_run(caller, 3, args, reply);
}

/* INCRBYFLOAT key increment
 * Increments the number in a key by a number that need not be whole: in decimal, unless number-mode says otherwise. */
static inline polder_status polder_incrbyfloat(polder_caller caller, polder_text key, int64_t increment, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits increment_digits;
    args[0] = polder_string("INCRBYFLOAT");
    args[1] = key;
    args[2] = polder_integer(&increment_digits, increment);
    return polder_run(caller, 3, args, reply);
}

/* INCREX key [BYFLOAT float|BYINT integer] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] [ENX]
 * Increments the number in a key by a number within bounds, and sets its expiration time. */
static inline polder_status polder_increx(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("INCREX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]
 * Finds the longest common substring. */
static inline polder_status polder_lcs(polder_caller caller, polder_text key1, polder_text key2, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("LCS");
    args[1] = key1;
    args[2] = key2;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* MGET key [key ...]
 * Returns the string values of one or more keys. */
static inline polder_status polder_mget(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("MGET");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* MSET key value [key value ...]
 * Creates or modifies the string values of one or more keys, all at once. */
static inline polder_status polder_mset(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("MSET");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* MSETEX numkeys key value [key value ...] [NX|XX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]
 * Sets the string values of one or more keys and one expiry for all of them, all at once, and only if none of them exists or if all do. */
static inline polder_status polder_msetex(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("MSETEX");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* MSETNX key value [key value ...]
 * Creates the string values of one or more keys, all at once, when none of the keys exists. */
static inline polder_status polder_msetnx(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("MSETNX");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* PSETEX key milliseconds value
 * Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist. */
static inline polder_status polder_psetex(polder_caller caller, polder_text key, int64_t milliseconds, polder_text value, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits milliseconds_digits;
    args[0] = polder_string("PSETEX");
    args[1] = key;
    args[2] = polder_integer(&milliseconds_digits, milliseconds);
    args[3] = value;
    return polder_run(caller, 4, args, reply);
}

/* SET key value [NX|XX|IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]
 * Sets the string value of a key, ignoring its type. The key is created if it doesn't exist. */
static inline polder_status polder_set(polder_caller caller, polder_text key, polder_text value, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SET");
    args[1] = key;
    args[2] = value;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* SETEX key seconds value
 * Sets the string value and expiration time of a key. Creates the key if it doesn't exist. */
static inline polder_status polder_setex(polder_caller caller, polder_text key, int64_t seconds, polder_text value, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits seconds_digits;
    args[0] = polder_string("SETEX");
    args[1] = key;
    args[2] = polder_integer(&seconds_digits, seconds);
    args[3] = value;
    return polder_run(caller, 4, args, reply);
}

/* SETNX key value
 * Sets the string value of a key only when the key doesn't exist. */
static inline polder_status polder_setnx(polder_caller caller, polder_text key, polder_text value, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SETNX");
    args[1] = key;
    args[2] = value;
    return polder_run(caller, 3, args, reply);
}

/* SETRANGE key offset value
 * Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist. */
static inline polder_status polder_setrange(polder_caller caller, polder_text key, int64_t offset, polder_text value, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits offset_digits;
    args[0] = polder_string("SETRANGE");
    args[1] = key;
    args[2] = polder_integer(&offset_digits, offset);
    args[3] = value;
    return polder_run(caller, 4, args, reply);
}

/* STRLEN key
 * Returns the length of a string value. */
static inline polder_status polder_strlen(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("STRLEN");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* SUBSTR key start end
 * Returns a substring from a string value: the old name of GETRANGE. */
static inline polder_status polder_substr(polder_caller caller, polder_text key, int64_t start, int64_t end, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits start_digits;
    polder_digits end_digits;
    args[0] = polder_string("SUBSTR");
    args[1] = key;
    args[2] = polder_integer(&start_digits, start);
    args[3] = polder_integer(&end_digits, end);
    return polder_run(caller, 4, args, reply);
}

/* ---- string ---- */

/* ITEM.CAT key value <APPEND|PREPEND> [CAS cas] [NEWCAS new-cas] [CREATE] [FLAGS flags] [EX seconds|EXAT unix-time-seconds]
 * Writes bytes behind the value of an item, or in front of it. CREATE makes the item where there is none, with these flags and this expiry. */
static inline polder_status polder_item_cat(polder_caller caller, polder_text key, polder_text value, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ITEM.CAT");
    args[1] = key;
    args[2] = value;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ITEM.DEL key [CAS cas] [NEWCAS new-cas] [STALE] [EMPTY] [EX seconds|EXAT unix-time-seconds|PERSIST]
 * Deletes an item. STALE keeps it and marks it as stale, with a new expiry if one is given; EMPTY keeps it without its value and flags. */
static inline polder_status polder_item_del(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ITEM.DEL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ITEM.EXP key <EX seconds|EXAT unix-time-seconds|PERSIST>
 * Sets the expiry of an item, or removes it. */
static inline polder_status polder_item_exp(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ITEM.EXP");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ITEM.GAT key [PEEK] [HEAD] [NOWIN] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds] [RECACHE seconds] [NEWCAS new-cas]
 * Returns an item and says which client is to renew it. VIVIFY makes an empty item where there is none; RECACHE asks one client to renew an item that expires sooner; where EX, EXAT or PERSIST stand in front of it, it looks at the expiry that they give. NOWIN leaves it to another client to renew the item. NEWCAS is for an item that VIVIFY makes. */
static inline polder_status polder_item_gat(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ITEM.GAT");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ITEM.GET key [PEEK] [HEAD]
 * Returns a string with its flags, CAS and time to live. PEEK does not count as an access, HEAD leaves the value out. */
static inline polder_status polder_item_get(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ITEM.GET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ITEM.INC key delta [DOWN] [CAS cas] [NEWCAS new-cas] [CREATE initial] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds]
 * Adds to a number of 64 bits without a sign, which wraps, or subtracts from it, down to 0. CREATE makes an item with this number where there is none, which lives as long as VIVIFY says. */
static inline polder_status polder_item_inc(polder_caller caller, polder_text key, polder_text delta, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ITEM.INC");
    args[1] = key;
    args[2] = delta;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ITEM.MARK key [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [STALE] [WON]
 * Gives an item these flags, this chosen CAS, this content type and these marks, in the place of all that it had; value and expiry stay. It is what a change log says by ECHO. */
static inline polder_status polder_item_mark(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ITEM.MARK");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ITEM.SET key value [ADD|REPLACE|CAS cas] [STALE] [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]
 * Sets a string with its flags and expiry: always, or only if the key is absent or present, or has this CAS. With STALE, a value with an older CAS is stored and marked as stale. */
static inline polder_status polder_item_set(polder_caller caller, polder_text key, polder_text value, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ITEM.SET");
    args[1] = key;
    args[2] = value;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ---- bitmap ---- */

/* BITCOUNT key [start [end [BYTE|BIT]]]
 * Counts the number of set bits (population counting) in a string. */
static inline polder_status polder_bitcount(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("BITCOUNT");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* BITFIELD key [GET encoding offset|[OVERFLOW <WRAP|SAT|FAIL>] <SET encoding offset value|INCRBY encoding offset increment> ...]
 * Performs arbitrary bitfield integer operations on strings. */
static inline polder_status polder_bitfield(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("BITFIELD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]
 * Performs arbitrary read-only bitfield integer operations on strings. */
static inline polder_status polder_bitfield_ro(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("BITFIELD_RO");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* BITOP <AND|OR|XOR|NOT> destkey key [key ...]
 * Performs bitwise operations on multiple strings, and stores the result. */
static inline polder_status polder_bitop(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BITOP");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* BITPOS key bit [start [end [BYTE|BIT]]]
 * Finds the first set (1) or clear (0) bit in a string. */
static inline polder_status polder_bitpos(polder_caller caller, polder_text key, polder_text bit, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("BITPOS");
    args[1] = key;
    args[2] = bit;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* GETBIT key offset
 * Returns a bit value by offset. */
static inline polder_status polder_getbit(polder_caller caller, polder_text key, int64_t offset, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits offset_digits;
    args[0] = polder_string("GETBIT");
    args[1] = key;
    args[2] = polder_integer(&offset_digits, offset);
    return polder_run(caller, 3, args, reply);
}

/* SETBIT key offset value
 * Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist. */
static inline polder_status polder_setbit(polder_caller caller, polder_text key, int64_t offset, polder_text value, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits offset_digits;
    args[0] = polder_string("SETBIT");
    args[1] = key;
    args[2] = polder_integer(&offset_digits, offset);
    args[3] = value;
    return polder_run(caller, 4, args, reply);
}

/* ---- list ---- */

/* BLMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout
 * Pops an element from a list, pushes it to another list and returns it. Waits until there is one. */
static inline polder_status polder_blmove(polder_caller caller, polder_text source, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("BLMOVE");
    args[1] = source;
    args[2] = destination;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* BLMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout [<COUNT count|EXACTLY exactly> <OBO|BULK>]
 * Moves up to a number of elements, or exactly that many, from one list to another and returns them. Waits until there are any, or enough. */
static inline polder_status polder_blmovem(polder_caller caller, polder_text source, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("BLMOVEM");
    args[1] = source;
    args[2] = destination;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* BLMPOP timeout numkeys key [key ...] <LEFT|RIGHT> [COUNT count]
 * Pops the first elements from one of several lists. Waits until there are some. */
static inline polder_status polder_blmpop(polder_caller caller, double timeout, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits timeout_digits;
    polder_digits numkeys_digits;
    args[0] = polder_string("BLMPOP");
    args[1] = polder_double(&timeout_digits, timeout);
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* BLPOP key [key ...] timeout
 * Removes and returns the first element of one of several lists. Waits until there is one. */
static inline polder_status polder_blpop(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BLPOP");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* BRPOP key [key ...] timeout
 * Removes and returns the last element of one of several lists. Waits until there is one. */
static inline polder_status polder_brpop(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BRPOP");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* BRPOPLPUSH source destination timeout
 * Pops an element from a list, pushes it to another list and returns it. Waits until there is one. */
static inline polder_status polder_brpoplpush(polder_caller caller, polder_text source, polder_text destination, double timeout, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits timeout_digits;
    args[0] = polder_string("BRPOPLPUSH");
    args[1] = source;
    args[2] = destination;
    args[3] = polder_double(&timeout_digits, timeout);
    return polder_run(caller, 4, args, reply);
}

/* LINDEX key index
 * Returns an element from a list by its index. */
static inline polder_status polder_lindex(polder_caller caller, polder_text key, int64_t index, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits index_digits;
    args[0] = polder_string("LINDEX");
    args[1] = key;
    args[2] = polder_integer(&index_digits, index);
    return polder_run(caller, 3, args, reply);
}

/* LINSERT key <BEFORE|AFTER> pivot element
 * Inserts an element before or after another element in a list. */
static inline polder_status polder_linsert(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LINSERT");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LLEN key
 * Returns the length of a list. */
static inline polder_status polder_llen(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LLEN");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* LMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT>
 * Returns an element after popping it from one list and pushing it to another. */
static inline polder_status polder_lmove(polder_caller caller, polder_text source, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("LMOVE");
    args[1] = source;
    args[2] = destination;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* LMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> [<COUNT count|EXACTLY exactly> <OBO|BULK>]
 * Moves up to a number of elements, or exactly that many, from one list to another and returns them. */
static inline polder_status polder_lmovem(polder_caller caller, polder_text source, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("LMOVEM");
    args[1] = source;
    args[2] = destination;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* LMPOP numkeys key [key ...] <LEFT|RIGHT> [COUNT count]
 * Returns multiple elements from a list after removing them. */
static inline polder_status polder_lmpop(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("LMPOP");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LPOP key [count]
 * Returns and removes one or more elements from the beginning of a list. */
static inline polder_status polder_lpop(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LPOP");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]
 * Returns the index of matching elements in a list. */
static inline polder_status polder_lpos(polder_caller caller, polder_text key, polder_text element, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("LPOS");
    args[1] = key;
    args[2] = element;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* LPUSH key element [element ...]
 * Prepends one or more elements to a list. Creates the key if it doesn't exist. */
static inline polder_status polder_lpush(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LPUSH");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LPUSHX key element [element ...]
 * Prepends one or more elements to a list only when the list exists. */
static inline polder_status polder_lpushx(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LPUSHX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LRANGE key start stop
 * Returns a range of elements from a list. */
static inline polder_status polder_lrange(polder_caller caller, polder_text key, int64_t start, int64_t stop, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits start_digits;
    polder_digits stop_digits;
    args[0] = polder_string("LRANGE");
    args[1] = key;
    args[2] = polder_integer(&start_digits, start);
    args[3] = polder_integer(&stop_digits, stop);
    return polder_run(caller, 4, args, reply);
}

/* LREM key count element
 * Removes elements from a list. Deletes the list if the last element was removed. */
static inline polder_status polder_lrem(polder_caller caller, polder_text key, int64_t count, polder_text element, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits count_digits;
    args[0] = polder_string("LREM");
    args[1] = key;
    args[2] = polder_integer(&count_digits, count);
    args[3] = element;
    return polder_run(caller, 4, args, reply);
}

/* LSET key index element
 * Sets the value of an element in a list by its index. */
static inline polder_status polder_lset(polder_caller caller, polder_text key, int64_t index, polder_text element, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits index_digits;
    args[0] = polder_string("LSET");
    args[1] = key;
    args[2] = polder_integer(&index_digits, index);
    args[3] = element;
    return polder_run(caller, 4, args, reply);
}

/* LTRIM key start stop
 * Removes elements from both ends of a list. Deletes the list if all elements were trimmed. */
static inline polder_status polder_ltrim(polder_caller caller, polder_text key, int64_t start, int64_t stop, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits start_digits;
    polder_digits stop_digits;
    args[0] = polder_string("LTRIM");
    args[1] = key;
    args[2] = polder_integer(&start_digits, start);
    args[3] = polder_integer(&stop_digits, stop);
    return polder_run(caller, 4, args, reply);
}

/* RPOP key [count]
 * Returns and removes one or more elements from the end of a list. */
static inline polder_status polder_rpop(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("RPOP");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* RPOPLPUSH source destination
 * Returns the last element of a list after removing and pushing it to another list. */
static inline polder_status polder_rpoplpush(polder_caller caller, polder_text source, polder_text destination, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("RPOPLPUSH");
    args[1] = source;
    args[2] = destination;
    return polder_run(caller, 3, args, reply);
}

/* RPUSH key element [element ...]
 * Appends one or more elements to a list. Creates the key if it doesn't exist. */
static inline polder_status polder_rpush(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("RPUSH");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* RPUSHX key element [element ...]
 * Appends one or more elements to a list only when the list exists. */
static inline polder_status polder_rpushx(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("RPUSHX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- hash ---- */

/* HDEL key field [field ...]
 * Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain. */
static inline polder_status polder_hdel(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HDEL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HEXISTS key field
 * Determines whether a field exists in a hash. */
static inline polder_status polder_hexists(polder_caller caller, polder_text key, polder_text field, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("HEXISTS");
    args[1] = key;
    args[2] = field;
    return polder_run(caller, 3, args, reply);
}

/* HEXPIRE key seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]
 * Sets the expiration time of hash fields in seconds. */
static inline polder_status polder_hexpire(polder_caller caller, polder_text key, int64_t seconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits seconds_digits;
    args[0] = polder_string("HEXPIRE");
    args[1] = key;
    args[2] = polder_integer(&seconds_digits, seconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* HEXPIREAT key unix-time-seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]
 * Sets the expiration time of hash fields to a Unix timestamp in seconds. */
static inline polder_status polder_hexpireat(polder_caller caller, polder_text key, int64_t unix_time_seconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits unix_time_seconds_digits;
    args[0] = polder_string("HEXPIREAT");
    args[1] = key;
    args[2] = polder_integer(&unix_time_seconds_digits, unix_time_seconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* HEXPIRETIME key FIELDS numfields field [field ...]
 * Returns the expiration time of hash fields as a Unix timestamp in seconds. */
static inline polder_status polder_hexpiretime(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HEXPIRETIME");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HGET key field
 * Returns the value of a field in a hash. */
static inline polder_status polder_hget(polder_caller caller, polder_text key, polder_text field, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("HGET");
    args[1] = key;
    args[2] = field;
    return polder_run(caller, 3, args, reply);
}

/* HGETALL key
 * Returns all fields and values in a hash. */
static inline polder_status polder_hgetall(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HGETALL");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* HGETDEL key FIELDS numfields field [field ...]
 * Returns the values of hash fields and deletes these. Deletes the hash if no fields remain. */
static inline polder_status polder_hgetdel(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HGETDEL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HGETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] FIELDS numfields field [field ...]
 * Returns the values of hash fields and sets their expiration time, or removes it. */
static inline polder_status polder_hgetex(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HGETEX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HIMPORT SET key fieldset-name value [value ...]
 * Makes a hash of the fields that HIMPORT PREPARE has named and of these values, in the place of one that is there. */
static inline polder_status polder_himport_set(polder_caller caller, polder_text key, polder_text fieldset_name, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("HIMPORT");
    args[1] = polder_string("SET");
    args[2] = key;
    args[3] = fieldset_name;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* HINCRBY key field increment
 * Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist. */
static inline polder_status polder_hincrby(polder_caller caller, polder_text key, polder_text field, int64_t increment, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits increment_digits;
    args[0] = polder_string("HINCRBY");
    args[1] = key;
    args[2] = field;
    args[3] = polder_integer(&increment_digits, increment);
    return polder_run(caller, 4, args, reply);
}

/* HINCRBYFLOAT key field increment
 * Increments the number in a field by a number that need not be whole: in decimal, unless number-mode says otherwise. */
static inline polder_status polder_hincrbyfloat(polder_caller caller, polder_text key, polder_text field, int64_t increment, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits increment_digits;
    args[0] = polder_string("HINCRBYFLOAT");
    args[1] = key;
    args[2] = field;
    args[3] = polder_integer(&increment_digits, increment);
    return polder_run(caller, 4, args, reply);
}

/* HKEYS key
 * Returns all fields in a hash. */
static inline polder_status polder_hkeys(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HKEYS");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* HLEN key
 * Returns the number of fields in a hash. */
static inline polder_status polder_hlen(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HLEN");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* HMGET key field [field ...]
 * Returns the values of hash fields, null for those that there are not. */
static inline polder_status polder_hmget(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HMGET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HMSET key field value [field value ...]
 * Sets the values of multiple fields. */
static inline polder_status polder_hmset(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HMSET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HPERSIST key FIELDS numfields field [field ...]
 * Removes the expiration time of hash fields. */
static inline polder_status polder_hpersist(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HPERSIST");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HPEXPIRE key milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]
 * Sets the expiration time of hash fields in milliseconds. */
static inline polder_status polder_hpexpire(polder_caller caller, polder_text key, int64_t milliseconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits milliseconds_digits;
    args[0] = polder_string("HPEXPIRE");
    args[1] = key;
    args[2] = polder_integer(&milliseconds_digits, milliseconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* HPEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]
 * Sets the expiration time of hash fields to a Unix timestamp in milliseconds. */
static inline polder_status polder_hpexpireat(polder_caller caller, polder_text key, int64_t unix_time_milliseconds, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits unix_time_milliseconds_digits;
    args[0] = polder_string("HPEXPIREAT");
    args[1] = key;
    args[2] = polder_integer(&unix_time_milliseconds_digits, unix_time_milliseconds);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* HPEXPIRETIME key FIELDS numfields field [field ...]
 * Returns the expiration time of hash fields as a Unix timestamp in milliseconds. */
static inline polder_status polder_hpexpiretime(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HPEXPIRETIME");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HPTTL key FIELDS numfields field [field ...]
 * Returns the expiration time of hash fields in milliseconds. */
static inline polder_status polder_hpttl(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HPTTL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HRANDFIELD key [count [WITHVALUES]]
 * Returns one or more random fields from a hash. */
static inline polder_status polder_hrandfield(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HRANDFIELD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]
 * Iterates over fields and values of a hash. */
static inline polder_status polder_hscan(polder_caller caller, polder_text key, polder_text cursor, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("HSCAN");
    args[1] = key;
    args[2] = cursor;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* HSET key field value [field value ...]
 * Creates or modifies the value of a field in a hash. */
static inline polder_status polder_hset(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HSET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HSETEX key [NX|XX] [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL] FIELDS numfields field value [field value ...]
 * Sets the values of hash fields with an expiration time. */
static inline polder_status polder_hsetex(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HSETEX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HSETNX key field value
 * Sets the value of a field in a hash only when the field doesn't exist. */
static inline polder_status polder_hsetnx(polder_caller caller, polder_text key, polder_text field, polder_text value, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("HSETNX");
    args[1] = key;
    args[2] = field;
    args[3] = value;
    return polder_run(caller, 4, args, reply);
}

/* HSTRLEN key field
 * Returns the length of the value of a field. */
static inline polder_status polder_hstrlen(polder_caller caller, polder_text key, polder_text field, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("HSTRLEN");
    args[1] = key;
    args[2] = field;
    return polder_run(caller, 3, args, reply);
}

/* HTTL key FIELDS numfields field [field ...]
 * Returns the expiration time of hash fields in seconds. */
static inline polder_status polder_httl(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HTTL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HVALS key
 * Returns all values in a hash. */
static inline polder_status polder_hvals(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HVALS");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* HIMPORT DISCARD fieldset-name
 * Forgets a fieldset of the connection. */
static inline polder_status polder_himport_discard(polder_caller caller, polder_text fieldset_name, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("HIMPORT");
    args[1] = polder_string("DISCARD");
    args[2] = fieldset_name;
    return polder_run(caller, 3, args, reply);
}

/* HIMPORT DISCARDALL 
 * Forgets all fieldsets of the connection. */
static inline polder_status polder_himport_discardall(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HIMPORT");
    args[1] = polder_string("DISCARDALL");
    return polder_run(caller, 2, args, reply);
}

/* HIMPORT PREPARE fieldset-name field [field ...]
 * Names the fields for which later calls of HIMPORT SET on the connection bring the values. */
static inline polder_status polder_himport_prepare(polder_caller caller, polder_text fieldset_name, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("HIMPORT");
    args[1] = polder_string("PREPARE");
    args[2] = fieldset_name;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ---- set ---- */

/* SADD key member [member ...]
 * Adds one or more members to a set. Creates the key if it doesn't exist. */
static inline polder_status polder_sadd(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SADD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SCARD key
 * Returns the number of members in a set. */
static inline polder_status polder_scard(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCARD");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* SDIFF key [key ...]
 * Returns the difference of multiple sets. */
static inline polder_status polder_sdiff(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SDIFF");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SDIFFCARD numkeys key [key ...] [LIMIT limit]
 * Returns the number of members of the difference of multiple sets. */
static inline polder_status polder_sdiffcard(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("SDIFFCARD");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SDIFFSTORE destination key [key ...]
 * Stores the difference of multiple sets in a key. */
static inline polder_status polder_sdiffstore(polder_caller caller, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SDIFFSTORE");
    args[1] = destination;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SINTER key [key ...]
 * Returns the intersect of multiple sets. */
static inline polder_status polder_sinter(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SINTER");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SINTERCARD numkeys key [key ...] [LIMIT limit]
 * Returns the number of members of the intersect of multiple sets. */
static inline polder_status polder_sintercard(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("SINTERCARD");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SINTERSTORE destination key [key ...]
 * Stores the intersect of multiple sets in a key. */
static inline polder_status polder_sinterstore(polder_caller caller, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SINTERSTORE");
    args[1] = destination;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SISMEMBER key member
 * Determines whether a member belongs to a set. */
static inline polder_status polder_sismember(polder_caller caller, polder_text key, polder_text member, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SISMEMBER");
    args[1] = key;
    args[2] = member;
    return polder_run(caller, 3, args, reply);
}

/* SMEMBERS key
 * Returns all members of a set. */
static inline polder_status polder_smembers(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SMEMBERS");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* SMISMEMBER key member [member ...]
 * Determines whether multiple members belong to a set. */
static inline polder_status polder_smismember(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SMISMEMBER");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SMOVE source destination member
 * Moves a member from one set to another. */
static inline polder_status polder_smove(polder_caller caller, polder_text source, polder_text destination, polder_text member, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("SMOVE");
    args[1] = source;
    args[2] = destination;
    args[3] = member;
    return polder_run(caller, 4, args, reply);
}

/* SPOP key [count]
 * Returns one or more random members from a set after removing them. Deletes the set if the last member was popped. */
static inline polder_status polder_spop(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SPOP");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SRANDMEMBER key [count]
 * Returns one or more random members from a set. */
static inline polder_status polder_srandmember(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SRANDMEMBER");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SREM key member [member ...]
 * Removes one or more members from a set. Deletes the set if the last member was removed. */
static inline polder_status polder_srem(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SREM");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SSCAN key cursor [MATCH pattern] [COUNT count]
 * Iterates over members of a set. */
static inline polder_status polder_sscan(polder_caller caller, polder_text key, polder_text cursor, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SSCAN");
    args[1] = key;
    args[2] = cursor;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* SUNION key [key ...]
 * Returns the union of multiple sets. */
static inline polder_status polder_sunion(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SUNION");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]
 * Returns the number of members of the union of multiple sets, or about that number. */
static inline polder_status polder_sunioncard(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("SUNIONCARD");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SUNIONSTORE destination key [key ...]
 * Stores the union of multiple sets in a key. */
static inline polder_status polder_sunionstore(polder_caller caller, polder_text destination, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SUNIONSTORE");
    args[1] = destination;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- sorted-set ---- */

/* BZMPOP timeout numkeys key [key ...] <MIN|MAX> [COUNT count]
 * Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped. */
static inline polder_status polder_bzmpop(polder_caller caller, double timeout, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits timeout_digits;
    polder_digits numkeys_digits;
    args[0] = polder_string("BZMPOP");
    args[1] = polder_double(&timeout_digits, timeout);
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* BZPOPMAX key [key ...] timeout
 * Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available otherwise. Deletes the sorted set if the last element was popped. */
static inline polder_status polder_bzpopmax(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BZPOPMAX");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* BZPOPMIN key [key ...] timeout
 * Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped. */
static inline polder_status polder_bzpopmin(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BZPOPMIN");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]
 * Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist. */
static inline polder_status polder_zadd(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZADD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZCARD key
 * Returns the number of members in a sorted set. */
static inline polder_status polder_zcard(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZCARD");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* ZCOUNT key min max
 * Returns the count of members in a sorted set that have scores within a range. */
static inline polder_status polder_zcount(polder_caller caller, polder_text key, polder_text min, polder_text max, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZCOUNT");
    args[1] = key;
    args[2] = min;
    args[3] = max;
    return polder_run(caller, 4, args, reply);
}

/* ZDIFF numkeys key [key ...] [WITHSCORES]
 * Returns the difference between multiple sorted sets. */
static inline polder_status polder_zdiff(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZDIFF");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZDIFFSTORE destination numkeys key [key ...]
 * Stores the difference of multiple sorted sets in a key. */
static inline polder_status polder_zdiffstore(polder_caller caller, polder_text destination, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZDIFFSTORE");
    args[1] = destination;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ZINCRBY key increment member
 * Increments the score of a member in a sorted set: in decimal, unless number-mode says otherwise. */
static inline polder_status polder_zincrby(polder_caller caller, polder_text key, double increment, polder_text member, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits increment_digits;
    args[0] = polder_string("ZINCRBY");
    args[1] = key;
    args[2] = polder_double(&increment_digits, increment);
    args[3] = member;
    return polder_run(caller, 4, args, reply);
}

/* ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]
 * Returns the intersect of multiple sorted sets. */
static inline polder_status polder_zinter(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZINTER");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZINTERCARD numkeys key [key ...] [LIMIT limit]
 * Returns the number of members of the intersect of multiple sorted sets. */
static inline polder_status polder_zintercard(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZINTERCARD");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]
 * Stores the intersect of multiple sorted sets in a key. */
static inline polder_status polder_zinterstore(polder_caller caller, polder_text destination, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZINTERSTORE");
    args[1] = destination;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ZLEXCOUNT key min max
 * Returns the number of members in a sorted set within a lexicographical range. */
static inline polder_status polder_zlexcount(polder_caller caller, polder_text key, polder_text min, polder_text max, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZLEXCOUNT");
    args[1] = key;
    args[2] = min;
    args[3] = max;
    return polder_run(caller, 4, args, reply);
}

/* ZMPOP numkeys key [key ...] <MIN|MAX> [COUNT count]
 * Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped. */
static inline polder_status polder_zmpop(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZMPOP");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZMSCORE key member [member ...]
 * Returns the score of one or more members in a sorted set. */
static inline polder_status polder_zmscore(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZMSCORE");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZPOPMAX key [count]
 * Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped. */
static inline polder_status polder_zpopmax(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZPOPMAX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZPOPMIN key [count]
 * Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped. */
static inline polder_status polder_zpopmin(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZPOPMIN");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZRANDMEMBER key [count [WITHSCORES]]
 * Returns one or more random members from a sorted set. */
static inline polder_status polder_zrandmember(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZRANDMEMBER");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]
 * Returns members in a sorted set within a range of indexes, of scores or of members. */
static inline polder_status polder_zrange(polder_caller caller, polder_text key, polder_text start, polder_text stop, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZRANGE");
    args[1] = key;
    args[2] = start;
    args[3] = stop;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ZRANGEBYLEX key min max [LIMIT offset count]
 * Returns members in a sorted set within a lexicographical range. */
static inline polder_status polder_zrangebylex(polder_caller caller, polder_text key, polder_text min, polder_text max, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZRANGEBYLEX");
    args[1] = key;
    args[2] = min;
    args[3] = max;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]
 * Returns members in a sorted set within a range of scores. */
static inline polder_status polder_zrangebyscore(polder_caller caller, polder_text key, polder_text min, polder_text max, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZRANGEBYSCORE");
    args[1] = key;
    args[2] = min;
    args[3] = max;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ZRANGESTORE destination source min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]
 * Stores a range of members from sorted set in a key. */
static inline polder_status polder_zrangestore(polder_caller caller, polder_text destination, polder_text source, polder_text min, polder_text max, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[5];
    args[0] = polder_string("ZRANGESTORE");
    args[1] = destination;
    args[2] = source;
    args[3] = min;
    args[4] = max;
    return polder_run_more(caller, 5, args, more_count, more, reply);
}

/* ZRANK key member [WITHSCORE]
 * Returns the index of a member in a sorted set ordered by ascending scores. */
static inline polder_status polder_zrank(polder_caller caller, polder_text key, polder_text member, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ZRANK");
    args[1] = key;
    args[2] = member;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ZREM key member [member ...]
 * Removes one or more members from a sorted set. Deletes the sorted set if all members were removed. */
static inline polder_status polder_zrem(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ZREM");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZREMRANGEBYLEX key min max
 * Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed. */
static inline polder_status polder_zremrangebylex(polder_caller caller, polder_text key, polder_text min, polder_text max, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZREMRANGEBYLEX");
    args[1] = key;
    args[2] = min;
    args[3] = max;
    return polder_run(caller, 4, args, reply);
}

/* ZREMRANGEBYRANK key start stop
 * Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed. */
static inline polder_status polder_zremrangebyrank(polder_caller caller, polder_text key, int64_t start, int64_t stop, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits start_digits;
    polder_digits stop_digits;
    args[0] = polder_string("ZREMRANGEBYRANK");
    args[1] = key;
    args[2] = polder_integer(&start_digits, start);
    args[3] = polder_integer(&stop_digits, stop);
    return polder_run(caller, 4, args, reply);
}

/* ZREMRANGEBYSCORE key min max
 * Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed. */
static inline polder_status polder_zremrangebyscore(polder_caller caller, polder_text key, polder_text min, polder_text max, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZREMRANGEBYSCORE");
    args[1] = key;
    args[2] = min;
    args[3] = max;
    return polder_run(caller, 4, args, reply);
}

/* ZREVRANGE key start stop [WITHSCORES]
 * Returns members in a sorted set within a range of indexes in reverse order. */
static inline polder_status polder_zrevrange(polder_caller caller, polder_text key, polder_text start, polder_text stop, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZREVRANGE");
    args[1] = key;
    args[2] = start;
    args[3] = stop;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ZREVRANGEBYLEX key max min [LIMIT offset count]
 * Returns members in a sorted set within a lexicographical range in reverse order. */
static inline polder_status polder_zrevrangebylex(polder_caller caller, polder_text key, polder_text max, polder_text min, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZREVRANGEBYLEX");
    args[1] = key;
    args[2] = max;
    args[3] = min;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]
 * Returns members in a sorted set within a range of scores in reverse order. */
static inline polder_status polder_zrevrangebyscore(polder_caller caller, polder_text key, polder_text max, polder_text min, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ZREVRANGEBYSCORE");
    args[1] = key;
    args[2] = max;
    args[3] = min;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ZREVRANK key member [WITHSCORE]
 * Returns the index of a member in a sorted set ordered by descending scores. */
static inline polder_status polder_zrevrank(polder_caller caller, polder_text key, polder_text member, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ZREVRANK");
    args[1] = key;
    args[2] = member;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]
 * Iterates over members and scores of a sorted set. */
static inline polder_status polder_zscan(polder_caller caller, polder_text key, polder_text cursor, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ZSCAN");
    args[1] = key;
    args[2] = cursor;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ZSCORE key member
 * Returns the score of a member in a sorted set. */
static inline polder_status polder_zscore(polder_caller caller, polder_text key, polder_text member, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ZSCORE");
    args[1] = key;
    args[2] = member;
    return polder_run(caller, 3, args, reply);
}

/* ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]
 * Returns the union of multiple sorted sets. */
static inline polder_status polder_zunion(polder_caller caller, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZUNION");
    args[1] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]
 * Stores the union of multiple sorted sets in a key. */
static inline polder_status polder_zunionstore(polder_caller caller, polder_text destination, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("ZUNIONSTORE");
    args[1] = destination;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ---- geo ---- */

/* GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]
 * Adds one or more members to a geospatial index. The key is created if it doesn't exist. */
static inline polder_status polder_geoadd(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GEOADD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* GEODIST key member1 member2 [M|KM|FT|MI]
 * Returns the distance between two members of a geospatial index. */
static inline polder_status polder_geodist(polder_caller caller, polder_text key, polder_text member1, polder_text member2, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("GEODIST");
    args[1] = key;
    args[2] = member1;
    args[3] = member2;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* GEOHASH key [member [member ...]]
 * Returns members from a geospatial index as geohash strings. */
static inline polder_status polder_geohash(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GEOHASH");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* GEOPOS key [member [member ...]]
 * Returns the longitude and latitude of members from a geospatial index. */
static inline polder_status polder_geopos(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GEOPOS");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* GEORADIUS key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]
 * Queries a geospatial index for members within a distance from a coordinate, optionally stores the result. */
static inline polder_status polder_georadius(polder_caller caller, polder_text key, double longitude, double latitude, double radius, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[5];
    polder_digits longitude_digits;
    polder_digits latitude_digits;
    polder_digits radius_digits;
    args[0] = polder_string("GEORADIUS");
    args[1] = key;
    args[2] = polder_double(&longitude_digits, longitude);
    args[3] = polder_double(&latitude_digits, latitude);
    args[4] = polder_double(&radius_digits, radius);
    return polder_run_more(caller, 5, args, more_count, more, reply);
}

/* GEORADIUS_RO key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]
 * Returns members from a geospatial index that are within a distance from a coordinate. */
static inline polder_status polder_georadius_ro(polder_caller caller, polder_text key, double longitude, double latitude, double radius, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[5];
    polder_digits longitude_digits;
    polder_digits latitude_digits;
    polder_digits radius_digits;
    args[0] = polder_string("GEORADIUS_RO");
    args[1] = key;
    args[2] = polder_double(&longitude_digits, longitude);
    args[3] = polder_double(&latitude_digits, latitude);
    args[4] = polder_double(&radius_digits, radius);
    return polder_run_more(caller, 5, args, more_count, more, reply);
}

/* GEORADIUSBYMEMBER key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]
 * Queries a geospatial index for members within a distance from a member, optionally stores the result. */
static inline polder_status polder_georadiusbymember(polder_caller caller, polder_text key, polder_text member, double radius, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits radius_digits;
    args[0] = polder_string("GEORADIUSBYMEMBER");
    args[1] = key;
    args[2] = member;
    args[3] = polder_double(&radius_digits, radius);
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* GEORADIUSBYMEMBER_RO key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]
 * Returns members from a geospatial index that are within a distance from a member. */
static inline polder_status polder_georadiusbymember_ro(polder_caller caller, polder_text key, polder_text member, double radius, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits radius_digits;
    args[0] = polder_string("GEORADIUSBYMEMBER_RO");
    args[1] = key;
    args[2] = member;
    args[3] = polder_double(&radius_digits, radius);
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* GEOSEARCH key <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]
 * Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon. */
static inline polder_status polder_geosearch(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("GEOSEARCH");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* GEOSEARCHSTORE destination source <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [STOREDIST]
 * Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon, and stores the result. */
static inline polder_status polder_geosearchstore(polder_caller caller, polder_text destination, polder_text source, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("GEOSEARCHSTORE");
    args[1] = destination;
    args[2] = source;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ---- stream ---- */

/* XACK key group id [id ...]
 * Returns the number of messages that were successfully acknowledged by the consumer group member of a stream. */
static inline polder_status polder_xack(polder_caller caller, polder_text key, polder_text group, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XACK");
    args[1] = key;
    args[2] = group;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* XACKDEL key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]
 * Acknowledges messages for a consumer group and deletes them: always, with the references that other groups keep, or only if no group keeps one. */
static inline polder_status polder_xackdel(polder_caller caller, polder_text key, polder_text group, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XACKDEL");
    args[1] = key;
    args[2] = group;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [<IDMPAUTO pid|IDMP pid iid>] [<MAXLEN|MINID> [=|~] threshold [LIMIT count]] <*|id> field value [field value ...]
 * Appends a new message to a stream. Creates the key if it doesn't exist. */
static inline polder_status polder_xadd(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XADD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
 * Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as consumer group member. */
static inline polder_status polder_xautoclaim(polder_caller caller, polder_text key, polder_text group, polder_text consumer, polder_text min_idle_time, polder_text start, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[6];
    args[0] = polder_string("XAUTOCLAIM");
    args[1] = key;
    args[2] = group;
    args[3] = consumer;
    args[4] = min_idle_time;
    args[5] = start;
    return polder_run_more(caller, 6, args, more_count, more, reply);
}

/* XCFGSET key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]
 * Sets for how long, and how many, ids of entries a stream keeps of each producer (`XADD` with `IDMP`). Forgets those it has if that is a change. */
static inline polder_status polder_xcfgset(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XCFGSET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* XCLAIM key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]
 * Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer group member. */
static inline polder_status polder_xclaim(polder_caller caller, polder_text key, polder_text group, polder_text consumer, polder_text min_idle_time, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[5];
    args[0] = polder_string("XCLAIM");
    args[1] = key;
    args[2] = group;
    args[3] = consumer;
    args[4] = min_idle_time;
    return polder_run_more(caller, 5, args, more_count, more, reply);
}

/* XDEL key id [id ...]
 * Returns the number of messages after removing them from a stream. */
static inline polder_status polder_xdel(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XDEL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* XDELEX key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]
 * Deletes messages: always, with the references that consumer groups keep, or only if no group keeps one. */
static inline polder_status polder_xdelex(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XDELEX");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* XGROUP CREATE key group <id|$> [MKSTREAM] [ENTRIESREAD entries-read]
 * Creates a consumer group. */
static inline polder_status polder_xgroup_create(polder_caller caller, polder_text key, polder_text group, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("XGROUP");
    args[1] = polder_string("CREATE");
    args[2] = key;
    args[3] = group;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* XGROUP CREATECONSUMER key group consumer
 * Creates a consumer in a consumer group. */
static inline polder_status polder_xgroup_createconsumer(polder_caller caller, polder_text key, polder_text group, polder_text consumer, const polder_reply **reply)
{
    polder_text args[5];
    args[0] = polder_string("XGROUP");
    args[1] = polder_string("CREATECONSUMER");
    args[2] = key;
    args[3] = group;
    args[4] = consumer;
    return polder_run(caller, 5, args, reply);
}

/* XGROUP DELCONSUMER key group consumer
 * Deletes a consumer from a consumer group. */
static inline polder_status polder_xgroup_delconsumer(polder_caller caller, polder_text key, polder_text group, polder_text consumer, const polder_reply **reply)
{
    polder_text args[5];
    args[0] = polder_string("XGROUP");
    args[1] = polder_string("DELCONSUMER");
    args[2] = key;
    args[3] = group;
    args[4] = consumer;
    return polder_run(caller, 5, args, reply);
}

/* XGROUP DESTROY key group
 * Destroys a consumer group. */
static inline polder_status polder_xgroup_destroy(polder_caller caller, polder_text key, polder_text group, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("XGROUP");
    args[1] = polder_string("DESTROY");
    args[2] = key;
    args[3] = group;
    return polder_run(caller, 4, args, reply);
}

/* XGROUP SETID key group <id|$> [ENTRIESREAD entries-read]
 * Sets the last-delivered ID of a consumer group. */
static inline polder_status polder_xgroup_setid(polder_caller caller, polder_text key, polder_text group, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("XGROUP");
    args[1] = polder_string("SETID");
    args[2] = key;
    args[3] = group;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* XIDMPRECORD key pid iid stream-id
 * An internal command for the id by which a producer knows a message. */
static inline polder_status polder_xidmprecord(polder_caller caller, polder_text key, polder_text pid, polder_text iid, polder_text stream_id, const polder_reply **reply)
{
    polder_text args[5];
    args[0] = polder_string("XIDMPRECORD");
    args[1] = key;
    args[2] = pid;
    args[3] = iid;
    args[4] = stream_id;
    return polder_run(caller, 5, args, reply);
}

/* XINFO CONSUMERS key group
 * Returns a list of the consumers in a consumer group. */
static inline polder_status polder_xinfo_consumers(polder_caller caller, polder_text key, polder_text group, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("XINFO");
    args[1] = polder_string("CONSUMERS");
    args[2] = key;
    args[3] = group;
    return polder_run(caller, 4, args, reply);
}

/* XINFO GROUPS key
 * Returns a list of the consumer groups of a stream. */
static inline polder_status polder_xinfo_groups(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XINFO");
    args[1] = polder_string("GROUPS");
    args[2] = key;
    return polder_run(caller, 3, args, reply);
}

/* XINFO STREAM key [FULL [COUNT count]]
 * Returns information about a stream. */
static inline polder_status polder_xinfo_stream(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XINFO");
    args[1] = polder_string("STREAM");
    args[2] = key;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* XLEN key
 * Return the number of messages in a stream. */
static inline polder_status polder_xlen(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XLEN");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* XNACK key group <SILENT|FAIL|FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]
 * Gives pending messages back, so that any consumer of the group may claim them at once. */
static inline polder_status polder_xnack(polder_caller caller, polder_text key, polder_text group, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XNACK");
    args[1] = key;
    args[2] = group;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* XPENDING key group [[IDLE min-idle-time] start end count [consumer]]
 * Returns the information and entries from a stream consumer group's pending entries list. */
static inline polder_status polder_xpending(polder_caller caller, polder_text key, polder_text group, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XPENDING");
    args[1] = key;
    args[2] = group;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* XRANGE key start end [COUNT count]
 * Returns the messages from a stream within a range of IDs. */
static inline polder_status polder_xrange(polder_caller caller, polder_text key, polder_text start, polder_text end, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("XRANGE");
    args[1] = key;
    args[2] = start;
    args[3] = end;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]
 * Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise. */
static inline polder_status polder_xread(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("XREAD");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]
 * Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise. */
static inline polder_status polder_xreadgroup(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("XREADGROUP");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* XREVRANGE key end start [COUNT count]
 * Returns the messages from a stream within a range of IDs in reverse order. */
static inline polder_status polder_xrevrange(polder_caller caller, polder_text key, polder_text end, polder_text start, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("XREVRANGE");
    args[1] = key;
    args[2] = end;
    args[3] = start;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]
 * An internal command for replicating stream values. */
static inline polder_status polder_xsetid(polder_caller caller, polder_text key, polder_text last_id, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("XSETID");
    args[1] = key;
    args[2] = last_id;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* XTRIM key <MAXLEN|MINID> [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]
 * Deletes messages from the beginning of a stream. */
static inline polder_status polder_xtrim(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XTRIM");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* XGROUP HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_xgroup_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XGROUP");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* XINFO HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_xinfo_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("XINFO");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* ---- array ---- */

/* ARCOUNT key
 * Returns the number of values in an array. */
static inline polder_status polder_arcount(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARCOUNT");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* ARDEL key index [index ...]
 * Deletes the values at indexes of an array. Deletes the array if no value remains. */
static inline polder_status polder_ardel(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARDEL");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ARDELRANGE key start end [start end ...]
 * Deletes the values in ranges of indexes of an array. Deletes the array if no value remains. */
static inline polder_status polder_ardelrange(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARDELRANGE");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ARGET key index
 * Returns the value at an index of an array. */
static inline polder_status polder_arget(polder_caller caller, polder_text key, int64_t index, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits index_digits;
    args[0] = polder_string("ARGET");
    args[1] = key;
    args[2] = polder_integer(&index_digits, index);
    return polder_run(caller, 3, args, reply);
}

/* ARGETRANGE key start end
 * Returns what stands at each index of a range, null where nothing does; backwards if the range begins behind its end. */
static inline polder_status polder_argetrange(polder_caller caller, polder_text key, polder_text start, polder_text end, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ARGETRANGE");
    args[1] = key;
    args[2] = start;
    args[3] = end;
    return polder_run(caller, 4, args, reply);
}

/* ARGREP key start end <EXACT string|MATCH string|GLOB pattern|RE pattern> [EXACT string|MATCH string|GLOB pattern|RE pattern ...] [AND|OR] [LIMIT limit] [WITHVALUES] [NOCASE]
 * Returns the indexes of values that are equal to a text, contain it, or match a pattern or a regular expression. */
static inline polder_status polder_argrep(polder_caller caller, polder_text key, polder_text start, polder_text end, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ARGREP");
    args[1] = key;
    args[2] = start;
    args[3] = end;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ARINFO key [FULL]
 * Returns information about an array. */
static inline polder_status polder_arinfo(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARINFO");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ARINSERT key value [value ...]
 * Puts values at the cursor of an array, which moves behind them. Creates the key if it doesn't exist. */
static inline polder_status polder_arinsert(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARINSERT");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ARLASTITEMS key count [REV]
 * Returns the values that were inserted last. */
static inline polder_status polder_arlastitems(polder_caller caller, polder_text key, int64_t count, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits count_digits;
    args[0] = polder_string("ARLASTITEMS");
    args[1] = key;
    args[2] = polder_integer(&count_digits, count);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ARLEN key
 * Returns the greatest index of an array that holds a value, and one. */
static inline polder_status polder_arlen(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARLEN");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* ARMGET key index [index ...]
 * Returns the values at indexes of an array, null where there is none. */
static inline polder_status polder_armget(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARMGET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ARMSET key index value [index value ...]
 * Puts values at indexes of an array. Creates the key if it doesn't exist. */
static inline polder_status polder_armset(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARMSET");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ARNEXT key
 * Returns the index at which ARINSERT would put a value. */
static inline polder_status polder_arnext(polder_caller caller, polder_text key, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ARNEXT");
    args[1] = key;
    return polder_run(caller, 2, args, reply);
}

/* AROP key start end <SUM|MIN|MAX|AND|OR|XOR|USED|MATCH> [value]
 * Combines the values of a range of an array: their sum, least, greatest, bitwise operations, or how many there are or are equal to a text. */
static inline polder_status polder_arop(polder_caller caller, polder_text key, polder_text start, polder_text end, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("AROP");
    args[1] = key;
    args[2] = start;
    args[3] = end;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ARRING key size value [value ...]
 * Puts values into an array that is a ring of a size: behind the last index comes the first. */
static inline polder_status polder_arring(polder_caller caller, polder_text key, polder_text size, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ARRING");
    args[1] = key;
    args[2] = size;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ARSCAN key start end [LIMIT limit]
 * Returns the values of a range of an array with their indexes, without holes; backwards if the range begins behind its end. */
static inline polder_status polder_arscan(polder_caller caller, polder_text key, polder_text start, polder_text end, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ARSCAN");
    args[1] = key;
    args[2] = start;
    args[3] = end;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ARSEEK key index
 * Moves the cursor of an array. */
static inline polder_status polder_arseek(polder_caller caller, polder_text key, int64_t index, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits index_digits;
    args[0] = polder_string("ARSEEK");
    args[1] = key;
    args[2] = polder_integer(&index_digits, index);
    return polder_run(caller, 3, args, reply);
}

/* ARSET key index value [value ...]
 * Puts values at an index of an array and behind it. Creates the key if it doesn't exist. */
static inline polder_status polder_arset(polder_caller caller, polder_text key, int64_t index, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits index_digits;
    args[0] = polder_string("ARSET");
    args[1] = key;
    args[2] = polder_integer(&index_digits, index);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ---- hyperloglog ---- */

/* PFADD key [element ...]
 * Adds elements to a HyperLogLog key. Creates the key if it doesn't exist. */
static inline polder_status polder_pfadd(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PFADD");
    args[1] = key;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* PFCOUNT key [key ...]
 * Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s). */
static inline polder_status polder_pfcount(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("PFCOUNT");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* PFDEBUG subcommand key
 * Internal commands for debugging HyperLogLog values. */
static inline polder_status polder_pfdebug(polder_caller caller, polder_text subcommand, polder_text key, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("PFDEBUG");
    args[1] = subcommand;
    args[2] = key;
    return polder_run(caller, 3, args, reply);
}

/* PFMERGE destkey [sourcekey ...]
 * Merges one or more HyperLogLog values into a single key. */
static inline polder_status polder_pfmerge(polder_caller caller, polder_text destkey, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PFMERGE");
    args[1] = destkey;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* PFSELFTEST 
 * An internal command for testing HyperLogLog values. */
static inline polder_status polder_pfselftest(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("PFSELFTEST");
    return polder_run(caller, 1, args, reply);
}

/* ---- pubsub ---- */

/* PSUBSCRIBE pattern [pattern ...]
 * Listens for messages published to channels that match one or more patterns. */
static inline polder_status polder_psubscribe(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("PSUBSCRIBE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* PUBLISH channel message
 * Posts a message to a channel. */
static inline polder_status polder_publish(polder_caller caller, polder_text channel, polder_text message, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("PUBLISH");
    args[1] = channel;
    args[2] = message;
    return polder_run(caller, 3, args, reply);
}

/* PUBSUB CHANNELS [pattern]
 * Returns the active channels. */
static inline polder_status polder_pubsub_channels(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PUBSUB");
    args[1] = polder_string("CHANNELS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* PUBSUB NUMPAT 
 * Returns a count of unique pattern subscriptions. */
static inline polder_status polder_pubsub_numpat(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PUBSUB");
    args[1] = polder_string("NUMPAT");
    return polder_run(caller, 2, args, reply);
}

/* PUBSUB NUMSUB [channel [channel ...]]
 * Returns a count of subscribers to channels. */
static inline polder_status polder_pubsub_numsub(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PUBSUB");
    args[1] = polder_string("NUMSUB");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* PUBSUB SHARDCHANNELS [pattern]
 * Returns the active shard channels. */
static inline polder_status polder_pubsub_shardchannels(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PUBSUB");
    args[1] = polder_string("SHARDCHANNELS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]
 * Returns the count of subscribers of shard channels. */
static inline polder_status polder_pubsub_shardnumsub(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PUBSUB");
    args[1] = polder_string("SHARDNUMSUB");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* PUNSUBSCRIBE [pattern [pattern ...]]
 * Stops listening to messages published to channels that match one or more patterns. */
static inline polder_status polder_punsubscribe(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("PUNSUBSCRIBE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SPUBLISH shardchannel message
 * Post a message to a shard channel */
static inline polder_status polder_spublish(polder_caller caller, polder_text shardchannel, polder_text message, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SPUBLISH");
    args[1] = shardchannel;
    args[2] = message;
    return polder_run(caller, 3, args, reply);
}

/* SSUBSCRIBE shardchannel [shardchannel ...]
 * Listens for messages published to shard channels. */
static inline polder_status polder_ssubscribe(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SSUBSCRIBE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SUBSCRIBE channel [channel ...]
 * Listens for messages published to channels. */
static inline polder_status polder_subscribe(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SUBSCRIBE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SUNSUBSCRIBE [shardchannel [shardchannel ...]]
 * Stops listening to messages posted to shard channels. */
static inline polder_status polder_sunsubscribe(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SUNSUBSCRIBE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* UNSUBSCRIBE [channel [channel ...]]
 * Stops listening to messages posted to channels. */
static inline polder_status polder_unsubscribe(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("UNSUBSCRIBE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- pubsub ---- */

/* SUBJ.LIST [pattern]
 * Lists what clients of all processes have subscribed to: subject, queue, and how many do so. */
static inline polder_status polder_subj_list(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SUBJ.LIST");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* SUBJ.PUB subject payload [REPLY reply] [HEADERS headers] [NOECHO] [NORESPONDERS]
 * Posts a message to a subject, with a subject for replies and headers if these are given. */
static inline polder_status polder_subj_pub(polder_caller caller, polder_text subject, polder_text payload, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SUBJ.PUB");
    args[1] = subject;
    args[2] = payload;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* SUBJ.SUB subject [QUEUE queue] [SID sid]
 * Listens for messages on a subject, or on those that a pattern of tokens matches; as a member of a queue if one is given. */
static inline polder_status polder_subj_sub(polder_caller caller, polder_text subject, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SUBJ.SUB");
    args[1] = subject;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SUBJ.UNSUB sid [MAX count]
 * Ends a subscription, at once or when it has had a number of messages. */
static inline polder_status polder_subj_unsub(polder_caller caller, polder_text sid, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SUBJ.UNSUB");
    args[1] = sid;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- pubsub ---- */

/* SUBJ.MONITOR <VARZ|CONNZ|SUBSZ> [SORT field] [LIMIT count] [OFFSET count]
 * Returns a monitoring page of nats-server about this server, its NATS clients, or the subscriptions of all processes, in JSON. */
static inline polder_status polder_subj_monitor(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SUBJ.MONITOR");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- pubsub ---- */

/* PUBSUB HELP 
 * Prints this help. */
static inline polder_status polder_pubsub_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("PUBSUB");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* ---- scripting ---- */

/* EVAL script numkeys [key ...] [arg ...]
 * Executes a server-side Lua script. */
static inline polder_status polder_eval(polder_caller caller, polder_text script, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("EVAL");
    args[1] = script;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* EVAL_RO script numkeys [key ...] [arg ...]
 * Executes a read-only server-side Lua script. */
static inline polder_status polder_eval_ro(polder_caller caller, polder_text script, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("EVAL_RO");
    args[1] = script;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* EVALSHA sha1 numkeys [key ...] [arg ...]
 * Executes a server-side Lua script by SHA1 digest. */
static inline polder_status polder_evalsha(polder_caller caller, polder_text sha1, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("EVALSHA");
    args[1] = sha1;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* EVALSHA_RO sha1 numkeys [key ...] [arg ...]
 * Executes a read-only server-side Lua script by SHA1 digest. */
static inline polder_status polder_evalsha_ro(polder_caller caller, polder_text sha1, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("EVALSHA_RO");
    args[1] = sha1;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* SCRIPT DEBUG <YES|SYNC|NO>
 * Sets the debug mode of server-side Lua scripts. */
static inline polder_status polder_script_debug(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("DEBUG");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SCRIPT EXISTS sha1 [sha1 ...]
 * Determines whether server-side Lua scripts exist in the script cache. */
static inline polder_status polder_script_exists(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("EXISTS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SCRIPT FLUSH [ASYNC|SYNC]
 * Removes all server-side Lua scripts from the script cache. */
static inline polder_status polder_script_flush(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("FLUSH");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SCRIPT HELP 
 * Prints this help. */
static inline polder_status polder_script_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* SCRIPT KILL 
 * Terminates a server-side Lua script during execution. */
static inline polder_status polder_script_kill(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("KILL");
    return polder_run(caller, 2, args, reply);
}

/* SCRIPT LOAD script
 * Loads a server-side Lua script to the script cache. */
static inline polder_status polder_script_load(polder_caller caller, polder_text script, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("LOAD");
    args[2] = script;
    return polder_run(caller, 3, args, reply);
}

/* SCRIPT SHOW sha1
 * Shows a server-side Lua script of the script cache. */
static inline polder_status polder_script_show(polder_caller caller, polder_text sha1, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SCRIPT");
    args[1] = polder_string("SHOW");
    args[2] = sha1;
    return polder_run(caller, 3, args, reply);
}

/* FCALL function numkeys [key ...] [arg ...]
 * Invokes a function. */
static inline polder_status polder_fcall(polder_caller caller, polder_text function, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("FCALL");
    args[1] = function;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* FCALL_RO function numkeys [key ...] [arg ...]
 * Invokes a read-only function. */
static inline polder_status polder_fcall_ro(polder_caller caller, polder_text function, int64_t numkeys, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits numkeys_digits;
    args[0] = polder_string("FCALL_RO");
    args[1] = function;
    args[2] = polder_integer(&numkeys_digits, numkeys);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* FUNCTION DELETE library-name
 * Deletes a library and its functions. */
static inline polder_status polder_function_delete(polder_caller caller, polder_text library_name, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("DELETE");
    args[2] = library_name;
    return polder_run(caller, 3, args, reply);
}

/* FUNCTION DUMP 
 * Dumps all libraries into a serialized binary payload. */
static inline polder_status polder_function_dump(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("DUMP");
    return polder_run(caller, 2, args, reply);
}

/* FUNCTION FLUSH [ASYNC|SYNC]
 * Deletes all libraries and functions. */
static inline polder_status polder_function_flush(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("FLUSH");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* FUNCTION HELP 
 * Prints this help. */
static inline polder_status polder_function_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* FUNCTION KILL 
 * Terminates a function during execution. */
static inline polder_status polder_function_kill(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("KILL");
    return polder_run(caller, 2, args, reply);
}

/* FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]
 * Returns information about all libraries. */
static inline polder_status polder_function_list(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("LIST");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* FUNCTION LOAD [REPLACE] function-code
 * Creates a library. */
static inline polder_status polder_function_load(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("LOAD");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* FUNCTION RESTORE serialized-value [FLUSH|APPEND|REPLACE]
 * Restores all libraries from a payload. */
static inline polder_status polder_function_restore(polder_caller caller, polder_text serialized_value, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("RESTORE");
    args[2] = serialized_value;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* FUNCTION STATS 
 * Returns information about a function during execution. */
static inline polder_status polder_function_stats(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("FUNCTION");
    args[1] = polder_string("STATS");
    return polder_run(caller, 2, args, reply);
}

/* ---- transactions ---- */

/* MULTI 
 * Starts a transaction. */
static inline polder_status polder_multi(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("MULTI");
    return polder_run(caller, 1, args, reply);
}

/* EXEC 
 * Executes all commands in a transaction. */
static inline polder_status polder_exec(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("EXEC");
    return polder_run(caller, 1, args, reply);
}

/* DISCARD 
 * Discards a transaction. */
static inline polder_status polder_discard(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("DISCARD");
    return polder_run(caller, 1, args, reply);
}

/* WATCH key [key ...]
 * Monitors changes to keys to determine the execution of a transaction. */
static inline polder_status polder_watch(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("WATCH");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* UNWATCH 
 * Forgets about watched keys of a transaction. */
static inline polder_status polder_unwatch(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("UNWATCH");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* ACL CAT [category]
 * Lists the ACL categories, or the commands inside a category. */
static inline polder_status polder_acl_cat(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("CAT");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ACL DELUSER username [username ...]
 * Deletes ACL users, and terminates their connections. */
static inline polder_status polder_acl_deluser(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("DELUSER");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ACL DRYRUN username command [arg ...]
 * Simulates the execution of a command by a user, without executing the command. */
static inline polder_status polder_acl_dryrun(polder_caller caller, polder_text username, polder_text command, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[4];
    args[0] = polder_string("ACL");
    args[1] = polder_string("DRYRUN");
    args[2] = username;
    args[3] = command;
    return polder_run_more(caller, 4, args, more_count, more, reply);
}

/* ACL GENPASS [bits]
 * Generates a pseudorandom, secure password that can be used to identify ACL users. */
static inline polder_status polder_acl_genpass(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("GENPASS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ACL GETUSER username
 * Lists the ACL rules of a user. */
static inline polder_status polder_acl_getuser(polder_caller caller, polder_text username, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ACL");
    args[1] = polder_string("GETUSER");
    args[2] = username;
    return polder_run(caller, 3, args, reply);
}

/* ACL HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_acl_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* ACL LIST 
 * Dumps the effective rules in ACL file format. */
static inline polder_status polder_acl_list(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("LIST");
    return polder_run(caller, 2, args, reply);
}

/* ACL LOAD 
 * Reloads the rules from the configured ACL file. */
static inline polder_status polder_acl_load(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("LOAD");
    return polder_run(caller, 2, args, reply);
}

/* ACL LOG [count|RESET]
 * Lists recent security events generated due to ACL rules. */
static inline polder_status polder_acl_log(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("LOG");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ACL SAVE 
 * Saves the effective ACL rules in the configured ACL file. */
static inline polder_status polder_acl_save(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("SAVE");
    return polder_run(caller, 2, args, reply);
}

/* ACL SETUSER username [rule [rule ...]]
 * Creates and modifies an ACL user and its rules. */
static inline polder_status polder_acl_setuser(polder_caller caller, polder_text username, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("ACL");
    args[1] = polder_string("SETUSER");
    args[2] = username;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ACL USERS 
 * Lists all ACL users. */
static inline polder_status polder_acl_users(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("USERS");
    return polder_run(caller, 2, args, reply);
}

/* ACL WHOAMI 
 * Returns the authenticated username of the current connection. */
static inline polder_status polder_acl_whoami(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("ACL");
    args[1] = polder_string("WHOAMI");
    return polder_run(caller, 2, args, reply);
}

/* ---- server ---- */

/* SAVE 
 * Writes the databases to the RDB file and waits until that is done. All keys are in it as they were at one instant. */
static inline polder_status polder_save(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SAVE");
    return polder_run(caller, 1, args, reply);
}

/* BGSAVE [SCHEDULE|CANCEL]
 * Writes the databases to the RDB file in the background. All keys are in it as they were at one instant. */
static inline polder_status polder_bgsave(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BGSAVE");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* BGREWRITEAOF 
 * Has another base of the append-only log written in the background, by the process that writes the log. */
static inline polder_status polder_bgrewriteaof(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("BGREWRITEAOF");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* LASTSAVE 
 * Returns the Unix timestamp of the last successful save to disk. */
static inline polder_status polder_lastsave(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("LASTSAVE");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* COMMAND COUNT 
 * Returns a count of commands. */
static inline polder_status polder_command_count(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("COUNT");
    return polder_run(caller, 2, args, reply);
}

/* COMMAND DOCS [command-name ...]
 * Returns documentary information about one, multiple or all commands. */
static inline polder_status polder_command_docs(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("DOCS");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* COMMAND GETKEYS command [arg ...]
 * Extracts the key names from an arbitrary command. */
static inline polder_status polder_command_getkeys(polder_caller caller, polder_text command, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("GETKEYS");
    args[2] = command;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* COMMAND GETKEYSANDFLAGS command [arg ...]
 * Extracts the key names and access flags for an arbitrary command. */
static inline polder_status polder_command_getkeysandflags(polder_caller caller, polder_text command, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("GETKEYSANDFLAGS");
    args[2] = command;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* COMMAND HELP 
 * Prints this help. */
static inline polder_status polder_command_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* COMMAND INFO [command-name ...]
 * Returns information about one, multiple or all commands. */
static inline polder_status polder_command_info(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("INFO");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* COMMAND LIST [FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern>]
 * Returns a list of command names. */
static inline polder_status polder_command_list(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("COMMAND");
    args[1] = polder_string("LIST");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- server ---- */

/* CONFIG GET parameter [parameter ...]
 * Returns the effective values of configuration parameters. */
static inline polder_status polder_config_get(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CONFIG");
    args[1] = polder_string("GET");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* CONFIG HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_config_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CONFIG");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* CONFIG RESETSTAT 
 * Resets the server's statistics. */
static inline polder_status polder_config_resetstat(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CONFIG");
    args[1] = polder_string("RESETSTAT");
    return polder_run(caller, 2, args, reply);
}

/* CONFIG REWRITE 
 * Persists the effective configuration to file. */
static inline polder_status polder_config_rewrite(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CONFIG");
    args[1] = polder_string("REWRITE");
    return polder_run(caller, 2, args, reply);
}

/* CONFIG SET parameter value [parameter value ...]
 * Sets configuration parameters in-flight. */
static inline polder_status polder_config_set(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("CONFIG");
    args[1] = polder_string("SET");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- server ---- */

/* METRICS [OPENMETRICS|HISTORY]
 * Returns the figures of this server and its segment in the text format of Prometheus, or in that of OpenMetrics; or a sample of each ten seconds of the last hour. */
static inline polder_status polder_metrics(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("METRICS");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* INFO [section ...]
 * Returns information and statistics about the server. */
static inline polder_status polder_info(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("INFO");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- server ---- */

/* MEMORY DOCTOR 
 * Outputs a memory problems report. */
static inline polder_status polder_memory_doctor(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MEMORY");
    args[1] = polder_string("DOCTOR");
    return polder_run(caller, 2, args, reply);
}

/* MEMORY HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_memory_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MEMORY");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* MEMORY MALLOC-STATS 
 * Returns the allocator statistics. */
static inline polder_status polder_memory_malloc_stats(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MEMORY");
    args[1] = polder_string("MALLOC-STATS");
    return polder_run(caller, 2, args, reply);
}

/* MEMORY PURGE 
 * Asks the allocator to release memory. */
static inline polder_status polder_memory_purge(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MEMORY");
    args[1] = polder_string("PURGE");
    return polder_run(caller, 2, args, reply);
}

/* MEMORY STATS 
 * Returns details about memory usage. */
static inline polder_status polder_memory_stats(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MEMORY");
    args[1] = polder_string("STATS");
    return polder_run(caller, 2, args, reply);
}

/* MEMORY USAGE key [SAMPLES count]
 * Estimates the memory usage of a key. */
static inline polder_status polder_memory_usage(polder_caller caller, polder_text key, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("MEMORY");
    args[1] = polder_string("USAGE");
    args[2] = key;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* ---- server ---- */

/* MODULE HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_module_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MODULE");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* MODULE LIST 
 * Returns all loaded modules. */
static inline polder_status polder_module_list(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("MODULE");
    args[1] = polder_string("LIST");
    return polder_run(caller, 2, args, reply);
}

/* MODULE LOAD path [arg ...]
 * Loads a module. */
static inline polder_status polder_module_load(polder_caller caller, polder_text path, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("MODULE");
    args[1] = polder_string("LOAD");
    args[2] = path;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* MODULE LOADEX path [CONFIG name value [name value ...]] [ARGS arg [arg ...]]
 * Loads a module using extended parameters. */
static inline polder_status polder_module_loadex(polder_caller caller, polder_text path, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("MODULE");
    args[1] = polder_string("LOADEX");
    args[2] = path;
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* MODULE UNLOAD name
 * Unloads a module. */
static inline polder_status polder_module_unload(polder_caller caller, polder_text name, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("MODULE");
    args[1] = polder_string("UNLOAD");
    args[2] = name;
    return polder_run(caller, 3, args, reply);
}

/* SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]
 * Shuts the server down, after saving where that is asked for or save points are set; the segment stays. */
static inline polder_status polder_shutdown(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SHUTDOWN");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- server ---- */

/* FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]
 * Starts a coordinated failover from a server to one of its replicas. */
static inline polder_status polder_failover(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("FAILOVER");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* PSYNC replicationid offset [arg ...]
 * An internal command used in replication. */
static inline polder_status polder_psync(polder_caller caller, polder_text replicationid, int64_t offset, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[3];
    polder_digits offset_digits;
    args[0] = polder_string("PSYNC");
    args[1] = replicationid;
    args[2] = polder_integer(&offset_digits, offset);
    return polder_run_more(caller, 3, args, more_count, more, reply);
}

/* REPLCONF [option value ...]
 * An internal command used in replication. */
static inline polder_status polder_replconf(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("REPLCONF");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* REPLICAOF host port
 * Configures a server as replica of another, or promotes it to a master. */
static inline polder_status polder_replicaof(polder_caller caller, polder_text host, polder_text port, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("REPLICAOF");
    args[1] = host;
    args[2] = port;
    return polder_run(caller, 3, args, reply);
}

/* SLAVEOF host port
 * Sets a Redis server as a replica of another, or promotes it to being a master. */
static inline polder_status polder_slaveof(polder_caller caller, polder_text host, polder_text port, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("SLAVEOF");
    args[1] = host;
    args[2] = port;
    return polder_run(caller, 3, args, reply);
}

/* SYNC 
 * An internal command used in replication. */
static inline polder_status polder_sync(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("SYNC");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* ROLE 
 * Returns the replication role. */
static inline polder_status polder_role(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("ROLE");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* MONITOR 
 * Listens for all requests received by the server in real-time. */
static inline polder_status polder_monitor(polder_caller caller, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("MONITOR");
    return polder_run(caller, 1, args, reply);
}

/* ---- server ---- */

/* DEBUG subcommand [arg ...]
 * A container for debugging commands. */
static inline polder_status polder_debug(polder_caller caller, polder_text subcommand, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("DEBUG");
    args[1] = subcommand;
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* ---- server ---- */

/* LOLWUT [VERSION version [arg ...]]
 * Displays computer art and the Redis version */
static inline polder_status polder_lolwut(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[1];
    args[0] = polder_string("LOLWUT");
    return polder_run_more(caller, 1, args, more_count, more, reply);
}

/* ---- server ---- */

/* COMMANDLOG GET count type
 * Returns the specified command log's entries: slow, large-request or large-reply. */
static inline polder_status polder_commandlog_get(polder_caller caller, int64_t count, polder_text type, const polder_reply **reply)
{
    polder_text args[4];
    polder_digits count_digits;
    args[0] = polder_string("COMMANDLOG");
    args[1] = polder_string("GET");
    args[2] = polder_integer(&count_digits, count);
    args[3] = type;
    return polder_run(caller, 4, args, reply);
}

/* COMMANDLOG HELP 
 * Show helpful text about the different subcommands */
static inline polder_status polder_commandlog_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("COMMANDLOG");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* COMMANDLOG LEN type
 * Returns the number of entries in the specified type of command log. */
static inline polder_status polder_commandlog_len(polder_caller caller, polder_text type, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("COMMANDLOG");
    args[1] = polder_string("LEN");
    args[2] = type;
    return polder_run(caller, 3, args, reply);
}

/* COMMANDLOG RESET type
 * Clears all entries from the specified type of command log. */
static inline polder_status polder_commandlog_reset(polder_caller caller, polder_text type, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("COMMANDLOG");
    args[1] = polder_string("RESET");
    args[2] = type;
    return polder_run(caller, 3, args, reply);
}

/* SLOWLOG GET [count]
 * Returns the slow log's entries. */
static inline polder_status polder_slowlog_get(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SLOWLOG");
    args[1] = polder_string("GET");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* SLOWLOG HELP 
 * Show helpful text about the different subcommands */
static inline polder_status polder_slowlog_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SLOWLOG");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* SLOWLOG LEN 
 * Returns the number of entries in the slow log. */
static inline polder_status polder_slowlog_len(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SLOWLOG");
    args[1] = polder_string("LEN");
    return polder_run(caller, 2, args, reply);
}

/* SLOWLOG RESET 
 * Clears all entries from the slow log. */
static inline polder_status polder_slowlog_reset(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("SLOWLOG");
    args[1] = polder_string("RESET");
    return polder_run(caller, 2, args, reply);
}

/* ---- server ---- */

/* HOTKEYS GET 
 * Returns the keys that have cost this server most, by the metrics that HOTKEYS START has named. */
static inline polder_status polder_hotkeys_get(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HOTKEYS");
    args[1] = polder_string("GET");
    return polder_run(caller, 2, args, reply);
}

/* HOTKEYS HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_hotkeys_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HOTKEYS");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* HOTKEYS RESET 
 * Forgets what was tracked. */
static inline polder_status polder_hotkeys_reset(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HOTKEYS");
    args[1] = polder_string("RESET");
    return polder_run(caller, 2, args, reply);
}

/* HOTKEYS START [METRICS count [CPU] [NET]] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]
 * Starts to track which keys cost this server most time or bytes. Each call is timed meanwhile. */
static inline polder_status polder_hotkeys_start(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HOTKEYS");
    args[1] = polder_string("START");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* HOTKEYS STOP 
 * Stops tracking. HOTKEYS GET still shows what was tracked. */
static inline polder_status polder_hotkeys_stop(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("HOTKEYS");
    args[1] = polder_string("STOP");
    return polder_run(caller, 2, args, reply);
}

/* ---- server ---- */

/* LATENCY DOCTOR 
 * Returns a human-readable latency analysis report. */
static inline polder_status polder_latency_doctor(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("DOCTOR");
    return polder_run(caller, 2, args, reply);
}

/* LATENCY GRAPH event
 * Returns a latency graph for an event. */
static inline polder_status polder_latency_graph(polder_caller caller, polder_text event, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("GRAPH");
    args[2] = event;
    return polder_run(caller, 3, args, reply);
}

/* LATENCY HELP 
 * Returns helpful text about the different subcommands. */
static inline polder_status polder_latency_help(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("HELP");
    return polder_run(caller, 2, args, reply);
}

/* LATENCY HISTOGRAM [command ...]
 * Returns the cumulative distribution of latencies of a subset or all commands. */
static inline polder_status polder_latency_histogram(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("HISTOGRAM");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

/* LATENCY HISTORY event
 * Returns timestamp-latency samples for an event. */
static inline polder_status polder_latency_history(polder_caller caller, polder_text event, const polder_reply **reply)
{
    polder_text args[3];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("HISTORY");
    args[2] = event;
    return polder_run(caller, 3, args, reply);
}

/* LATENCY LATEST 
 * Returns the latest latency samples for all events. */
static inline polder_status polder_latency_latest(polder_caller caller, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("LATEST");
    return polder_run(caller, 2, args, reply);
}

/* LATENCY RESET [event ...]
 * Resets the latency data for one or more events. */
static inline polder_status polder_latency_reset(polder_caller caller, size_t more_count, const polder_text *more, const polder_reply **reply)
{
    polder_text args[2];
    args[0] = polder_string("LATENCY");
    args[1] = polder_string("RESET");
    return polder_run_more(caller, 2, args, more_count, more, reply);
}

#ifdef __cplusplus
}
#endif

#endif /* POLDER_COMMANDS_H */
