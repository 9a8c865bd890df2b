"""One process of the torture run that is written in Python: actor.py SEGMENT FOLDER ID SEQUENCE SEED (testkit/src/crash/mixed.rs).

It notes what it means to do and what was acknowledged as the others do, until its standard input closes or somebody kills it. What is wrong
with the memory it says on standard output and ends."""
import os
import random
import select
import sys
import threading
import time

import polder

KEYS, GROUPS, GROUP_KEYS, SHARED_GROUPS, COUNTERS, ACCOUNTS, QUEUES = 64, 8, 6, 4, 4, 4, 3
LENGTHS = [0, 30, 60, 200, 1000, 4000]
BITS = (1 << 64) - 1
TRANSFER = """redis.call('DECRBY', KEYS[1], 3 * ARGV[1]) redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[1])
return redis.call('ZINCRBY', KEYS[3], 2 * ARGV[1], ARGV[3])"""


def value(key, writer, sequence, length):
    """A value that proves itself, as crash/value.rs makes it."""
    head = f"{key}|{writer}|{sequence}|{length}".encode()
    total = 0xCBF29CE484222325
    for byte in head:
        total = (total ^ byte) * 0x100000001B3 & BITS
    made = bytearray(head + b"|%016x|" % total)
    while len(made) < length:
        total = (total * 6364136223846793005 + 1442695040888963407) & BITS
        made.append(total >> 56)
    return bytes(made)


class Actor:
    def __init__(self, segment, folder, me, sequence, seed):
        self.me, self.sequence, self.nonce = me, sequence, seed % 1_000_000_000
        self.random = random.Random(seed)
        self.tokens_made = 0
        self.heard = 0
        self.listener = None
        self.r = polder.attach(segment, create=False)
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
        self.journal = os.open(f"{folder}/journal-{me}", flags, 0o666)
        self.tokens = os.open(f"{folder}/tokens-{me}", flags, 0o666)

    def note(self, file, line):
        os.write(file, f"{line}\n".encode())

    def intend(self, letter, target):
        self.sequence += 1
        self.note(self.journal, f"I {letter} {target} {self.sequence}")

    def below(self, end):
        return self.random.randrange(end)

    def set_key(self):
        target = self.below(KEYS)
        key = f"owned:{self.me}:{target}"
        self.intend("S", target)
        self.r.set(key, value(key, self.me, self.sequence, self.random.choice(LENGTHS)))
        self.note(self.journal, "A")

    def write_group(self, shared):
        target = self.below(SHARED_GROUPS if shared else GROUPS)
        prefix = f"shared:{target}" if shared else f"group:{self.me}:{target}"
        self.intend("X" if shared else "M", target)
        keys = [f"{prefix}:{at}" for at in range(GROUP_KEYS)]
        self.r.mset({key: value(key, self.me, self.sequence, self.random.choice(LENGTHS)) for key in keys})
        self.note(self.journal, "A")

    def look_at_shared(self):
        target = self.below(SHARED_GROUPS)
        keys = [f"shared:{target}:{at}" for at in range(GROUP_KEYS)]
        found = self.r.mget(keys)
        stamps = {item and tuple(item.split(b"|", 3)[1:3]) for item in found}
        if len(stamps) != 1:
            sys.exit(f"a transaction is half visible in {keys[0]}: {stamps}")

    def count(self):
        target = self.below(COUNTERS)
        self.intend("C", target)
        self.r.incr(f"counter:{target}")
        self.note(self.journal, "A")

    def transfer(self):
        account, field, member = f"account:{self.below(ACCOUNTS)}", f"f{self.below(ACCOUNTS)}", f"m{self.below(ACCOUNTS)}"
        amount = self.below(9) - 4
        if self.below(2):
            self.r.eval(TRANSFER, 3, account, "accounts", "purses", amount, field, member)
            return
        with self.r.pipeline(transaction=True) as pipe:
            pipe.incrby(account, -3 * amount).hincrby("accounts", field, amount).zincrby("purses", 2 * amount, member)
            pipe.execute()

    def push(self):
        self.tokens_made += 1
        token = f"{self.me}.{self.nonce}.{self.tokens_made}"
        self.note(self.tokens, f"+ {token}")
        self.r.rpush(f"queue:{self.below(QUEUES)}", token)
        self.note(self.tokens, "A")

    def pop(self):
        queue = f"queue:{self.below(QUEUES)}"
        self.note(self.tokens, "-")
        if self.below(2):
            token = self.r.lpop(queue)
        else:
            found = self.r.blpop([queue, "queue:0"], timeout=0.05)
            token = found and found[1]
        self.note(self.tokens, f"= {token.decode()}" if token else "=")

    def listen(self, subscriber):
        for message in subscriber.listen():
            if message["type"] == "message":
                self.heard = int(message["data"])

    def talk(self):
        """Publishes a number, which our own listener must hear, in a thread of its own."""
        subject = f"talk:{self.me}:{self.nonce}"
        if self.listener is None:
            ready = threading.Event()

            def run():
                # A caller that listens belongs to its thread.
                subscriber = self.r.pubsub()
                subscriber.subscribe(subject)
                subscriber.get_message(timeout=10)
                ready.set()
                self.listen(subscriber)

            self.listener = threading.Thread(target=run, daemon=True)
            self.listener.start()
            ready.wait(20)
        self.tokens_made += 1
        number = self.tokens_made
        self.r.publish(subject, number)
        for _ in range(7500):
            if self.heard == number:
                return
            time.sleep(0.002)
        sys.exit(f"a message was lost: {subject} hears {self.heard} instead of {number}")

    def step(self):
        drawn = self.below(100)
        steps = [(35, self.set_key), (50, lambda: self.write_group(False)), (58, lambda: self.write_group(True)), (70, self.count),
                 (78, self.transfer), (86, self.look_at_shared), (91, self.push), (97, self.pop), (100, self.talk)]
        next(step for most, step in steps if drawn < most)()


def main():
    segment, folder, me, sequence, seed = sys.argv[1:]
    try:
        actor = Actor(segment, folder, int(me), int(sequence), int(seed))
        while not select.select([0], [], [], 0)[0]:
            actor.step()
    except SystemExit as complaint:
        print(complaint, flush=True)
        os._exit(1)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(1)
    # Not by way of the interpreter's end: the thread that listens would have to be ended first.
    os._exit(0)


main()
