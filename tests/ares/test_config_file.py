"""Settings come from ares.toml where the environment leaves them open; a mistake in it is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.settings import Settings, config_path, settings_from_environment


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without a config file of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def test_without_a_file_there_are_the_defaults() -> None:
    assert config_path() is None
    assert settings_from_environment() == Settings()


def test_every_key_is_a_setting(folder: Path) -> None:
    (folder / "ares.toml").write_text(
        'workspace = "~/curation"\ncaption_model = "stub:a"\njudge_model = "stub:b"\nembed_model = "hash:64"\n'
        'price = [0.15, 0.6]\nmedia_cache_gb = 2\ncache = "s3://lab/c"\nmongo_uri = "mongodb://h"\n'
        'openai_api_key = "k"\napp_password = "p"\nexport_dirs = ["/a", "/b"]\nquery_seconds = 4\n'
        'trusted_proxies = "10.0.0.1"\n'
    )
    (folder / "ares.toml").chmod(0o600)
    settings = settings_from_environment()
    assert settings.workspace == str(Path("~/curation").expanduser())
    assert (settings.caption_model, settings.judge_model, settings.embed_model) == (
        "stub:a",
        "stub:b",
        "hash:64",
    )
    assert settings.price and settings.price.usd_per_mtok_out == 0.6
    assert settings.media_cache_bytes == 2 * 2**30
    assert settings.cache == "s3://lab/c"
    assert (settings.export_dirs, settings.query_seconds) == (("/a", "/b"), 4.0)
    assert settings.trusted_proxies == ("10.0.0.1",)
    assert (settings.mongo_uri, settings.openai_api_key, settings.app_password) == ("mongodb://h", "k", "p")


def test_the_environment_wins_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "ares.toml").write_text('caption_model = "stub:file"\njudge_model = "stub:file"\n')
    monkeypatch.setenv("ARES_JUDGE_MODEL", "stub:environment")
    settings = settings_from_environment()
    assert (settings.caption_model, settings.judge_model) == ("stub:file", "stub:environment")
    assert settings_from_environment({}) == Settings()


def test_the_nearest_file_is_used_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user_file = folder.parent / "config" / "ares" / "ares.toml"
    user_file.parent.mkdir(parents=True)
    user_file.write_text('caption_model = "stub:user"\nembed_model = "hash:8"\n')
    assert settings_from_environment().caption_model == "stub:user"
    (folder / "ares.toml").write_text('caption_model = "stub:here"\n')
    assert settings_from_environment().caption_model == "stub:here"
    assert settings_from_environment().embed_model == Settings().embed_model
    explicit = folder / "other.toml"
    explicit.write_text('caption_model = "stub:explicit"\n')
    monkeypatch.setenv("ARES_CONFIG", str(explicit))
    assert settings_from_environment().caption_model == "stub:explicit"
    explicit.unlink()
    with pytest.raises(RequestError, match=r"the config file does not exist: ARES_CONFIG '.*other.toml'"):
        settings_from_environment()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'captoin_model = "x"',
            r"unknown key 'captoin_model' in the config file: did you mean 'caption_model'\?",
        ),
        ("zzz = 1", r"unknown key 'zzz' in the config file: there are: workspace, "),
        (
            "workspace = 7",
            r"wrong value of 'workspace' in the config file: 7: Input should be a valid string",
        ),
        ("app_password = 1234", r"wrong value of 'app_password' in the config file: a secret: "),
        ("media_cache_gb = 'x'", r"wrong value of 'media_cache_gb' in the config file: 'x'"),
        ("price = 'cheap'", r"ARES_PRICE cannot be read: 'cheap'"),
        ("workspace = ", r"the config file is no TOML: ares.toml: "),
        ("[models]\ncaption = 'x'", r"unknown key 'models' in the config file"),
    ],
)
def test_a_mistake_is_one_line(text: str, message: str, folder: Path) -> None:
    (folder / "ares.toml").write_text(text)
    with pytest.raises(RequestError, match=message) as caught:
        settings_from_environment()
    assert "\n" not in str(caught.value) and "1234" not in str(caught.value)


def test_a_secret_that_others_can_read_is_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "ares.toml"
    file.write_text('app_password = "secret"\n')
    file.chmod(0o644)
    settings_from_environment()
    assert capsys.readouterr().err.startswith("ares.toml holds app_password, and other users can read it")
    file.chmod(0o600)
    settings_from_environment()
    assert capsys.readouterr().err == ""
