"""A leaderboard that any number of processes keep together; typed, and checked by mypy --strict.

    python leaderboard.py MEMORY add PLAYER POINTS
    python leaderboard.py MEMORY top COUNT
"""
import sys
from typing import List, Tuple

import polder

BOARD = "leaderboard"


class Leaderboard:
    def __init__(self, name: str) -> None:
        memory = polder.memory(name)
        self._calls = polder.Commands(memory, decode=True)
        self._seen = polder.cache(name, prefix="seen:")

    def add(self, player: str, points: float) -> Tuple[float, int]:
        """The player's sum, and his place."""
        total: float = self._calls.zincrby(BOARD, points, player)
        place: int = self._calls.zrevrank(BOARD, player)
        self._seen.add(player)
        return total, place + 1

    def top(self, count: int) -> List[Tuple[str, float]]:
        return [(player, points) for player, points in self._calls.zrange(BOARD, 0, count - 1, "REV", "WITHSCORES")]

    def updates(self, player: str) -> int:
        seen = self._seen.get(player)
        return 0 if seen is None else int(seen)


def main(words: List[str]) -> None:
    board = Leaderboard(words[0])
    if words[1] == "add":
        total, place = board.add(words[2], float(words[3]))
        print(f"{words[2]}: {total:g} points, place {place}, {board.updates(words[2])} updates")
    else:
        for place, (player, points) in enumerate(board.top(int(words[2])), 1):
            print(f"{place}. {player} {points:g}")


if __name__ == "__main__":
    main(sys.argv[1:])
