#!/usr/bin/env python3
"""Power cuts of a real file system: what ext4 has given to its disk at an instant is what a server finds after the next boot.

    sudo testkit/power_cut.py [CUTS [POLDER]]        as root; needs loop devices, ext4 and mkfs.btrfs (package btrfs-progs)

A server with `appendfsync always` writes its log to an ext4 file system on a loop device. The file behind that device lies on btrfs, so that a
clone of it is the state of the disk at one instant: dirty pages of ext4 are not in it. Each cut clones the disk under load, mounts the clone (ext4
replays its journal), and starts a server on it with a new segment. Every INCR that had been answered before the clone began must be there, and
LRANGE of a list must be 1, 2, 3 and so on without a gap.
"""
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

CUTS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
POLDER = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(__file__), "../target/debug/polder")
PORT, SECOND_PORT = 17801, 17802
CLIENTS = 8


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.strip()


def request(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words))


class Client:
    def __init__(self, port):
        for _ in range(400):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
                break
            except OSError:
                time.sleep(0.02)
        self.replies = self.socket.makefile("rb")

    def call(self, *words):
        self.socket.sendall(request(*words))
        return self.reply()

    def reply(self):
        line = self.replies.readline().rstrip(b"\r\n")
        if line[:1] == b"$":
            return None if line == b"$-1" else self.replies.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        return int(line[1:]) if line[:1] == b":" else line


def serve(port, segment, folder):
    words = ["--segment", segment, "--segment-size", "256mb", "--port", str(port), "--dir", folder, "--threads", "1", "--save", ""]
    # The base grows old and is written anew under the load as well.
    words += ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "1mb"]
    return subprocess.Popen([POLDER, "serve", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def answer_of(port):
    """A client of a server that has read its log."""
    while True:
        client = Client(port)
        if client.call("PING") == b"+PONG":
            return client
        time.sleep(0.02)


def load(number, answered, goes_on):
    client = Client(PORT)
    while goes_on.is_set():
        count = client.call("INCR", f"counter:{number}")
        assert isinstance(count, int), count
        answered[number] = count
        if number == 0:
            client.call("RPUSH", "list", str(count))


def check(clone, place, before):
    """Starts a server on a clone of the disk; returns how many writes it has beyond those that were answered."""
    device, mounted, segment = run("losetup", "-f", "--show", clone), os.path.join(place, "after"), f"shm:power-cut-after-{os.getpid()}"
    run("mount", device, mounted)
    server = serve(SECOND_PORT, segment, mounted)
    try:
        client = answer_of(SECOND_PORT)
        there = [int(client.call("GET", f"counter:{number}") or 0) for number in range(CLIENTS)]
        for number, (was, found) in enumerate(zip(before, there)):
            assert found >= was, f"counter {number}: {was} was answered, {found} is there"
        listed = [int(element) for element in client.call("LRANGE", "list", "0", "-1")]
        assert listed == list(range(1, len(listed) + 1)) and len(listed) in (there[0], there[0] - 1), "the list has a gap"
        return sum(there) - sum(before)
    finally:
        server.terminate()
        server.wait()
        subprocess.run([POLDER, "segment", "remove", segment], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run("umount", mounted)
        run("losetup", "-d", device)


def main():
    place, segment = tempfile.mkdtemp(prefix="polder-power-cut-"), f"shm:power-cut-{os.getpid()}"
    pool, disks, mounted = (os.path.join(place, name) for name in ("pool", "disks", "before"))
    for folder in (disks, mounted, os.path.join(place, "after")):
        os.mkdir(folder)
    run("truncate", "-s", "2G", pool)
    run("mkfs.btrfs", "-q", pool)
    run("mount", "-o", "loop", pool, disks)
    disk = os.path.join(disks, "disk")
    run("truncate", "-s", "256M", disk)
    run("mkfs.ext4", "-q", disk)
    run("mount", "-o", "loop", disk, mounted)
    server, goes_on, answered = serve(PORT, segment, mounted), threading.Event(), [0] * CLIENTS
    threads = [threading.Thread(target=load, args=(number, answered, goes_on)) for number in range(CLIENTS)]
    try:
        answer_of(PORT)
        goes_on.set()
        for thread in threads:
            thread.start()
        for cut in range(CUTS):
            time.sleep(random.uniform(0.05, 0.6))
            before, clone = list(answered), os.path.join(disks, "clone")
            run("cp", "--reflink=always", disk, clone)
            more = check(clone, place, before)
            print(f"cut {cut + 1}: {sum(before)} answered writes are there, and {more} more", flush=True)
            os.remove(clone)
        print(f"power cut: {CUTS} passed, 0 failed")
    finally:
        goes_on.clear()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        server.terminate()
        server.wait()
        subprocess.run([POLDER, "segment", "remove", segment], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for folder in (mounted, disks):
            subprocess.run(["umount", folder], check=False)
        shutil.rmtree(place, ignore_errors=True)


main()
