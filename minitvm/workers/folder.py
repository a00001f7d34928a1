"""Delete temporary folders that untrusted programs have filled."""

from __future__ import annotations

import contextlib
import os
import secrets


def remove(folder: str) -> None:
    """Delete a folder with all that is in it; what cannot be deleted stays.

    Folders inside of folders are moved to the top first, so that no path becomes too long and no
    call goes too deep: a program can nest thousands of them.
    """
    with contextlib.suppress(OSError):
        while _removed_one_level(folder):
            pass
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _removed_one_level(top: str) -> bool:
    """Delete the files in `top` and the folders, whose folders move to `top`; return if any did."""
    moved_any = False
    for path, is_folder in _entries(top):
        with contextlib.suppress(OSError):
            if not is_folder:
                os.unlink(path)
                continue
            for inner, is_deeper in _entries(path):
                if is_deeper:
                    os.chmod(inner, 0o700)  # its ".." changes
                    os.rename(inner, os.path.join(top, secrets.token_hex(16)))
                    moved_any = True
                else:
                    os.unlink(inner)
            os.rmdir(path)
    return moved_any


def _entries(folder: str) -> list[tuple[str, bool]]:
    """Return (path, whether it is a folder) of what is in a folder."""
    os.chmod(folder, 0o700)
    with os.scandir(folder) as entries:
        return [(e.path, e.is_dir(follow_symlinks=False)) for e in entries]
