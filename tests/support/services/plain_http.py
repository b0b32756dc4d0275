"""HTTP without TLS, for clients of the services that tests start on loopback."""

import ssl

#: What an `httpx` client takes as ``verify`` where it only speaks plain HTTP. By default each client loads the
#: certificates of every authority first, which takes longer than most tests; this one trusts nobody.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
