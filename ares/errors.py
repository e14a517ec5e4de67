"""The errors that ARES raises for a person to read; any other exception is a bug and keeps its traceback.

AresError            printed as one line on the terminal, or shown as one box on a page
  + RequestError     the request cannot be fulfilled: an unknown name, option or folder, a bad filter
      + FilterError  a filter that cannot be parsed, with the position of the mistake
      + UnknownEpisode, EpisodeIndexError  an episode that does not exist
      + UnknownName, WrongArguments  a name or an argument that an object does not have
      + MissingExtra a library is not installed that only some datasets or commands need
      + QueryTimeout a query of the dashboard took longer than its limit
  + SourceError      source data that cannot be read: a record, a video, a line of metadata
  + MediaError       frames that cannot be decoded: a missing file, a codec, a second past the end
  + ModelError       a model, or its server, failed or answered in an unexpected form
      + ServerError  a model server failed, whatever it was asked
      + NotTried     nothing was asked of a model: what was to be done stays open
  + StoreError       a store that cannot be reached, or holds something unexpected
      + DiskFull     the disk is full: free some space and run the same command again
      + ReadOnlyWorkspace  the workspace can be read but not written
  + PluginError      a plug-in raised an exception, or returned what its interface does not allow
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


def shorten(text: str, most: int = 300) -> str:
    """A text of another program on one line of about that length at most, cut between two words."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most].rpartition(' ')[0] or line[:most]} ..."


def first_fault(error: ValidationError, whole: str = "") -> str:
    """The first thing that pydantic finds wrong in a document: "FIELD: what is wrong".

    Args:
        error: Of a model that was given the document.
        whole: What is named where the fault is of no field.
    """
    fault = error.errors(include_url=False)[0]
    field = ".".join(map(str, fault["loc"])) or whole
    return f"{field}: {fault['msg'].removeprefix('Value error, ')}".removeprefix(": ")


class AresError(Exception):
    """An error with a reason that can be counted and a detail that tells what to do.

    Args:
        reason: What was wrong, with the same text for every case of it ("record has a wrong checksum").
        detail: The value, its location, and what would be right; may be empty.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class RequestError(AresError):
    """The request cannot be fulfilled as it was made."""


class FilterError(RequestError):
    """A filter that cannot be parsed.

    Args:
        reason: As for every error.
        detail: As for every error.
        where: The text of the filter.
        position: Offset of the mistake in `where`, in characters from 0, or None when it is not known.
    """

    def __init__(
        self, reason: str, detail: str = "", *, where: str = "", position: int | None = None
    ) -> None:
        super().__init__(reason, detail)
        self.where = where
        self.position = position

    @property
    def pointer(self) -> str:
        """The line of the filter with a caret below the mistake, two lines; "" when the position is not known."""
        if self.position is None:
            return ""
        before = self.where[: self.position].rpartition("\n")[2]
        line = before + self.where[self.position :].partition("\n")[0]
        printable = "".join(character if character.isprintable() else " " for character in line)
        return f"  {printable}\n  {' ' * len(before)}^"


class MissingExtra(RequestError):
    """A library is not installed; the detail is the command that installs it."""


class QueryTimeout(RequestError):
    """A query took longer than its limit, and was ended."""


class UnknownEpisode(RequestError, KeyError):
    """No episode has this id; a KeyError too, as the key of a mapping is."""


class EpisodeIndexError(RequestError, IndexError):
    """A view has no episode of this number; an IndexError too, as the index of a sequence is."""


class UnknownName(RequestError, AttributeError, KeyError):
    """An object has nothing of this name; an AttributeError and a KeyError too, so that `hasattr` and `get` say so."""


class WrongArguments(RequestError, TypeError):
    """A function does not take these arguments; a TypeError too, as that of Python is."""


class SourceError(AresError):
    """A source, or one record of it, cannot be read."""


class MediaError(AresError):
    """Frames or a playable video cannot be produced."""


class ModelError(AresError):
    """A model or its server failed, or its answer has an unexpected form."""


class ServerError(ModelError):
    """A model server refused or failed a request that it may do as well with any other, after all attempts."""


class NotTried(ModelError):
    """A model was not asked, as the run had come to its end: no failure, and the next run does it."""


class StoreError(AresError):
    """A store cannot be reached, or holds something that this version cannot read."""


class DiskFull(StoreError):
    """The disk is full; writing the next record would fail in the same way."""


def is_disk_full(error: BaseException) -> bool:
    """Whether there was no room: on the disk, in a quota, or below the limit of the size of files."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


_REMEDIES = {
    errno.ENOSPC: "; free some space and run the same command again",
    errno.EDQUOT: "; free some of your quota and run the same command again",
    errno.EROFS: "; choose a folder that can be written",
    errno.EACCES: "; check its owner and permissions",
    errno.EMFILE: "; raise the limit of open files with `ulimit -n`",
}


def storage_error(error: OSError) -> StoreError:
    """What an error of the operating system means to a person: DiskFull, or a file that cannot be used."""
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    detail = where + (error.strerror or shorten(str(error))) + _REMEDIES.get(error.errno or 0, "")
    kind = DiskFull if is_disk_full(error) else StoreError
    return kind("the disk is full" if kind is DiskFull else "a file cannot be used", detail)


class ReadOnlyWorkspace(StoreError):
    """The workspace can be read but not written: its folder or its file system is read-only for this user."""


class PluginError(AresError):
    """A plug-in, ours or of another package, raised an exception or returned what its interface does not allow."""
