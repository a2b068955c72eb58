"""A disk whose power can be cut after any operation: what was not synced may be there, be gone, or be torn."""

import os
import shutil
import struct
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

from homeostat.core.ids import Chance

SOURCE: Final = Path(__file__).with_name("disk.c")
SECTOR_BYTES: Final = 512  # what a disk writes whole or not at all
KEPT_SHARE: Final = 0.5  # of what was not synced, how much happens to be on the platter
TORN_SHARE: Final = 0.3
_HEAD: Final = struct.Struct("<IIIIQ")


class Kind(IntEnum):
    """What was done; the numbers are those of disk.c."""

    WRITE = 1
    TRUNCATE = 2
    SYNC = 3
    CREATE = 4
    UNLINK = 5
    RENAME = 6
    SYNC_FOLDER = 7
    FAILED_WRITE = 8
    FAILED_SYNC = 9


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was done to a file, in the order in which it was done."""

    kind: Kind
    path: str
    offset: int
    data: bytes


def compiler() -> str | None:
    """What can build the recording disk, where there is one."""
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    """The library that a process under test is started with."""
    return compiled(SOURCE, folder / "disk.so")


def compiled(source: Path, library: Path) -> Path:
    """A library to preload, made from its source."""
    found = compiler()
    assert found is not None, f"{source.name} needs a C compiler"
    arguments = [found, "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl", "-lpthread"]
    subprocess.run(arguments, check=True, capture_output=True)
    return library


def environment(library: Path, root: Path, journal: Path, *, fail: str = "", lies: bool = False) -> dict[str, str]:
    """What to start a process with so that everything below `root` is recorded."""
    wanted = {"LD_PRELOAD": str(library), "DISK_ROOT": str(root), "DISK_JOURNAL": str(journal)}
    return dict(os.environ) | wanted | ({"DISK_FAIL": fail} if fail else {}) | ({"DISK_LIES": "1"} if lies else {})


def read(journal: Path) -> Iterator[Operation]:
    """Everything that was done; a last note that was cut short is left out, as nothing followed it."""
    raw = journal.read_bytes()
    at = 0
    while at + _HEAD.size <= len(raw):
        kind, path, length, _, offset = _HEAD.unpack_from(raw, at)
        begin = at + _HEAD.size
        at = begin + path + length
        if at > len(raw):
            return
        yield Operation(Kind(kind), raw[begin : begin + path].decode(), offset, raw[begin + path : at])


@dataclass(slots=True)
class _File:
    """A file as it is on the platter, and what was done to it since its last sync."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Operation] = field(default_factory=list[Operation])
    entered: bool = False
    """Whether its name is on the platter too."""

    def sync(self) -> None:
        for operation in self.pending:
            _apply(self.durable, operation)
        self.pending.clear()

    def cut(self, chance: Chance) -> bytes:
        content = bytearray(self.durable)
        for operation in self.pending:
            if chance.random() >= KEPT_SHARE:
                continue
            kept = len(operation.data)
            if operation.kind is Kind.WRITE and kept > SECTOR_BYTES and chance.random() < TORN_SHARE:
                kept = SECTOR_BYTES * chance.randrange(1, -(-kept // SECTOR_BYTES))
            _apply(content, Operation(operation.kind, operation.path, operation.offset, operation.data[:kept]))
        return bytes(content)


def _apply(content: bytearray, operation: Operation) -> None:
    if operation.kind is Kind.TRUNCATE:
        del content[operation.offset :]
        content.extend(bytes(operation.offset - len(content)))
        return
    end = operation.offset + len(operation.data)
    content.extend(bytes(max(0, operation.offset - len(content))))
    content[operation.offset : end] = operation.data


class Disk:
    """Follows a recording, and can say at each point what a power cut would leave."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._leaving: dict[str, _File] = {}

    def follow(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._do(operation)

    def _do(self, operation: Operation) -> None:
        file = self._files.setdefault(operation.path, _File())
        match operation.kind:
            case Kind.WRITE | Kind.TRUNCATE:
                file.pending.append(operation)
            case Kind.SYNC:
                file.sync()
            case Kind.FAILED_WRITE:
                pass
            case Kind.FAILED_SYNC:
                file.pending.clear()  # a kernel drops what it could not write, and the next sync says that all is well
            case Kind.CREATE:
                self._files[operation.path] = _File()
            case Kind.UNLINK:
                self._leave(operation.path, file)
            case Kind.RENAME:
                self._leave(operation.path, file)
                self._files[operation.data.decode()] = file
            case Kind.SYNC_FOLDER:
                del self._files[operation.path]
                self._leaving.clear()
                for one in self._files.values():
                    one.entered = True

    def _leave(self, path: str, file: _File) -> None:
        del self._files[path]
        if file.entered:
            self._leaving[path] = file

    def cut(self, folder: Path, chance: Chance) -> None:
        """Lay out in `folder` what is found when the power is back.

        A name that was made is there with its first synced byte (the log of the file system takes it along), or by
        chance; one that was removed may be back.
        """
        back = {path: file for path, file in self._leaving.items() if chance.random() < KEPT_SHARE}
        for path, file in (back | self._files).items():
            if file.entered or file.durable or chance.random() < KEPT_SHARE:
                (folder / path).write_bytes(file.cut(chance))


def said(operations: Iterable[Operation], pattern: str) -> Mapping[str, bytes]:
    """What files that are only appended to held when the power went: everything that was written, synced or not."""
    files: dict[str, bytearray] = {}
    for operation in operations:
        if operation.kind is Kind.WRITE and Path(operation.path).match(pattern):
            files.setdefault(operation.path, bytearray()).extend(operation.data)
    return {path: bytes(content) for path, content in files.items()}
