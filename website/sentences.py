"""Long sentences of the documentation, longest first: `python website/sentences.py [WORDS]`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```.*?^```|^\$\$.*?\$\$|^<!--.*?-->", re.M | re.S)
LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")


def sentences(text: str) -> list[str]:
    """Prose alone: no code, no formulas, no tables and headings."""
    prose = LINK.sub(r"\1", BLOCK.sub("\n\n", text))
    lines = ["" if line.lstrip().startswith(("|", "#", "<")) else line for line in prose.splitlines()]
    paragraphs = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", "\n".join(lines))
    plain = [re.sub(r"`[^`]*`|\$[^$]*\$", "Code", " ".join(paragraph.split())) for paragraph in paragraphs]
    return [part for paragraph in plain for part in re.split(r"(?<=[.?!])[*)]*\s+(?=[\WA-Zφ\d])|(?<=:)\s+", paragraph)]


def main(most: int) -> None:
    """Print what is longer, with its page."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = [
        (len(sentence.split()), page.relative_to(ROOT), sentence)
        for page in pages
        for sentence in sentences(page.read_text())
        if len(sentence.split()) > most
    ]
    for words, page, sentence in sorted(found, key=lambda one: -one[0]):
        print(f"{words:3} {page}: {sentence}")
    print(f"{len(found)} sentences of more than {most} words")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
