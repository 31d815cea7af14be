"""Where Zarr hierarchies lie: a folder of this machine, or an address (``s3://``, ``https://``).

Everything above works on a `Place`: a `pathlib.Path`, or a `RemotePath` that offers the few methods that readers of
Zarr need. What a remote store holds is as untrusted as a file; `warpgauge.io.zarr_arrays` checks both alike.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from warpgauge.errors import FileFormatError, FileTooLargeError, InvalidInputError
from warpgauge.io.files import PathLike, one_line, require

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SCHEMES = ("s3", "https", "http")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SECONDS = "30s"  # until a request is given up
_PIECE = 2**16
_MOST_OBJECTS = 1_000_000  # that are listed for a hash


def is_url(location: object) -> bool:
    """Return whether something names a place by an address rather than by a path."""
    return isinstance(location, RemotePath) or (isinstance(location, str) and _URL.match(location) is not None)


class RemotePath:
    """A folder or an object at an address; immutable, picklable, opened where it is used.

    The address is ``s3://bucket/key``, ``https://host/path``, or ``http://`` of this machine.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise InvalidInputError(f"{url!r} is not read: addresses begin with s3:// or https://.")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InvalidInputError(f"{url!r} is not read: what comes by plain http can be altered; use https://.")
        if not parts.netloc or parts.query or parts.fragment or parts.username is not None:
            raise InvalidInputError(
                f"{url!r} is not read: an address is a scheme, a host or bucket and a path, without user, query and "
                f"fragment; credentials come from the environment."
            )
        self.url = url.rstrip("/")

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"RemotePath({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath, (self.url,)

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """Name without its last ending."""
        return Path(self.name).stem

    @property
    def suffix(self) -> str:
        """Last ending of the name."""
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """The folder that holds it."""
        return RemotePath(self.url.rpartition("/")[0])

    def resolve(self) -> RemotePath:
        """Return itself: an address is absolute."""
        return self

    @cached_property
    def store(self) -> Any:
        """The object store whose root is this place."""
        stores = require("obstore.store", "remote")
        try:
            return stores.from_url(self.url, client_options={"timeout": _SECONDS, "allow_http": _is_loopback()})
        except Exception as error:
            raise InvalidInputError(f"{self.url!r} cannot be reached: {one_line(error)}.") from error

    def is_file(self) -> bool:
        """Return whether there is an object at the address."""
        return self._size() is not None

    def is_dir(self) -> bool:
        """Return whether the address is the root of a Zarr hierarchy: object stores have no folders."""
        return any((self / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup", ".zattrs"))

    exists = is_dir

    def _size(self) -> int | None:
        folder, name = self.parent, self.name
        obstore = require("obstore", "remote")
        try:
            return int(obstore.head(folder.store, name)["size"])
        except Exception as error:
            # A bucket that may not be listed answers "forbidden" for what is not there.
            if isinstance(error, FileNotFoundError) or "Permission" in type(error).__name__:
                return None
            raise FileFormatError(f"{self.url!r} cannot be read: {one_line(error)}.") from error

    def read_bytes(self, limit: int) -> bytes:
        """Return the object, or refuse one of more than ``limit`` bytes before all of it is fetched."""
        obstore = require("obstore", "remote")
        found = bytearray()
        try:
            for part in obstore.get(self.parent.store, self.name).stream(min_chunk_size=_PIECE):
                found += part
                if len(found) > limit:  # whatever the server says of the size
                    break
        except Exception as error:
            raise FileFormatError(f"{self.url!r} cannot be read: {one_line(error)}.") from error
        if len(found) > limit:
            raise FileTooLargeError(f"{self.url!r} has more than the {limit} bytes that it may have.")
        return bytes(found)

    def objects(self, most: int = _MOST_OBJECTS) -> Iterator[tuple[str, int, str]]:
        """Yield name, size and tag of every object below, in the order of the names; https servers list nothing."""
        if self.url.startswith("http"):
            return
        obstore = require("obstore", "remote")
        rows: list[tuple[str, int, str]] = []
        for page in obstore.list(self.store):
            rows += [(str(one["path"]), int(one["size"]), str(one.get("e_tag"))) for one in page]
            if len(rows) > most:
                raise FileTooLargeError(f"{self.url!r} holds more than {most} objects; use shards.")
        yield from sorted(rows)

    def bytes_below(self) -> int:
        """Return the bytes of all objects below; 0 where the server lists nothing."""
        return sum(size for _, size, _ in self.objects())

    def fingerprint(self) -> str:
        """Return ``"sha256:..."`` of names, sizes and tags of all objects, or of the root's description (https)."""
        digest, some = hashlib.sha256(), False
        for row in self.objects():
            digest.update(("\0".join(map(str, row)) + "\n").encode())
            some = True
        if not some:
            for name in ("zarr.json", ".zgroup", ".zattrs", ".zarray"):
                if (self / name).is_file():
                    digest.update(f"{name}\0".encode() + (self / name).read_bytes(2**22))
        return f"sha256:{digest.hexdigest()}"


Place = Path | RemotePath


def _is_loopback() -> bool:
    """Return whether plain http is allowed: for an S3 server of this machine, as ``AWS_ENDPOINT_URL`` names it."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
    return not endpoint or urlsplit(endpoint).hostname in _LOOPBACK


def place_of(location: PathLike) -> Place:
    """Return a path, or a remote one where an address is given."""
    if isinstance(location, RemotePath):
        return location
    return RemotePath(str(location)) if is_url(str(location)) else Path(location)


def zarr_store(place: Place, *, read_only: bool = True) -> Any:
    """Return the store by which the Zarr library reaches a place; a remote one obeys its attribute ``largest``."""
    storage = require("zarr.storage", "zarr")
    if isinstance(place, RemotePath):
        store = _bounded_objects()(place.store, read_only=read_only)
        store.place = place
        return store
    return storage.LocalStore(place, read_only=read_only)


@cache
def _bounded_objects() -> Any:
    """Return a store that refuses an object of more than ``largest`` bytes before its content is fetched."""
    from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
    from zarr.storage import ObjectStore

    obstore = require("obstore", "remote")

    def range_of(request: Any) -> Any:
        if isinstance(request, RangeByteRequest):
            return (request.start, request.end)
        if isinstance(request, OffsetByteRequest):
            return {"offset": request.offset}
        if isinstance(request, SuffixByteRequest):
            return {"suffix": request.suffix}
        raise InvalidInputError(f"A part of an object is described by {request!r:.60}, which is not read.")

    class BoundedObjects(ObjectStore):  # type: ignore[misc]  # zarr is an extra, without types here
        largest: float = math.inf

        async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
            options = {} if byte_range is None else {"range": range_of(byte_range)}
            try:
                response = await obstore.get_async(self.store, key, options=options)
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None
            self.check(key, int(response.meta["size"]))  # of the whole object, by the head of the response
            parts, fetched = [], 0
            async for part in response.stream(min_chunk_size=_PIECE):
                fetched += len(part)
                self.check(key, fetched)  # whatever the head says
                parts.append(bytes(part))
            return prototype.buffer.from_bytes(b"".join(parts))

        async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
            return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

        def check(self, key: str, size: int) -> None:
            if size > self.largest:
                raise FileTooLargeError(
                    f"{key!r} of {str(self.place)!r} has {size} bytes or more, beyond the {self.largest} that a chunk "
                    f"of this array can have; it is damaged."
                )

    return BoundedObjects
