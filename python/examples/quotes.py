"""Reads what a feed handler in C writes (capi/examples/feed.c): hears of each quote, and finds it.

    python quotes.py MEMORY SYMBOL COUNT
"""
import sys

import polder


def main(name, symbol, count):
    r = polder.attach(name, decode_responses=True, create=False)
    key, last, heard = f"quote:{symbol}", 0, 0
    with r.pubsub(ignore_subscribe_messages=True) as news:
        news.subscribe(key)
        print("ready", flush=True)
        while last < count:
            message = news.get_message(timeout=30)
            if message is None:
                continue
            quote = r.hgetall(key)
            # Quote and message are one change: what is found is never older than what was heard.
            assert int(quote["serial"]) >= int(message["data"]) > last, (quote, message)
            assert int(quote["ask"]) == int(quote["bid"]) + 1, "half a quote"
            last, heard = int(message["data"]), heard + 1
    print(f"{heard} quotes of {symbol}, the last one {last}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
