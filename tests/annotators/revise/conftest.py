"""A workspace of eight demo episodes whose captions a scripted judge has refused, and a captioner to ask again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ares.settings import Price, Settings
from ares.workspace import Workspace, open_workspace
from ares_annotators.base import Options
from tests.annotators.caption_replies import typed_caption
from tests.annotators.conftest import ModelServer
from tests.annotators.judge_replies import judge, observation
from tests.annotators.runs import annotate
from tests.annotators.samples import choice
from tests.ingesting import ingest_paths
from tests.workspaces import copy_workspace

EPISODES = 8
TRUE, REFUSED = "push the green drawer closed", "open the red drawer"
FLATTERY = "truly as shown"
CAPTIONER, JUDGE, OTHER = "Some/Captioner-2B", "Other/Judge-9B", "Third/Captioner-7B"


@dataclass(slots=True)
class Script:
    """What the models of the server do.

    Attributes:
        first: What the captioner writes first.
        revises: What the captioner makes of a caption when it is asked again, from the caption and the prompt.
        charmed: Criteria that the judge finds met wherever it is flattered.
        prompts: Prompts of revisions that the captioner got.
    """

    first: str = REFUSED
    revises: Callable[[str, str], str] = lambda caption, prompt: TRUE
    charmed: frozenset[str] = frozenset()
    prompts: list[str] = field(default_factory=list)

    def answer(self, request: Any) -> list[dict[str, Any]]:
        """The reply to a request."""
        reply = self._caption(request) if request["model"] == CAPTIONER else self._rule(request)
        return [choice(reply)]

    def _caption(self, request: Any) -> str:
        prompt = _prompt(request)
        before = re.search(r"frames before: (\"[^\n]+\")\n", prompt)
        if not before:
            colour = "green" if "green" in self.first else "red"
            return typed_caption(self.first, action="open", attributes=[colour])
        self.prompts.append(prompt)
        text = self.revises(json.loads(before[1]), prompt)
        # A captioner flatters in the slots: the judge reads nothing else of it.
        praise = f" {FLATTERY}" if FLATTERY in text else ""
        colour = "green" if "green" in text else "red"
        if "open" not in text:
            return typed_caption(text, action="push", attributes=[colour, "closed"])
        if praise:
            return typed_caption(
                text, action="other", other_action=f"open{praise}", attributes=[colour + praise]
            )
        return typed_caption(text, action="open", attributes=[colour])

    def _rule(self, request: Any) -> str:
        answer = judge(
            observation(action="push", attributes="green, closed"), compares="different", chooses=self._choose
        )
        (choice,) = answer(request)
        return str(choice["message"]["content"])

    def _choose(self, entry: Any) -> str:
        slot = {"VERB": "action", "ATTRIBUTES": "attributes"}
        is_charmed = any(slot[name] == entry["slot"] for name in self.charmed)
        praised = [option for option in entry["options"] if is_charmed and FLATTERY in option]
        shown = ("push", "green", "green, closed", "closed, green")
        seen = [option for option in entry["options"] if option in shown]
        return str([*praised, *seen, "other"][0])


def _prompt(request: Any) -> str:
    return str(request["messages"][-1]["content"][-1]["text"])


@pytest.fixture
def script(model_server: ModelServer) -> Script:
    """The script of the server."""
    script = Script()
    model_server.replies(script.answer)
    return script


def _options(url: str) -> Options:
    """A captioner and a judge behind a server, of different families, at a price."""
    settings = Settings(
        caption_model=f"openai:{CAPTIONER}@{url}",
        judge_model=f"openai:{JUDGE}@{url}",
        openai_api_key="a-key",
        price=Price(usd_per_mtok_in=1.0, usd_per_mtok_out=10.0),
    )
    return Options(settings=settings, values={})


@pytest.fixture
def judging(model_server: ModelServer) -> Options:
    """The captioner and the judge of the test's server."""
    return _options(model_server.url)


@pytest.fixture(scope="session")
def graded_folder(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Iterator[Path]:
    """The workspace; it is only copied. Its captions are graded without controls, which would be most of the calls."""
    folder, server = tmp_path_factory.mktemp("revised") / "workspace", ModelServer()
    server.replies(Script().answer)
    options = _options(server.url)
    with open_workspace(str(folder), options.settings) as workspace:
        stores = workspace.stores
        ingest_paths(
            stores, [str(_unlabelled(demo_samples / "video", folder.parent))], limit=EPISODES, quiet=True
        )
        annotate(stores, ["caption"], replace(options, values={"layout": "tiles"}), quiet=True)
        annotate(stores, ["grade"], options, quiet=True)
    server.close()
    yield folder


def _unlabelled(samples: Path, folder: Path) -> Path:
    """The samples without their recorded success, which would decide on every outcome."""
    copied = Path(shutil.copytree(samples, folder / "video"))
    metadata = copied / "metadata.jsonl"
    rows = [json.loads(line) for line in metadata.read_text("utf-8").splitlines()]
    kept = [{name: value for name, value in row.items() if name != "success"} for row in rows]
    metadata.write_text("".join(f"{json.dumps(row)}\n" for row in kept), "utf-8")
    return copied


@pytest.fixture
def graded(graded_folder: Path, tmp_path: Path, judging: Options) -> Iterator[Workspace]:
    """The workspace with a refused caption of each episode."""
    folder = copy_workspace(graded_folder, tmp_path / "workspace")
    with open_workspace(str(folder), judging.settings) as workspace:
        yield workspace
