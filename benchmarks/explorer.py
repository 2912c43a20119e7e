"""The explorer with a real browser: whether it keeps real time, what it costs, and what it looks like.

    python benchmarks/explorer.py measure            # writes explorer.json into benchmarks/results
    python benchmarks/explorer.py first              # `make explore`, from the command to the page; into the same file
    python benchmarks/explorer.py picture            # writes docs/img/explorer.png

Needs Chromium and Playwright. The browser renders in software, on the cores that the simulation runs on; on a computer
with a screen a GPU does that.
"""

# ruff: noqa: T201
import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT, PICTURE = ROOT / "benchmarks" / "results" / "explorer.json", ROOT / "docs" / "img" / "explorer.png"
FLAGS = (
    "--no-sandbox --use-gl=angle --use-angle=gl-egl --ignore-gpu-blocklist --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync --disable-renderer-backgrounding "
    "--disable-background-timer-throttling --disable-backgrounding-occluded-windows"
)
TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return int(tried.getsockname()[1])


@contextlib.contextmanager
def explorer(name: str) -> Iterator[tuple[int, str, float]]:
    """The command in a process of its own: process, address, seconds until it said so."""
    port, began = free_port(), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "wanderlust", "explore", name, "--port", str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid, f"http://127.0.0.1:{port}", time.monotonic() - began
    finally:
        process.terminate()
        process.wait(timeout=120)


@contextlib.contextmanager
def page_of(address: str, wide: int, high: int) -> Iterator[Any]:
    """A page that shows the body, the paths of random skills and the map."""
    from playwright.sync_api import sync_playwright

    path = next(p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, headless=True, args=FLAGS.split())
        page = browser.new_page(viewport={"width": wide, "height": high})
        page.goto(address)
        page.wait_for_selector("svg[aria-label='the learned map'] circle", timeout=120_000)
        page.version = browser.version
        yield page
        browser.close()


def frames(page: Any, count: int) -> None:
    """Wait until the page has drawn so many frames."""
    page.evaluate("n => {window.left = n; const f = () => window.left-- > 0 && requestAnimationFrame(f); f()}", count)
    page.wait_for_function("window.left < 0", polling=100, timeout=180_000)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy_cores(seconds: float) -> float:
    """Cores that everything on this machine keeps busy, over a while."""

    def busy() -> int:
        fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return sum(fields) - fields[3] - fields[4]

    before = busy()
    time.sleep(seconds)
    return (busy() - before) / TICKS / seconds


def simulated(page: Any) -> float:
    """Simulated seconds, as the page says."""
    text = page.evaluate("document.body.innerText")
    return float(re.search(r"^([0-9.]+) s( |$)", text, re.MULTILINE).group(1))


def measure_one(name: str, seconds: float) -> dict[str, Any]:
    """Share of real time and processor time with one page open, and with none."""
    before = busy_cores(2.0)
    with explorer(name) as (pid, address, ready):
        time.sleep(15.0)  # until the paths of random skills are known
        unseen = cpu_seconds(pid)
        time.sleep(5.0)
        unseen = (cpu_seconds(pid) - unseen) / 5.0
        with page_of(address, 1000, 700) as page:
            frames(page, 10)
            shown = time.monotonic()
            cpu, done = cpu_seconds(pid), simulated(page)
            page.evaluate("() => {window.n = 0; const f = () => {window.n++; requestAnimationFrame(f)}; f()}")
            time.sleep(seconds)
            drawn = page.evaluate("window.n")
            wall = time.monotonic() - shown
            share, cpu = (simulated(page) - done) / wall, (cpu_seconds(pid) - cpu) / wall
            chromium = page.version
        time.sleep(2.0)
        left = cpu_seconds(pid)
        time.sleep(5.0)
        left = (cpu_seconds(pid) - left) / 5.0
    found = {
        "skills": name,
        "seconds_until_address": round(ready, 1),
        "seconds_measured": round(wall, 1),
        "share_of_real_time": round(share, 3),
        "cores_used_by_the_explorer": round(cpu, 3),
        "cores_used_before_anybody_looks": round(unseen, 4),
        "cores_used_after_the_viewer_left": round(left, 4),
        "page_frames_per_second": round(drawn / wall, 1),
        "chromium": chromium,
        "cores_busy_before": round(before, 2),
        "load_average": [round(x, 1) for x in os.getloadavg()],
    }
    print(json.dumps(found))
    return found


def first_contact(out: Path) -> None:
    """Seconds from `make explore`, after set-up, to the page with the body and the learned map; added to the file."""
    port, began = free_port(), time.monotonic()
    make = ["make", "explore", f"PORT={port}", *os.environ.get("WANDERLUST_MAKE", "").split()]
    process = subprocess.Popen(make, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        address = time.monotonic() - began
        with page_of(re.search(r"http://\S+", line).group(0), 1360, 850) as page:
            frames(page, 1)
            shown = time.monotonic() - began
    finally:
        process.terminate()  # make passes it on
        process.wait(timeout=120)
    facts = json.loads(out.read_text())
    facts["first_contact"] = {
        "command": "make explore",
        "skills": re.search(r"zoo:\S+", line).group(0),
        "seconds_until_address": round(address, 1),
        "seconds_until_page_and_map": round(shown, 1),
        "commit": commit(),
        "load_average": [round(x, 1) for x in os.getloadavg()],
    }
    print(json.dumps(facts["first_contact"]))
    out.write_text(json.dumps(facts, indent=2) + "\n")


def commit() -> str:
    """Of this tree."""
    return subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def measure(names: list[str], seconds: float, out: Path) -> None:
    """Measure several sets of skills, and write what was found."""
    facts = {
        "command": f"python benchmarks/explorer.py measure {' '.join(names)} --seconds {seconds:g}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit(),
        "versions": {name: version(name) for name in ("jax", "mujoco", "viser", "playwright")},
        "cpu_cores": os.cpu_count(),
        "note": "the browser renders in software on the same cores; cores_busy_before is the load of other programs",
    }
    out.write_text(
        json.dumps({"provenance": facts, "results": [measure_one(n, seconds) for n in names]}, indent=2) + "\n"
    )


def picture(name: str, out: Path) -> None:
    """The page while the body is on its way to goals that were clicked."""
    with explorer(name) as (_, address, _), page_of(address, 1360, 850) as page:
        page.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(x => x.click())")
        page.get_by_role("button", name="Paths from here").click()
        frames(page, 60)
        page.get_by_role("button", name="Pause").click()
        frames(page, 5)
        for x, y in ((780, 330), (560, 220), (260, 300)):
            page.mouse.click(x, y)
            frames(page, 3)
        page.get_by_role("button", name="Go on").click()
        page.mouse.move(300, 700)
        frames(page, 2)
        page.screenshot(path=out)
    print(out)


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "first", "picture"))
    parser.add_argument("skills", nargs="*", help="zoo entries or run folders")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.what == "measure":
        measure(asked.skills or ["zoo:ant-drive", "zoo:humanoid"], asked.seconds, asked.out or RESULT)
    elif asked.what == "first":
        first_contact(asked.out or RESULT)
    else:
        picture((asked.skills or ["zoo:ant-drive"])[0], asked.out or PICTURE)


if __name__ == "__main__":
    main()
