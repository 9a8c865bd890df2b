//! Methods of the group `scripting`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `EVAL script numkeys [key ...] [arg ...]`: Executes a server-side Lua script.
    eval("EVAL", script: impl Args, numkeys: i64, more: impl Args);

    /// `EVALSHA sha1 numkeys [key ...] [arg ...]`: Executes a server-side Lua script by SHA1 digest.
    evalsha("EVALSHA", sha1: impl Args, numkeys: i64, more: impl Args);

    /// `EVALSHA_RO sha1 numkeys [key ...] [arg ...]`: Executes a read-only server-side Lua script by SHA1 digest.
    evalsha_ro("EVALSHA_RO", sha1: impl Args, numkeys: i64, more: impl Args);

    /// `EVAL_RO script numkeys [key ...] [arg ...]`: Executes a read-only server-side Lua script.
    eval_ro("EVAL_RO", script: impl Args, numkeys: i64, more: impl Args);

    /// `FCALL function numkeys [key ...] [arg ...]`: Invokes a function.
    fcall("FCALL", function: impl Args, numkeys: i64, more: impl Args);

    /// `FCALL_RO function numkeys [key ...] [arg ...]`: Invokes a read-only function.
    fcall_ro("FCALL_RO", function: impl Args, numkeys: i64, more: impl Args);

    /// `FUNCTION DELETE library-name`: Deletes a library and its functions.
    function_delete("FUNCTION" "DELETE", library_name: impl Args);

    /// `FUNCTION DUMP`: Dumps all libraries into a serialized binary payload.
    function_dump("FUNCTION" "DUMP");

    /// `FUNCTION FLUSH [ASYNC|SYNC]`: Deletes all libraries and functions.
    function_flush("FUNCTION" "FLUSH", more: impl Args);

    /// `FUNCTION HELP`: Prints this help.
    function_help("FUNCTION" "HELP");

    /// `FUNCTION KILL`: Terminates a function during execution.
    function_kill("FUNCTION" "KILL");

    /// `FUNCTION LIST [LIBRARYNAME library-name-pattern] [WITHCODE]`: Returns information about all libraries.
    function_list("FUNCTION" "LIST", more: impl Args);

    /// `FUNCTION LOAD [REPLACE] function-code`: Creates a library.
    function_load("FUNCTION" "LOAD", more: impl Args);

    /// `FUNCTION RESTORE serialized-value [FLUSH|APPEND|REPLACE]`: Restores all libraries from a payload.
    function_restore("FUNCTION" "RESTORE", serialized_value: impl Args, more: impl Args);

    /// `FUNCTION STATS`: Returns information about a function during execution.
    function_stats("FUNCTION" "STATS");

    /// `SCRIPT DEBUG <YES|SYNC|NO>`: Sets the debug mode of server-side Lua scripts.
    script_debug("SCRIPT" "DEBUG", more: impl Args);

    /// `SCRIPT EXISTS sha1 [sha1 ...]`: Determines whether server-side Lua scripts exist in the script cache.
    script_exists("SCRIPT" "EXISTS", sha1s: impl Args);

    /// `SCRIPT FLUSH [ASYNC|SYNC]`: Removes all server-side Lua scripts from the script cache.
    script_flush("SCRIPT" "FLUSH", more: impl Args);

    /// `SCRIPT HELP`: Prints this help.
    script_help("SCRIPT" "HELP");

    /// `SCRIPT KILL`: Terminates a server-side Lua script during execution.
    script_kill("SCRIPT" "KILL");

    /// `SCRIPT LOAD script`: Loads a server-side Lua script to the script cache.
    script_load("SCRIPT" "LOAD", script: impl Args);

    /// `SCRIPT SHOW sha1`: Shows a server-side Lua script of the script cache.
    script_show("SCRIPT" "SHOW", sha1: impl Args);
}
