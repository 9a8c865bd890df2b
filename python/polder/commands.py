"""Every command by its name, as the command table has it, without what redis-py makes of arguments and replies."""
from polder._polder import NAMES, PLAIN, Caller
from polder.client import _error, run_words, told


class Commands:
    """A caller with a method for each command: ``c.hincrby("h", "f", 2)``, ``c.set("k", "v", "EX", 60)``, ``c.config_get("maxmemory")``. DEL is
    ``del_``. Errors are those of redis-py. It has a state of its own (MULTI, a database), and belongs to one thread at a time."""

    def __init__(self, memory, *, db=0, protocol=3, decode=False):
        self._again = (memory, db, protocol, decode)
        self._caller = Caller(memory, protocol, _error, decode)
        if db:
            self.run("SELECT", db)

    def __reduce__(self):
        # By name, in the database that it began with; what it remembers from call to call (MULTI, a watch) stays behind.
        return _commands_again, self._again

    def run(self, *words):
        """Runs a call by its words: its reply."""
        if words[0] in PLAIN:
            with told():
                reply = self._caller.call(*words)
            if reply is not NotImplemented:
                return reply
        with told():
            (reply,) = run_words(self._caller, [word if isinstance(word, bytes) else str(word).encode() for word in words])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def __getattr__(self, name):
        words = NAMES.get(name)
        if words is None:
            raise AttributeError(f"there is no command {name}")

        def command(*more):
            return self.run(*words, *more)

        command.__name__ = name
        setattr(self, name, command)
        return command


def _commands_again(memory, db, protocol, decode):
    return Commands(memory, db=db, protocol=protocol, decode=decode)
