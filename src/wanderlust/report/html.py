"""A page of HTML that needs nothing but itself: style and pictures are inside, nothing is fetched, nothing runs.

All text comes through `esc`, or is written in this file. A content security policy forbids the rest.
"""

import base64
import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from wanderlust.errors import UserError
from wanderlust.report.plots.colours import BASELINE, INK, MUTED, PAPER, RULE
from wanderlust.report.plots.style import DPI

POLICY = (
    "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
DARK = {INK: "#e4e7ea", MUTED: "#98a2ac", RULE: "#30363c", BASELINE: "#59626b", PAPER: "#191d20"}
"""What the colours of figures become on a dark page."""
KINDS = {".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}
LARGEST = 8_000_000
"""Bytes of a film that is put into the page."""


def esc(text: object) -> str:
    """Text from anywhere, as HTML shows it."""
    whole = str(text).encode("utf-8", "replace").decode()
    shown = html.escape("".join(c if c.isprintable() or c in "\n\t" else " " for c in whole))
    return shown.replace(" \N{PLUS-MINUS SIGN} ", "&nbsp;&plusmn;&nbsp;")


def page(title: str, body: str) -> str:
    """The whole document."""
    style = (Path(__file__).parent / "page.css").read_text()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{esc(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


# --- parts ---------------------------------------------------------------------------------------------------------


def header(kicker: str, title: str, sub: str, meta: Sequence[str]) -> str:
    """The top of the page."""
    facts = " &middot; ".join(f"<span>{esc(fact)}</span>" for fact in meta if fact)
    return (
        f'<header>\n<p class="kicker">{esc(kicker)}</p>\n<h1>{esc(title)}</h1>\n'
        f'<p class="sub">{esc(sub)}</p>\n<p class="meta">{facts}</p>\n</header>'
    )


def verdict(lines: Sequence[str], of: str = "") -> str:
    """What it comes to: a sentence, and what is behind it."""
    name = f"<b>{esc(of)}</b>" if of else ""
    behind = "".join(f"<li>{esc(line)}</li>" for line in lines[1:])
    return f'<div class="verdict">{name}{esc(lines[0])}{f"<ul>{behind}</ul>" if behind else ""}</div>'


def tiles(facts: Sequence[tuple[str, str]]) -> str:
    """A few numbers, large, and what they are."""
    inside = "".join(
        f'<div class="tile"><strong>{esc(x)}</strong><small>{esc(what)}</small></div>' for x, what in facts
    )
    return f'<div class="tiles">{inside}</div>'


def heading(text: str, level: int = 2) -> str:
    """A heading."""
    return f"<h{level}>{esc(text)}</h{level}>"


def paragraph(text: str) -> str:
    """A paragraph."""
    return f"<p>{esc(text)}</p>"


def table(head: Sequence[str], rows: Mapping[str, Sequence[str]], numbers: bool = True, wide: bool = False) -> str:
    """A table; the first column names rows."""
    kind = ' class="n"' if numbers else ""
    top = "".join(f"<th{kind if n else ''}>{esc(name)}</th>" for n, name in enumerate(head))
    lines = (
        f"<tr><th>{esc(name)}</th>{''.join(f'<td{kind}>{esc(cell)}</td>' for cell in cells)}</tr>"
        for name, cells in rows.items()
    )
    whole = f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll{" wide" if wide else ""}">{whole}</div>'


def commands(lines: Sequence[tuple[str, str]]) -> str:
    """Commands, each below what it does."""
    return (
        f"<pre>{chr(10).join(f'<span class=c># {esc(what)}</span>{chr(10)}{esc(line)}' for what, line in lines)}</pre>"
    )


def folded(summary: str, inside: str) -> str:
    """What is shown when it is asked for."""
    return f"<details><summary>{esc(summary)}</summary>{inside}</details>"


def footer(text: str) -> str:
    """The end of the page."""
    return f"<footer>{esc(text)}</footer>"


# --- pictures --------------------------------------------------------------------------------------------------------


def figure(path: Path, number: int, caption: str, alone: bool = True) -> str:
    """A figure with its number and caption; as SVG, which follows the page into the dark, where there is one."""
    drawn = path.with_suffix(".svg")
    data = _svg(drawn) if drawn.is_file() else _inline(path)
    width = int.from_bytes(_read(path)[16:20], "big") * 96 / DPI  # of the PNG, which is as large
    said = f"<b>Figure {number}.</b> {esc(caption)}"
    kind = ' class="wide"' if alone else ""
    shown = f'<img src="{data}" alt="{esc(caption)}" style="max-width: {1.2 * width:.0f}px">'
    plate = f'<div class="plate">{shown}</div>'
    return f"<figure{kind}>{plate}<figcaption>{said}</figcaption></figure>"


def row(figures: Sequence[str], columns: int) -> str:
    """Figures side by side."""
    return f'<div class="row wide" style="--n: {columns}">{"".join(figures)}</div>'


def film(path: Path, caption: str) -> str:
    """A film in the page; a large one is only named."""
    if path.stat().st_size > LARGEST:
        return paragraph(
            f"{caption} {path.name} has {path.stat().st_size / 1e6:.0f} MB and is not in this page: {path}"
        )
    data = _inline(path)
    if path.suffix == ".mp4":
        shown = f'<video src="{data}" controls autoplay loop muted playsinline></video>'
    else:
        shown = f'<img src="{data}" alt="{esc(caption)}">'
    return f'<figure class="wide">{shown}<figcaption>{esc(caption)}</figcaption></figure>'


def _inline(path: Path) -> str:
    """A file as an address that holds it."""
    return f"data:{KINDS[path.suffix]};base64,{base64.b64encode(_read(path)).decode()}"


def _svg(path: Path) -> str:
    """A figure of ours; its colours are those of the page, light or dark."""
    drawn = _read(path).decode("utf-8", "replace")
    names = {colour: f"--c{n}" for n, colour in enumerate(DARK)}
    light, dark = (
        "".join(f"{name}:{to[colour]};" for colour, name in names.items()) for to in ({c: c for c in DARK}, DARK)
    )
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}</style>"
    for colour, name in names.items():
        drawn = drawn.replace(colour, f"var({name})")
    opening = drawn.find(">", drawn.find("<svg")) + 1
    whole = drawn[:opening] + style + drawn[opening:]
    return f"data:image/svg+xml;base64,{base64.b64encode(whole.encode()).decode()}"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None
