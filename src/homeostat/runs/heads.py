"""Signed heads: a few hundred bytes that pin a whole ledger, and marks that say where it was touched."""

import base64
import hashlib
from typing import Any, Final, Protocol

import msgspec

from homeostat.core.canonical import canonical_of
from homeostat.core.clock import Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import MalformedPayload

FORMAT: Final = "homeostat.head/1"
MARK_BYTES: Final = 8
MARKS_MAX: Final = 1 << 16
"""Up to so many entries each has its mark; beyond, every second one, every fourth, and so on."""


class Head(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state of a ledger at one moment, signed.

    `root` is the root of the Merkle tree over the first `size` entries, `last` the hash of the last of them. `marks`
    are the first bytes of every `stride`-th entry's hash: they prove nothing that the root does not, but name the
    place.
    """

    format: str = FORMAT
    project: str
    run_id: str
    size: int
    root: str
    last: str
    at_ms: Millis
    stride: int
    marks: str
    public_key: str
    signature: str = ""

    @property
    def fingerprint(self) -> str:
        """The signing key in a form one can read out."""
        return fingerprint(self.public_key)


class Signer(Protocol):
    """Holds a private key."""

    @property
    def public_key(self) -> str:
        """The public half, in Base64."""
        ...

    def sign(self, content: bytes) -> bytes: ...


class Marks:
    """The first bytes of hashes, thinned out as they become many."""

    __slots__ = ("_kept", "_size", "stride")

    def __init__(self) -> None:
        self.stride = 1
        self._size = 0
        self._kept = bytearray()

    def extend(self, hashes: list[bytes]) -> None:
        first = -(self._size + 1) % self.stride  # entry n has a mark if the stride divides n
        self._kept += b"".join([one[:MARK_BYTES] for one in hashes[first :: self.stride]])
        self._size += len(hashes)
        while len(self._kept) > MARKS_MAX * MARK_BYTES:
            self.stride *= 2
            kept = bytes(self._kept)
            self._kept = bytearray().join(
                kept[place : place + MARK_BYTES] for place in range(MARK_BYTES, len(kept), 2 * MARK_BYTES)
            )

    def text(self) -> str:
        return base64.b64encode(self._kept).decode()


def signed_text(head: Head) -> bytes:
    """What a head's signature is made over: everything else in it, as canonical JSON."""
    fields: dict[str, Any] = msgspec.to_builtins(head)
    del fields["signature"]
    return canonical_of(to_json(fields, limit=MARKS_MAX * MARK_BYTES * 2 + 4_096)).encode()


def sign(head: Head, signer: Signer) -> Head:
    signature = signer.sign(signed_text(head))
    return msgspec.structs.replace(head, signature=base64.b64encode(signature).decode())


def signature_holds(head: Head) -> bool:
    """Whether the head was signed by the key it names. Whose key that is, its reader has to know."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 — only who checks heads pays for it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 — as above

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(head.public_key, validate=True))
        key.verify(base64.b64decode(head.signature, validate=True), signed_text(head))
    except (InvalidSignature, ValueError):
        return False
    return True


def read_head(text: str | bytes) -> Head:
    """A head from a file or a bundle."""
    try:
        head = msgspec.json.decode(text, type=Head)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise MalformedPayload(field="head", problem=str(problem)) from problem
    check_shape(head)
    return head


def check_shape(head: Head) -> None:
    """Raise `MalformedPayload` where a head contradicts itself."""
    if head.format != FORMAT:
        raise MalformedPayload(field="head", problem=f"its format is {head.format!r}, and {FORMAT!r} is understood")
    try:
        marks = len(base64.b64decode(head.marks, validate=True))
    except ValueError as problem:
        raise MalformedPayload(field="head", problem=f"its marks are not Base64: {problem}") from problem
    if head.size < 0 or head.stride < 1 or marks != head.size // head.stride * MARK_BYTES:
        raise MalformedPayload(field="head", problem="its marks do not fit its size")


def write_head(head: Head) -> bytes:
    return msgspec.json.encode(head)


def fingerprint(public_key: str) -> str:
    digest = hashlib.sha256(base64.b64decode(public_key)).hexdigest()[:32]
    return ":".join(digest[place : place + 4] for place in range(0, 32, 4))


class Ed25519Signer:
    """Signs with a key of 32 bytes."""

    def __init__(self, seed: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 — only who signs

        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    @property
    def public_key(self) -> str:
        return self._public

    def sign(self, content: bytes) -> bytes:
        return self._key.sign(content)
