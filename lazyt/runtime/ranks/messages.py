"""Messages between ranks and the hub: a line of JSON with the number of bytes behind it."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from lazyt.errors import DistributedError

#: The lengths of the JSON text and of the bytes.
_LENGTHS = struct.Struct("!IQ")
#: A message that says to be longer was not written by a rank.
_LONGEST = 1 << 34


class Closed(DistributedError):
    """The other side is gone."""


def send(connection: socket.socket, message: dict[str, Any], body: bytes = b"") -> None:
    """Writes one message. Raises Closed."""
    text = json.dumps(message, separators=(",", ":")).encode()
    try:
        connection.sendall(_LENGTHS.pack(len(text), len(body)) + text + body)
    except OSError as error:
        raise Closed(f"the connection to the hub is gone: {error}") from None


def receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Reads one message and the bytes behind it. Raises Closed, also for what is no message."""
    size, extra = _LENGTHS.unpack(_exactly(connection, _LENGTHS.size))
    if size > _LONGEST or extra > _LONGEST:
        raise Closed("the other side does not speak the hub's language")
    text, body = _exactly(connection, size), _exactly(connection, extra)
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise Closed("the other side does not speak the hub's language")
    return message, body


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        try:
            part = connection.recv(min(count, 1 << 20))
        except OSError as error:
            raise Closed(f"the connection is gone: {error}") from None
        if not part:
            raise Closed("the connection was closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``. Raises DistributedError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise DistributedError(f"{text!r} is not an address: it should be host:port")
    return host.strip("[]"), int(port)
