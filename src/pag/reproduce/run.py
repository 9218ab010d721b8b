"""Running a table's jobs, several at once on one device; what one of them spoils, the others do not notice."""

import json
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from pag.checkpoint import to_json, write_atomically
from pag.reproduce.plan import Job, same
from pag.reproduce.results import Run, add_run
from pag.run import read_log


class RunFailedError(Exception):
    """A run that did not come to its end; the text is its last line."""


class RunStoppedError(Exception):
    """A run that was asked to stop, and can go on."""


@dataclass
class Runner:
    """Runs jobs and stores each result as it comes."""

    table: str
    results: Path
    commit: str
    jobs: int = 1
    say: Callable[[str], None] = print
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    signal: int | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _children: set[subprocess.Popen] = field(default_factory=set)

    def run(self, jobs: Sequence[Job], minutes: float | None = None) -> None:
        """All jobs, or as many as end within so many minutes; the others save and can go on."""
        timer = threading.Timer((minutes or 0) * 60, self.stop)
        timer.daemon = True
        if minutes:
            timer.start()
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(kind, self._note) for kind in kinds]
        try:
            with ThreadPoolExecutor(self.jobs) as pool:
                waiting = {pool.submit(self._measure, job): job for job in jobs}
                for done in as_completed(waiting):
                    self._keep(waiting[done], done)
        finally:
            timer.cancel()
            for kind, handler in zip(kinds, before, strict=True):
                signal.signal(kind, handler)

    def stop(self) -> None:
        """Begin nothing more; let what is going on save and end."""
        self._stopping.set()
        for child in list(self._children):
            child.send_signal(signal.SIGTERM)

    def _note(self, number: int, frame: Any) -> None:
        self.signal = number
        self.stop()

    def _keep(self, job: Job, done: "Future[Run]") -> None:
        error = done.exception()
        if error is None:
            run = done.result()
            add_run(self.results, self.table, job.cell.name, run)
            shown = {name: {k: v for k, v in scores.items() if _short(v)} for name, scores in run["scores"].items()}
            self.say(f"{job.title}: {sum(run['seconds'].values()):.0f} s  {json.dumps(shown)}")
        elif isinstance(error, RunStoppedError):
            self.left.append(job.title)
        else:
            self.failed.append(job.title)
            self.say(f"{job.title}: failed: {error}")

    # one job, in a thread of its own

    def _measure(self, job: Job) -> Run:
        started, done = time.monotonic(), trained(job)
        job.folder.mkdir(parents=True, exist_ok=True)
        with (job.folder / "output.txt").open("a", encoding="utf-8") as output:
            if not done:
                self._call(job.train(), output, output, job)
            scores = {evaluation.name: self._scores(job, evaluation.name, output) for evaluation in job.evaluations}
        run, wall = record(job, scores, self.commit), time.monotonic() - started
        other = max(0.0, wall - (0.0 if done else run["seconds"]["train"]))  # start, scores
        run["seconds"]["other"] = round(other, 1)
        return {**run, "finished": round((job.folder / "summary.json").stat().st_mtime + other)}

    def _scores(self, job: Job, name: str, output: IO[str]) -> dict[str, Any]:
        """Evaluated once for a checkpoint: a job that is begun again does not search again."""
        kept, at = job.folder / "scores" / f"{name}.json", _finished(job.folder)
        if kept.is_file() and (found := json.loads(kept.read_bytes()))["of"] == at:
            return dict(found["scores"])
        [evaluation] = [each for each in job.evaluations if each.name == name]
        scores = json.loads(self._call(job.evaluate(evaluation), subprocess.PIPE, output, job))
        write_atomically(kept, to_json({"of": at, "scores": scores}))
        return dict(scores)

    def _call(self, command: Sequence[str], stdout: Any, stderr: IO[str], job: Job) -> str:
        if self._stopping.is_set():
            raise RunStoppedError
        threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self.jobs))}
        child = subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True, env=threads | os.environ)
        self._children.add(child)
        if self._stopping.is_set():  # between the question above and the child's being known
            child.send_signal(signal.SIGTERM)
        said, _ = child.communicate()
        self._children.discard(child)
        if child.returncode and self._stopping.is_set():
            raise RunStoppedError
        if child.returncode:
            stderr.flush()
            raise RunFailedError(
                f"{last_line(job.folder / 'output.txt')} (exit code {child.returncode}; {stderr.name})"
            )
        return said or ""


def trained(job: Job) -> bool:
    """Did this very recipe come to its end in the folder?"""
    path = job.folder / "summary.json"
    if not path.is_file():
        return False
    summary = json.loads(path.read_bytes())
    return summary["reason"] != "interrupted" and same(summary["recipe"], job.recipe.model_dump(mode="json"))


def record(job: Job, scores: dict[str, Any], commit: str) -> Run:
    """Everything that a table, a picture or a reader may want of a run."""
    summary, events = json.loads((job.folder / "summary.json").read_bytes()), read_log(job.folder)
    summary["recipe"] = job.public(summary["recipe"])
    speeds = [event["updates_per_second"] for event in events if event["kind"] == "train"]
    dropped = ("kind", "samples", "replan_gaps")
    return {
        "seed": job.seed,
        "recipe": job.cell.recipe,
        "over": job.cell.over,
        "commit": commit,
        "data": job.fingerprint(),
        "scores": scores,
        "summary": summary,
        "updates_per_second": round(statistics.median(speeds), 3) if speeds else None,
        "seconds": {"train": summary["seconds"]},
        "curve": [
            {key: value for key, value in event.items() if key not in dropped}
            for event in events
            if event["kind"] == "valid"
        ],
    }


def last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def _finished(folder: Path) -> int:
    return int(json.loads((folder / "summary.json").read_bytes())["update"])


def _short(value: Any) -> bool:
    return isinstance(value, int | float)


def commit_of(given: str) -> str:
    """The commit that is measured: as given, from PAG_COMMIT, or from git where the code lies in a checkout."""
    if given or os.environ.get("PAG_COMMIT"):
        return given or os.environ["PAG_COMMIT"]
    here = Path(__file__).parent
    try:
        asked = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=7", "--exclude=*"]
        found = subprocess.run(asked, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()
