"""Settings from environment variables: where the workspace is and which models to use."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ares.errors import RequestError


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
        judge_model: Judge spec, `clip:...`, `hf:...` or `openai:...`, of another family than the captioner
            (ARES_JUDGE_MODEL).
        price: Price of the remote models, or None when unknown (ARES_PRICE, "IN,OUT" in USD per million tokens).
        openai_api_key: Key for an OpenAI-compatible server (OPENAI_API_KEY); servers without keys ignore it.
        cache: Folder for the caches of workspaces on object stores (ARES_CACHE).
        media_cache_bytes: Maximum size of the cache of playable videos and thumbnails (ARES_MEDIA_CACHE_GB).
        app_password: Password of the dashboard when it listens beyond loopback (ARES_APP_PASSWORD).
    """

    workspace: str = "./ares-workspace"
    mongo_uri: str | None = None
    embed_model: str = "ViT-B-32/laion2b_s34b_b79k"
    caption_model: str = "hf:Qwen/Qwen3-VL-4B-Instruct"
    judge_model: str = "hf:OpenGVLab/InternVL3-8B-hf"
    price: Price | None = None
    openai_api_key: str = ""
    cache: str = "~/.cache/ares"
    media_cache_bytes: int = 10 * 2**30
    app_password: str = ""

    def __repr__(self) -> str:
        return f"Settings(workspace={self.workspace!r})"  # the other fields may hold a password


def settings_from_environment(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from the environment. Raises RequestError naming the variable that cannot be parsed."""
    env = os.environ if environ is None else environ
    texts = {
        "workspace": env.get("ARES_WORKSPACE"),
        "mongo_uri": env.get("ARES_MONGO_URI"),
        "cache": env.get("ARES_CACHE"),
        "embed_model": env.get("ARES_EMBED_MODEL"),
        "caption_model": env.get("ARES_CAPTION_MODEL"),
        "judge_model": env.get("ARES_JUDGE_MODEL"),
        "openai_api_key": env.get("OPENAI_API_KEY"),
        "app_password": env.get("ARES_APP_PASSWORD"),
    }
    nonempty = {name: text for name, text in texts.items() if text}
    return Settings(**nonempty, price=_price(env), media_cache_bytes=_cache_bytes(env))


def ray_address() -> str:
    """Return the address of the ray cluster, or "local" for a new one on this machine (RAY_ADDRESS)."""
    # Passed to ray explicitly: by default it joins any cluster that runs on this machine, and fails with it.
    return os.environ.get("RAY_ADDRESS") or "local"


def _price(env: Mapping[str, str]) -> Price | None:
    text = env.get("ARES_PRICE")
    if not text:
        return None
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        raise RequestError("ARES_PRICE cannot be read", f"{text!r}; use IN,OUT such as 0.15,0.60") from None
    return Price(usd_per_mtok_in=price_in, usd_per_mtok_out=price_out)


def _cache_bytes(env: Mapping[str, str]) -> int:
    text = env.get("ARES_MEDIA_CACHE_GB", "10")
    try:
        return int(float(text) * 2**30)
    except ValueError:
        raise RequestError(
            "ARES_MEDIA_CACHE_GB is not a number", f"{text!r}; use gigabytes such as 10"
        ) from None
