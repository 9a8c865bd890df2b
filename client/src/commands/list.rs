//! Methods of the group `list`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `BLMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout`: Pops an element from a list, pushes it to another list and returns it. Waits until there is one.
    blmove("BLMOVE", source: impl Args, destination: impl Args, more: impl Args);

    /// `BLMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> timeout [<COUNT count|EXACTLY exactly> <OBO|BULK>]`: Moves up to a number of elements, or exactly that many, from one list to another and returns them. Waits until there are any, or enough.
    blmovem("BLMOVEM", source: impl Args, destination: impl Args, more: impl Args);

    /// `BLMPOP timeout numkeys key [key ...] <LEFT|RIGHT> [COUNT count]`: Pops the first elements from one of several lists. Waits until there are some.
    blmpop("BLMPOP", timeout: f64, numkeys: i64, keys: impl Args, more: impl Args);

    /// `BLPOP key [key ...] timeout`: Removes and returns the first element of one of several lists. Waits until there is one.
    blpop("BLPOP", keys: impl Args, timeout: f64);

    /// `BRPOP key [key ...] timeout`: Removes and returns the last element of one of several lists. Waits until there is one.
    brpop("BRPOP", keys: impl Args, timeout: f64);

    /// `BRPOPLPUSH source destination timeout`: Pops an element from a list, pushes it to another list and returns it. Waits until there is one.
    brpoplpush("BRPOPLPUSH", source: impl Args, destination: impl Args, timeout: f64);

    /// `LINDEX key index`: Returns an element from a list by its index.
    lindex("LINDEX", key: impl Args, index: i64);

    /// `LINSERT key <BEFORE|AFTER> pivot element`: Inserts an element before or after another element in a list.
    linsert("LINSERT", key: impl Args, more: impl Args);

    /// `LLEN key`: Returns the length of a list.
    llen("LLEN", key: impl Args);

    /// `LMOVE source destination <LEFT|RIGHT> <LEFT|RIGHT>`: Returns an element after popping it from one list and pushing it to another.
    lmove("LMOVE", source: impl Args, destination: impl Args, more: impl Args);

    /// `LMOVEM source destination <LEFT|RIGHT> <LEFT|RIGHT> [<COUNT count|EXACTLY exactly> <OBO|BULK>]`: Moves up to a number of elements, or exactly that many, from one list to another and returns them.
    lmovem("LMOVEM", source: impl Args, destination: impl Args, more: impl Args);

    /// `LMPOP numkeys key [key ...] <LEFT|RIGHT> [COUNT count]`: Returns multiple elements from a list after removing them.
    lmpop("LMPOP", numkeys: i64, keys: impl Args, more: impl Args);

    /// `LPOP key [count]`: Returns and removes one or more elements from the beginning of a list.
    lpop("LPOP", key: impl Args, more: impl Args);

    /// `LPOS key element [RANK rank] [COUNT num-matches] [MAXLEN len]`: Returns the index of matching elements in a list.
    lpos("LPOS", key: impl Args, element: impl Args, more: impl Args);

    /// `LPUSH key element [element ...]`: Prepends one or more elements to a list. Creates the key if it doesn't exist.
    lpush("LPUSH", key: impl Args, elements: impl Args);

    /// `LPUSHX key element [element ...]`: Prepends one or more elements to a list only when the list exists.
    lpushx("LPUSHX", key: impl Args, elements: impl Args);

    /// `LRANGE key start stop`: Returns a range of elements from a list.
    lrange("LRANGE", key: impl Args, start: i64, stop: i64);

    /// `LREM key count element`: Removes elements from a list. Deletes the list if the last element was removed.
    lrem("LREM", key: impl Args, count: i64, element: impl Args);

    /// `LSET key index element`: Sets the value of an element in a list by its index.
    lset("LSET", key: impl Args, index: i64, element: impl Args);

    /// `LTRIM key start stop`: Removes elements from both ends of a list. Deletes the list if all elements were trimmed.
    ltrim("LTRIM", key: impl Args, start: i64, stop: i64);

    /// `RPOP key [count]`: Returns and removes one or more elements from the end of a list.
    rpop("RPOP", key: impl Args, more: impl Args);

    /// `RPOPLPUSH source destination`: Returns the last element of a list after removing and pushing it to another list.
    rpoplpush("RPOPLPUSH", source: impl Args, destination: impl Args);

    /// `RPUSH key element [element ...]`: Appends one or more elements to a list. Creates the key if it doesn't exist.
    rpush("RPUSH", key: impl Args, elements: impl Args);

    /// `RPUSHX key element [element ...]`: Appends one or more elements to a list only when the list exists.
    rpushx("RPUSHX", key: impl Args, elements: impl Args);
}
