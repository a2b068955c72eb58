"""Files that somebody names on a command line, read as text."""

from pathlib import Path

import typer

from homeostat.cli.failures import USAGE, fail

STDIN = "-"


def text_of(path: str) -> str:
    """What a file holds, or standard input; ends the command if that cannot be read."""
    try:
        content = typer.get_binary_stream("stdin").read() if path == STDIN else Path(path).read_bytes()
    except OSError as problem:
        hint = "" if Path(path).is_absolute() else f"It is looked for in {Path.cwd()}."
        raise fail(f"{path} cannot be read: {problem.strerror}", hint=hint, code=USAGE) from problem
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        hint = f"Save it as UTF-8: iconv -f ENCODING -t UTF-8 {path}"
        raise fail(f"{path} is not UTF-8: its byte {problem.start + 1} is none", hint=hint, code=USAGE) from problem
