"""The log of a run: a line is a line, whatever it holds and whatever the disk does."""

from contextlib import suppress
from pathlib import Path

import pytest

from pag.errors import RunError
from pag.run import read_log
from pag.runlog import RunLog


def test_a_text_with_other_line_ends_stays_in_its_line(tmp_path: Path) -> None:
    """JSON leaves U+2028 and U+0085 as they are."""
    samples = [{"output": "one\u2028two\x85three"}]
    log = RunLog(tmp_path, -1)
    log.write("valid", 3, {"loss": 1.0, "samples": samples})
    log.close()
    RunLog(tmp_path, 3).close()
    [event] = read_log(tmp_path)
    assert event["samples"] == samples


def test_a_full_disk_is_one_line_that_names_the_log(tmp_path: Path) -> None:
    log = RunLog(tmp_path, -1)
    log.file.close()
    refused = pytest.raises(RunError, match=r"cannot write .*log\.jsonl: no space left on the disk")
    with suppress(OSError), Path("/dev/full").open("w") as log.file, refused:
        log.write("train", 1, {"loss": 1.0})
