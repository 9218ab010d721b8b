"""The server's page as one file: results with their alignments and plans, to open anywhere without a network.

The modules of the page are put into the file as they are; an import map gives each its text.
"""

import base64
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from pag.errors import InputError
from pag.generator import Output, Result
from pag.textio import as_json, output_file

IMPORT = re.compile(r'from "\./([\w-]+\.js)"')
POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data: blob:"
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
<script type="importmap">{imports}</script>
</head>
<body>
<header class="top"><h1>{title}</h1><button id="theme" type="button" class="quiet">◐</button></header>
<main id="main"></main>
<p id="live" class="sr-only" role="status" aria-live="polite"></p>
<script type="application/json" id="stored">{stored}</script>
<script type="module">import "pag/stored.js";</script>
</body>
</html>
"""


def write_page(results: Sequence[Result], path: Path, title: str) -> Path:
    """Write the viewer with these results; they need alignments."""
    with output_file(path) as file:
        file.write(page(results, title))
    return path


def page(results: Sequence[Result], title: str) -> str:
    shown = [result for result in results if result.outputs and result.outputs[0].alignment is not None]
    if not shown:
        raise InputError("nothing to show: no result has an alignment (generate with alignments=True)")
    stored = {"title": title, "results": [_stored(result) for result in shown]}
    return PAGE.format(
        policy=POLICY, title=html.escape(title), style=_file("style.css"), imports=json.dumps({"imports": _modules()}),
        stored=json.dumps(stored, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    )  # fmt: skip


def frame(result: Result) -> str:
    """A result for a notebook: the viewer in a frame of its own, or its text where nothing was recorded."""
    if not result.outputs or result.outputs[0].alignment is None:
        return f"<pre>{html.escape(result.error or result.text)}</pre>"
    inside = html.escape(page([result], "pag"), quote=True)
    return (
        f'<iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" title="{html.escape(result.text)}" '
        'style="width: 100%; height: 46rem; border: 0"></iframe>'
    )


def _stored(result: Result) -> dict[str, Any]:
    output = result.outputs[0]
    return {"card": {"attention": _attention(output), "k": None if output.plan is None else output.plan.shape[1]}} | (
        as_json(result, records=True)
    )


def _attention(output: Output) -> str:
    """Which kind of model this came from shows in what it recorded."""
    return "pag" if output.plan is not None else "baseline" if output.switch is None else "rpag"


def _modules() -> dict[str, str]:
    """Every module that the viewer needs, as name → data URL."""
    found: dict[str, str] = {}
    wanted = ["stored.js"]
    while wanted:
        name = wanted.pop()
        if f"pag/{name}" in found:
            continue
        text = _file(name)
        wanted += IMPORT.findall(text)
        whole = IMPORT.sub(r'from "pag/\1"', text)
        found[f"pag/{name}"] = f"data:text/javascript;base64,{base64.b64encode(whole.encode()).decode()}"
    return found


def _file(name: str) -> str:
    return (resources.files("pag.server") / "page" / name).read_text("utf-8")
