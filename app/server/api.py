"""The HTTP API of a workspace: episodes, search, facets, rulings, sets and tags as JSON, described by OpenAPI."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from functools import wraps
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from ares import __version__
from ares.console import visible
from ares.curation import complete_interrupted
from ares.deadline import Deadline, limit_time
from ares.episode import Json
from ares.errors import (
    AresError,
    EpisodeIndexError,
    FilterError,
    QueryTimeout,
    ReadOnlyWorkspace,
    RequestError,
    StoreError,
    UnknownEpisode,
)
from ares.registry import did_you_mean
from ares.settings import Settings, acting_as
from ares.workspace import MOST_NAMES, Workspace, find_names
from ares_app.server.command_words import (
    PLAN,
    make_annotate_words,
    make_check_words,
    make_ingest_words,
    resume_job,
)
from ares_app.server.jobs import (
    Job,
    find_job_folder,
    find_job_path,
    last_lines_of,
    list_all_jobs,
    read_job,
    start_command,
    stop_job,
)
from ares_app.server.protection import LAG_HEADER, PERSON_HEADER, VERSION_HEADER, check_person_name

API_PREFIX = "/api"
_JOB_ID = re.compile("[0-9a-f]{16}")
# Control characters but tabs and ends of lines, halves of characters, and what stands for bytes that are no UTF-8.
_UNUSABLE = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffd]")
_MOST_ROWS, _MOST_HITS, _MOST_STEPS = 1_000, 10_000, 100_000
Offset = Annotated[int, Field(ge=0)]
Rows = Annotated[int, Field(ge=1, le=_MOST_ROWS)]
Hits = Annotated[int, Field(ge=1, le=_MOST_HITS)]
Columns = Annotated[str, Field(description="names of columns, separated by commas; all where it is empty")]
# Of an action that may leave open who does it.
_WHO_ACTS = "who does it; by default the person of the log-in, without one the user of the server"
Person = Annotated[str, Field(description=_WHO_ACTS)]
Filter = Annotated[
    str, Field(description="SQL condition over the columns, such as num_steps > 20 AND success")
]
_SUMMARY = """The requests are those of Python: `GET /episodes` is `ws.episodes`, `GET /search` is `ws.search`.

Texts of data, such as captions, are values. An error is a JSON object with `reason` and `detail`."""


class OtherPerson(RequestError):
    """The request acts in the name of somebody who is not logged in."""


class NotStored(RequestError):
    """The address names nothing that is stored."""


class EpisodeChoice(BaseModel):
    """Which episodes an action is about: a list, or conditions that all hold."""

    model_config = ConfigDict(extra="forbid")

    ids: list[str] | None = Field(default=None, description="ids of episodes")
    where: str | None = Field(default=None, description="SQL filter")
    dataset: str | None = None
    set: str | None = Field(default=None, description='name of a set, or "name@version"')
    search: str | None = Field(default=None, description="text; the best `limit` episodes for it")
    limit: int | None = Field(default=None, ge=1)
    person: str = Field(default="", description=_WHO_ACTS)

    def arguments(self) -> dict[str, Any]:
        """Arguments of the verbs of a workspace that select these episodes."""
        return self.model_dump(exclude_none=True, exclude={"name", "person"})


class NewSet(EpisodeChoice):
    """A set to freeze."""

    name: str = Field(description="up to 80 letters of any script, digits, signs and inner spaces; no '@'")


class NewRuling(BaseModel):
    """What a person says of one episode, segment or text; see `ares.review.Answer`."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(
        description='"success", "text", "instruction", "acceptable", or a criterion such as "VERB"'
    )
    subject_id: str = Field(description="id of the episode or annotation")
    verdict: str = Field(description='"met", "unmet", "unsure"; for "success" "success", "failure", "unsure"')
    person: str = Field(min_length=1, description="who says it")
    subject_kind: str | None = Field(default=None, description='"episode" or "annotation"')
    reason: str = ""
    failure_kind: str = ""
    severity: str = ""
    text: str = ""
    slots: dict[str, str] = Field(default_factory=dict)


class NewJob(BaseModel):
    """What `ares ingest`, `annotate` or `check` is to do, in a process that goes on when the server ends."""

    model_config = ConfigDict(extra="forbid")

    command: Literal["ingest", "annotate", "check"]
    person: str = Field(min_length=1, description="who starts it")
    plan: bool = Field(default=False, description="only say what would be done, and what it costs")
    source: str = Field(default="", description="of ingest: a path below a folder of ARES_SOURCE_DIRS")
    dataset: str = ""
    format: str = ""
    names: list[str] = Field(default_factory=list, description="of annotate: annotators, in this order")
    where: str = Field(default="", description="of annotate: SQL filter")
    limit: int | None = Field(default=None, ge=1, description="of annotate: at most so many episodes")
    retry_failed: bool = False
    instructions: bool = Field(default=False, description="of check: compare instructions with frames")

    def words(self, settings: Settings) -> list[str]:
        """The words of the command."""
        if self.command == "ingest":
            words = make_ingest_words(settings, self.source, self.dataset, self.format)
        elif self.command == "annotate":
            words = make_annotate_words(self.names, self.where, self.limit, self.retry_failed)
        else:
            words = make_check_words(self.instructions)
        return [*words, *([PLAN] if self.plan else [])]


def make_api(workspace: Workspace, *, people_by_login: bool = False) -> FastAPI:
    """The application that answers the requests below `API_PREFIX`.

    Args:
        workspace: The workspace.
        people_by_login: Whether a log-in says who acts, in `PERSON_HEADER`: then a request acts in the name of nobody
            else.
    """
    # Pages of documentation would load scripts of other servers: the document itself is served.
    api = FastAPI(
        title="ARES", version=__version__, description=_SUMMARY, docs_url=None, redoc_url=None,
        openapi_url="/openapi.json",
        dependencies=[Depends(_refuse_unknown_parameters), Depends(_refuse_unusable_characters)],
    )  # fmt: skip
    for method, path, endpoint in Endpoints(workspace, people_by_login).table():
        answer = _limit_query_time(workspace, endpoint)
        api.add_api_route(
            path, answer, methods=[method], response_model=None, summary=inspect.getdoc(endpoint)
        )
    api.add_exception_handler(AresError, _answer_error)
    api.add_exception_handler(RequestValidationError, _answer_wrong_request)
    api.add_exception_handler(HTTPException, _answer_unknown_request)
    return api


def _refuse_unknown_parameters(request: Request) -> None:
    """Refuse a parameter that the request does not have: without it, a misspelled filter would select everything."""
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name not in known:
            raise RequestError(
                f"the request has no parameter {name!r}",
                f"{did_you_mean(name, known)}it has {', '.join(known) or 'none'}",
            )


async def _refuse_unusable_characters(request: Request) -> None:
    """Refuse a character that no table or process takes, wherever it stands in a request."""
    open_values: list[Any] = [request.path_params, request.query_params.multi_items()]
    with suppress(ValueError, RecursionError):  # a request without a body may have any
        open_values.append(await request.json())
    while open_values:
        value = open_values.pop()
        if isinstance(value, str) and (match := _UNUSABLE.search(value)):
            detail = f"{match[0]!r} in {value[:100]!r}"
            raise RequestError("the request has a character that cannot be stored", detail)
        if isinstance(value, Mapping | list | tuple):
            open_values.extend(value.items() if isinstance(value, Mapping) else value)


def _limit_query_time(workspace: Workspace, endpoint: Callable[..., Response]) -> Callable[..., Response]:
    """Give a request the time that a query of a page has; a header says what the tables do not show (yet)."""

    @wraps(endpoint)
    def answer(*args: Any, **keywords: Any) -> Response:
        complete_interrupted(workspace.stores)
        with limit_time(Deadline(workspace.settings.query_seconds)):
            response = endpoint(*args, **keywords)
        if workspace.stores.lag_message:
            response.headers[LAG_HEADER] = ascii(workspace.stores.lag_message)[1:-1]
        return response

    return answer


class Endpoints:
    """What the requests call.

    Args:
        workspace: The workspace.
        people_by_login: Whether a log-in says who acts.
    """

    def __init__(self, workspace: Workspace, people_by_login: bool) -> None:
        self.workspace, self._people_by_login = workspace, people_by_login

    def table(self) -> Iterable[tuple[str, str, Callable[..., Response]]]:
        """Method, path and function of every request."""
        return (
            ("GET", "/status", self.status),
            ("GET", "/episodes", self.list_episodes),
            ("GET", "/episodes/{episode_id}", self.show_episode),
            ("GET", "/episodes/{episode_id}/signals/{signal}", self.show_signal),
            ("GET", "/find", self.find),
            ("GET", "/search", self.search),
            ("GET", "/segments", self.search_segments),
            ("GET", "/facets", self.count_facets),
            ("GET", "/statistics", self.count_groups),
            ("GET", "/rulings", self.list_rulings),
            ("POST", "/rulings", self.add_ruling),
            ("DELETE", "/rulings/{ruling_id}", self.withdraw_ruling),
            ("GET", "/sets", self.list_sets),
            ("POST", "/sets", self.create_set),
            ("GET", "/sets/{label:path}", self.show_set),
            ("DELETE", "/sets/{label:path}", self.delete_set),
            ("GET", "/tags", self.list_tags),
            ("POST", "/tags/{tag:path}", self.add_tag),
            ("DELETE", "/tags/{tag:path}", self.remove_tag),
            ("POST", "/undo", self.undo),
            ("GET", "/jobs", self.list_jobs),
            ("POST", "/jobs", self.start_job),
            ("POST", "/jobs/{job_id}/resume", self.resume_job),
            ("DELETE", "/jobs/{job_id}", self.stop_job),
        )

    def status(self) -> Response:
        """Counts of episodes, annotations, sets and failures."""
        return _as_json(self.workspace.status().to_json())

    def list_episodes(
        self,
        where: Filter = "",
        columns: Columns = "",
        sort: str = "",
        descending: bool = False,
        offset: Offset = 0,
        limit: Rows = 100,
    ) -> Response:
        """Episodes of a filter, some columns each, and how many there are in all."""
        view = self.workspace.episodes
        view = view.where(where) if where else view
        view = view.sort(sort, descending) if sort else view
        rows = view[offset : offset + limit].to_arrow(_split_names(columns) or None)
        return _as_json({"total": len(view), "offset": offset, "episodes": rows.to_pylist()})

    def show_episode(self, episode_id: str) -> Response:
        """Everything known of one episode, as `ares show --json` prints it, with the addresses of its videos."""
        episode = self.workspace.episodes[episode_id]
        media = {name: _media_addresses(episode.episode_id, name) for name in episode.camera_names}
        return _as_json({**episode.to_json(), "media": media})

    def show_signal(
        self, episode_id: str, signal: str, start: Offset = 0, stop: Offset | None = None
    ) -> Response:
        """The values of a signal, (T, D) row by row, from one step to another, and the seconds of these steps."""
        trajectory = self.workspace.episodes[episode_id].trajectory
        named = {"state": trajectory.state, "action": trajectory.action, **trajectory.extra}
        signals = {name: item for name, item in named.items() if item is not None}
        if signal not in signals:
            raise NotStored(
                "the episode has no such signal", f"{signal!r}; it has {', '.join(signals) or 'none'}"
            )
        span = slice(start, min(len(trajectory.timestamps) if stop is None else stop, start + _MOST_STEPS))
        return _as_json(
            {
                "names": list(signals[signal].names),
                "seconds": trajectory.timestamps[span].tolist(),
                "values": signals[signal].values[span].tolist(),
            }
        )

    def find(self, text: str = "", limit: Annotated[int, Field(ge=1, le=MOST_NAMES)] = 20) -> Response:
        """Episodes by id, record or file, and datasets, tags and sets by name, the surest first."""
        return _as_json({"hits": [hit.to_json() for hit in find_names(self.workspace.stores, text, limit)]})

    def search(
        self,
        text: str = "",
        image: str = "",
        like: str = "",
        by: str = "",
        where: Filter = "",
        limit: Hits = 20,
        min_score: float | Literal["auto"] | None = None,
    ) -> Response:
        """Moments that match a text, a stored frame EPISODE_ID/CAMERA@SECONDS or an episode, best first."""
        from ares.search import Query, search

        query = Query(text=text, image=image, like=like, by=by, where=where, limit=limit, min_score=min_score)
        if image and query.frame is None:
            raise RequestError(
                "an image is a stored frame", f"{image[:100]!r}; use EPISODE_ID/CAMERA@SECONDS"
            )
        return _as_json({"hits": [hit.to_json() for hit in search(self.workspace.stores, query)]})

    def search_segments(self, text: str = "", where: Filter = "", limit: Hits = 20) -> Response:
        """Spans of episodes by words of their texts, best first."""
        segments = self.workspace.search_segments(text, where=where, limit=limit)
        return _as_json({"segments": [segment.to_json() for segment in segments]})

    def count_facets(self, where: Filter = "", columns: Columns = "") -> Response:
        """Counts of the values of columns among the episodes of a filter."""
        from ares.search import compute_facets

        facets = compute_facets(self.workspace.stores, where, _split_names(columns))
        return _as_json({"facets": [facet.to_json() for facet in facets]})

    def count_groups(self, by: str, where: Filter = "") -> Response:
        """Hours, outcomes, accepted captions and reviewed episodes by task, robot, operator, day or any name."""
        view = self.workspace.episodes
        groups = (view.where(where) if where else view).count_by(by)
        assert groups.statistics is not None
        return _as_json(groups.statistics.to_json())

    def list_rulings(self, queue: str = "", person: str = "") -> Response:
        """What people say, the newest first."""
        rows = self.workspace.review.answers(queue=queue, person=person)
        return _as_json({"rulings": [row.to_json() for row in rows]})

    def add_ruling(self, ruling: NewRuling, request: Request) -> Response:
        """Store what a person says; it takes the place of what the same person said of the same before."""
        from ares.workspace import answer_from_row

        person = self._check_person(request, ruling.person)
        answer = answer_from_row({**ruling.model_dump(exclude_none=True), "person": person})
        return _as_json({"ruling_id": self.workspace.review.give(answer)}, HTTPStatus.CREATED)

    def withdraw_ruling(self, ruling_id: str, person: str, request: Request) -> Response:
        """Take back what a person has said."""
        self.workspace.review.withdraw(ruling_id, self._check_person(request, person))
        return _as_json({"ruling_id": ruling_id})

    def list_sets(self) -> Response:
        """The newest version of every set."""
        return _as_json({"sets": [stored.to_json() for stored in self.workspace.sets.values()]})

    def create_set(self, new: NewSet, request: Request) -> Response:
        """Freeze a selection as the next version of a name; the same selection again gives the same version."""
        with self._acting(request, new.person):
            stored = self.workspace.sets.create(new.name, **new.arguments())
        return _as_json(stored.to_json(), HTTPStatus.CREATED)

    def show_set(self, label: str, offset: Offset = 0, limit: Rows = 100) -> Response:
        """A set, and some of the ids of its episodes."""
        stored = self._find_set(label)
        ids = stored.members[offset : offset + limit].ids()
        return _as_json({**stored.to_json(), "offset": offset, "ids": list(ids)})

    def delete_set(self, label: str, request: Request, person: Person = "") -> Response:
        """Delete a set; its episodes stay, and undo brings it back."""
        self._find_set(label)
        with self._acting(request, person):
            return _as_json(self.workspace.sets.delete(label).to_json())

    def list_tags(self) -> Response:
        """The tags, and how many episodes have each."""
        return _as_json({"tags": [use.to_json() for use in self.workspace.tags]})

    def add_tag(self, tag: str, episodes: EpisodeChoice, request: Request) -> Response:
        """Add a tag to episodes."""
        with self._acting(request, episodes.person):
            return _as_json(self.workspace.tag(tag, **episodes.arguments()).to_json())

    def remove_tag(self, tag: str, episodes: EpisodeChoice, request: Request) -> Response:
        """Remove a tag from episodes."""
        with self._acting(request, episodes.person):
            return _as_json(self.workspace.untag(tag, **episodes.arguments()).to_json())

    def undo(self, request: Request, number: int | None = None, person: Person = "") -> Response:
        """Take back an action by its number, by default the last of the person."""
        with self._acting(request, person):
            return _as_json(self.workspace.undo(number).undone.to_json())

    def list_jobs(self) -> Response:
        """The jobs that pages and programs have started, the newest first."""
        return _as_json({"jobs": [self._describe_job(job) for job in list_all_jobs(self.workspace.stores)]})

    def start_job(self, new: NewJob, request: Request) -> Response:
        """Start a job, or a plan of one."""
        person = self._check_person(request, new.person)
        job = start_command(self.workspace.stores, new.words(self.workspace.settings), person)
        return _as_json(self._describe_job(job), HTTPStatus.CREATED)

    def resume_job(self, job_id: str, person: str, request: Request) -> Response:
        """Start an ended job again; it goes on with what is open."""
        person = self._check_person(request, person)
        job = resume_job(self.workspace.stores, self._find_job(job_id), person)
        return _as_json(self._describe_job(job), HTTPStatus.CREATED)

    def stop_job(self, job_id: str, person: str, request: Request) -> Response:
        """Ask a job to end; what it has done stays."""
        person, job = self._check_person(request, person), self._find_job(job_id)
        stop_job(self.workspace.stores, job, person)
        return _as_json(self._describe_job(job))

    def _acting(self, request: Request, person: str) -> AbstractContextManager[None]:
        """The time in which the log has the person of a request for what is done."""
        return acting_as(self._check_person(request, person))

    def _check_person(self, request: Request, person: str) -> str:
        """Who acts: where people log in the person that the log-in says, and nobody else.

        Raises:
            OtherPerson: The log-in says nobody, or somebody else.
            RequestError: The name is no name.
        """
        check_person_name(person)
        if not self._people_by_login:
            return person
        sent = request.headers.get(PERSON_HEADER) or ""
        logged_in = sent.encode("latin-1", "replace").decode("utf-8", "replace")
        if not logged_in:
            raise OtherPerson(
                "the log-in proxy has not said who acts",
                "it has to set X-Forwarded-User on requests below /api as well",
            )
        if person not in ("", logged_in):
            raise OtherPerson(
                "a request acts in the name of who is logged in, and of nobody else",
                f"{person!r} is not {logged_in!r}",
            )
        return logged_in

    def _find_job(self, job_id: str) -> Job:
        path = find_job_folder(self.workspace.stores) / f"{job_id}.json"
        job = read_job(path) if _JOB_ID.fullmatch(job_id) else None
        if job is None:
            raise NotStored("there is no such job", f"{job_id[:100]!r}")
        return job

    def _describe_job(self, job: Job) -> dict[str, Any]:
        stores = self.workspace.stores
        job_id = find_job_path(stores, job.words).stem
        return {"id": job_id, **asdict(job), "lines": last_lines_of(stores, job)}

    def _find_set(self, label: str) -> Any:
        if label not in self.workspace.sets:
            raise NotStored("there is no such set", f"{label!r}")
        return self.workspace.sets[label]


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _media_addresses(episode_id: str, camera: str) -> dict[str, Json]:
    """Where the video of a camera and a picture of it are; both take the second `t` or byte ranges."""
    from urllib.parse import quote

    name = quote(camera)
    return {"video": f"/api/media/{episode_id}/{name}.mp4", "poster": f"/api/thumb/{episode_id}/{name}.jpg"}


def _as_json(value: Any, status: int = HTTPStatus.OK) -> Response:
    """JSON of which numbers are finite: NaN and infinities, which no parser must read, are null."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain_value)
    except ValueError:
        text = json.dumps(_without_nan(value), ensure_ascii=False, allow_nan=False, default=_plain_value)
    body = text.encode("utf-8", "backslashreplace")
    return Response(body, status, {VERSION_HEADER: __version__}, media_type="application/json")


def _plain_value(value: Any) -> Any:
    """A time as ISO 8601; any other value as its text."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value


_STATUSES: tuple[tuple[type[AresError], HTTPStatus], ...] = (
    (QueryTimeout, HTTPStatus.SERVICE_UNAVAILABLE),
    (NotStored, HTTPStatus.NOT_FOUND),
    (UnknownEpisode, HTTPStatus.NOT_FOUND),
    (EpisodeIndexError, HTTPStatus.NOT_FOUND),
    (OtherPerson, HTTPStatus.FORBIDDEN),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (ReadOnlyWorkspace, HTTPStatus.FORBIDDEN),
    (StoreError, HTTPStatus.INTERNAL_SERVER_ERROR),
)


async def _answer_error(request: Request, error: Exception) -> Response:
    """One line of what was wrong; of a filter also the place of the mistake."""
    assert isinstance(error, AresError)
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), HTTPStatus.CONFLICT)
    position = {"position": error.position} if isinstance(error, FilterError) else {}
    return _as_json({"reason": visible(error.reason), "detail": visible(error.detail), **position}, status)


async def _answer_unknown_request(request: Request, error: Exception) -> Response:
    """One line for an address or a method that no request has."""
    assert isinstance(error, HTTPException)
    what = visible(f"{request.method} {request.scope['root_path']}{request.scope['path']}")[:200]
    detail = f"{what}; {API_PREFIX}/openapi.json lists all"
    return _as_json({"reason": "there is no such request", "detail": detail}, error.status_code)


async def _answer_wrong_request(request: Request, error: Exception) -> Response:
    """One line for a parameter or a body of the wrong form."""
    assert isinstance(error, RequestValidationError)
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'][1:]) or 'body'}: {problem['msg']}, got {problem['input']!r}"
        for problem in error.errors()
    ]
    detail = visible("; ".join(problems))[:1000]
    return _as_json({"reason": "the request has a wrong form", "detail": detail}, HTTPStatus.BAD_REQUEST)
