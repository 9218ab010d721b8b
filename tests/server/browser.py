"""The system's Chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
expect.set_options(timeout=30_000)  # a busy machine is slow, not wrong


@contextmanager
def chromium() -> Iterator[Browser]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (`make browser` installs Chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@contextmanager
def window(browser: Browser, width: int = 1280, height: int = 900, **options: str) -> Iterator[Page]:
    """A fresh page; an error in its scripts fails the test, and so does any request to another host."""
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(60_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("request", lambda asked: None if _local(asked.url) else wrong.append(asked.url))
    yield page
    context.close()
    assert wrong == []


def _local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:", "about:"))
