//! CLUSTER and its kin, with the replies of a Redis server that is not part of a cluster: clients
//! ask, and understand them.
//!
//! One memory that many processes share is scaled by attaching more processes, not by spreading keys over slots.
use polder_calls::call::Outcome;
use polder_calls::command::{ADMIN, FAST, LOADING, NO_ASYNC_LOADING, NOSCRIPT, STALE};
use polder_runtime::row::{Row, SessionCall, container, session};

const NONDETERMINISTIC: &[&str] = &["nondeterministic_output"];

/// The rows that Redis counts among the connection's commands.
pub const CONNECTION: &[Row] = &[
    session("ASKING", "", disabled)
        .with(FAST)
        .since("3.0.0")
        .about("Signals that a cluster client is following an -ASK redirect."),
    session("READONLY", "", disabled)
        .with(LOADING | STALE | FAST)
        .since("3.0.0")
        .about("Enables read-only queries for a connection to a Redis Cluster replica node."),
    session("READWRITE", "", disabled)
        .with(LOADING | STALE | FAST)
        .since("3.0.0")
        .about("Enables read-write queries for a connection to a Redis Cluster replica node."),
];

/// The family's rows.
pub const COMMANDS: &[Row] = &[
    container("CLUSTER")
        .since("3.0.0")
        .costs("Depends on subcommand.")
        .about("A container for Redis Cluster commands."),
    session("CLUSTER|ADDSLOTS", "slot [slot ...]", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .costs("O(N) where N is the total number of hash slot arguments")
        .about("Assign new hash slots to receiving node."),
    session("CLUSTER|ADDSLOTSRANGE", "start-slot end-slot [start-slot end-slot ...]", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("7.0.0")
        .costs("O(N) where N is the total number of the slots between the start slot and end slot arguments.")
        .about("Assign new hash slots to receiving node."),
    session("CLUSTER|BUMPEPOCH", "", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .about("Advance the cluster config epoch."),
    session("CLUSTER|COUNT-FAILURE-REPORTS", "node-id", disabled)
        .with(ADMIN | STALE)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .costs("O(N) where N is the number of failure reports")
        .about("Return the number of failure reports active for a given node."),
    session("CLUSTER|COUNTKEYSINSLOT", "slot", disabled)
        .with(STALE)
        .since("3.0.0")
        .about("Return the number of local keys in the specified hash slot."),
    session("CLUSTER|DELSLOTS", "slot [slot ...]", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .costs("O(N) where N is the total number of hash slot arguments")
        .about("Set hash slots as unbound in receiving node."),
    session("CLUSTER|DELSLOTSRANGE", "start-slot end-slot [start-slot end-slot ...]", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("7.0.0")
        .costs("O(N) where N is the total number of the slots between the start slot and end slot arguments.")
        .about("Set hash slots as unbound in receiving node."),
    session("CLUSTER|FAILOVER", "[FORCE|TAKEOVER]", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Forces a replica to perform a manual failover of its master."),
    session("CLUSTER|FLUSHSLOTS", "", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Delete a node's own slots information."),
    session("CLUSTER|FORGET", "node-id", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Remove a node from the nodes table."),
    session("CLUSTER|GETKEYSINSLOT", "slot count", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .costs("O(log(N)) where N is the number of requested keys")
        .about("Return local key names in the specified hash slot."),
    session("CLUSTER|HELP", "", disabled).with(LOADING | STALE).since("5.0.0").about("Prints this help."),
    session("CLUSTER|INFO", "", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .about("Provides info about Redis Cluster node state."),
    session("CLUSTER|KEYSLOT", "name", disabled)
        .with(STALE)
        .since("3.0.0")
        .costs("O(N) where N is the number of bytes in the key")
        .about("Returns the hash slot of the specified key."),
    session("CLUSTER|LINKS", "", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("7.0.0")
        .costs("O(N) where N is the total number of Cluster nodes")
        .about("Returns a list of all TCP links to and from peer nodes in cluster."),
    session("CLUSTER|MEET", "ip port [cluster-bus-port]", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .changed(&[("4.0.0", "Takes `cluster-bus-port`.")])
        .about("Force a node cluster to handshake with another node."),
    session("CLUSTER|MYID", "", disabled).with(STALE).since("3.0.0").about("Return the node id."),
    session("CLUSTER|MYSHARDID", "", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("7.2.0")
        .about("Returns the shard ID of a node."),
    session("CLUSTER|NODES", "", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .costs("O(N) where N is the total number of Cluster nodes")
        .about("Get Cluster config for the node."),
    session("CLUSTER|REPLICAS", "node-id", disabled)
        .with(ADMIN | STALE)
        .tips(NONDETERMINISTIC)
        .since("5.0.0")
        .about("List replica nodes of the specified master node."),
    session("CLUSTER|REPLICATE", "node-id", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Reconfigure a node as a replica of the specified master node."),
    session("CLUSTER|RESET", "[HARD|SOFT]", disabled)
        .with(ADMIN | NOSCRIPT | STALE)
        .since("3.0.0")
        .costs(
            "O(N) where N is the number of known nodes. The command may execute a FLUSHALL as a side effect.",
        )
        .about("Reset a Redis Cluster node."),
    session("CLUSTER|SAVECONFIG", "", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Forces the node to save cluster state on disk."),
    session("CLUSTER|SET-CONFIG-EPOCH", "config-epoch", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Set the configuration epoch in a new node."),
    session("CLUSTER|SETSLOT", "slot <IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE>", disabled)
        .with(ADMIN | STALE | NO_ASYNC_LOADING)
        .since("3.0.0")
        .about("Bind a hash slot to a specific node."),
    session("CLUSTER|SHARDS", "", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("7.0.0")
        .costs("O(N) where N is the total number of cluster nodes")
        .about("Get array of cluster slots to node mappings."),
    session("CLUSTER|SLAVES", "node-id", disabled)
        .with(ADMIN | STALE)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .replaced("5.0.0", "`CLUSTER REPLICAS`")
        .about("List replica nodes of the specified master node."),
    session("CLUSTER|SLOTS", "", disabled)
        .with(STALE)
        .tips(NONDETERMINISTIC)
        .since("3.0.0")
        .costs("O(N) where N is the total number of Cluster nodes")
        .changed(&[("4.0.0", "Shows ids of nodes."), ("7.0.0", "Shows more about the network of each node.")])
        .replaced("7.0.0", "`CLUSTER SHARDS`")
        .about("Get array of Cluster slot to node mappings."),
];

fn disabled(_call: &mut SessionCall<'_>) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}
