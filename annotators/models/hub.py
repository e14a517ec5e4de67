"""Checks whether the model hub can be reached; without it, models come from its cache or fail at once."""

from __future__ import annotations

from annotators.models.weights import files_in_cache
from ares.messages import print_message

_TIMEOUT_SECONDS = 5.0


def use_cache_when_offline() -> None:
    """Switch the hub's client to its cache when the hub does not answer.

    Otherwise it retries for half a minute for every single file of a model.
    """
    import urllib.error
    import urllib.request

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return
    try:
        urllib.request.urlopen(constants.ENDPOINT, timeout=_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError:
        pass  # it answers, even if with an error
    except OSError:
        constants.HF_HUB_OFFLINE = True


def announce_download(hub_id: str) -> None:
    """Print that a model comes from the hub now, where its cache does not have it."""
    from huggingface_hub import constants

    if hub_id and not constants.HF_HUB_OFFLINE and files_in_cache(hub_id) is None:
        print_message(f"downloading the model {hub_id} from the hub")
