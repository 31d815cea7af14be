"""Helpers of all readers and writers: extras, first bytes, capped text, hashes, atomic writing, locks, JSON values."""

from __future__ import annotations

import hashlib
import importlib
import os
import secrets
import shutil
import tempfile
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from warpgauge.errors import (
    FileFormatError,
    FileTooLargeError,
    InvalidInputError,
    MissingExtraError,
    WarpgaugeError,
    WarpgaugeWarning,
    install_advice,
)
from warpgauge.geometry import Floats
from warpgauge.io.inside import own_file

PathLike = str | os.PathLike[str]
TEXT_LIMIT = 64 * 2**20  # bytes; the largest real text file at hand (a B-spline) has 2 MB
_CHUNK = 2**20
_HOLE = 2**30  # bytes of which a file with a thousandth of them on the disk is not hashed
_QUIET = threading.RLock()


def require(module: str, extra: str) -> ModuleType:
    """Import an optional library (``"tifffile"``), or raise an error that names its extra (``"images"``)."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"This needs the library {package!r}, which is not installed; {install_advice(extra)}."
        ) from error


def existing_file(path: PathLike, what: str) -> Path:
    """Return the path of a file that exists and is not empty; ``what`` names it in the error, as in "image"."""
    file = Path(path)
    try:
        if not allowed(file):
            raise InvalidInputError(f"The {what} {file.name!r} lies outside the project's folder and is not read.")
        if file.is_dir():
            raise InvalidInputError(f"{file.name!r} is a folder, but the {what} has to be a file.")
        if not file.is_file():
            raise InvalidInputError(f"There is no {what} at {str(file)!r}; check the path.")
        if file.stat().st_size == 0:
            raise FileFormatError(f"{file.name!r} is empty (0 bytes), so it holds no {what}; copy or export it again.")
        with file.open("rb"):
            pass
    except (OSError, ValueError) as error:
        if isinstance(error, WarpgaugeError):
            raise
        raise InvalidInputError(f"The {what} at {str(file)!r} cannot be opened: {one_line(error)}.") from error
    return file


def read_head(path: PathLike, n: int = 1024) -> bytes:
    """Return the first ``n`` bytes of a file, fewer where it is shorter."""
    with Path(path).open("rb") as stream:
        return stream.read(n)


def read_text(path: PathLike, what: str, limit: int = TEXT_LIMIT) -> str:
    """Read a UTF-8 text file (a byte order mark is dropped), refusing binary content and more than ``limit`` bytes."""
    file = existing_file(path, what)
    size = file.stat().st_size
    if size > limit:
        raise FileFormatError(
            f"{file.name!r} has {size} bytes, more than the {limit} that a {what} may have; it is probably not one."
        )
    data = file.read_bytes()
    if b"\0" in data:
        raise FileFormatError(f"{file.name!r} is not text (it has zero bytes), but a {what} is a text file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{file.name!r} is not UTF-8 text (byte {error.start} is wrong), but a {what} is; save it as UTF-8."
        ) from error


def finite_numbers(values: Any, name: str, what: str, count: int | None = None) -> Floats:
    """Return numbers of a file, as text or as JSON has them, so many of them where ``count`` is given."""
    try:
        numbers = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{name!r}: some of {what} are not numbers.") from error
    if not np.isfinite(numbers).all():
        raise FileFormatError(f"{name!r}: some of {what} are not finite (NaN or infinity).")
    if count is not None and numbers.size != count:
        raise FileFormatError(f"{name!r}: {what} must be {count} numbers, but are {numbers.size}.")
    return numbers


def content_hash(path: PathLike) -> str:
    """Return ``"sha256:..."`` of a file, or of all files below a folder in the order of `files_hash`."""
    root = Path(path)
    if root.is_dir():
        return files_hash((file for file in root.rglob("*") if file.is_file()), root)
    digest = hashlib.sha256()
    for chunk in _chunks(existing_file(root, "file")):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def files_hash(files: Iterable[Path], root: Path) -> str:
    """Return one hash of several files: of name below ``root``, size and bytes of each, in the order of the names.

    The names are compared as text with ``/`` between folders, so that the hash is the same on every system and
    wherever the folder stands.
    """
    digest = hashlib.sha256()
    for name, file in sorted((file.relative_to(root).as_posix(), file) for file in files):
        digest.update(f"{name}\0{file.stat().st_size}\0".encode("utf-8", "surrogateescape"))
        for chunk in _chunks(file):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _chunks(file: Path) -> Iterator[bytes]:
    status = file.stat()
    if status.st_size > _HOLE and 512 * getattr(status, "st_blocks", status.st_size) < status.st_size // 1000:
        raise FileTooLargeError(
            f"{file.name!r} promises {status.st_size} bytes but is a hole; copy or export it again."
        )
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def write_whole(file: Path, data: bytes | memoryview, *, durable: bool = False) -> None:
    """Replace a file in one step: a reader sees the former or the new content, whole. Raises `OSError`.

    Where ``durable``, content and name are on the disk when this returns.
    """
    aside = file.with_name(f".{file.name}.{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with aside.open("xb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        aside.replace(file)
        if durable:
            sync_folder(file.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold a file's lock, which ends with the process at the latest, and yield the file's descriptor.

    Where the system has no such locks, nobody waits.
    """
    handle = own_file(path, os.O_RDWR | os.O_CREAT)
    try:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(file: Path, data: bytes) -> None:
    """Write a file, which is replaced only when the new one is complete; its mode is what the umask allows."""
    try:
        write_whole(file, data)
    except OSError as error:
        raise InvalidInputError(f"{file.name!r} cannot be written: {error.strerror or error}.") from error


@contextmanager
def replaced(file: Path) -> Iterator[Path]:
    """Yield where to write a file or folder; it takes the place of ``file`` when the block ends without an error."""
    scratch = Path(tempfile.mkdtemp(dir=file.parent, prefix=f".{file.name}."))
    try:
        yield scratch / file.name
        if file.is_dir():
            shutil.rmtree(file)
        (scratch / file.name).replace(file)
    except OSError as error:
        raise InvalidInputError(f"{file.name!r} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def check_folder(file: Path) -> None:
    """Refuse to write a file into a folder that does not exist."""
    if not file.parent.is_dir():
        raise InvalidInputError(f"There is no folder {str(file.parent)!r} to write {file.name!r} into; make it first.")


def replace_text(file: Path, text: str) -> None:
    """Write a text file, which is replaced only when the new one is complete."""
    replace_file(file, text.encode("utf-8"))


def neighbour(header: Path, name: str) -> Path:
    """Return the data file that a header names, which must lie next to the header.

    A header is untrusted text: an absolute name, or one that climbs out of the folder, would let it read any file.
    """
    bare = name.strip()
    if not bare or "/" in bare or "\\" in bare or bare in (".", "..") or "\0" in bare or ":" in bare:
        raise FileFormatError(
            f"{header.name!r} names the data file {bare!r}, but only a plain name of a file next to the header is "
            f"read; put the data beside the header and write its bare name there."
        )
    data = header.parent / bare
    if not data.is_file():
        raise FileFormatError(
            f"{header.name!r} says that its data are in {bare!r}, which is not next to it; copy that file there."
        )
    return data


def one_line(error: BaseException, limit: int = 160) -> str:
    """Return the message of a foreign exception as one short line, to be quoted within a sentence."""
    # Bytes of the file within the message must neither steer a terminal nor be taken for the marks of `say`.
    words = " ".join(str(error).split())
    text = "".join(one if one.isprintable() else "?" for one in words) or type(error).__name__
    return (text if len(text) <= limit else text[: limit - 3] + "...").rstrip(". ")


_CONFINED: ContextVar[tuple[Path, ...]] = ContextVar("confined", default=())


@contextmanager
def confined(*folders: Path) -> Iterator[None]:
    """Read nothing outside some folders: files that a header or a parameter file names elsewhere are not followed."""
    token = _CONFINED.set(tuple(folder.resolve() for folder in folders))
    try:
        yield
    finally:
        _CONFINED.reset(token)


def allowed(path: Path) -> bool:
    """Return whether a file may be read here, links followed."""
    roots = _CONFINED.get()
    return not roots or any(path.resolve().is_relative_to(root) for root in roots)


@contextmanager
def foreign_decoder(path: PathLike, what: str) -> Iterator[None]:
    """Turn whatever the opening of a broken file raises into one `FileFormatError`, and keep libraries quiet."""
    with readable(path, what), quiet():
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Ignore warnings of libraries about the headers of a file.

    That changes the state of the whole process, so that one thread at a time may do so: nothing long belongs here,
    least of all the decoding of samples.
    """
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def readable(path: PathLike, what: str) -> Iterator[None]:
    """Turn whatever the reading of a broken file raises into one `FileFormatError`.

    Decoders of untrusted bytes raise anything from ``struct.error`` to ``RecursionError``; the net has to be wide. The
    errors and warnings of warpgauge itself pass through.
    """
    try:
        yield
    except (WarpgaugeError, WarpgaugeWarning):
        raise
    except Exception as error:
        raise FileFormatError(
            f"{Path(path).name!r} cannot be read as {what}: {one_line(error)}; it is damaged, or of a kind that is not "
            f"supported."
        ) from error


def plain(value: Any) -> Any:
    """Turn arrays, numpy numbers and tuples into what JSON holds; what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
