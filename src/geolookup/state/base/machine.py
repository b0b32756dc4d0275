"""Which machine this is, as far as it can be known: to notice a state directory that was copied from another."""

import hashlib
import platform


def machine_id() -> str:
    """A text that is the same after each start of this machine, and another one elsewhere; a container's may change."""
    found = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            with open(path, encoding="ascii") as file:
                found = file.read(256).strip()
        except (OSError, UnicodeDecodeError):
            continue
        if found:
            break
    # The name too: images of machines are copied with their identifier. A digest, since neither is anybody's business.
    return hashlib.sha256(f"{found} {platform.node()}".encode()).hexdigest()[:16]
