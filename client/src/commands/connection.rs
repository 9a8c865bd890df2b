//! Methods of the group `connection`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `CLIENT CAPA capability [capability ...]`: Tells the server what the client can do.
    client_capa("CLIENT" "CAPA", capabilitys: impl Args);

    /// `CLIENT GETNAME`: Returns the name of the connection.
    client_getname("CLIENT" "GETNAME");

    /// `CLIENT GETREDIR`: Returns the client ID to which the connection's tracking notifications are redirected.
    client_getredir("CLIENT" "GETREDIR");

    /// `CLIENT HELP`: Prints this help.
    client_help("CLIENT" "HELP");

    /// `CLIENT ID`: Returns the unique client ID of the connection.
    client_id("CLIENT" "ID");

    /// `CLIENT IMPORT-SOURCE <ON|OFF>`: Mark this client as an import source when server is in import mode.
    client_import_source("CLIENT" "IMPORT-SOURCE", more: impl Args);

    /// `CLIENT INFO`: Returns information about the connection.
    client_info("CLIENT" "INFO");

    /// `CLIENT KILL <ip:port|filter> [ID client-id [client-id ...]] [TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|SLAVE|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] [NOT-IP ip]`: Terminates open connections.
    client_kill("CLIENT" "KILL", more: impl Args);

    /// `CLIENT LIST [TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [ID client-id [client-id ...]] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES|NO>] [MAXAGE maxage] [NAME name] [IDLE seconds] [FLAGS flags] [LIB-NAME libname] [LIB-VER libver] [DB db] [CAPA capabilities] [IP ip] [NOT-ID client-id [client-id ...]] [NOT-TYPE <NORMAL|MASTER|PRIMARY|REPLICA|PUBSUB>] [NOT-USER username] [NOT-ADDR ip:port] [NOT-LADDR ip:port] [NOT-NAME name] [NOT-FLAGS flags] [NOT-LIB-NAME libname] [NOT-LIB-VER libver] [NOT-DB db] [NOT-CAPA capabilities] [NOT-IP ip]`: Lists open connections.
    client_list("CLIENT" "LIST", more: impl Args);

    /// `CLIENT NO-EVICT <ON|OFF>`: Sets the client eviction mode of the connection.
    client_no_evict("CLIENT" "NO-EVICT", more: impl Args);

    /// `CLIENT NO-TOUCH <ON|OFF>`: Controls whether commands sent by the client affect the LRU/LFU of accessed keys.
    client_no_touch("CLIENT" "NO-TOUCH", more: impl Args);

    /// `CLIENT PAUSE timeout [WRITE|ALL]`: Suspends commands processing.
    client_pause("CLIENT" "PAUSE", timeout: f64, more: impl Args);

    /// `CLIENT SETINFO <LIB-NAME libname|LIB-VER libver>`: Sets information specific to the client or connection.
    client_setinfo("CLIENT" "SETINFO", more: impl Args);

    /// `CLIENT TRACKINGINFO`: Returns information about server-assisted client-side caching for the connection.
    client_trackinginfo("CLIENT" "TRACKINGINFO");

    /// `CLIENT UNBLOCK client-id [TIMEOUT|ERROR]`: Unblocks a client blocked by a blocking command from a different connection.
    client_unblock("CLIENT" "UNBLOCK", client_id: i64, more: impl Args);

    /// `CLIENT UNPAUSE`: Resumes processing commands from paused clients.
    client_unpause("CLIENT" "UNPAUSE");

    /// `ECHO message`: Returns the given string.
    echo("ECHO", message: impl Args);

    /// `PING [message]`: Returns the server's liveliness response.
    ping("PING", more: impl Args);
}
