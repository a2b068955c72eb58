"""The Merkle tree of RFC 6962 over the entries of a ledger, built as they come and in little memory."""

import hashlib
from collections.abc import Sequence
from typing import Final

NODE: Final = b"\1"
BLOCK: Final = 1_024
"""Leaves that are reduced to one node at a time: a power of two."""

EMPTY: Final = hashlib.sha256(b"").digest()


class Tree:
    """Takes the hashes of leaves in order; its root can be asked for at any time."""

    __slots__ = ("_loose", "_peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[tuple[int, bytes]] = []  # the roots of full trees and how many leaves each has, largest first
        self._loose: list[bytes] = []

    def extend(self, leaves: Sequence[bytes]) -> None:
        self.size += len(leaves)
        self._loose += leaves
        whole = len(self._loose) // BLOCK * BLOCK
        for start in range(0, whole, BLOCK):
            _push(self._peaks, BLOCK, _reduce(self._loose[start : start + BLOCK]))
        del self._loose[:whole]

    def root(self) -> bytes:
        peaks = list(self._peaks)
        for leaf in self._loose:
            _push(peaks, 1, leaf)
        if not peaks:
            return EMPTY
        _, root = peaks.pop()
        while peaks:
            root = node(peaks.pop()[1], root)
        return root


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(NODE + left + right).digest()


def _push(peaks: list[tuple[int, bytes]], size: int, root: bytes) -> None:
    while peaks and peaks[-1][0] == size:
        root = node(peaks.pop()[1], root)
        size *= 2
    peaks.append((size, root))


def _reduce(level: list[bytes]) -> bytes:
    sha256 = hashlib.sha256
    while len(level) > 1:
        pairs = iter(level)
        level = [sha256(NODE + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
    return level[0]
