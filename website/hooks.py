"""What the site adds to the pages of docs/: formulas without scripts, files of the repository, the generated reference.

MkDocs calls the functions `on_...`. A link from docs/ to another file of the repository leads to a copy on the site:
Markdown becomes a page, source code a page with the code, a folder a list, anything else the file itself.
"""

import html
import posixpath
import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import reference

ROOT = Path(__file__).parents[1]
PLACE = "repository"
"""Where files of the repository are on the site."""
CODE = {".py": "python", ".toml": "toml", ".yml": "yaml", ".css": "css"}
LINK = re.compile(r'(\]\(|src=")(?![a-z]+:|#)([^)#\s"]+)')
MARK = re.compile(r"^<!-- (needs [^>]*?) -->$", re.M)
FORMULA = re.compile(r'<(span|div) class="arithmatex">(?:\\\(|\\\[)(.*?)(?:\\\)|\\\])</\1>', re.S)
TAG = re.compile(r"\\tag\{([^}]*)\}")
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the site's own assets, and every file of the repository that a page links to."""
    for asset in ("style.css", "iframe-worker.js"):
        files.append(File.generated(config, f"assets/{asset}", abs_src_path=str(ROOT / "website" / asset)))
    left = [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen = set(left)
    while left:
        page = left.pop()
        for _, target in LINK.findall((ROOT / page).read_text()):
            path = _from(page, target)
            if path in {*seen, "README.md"} or path.startswith(("docs/", "..")) or not (ROOT / path).exists():
                continue  # what is not there is left for MkDocs to refuse
            seen.add(path)
            files.append(_copy(path, config))
            if path.endswith(".md"):
                left.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in what is generated, point links to where files are on the site, show what a block needs."""
    source = page.file.src_uri
    at = source.removeprefix(f"{PLACE}/") if source.startswith(f"{PLACE}/") else f"docs/{source}"

    def link(match: re.Match[str]) -> str:
        path = _from(at, match[2])
        return match[1] + posixpath.relpath(_on_site(path), posixpath.dirname(source))

    markdown = LINK.sub(link, markdown) if (ROOT / at).is_file() and at.endswith(".md") else markdown
    markdown = reference.filled_in(markdown).replace(" ± ", "\u00a0±\u00a0")
    return MARK.sub(r'<p class="needs">\1</p>', markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas become MathML, which browsers draw by themselves."""
    return FORMULA.sub(_formula, content)


def _formula(match: re.Match[str]) -> str:
    block, text = match[1] == "div", html.unescape(match[2])
    numbers = TAG.findall(text)
    made = convert(TAG.sub("", text).strip(), display="block" if block else "inline")
    number = f'<span class="number">({numbers[0]})</span>' if numbers else ""
    return f'<div class="formula">{made}{number}</div>' if block else made


def _from(page: str, target: str) -> str:
    """The path from the root that a link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def _on_site(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == "README.md":
        return "index.md"
    here = ROOT / path
    return f"{PLACE}/{path}" + ("/index.md" if here.is_dir() else ".md" if here.suffix in CODE else "")


def _copy(path: str, config: MkDocsConfig) -> File:
    """A file of the repository as a file of the site."""
    here, place = ROOT / path, _on_site(path)
    if here.is_dir():
        names = sorted(f"{child.name}/" if child.is_dir() else child.name for child in here.iterdir())
        listed = "\n".join(f"- `{name}`" for name in names if not name.startswith((".", "__")))
        return File.generated(config, place, content=f"{UNSEARCHED}# {path}\n\nIn the repository:\n\n{listed}\n")
    if here.suffix in CODE:
        code = f"````{CODE[here.suffix]}\n{here.read_text()}\n````"
        return File.generated(config, place, content=f"{UNSEARCHED}# {here.name}\n\n`{path}`\n\n{code}\n")
    if here.suffix == ".md":
        return File.generated(config, place, content=UNSEARCHED + here.read_text())
    return File.generated(config, place, abs_src_path=str(here))
