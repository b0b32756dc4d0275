"""The address of a service: a socket that is bound, and how clients call it."""

import socket

from geolookup.errors import ServiceError
from geolookup.model.addresses import is_loopback
from geolookup.web.auth import VARIABLE


def url_of(address: socket.socket, *, tls: bool = False) -> str:
    """The base address of a service on that socket."""
    scheme = "https" if tls else "http"
    name, port = address.getsockname()[:2]
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def bind(host: str, port: int, *, beyond_loopback: bool = False) -> socket.socket:
    """A socket that has the address and does not listen yet.

    :raises ServiceError: if the host must be a loopback address and is not, or the address cannot be used
    """
    if not 0 <= port <= 65535:  # the C library would take the lower 16 bits of it
        raise ServiceError(f"{host}, port {port}: a port is a number from 0 to 65535")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"{host}: not a host name or address that this machine knows") from error
    # Every address of the name is checked: one beyond loopback could stand behind one of loopback.
    if not beyond_loopback and not all(is_loopback(str(address[0])) for *_, address in found):
        raise ServiceError(
            f"{host}: not a loopback address; without tokens the service listens on loopback only: make a token with "
            f"`geolookup serve-token`, and give its file as --tokens (or set {VARIABLE})"
        )
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    taken = socket.socket(family, kind, protocol)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        taken.close()
        raise ServiceError(f"{host}, port {port}: {error.strerror}: choose another address or port") from error
    return taken
