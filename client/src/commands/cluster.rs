//! Methods of the group `cluster`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `CLUSTER ADDSLOTS slot [slot ...]`: Assign new hash slots to receiving node.
    cluster_addslots("CLUSTER" "ADDSLOTS", slots: impl Args);

    /// `CLUSTER ADDSLOTSRANGE start-slot end-slot [start-slot end-slot ...]`: Assign new hash slots to receiving node.
    cluster_addslotsrange("CLUSTER" "ADDSLOTSRANGE", pairs: impl Args);

    /// `CLUSTER BUMPEPOCH`: Advance the cluster config epoch.
    cluster_bumpepoch("CLUSTER" "BUMPEPOCH");

    /// `CLUSTER COUNT-FAILURE-REPORTS node-id`: Return the number of failure reports active for a given node.
    cluster_count_failure_reports("CLUSTER" "COUNT-FAILURE-REPORTS", node_id: impl Args);

    /// `CLUSTER COUNTKEYSINSLOT slot`: Return the number of local keys in the specified hash slot.
    cluster_countkeysinslot("CLUSTER" "COUNTKEYSINSLOT", slot: impl Args);

    /// `CLUSTER DELSLOTS slot [slot ...]`: Set hash slots as unbound in receiving node.
    cluster_delslots("CLUSTER" "DELSLOTS", slots: impl Args);

    /// `CLUSTER DELSLOTSRANGE start-slot end-slot [start-slot end-slot ...]`: Set hash slots as unbound in receiving node.
    cluster_delslotsrange("CLUSTER" "DELSLOTSRANGE", pairs: impl Args);

    /// `CLUSTER FAILOVER [FORCE|TAKEOVER]`: Forces a replica to perform a manual failover of its master.
    cluster_failover("CLUSTER" "FAILOVER", more: impl Args);

    /// `CLUSTER FLUSHSLOTS`: Delete a node's own slots information.
    cluster_flushslots("CLUSTER" "FLUSHSLOTS");

    /// `CLUSTER FORGET node-id`: Remove a node from the nodes table.
    cluster_forget("CLUSTER" "FORGET", node_id: impl Args);

    /// `CLUSTER GETKEYSINSLOT slot count`: Return local key names in the specified hash slot.
    cluster_getkeysinslot("CLUSTER" "GETKEYSINSLOT", slot: impl Args, count: i64);

    /// `CLUSTER HELP`: Prints this help.
    cluster_help("CLUSTER" "HELP");

    /// `CLUSTER INFO`: Provides info about Redis Cluster node state.
    cluster_info("CLUSTER" "INFO");

    /// `CLUSTER KEYSLOT name`: Returns the hash slot of the specified key.
    cluster_keyslot("CLUSTER" "KEYSLOT", name: impl Args);

    /// `CLUSTER LINKS`: Returns a list of all TCP links to and from peer nodes in cluster.
    cluster_links("CLUSTER" "LINKS");

    /// `CLUSTER MEET ip port [cluster-bus-port]`: Force a node cluster to handshake with another node.
    cluster_meet("CLUSTER" "MEET", ip: impl Args, port: impl Args, more: impl Args);

    /// `CLUSTER MYID`: Return the node id.
    cluster_myid("CLUSTER" "MYID");

    /// `CLUSTER MYSHARDID`: Returns the shard ID of a node.
    cluster_myshardid("CLUSTER" "MYSHARDID");

    /// `CLUSTER NODES`: Get Cluster config for the node.
    cluster_nodes("CLUSTER" "NODES");

    /// `CLUSTER REPLICAS node-id`: List replica nodes of the specified master node.
    cluster_replicas("CLUSTER" "REPLICAS", node_id: impl Args);

    /// `CLUSTER REPLICATE node-id`: Reconfigure a node as a replica of the specified master node.
    cluster_replicate("CLUSTER" "REPLICATE", node_id: impl Args);

    /// `CLUSTER RESET [HARD|SOFT]`: Reset a Redis Cluster node.
    cluster_reset("CLUSTER" "RESET", more: impl Args);

    /// `CLUSTER SAVECONFIG`: Forces the node to save cluster state on disk.
    cluster_saveconfig("CLUSTER" "SAVECONFIG");

    /// `CLUSTER SET-CONFIG-EPOCH config-epoch`: Set the configuration epoch in a new node.
    cluster_set_config_epoch("CLUSTER" "SET-CONFIG-EPOCH", config_epoch: impl Args);

    /// `CLUSTER SETSLOT slot <IMPORTING node-id|MIGRATING node-id|NODE node-id|STABLE>`: Bind a hash slot to a specific node.
    cluster_setslot("CLUSTER" "SETSLOT", slot: impl Args, more: impl Args);

    /// `CLUSTER SHARDS`: Get array of cluster slots to node mappings.
    cluster_shards("CLUSTER" "SHARDS");

    /// `CLUSTER SLAVES node-id`: List replica nodes of the specified master node.
    cluster_slaves("CLUSTER" "SLAVES", node_id: impl Args);

    /// `CLUSTER SLOTS`: Get array of Cluster slot to node mappings.
    cluster_slots("CLUSTER" "SLOTS");
}
