"""Settings from environment variables and the user's file ares.toml; and what processes of ARES inherit."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from ares.console import print_message
from ares.errors import RequestError

if TYPE_CHECKING:
    from pydantic import ValidationError

_SECRETS = ("mongo_uri", "openai_api_key", "app_password")
_FOLDERS = ("workspace", "cache", "export_dirs", "source_dirs")
_READABLE_BY_OTHERS = 0o044
_CONFIG_NAME, _CONFIG_VARIABLE = "ares.toml", "ARES_CONFIG"
# Settings that are numbers, with an example of each.
_NUMBERS = {
    "media_cache_gb": "gigabytes such as 10",
    "query_seconds": "seconds such as 10",
    "job_days": "days such as 30",
    "max_megapixels": "millions such as 100",
    "reader_gb": "gigabytes such as 4",
    "record_seconds": "seconds such as 300",
}
_MEDIA_CACHE_GB, _LARGEST_NUMBER = 10.0, 1e9
# What people say of failures where a lab has no list.
FAILURE_KINDS = (
    "missed grasp",
    "dropped",
    "wrong object",
    "wrong place",
    "collision",
    "not finished",
    "robot fault",
    "other",
)
FAILURE_SEVERITIES = ("minor", "major", "critical")
# The variable of each setting, by its key in the config file; both have the unit that people give.
_UNITS, _OTHERS = {"media_cache_bytes": "media_cache_gb"}, {"openai_api_key": "OPENAI_API_KEY"}
PERSON_VARIABLE = "ARES_PERSON"
# The path of imports before libraries are imported: some change it for as long as their import takes.
_FIRST_PATH = frozenset(sys.path)


@contextmanager
def keeping_environment() -> Iterator[None]:
    """Take back what a library below puts into the environment, which the processes of jobs inherit."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def read_config_file(path: Path) -> dict[str, str]:
    """The values of a file by key, as the environment variables give them; keys without a value are left out.

    A file with a secret that other users can read is a warning.

    Raises:
        RequestError: The file cannot be read, a key is unknown, or a value has a wrong type.
    """
    import tomllib

    try:
        with path.open("rb") as file:
            table: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise RequestError("the config file cannot be read", f"{path}: {error.strerror}") from None
    except RecursionError:
        raise RequestError("the config file is nested too deeply", str(path)) from None
    except ValueError as error:  # no TOML, no UTF-8, or a number with thousands of digits
        raise RequestError("the config file is no TOML", f"{path}: {error}") from None
    from pydantic import ConfigDict, ValidationError, create_model

    keys: dict[str, Any] = {key: (kind, None) for key, kind in _config_types().items()}
    model = create_model("ConfigFile", __config__=ConfigDict(extra="forbid", strict=True), **keys)
    try:
        # In TOML an array is a list; strict validation wants a tuple.
        config = model.model_validate({key: _as_tuple(value) for key, value in table.items()})
    except ValidationError as error:
        raise _config_error(path, error) from None
    try:
        values = {name: _as_text(name, value) for name, value in config if value not in ("", None)}
    except ValueError as error:  # a number with thousands of digits
        raise RequestError("wrong value in the config file", f"{error} ({path})") from None
    secrets = [name for name in _SECRETS if name in values]
    if secrets and path.stat().st_mode & _READABLE_BY_OTHERS:
        print_message(f"{path} holds {' and '.join(secrets)}, and other users can read it: chmod 600 {path}")
    return values


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_text(name: str, value: Any) -> str:
    separator = os.pathsep if name.endswith("_dirs") else ","
    values = [str(item) for item in (value if isinstance(value, tuple) else (value,))]
    # A shell would have replaced "~" in a variable.
    is_home = [name in _FOLDERS and text.startswith("~") for text in values]
    expanded = [
        str(Path(text).expanduser()) if home else text for text, home in zip(values, is_home, strict=True)
    ]
    return separator.join(expanded)


def _config_error(path: Path, error: ValidationError) -> RequestError:
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    names = list(_VARIABLES)
    if first["type"] == "extra_forbidden":
        from difflib import get_close_matches

        close = get_close_matches(key, names, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
        return RequestError(f"unknown key {key!r} in the config file", f"{hint} ({path})")
    value = "a secret" if key in _SECRETS else repr(first["input"])
    return RequestError(f"wrong value of {key!r} in the config file", f"{value}: {first['msg']} ({path})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model, in US dollars per million tokens."""

    usd_per_mtok_in: float
    usd_per_mtok_out: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of ARES; only this module reads environment variables.

    Attributes:
        workspace: Folder or object-store URI of the workspace (ARES_WORKSPACE).
        mongo_uri: Server for annotations, or None for the embedded SQLite file (ARES_MONGO_URI).
        embed_model: open_clip model spec (ARES_EMBED_MODEL).
        caption_model: Captioner spec, `hf:...` or `openai:...` (ARES_CAPTION_MODEL).
        judge_model: Judge spec, `clip:...`, `hf:...` or `openai:...`; its language model is of another family than
            the captioner's (ARES_JUDGE_MODEL).
        model_families: YAML file with language models of model families, before those of ARES; "" for none
            (ARES_MODEL_FAMILIES).
        price: Price of the remote models, or None when unknown (ARES_PRICE, "IN,OUT" in USD per million tokens).
        openai_api_key: Key for an OpenAI-compatible server (OPENAI_API_KEY); servers without keys ignore it.
        cache: Folder for the caches of workspaces on object stores (ARES_CACHE).
        media_cache_bytes: Maximum size of the cache of playable videos and thumbnails (ARES_MEDIA_CACHE_GB).
        app_password: Password of the dashboard when it listens beyond loopback (ARES_APP_PASSWORD).
        export_dirs: Folders below which the dashboard exports, separated as in PATH (ARES_EXPORT_DIRS); by default
            `exports` in the workspace.
        source_dirs: Folders below which pages read datasets to ingest, separated as in PATH (ARES_SOURCE_DIRS); none by
            default.
        query_seconds: Time limit of each query of the dashboard (ARES_QUERY_SECONDS).
        job_days: Days after which the log of a job of the dashboard is deleted (ARES_JOB_DAYS).
        trusted_proxies: Addresses or networks of reverse proxies before the dashboard (ARES_TRUSTED_PROXIES, separated
            by commas).
        max_megapixels: Millions of pixels of one image or video frame of a dataset (ARES_MAX_MEGAPIXELS).
        reader_gb: Gigabytes of memory that reading a dataset may add to a process (ARES_READER_GB).
        record_seconds: Seconds in which one record must be read (ARES_RECORD_SECONDS).
        follow_links: Whether symbolic links may lead out of a dataset (ARES_FOLLOW_LINKS, 0 or 1).
        failure_kinds: Kinds of failure that people choose from in a review (ARES_FAILURE_KINDS, separated by commas).
        failure_severities: How bad a failure may be, the least first (ARES_FAILURE_SEVERITIES, separated by commas).
        review_guideline: File whose text takes the place of every guideline of a review (ARES_REVIEW_GUIDELINE).
    """

    workspace: str = "./ares-workspace"
    mongo_uri: str | None = None
    embed_model: str = "ViT-B-32/laion2b_s34b_b79k"
    caption_model: str = "hf:Qwen/Qwen3-VL-4B-Instruct"
    judge_model: str = "hf:google/gemma-4-E4B-it"
    model_families: str = ""
    price: Price | None = None
    openai_api_key: str = ""
    cache: str = "~/.cache/ares"
    media_cache_bytes: int = 10 * 2**30
    app_password: str = ""
    export_dirs: tuple[str, ...] = ()
    source_dirs: tuple[str, ...] = ()
    query_seconds: float = 10.0
    job_days: float = 30.0
    trusted_proxies: tuple[str, ...] = ()
    max_megapixels: float = 100.0
    reader_gb: float = 4.0
    record_seconds: float = 300.0
    follow_links: bool = False
    failure_kinds: tuple[str, ...] = FAILURE_KINDS
    failure_severities: tuple[str, ...] = FAILURE_SEVERITIES
    review_guideline: str = ""

    def __repr__(self) -> str:
        return f"Settings(workspace={self.workspace!r})"  # the other fields may hold a password


_KEYS = (_UNITS.get(field.name, field.name) for field in fields(Settings))
_VARIABLES = {key: _OTHERS.get(key, f"ARES_{key.upper()}") for key in _KEYS}


def _config_types() -> dict[str, Any]:
    """The type of the value of each key of the config file: that of the setting, or a text of it."""
    types: dict[Any, Any] = {
        float: float | int,
        int: float | int,
        bool: bool,
        tuple[str, ...]: str | tuple[str, ...],
        Price | None: str | tuple[float, float],
    }
    kinds = get_type_hints(Settings).values()
    return {key: types.get(kind, str) for key, kind in zip(_VARIABLES, kinds, strict=True)}


def settings_from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment, and what it leaves open from the config file.

    Args:
        environ: Variables in place of the environment's; then no config file is read.

    Raises:
        RequestError: A variable cannot be parsed, or the config file is wrong; the message names it.
    """
    env = os.environ if environ is None else environ
    path = config_path() if environ is None else None
    texts = read_config_file(path) if path else {}
    texts |= {field: env[variable] for field, variable in _VARIABLES.items() if env.get(variable)}
    if (follow_links := texts.pop("follow_links", "0").lower()) not in ("0", "1", "true", "false"):
        raise RequestError("ARES_FOLLOW_LINKS is neither 0 nor 1", repr(follow_links))
    numbers = {field: _parse_number(field, texts.pop(field)) for field in _NUMBERS if field in texts}
    parsed = {
        "price": _parse_price(texts.pop("price", "")),
        "media_cache_bytes": int(numbers.pop("media_cache_gb", _MEDIA_CACHE_GB) * 2**30),
        "export_dirs": _split_list(texts.pop("export_dirs", ""), os.pathsep),
        "source_dirs": _split_list(texts.pop("source_dirs", ""), os.pathsep),
        "follow_links": follow_links in ("1", "true"),
        "trusted_proxies": _split_list(texts.pop("trusted_proxies", ""), ","),
        "failure_kinds": _split_list(texts.pop("failure_kinds", ""), ",") or FAILURE_KINDS,
        "failure_severities": _split_list(texts.pop("failure_severities", ""), ",") or FAILURE_SEVERITIES,
        **numbers,
    }
    return Settings(**texts, **parsed)  # type: ignore[arg-type]


def settings_environment(settings: Settings) -> dict[str, str]:
    """The variables that give a process these settings, whatever stands in a config file; some hold a secret."""
    texts = {}
    for field, variable in _VARIABLES.items():
        if field == "media_cache_gb":
            value: object = settings.media_cache_bytes / 2**30
        elif field == "price":
            price = settings.price
            value = price and f"{price.usd_per_mtok_in},{price.usd_per_mtok_out}"
        else:
            value = getattr(settings, field)
        if isinstance(value, tuple):
            value = (os.pathsep if field in _FOLDERS else ",").join(value)
        texts[variable] = "" if value is None else str(value)
    return texts


def config_path() -> Path | None:
    """The config file in use, or None: that of `--config` or $ARES_CONFIG, else ares.toml in the user's folder.

    A file in the current folder is not read: whoever made the folder would choose where keys and frames go.

    Raises:
        RequestError: `--config` or $ARES_CONFIG names a file that does not exist.
    """
    explicit = os.environ.get(_CONFIG_VARIABLE)
    if explicit:
        if not Path(explicit).is_file():
            raise RequestError(
                "the config file does not exist", f"{explicit!r}, from --config or ARES_CONFIG"
            )
        return Path(explicit)
    path = _user_config_path()
    return path if path and path.is_file() else None


def _user_config_path() -> Path | None:
    """Where the config file of the user belongs (XDG Base Directory Specification); None for a user without a home."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if not Path(folder).is_absolute():  # the specification says: ignored
        folder = os.path.expanduser("~/.config")  # noqa: PTH111  # a Path raises where there is no home
    return Path(folder) / "ares" / _CONFIG_NAME if Path(folder).is_absolute() else None


@contextmanager
def selected_config(file: str) -> Iterator[None]:
    """Read the settings from this file inside the block, also in processes that it starts; "" changes nothing."""
    if not file:
        yield
        return
    previous = os.environ.get(_CONFIG_VARIABLE)
    os.environ[_CONFIG_VARIABLE] = os.path.abspath(file)  # noqa: PTH100  # workers have other current folders
    try:
        yield
    finally:
        if previous is None:
            del os.environ[_CONFIG_VARIABLE]
        else:
            os.environ[_CONFIG_VARIABLE] = previous


def name_ignored_config(workspace: str | os.PathLike[str] = "") -> None:
    """Print a line where the current folder, or a workspace elsewhere, has a file ares.toml that is not read."""
    path = Path(workspace, _CONFIG_NAME)
    if not os.path.lexists(path) or (workspace and is_same_file(Path(workspace), Path())):
        return
    used = config_path()
    if used is None or not is_same_file(path, used):
        where = f"the workspace {workspace}" if workspace else "the current folder"
        kept = _user_config_path() or "a folder of your own"
        print_message(
            f"{_CONFIG_NAME} in {where} is ignored: give --config {path}, or keep settings in {kept}"
        )


def is_same_file(path: Path, other: Path) -> bool:
    """Whether both paths lead to one file; False where one does not exist."""
    try:
        return path.samefile(other)
    except OSError:
        return False


def read_rank() -> tuple[int, int]:
    """Number of this process of a training from 0, and of all, as launchers such as torchrun say it; 0 of 1 alone."""
    texts = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    is_stated = all(text.isascii() and text.isdigit() for text in texts)
    return (int(texts[0]), int(texts[1])) if is_stated else (0, 1)


_acting_person: ContextVar[str] = ContextVar("acting_person", default="")


@contextmanager
def acting_as(person: str) -> Iterator[None]:
    """Let `user_name` be this person inside the block, in this thread; "" changes nothing."""
    token = _acting_person.set(person.strip() or _acting_person.get())
    try:
        yield
    finally:
        _acting_person.reset(token)


def user_name() -> str:
    """Return the name of the person behind an action; "unknown" where nobody says it and the system has none.

    It is that of `acting_as`, else ARES_PERSON, which a job of a page has, else that of the system's user.
    """
    import getpass

    try:
        return _acting_person.get() or os.environ.get(PERSON_VARIABLE, "").strip() or getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no entry
        return "unknown"


def ray_address() -> str:
    """Return the address of the ray cluster, or "local" for a new one on this machine (RAY_ADDRESS)."""
    # Passed to ray explicitly: by default it joins any cluster that runs on this machine, and fails with it.
    return os.environ.get("RAY_ADDRESS") or "local"


def _parse_price(text: str) -> Price | None:
    if not text:
        return None
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        price_in = price_out = math.nan
    if not all(0 <= price < _LARGEST_NUMBER for price in (price_in, price_out)):  # false for nan, too
        raise RequestError("ARES_PRICE cannot be read", f"{text!r}; use IN,OUT such as 0.15,0.60")
    return Price(usd_per_mtok_in=price_in, usd_per_mtok_out=price_out)


def _split_list(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator) if part.strip())


def _parse_number(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # A cache may be of no size. Both are false for nan, too.
    if not (0 < number < _LARGEST_NUMBER or (number == 0 and field == "media_cache_gb")):
        raise RequestError(
            f"{_VARIABLES[field]} is not a number above 0", f"{text[:100]!r}; use {_NUMBERS[field]}"
        )
    return number


def inherited_path() -> list[str]:
    """The entries of `sys.path` for a process that ARES starts.

    The current folder is left out, as its files may be a stranger's. So are folders of packages that came later: cv2
    puts its folder there while it is imported, with a `typing` in it.
    """
    return [
        entry
        for entry in sys.path
        if not _is_current_folder(entry)
        and (entry in _FIRST_PATH or not os.path.isfile(os.path.join(entry, "__init__.py")))  # noqa: PTH113, PTH118
    ]


def inherited_environment() -> dict[str, str]:
    """The environment of a process that ARES starts: Python never puts the current folder on its path there."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = [os.path.abspath(entry) for entry in named if not _is_current_folder(entry)]  # noqa: PTH100
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(kept)}


def drop_current_folder_from_path() -> None:
    """Take the current folder off the path of this process, and of all that it or a library starts."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # An empty entry, such as that of PYTHONPATH=:/opt/lib, stands in `sys.path` as an absolute path.
    if any(map(_is_current_folder, named)) and named != [""]:
        here, ours = os.path.abspath(os.curdir), str(Path(__file__).parents[1])  # noqa: PTH100
        sys.path[:] = [entry for entry in sys.path if entry != here or here in (*named, ours)]
    sys.path[:] = [entry for entry in sys.path if not _is_current_folder(entry)]
    os.environ.update(inherited_environment())


def _is_current_folder(entry: str) -> bool:
    """Whether an entry of a path means the folder that is current when it is read, whichever that is."""
    return os.path.normpath(entry) == os.curdir
