"""The file `ares.toml`: settings beside the environment variables, checked key by key."""

from __future__ import annotations

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ares.errors import RequestError
from ares.messages import print_message

_SECRETS = ("mongo_uri", "openai_api_key", "app_password")
_FOLDERS = ("workspace", "cache", "export_dirs")
_READABLE_BY_OTHERS = 0o044


class ConfigFile(BaseModel):
    """The keys of ares.toml: the fields of `ares.settings.Settings`, as text or as numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workspace: str = ""
    mongo_uri: str = ""
    embed_model: str = ""
    caption_model: str = ""
    judge_model: str = ""
    model_families: str = ""
    price: str | tuple[float, float] = ""
    openai_api_key: str = ""
    cache: str = ""
    media_cache_gb: float | int | None = None
    app_password: str = ""
    export_dirs: str | tuple[str, ...] = ""
    query_seconds: float | int | None = None
    trusted_proxies: str | tuple[str, ...] = ""
    max_megapixels: float | int | None = None
    reader_gb: float | int | None = None
    record_seconds: float | int | None = None
    follow_links: bool | None = None
    video_device: str = ""


def read_config_file(path: Path) -> dict[str, str]:
    """The values of a file by key, as the environment variables give them; keys without a value are left out.

    A file with a secret that other users can read is a warning.

    Raises:
        RequestError: The file cannot be read, a key is unknown, or a value has a wrong type.
    """
    try:
        with path.open("rb") as file:
            table: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise RequestError("the config file cannot be read", f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RequestError("the config file is no TOML", f"{path}: {error}") from None
    try:
        # In TOML an array is a list; strict validation wants a tuple.
        config = ConfigFile.model_validate({key: _as_tuple(value) for key, value in table.items()})
    except ValidationError as error:
        raise _config_error(path, error) from None
    values = {name: _as_text(name, value) for name, value in config if value not in ("", None)}
    _warn_of_readable_secrets(path, values)
    return values


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_text(name: str, value: Any) -> str:
    separator = os.pathsep if name == "export_dirs" else ","
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
    names = list(ConfigFile.model_fields)
    if first["type"] == "extra_forbidden":
        close = get_close_matches(key, names, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
        return RequestError(f"unknown key {key!r} in the config file", f"{hint} ({path})")
    value = "a secret" if key in _SECRETS else repr(first["input"])
    return RequestError(f"wrong value of {key!r} in the config file", f"{value}: {first['msg']} ({path})")


def _warn_of_readable_secrets(path: Path, values: dict[str, str]) -> None:
    secrets = [name for name in _SECRETS if name in values]
    if secrets and path.stat().st_mode & _READABLE_BY_OTHERS:
        print_message(f"{path} holds {' and '.join(secrets)}, and other users can read it: chmod 600 {path}")
