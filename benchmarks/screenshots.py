"""Every view of the dashboard as a picture: desktop and phone, light and dark, and one sheet of each.

    python benchmarks/screenshots.py FOLDER [--sheets docs/figures]

Needs Chromium, Playwright and `presage[dashboard]`.
"""

import argparse
import math
import random
import shutil
import socket
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import presage.preview as preview
from presage import Choice, Float, Int, Space, Study
from presage.dashboard.app import create_app
from presage.storage import MemoryStorage

SPACE = Space({
    "learning_rate": Float(1e-5, 1e-1, log=True), "layers": Int(1, 4),
    "width": Int(8, 512, log=True, when={"layers": [2, 3, 4]}), "activation": Choice(["relu", "tanh", "gelu"]),
    "dropout": Float(0, 0.6),
})  # fmt: skip
TABS = ("overview", "trials", "model", "importance", "curves", "workers", "failures", "notes")
SIZES = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
DRAWN = ("overview", "model", "importance", "curves", "workers")


def objective(params, trial):
    """As if a network were trained: it diverges for large rates, and reports as it learns."""
    if params["learning_rate"] > 0.05:
        raise FloatingPointError("loss is NaN after 3 steps")
    loss = 0.3 * (math.log10(params["learning_rate"]) + 3) ** 2 + 0.1 * abs(params["layers"] - 3)
    loss += {"relu": 0.1, "tanh": 0.2, "gelu": 0.0}[params["activation"]] + (params["dropout"] - 0.2) ** 2
    loss += 0.1 * abs(math.log(params.get("width", 64) / 128))
    noise = random.Random(trial.number)
    for step in range(1, 21):
        trial.report(step, loss + 1.5 * math.exp(-step / 4) + 0.02 * noise.random())
    return loss


def studies(trials: int) -> MemoryStorage:
    storage = MemoryStorage()
    study = Study(SPACE, storage=storage, name="mnist-mlp", seed=1)
    study.enqueue({"learning_rate": 0.09, "layers": 1, "activation": "relu", "dropout": 0.1})
    study.optimize(objective, trials, max_failures=99)
    study.note("Baseline of last year: 0.31")
    study.note("Suspiciously good", 12)
    preview.EVERY = 0.0
    for step in (6, 11):  # two that are under way
        trial = study.ask()
        for i in range(1, step):
            trial.report(i, 0.6 + 0.2 * (step == 6) + 1.5 * math.exp(-i / 4))
    small = Study(Space({"x": Float(0, 1)}), storage=storage, name="a line", seed=0, surrogate="random")
    small.optimize(lambda params: params["x"], 5)
    return storage


def shoot(browser: Browser, base: str, size: str, scheme: str, out: Path) -> list[Path]:
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
    context.set_default_timeout(60_000)
    page = context.new_page()
    taken = []

    def keep(what: str, whole: bool = False) -> None:
        page.wait_for_timeout(400)  # what moves has come to rest
        taken.append(out / f"{size}-{scheme}-{what}.png")
        page.screenshot(path=taken[-1], full_page=whole)

    page.goto(f"{base}#/")
    page.wait_for_selector("tbody tr")
    keep("studies")
    for tab in TABS:
        page.goto(f"{base}#/study/mnist-mlp/{tab}")
        page.wait_for_selector(f"a[aria-current=page]:text-is('{tab.capitalize()}')")
        page.wait_for_selector("#view .plot-container" if tab in DRAWN else "#view > *")
        if tab == "overview":
            page.wait_for_selector("text=still to be found")
        keep(tab, whole=tab != "trials")
        if tab == "trials":
            page.click("tbody tr >> nth=3")
            page.wait_for_selector("dialog[open]")
            keep("detail")
            page.keyboard.press("Escape")
            page.click("text=Add a trial")
            page.wait_for_selector("dialog[open] #axis-0")
            keep("add")
            page.keyboard.press("Escape")
    context.close()
    return taken


def sheet(paths: list[Path], to: Path, size: dict[str, int], columns: int, width: int) -> None:
    """What a screen shows of each, on one page that is small enough to keep."""
    height = size["height"] * width // size["width"]
    rows = -(-len(paths) // columns)
    page = Image.new("RGB", (columns * (width + 6), rows * (height + 6)), "#888888")
    for i, path in enumerate(paths):
        image = Image.open(path).convert("RGB").crop((0, 0, size["width"], size["height"]))
        x, y = i % columns * (width + 6), i // columns * (height + 6)
        page.paste(image.resize((width, height), Image.Resampling.LANCZOS), (x, y))
    page.quantize(128, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(to, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sheets", type=Path)
    parser.add_argument("--trials", type=int, default=40)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True, parents=True)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(studies(options.trials)), log_level="critical", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for size in SIZES:
            for scheme in ("light", "dark"):
                base = f"http://127.0.0.1:{listening.getsockname()[1]}/"
                taken = shoot(browser, base, size, scheme, options.out)
                if options.sheets:
                    columns, width = (4, 300) if size == "desktop" else (6, 180)
                    sheet(taken, options.sheets / f"dashboard_{size}_{scheme}.png", SIZES[size], columns, width)
        browser.close()
    server.should_exit = True
    thread.join()


if __name__ == "__main__":
    main()
