"""Who listens for what, across processes: lets a publisher skip what nobody hears."""

import asyncio

import msgspec

from homeostat.core.limits import BUS_BEAT_SECONDS

SUBJECT = "hs.interest.v1"
SETTLE_SECONDS = 1.0  # after this without a word, nobody else listens
SILENCES_MAX = 3  # beats a party may miss before it is thought gone


class Word(msgspec.Struct):
    """What one party listens for; `asks` makes every other one answer in kind."""

    party: str
    suffixes: tuple[str, ...]
    asks: bool = False


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Word)


class Interest:
    """What the other parties said they listen for. Knowing too much costs a message, too little a signal."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._others: dict[str, tuple[frozenset[str], float]] = {}
        self._since = 0.0
        self.mine: frozenset[str] = frozenset()

    def reset(self) -> None:
        """A connection was made: what others want is not known yet."""
        self._others.clear()
        self._since = asyncio.get_running_loop().time()

    def word(self, *, asks: bool = False) -> bytes:
        return _encoder.encode(Word(self._party, tuple(sorted(self.mine)), asks))

    def hear(self, body: bytes) -> bool:
        """Take in what a party said; True if it wants an answer."""
        try:
            word = _decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError):
            return False
        if word.party == self._party:
            return False
        if word.suffixes:
            self._others[word.party] = (frozenset(word.suffixes), asyncio.get_running_loop().time())
        else:
            self._others.pop(word.party, None)
        return word.asks

    def wanted(self, suffix: str) -> bool:
        """Whether somebody may listen for this kind; while nothing is known, somebody may."""
        if suffix in self.mine or "*" in self.mine:
            return True
        now = asyncio.get_running_loop().time()
        if now < self._since + SETTLE_SECONDS:
            return True
        silent_since = now - SILENCES_MAX * BUS_BEAT_SECONDS
        return any(
            (suffix in suffixes or "*" in suffixes) and heard >= silent_since
            for suffixes, heard in self._others.values()
        )

    def prune(self) -> None:
        """Forget parties that fell silent."""
        silent_since = asyncio.get_running_loop().time() - SILENCES_MAX * BUS_BEAT_SECONDS
        for party in [party for party, (_, heard) in self._others.items() if heard < silent_since]:
            del self._others[party]
