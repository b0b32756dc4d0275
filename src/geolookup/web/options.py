"""How one service is run: what each of its processes must know, in a form that can be sent to them."""

import ipaddress
from dataclasses import dataclass, field
from typing import Literal

from geolookup.errors import SettingsError
from geolookup.web.host import allowed_host
from geolookup.web.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Everything about running a service except its address and what it serves.

    :raises SettingsError: if an allowed host is not a host name without a port, a trusted proxy is not an address or
        network, or there is a certificate without a key or a key without a certificate
    """

    #: A file of token lines (see `geolookup.web.auth`), mode 0600.
    tokens: str | None = None
    #: The application knows by itself who may ask: nobody needs a token, whatever the environment says.
    asks_itself: bool = False
    #: Files in PEM: the certificate chain and its key, both or neither. With them, it is served by TLS only.
    tls_cert: str | None = None
    tls_key: str | None = None
    #: Names by which the service may be addressed, in addition to those of loopback.
    allow_hosts: tuple[str, ...] = ()
    #: Addresses and networks whose ``X-Forwarded-For`` is believed.
    trusted_proxies: tuple[str, ...] = ()
    #: The file that gets a line for each request; ``-`` is standard error, None is nowhere.
    access_log: str | None = None
    access_log_format: Literal["json", "text"] = "json"
    #: Processes that answer requests.
    workers: int = 1
    #: Seconds between ``/readyz`` saying no and the end of listening: the time a load balancer needs.
    drain_s: float = 0.0
    #: Seconds that answers under way may take after that.
    grace_s: float = 10.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")
        for name in self.allow_hosts:
            allowed_host(name)
        for proxy in self.trusted_proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError as error:
                raise SettingsError(f"trusted proxy {proxy!r:.80}: not an address or network") from error
