"""Hub: whether the model hub can be reached; where not, models come from its cache or not at all, and at once."""

from __future__ import annotations

_TIMEOUT_SECONDS = 5.0


def settle_hub() -> None:
    """Turn the hub's client to its cache when the hub does not answer.

    Left alone, it tries again for half a minute for every single file of a model.
    """
    import urllib.error
    import urllib.request

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return
    try:
        urllib.request.urlopen(constants.ENDPOINT, timeout=_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError:
        pass  # it answers, if only to say no
    except OSError:
        constants.HF_HUB_OFFLINE = True
