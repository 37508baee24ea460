"""The public API is typed: a user's job passes `mypy --strict`, and a wrong one does not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def checked(name, tmp_path):
    """mypy's errors of a file, as (line, code)."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary"]
    done = subprocess.run([*command, str(HERE / name)], cwd=ROOT, capture_output=True, text=True, timeout=280)
    lines = [line for line in done.stdout.splitlines() if ": error: " in line]
    own = [re.search(rf"{re.escape(name)}:(\d+): error: .*\[([\w-]+)\]$", line) for line in lines]
    assert all(own), done.stdout
    assert done.returncode == (1 if lines else 0), done.stdout + done.stderr
    return {(int(found[1]), found[2]) for found in own}


@pytest.mark.slow
def test_a_job_passes_strict_checking(tmp_path):
    assert checked("user_job.py", tmp_path) == set()


@pytest.mark.slow
def test_mistakes_are_found(tmp_path):
    lines = (HERE / "wrong_job.py").read_text().splitlines()
    expected = {
        (number, found[1]) for number, line in enumerate(lines, 1) if (found := re.search(r"# wrong: ([\w-]+)$", line))
    }
    assert len(expected) > 10
    assert checked("wrong_job.py", tmp_path) == expected
