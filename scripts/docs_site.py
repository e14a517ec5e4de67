"""Builds the manual as web pages with mkdocs, strictly, without a network: `python -m scripts.docs_site FOLDER`.

The pages are copied beside each other as they lie in the repository, so that every link is the same there and here.
The reference of Python is written from the docstrings on the way.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ares

ROOT = Path(__file__).resolve().parent.parent
_COPIED = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs", "benchmarks/RESULTS.md")
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
_CONFIG = """site_name: ARES
docs_dir: pages
use_directory_urls: false
theme: {name: mkdocs, highlightjs: false, analytics: {gtag: null}}
plugins: [search]
markdown_extensions: [tables, fenced_code, sane_lists, toc]
validation:
  nav: {omitted_files: ignore}
  links: {not_found: warn, anchors: warn, unrecognized_links: warn}
"""


def build(site: Path) -> None:
    """Write the pages. Raises RuntimeError with what mkdocs says where a link leads nowhere."""
    with tempfile.TemporaryDirectory() as scratch:
        pages = Path(scratch) / "pages"
        for name in _COPIED:
            _copy(ROOT / name, pages / name)
        _copy_what_is_linked(pages)
        reference = pages / "docs" / "reference.md"
        reference.write_text("\n".join(reference_lines()), encoding="utf-8")
        index = pages / "README.md"
        line = "| [reference of Python](docs/reference.md) | every public class and method, from its docstring |\n"
        index.write_text(index.read_text().replace("| [ingest](", line + "| [ingest](", 1))
        config = Path(scratch) / "mkdocs.yml"
        config.write_text(_CONFIG)
        command = [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "-f",
            str(config),
            "-d",
            str(site),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def _copy_what_is_linked(pages: Path) -> None:
    """Copy files of the repository that pages link to; a folder gets a page that lists it."""
    for page in sorted(pages.rglob("*.md")):
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            source = (ROOT / page.relative_to(pages).parent / link).resolve()
            target = pages / source.relative_to(ROOT)
            if source.is_file() and not target.exists():
                _copy(source, target)
            elif target.is_dir():
                names = sorted(path.name for path in target.glob("*.md") if path.name != "README.md")
                listed = "\n".join(f"- [{name}]({name})" for name in names)
                (target / "README.md").write_text(f"# {target.name}\n\n{listed}\n")
                index = f"{link.rstrip('/')}/README.md"
                page.write_text(page.read_text(encoding="utf-8").replace(f"]({link})", f"]({index})"))


def reference_lines() -> Iterator[str]:
    """The page of every public name, as Markdown."""
    yield "# Which classes and methods does Python have?\n"
    yield "Written from the docstrings of this version. [Python](python.md) is a tour.\n"
    for name in sorted(set(ares.__all__) - {"__version__"}):
        yield from _entry(f"ares.{name}", getattr(ares, name), 2)


def _entry(name: str, thing: object, level: int) -> Iterator[str]:
    """A class with its public methods and properties, or a function."""
    yield f"{'#' * level} {name}\n"
    if callable(thing):
        yield f"```text\n{name.rpartition('.')[2]}{_signature(thing)}\n```\n"
    yield f"```text\n{inspect.getdoc(thing) or ''}\n```\n"
    if isinstance(thing, type):
        for member, value in inspect.getmembers(thing):
            if not member.startswith("_") and inspect.getdoc(value) and _is_documented(value):
                yield from _entry(f"{name}.{member}", value, level + 1)


def _is_documented(value: object) -> bool:
    """Whether a member is a method or a property, and neither a constant nor a class."""
    return inspect.isroutine(value) or inspect.isdatadescriptor(value) or hasattr(value, "func")


def _signature(thing: object) -> str:
    try:
        return str(inspect.signature(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def main() -> int:
    """Build into the folder of the first argument."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".cache" / "site").resolve()
    build(site)
    print(f"open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
