"""Words for files that cannot be what they were given as."""

from pathlib import Path

from typer.testing import CliRunner

from homeostat.cli.application import application

BUNDLE = Path(__file__).parent.parent / "runs" / "data" / "earlier-rules.homeostat"


def test_a_file_that_is_no_head_is_called_so(tmp_path: Path) -> None:
    head = tmp_path / "run.head"
    head.write_text('{"size": "many"}')
    said = CliRunner().invoke(application, ["verify", str(BUNDLE), "--head", str(head)])
    assert said.exit_code == 2
    assert "run.head is no signed head: " in said.stderr
    assert "GET /v1/runs/RUN/head" in said.stderr
    assert "openapi" not in said.stderr


def test_a_prompt_in_a_file_that_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    odd = tmp_path / "prompt.txt"
    odd.write_bytes(b"\xff\xfe")
    for path, words in ((tmp_path / "none", "cannot be read: No such file"), (odd, "is not UTF-8: its byte 1 is none")):
        said = CliRunner().invoke(application, ["replay", str(BUNDLE), "--mode", "what-if", "--prompt", f"@{path}"])
        assert said.exit_code == 2
        assert f"{path} {words}" in said.stderr
