"""The pictures of docs/serve.md, from a server that runs its commands: python docs/screenshots.py http://127.0.0.1:8000/"""

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

FIGURES = Path(__file__).parent / "figures"


@dataclass(frozen=True)
class Shot:
    """One picture: what is asked, which step is shown, and how the window is."""

    name: str
    model: str
    step: int
    width: int = 1360
    height: int = 1500
    dark: bool = False
    outputs: int = 4
    example: int = 1
    compare: str = ""


SHOTS = [
    Shot("page-translation", "en-de", step=2, height=1770, outputs=3),
    Shot("page-plan", "pag", step=4, height=1560),
    Shot("page-follow-dark", "pag", step=5, dark=True, height=1400),
    Shot("page-compare", "pag", step=3, width=1600, height=1480, compare="baseline", outputs=1),
    Shot("page-question", "asker", step=6, height=1180, example=3, outputs=3),
    Shot("page-phone", "pag", step=4, width=390, height=1500),
]


def take(browser: Browser, address: str, shot: Shot) -> None:
    scheme = "dark" if shot.dark else "light"
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(address)
    page.get_by_label("Model", exact=True).select_option(shot.model)
    if shot.compare:
        page.get_by_label("Compare with").select_option(shot.compare)
    page.get_by_label("Example").select_option(str(shot.example - 1))
    page.get_by_label("Outputs").fill(str(shot.outputs))
    page.get_by_role("button", name="Generate").click()
    page.wait_for_selector("article:not([aria-busy]) .plan-view:not([hidden])")
    _go_to(page, shot.step)
    path = FIGURES / f"{shot.name}.png"
    page.screenshot(path=path)
    page.close()
    Image.open(path).convert("RGB").save(path, optimize=True)
    print(path, f"{path.stat().st_size / 1024:.0f} KiB")


def _go_to(page: Page, step: int) -> None:
    for _ in range(step - 1):
        page.get_by_role("button", name="One step on").first.click()
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(400)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    given = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for shot in SHOTS:
            take(browser, given.address, shot)
        browser.close()


if __name__ == "__main__":
    main()
