"""Values that processes store for each other (``torch.distributed.TCPStore`` and others)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from lazyt.errors import DistributedError
from lazyt.runtime.ranks.hub import Hub
from lazyt.runtime.ranks.member import Client

__all__ = [
    "DistStoreError",
    "FileStore",
    "HashStore",
    "HubStore",
    "PrefixStore",
    "Store",
    "TCPStore",
]

_DEFAULT = timedelta(seconds=300)


class DistStoreError(DistributedError):
    """A value that is not there in time."""


def _encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Texts by name, for all processes.

    >>> import lazyt.distributed as dist
    >>> store = dist.HashStore()
    >>> store.set("epoch", "3")
    >>> store.get("epoch"), store.add("count", 2)
    (b'3', 2)
    """

    def __init__(self) -> None:
        self._timeout = _DEFAULT

    @property
    def timeout(self) -> timedelta:
        """How long ``get`` and ``wait`` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Changes how long ``get`` and ``wait`` wait."""
        self._timeout = timeout

    def _ask(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        raise NotImplementedError

    def set(self, key: str, value: str | bytes) -> None:
        """Stores a value under a name, in the place of what is there."""
        self._ask({"do": "set", "key": key}, _encoded(value))

    def get(self, key: str) -> bytes:
        """The value under a name; waits until there is one. Raises DistStoreError."""
        return self._ask({"do": "get", "key": key, "seconds": self._timeout.total_seconds()})[1]

    def add(self, key: str, amount: int) -> int:
        """Adds to the number under a name, 0 where there is none; gives the sum."""
        return int(self._ask({"do": "add", "key": key, "amount": int(amount)})[0]["total"])

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Stores a value where another one is expected; gives what is there afterwards."""
        first, second = _encoded(expected_value), _encoded(desired_value)
        message = {"do": "compare", "key": key, "split": len(first)}
        return self._ask(message, first + second)[1]

    def check(self, keys: Sequence[str]) -> bool:
        """Whether there are values under all of these names."""
        return bool(self._ask({"do": "check", "keys": list(keys)})[0]["found"])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Waits until there are values under all of these names. Raises DistStoreError."""
        seconds = (self._timeout if timeout is None else timeout).total_seconds()
        self._ask({"do": "wait", "keys": list(keys), "seconds": seconds})

    def delete_key(self, key: str) -> bool:
        """Removes a value; whether there was one."""
        return bool(self._ask({"do": "delete", "key": key})[0]["found"])

    def num_keys(self) -> int:
        """How many values there are."""
        return int(self._ask({"do": "count"})[0]["count"])


class HubStore(Store):
    """The values in the hub that the processes' groups have anyway.

    Args:
        address: of the hub.
    """

    def __init__(self, address: tuple[str, int], seconds: float = 300.0) -> None:
        super().__init__()
        self._client = Client(address, seconds)

    def _ask(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        try:
            return self._client.ask(message, body)
        except DistributedError as error:
            raise DistStoreError(str(error)) from None


class TCPStore(HubStore):
    """Values in one process, which the others reach over the network.

    Args:
        host_name, port: where that process listens.
        world_size: how many processes there are; None if nobody knows.
        is_master: whether this process is it.
        timeout: how long to wait for it, and for values.
        wait_for_workers: whether it waits until all processes are there.

    Raises DistributedError when the port cannot be used, or nobody is there in time.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _DEFAULT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        self._hub = Hub(world_size or 1, "", port) if is_master else None
        self.host = host_name
        self.port = port if self._hub is None else self._hub.address[1]
        super().__init__((host_name, self.port), timeout.total_seconds())
        self.set_timeout(timeout)
        if wait_for_workers and world_size is not None and world_size > 1:
            self.add("lazyt/workers", 1)
            if is_master:
                self._wait_for(world_size)

    def close(self) -> None:
        """Ends the connection; where this process is the master, for all."""
        self._client.close()
        if self._hub is not None:
            self._hub.close()

    def _wait_for(self, count: int) -> None:
        deadline = time.monotonic() + self.timeout.total_seconds()
        while self.add("lazyt/workers", 0) < count:
            if time.monotonic() > deadline:
                raise DistStoreError(f"{count} workers are not there in {self.timeout}")
            time.sleep(0.01)


class _Local(Store):
    """Values of one process, behind a lock."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def _ask(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        what, key = message["do"], message.get("key", "")
        values = self._values
        with self._changed:
            if what in ("get", "wait"):
                return self._waited([key] if what == "get" else message["keys"], message["seconds"])
            if what == "check":
                return {"found": all(k in values for k in message["keys"])}, b""
            if what == "count":
                return {"count": len(values)}, b""
            if what == "delete":
                return {"found": values.pop(key, None) is not None}, b""
            reply, value = self._changing(what, key, message, body)
            self._changed.notify_all()
            return reply, value

    def _changing(
        self, what: str, key: str, message: dict[str, Any], body: bytes
    ) -> tuple[dict[str, Any], bytes]:
        values = self._values
        if what == "set":
            values[key] = body
        elif what == "add":
            total = int(values.get(key, b"0")) + message["amount"]
            values[key] = str(total).encode()
            return {"total": total}, b""
        else:
            expected, desired = body[: message["split"]], body[message["split"] :]
            found = values.get(key)
            if found == expected or (found is None and not expected):
                values[key] = found = desired
            return {}, expected if found is None else found
        return {}, b""

    def _waited(self, keys: Sequence[str], seconds: float) -> tuple[dict[str, Any], bytes]:
        if not self._changed.wait_for(lambda: all(k in self._values for k in keys), seconds):
            missing = next(k for k in keys if k not in self._values)
            raise DistStoreError(f"wait timeout after {seconds} s for the key {missing!r}")
        return {}, self._values[keys[-1]] if keys else b""


class HashStore(_Local):
    """Values of the threads of one process."""


class FileStore(Store):
    """Values in a file that all processes reach.

    Args:
        file_name: the file; it is made where there is none.
        world_size: how many processes there are; nothing depends on it.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        with contextlib.suppress(FileExistsError):
            os.close(os.open(file_name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))

    def _ask(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        if message["do"] not in ("get", "wait"):
            return self._once(message, body)
        keys = [message["key"]] if message["do"] == "get" else message["keys"]
        deadline = time.monotonic() + message["seconds"]
        while True:
            local = self._once({"do": "check", "keys": keys}, b"")
            if local[0]["found"]:
                return self._once({"do": "get", "key": keys[-1], "seconds": 0.0}, b"")
            if time.monotonic() > deadline:
                raise DistStoreError(f"wait timeout after {message['seconds']} s for {keys}")
            time.sleep(0.01)

    def _once(self, message: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """One request, with the file locked: what is in it, and then what is new."""
        import fcntl
        import json

        with open(self.path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            local = _Local()
            raw = file.read()
            if raw:
                local._values = {k: bytes.fromhex(v) for k, v in json.loads(raw).items()}
            before = dict(local._values)
            reply = local._ask(message, body)
            if local._values != before:
                file.seek(0)
                file.write(json.dumps({k: v.hex() for k, v in local._values.items()}).encode())
                file.truncate()
            return reply


class PrefixStore(Store):
    """Another store, with a prefix before each name.

    Args:
        prefix: comes before names, with a slash.
        store: where the values are.
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store without the prefix."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """How long ``get`` and ``wait`` wait: as the other store."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Changes the other store's timeout."""
        self._store.set_timeout(timeout)

    def _ask(self, message: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        message = dict(message)
        if "key" in message:
            message["key"] = f"{self._prefix}/{message['key']}"
        if "keys" in message:
            message["keys"] = [f"{self._prefix}/{key}" for key in message["keys"]]
        if "seconds" in message:
            message["seconds"] = self._store.timeout.total_seconds()
        return self._store._ask(message, body)
