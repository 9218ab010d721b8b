"""The paper's claims, one by one: what our results files say of each."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pag.reproduce.results import Results, Run
from pag.spread import compared, mean_and_spread, sure

Found = Mapping[str, Results]
Verdict = tuple[str, str]  # the verdict, and the numbers behind it


MARGIN = 0.01  # of the baseline's score, within which another is as good


@dataclass(frozen=True)
class Claim:
    said: str
    where: str  # in the paper
    tables: tuple[str, ...]  # what measures it
    judge: Callable[[Found], list[Verdict]]


def claims(found: Found) -> str:
    """The section of the results page."""
    lines = ["| the paper says | where | verdict | our numbers |", "|---|---|---|---|"]
    for claim in CLAIMS:
        commands = ", ".join(f"`pag reproduce {table}`" for table in claim.tables)
        said, where = claim.said, claim.where
        for verdict, numbers in claim.judge(found) or [("not yet measured", commands)]:
            lines.append(f"| {said} | {where} | {verdict} | {numbers} |")
            said, where = "″", ""
    rule = (
        "A difference holds if Student's t test between the runs finds it at 95 %, which asks for 4.3 standard errors "
        "with two runs a side; where it does not, means within one per cent of each other are no difference. With "
        "single runs it is only told. What another test set would say is not in it. “As good as the baseline” is a "
        "mean over the runs that is not more than one per cent below its. ± is the standard deviation between runs."
    )
    return "\n".join(["## The paper's claims, one by one", "", *lines, "", rule, ""])


def judge(better: Sequence[float], worse: Sequence[float], form: str, names: tuple[str, str], sign: int = 1) -> Verdict:
    """Is the first side better (larger; less where `sign` is −1), by more than the runs differ among themselves?"""
    numbers = "; ".join(
        f"{name} {_mean(values, form)} ({len(values)} run{'s' * (len(values) > 1)})"
        for name, values in zip(names, (better, worse), strict=True)
    )
    difference, error = compared(better, worse)
    difference *= sign
    if error is None:
        told = "in favour" if difference > 0 else "no difference" if not difference else "against"
        return f"single runs, {told}", numbers
    if not sure(difference, error, len(better) + len(worse)):
        level = abs(difference) <= MARGIN * abs(statistics.fmean(worse))
        return "no difference" if level else "the runs are too few, or too far apart, to tell", numbers
    return "holds" if difference > 0 else "the opposite holds", numbers


def _mean(values: Sequence[float], form: str) -> str:
    middle, spread = mean_and_spread(values)
    return form.format(middle) + ("" if spread is None else f" ± {form.format(spread)}")


def over(
    table: str, evaluation: str, metric: str, better: str, worse: str, form: str, sign: int = 1
) -> Callable[[Found], list[Verdict]]:
    """Compare a score of two cells; `sign` is −1 where less is better."""

    def judged(found: Found) -> list[Verdict]:
        first, second = (found[table].scores(cell, evaluation, metric) for cell in (better, worse))
        if not first or not second:
            return []
        verdict, numbers = judge(first, second, form, (better, worse), sign)
        named = {"bleu": "BLEU", "sacrebleu": "BLEU", "loss": "nats"}.get(metric, metric.replace("_", " "))
        return [(verdict, f"{table}, {named}: {numbers}")]

    return judged


def several(*judges: Callable[[Found], list[Verdict]]) -> Callable[[Found], list[Verdict]]:
    return lambda found: [verdict for each in judges for verdict in each(found)]


def faster(table: str, better: str, worse: str) -> Callable[[Found], list[Verdict]]:
    """Updates until the validation loss is as low as every run of the other side gets it."""

    def judged(found: Found) -> list[Verdict]:
        first, second = found[table].runs(better), found[table].runs(worse)
        if not first or not second:
            return []
        goal = max(min(point["loss"] for point in run["curve"]) for run in second)
        sooner, later = ([at for run in runs if (at := reached(run, goal))] for runs in (first, second))
        asked = f"{table}: updates to a validation loss of {goal:.3g}"
        if len(sooner) < len(first):
            return [("does not hold", f"{asked}: {worse} always, {better} in {len(sooner)} of {len(first)} runs")]
        verdict, numbers = judge(sooner, later, "{:,.0f}", (better, worse), -1)
        return [(verdict, f"{asked}: {numbers}")]

    return judged


def reached(run: Run, goal: float) -> int | None:
    return next((point["update"] for point in run["curve"] if point["loss"] <= goal), None)


def cheaper(table: str, better: str, worse: str) -> Callable[[Found], list[Verdict]]:
    """Updates a second in training. Runs that shared a device are compared with runs that shared it as well."""

    def judged(found: Found) -> list[Verdict]:
        first, second = ([run["updates_per_second"] for run in found[table].runs(cell)] for cell in (better, worse))
        if not first or not second:
            return []
        verdict, numbers = judge(first, second, "{:.1f}", (better, worse))
        return [(verdict, f"{table}, updates a second: {numbers}")]

    return judged


def committed(table: str, task: str, metric: str, evaluation: str = "test") -> Callable[[Found], list[Verdict]]:
    """Of a study: the lowest re-plan rate at which a planner is as good as the baseline, by model."""

    def judged(found: Found) -> list[Verdict]:
        results, verdicts = found[table], []
        plain = results.scores(f"{task}, baseline", evaluation, metric)
        for model in ("pag", "rpag"):
            cells = [cell for cell in results.cells if cell.startswith(f"{task}, {model}, rate ")]
            if not plain or not cells:
                continue
            goal = (1 - MARGIN) * statistics.fmean(plain)
            good = [
                statistics.fmean(results.scores(cell, evaluation, "replan_rate"))
                for cell in cells
                if statistics.fmean(results.scores(cell, evaluation, metric)) >= goal
            ]
            verdict = "holds" if good and min(good) <= 0.5 else "not at a rate of 0.5"
            told = f"as good as the baseline down to a rate of {min(good):.2f}" if good else "worse at each rate tried"
            verdicts.append((verdict, f"{table}: {task}, {model}: {told}"))
        return verdicts

    return judged


M30K, NEWS = ("multi30k", "test_2016_flickr"), ("europarl", "newstest2013")
CLAIMS = (
    Claim(
        "PAG solves Eulerian circuits of 7 nodes, the baseline does not quite (100 % against 90.4 %)",
        "4.1",
        ("euler",),
        over("euler", "test", "exact", "pag", "baseline", "{:.1%}"),
    ),
    Claim(
        "where the task is hard, planning helps",
        "4.1",
        ("euler-hard", "euler-wide"),
        several(
            *(
                over("euler-hard", "test", "exact", f"{case}, pag", f"{case}, baseline", "{:.1%}")
                for case in ("10 nodes", "20 nodes", "300 graphs", "1000 graphs", "weights at 0.01")
            ),
            over("euler-hard", "test", "exact", "300 graphs, rpag", "300 graphs, baseline", "{:.1%}"),
            over("euler-wide", "test", "exact", "30 nodes, pag", "30 nodes, baseline", "{:.1%}"),
            over("euler-wide", "test", "exact", "50000 graphs, pag", "50000 graphs, baseline", "{:.1%}"),
        ),
    ),
    Claim(
        "planning improves question generation (65.45 nats a question against 66.25)",
        "4.2",
        ("questions",),
        over("questions", "test", "loss", "pag", "baseline", "{:.2f}", -1),
    ),
    Claim(
        "planning improves translation",
        "4.3, table 1",
        ("multi30k", "europarl"),
        several(
            over(*M30K, "sacrebleu", "en-de, pag", "en-de, baseline", "{:.2f}"),
            over(*M30K, "loss", "en-de, pag", "en-de, baseline", "{:.2f}", -1),
            over(*M30K, "sacrebleu", "en-cs, pag", "en-cs, baseline", "{:.2f}"),
            over(*M30K, "sacrebleu", "en-de, rpag", "en-de, baseline", "{:.2f}"),
            over(*NEWS, "bleu", "pag", "baseline", "{:.2f}"),
            over(*NEWS, "loss", "pag", "baseline", "{:.1f}", -1),
            over(*NEWS, "bleu", "rpag", "baseline", "{:.2f}"),
        ),
    ),
    Claim(
        "PAG converges faster",
        "figures 3 and 4",
        ("euler-wide", "questions", "multi30k", "europarl"),
        several(
            faster("euler-wide", "30 nodes, pag", "30 nodes, baseline"),
            faster("questions", "pag", "baseline"),
            faster("multi30k", "en-de, pag", "en-de, baseline"),
            faster("europarl", "pag", "baseline"),
        ),
    ),
    Claim(
        "it does so with fewer parameters (about 4 million)",
        "4.3",
        ("multi30k", "europarl"),
        several(
            over(*M30K, "sacrebleu", "en-de, pag", "en-de, baseline, larger", "{:.2f}"),
            over(*M30K, "loss", "en-de, pag", "en-de, baseline, larger", "{:.2f}", -1),
            over(*NEWS, "bleu", "pag", "baseline, larger", "{:.2f}"),
            over(*NEWS, "loss", "pag", "baseline, larger", "{:.1f}", -1),
        ),
    ),
    Claim(
        "alignments are smoother (mean jump between steps, in source positions)",
        "figure 2",
        ("multi30k",),
        several(
            over(*M30K, "jump", "en-de, pag", "en-de, baseline", "{:.2f}", -1),
            over(*M30K, "jump", "en-de, rpag", "en-de, baseline", "{:.2f}", -1),
        ),
    ),
    Claim(
        "the baseline looks at the last, empty token inside words, PAG less",
        "figure 2",
        ("multi30k",),
        several(
            over(*M30K, "last_token_in_word", "en-de, pag", "en-de, baseline", "{:.1%}", -1),
            over(*M30K, "last_token_in_word", "en-de, rpag", "en-de, baseline", "{:.1%}", -1),
        ),
    ),
    Claim(
        "rPAG is cheaper than PAG",
        "3.2.1, 4",
        ("multi30k",),
        cheaper("multi30k", "en-de, rpag", "en-de, pag"),
    ),
    Claim(
        "layer normalisation improves PAG",
        "4.3, table 1",
        ("multi30k",),
        several(
            over(*M30K, "sacrebleu", "en-de, pag", "en-de, pag, no layer norm", "{:.2f}"),
            over(*M30K, "sacrebleu", "en-de, rpag", "en-de, rpag, no layer norm", "{:.2f}"),
        ),
    ),
    Claim(
        "straight-through Gumbel-softmax trains the commitment better than REINFORCE",
        "footnote of 3.2",
        ("estimators",),
        several(
            over("estimators", "test", "exact", "pag, gumbel", "pag, reinforce", "{:.1%}"),
            over("estimators", "test", "exact", "rpag, gumbel", "rpag, reinforce", "{:.1%}"),
        ),
    ),
    Claim(
        "a model can commit: as good as the baseline at half the looks or fewer (our question, not the paper's)",
        "—",
        ("planning", "planning-text", "multi30k"),
        several(
            committed("planning", "euler", "exact"),
            committed("multi30k", "en-de", "sacrebleu", "test_2016_flickr"),
            committed("planning-text", "sums", "exact"),
            committed("planning-text", "facts", "exact"),
        ),
    ),
)
