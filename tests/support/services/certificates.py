"""A certificate for loopback, made for the length of a test, and what trusts it."""

import ssl
from pathlib import Path

import trustme


class Certificates:
    """An authority of a test's own, with the files of a certificate that it issued for 127.0.0.1 and localhost."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.bundle = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(self.bundle)
        self.issue()

    def issue(self) -> None:
        """Put a new certificate and key into the files."""
        issued = self._authority.issue_cert("127.0.0.1", "localhost")
        issued.private_key_pem.write_to_path(self.key)
        self.cert.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))

    def trusting(self) -> ssl.SSLContext:
        """What a client trusts that knows the authority and no other."""
        return ssl.create_default_context(cafile=self.bundle)
