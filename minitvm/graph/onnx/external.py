"""Read the data of tensors that a model keeps in files of its own, from its own folder only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

from minitvm.base import GraphError


def external_bytes(
    what: str, folder: Path | None, entries: Mapping[str, str], needed: int
) -> bytes:
    """Return the bytes of a tensor; GraphError unless all of them are in a file below `folder`.

    `entries` has the keys "location", and "offset" and "length" if they are not 0 and all that is
    needed. The path must be relative, without "..", and no part of it may be a
    symbolic link: a model cannot make its reader open any other file.
    """
    if folder is None:
        why = "its data is in another file, and the folder of a model in memory is not known"
        raise GraphError(what, why, 'from_onnx("folder/model.onnx")')
    location = entries.get("location", "")
    path = _inside(what, folder, location)
    try:
        start, size = int(entries.get("offset", 0)), int(entries.get("length", needed))
    except ValueError as e:
        why = f"its offset or length in {location!r} is not a number"
        raise GraphError(what, why) from e
    if start < 0 or size != needed:
        why = f"it needs {needed} bytes, but the model gives it {size} from byte {start}"
        raise GraphError(what, why)
    try:
        with path.open("rb") as file:
            missing = start + needed - os.fstat(file.fileno()).st_size
            if missing > 0:
                why = f"{location!r} ends {missing} bytes before the end of the tensor"
                raise GraphError(what, why)
            file.seek(start)
            return file.read(needed)
    except OSError as e:
        raise GraphError(what, f"{location!r} cannot be read: {e.strerror}") from e


def _inside(what: str, folder: Path, location: str) -> Path:
    """Return the path of an ordinary file below `folder`."""
    parts = PurePosixPath(location).parts
    windows_path = PureWindowsPath(location)
    unsafe = not parts or ".." in parts or "\\" in location or "\0" in location
    if unsafe or PurePosixPath(location).is_absolute() or windows_path.drive or windows_path.root:
        raise GraphError(what, f"its file {location!r} is not a path below the model's folder")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            why = f"its file {location!r} is reached through a symbolic link"
            raise GraphError(what, why, "put the file itself beside the model")
    if not path.is_file():
        raise GraphError(what, f"the model's folder has no file {location!r}")
    return path
