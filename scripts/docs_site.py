"""Builds the manual as web pages with mkdocs, strictly, without a network: `python -m scripts.docs_site FOLDER`.

The pages are copied beside each other as they lie in the repository, so that every link is the same there and here.
What the program says of itself is written on the way: options from the parsers, and Python from the docstrings.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ares
from ares_app.cli.main import COMMANDS, build_parser
from ares_app.cli.parser import CommandParser
from scripts.reference_tables import REFERENCE

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
        for name, lines in GENERATED.items():
            with (pages / "docs" / name).open("a", encoding="utf-8") as page:
                page.write("\n".join(lines()))
        config = Path(scratch) / "mkdocs.yml"
        config.write_text(f"{_CONFIG}nav: {json.dumps(_navigation(pages))}\n")
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
                if not (ROOT / target.relative_to(pages) / "README.md").exists():
                    (target / "README.md").write_text(f"# {target.name}\n\n{listed}\n")
                index = f"{link.rstrip('/')}/README.md"
                page.write_text(page.read_text(encoding="utf-8").replace(f"]({link})", f"]({index})"))


def _navigation(pages: Path) -> list[dict[str, object]]:
    """The menu, by what a reader wants."""
    recipes, why = (sorted((pages / "docs" / name).glob("[!R]*.md")) for name in ("recipes", "why"))
    reference = [{part: [f"docs/{name}.md" for name in names]} for part, names in REFERENCE.items()]
    return [
        {"Tutorial": ["README.md", "docs/README.md", "docs/tutorial.md"]},
        {"Recipes": [f"docs/recipes/{page.name}" for page in recipes]},
        {"Reference": [*reference, {"Python, every method": "docs/reference.md"}]},
        {"Why": [f"docs/why/{page.name}" for page in why]},
        {"More": ["CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md"]},
    ]


def command_lines() -> Iterator[str]:
    """Every command with its options, as Markdown; those that all commands have stand there once."""
    yield "\n## Which options does every command have?\n"
    shared = {flag for action in build_parser()._actions for flag in action.option_strings}
    yield from _options(build_parser(), set())
    for name, entry in COMMANDS.items():
        yield f"\n## ares {name}\n\n{entry.help[0].upper()}{entry.help[1:]}.\n"
        yield "\n".join(["```sh", *entry.examples, "```\n"])
        parser = build_parser(name).actions_by_name()[name]
        yield from _options(parser, shared)
        for action, below in parser.actions_by_name().items():
            yield f"\n### ares {name} {action}\n"
            yield from _options(below, shared)


def _options(parser: CommandParser, shared: set[str]) -> Iterator[str]:
    """A table of the arguments of a parser."""
    formatter = parser._get_formatter()
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) or shared & set(action.option_strings):
            continue
        value = formatter._format_args(action, formatter._get_default_metavar_for_positional(action))
        flags = ", ".join(f"`{flag} {value}`".replace(" `", "`") for flag in action.option_strings)
        text = formatter._expand_help(action) if action.help else ""
        text = text.replace("<", "&lt;").replace("|", "&#124;")
        rows.append(f"| {flags or f'`{value}`'} | {text} |")
    if rows:
        yield "\n".join(["| argument | what it is for |", "|---|---|", *rows, ""])


def picture_lines() -> Iterator[str]:
    """The pictures of every page of the dashboard, as `scripts/page_images.py` took them."""
    yield "\n## What do the pages look like?\n\nOf the demo (simulation), in light, in dark, and on a phone.\n"
    for path in sorted((ROOT / "docs" / "images" / "pages").glob("*-light.webp")):
        forms = (path.name.replace("light", form) for form in ("light", "dark", "phone"))
        name = path.name.removesuffix("-light.webp")
        yield f"### {name}\n\n{' '.join(f'![{form}](images/pages/{form})' for form in forms)}\n"


def reference_lines() -> Iterator[str]:
    """The page of every public name, as Markdown."""
    yield "# Which classes and methods does Python have?\n"
    yield "Written from the docstrings of this version. [Python](python.md) is a tour.\n"
    for name in sorted(set(dir(ares)) - {"__version__"}):
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


# What is written behind a page, or is one.
GENERATED = {
    "commands.md": command_lines,
    "dashboard.md": picture_lines,
    "reference.md": reference_lines,
}


def main() -> int:
    """Build into the folder of the first argument."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".cache" / "site").resolve()
    build(site)
    print(f"open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
