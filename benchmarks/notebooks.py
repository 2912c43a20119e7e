"""Run the notebooks of examples/ and store what their cells print and draw: python benchmarks/notebooks.py.

The code cells are executed one after the other in this process, in a folder of its own; no Jupyter is needed. With
NAME=VALUE lines of a cell that begins with "# parameters" are replaced: --set BUDGET_SECONDS=5.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_notebook(path: Path, parameters: Mapping[str, str]) -> dict[str, Any]:
    """The notebook with its outputs, run in the working folder."""
    book: dict[str, Any] = json.loads(path.read_text())
    seen: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        source = "".join(cell["source"])
        if source.startswith("# parameters"):
            for name, value in parameters.items():
                source = re.sub(rf"^{name} = [^#\n]*", f"{name} = {value}  ", source, flags=re.M)
        printed, pictures = io.StringIO(), []

        def show(pictures: list[bytes] = pictures) -> None:
            data = io.BytesIO()
            plt.gcf().savefig(data, format="png", dpi=60, bbox_inches="tight")
            pictures.append(data.getvalue())
            plt.close("all")

        plt.show = show
        with contextlib.redirect_stdout(printed):
            exec(compile(source, f"{path.name}, cell {number}", "exec"), seen)
        cell["execution_count"], cell["outputs"] = number, []
        if text := printed.getvalue():
            cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)})
        for picture in pictures:
            image = {"image/png": base64.b64encode(picture).decode(), "text/plain": ["a figure"]}
            cell["outputs"].append({"output_type": "display_data", "metadata": {}, "data": image})
    return book


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", default=[path.stem for path in sorted(EXAMPLES.glob("*.ipynb"))])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the notebooks")
    args = parser.parse_args()
    home = Path.cwd()
    for name in args.names:
        path = EXAMPLES / f"{name}.ipynb"
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                book = run_notebook(path.resolve(), dict(change.split("=", 1) for change in args.set))
            finally:
                os.chdir(home)
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
