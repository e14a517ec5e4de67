"""Writes a page for each code of `ares check` into docs/checks, from the catalogue and its part of the manual.

.venv/bin/python -m scripts.check_pages --write
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ares.checks import CODES, CheckCode
from tests.generators.strengths import STRENGTHS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "checks"
_SEVERITIES = {
    "fault": "fault: it sets the exit status",
    "information": "information: it does not set the exit status",
}


def pages() -> dict[str, str]:
    """Text of each page by the name of its file."""
    names = ("check-codes.md", "check-codes-trainer.md")
    sections = _sections("\n".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in names))
    return {f"{code.code}-{code.name}.md": _page(code, sections[code.code]) for code in CODES.values()}


def _sections(manual: str) -> dict[str, str]:
    """Text of the section of each code."""
    parts = re.findall(r"^### (A\d{3}) [^\n]*\n(.*?)(?=^#|\Z)", manual, flags=re.M | re.S)
    return {code: text.strip() for code, text in parts}


def _page(code: CheckCode, section: str) -> str:
    unit = "the unit of the signal" if code.size_unit == "value" else code.size_unit
    meaning = code.meaning[0].upper() + code.meaning[1:]
    remedy = code.remedy[0].upper() + code.remedy[1:]
    return f"""# {code.code} {code.name}

{meaning}.

{section}

**What to do.** {remedy}.

| | |
|---|---|
| severity | {_SEVERITIES[code.severity]} |
| size of a finding in | {unit} |
| made to find | {STRENGTHS[code.code]} |
| measured | [benchmarks/RESULTS.md](../../benchmarks/RESULTS.md) |
| all codes | [codes](../check-codes.md) |
"""


def main() -> int:
    """Write the pages with --write; else return 1 where one is not as it would be written."""
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    if "--write" in sys.argv:
        FOLDER.mkdir(exist_ok=True)
        for name in written.keys() - pages().keys():
            (FOLDER / name).unlink()
        for name, text in pages().items():
            (FOLDER / name).write_text(text, encoding="utf-8")
        return 0
    return int(written != pages())


if __name__ == "__main__":
    sys.exit(main())
