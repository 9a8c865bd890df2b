# A method for each command of Polder. Made from the command table by `cargo x docs`; do not edit.
#
# Arguments that every call has come first; what is optional, repeated or a choice follows as further words, in the order in which the
# command wants it. Replies are what the protocol says: bytes (str with `decode`), int, float, bool, None, list, dict.
from typing import Any, Union

from polder._polder import Memory

Word = Union[bytes, str, int, float]

class Commands:
    def __init__(self, memory: Memory, *, db: int = 0, protocol: int = 3, decode: bool = False) -> None: ...
    def run(self, *words: Word) -> Any: ...

    # ---- generic ----

    def copy(self, source: Word, destination: Word, /, *more: Word) -> Any:
        """COPY source destination [DB destination-db] [REPLACE]: Copies the value of a key to a new key."""
    def del_(self, *more: Word) -> Any:
        """DEL key [key ...]: Deletes one or more keys."""
    def exists(self, *more: Word) -> Any:
        """EXISTS key [key ...]: Determines whether one or more keys exist."""
    def move(self, key: Word, db: int, /) -> Any:
        """MOVE key db: Moves a key to another database."""
    def rename(self, key: Word, newkey: Word, /) -> Any:
        """RENAME key newkey: Renames a key and overwrites the destination."""
    def renamenx(self, key: Word, newkey: Word, /) -> Any:
        """RENAMENX key newkey: Renames a key only when the target key name doesn't exist."""
    def touch(self, *more: Word) -> Any:
        """TOUCH key [key ...]: Returns the number of existing keys out of those specified after updating the time they were last accessed."""
    def type(self, key: Word, /) -> Any:
        """TYPE key: Determines the type of value stored at a key."""
    def unlink(self, *more: Word) -> Any:
        """UNLINK key [key ...]: Asynchronously deletes one or more keys."""

    # ---- generic ----

    def expire(self, key: Word, seconds: int, /, *more: Word) -> Any:
        """EXPIRE key seconds [NX|XX|GT|LT]: Sets the expiration time of a key in seconds."""
    def expireat(self, key: Word, unix_time_seconds: int, /, *more: Word) -> Any:
        """EXPIREAT key unix-time-seconds [NX|XX|GT|LT]: Sets the expiration time of a key to a Unix timestamp."""
    def expiretime(self, key: Word, /) -> Any:
        """EXPIRETIME key: Returns the expiration time of a key as a Unix timestamp."""
    def persist(self, key: Word, /) -> Any:
        """PERSIST key: Removes the expiration time of a key."""
    def pexpire(self, key: Word, milliseconds: int, /, *more: Word) -> Any:
        """PEXPIRE key milliseconds [NX|XX|GT|LT]: Sets the expiration time of a key in milliseconds."""
    def pexpireat(self, key: Word, unix_time_milliseconds: int, /, *more: Word) -> Any:
        """PEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT]: Sets the expiration time of a key to a Unix milliseconds timestamp."""
    def pexpiretime(self, key: Word, /) -> Any:
        """PEXPIRETIME key: Returns the expiration time of a key as a Unix milliseconds timestamp."""
    def pttl(self, key: Word, /) -> Any:
        """PTTL key: Returns the expiration time in milliseconds of a key."""
    def ttl(self, key: Word, /) -> Any:
        """TTL key: Returns the expiration time in seconds of a key."""

    # ---- generic ----

    def keys(self, pattern: Word, /) -> Any:
        """KEYS pattern: Returns all key names that match a pattern."""
    def randomkey(self) -> Any:
        """RANDOMKEY: Returns a random key name from the database."""
    def scan(self, cursor: Word, /, *more: Word) -> Any:
        """SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]: Iterates over the key names in the database."""

    # ---- generic ----

    def object_encoding(self, key: Word, /) -> Any:
        """OBJECT ENCODING key: Returns the internal encoding of a Redis object."""
    def object_freq(self, key: Word, /) -> Any:
        """OBJECT FREQ key: Returns the logarithmic access frequency counter of a Redis object."""
    def object_idletime(self, key: Word, /) -> Any:
        """OBJECT IDLETIME key: Returns the time since the last access to a Redis object."""
    def object_refcount(self, key: Word, /) -> Any:
        """OBJECT REFCOUNT key: Returns the reference count of a value of a key."""
    def object_help(self) -> Any:
        """OBJECT HELP: Prints this help."""

    # ---- generic ----

    def dump(self, key: Word, /) -> Any:
        """DUMP key: Returns a serialized representation of the value stored at a key."""
    def restore(self, key: Word, ttl: Word, serialized_value: Word, /, *more: Word) -> Any:
        """RESTORE key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]: Creates a key from the serialized representation of a value."""
    def restore_asking(self, key: Word, ttl: Word, serialized_value: Word, /, *more: Word) -> Any:
        """RESTORE-ASKING key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]: An internal command for migrating keys in a cluster."""
    def migrate(self, host: Word, port: Word, key: Word, destination_db: int, timeout: float, /, *more: Word) -> Any:
        """MIGRATE host port key destination-db timeout [COPY] [REPLACE] [AUTH password|AUTH2 username password] [KEYS key [key ...]]: Transfers keys to another server, and takes them away here."""

    # ---- generic ----

    def item_view(self, key: Word, /) -> Any:
        """ITEM.VIEW key: Returns a string as ITEM.GET does, and a value of another type as the command that returns all of it."""

    # ---- generic ----

    def sort(self, key: Word, /, *more: Word) -> Any:
        """SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA] [STORE destination]: Sorts the elements in a list, a set, or a sorted set, optionally storing the result."""
    def sort_ro(self, key: Word, /, *more: Word) -> Any:
        """SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC|DESC] [ALPHA]: Returns the sorted elements of a list, a set, or a sorted set."""

    # ---- generic ----

    def wait(self, numreplicas: Word, timeout: float, /) -> Any:
        """WAIT numreplicas timeout: Blocks until the asynchronous replication of all preceding write commands sent by the connection is completed."""
    def waitaof(self, numlocal: Word, numreplicas: Word, timeout: float, /) -> Any:
        """WAITAOF numlocal numreplicas timeout: Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the master and/or replicas."""

    # ---- connection ----

    def auth(self, *more: Word) -> Any:
        """AUTH [username] password: Authenticates the connection."""
    def echo(self, message: Word, /) -> Any:
        """ECHO message: Returns the given string."""
    def hello(self, *more: Word) -> Any:
        """HELLO [protover [AUTH username password] [SETNAME clientname]]: Handshakes with the server."""
    def ping(self, *more: Word) -> Any:
        """PING [message]: Returns the server's liveliness response."""
    def quit(self, *more: Word) -> Any:
        """QUIT [arg ...]: Closes the connection."""
    def reset(self) -> Any:
        """RESET: Resets the connection."""
    def select(self, index: int, /) -> Any:
        """SELECT index: Changes the selected database."""

    # ---- connection ----

    def client_caching(self, *more: Word) -> Any:
        """CLIENT CACHING <YES|NO>: Instructs the server whether to track the keys in the next request."""
    def client_capa(self, *more: Word) -> Any:
        """CLIENT CAPA capability [capability ...]: Tells the server what the client can do."""
    def client_getname(self) -> Any:
        """CLIENT GETNAME: Returns the name of the connection."""
    def client_getredir(self) -> Any:
        """CLIENT GETREDIR: Returns the client ID to which the connection's tracking notifications are redirected."""
    def client_help(self) -> Any:
        """CLIENT HELP: Prints this help."""
    def client_id(self) -> Any:
        """CLIENT ID: Returns the unique client ID of the connection."""
    def client_import_source(self, *more: Word) -> Any:
        """CLIENT IMPORT-SOURCE <ON|OFF>: Mark this client as an import source when server is in import mode."""
    def client_info(self) -> Any:
        """CLIENT INFO: Returns information about the connection."""
    def client_kill(self, *more: Word) -> Any:
        """CLIENT KILL <ip:port|filter> [ID client-id [client-id ...]] [TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] [NOT-IP ip]: Terminates open connections."""
    def client_list(self, *more: Word) -> Any:
        """CLIENT LIST [TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [ID client-id [client-id ...]] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] [NOT-IP ip]: Lists open connections."""
    def client_no_evict(self, *more: Word) -> Any:
        """CLIENT NO-EVICT <ON|OFF>: Sets the client eviction mode of the connection."""
    def client_no_touch(self, *more: Word) -> Any:
        """CLIENT NO-TOUCH <ON|OFF>: Controls whether commands sent by the client affect the LRU/LFU of accessed keys."""
    def client_pause(self, timeout: float, /, *more: Word) -> Any:
        """CLIENT PAUSE timeout [WRITE|ALL]: Suspends commands processing."""
    def client_reply(self, *more: Word) -> Any:
        """CLIENT REPLY <ON|OFF|SKIP>: Instructs the server whether to reply to commands."""
    def client_setinfo(self, *more: Word) -> Any:
        """CLIENT SETINFO <LIB-NAME libname|LIB-VER libver>: Sets information specific to the client or connection."""
    def client_setname(self, connection_name: Word, /) -> Any:
        """CLIENT SETNAME connection-name: Sets the connection name."""
    def client_tracking(self, *more: Word) -> Any:
        """CLIENT TRACKING <ON|OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]: Controls server-assisted client-side caching for the connection."""
    def client_trackinginfo(self) -> Any:
        """CLIENT TRACKINGINFO: Returns information about server-assisted client-side caching for the connection."""
    def client_unblock(self, client_id: int, /, *more: Word) -> Any:
        """CLIENT UNBLOCK client-id [TIMEOUT|ERROR]: Unblocks a client blocked by a blocking command from a different connection."""
    def client_unpause(self) -> Any:
        """CLIENT UNPAUSE: Resumes processing commands from paused clients."""

    # ---- cluster ----

    def asking(self) -> Any:
        """ASKING: Signals that a cluster client is following an -ASK redirect."""
    def readonly(self) -> Any:
        """READONLY: Enables read-only queries for a connection to a Redis Cluster replica node."""
    def readwrite(self) -> Any:
        """READWRITE: Enables read-write queries for a connection to a Redis Cluster replica node."""

    # ---- cluster ----

    def cluster_addslots(self, *more: Word) -> Any:
        """CLUSTER ADDSLOTS slot [slot ...]: Assign new hash slots to receiving node."""
    def cluster_addslotsrange(self, *more: Word) -> Any:
        """CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]: Assign new hash slots to receiving node."""
    def cluster_bumpepoch(self) -> Any:
        """CLUSTER BUMPEPOCH: Advance the cluster config epoch."""
    def cluster_count_failure_reports(self, node_id: Word, /) -> Any:
        """CLUSTER COUNT-FAILURE-REPORTS node-id: Return the number of failure reports active for a given node."""
    def cluster_countkeysinslot(self, slot: Word, /) -> Any:
        """CLUSTER COUNTKEYSINSLOT slot: Return the number of local keys in the specified hash slot."""
    def cluster_delslots(self, *more: Word) -> Any:
        """CLUSTER DELSLOTS slot [slot ...]: Set hash slots as unbound in receiving node."""
    def cluster_delslotsrange(self, *more: Word) -> Any:
        """CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]: Set hash slots as unbound in receiving node."""
    def cluster_failover(self, *more: Word) -> Any:
        """CLUSTER FAILOVER [FORCE|TAKEOVER]: Forces a replica to perform a manual failover of its master."""
    def cluster_flushslots(self) -> Any:
        """CLUSTER FLUSHSLOTS: Delete a node's own slots information."""
    def cluster_forget(self, node_id: Word, /) -> Any:
        """CLUSTER FORGET node-id: Remove a node from the nodes table."""
    def cluster_getkeysinslot(self, slot: Word, count: int, /) -> Any:
        """CLUSTER GETKEYSINSLOT slot count: Return local key names in the specified hash slot."""
    def cluster_help(self) -> Any:
        """CLUSTER HELP: Prints this help."""
    def cluster_info(self) -> Any:
        """CLUSTER INFO: Provides info about Redis Cluster node state."""
    def cluster_keyslot(self, name: Word, /) -> Any:
        """CLUSTER KEYSLOT name: Returns the hash slot of the specified key."""
    def cluster_links(self) -> Any:
        """CLUSTER LINKS: Returns a list of all TCP links to and from peer nodes in cluster."""
    def cluster_meet(self, ip: Word, port: Word, /, *more: Word) -> Any:
        """CLUSTER MEET ip port [cluster-bus-port]: Force a node cluster to handshake with another node."""
    def cluster_myid(self) -> Any:
        """CLUSTER MYID: Return the node id."""
    def cluster_myshardid(self) -> Any:
        """CLUSTER MYSHARDID: Returns the shard ID of a node."""
    def cluster_nodes(self) -> Any:
        """CLUSTER NODES: Get Cluster config for the node."""
    def cluster_replicas(self, node_id: Word, /) -> Any:
        """CLUSTER REPLICAS node-id: List replica nodes of the specified master node."""
    def cluster_replicate(self, node_id: Word, /) -> Any:
        """CLUSTER REPLICATE node-id: Reconfigure a node as a replica of the specified master node."""
    def cluster_reset(self, *more: Word) -> Any:
        """CLUSTER RESET [HARD|SOFT]: Reset a Redis Cluster node."""
    def cluster_saveconfig(self) -> Any:
        """CLUSTER SAVECONFIG: Forces the node to save cluster state on disk."""
    def cluster_set_config_epoch(self, config_epoch: Word, /) -> Any:
        """CLUSTER SET-CONFIG-EPOCH config-epoch: Set the configuration epoch in a new node."""
    def cluster_setslot(self, slot: Word, /, *more: Word) -> Any:
        """CLUSTER SETSLOT slot <IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE>: Bind a hash slot to a specific node."""
    def cluster_shards(self) -> Any:
        """CLUSTER SHARDS: Get array of cluster slots to node mappings."""
    def cluster_slaves(self, node_id: Word, /) -> Any:
        """CLUSTER SLAVES node-id: List replica nodes of the specified master node."""
    def cluster_slots(self) -> Any:
        """CLUSTER SLOTS: Get array of Cluster slot to node mappings."""

    # ---- server ----

    def dbsize(self) -> Any:
        """DBSIZE: Returns the number of keys in the database."""
    def flushall(self, *more: Word) -> Any:
        """FLUSHALL [ASYNC|SYNC]: Removes all keys from all databases."""
    def flushdb(self, *more: Word) -> Any:
        """FLUSHDB [ASYNC|SYNC]: Removes all keys from the current database."""
    def swapdb(self, index1: Word, index2: Word, /) -> Any:
        """SWAPDB index1 index2: Swaps two databases."""
    def time(self) -> Any:
        """TIME: Returns the server time."""

    # ---- server ----

    def item_flush(self, *more: Word) -> Any:
        """ITEM.FLUSH [EX seconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]: Removes all keys from the current database, at once or at a later moment. A later call replaces the moment; one without a moment forgets it, and so do FLUSHDB and FLUSHALL. A server has to be there at the moment, or the next one does it when it starts."""

    # ---- string ----

    def append(self, key: Word, value: Word, /) -> Any:
        """APPEND key value: Appends a string to the value of a key. Creates the key if it doesn't exist."""
    def decr(self, key: Word, /) -> Any:
        """DECR key: Decrements the integer value of a key by one."""
    def decrby(self, key: Word, decrement: int, /) -> Any:
        """DECRBY key decrement: Decrements a number from the integer value of a key."""
    def delex(self, key: Word, /, *more: Word) -> Any:
        """DELEX key [IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest]: Deletes a key, or only if the string that it holds, or the digest of that, is equal to another or is not."""
    def delifeq(self, key: Word, value: Word, /) -> Any:
        """DELIFEQ key value: Deletes a key if it holds this string: a command of Valkey, which Redis has as `DELEX` with `IFEQ`."""
    def digest(self, key: Word, /) -> Any:
        """DIGEST key: Returns the digest of a string: its XXH3 hash of 64 bits, as 16 hexadecimal digits."""
    def get(self, key: Word, /) -> Any:
        """GET key: Returns the string value of a key."""
    def getdel(self, key: Word, /) -> Any:
        """GETDEL key: Returns the string value of a key after deleting the key."""
    def getex(self, key: Word, /, *more: Word) -> Any:
        """GETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]: Returns the string value of a key after setting its expiration time."""
    def getrange(self, key: Word, start: int, end: int, /) -> Any:
        """GETRANGE key start end: Returns a substring of the string stored at a key."""
    def getset(self, key: Word, value: Word, /) -> Any:
        """GETSET key value: Returns the previous string value of a key after setting it to a new value."""
    def incr(self, key: Word, /) -> Any:
        """INCR key: Increments the integer value of a key by one."""
    def incrby(self, key: Word, increment: int, /) -> Any:
        """INCRBY key increment: Increments the integer value of a key by a number."""
    def incrbyfloat(self, key: Word, increment: int, /) -> Any:
        """INCRBYFLOAT key increment: Increments the number in a key by a number that need not be whole: in decimal, unless number-mode says otherwise."""
    def increx(self, key: Word, /, *more: Word) -> Any:
        """INCREX key [BYFLOAT float|BYINT integer] [LBOUND lowerbound] [UBOUND upperbound] [SATURATE] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] [ENX]: Increments the number in a key by a number within bounds, and sets its expiration time."""
    def lcs(self, key1: Word, key2: Word, /, *more: Word) -> Any:
        """LCS key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]: Finds the longest common substring."""
    def mget(self, *more: Word) -> Any:
        """MGET key [key ...]: Returns the string values of one or more keys."""
    def mset(self, *more: Word) -> Any:
        """MSET key value [key value ...]: Creates or modifies the string values of one or more keys, all at once."""
    def msetex(self, numkeys: int, /, *more: Word) -> Any:
        """MSETEX numkeys key value [key value ...] [NX|XX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]: Sets the string values of one or more keys and one expiry for all of them, all at once, and only if none of them exists or if all do."""
    def msetnx(self, *more: Word) -> Any:
        """MSETNX key value [key value ...]: Creates the string values of one or more keys, all at once, when none of the keys exists."""
    def psetex(self, key: Word, milliseconds: int, value: Word, /) -> Any:
        """PSETEX key milliseconds value: Sets both string value and expiration time in milliseconds of a key. The key is created if it doesn't exist."""
    def set(self, key: Word, value: Word, /, *more: Word) -> Any:
        """SET key value [NX|XX|IFEQ ifeq-value|IFNE ifne-value|IFDEQ ifdeq-digest|IFDNE ifdne-digest] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]: Sets the string value of a key, ignoring its type. The key is created if it doesn't exist."""
    def setex(self, key: Word, seconds: int, value: Word, /) -> Any:
        """SETEX key seconds value: Sets the string value and expiration time of a key. Creates the key if it doesn't exist."""
    def setnx(self, key: Word, value: Word, /) -> Any:
        """SETNX key value: Sets the string value of a key only when the key doesn't exist."""
    def setrange(self, key: Word, offset: int, value: Word, /) -> Any:
        """SETRANGE key offset value: Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist."""
    def strlen(self, key: Word, /) -> Any:
        """STRLEN key: Returns the length of a string value."""
    def substr(self, key: Word, start: int, end: int, /) -> Any:
        """SUBSTR key start end: Returns a substring from a string value: the old name of GETRANGE."""

    # ---- string ----

    def item_cat(self, key: Word, value: Word, /, *more: Word) -> Any:
        """ITEM.CAT key value <APPEND|PREPEND> [CAS cas] [NEWCAS new-cas] [CREATE] [FLAGS flags] [EX seconds|EXAT unix-time-seconds]: Writes bytes behind the value of an item, or in front of it. CREATE makes the item where there is none, with these flags and this expiry."""
    def item_del(self, key: Word, /, *more: Word) -> Any:
        """ITEM.DEL key [CAS cas] [NEWCAS new-cas] [STALE] [EMPTY] [EX seconds|EXAT unix-time-seconds|PERSIST]: Deletes an item. STALE keeps it and marks it as stale, with a new expiry if one is given; EMPTY keeps it without its value and flags."""
    def item_exp(self, key: Word, /, *more: Word) -> Any:
        """ITEM.EXP key <EX seconds|EXAT unix-time-seconds|PERSIST>: Sets the expiry of an item, or removes it."""
    def item_gat(self, key: Word, /, *more: Word) -> Any:
        """ITEM.GAT key [PEEK] [HEAD] [NOWIN] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds] [RECACHE seconds] [NEWCAS new-cas]: Returns an item and says which client is to renew it. VIVIFY makes an empty item where there is none; RECACHE asks one client to renew an item that expires sooner; where EX, EXAT or PERSIST stand in front of it, it looks at the expiry that they give. NOWIN leaves it to another client to renew the item. NEWCAS is for an item that VIVIFY makes."""
    def item_get(self, key: Word, /, *more: Word) -> Any:
        """ITEM.GET key [PEEK] [HEAD]: Returns a string with its flags, CAS and time to live. PEEK does not count as an access, HEAD leaves the value out."""
    def item_inc(self, key: Word, delta: Word, /, *more: Word) -> Any:
        """ITEM.INC key delta [DOWN] [CAS cas] [NEWCAS new-cas] [CREATE initial] [EX seconds|EXAT unix-time-seconds|PERSIST] [VIVIFY seconds]: Adds to a number of 64 bits without a sign, which wraps, or subtracts from it, down to 0. CREATE makes an item with this number where there is none, which lives as long as VIVIFY says."""
    def item_mark(self, key: Word, /, *more: Word) -> Any:
        """ITEM.MARK key [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [STALE] [WON]: Gives an item these flags, this chosen CAS, this content type and these marks, in the place of all that it had; value and expiry stay. It is what a change log says by ECHO."""
    def item_set(self, key: Word, value: Word, /, *more: Word) -> Any:
        """ITEM.SET key value [ADD|REPLACE|CAS cas] [STALE] [FLAGS flags] [NEWCAS new-cas] [TYPE content-type] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds]: Sets a string with its flags and expiry: always, or only if the key is absent or present, or has this CAS. With STALE, a value with an older CAS is stored and marked as stale."""

    # ---- bitmap ----

    def bitcount(self, key: Word, /, *more: Word) -> Any:
        """BITCOUNT key [start [end [BYTE|BIT]]]: Counts the number of set bits (population counting) in a string."""
    def bitfield(self, key: Word, /, *more: Word) -> Any:
        """BITFIELD key [GET encoding offset|[OVERFLOW <WRAP|SAT|FAIL>] <SET encoding offset value|INCRBY encoding offset increment> ...]: Performs arbitrary bitfield integer operations on strings."""
    def bitfield_ro(self, key: Word, /, *more: Word) -> Any:
        """BITFIELD_RO key [GET encoding offset [GET encoding offset ...]]: Performs arbitrary read-only bitfield integer operations on strings."""
    def bitop(self, *more: Word) -> Any:
        """BITOP <AND|OR|XOR|NOT> destkey key [key ...]: Performs bitwise operations on multiple strings, and stores the result."""
    def bitpos(self, key: Word, bit: Word, /, *more: Word) -> Any:
        """BITPOS key bit [start [end [BYTE|BIT]]]: Finds the first set (1) or clear (0) bit in a string."""
    def getbit(self, key: Word, offset: int, /) -> Any:
        """GETBIT key offset: Returns a bit value by offset."""
    def setbit(self, key: Word, offset: int, value: Word, /) -> Any:
        """SETBIT key offset value: Sets or clears the bit at offset of the string value. Creates the key if it doesn't exist."""

    # ---- list ----

    def blmove(self, source: Word, destination: Word, /, *more: Word) -> Any:
        """BLMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout: Pops an element from a list, pushes it to another list and returns it. Waits until there is one."""
    def blmovem(self, source: Word, destination: Word, /, *more: Word) -> Any:
        """BLMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout [<COUNT count|EXACTLY exactly> <OBO|BULK>]: Moves up to a number of elements, or exactly that many, from one list to another and returns them. Waits until there are any, or enough."""
    def blmpop(self, timeout: float, numkeys: int, /, *more: Word) -> Any:
        """BLMPOP timeout numkeys key [key ...] <LEFT|RIGHT> [COUNT count]: Pops the first elements from one of several lists. Waits until there are some."""
    def blpop(self, *more: Word) -> Any:
        """BLPOP key [key ...] timeout: Removes and returns the first element of one of several lists. Waits until there is one."""
    def brpop(self, *more: Word) -> Any:
        """BRPOP key [key ...] timeout: Removes and returns the last element of one of several lists. Waits until there is one."""
    def brpoplpush(self, source: Word, destination: Word, timeout: float, /) -> Any:
        """BRPOPLPUSH source destination timeout: Pops an element from a list, pushes it to another list and returns it. Waits until there is one."""
    def lindex(self, key: Word, index: int, /) -> Any:
        """LINDEX key index: Returns an element from a list by its index."""
    def linsert(self, key: Word, /, *more: Word) -> Any:
        """LINSERT key <BEFORE|AFTER> pivot element: Inserts an element before or after another element in a list."""
    def llen(self, key: Word, /) -> Any:
        """LLEN key: Returns the length of a list."""
    def lmove(self, source: Word, destination: Word, /, *more: Word) -> Any:
        """LMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT>: Returns an element after popping it from one list and pushing it to another."""
    def lmovem(self, source: Word, destination: Word, /, *more: Word) -> Any:
        """LMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> [<COUNT count|EXACTLY exactly> <OBO|BULK>]: Moves up to a number of elements, or exactly that many, from one list to another and returns them."""
    def lmpop(self, numkeys: int, /, *more: Word) -> Any:
        """LMPOP numkeys key [key ...] <LEFT|RIGHT> [COUNT count]: Returns multiple elements from a list after removing them."""
    def lpop(self, key: Word, /, *more: Word) -> Any:
        """LPOP key [count]: Returns and removes one or more elements from the beginning of a list."""
    def lpos(self, key: Word, element: Word, /, *more: Word) -> Any:
        """LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]: Returns the index of matching elements in a list."""
    def lpush(self, key: Word, /, *more: Word) -> Any:
        """LPUSH key element [element ...]: Prepends one or more elements to a list. Creates the key if it doesn't exist."""
    def lpushx(self, key: Word, /, *more: Word) -> Any:
        """LPUSHX key element [element ...]: Prepends one or more elements to a list only when the list exists."""
    def lrange(self, key: Word, start: int, stop: int, /) -> Any:
        """LRANGE key start stop: Returns a range of elements from a list."""
    def lrem(self, key: Word, count: int, element: Word, /) -> Any:
        """LREM key count element: Removes elements from a list. Deletes the list if the last element was removed."""
    def lset(self, key: Word, index: int, element: Word, /) -> Any:
        """LSET key index element: Sets the value of an element in a list by its index."""
    def ltrim(self, key: Word, start: int, stop: int, /) -> Any:
        """LTRIM key start stop: Removes elements from both ends of a list. Deletes the list if all elements were trimmed."""
    def rpop(self, key: Word, /, *more: Word) -> Any:
        """RPOP key [count]: Returns and removes one or more elements from the end of a list."""
    def rpoplpush(self, source: Word, destination: Word, /) -> Any:
        """RPOPLPUSH source destination: Returns the last element of a list after removing and pushing it to another list."""
    def rpush(self, key: Word, /, *more: Word) -> Any:
        """RPUSH key element [element ...]: Appends one or more elements to a list. Creates the key if it doesn't exist."""
    def rpushx(self, key: Word, /, *more: Word) -> Any:
        """RPUSHX key element [element ...]: Appends one or more elements to a list only when the list exists."""

    # ---- hash ----

    def hdel(self, key: Word, /, *more: Word) -> Any:
        """HDEL key field [field ...]: Deletes one or more fields and their values from a hash. Deletes the hash if no fields remain."""
    def hexists(self, key: Word, field: Word, /) -> Any:
        """HEXISTS key field: Determines whether a field exists in a hash."""
    def hexpire(self, key: Word, seconds: int, /, *more: Word) -> Any:
        """HEXPIRE key seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]: Sets the expiration time of hash fields in seconds."""
    def hexpireat(self, key: Word, unix_time_seconds: int, /, *more: Word) -> Any:
        """HEXPIREAT key unix-time-seconds [NX|XX|GT|LT] FIELDS numfields field [field ...]: Sets the expiration time of hash fields to a Unix timestamp in seconds."""
    def hexpiretime(self, key: Word, /, *more: Word) -> Any:
        """HEXPIRETIME key FIELDS numfields field [field ...]: Returns the expiration time of hash fields as a Unix timestamp in seconds."""
    def hget(self, key: Word, field: Word, /) -> Any:
        """HGET key field: Returns the value of a field in a hash."""
    def hgetall(self, key: Word, /) -> Any:
        """HGETALL key: Returns all fields and values in a hash."""
    def hgetdel(self, key: Word, /, *more: Word) -> Any:
        """HGETDEL key FIELDS numfields field [field ...]: Returns the values of hash fields and deletes these. Deletes the hash if no fields remain."""
    def hgetex(self, key: Word, /, *more: Word) -> Any:
        """HGETEX key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST] FIELDS numfields field [field ...]: Returns the values of hash fields and sets their expiration time, or removes it."""
    def himport_set(self, key: Word, fieldset_name: Word, /, *more: Word) -> Any:
        """HIMPORT SET key fieldset-name value [value ...]: Makes a hash of the fields that HIMPORT PREPARE has named and of these values, in the place of one that is there."""
    def hincrby(self, key: Word, field: Word, increment: int, /) -> Any:
        """HINCRBY key field increment: Increments the integer value of a field in a hash by a number. Uses 0 as initial value if the field doesn't exist."""
    def hincrbyfloat(self, key: Word, field: Word, increment: int, /) -> Any:
        """HINCRBYFLOAT key field increment: Increments the number in a field by a number that need not be whole: in decimal, unless number-mode says otherwise."""
    def hkeys(self, key: Word, /) -> Any:
        """HKEYS key: Returns all fields in a hash."""
    def hlen(self, key: Word, /) -> Any:
        """HLEN key: Returns the number of fields in a hash."""
    def hmget(self, key: Word, /, *more: Word) -> Any:
        """HMGET key field [field ...]: Returns the values of hash fields, null for those that there are not."""
    def hmset(self, key: Word, /, *more: Word) -> Any:
        """HMSET key field value [field value ...]: Sets the values of multiple fields."""
    def hpersist(self, key: Word, /, *more: Word) -> Any:
        """HPERSIST key FIELDS numfields field [field ...]: Removes the expiration time of hash fields."""
    def hpexpire(self, key: Word, milliseconds: int, /, *more: Word) -> Any:
        """HPEXPIRE key milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]: Sets the expiration time of hash fields in milliseconds."""
    def hpexpireat(self, key: Word, unix_time_milliseconds: int, /, *more: Word) -> Any:
        """HPEXPIREAT key unix-time-milliseconds [NX|XX|GT|LT] FIELDS numfields field [field ...]: Sets the expiration time of hash fields to a Unix timestamp in milliseconds."""
    def hpexpiretime(self, key: Word, /, *more: Word) -> Any:
        """HPEXPIRETIME key FIELDS numfields field [field ...]: Returns the expiration time of hash fields as a Unix timestamp in milliseconds."""
    def hpttl(self, key: Word, /, *more: Word) -> Any:
        """HPTTL key FIELDS numfields field [field ...]: Returns the expiration time of hash fields in milliseconds."""
    def hrandfield(self, key: Word, /, *more: Word) -> Any:
        """HRANDFIELD key [count [WITHVALUES]]: Returns one or more random fields from a hash."""
    def hscan(self, key: Word, cursor: Word, /, *more: Word) -> Any:
        """HSCAN key cursor [MATCH pattern] [COUNT count] [NOVALUES]: Iterates over fields and values of a hash."""
    def hset(self, key: Word, /, *more: Word) -> Any:
        """HSET key field value [field value ...]: Creates or modifies the value of a field in a hash."""
    def hsetex(self, key: Word, /, *more: Word) -> Any:
        """HSETEX key [NX|XX] [FNX|FXX] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL] FIELDS numfields field value [field value ...]: Sets the values of hash fields with an expiration time."""
    def hsetnx(self, key: Word, field: Word, value: Word, /) -> Any:
        """HSETNX key field value: Sets the value of a field in a hash only when the field doesn't exist."""
    def hstrlen(self, key: Word, field: Word, /) -> Any:
        """HSTRLEN key field: Returns the length of the value of a field."""
    def httl(self, key: Word, /, *more: Word) -> Any:
        """HTTL key FIELDS numfields field [field ...]: Returns the expiration time of hash fields in seconds."""
    def hvals(self, key: Word, /) -> Any:
        """HVALS key: Returns all values in a hash."""
    def himport_discard(self, fieldset_name: Word, /) -> Any:
        """HIMPORT DISCARD fieldset-name: Forgets a fieldset of the connection."""
    def himport_discardall(self) -> Any:
        """HIMPORT DISCARDALL: Forgets all fieldsets of the connection."""
    def himport_prepare(self, fieldset_name: Word, /, *more: Word) -> Any:
        """HIMPORT PREPARE fieldset-name field [field ...]: Names the fields for which later calls of HIMPORT SET on the connection bring the values."""

    # ---- set ----

    def sadd(self, key: Word, /, *more: Word) -> Any:
        """SADD key member [member ...]: Adds one or more members to a set. Creates the key if it doesn't exist."""
    def scard(self, key: Word, /) -> Any:
        """SCARD key: Returns the number of members in a set."""
    def sdiff(self, *more: Word) -> Any:
        """SDIFF key [key ...]: Returns the difference of multiple sets."""
    def sdiffcard(self, numkeys: int, /, *more: Word) -> Any:
        """SDIFFCARD numkeys key [key ...] [LIMIT limit]: Returns the number of members of the difference of multiple sets."""
    def sdiffstore(self, destination: Word, /, *more: Word) -> Any:
        """SDIFFSTORE destination key [key ...]: Stores the difference of multiple sets in a key."""
    def sinter(self, *more: Word) -> Any:
        """SINTER key [key ...]: Returns the intersect of multiple sets."""
    def sintercard(self, numkeys: int, /, *more: Word) -> Any:
        """SINTERCARD numkeys key [key ...] [LIMIT limit]: Returns the number of members of the intersect of multiple sets."""
    def sinterstore(self, destination: Word, /, *more: Word) -> Any:
        """SINTERSTORE destination key [key ...]: Stores the intersect of multiple sets in a key."""
    def sismember(self, key: Word, member: Word, /) -> Any:
        """SISMEMBER key member: Determines whether a member belongs to a set."""
    def smembers(self, key: Word, /) -> Any:
        """SMEMBERS key: Returns all members of a set."""
    def smismember(self, key: Word, /, *more: Word) -> Any:
        """SMISMEMBER key member [member ...]: Determines whether multiple members belong to a set."""
    def smove(self, source: Word, destination: Word, member: Word, /) -> Any:
        """SMOVE source destination member: Moves a member from one set to another."""
    def spop(self, key: Word, /, *more: Word) -> Any:
        """SPOP key [count]: Returns one or more random members from a set after removing them. Deletes the set if the last member was popped."""
    def srandmember(self, key: Word, /, *more: Word) -> Any:
        """SRANDMEMBER key [count]: Returns one or more random members from a set."""
    def srem(self, key: Word, /, *more: Word) -> Any:
        """SREM key member [member ...]: Removes one or more members from a set. Deletes the set if the last member was removed."""
    def sscan(self, key: Word, cursor: Word, /, *more: Word) -> Any:
        """SSCAN key cursor [MATCH pattern] [COUNT count]: Iterates over members of a set."""
    def sunion(self, *more: Word) -> Any:
        """SUNION key [key ...]: Returns the union of multiple sets."""
    def sunioncard(self, numkeys: int, /, *more: Word) -> Any:
        """SUNIONCARD numkeys key [key ...] [APPROX] [LIMIT limit]: Returns the number of members of the union of multiple sets, or about that number."""
    def sunionstore(self, destination: Word, /, *more: Word) -> Any:
        """SUNIONSTORE destination key [key ...]: Stores the union of multiple sets in a key."""

    # ---- sorted-set ----

    def bzmpop(self, timeout: float, numkeys: int, /, *more: Word) -> Any:
        """BZMPOP timeout numkeys key [key ...] <MIN|MAX> [COUNT count]: Removes and returns a member by score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped."""
    def bzpopmax(self, *more: Word) -> Any:
        """BZPOPMAX key [key ...] timeout: Removes and returns the member with the highest score from one or more sorted sets. Blocks until a member available otherwise. Deletes the sorted set if the last element was popped."""
    def bzpopmin(self, *more: Word) -> Any:
        """BZPOPMIN key [key ...] timeout: Removes and returns the member with the lowest score from one or more sorted sets. Blocks until a member is available otherwise. Deletes the sorted set if the last element was popped."""
    def zadd(self, key: Word, /, *more: Word) -> Any:
        """ZADD key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]: Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist."""
    def zcard(self, key: Word, /) -> Any:
        """ZCARD key: Returns the number of members in a sorted set."""
    def zcount(self, key: Word, min: Word, max: Word, /) -> Any:
        """ZCOUNT key min max: Returns the count of members in a sorted set that have scores within a range."""
    def zdiff(self, numkeys: int, /, *more: Word) -> Any:
        """ZDIFF numkeys key [key ...] [WITHSCORES]: Returns the difference between multiple sorted sets."""
    def zdiffstore(self, destination: Word, numkeys: int, /, *more: Word) -> Any:
        """ZDIFFSTORE destination numkeys key [key ...]: Stores the difference of multiple sorted sets in a key."""
    def zincrby(self, key: Word, increment: float, member: Word, /) -> Any:
        """ZINCRBY key increment member: Increments the score of a member in a sorted set: in decimal, unless number-mode says otherwise."""
    def zinter(self, numkeys: int, /, *more: Word) -> Any:
        """ZINTER numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]: Returns the intersect of multiple sorted sets."""
    def zintercard(self, numkeys: int, /, *more: Word) -> Any:
        """ZINTERCARD numkeys key [key ...] [LIMIT limit]: Returns the number of members of the intersect of multiple sorted sets."""
    def zinterstore(self, destination: Word, numkeys: int, /, *more: Word) -> Any:
        """ZINTERSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]: Stores the intersect of multiple sorted sets in a key."""
    def zlexcount(self, key: Word, min: Word, max: Word, /) -> Any:
        """ZLEXCOUNT key min max: Returns the number of members in a sorted set within a lexicographical range."""
    def zmpop(self, numkeys: int, /, *more: Word) -> Any:
        """ZMPOP numkeys key [key ...] <MIN|MAX> [COUNT count]: Returns the highest- or lowest-scoring members from one or more sorted sets after removing them. Deletes the sorted set if the last member was popped."""
    def zmscore(self, key: Word, /, *more: Word) -> Any:
        """ZMSCORE key member [member ...]: Returns the score of one or more members in a sorted set."""
    def zpopmax(self, key: Word, /, *more: Word) -> Any:
        """ZPOPMAX key [count]: Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped."""
    def zpopmin(self, key: Word, /, *more: Word) -> Any:
        """ZPOPMIN key [count]: Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set if the last member was popped."""
    def zrandmember(self, key: Word, /, *more: Word) -> Any:
        """ZRANDMEMBER key [count [WITHSCORES]]: Returns one or more random members from a sorted set."""
    def zrange(self, key: Word, start: Word, stop: Word, /, *more: Word) -> Any:
        """ZRANGE key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]: Returns members in a sorted set within a range of indexes, of scores or of members."""
    def zrangebylex(self, key: Word, min: Word, max: Word, /, *more: Word) -> Any:
        """ZRANGEBYLEX key min max [LIMIT offset count]: Returns members in a sorted set within a lexicographical range."""
    def zrangebyscore(self, key: Word, min: Word, max: Word, /, *more: Word) -> Any:
        """ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count]: Returns members in a sorted set within a range of scores."""
    def zrangestore(self, destination: Word, source: Word, min: Word, max: Word, /, *more: Word) -> Any:
        """ZRANGESTORE destination source min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]: Stores a range of members from sorted set in a key."""
    def zrank(self, key: Word, member: Word, /, *more: Word) -> Any:
        """ZRANK key member [WITHSCORE]: Returns the index of a member in a sorted set ordered by ascending scores."""
    def zrem(self, key: Word, /, *more: Word) -> Any:
        """ZREM key member [member ...]: Removes one or more members from a sorted set. Deletes the sorted set if all members were removed."""
    def zremrangebylex(self, key: Word, min: Word, max: Word, /) -> Any:
        """ZREMRANGEBYLEX key min max: Removes members in a sorted set within a lexicographical range. Deletes the sorted set if all members were removed."""
    def zremrangebyrank(self, key: Word, start: int, stop: int, /) -> Any:
        """ZREMRANGEBYRANK key start stop: Removes members in a sorted set within a range of indexes. Deletes the sorted set if all members were removed."""
    def zremrangebyscore(self, key: Word, min: Word, max: Word, /) -> Any:
        """ZREMRANGEBYSCORE key min max: Removes members in a sorted set within a range of scores. Deletes the sorted set if all members were removed."""
    def zrevrange(self, key: Word, start: Word, stop: Word, /, *more: Word) -> Any:
        """ZREVRANGE key start stop [WITHSCORES]: Returns members in a sorted set within a range of indexes in reverse order."""
    def zrevrangebylex(self, key: Word, max: Word, min: Word, /, *more: Word) -> Any:
        """ZREVRANGEBYLEX key max min [LIMIT offset count]: Returns members in a sorted set within a lexicographical range in reverse order."""
    def zrevrangebyscore(self, key: Word, max: Word, min: Word, /, *more: Word) -> Any:
        """ZREVRANGEBYSCORE key max min [WITHSCORES] [LIMIT offset count]: Returns members in a sorted set within a range of scores in reverse order."""
    def zrevrank(self, key: Word, member: Word, /, *more: Word) -> Any:
        """ZREVRANK key member [WITHSCORE]: Returns the index of a member in a sorted set ordered by descending scores."""
    def zscan(self, key: Word, cursor: Word, /, *more: Word) -> Any:
        """ZSCAN key cursor [MATCH pattern] [COUNT count] [NOSCORES]: Iterates over members and scores of a sorted set."""
    def zscore(self, key: Word, member: Word, /) -> Any:
        """ZSCORE key member: Returns the score of a member in a sorted set."""
    def zunion(self, numkeys: int, /, *more: Word) -> Any:
        """ZUNION numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>] [WITHSCORES]: Returns the union of multiple sorted sets."""
    def zunionstore(self, destination: Word, numkeys: int, /, *more: Word) -> Any:
        """ZUNIONSTORE destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM|MIN|MAX|COUNT>]: Stores the union of multiple sorted sets in a key."""

    # ---- geo ----

    def geoadd(self, key: Word, /, *more: Word) -> Any:
        """GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]: Adds one or more members to a geospatial index. The key is created if it doesn't exist."""
    def geodist(self, key: Word, member1: Word, member2: Word, /, *more: Word) -> Any:
        """GEODIST key member1 member2 [M|KM|FT|MI]: Returns the distance between two members of a geospatial index."""
    def geohash(self, key: Word, /, *more: Word) -> Any:
        """GEOHASH key [member [member ...]]: Returns members from a geospatial index as geohash strings."""
    def geopos(self, key: Word, /, *more: Word) -> Any:
        """GEOPOS key [member [member ...]]: Returns the longitude and latitude of members from a geospatial index."""
    def georadius(self, key: Word, longitude: float, latitude: float, radius: float, /, *more: Word) -> Any:
        """GEORADIUS key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]: Queries a geospatial index for members within a distance from a coordinate, optionally stores the result."""
    def georadius_ro(self, key: Word, longitude: float, latitude: float, radius: float, /, *more: Word) -> Any:
        """GEORADIUS_RO key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]: Returns members from a geospatial index that are within a distance from a coordinate."""
    def georadiusbymember(self, key: Word, member: Word, radius: float, /, *more: Word) -> Any:
        """GEORADIUSBYMEMBER key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]: Queries a geospatial index for members within a distance from a member, optionally stores the result."""
    def georadiusbymember_ro(self, key: Word, member: Word, radius: float, /, *more: Word) -> Any:
        """GEORADIUSBYMEMBER_RO key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]: Returns members from a geospatial index that are within a distance from a member."""
    def geosearch(self, key: Word, /, *more: Word) -> Any:
        """GEOSEARCH key <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]: Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon."""
    def geosearchstore(self, destination: Word, source: Word, /, *more: Word) -> Any:
        """GEOSEARCHSTORE destination source <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [STOREDIST]: Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon, and stores the result."""

    # ---- stream ----

    def xack(self, key: Word, group: Word, /, *more: Word) -> Any:
        """XACK key group id [id ...]: Returns the number of messages that were successfully acknowledged by the consumer group member of a stream."""
    def xackdel(self, key: Word, group: Word, /, *more: Word) -> Any:
        """XACKDEL key group [KEEPREF|DELREF|ACKED] IDS numids id [id ...]: Acknowledges messages for a consumer group and deletes them: always, with the references that other groups keep, or only if no group keeps one."""
    def xadd(self, key: Word, /, *more: Word) -> Any:
        """XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [<IDMPAUTO pid|IDMP pid iid>] [<MAXLEN|MINID> [=|~] threshold [LIMIT count]] <*|id> field value [field value ...]: Appends a new message to a stream. Creates the key if it doesn't exist."""
    def xautoclaim(self, key: Word, group: Word, consumer: Word, min_idle_time: Word, start: Word, /, *more: Word) -> Any:
        """XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]: Changes, or acquires, ownership of messages in a consumer group, as if the messages were delivered to as consumer group member."""
    def xcfgset(self, key: Word, /, *more: Word) -> Any:
        """XCFGSET key [IDMP-DURATION duration] [IDMP-MAXSIZE maxsize]: Sets for how long, and how many, ids of entries a stream keeps of each producer (`XADD` with `IDMP`). Forgets those it has if that is a change."""
    def xclaim(self, key: Word, group: Word, consumer: Word, min_idle_time: Word, /, *more: Word) -> Any:
        """XCLAIM key group consumer min-idle-time id [id ...] [IDLE milliseconds] [TIME unix-time-milliseconds] [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]: Changes, or acquires, ownership of a message in a consumer group, as if the message was delivered a consumer group member."""
    def xdel(self, key: Word, /, *more: Word) -> Any:
        """XDEL key id [id ...]: Returns the number of messages after removing them from a stream."""
    def xdelex(self, key: Word, /, *more: Word) -> Any:
        """XDELEX key [KEEPREF|DELREF|ACKED] IDS numids id [id ...]: Deletes messages: always, with the references that consumer groups keep, or only if no group keeps one."""
    def xgroup_create(self, key: Word, group: Word, /, *more: Word) -> Any:
        """XGROUP CREATE key group <id|$> [MKSTREAM] [ENTRIESREAD entries-read]: Creates a consumer group."""
    def xgroup_createconsumer(self, key: Word, group: Word, consumer: Word, /) -> Any:
        """XGROUP CREATECONSUMER key group consumer: Creates a consumer in a consumer group."""
    def xgroup_delconsumer(self, key: Word, group: Word, consumer: Word, /) -> Any:
        """XGROUP DELCONSUMER key group consumer: Deletes a consumer from a consumer group."""
    def xgroup_destroy(self, key: Word, group: Word, /) -> Any:
        """XGROUP DESTROY key group: Destroys a consumer group."""
    def xgroup_setid(self, key: Word, group: Word, /, *more: Word) -> Any:
        """XGROUP SETID key group <id|$> [ENTRIESREAD entries-read]: Sets the last-delivered ID of a consumer group."""
    def xidmprecord(self, key: Word, pid: Word, iid: Word, stream_id: Word, /) -> Any:
        """XIDMPRECORD key pid iid stream-id: An internal command for the id by which a producer knows a message."""
    def xinfo_consumers(self, key: Word, group: Word, /) -> Any:
        """XINFO CONSUMERS key group: Returns a list of the consumers in a consumer group."""
    def xinfo_groups(self, key: Word, /) -> Any:
        """XINFO GROUPS key: Returns a list of the consumer groups of a stream."""
    def xinfo_stream(self, key: Word, /, *more: Word) -> Any:
        """XINFO STREAM key [FULL [COUNT count]]: Returns information about a stream."""
    def xlen(self, key: Word, /) -> Any:
        """XLEN key: Return the number of messages in a stream."""
    def xnack(self, key: Word, group: Word, /, *more: Word) -> Any:
        """XNACK key group <SILENT|FAIL|FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]: Gives pending messages back, so that any consumer of the group may claim them at once."""
    def xpending(self, key: Word, group: Word, /, *more: Word) -> Any:
        """XPENDING key group [[IDLE min-idle-time] start end count [consumer]]: Returns the information and entries from a stream consumer group's pending entries list."""
    def xrange(self, key: Word, start: Word, end: Word, /, *more: Word) -> Any:
        """XRANGE key start end [COUNT count]: Returns the messages from a stream within a range of IDs."""
    def xread(self, *more: Word) -> Any:
        """XREAD [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]: Returns messages from multiple streams with IDs greater than the ones requested. Blocks until a message is available otherwise."""
    def xreadgroup(self, *more: Word) -> Any:
        """XREADGROUP GROUP group consumer [COUNT count] [MAXCOUNT maxcount] [MAXSIZE maxsize] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]: Returns new or historical messages from a stream for a consumer in a group. Blocks until a message is available otherwise."""
    def xrevrange(self, key: Word, end: Word, start: Word, /, *more: Word) -> Any:
        """XREVRANGE key end start [COUNT count]: Returns the messages from a stream within a range of IDs in reverse order."""
    def xsetid(self, key: Word, last_id: Word, /, *more: Word) -> Any:
        """XSETID key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]: An internal command for replicating stream values."""
    def xtrim(self, key: Word, /, *more: Word) -> Any:
        """XTRIM key <MAXLEN|MINID> [=|~] threshold [LIMIT count] [KEEPREF|DELREF|ACKED]: Deletes messages from the beginning of a stream."""
    def xgroup_help(self) -> Any:
        """XGROUP HELP: Returns helpful text about the different subcommands."""
    def xinfo_help(self) -> Any:
        """XINFO HELP: Returns helpful text about the different subcommands."""

    # ---- array ----

    def arcount(self, key: Word, /) -> Any:
        """ARCOUNT key: Returns the number of values in an array."""
    def ardel(self, key: Word, /, *more: Word) -> Any:
        """ARDEL key index [index ...]: Deletes the values at indexes of an array. Deletes the array if no value remains."""
    def ardelrange(self, key: Word, /, *more: Word) -> Any:
        """ARDELRANGE key start end [start end ...]: Deletes the values in ranges of indexes of an array. Deletes the array if no value remains."""
    def arget(self, key: Word, index: int, /) -> Any:
        """ARGET key index: Returns the value at an index of an array."""
    def argetrange(self, key: Word, start: Word, end: Word, /) -> Any:
        """ARGETRANGE key start end: Returns what stands at each index of a range, null where nothing does; backwards if the range begins behind its end."""
    def argrep(self, key: Word, start: Word, end: Word, /, *more: Word) -> Any:
        """ARGREP key start end <EXACT string|MATCH string|GLOB pattern|RE pattern> [EXACT string|MATCH string|GLOB pattern|RE pattern ...] [AND|OR] [LIMIT limit] [WITHVALUES] [NOCASE]: Returns the indexes of values that are equal to a text, contain it, or match a pattern or a regular expression."""
    def arinfo(self, key: Word, /, *more: Word) -> Any:
        """ARINFO key [FULL]: Returns information about an array."""
    def arinsert(self, key: Word, /, *more: Word) -> Any:
        """ARINSERT key value [value ...]: Puts values at the cursor of an array, which moves behind them. Creates the key if it doesn't exist."""
    def arlastitems(self, key: Word, count: int, /, *more: Word) -> Any:
        """ARLASTITEMS key count [REV]: Returns the values that were inserted last."""
    def arlen(self, key: Word, /) -> Any:
        """ARLEN key: Returns the greatest index of an array that holds a value, and one."""
    def armget(self, key: Word, /, *more: Word) -> Any:
        """ARMGET key index [index ...]: Returns the values at indexes of an array, null where there is none."""
    def armset(self, key: Word, /, *more: Word) -> Any:
        """ARMSET key index value [index value ...]: Puts values at indexes of an array. Creates the key if it doesn't exist."""
    def arnext(self, key: Word, /) -> Any:
        """ARNEXT key: Returns the index at which ARINSERT would put a value."""
    def arop(self, key: Word, start: Word, end: Word, /, *more: Word) -> Any:
        """AROP key start end <SUM|MIN|MAX|AND|OR|XOR|USED|MATCH> [value]: Combines the values of a range of an array: their sum, least, greatest, bitwise operations, or how many there are or are equal to a text."""
    def arring(self, key: Word, size: Word, /, *more: Word) -> Any:
        """ARRING key size value [value ...]: Puts values into an array that is a ring of a size: behind the last index comes the first."""
    def arscan(self, key: Word, start: Word, end: Word, /, *more: Word) -> Any:
        """ARSCAN key start end [LIMIT limit]: Returns the values of a range of an array with their indexes, without holes; backwards if the range begins behind its end."""
    def arseek(self, key: Word, index: int, /) -> Any:
        """ARSEEK key index: Moves the cursor of an array."""
    def arset(self, key: Word, index: int, /, *more: Word) -> Any:
        """ARSET key index value [value ...]: Puts values at an index of an array and behind it. Creates the key if it doesn't exist."""

    # ---- hyperloglog ----

    def pfadd(self, key: Word, /, *more: Word) -> Any:
        """PFADD key [element ...]: Adds elements to a HyperLogLog key. Creates the key if it doesn't exist."""
    def pfcount(self, *more: Word) -> Any:
        """PFCOUNT key [key ...]: Returns the approximated cardinality of the set(s) observed by the HyperLogLog key(s)."""
    def pfdebug(self, subcommand: Word, key: Word, /) -> Any:
        """PFDEBUG subcommand key: Internal commands for debugging HyperLogLog values."""
    def pfmerge(self, destkey: Word, /, *more: Word) -> Any:
        """PFMERGE destkey [sourcekey ...]: Merges one or more HyperLogLog values into a single key."""
    def pfselftest(self) -> Any:
        """PFSELFTEST: An internal command for testing HyperLogLog values."""

    # ---- pubsub ----

    def psubscribe(self, *more: Word) -> Any:
        """PSUBSCRIBE pattern [pattern ...]: Listens for messages published to channels that match one or more patterns."""
    def publish(self, channel: Word, message: Word, /) -> Any:
        """PUBLISH channel message: Posts a message to a channel."""
    def pubsub_channels(self, *more: Word) -> Any:
        """PUBSUB CHANNELS [pattern]: Returns the active channels."""
    def pubsub_numpat(self) -> Any:
        """PUBSUB NUMPAT: Returns a count of unique pattern subscriptions."""
    def pubsub_numsub(self, *more: Word) -> Any:
        """PUBSUB NUMSUB [channel [channel ...]]: Returns a count of subscribers to channels."""
    def pubsub_shardchannels(self, *more: Word) -> Any:
        """PUBSUB SHARDCHANNELS [pattern]: Returns the active shard channels."""
    def pubsub_shardnumsub(self, *more: Word) -> Any:
        """PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]: Returns the count of subscribers of shard channels."""
    def punsubscribe(self, *more: Word) -> Any:
        """PUNSUBSCRIBE [pattern [pattern ...]]: Stops listening to messages published to channels that match one or more patterns."""
    def spublish(self, shardchannel: Word, message: Word, /) -> Any:
        """SPUBLISH shardchannel message: Post a message to a shard channel."""
    def ssubscribe(self, *more: Word) -> Any:
        """SSUBSCRIBE shardchannel [shardchannel ...]: Listens for messages published to shard channels."""
    def subscribe(self, *more: Word) -> Any:
        """SUBSCRIBE channel [channel ...]: Listens for messages published to channels."""
    def sunsubscribe(self, *more: Word) -> Any:
        """SUNSUBSCRIBE [shardchannel [shardchannel ...]]: Stops listening to messages posted to shard channels."""
    def unsubscribe(self, *more: Word) -> Any:
        """UNSUBSCRIBE [channel [channel ...]]: Stops listening to messages posted to channels."""

    # ---- pubsub ----

    def subj_list(self, *more: Word) -> Any:
        """SUBJ.LIST [pattern]: Lists what clients of all processes have subscribed to: subject, queue, and how many do so."""
    def subj_pub(self, subject: Word, payload: Word, /, *more: Word) -> Any:
        """SUBJ.PUB subject payload [REPLY reply] [HEADERS headers] [NOECHO] [NORESPONDERS]: Posts a message to a subject, with a subject for replies and headers if these are given."""
    def subj_sub(self, subject: Word, /, *more: Word) -> Any:
        """SUBJ.SUB subject [QUEUE queue] [SID sid]: Listens for messages on a subject, or on those that a pattern of tokens matches; as a member of a queue if one is given."""
    def subj_unsub(self, sid: Word, /, *more: Word) -> Any:
        """SUBJ.UNSUB sid [MAX count]: Ends a subscription, at once or when it has had a number of messages."""

    # ---- pubsub ----

    def subj_monitor(self, *more: Word) -> Any:
        """SUBJ.MONITOR <VARZ|CONNZ|SUBSZ> [SORT field] [LIMIT count] [OFFSET count]: Returns a monitoring page of nats-server about this server, its NATS clients, or the subscriptions of all processes, in JSON."""

    # ---- pubsub ----

    def pubsub_help(self) -> Any:
        """PUBSUB HELP: Prints this help."""

    # ---- scripting ----

    def eval(self, script: Word, numkeys: int, /, *more: Word) -> Any:
        """EVAL script numkeys [key ...] [arg ...]: Executes a server-side Lua script."""
    def eval_ro(self, script: Word, numkeys: int, /, *more: Word) -> Any:
        """EVAL_RO script numkeys [key ...] [arg ...]: Executes a read-only server-side Lua script."""
    def evalsha(self, sha1: Word, numkeys: int, /, *more: Word) -> Any:
        """EVALSHA sha1 numkeys [key ...] [arg ...]: Executes a server-side Lua script by SHA1 digest."""
    def evalsha_ro(self, sha1: Word, numkeys: int, /, *more: Word) -> Any:
        """EVALSHA_RO sha1 numkeys [key ...] [arg ...]: Executes a read-only server-side Lua script by SHA1 digest."""
    def script_debug(self, *more: Word) -> Any:
        """SCRIPT DEBUG <YES|SYNC|NO>: Sets the debug mode of server-side Lua scripts."""
    def script_exists(self, *more: Word) -> Any:
        """SCRIPT EXISTS sha1 [sha1 ...]: Determines whether server-side Lua scripts exist in the script cache."""
    def script_flush(self, *more: Word) -> Any:
        """SCRIPT FLUSH [ASYNC|SYNC]: Removes all server-side Lua scripts from the script cache."""
    def script_help(self) -> Any:
        """SCRIPT HELP: Prints this help."""
    def script_kill(self) -> Any:
        """SCRIPT KILL: Terminates a server-side Lua script during execution."""
    def script_load(self, script: Word, /) -> Any:
        """SCRIPT LOAD script: Loads a server-side Lua script to the script cache."""
    def script_show(self, sha1: Word, /) -> Any:
        """SCRIPT SHOW sha1: Shows a server-side Lua script of the script cache."""
    def fcall(self, function: Word, numkeys: int, /, *more: Word) -> Any:
        """FCALL function numkeys [key ...] [arg ...]: Invokes a function."""
    def fcall_ro(self, function: Word, numkeys: int, /, *more: Word) -> Any:
        """FCALL_RO function numkeys [key ...] [arg ...]: Invokes a read-only function."""
    def function_delete(self, library_name: Word, /) -> Any:
        """FUNCTION DELETE library-name: Deletes a library and its functions."""
    def function_dump(self) -> Any:
        """FUNCTION DUMP: Dumps all libraries into a serialized binary payload."""
    def function_flush(self, *more: Word) -> Any:
        """FUNCTION FLUSH [ASYNC|SYNC]: Deletes all libraries and functions."""
    def function_help(self) -> Any:
        """FUNCTION HELP: Prints this help."""
    def function_kill(self) -> Any:
        """FUNCTION KILL: Terminates a function during execution."""
    def function_list(self, *more: Word) -> Any:
        """FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]: Returns information about all libraries."""
    def function_load(self, *more: Word) -> Any:
        """FUNCTION LOAD [REPLACE] function-code: Creates a library."""
    def function_restore(self, serialized_value: Word, /, *more: Word) -> Any:
        """FUNCTION RESTORE serialized-value [FLUSH|APPEND|REPLACE]: Restores all libraries from a payload."""
    def function_stats(self) -> Any:
        """FUNCTION STATS: Returns information about a function during execution."""

    # ---- transactions ----

    def multi(self) -> Any:
        """MULTI: Starts a transaction."""
    def exec(self) -> Any:
        """EXEC: Executes all commands in a transaction."""
    def discard(self) -> Any:
        """DISCARD: Discards a transaction."""
    def watch(self, *more: Word) -> Any:
        """WATCH key [key ...]: Monitors changes to keys to determine the execution of a transaction."""
    def unwatch(self) -> Any:
        """UNWATCH: Forgets about watched keys of a transaction."""

    # ---- server ----

    def acl_cat(self, *more: Word) -> Any:
        """ACL CAT [category]: Lists the ACL categories, or the commands inside a category."""
    def acl_deluser(self, *more: Word) -> Any:
        """ACL DELUSER username [username ...]: Deletes ACL users, and terminates their connections."""
    def acl_dryrun(self, username: Word, command: Word, /, *more: Word) -> Any:
        """ACL DRYRUN username command [arg ...]: Simulates the execution of a command by a user, without executing the command."""
    def acl_genpass(self, *more: Word) -> Any:
        """ACL GENPASS [bits]: Generates a pseudorandom, secure password that can be used to identify ACL users."""
    def acl_getuser(self, username: Word, /) -> Any:
        """ACL GETUSER username: Lists the ACL rules of a user."""
    def acl_help(self) -> Any:
        """ACL HELP: Returns helpful text about the different subcommands."""
    def acl_list(self) -> Any:
        """ACL LIST: Dumps the effective rules in ACL file format."""
    def acl_load(self) -> Any:
        """ACL LOAD: Reloads the rules from the configured ACL file."""
    def acl_log(self, *more: Word) -> Any:
        """ACL LOG [count|RESET]: Lists recent security events generated due to ACL rules."""
    def acl_save(self) -> Any:
        """ACL SAVE: Saves the effective ACL rules in the configured ACL file."""
    def acl_setuser(self, username: Word, /, *more: Word) -> Any:
        """ACL SETUSER username [rule [rule ...]]: Creates and modifies an ACL user and its rules."""
    def acl_users(self) -> Any:
        """ACL USERS: Lists all ACL users."""
    def acl_whoami(self) -> Any:
        """ACL WHOAMI: Returns the authenticated username of the current connection."""

    # ---- server ----

    def save(self) -> Any:
        """SAVE: Writes the databases to the RDB file and waits until that is done. All keys are in it as they were at one instant."""
    def bgsave(self, *more: Word) -> Any:
        """BGSAVE [SCHEDULE|CANCEL]: Writes the databases to the RDB file in the background. All keys are in it as they were at one instant."""
    def bgrewriteaof(self) -> Any:
        """BGREWRITEAOF: Has another base of the append-only log written in the background, by the process that writes the log."""

    # ---- server ----

    def lastsave(self) -> Any:
        """LASTSAVE: Returns the Unix timestamp of the last successful save to disk."""

    # ---- server ----

    def command_count(self) -> Any:
        """COMMAND COUNT: Returns a count of commands."""
    def command_docs(self, *more: Word) -> Any:
        """COMMAND DOCS [command-name ...]: Returns documentary information about one, multiple or all commands."""
    def command_getkeys(self, command: Word, /, *more: Word) -> Any:
        """COMMAND GETKEYS command [arg ...]: Extracts the key names from an arbitrary command."""
    def command_getkeysandflags(self, command: Word, /, *more: Word) -> Any:
        """COMMAND GETKEYSANDFLAGS command [arg ...]: Extracts the key names and access flags for an arbitrary command."""
    def command_help(self) -> Any:
        """COMMAND HELP: Prints this help."""
    def command_info(self, *more: Word) -> Any:
        """COMMAND INFO [command-name ...]: Returns information about one, multiple or all commands."""
    def command_list(self, *more: Word) -> Any:
        """COMMAND LIST [FILTERBY <MODULE module-name|ACLCAT category|PATTERN pattern>]: Returns a list of command names."""

    # ---- server ----

    def config_get(self, *more: Word) -> Any:
        """CONFIG GET parameter [parameter ...]: Returns the effective values of configuration parameters."""
    def config_help(self) -> Any:
        """CONFIG HELP: Returns helpful text about the different subcommands."""
    def config_resetstat(self) -> Any:
        """CONFIG RESETSTAT: Resets the server's statistics."""
    def config_rewrite(self) -> Any:
        """CONFIG REWRITE: Persists the effective configuration to file."""
    def config_set(self, *more: Word) -> Any:
        """CONFIG SET parameter value [parameter value ...]: Sets configuration parameters in-flight."""

    # ---- server ----

    def metrics(self, *more: Word) -> Any:
        """METRICS [OPENMETRICS|HISTORY]: Returns the figures of this server and its segment in the text format of Prometheus, or in that of OpenMetrics; or a sample of each ten seconds of the last hour."""
    def info(self, *more: Word) -> Any:
        """INFO [section ...]: Returns information and statistics about the server."""

    # ---- server ----

    def memory_doctor(self) -> Any:
        """MEMORY DOCTOR: Outputs a memory problems report."""
    def memory_help(self) -> Any:
        """MEMORY HELP: Returns helpful text about the different subcommands."""
    def memory_malloc_stats(self) -> Any:
        """MEMORY MALLOC-STATS: Returns the allocator statistics."""
    def memory_purge(self) -> Any:
        """MEMORY PURGE: Asks the allocator to release memory."""
    def memory_stats(self) -> Any:
        """MEMORY STATS: Returns details about memory usage."""
    def memory_usage(self, key: Word, /, *more: Word) -> Any:
        """MEMORY USAGE key [SAMPLES count]: Estimates the memory usage of a key."""

    # ---- server ----

    def module_help(self) -> Any:
        """MODULE HELP: Returns helpful text about the different subcommands."""
    def module_list(self) -> Any:
        """MODULE LIST: Returns all loaded modules."""
    def module_load(self, path: Word, /, *more: Word) -> Any:
        """MODULE LOAD path [arg ...]: Loads a module."""
    def module_loadex(self, path: Word, /, *more: Word) -> Any:
        """MODULE LOADEX path [CONFIG name value [name value ...]] [ARGS arg [arg ...]]: Loads a module using extended parameters."""
    def module_unload(self, name: Word, /) -> Any:
        """MODULE UNLOAD name: Unloads a module."""
    def shutdown(self, *more: Word) -> Any:
        """SHUTDOWN [NOSAVE|SAVE] [NOW] [FORCE] [ABORT]: Shuts the server down, after saving where that is asked for or save points are set; the segment stays."""

    # ---- server ----

    def failover(self, *more: Word) -> Any:
        """FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]: Starts a coordinated failover from a server to one of its replicas."""
    def psync(self, replicationid: Word, offset: int, /, *more: Word) -> Any:
        """PSYNC replicationid offset [arg ...]: An internal command used in replication."""
    def replconf(self, *more: Word) -> Any:
        """REPLCONF [option value ...]: An internal command used in replication."""
    def replicaof(self, host: Word, port: Word, /) -> Any:
        """REPLICAOF host port: Configures a server as replica of another, or promotes it to a master."""
    def slaveof(self, host: Word, port: Word, /) -> Any:
        """SLAVEOF host port: Sets a Redis server as a replica of another, or promotes it to being a master."""
    def sync(self) -> Any:
        """SYNC: An internal command used in replication."""

    # ---- server ----

    def role(self) -> Any:
        """ROLE: Returns the replication role."""

    # ---- server ----

    def monitor(self) -> Any:
        """MONITOR: Listens for all requests received by the server in real-time."""

    # ---- server ----

    def debug(self, subcommand: Word, /, *more: Word) -> Any:
        """DEBUG subcommand [arg ...]: A container for debugging commands."""

    # ---- server ----

    def lolwut(self, *more: Word) -> Any:
        """LOLWUT [VERSION version [arg ...]]: Displays computer art and the Redis version."""

    # ---- server ----

    def commandlog_get(self, count: int, type: Word, /) -> Any:
        """COMMANDLOG GET count type: Returns the specified command log's entries: slow, large-request or large-reply."""
    def commandlog_help(self) -> Any:
        """COMMANDLOG HELP: Show helpful text about the different subcommands."""
    def commandlog_len(self, type: Word, /) -> Any:
        """COMMANDLOG LEN type: Returns the number of entries in the specified type of command log."""
    def commandlog_reset(self, type: Word, /) -> Any:
        """COMMANDLOG RESET type: Clears all entries from the specified type of command log."""
    def slowlog_get(self, *more: Word) -> Any:
        """SLOWLOG GET [count]: Returns the slow log's entries."""
    def slowlog_help(self) -> Any:
        """SLOWLOG HELP: Show helpful text about the different subcommands."""
    def slowlog_len(self) -> Any:
        """SLOWLOG LEN: Returns the number of entries in the slow log."""
    def slowlog_reset(self) -> Any:
        """SLOWLOG RESET: Clears all entries from the slow log."""

    # ---- server ----

    def hotkeys_get(self) -> Any:
        """HOTKEYS GET: Returns the keys that have cost this server most, by the metrics that HOTKEYS START has named."""
    def hotkeys_help(self) -> Any:
        """HOTKEYS HELP: Returns helpful text about the different subcommands."""
    def hotkeys_reset(self) -> Any:
        """HOTKEYS RESET: Forgets what was tracked."""
    def hotkeys_start(self, *more: Word) -> Any:
        """HOTKEYS START [METRICS count [CPU] [NET]] [COUNT k] [DURATION seconds] [SAMPLE ratio] [SLOTS count slot [slot ...]]: Starts to track which keys cost this server most time or bytes. Each call is timed meanwhile."""
    def hotkeys_stop(self) -> Any:
        """HOTKEYS STOP: Stops tracking. HOTKEYS GET still shows what was tracked."""

    # ---- server ----

    def latency_doctor(self) -> Any:
        """LATENCY DOCTOR: Returns a human-readable latency analysis report."""
    def latency_graph(self, event: Word, /) -> Any:
        """LATENCY GRAPH event: Returns a latency graph for an event."""
    def latency_help(self) -> Any:
        """LATENCY HELP: Returns helpful text about the different subcommands."""
    def latency_histogram(self, *more: Word) -> Any:
        """LATENCY HISTOGRAM [command ...]: Returns the cumulative distribution of latencies of a subset or all commands."""
    def latency_history(self, event: Word, /) -> Any:
        """LATENCY HISTORY event: Returns timestamp-latency samples for an event."""
    def latency_latest(self) -> Any:
        """LATENCY LATEST: Returns the latest latency samples for all events."""
    def latency_reset(self, *more: Word) -> Any:
        """LATENCY RESET [event ...]: Resets the latency data for one or more events."""
