"""Every error that ARES raises for a person to read; any other exception is a bug and keeps its traceback.

AresError            becomes one line on the terminal, or one box on a page
  + RequestError     what was asked for cannot be: a name, an option, a filter, a folder
      + FilterError  a filter that cannot be read, and the place in it
  + SourceError      source data that cannot be read: a record, a video, a line of metadata
  + MediaError       pixels that cannot be had: a missing file, a codec, a second past the end
  + ModelError       a model, or the server behind it, that did not answer as agreed
  + StoreError       a store that cannot be reached or is not what it should be
      + DiskFull     there is no room left: stop, make room, run the same command again
"""


class AresError(Exception):
    """A failure with a reason that can be counted and a detail that can be acted on.

    Args:
        reason: What was wrong, the same words for every case of it ("record has a wrong checksum").
        detail: The value, where it stands, and what would be right; may be empty.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class RequestError(AresError):
    """What was asked for cannot be done as asked."""


class FilterError(RequestError):
    """A filter that cannot be read.

    Args:
        reason: As of every error.
        detail: As of every error.
        where: The filter, as it was given.
        place: Where in it the fault stands, in characters from 0, or None when that is not known.
    """

    def __init__(self, reason: str, detail: str = "", *, where: str = "", place: int | None = None) -> None:
        super().__init__(reason, detail)
        self.where = where
        self.place = place

    @property
    def pointer(self) -> str:
        """The line of the filter with a caret under the fault, two lines; "" when its place is not known."""
        if self.place is None:
            return ""
        before = self.where[: self.place].rpartition("\n")[2]
        line = before + self.where[self.place :].partition("\n")[0]
        shown = "".join(sign if sign.isprintable() else " " for sign in line)
        return f"  {shown}\n  {' ' * len(before)}^"


class SourceError(AresError):
    """A source, or one record of it, cannot be read."""


class MediaError(AresError):
    """Frames or a playable video cannot be produced."""


class ModelError(AresError):
    """A model or its server failed, or answered off the menu."""


class StoreError(AresError):
    """A store cannot be reached, or holds what this version cannot read."""


class DiskFull(StoreError):
    """There is no room left to write to; going on with the next record would fail the same."""
