"""What events name by its digest: shapes of costs, bytes of releases; each is kept once, and checked if it is read."""

import hashlib
from typing import TypeGuard

import msgspec

from pufferflow.composition import Shape, canonical
from pufferflow.errors import InternalError, LedgerFault
from pufferflow.ledger.connect import ADD_PAYLOAD, ADD_SHAPE, PAYLOAD, SHAPE, Line


def digest_of_bytes(body: bytes) -> str:
    """Return the digest that a body is kept under."""
    return hashlib.sha256(body).hexdigest()


def read_shape(digest: str, body: object) -> Shape | None:
    """Return the shape of a text, if it is the one that the digest names."""
    if not isinstance(body, str):
        return None
    stored = body.encode()
    if digest_of_bytes(stored) != digest:
        return None
    try:
        return msgspec.json.decode(stored, type=Shape)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def shape_of(line: Line, digest: str) -> Shape:
    """Return a shape that is kept."""
    body = line.value(SHAPE, digest=digest)
    shape = None if body is None else read_shape(digest, body)
    if shape is None:
        raise _changed("shape", digest)
    return shape


def keep_shape(line: Line, shape: Shape) -> None:
    """Keep a shape, unless it is kept already; it must read back as the same."""
    body = canonical(shape)
    if line.value(SHAPE, digest=shape.digest) is not None:
        return
    if read_shape(shape.digest, body.decode()) != shape:
        raise InternalError("The shape of a cost does not read back as it was written.", instead="reporting it")
    line.run(ADD_SHAPE, digest=shape.digest, body=body.decode())


def payload_of(line: Line, digest: str) -> bytes:
    """Return the bytes of a release."""
    body = line.value(PAYLOAD, digest=digest)
    if not is_payload(digest, body):
        raise _changed("release", digest)
    return body


def is_payload(digest: str, body: object) -> TypeGuard[bytes]:
    """Say whether something is the bytes that a digest names."""
    return isinstance(body, bytes) and digest_of_bytes(body) == digest


def keep_payload(line: Line, digest: str, body: bytes) -> None:
    """Keep the bytes of a release; they name their entry, so no two entries have the same."""
    line.run(ADD_PAYLOAD, digest=digest, body=body)


def _changed(what: str, digest: str) -> LedgerFault:
    return LedgerFault(
        f"The {what} {digest[:12]}… is missing or was changed.",
        allowed="a ledger that nobody has changed",
        instead="ledger.verify(head) on the last copy that you kept",
    )
