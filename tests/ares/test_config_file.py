"""Settings come from the user's ares.toml where the environment leaves them open; a mistake in it is one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ares.errors import RequestError
from ares.settings import Settings, config_path, name_ignored_config, settings_from_environment
from tests.workspaces import CommandResult


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without a config file of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def file(folder: Path) -> Path:
    """Where the config file of the user belongs; it does not exist."""
    path = folder.parent / "config" / "ares" / "ares.toml"
    path.parent.mkdir(parents=True)
    return path


def test_without_a_file_there_are_the_defaults() -> None:
    assert config_path() is None
    assert settings_from_environment() == Settings()


def test_every_key_is_a_setting(file: Path) -> None:
    file.write_text(
        'workspace = "~/curation"\ncaption_model = "stub:a"\njudge_model = "stub:b"\nembed_model = "hash:64"\n'
        'price = [0.15, 0.6]\nmedia_cache_gb = 2\ncache = "s3://lab/c"\nmongo_uri = "mongodb://h"\n'
        'openai_api_key = "k"\napp_password = "p"\nexport_dirs = ["/a", "/b"]\nquery_seconds = 4\n'
        'trusted_proxies = "10.0.0.1"\n'
    )
    file.chmod(0o600)
    settings = settings_from_environment()
    assert settings.workspace == str(Path("~/curation").expanduser())
    models = (settings.caption_model, settings.judge_model, settings.embed_model)
    assert models == ("stub:a", "stub:b", "hash:64")
    assert settings.price and settings.price.usd_per_mtok_out == 0.6
    assert settings.media_cache_bytes == 2 * 2**30
    assert settings.cache == "s3://lab/c"
    assert (settings.export_dirs, settings.query_seconds) == (("/a", "/b"), 4.0)
    assert settings.trusted_proxies == ("10.0.0.1",)
    assert (settings.mongo_uri, settings.openai_api_key, settings.app_password) == ("mongodb://h", "k", "p")


def test_the_environment_wins_over_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('caption_model = "stub:file"\njudge_model = "stub:file"\n')
    monkeypatch.setenv("ARES_JUDGE_MODEL", "stub:environment")
    settings = settings_from_environment()
    assert (settings.caption_model, settings.judge_model) == ("stub:file", "stub:environment")
    assert settings_from_environment({}) == Settings()


def test_a_file_that_is_named_is_used_alone(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('caption_model = "stub:user"\nembed_model = "hash:8"\n')
    assert settings_from_environment().caption_model == "stub:user"
    explicit = folder / "other.toml"
    explicit.write_text('caption_model = "stub:explicit"\n')
    monkeypatch.setenv("ARES_CONFIG", str(explicit))
    settings = settings_from_environment()
    assert (settings.caption_model, settings.embed_model) == ("stub:explicit", Settings().embed_model)
    explicit.unlink()
    with pytest.raises(
        RequestError, match=r"the config file does not exist: '.*other.toml', from --config or"
    ):
        settings_from_environment()


def test_a_file_in_the_current_folder_is_never_read(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "ares.toml").write_text('caption_model = "openai:m@http://stranger.example/v1"\nnonsense = 1\n')
    assert (config_path(), settings_from_environment()) == (None, Settings())
    file.write_text('caption_model = "stub:user"\n')
    assert settings_from_environment().caption_model == "stub:user"
    # A folder of the user's configuration is absolute: this one would be wherever the command is given.
    monkeypatch.setenv("XDG_CONFIG_HOME", ".")
    monkeypatch.setenv("HOME", str(folder.parent / "home"))
    (folder / "ares").mkdir()
    (folder / "ares.toml").rename(folder / "ares" / "ares.toml")
    assert config_path() is None


def test_a_file_that_is_not_read_is_named_in_a_line(
    file: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = folder / "ws"
    workspace.mkdir()
    (workspace / "ares.toml").touch()
    name_ignored_config()
    assert capsys.readouterr().err == ""
    (folder / "ares.toml").symlink_to("nowhere")
    name_ignored_config()
    name_ignored_config(".")
    name_ignored_config("ws")
    name_ignored_config("s3://bucket/ws")
    assert capsys.readouterr().err.splitlines() == [
        f"ares.toml in the current folder is ignored: give --config ares.toml, or keep settings in {file}",
        f"ares.toml in the workspace ws is ignored: give --config ws/ares.toml, or keep settings in {file}",
    ]
    monkeypatch.setenv("ARES_CONFIG", str(workspace / "ares.toml"))
    name_ignored_config("ws")
    assert capsys.readouterr().err == ""


def test_a_command_names_the_file_and_takes_that_of_config(
    file: Path, folder: Path, run_ares: Callable[..., CommandResult]
) -> None:
    (folder / "ares.toml").write_text('workspace = "elsewhere"\n')
    printed = run_ares("status")
    assert "ares.toml in the current folder is ignored" in printed.err and "elsewhere" not in printed.err
    assert "elsewhere" in run_ares("--config", "ares.toml", "status").err
    refused = run_ares("status", "--config", "none.toml")
    assert refused.status == 2 and "the config file does not exist" in refused.err
    assert config_path() is None  # what a command is given ends with it


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
        ("workspace = ", r"the config file is no TOML: .*ares.toml: "),
        ("[models]\ncaption = 'x'", r"unknown key 'models' in the config file"),
        (f"workspace = {'[' * 20_000}", r"the config file is nested too deeply: .*ares.toml"),
        (f"reader_gb = {'9' * 5_000}", r"the config file is no TOML: .*ares.toml"),
        (f"reader_gb = 0x{'f' * 5_000}", r"wrong value in the config file: "),
        ("media_cache_gb = 1e300", r"ARES_MEDIA_CACHE_GB is not a number above 0: '1e\+300'"),
        ("price = [nan, 1]", r"ARES_PRICE cannot be read: 'nan,1.0'"),
        ("price = [1, -1]", r"ARES_PRICE cannot be read: '1.0,-1.0'"),
        ("price = [inf, 1]", r"ARES_PRICE cannot be read: 'inf,1.0'"),
        *(
            (f"{limit} = {value}", rf"ARES_{limit.upper()} is not a number above 0: '{value}'")
            for limit in ("media_cache_gb", "query_seconds", "max_megapixels", "reader_gb", "record_seconds")
            for value in ("nan", "-1")
        ),
        ("reader_gb = inf", r"ARES_READER_GB is not a number above 0: 'inf'"),
        ("record_seconds = 0", r"ARES_RECORD_SECONDS is not a number above 0: '0'"),
    ],
)
def test_a_mistake_is_one_line(text: str, message: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(RequestError, match=message) as caught:
        settings_from_environment()
    assert "\n" not in str(caught.value) and "1234" not in str(caught.value)


def test_a_secret_that_others_can_read_is_a_warning(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('app_password = "secret"\n')
    file.chmod(0o644)
    settings_from_environment()
    assert capsys.readouterr().err.startswith(f"{file} holds app_password, and other users can read it")
    file.chmod(0o600)
    settings_from_environment()
    assert capsys.readouterr().err == ""
