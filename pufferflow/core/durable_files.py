"""Atomic and durable writes of files and folders: whole or not at all, even if the process or the machine stops.

New files are written under a temporary name in the same folder and synced to the disk. Then they are renamed, which
file systems do in one step, and the folder is synced too. A process that is killed leaves temporary files behind; they
are removed when they are a day old.
"""

import errno
import os
import secrets
import shutil
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_UNFINISHED = (".pufferflow-", ".part")
_A_DAY, _A_MINUTE, _A_MOMENT = 86400.0, 60.0, 0.02
_NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST}


def write_whole(path: Path, body: Iterable[bytes]) -> None:
    """Write a file, given as consecutive parts, into an existing folder; a file of that name is replaced."""
    beside = name_beside(path)
    try:
        _write(beside, body)
        os.replace(beside, path)  # noqa: PTH105 - as os.rename below: one module names all steps
        _sync(path.parent)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def move_file(beside: Path, path: Path) -> bool:
    """Move a written file to its place, durably; return False if there is a file already, which stays."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError:  # the file system has no links
        if path.exists():
            return False
        os.rename(beside, path)  # noqa: PTH104 - as above
    beside.unlink(missing_ok=True)
    _sync(path.parent)
    return True


def unfinished_in(folder: Path) -> Iterable[Path]:
    """Return the temporary files in a folder."""
    start, end = _UNFINISHED
    return sorted(folder.glob(f"{start}{'[0-9a-f]' * 16}{end}"))


def make(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Make a folder with its files; return False if there is one with files in its place."""
    _make_parents(folder.parent)
    _sweep(folder.parent)
    beside = name_beside(folder)
    try:
        beside.mkdir()
        for name, body in files.items():
            _write(beside / name, [body])
        _sync(beside)
        return _move(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def try_folder(folder: Path) -> None:
    """Make a folder beside the place of another and remove it: an OSError says that none can be made."""
    trial = name_beside(folder)
    trial.mkdir()
    trial.rmdir()


@contextmanager
def exclusive_access(folder: Path) -> Generator[None]:
    """Lock a folder against other processes; the system releases the lock if this process is killed.

    Other processes wait for at most a minute, since a process that was stopped keeps its lock. If the file system has
    no locks, they do not wait. Each file is replaced whole all the same.
    """
    if sys.platform == "win32":
        _sweep(folder)
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _locked(handle):
            from pufferflow.core.progress import waiting_for

            with waiting_for(f"another process that writes to {str(folder)[-200:]!r}", _A_MINUTE):
                deadline = time.monotonic() + _A_MINUTE
                while not _locked(handle) and time.monotonic() < deadline:
                    time.sleep(_A_MOMENT)
        _sweep(folder)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    """Take the lock of a folder; return False if another has it."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # the file system has no locks
        return True
    return True


def _move(beside: Path, folder: Path) -> bool:
    try:
        os.rename(beside, folder)  # noqa: PTH104 - Path.rename is the same
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    _sync(folder.parent)
    return True


def name_beside(path: Path) -> Path:
    """Return a temporary name in the folder of a path."""
    start, end = _UNFINISHED
    return path.parent / f"{start}{secrets.token_hex(8)}{end}"


def _write(path: Path, body: Iterable[bytes]) -> None:
    with path.open("xb") as file:
        file.writelines(body)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Sync the names in a folder to the disk, where the platform can."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)


def _make_parents(folder: Path) -> None:
    if not folder.exists():
        _make_parents(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sweep(folder: Path) -> None:
    """Remove the temporary files of killed processes, which are a day old; no file takes a day to write."""
    for leftover in unfinished_in(folder):
        with suppress(OSError):
            if time.time() - leftover.lstat().st_mtime > _A_DAY:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
