"""Keys, and what they sign: the metadata of The Update Framework, by python-tuf and securesystemslib.

A folder of keys holds ``root.json`` and each earlier root (``1.root.json`` …), and the private keys as PKCS #8 (PEM),
for their owner only. The root keys sign who may publish; one publish key signs what is published. Root keys may be
elsewhere: on other machines, in a safe.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import CryptoSigner
from tuf.api.exceptions import DownloadError, RepositoryError
from tuf.api.metadata import Metadata, Root, Snapshot, TargetFile, Targets, Timestamp
from tuf.api.serialization import SerializationError
from tuf.api.serialization.json import JSONSerializer

from geolookup.base import disk
from geolookup.base.reasons import reason
from geolookup.fleet.manifest import NAME
from geolookup.model.errors import SettingsError

PUBLISH_KEY, ROOT_KEY = "publish.key", "root.key"
#: The publish key as text, for CI.
ENVIRONMENT = "GEOLOOKUP_FLEET_KEY"
#: How long a signature holds: that of the timestamp is the age at which readers say that nothing new comes.
TIMESTAMP_DAYS, CONTENT_DAYS, ROOT_DAYS = 7, 365, 3650
_ONLINE = (Timestamp.type, Snapshot.type, Targets.type)
_ROOT_NAME = re.compile(r"([1-9][0-9]*)\.root\.json")
#: Errors of the libraries of TUF about files that are not what they should be.
ERRORS = (RepositoryError, DownloadError, SerializationError, UnverifiedSignatureError, ValueError)


def ends_in(days: int) -> datetime:
    """The moment, so many days from now, at which a signature ends."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)


def text_of(metadata: Metadata[Any]) -> bytes:
    """Metadata as it stands in files."""
    return metadata.to_bytes(JSONSerializer(compact=False))


def new_key(path: str) -> CryptoSigner:
    """Make a key, in a file for its owner only, which must not exist yet.

    :raises SettingsError: if it cannot be written
    """
    signer = CryptoSigner.generate_ed25519()
    with _file_errors(path):
        disk.write_new(path, signer.private_bytes)
        disk.sync_directory(os.path.dirname(os.path.abspath(path)))
    return signer


def read_key(path: str) -> CryptoSigner:
    """The key in a file.

    :raises SettingsError: if it cannot be read, or others may read it
    """
    with _file_errors(path), open(path, "rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise SettingsError(f"{path}: others may read this key: chmod 600 {path}, and think about a new one")
        return _key_of(file.read(), path)


def publish_key(folder: str | None) -> CryptoSigner:
    """The key that signs what is published: of the environment, else of a folder of keys.

    :raises SettingsError: if there is none
    """
    text = os.environ.get(ENVIRONMENT)
    if text:
        return _key_of(text.encode("utf-8", "surrogateescape"), ENVIRONMENT)
    if folder is None:
        raise SettingsError(
            f"no keys are known here: give --keys DIR, or the publish key in {ENVIRONMENT}; `geolookup fleet init DIR` "
            "makes keys, once for a fleet"
        )
    path = os.path.join(folder, PUBLISH_KEY)
    if not os.path.exists(path):
        raise SettingsError(f"{path}: is not there: `geolookup fleet init {folder}` makes keys, once for a fleet")
    return read_key(path)


def _key_of(text: bytes, where: str) -> CryptoSigner:
    try:
        key = load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{where}: is not a private key (PKCS #8, PEM): {reason(error)}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise SettingsError(f"{where}: is not an Ed25519 key")
    return CryptoSigner(key)


def init(folder: str, *, root_keys: int = 1, threshold: int = 1) -> list[str]:
    """Make the keys and the first root of a fleet in a new folder; returns the names of the files.

    :raises SettingsError: if the folder has keys already, or cannot be written
    """
    if not 1 <= threshold <= root_keys <= 16:
        raise SettingsError(f"--threshold {threshold} of {root_keys} root keys: must be between 1 and all of them")
    if os.path.exists(os.path.join(folder, "root.json")):
        raise SettingsError(f"{folder}: has the keys of a fleet already: give another folder")
    with _file_errors(folder):
        disk.make_directory(folder)
    names = [ROOT_KEY] if root_keys == 1 else [f"root-{number}.key" for number in range(1, root_keys + 1)]
    signers = [new_key(os.path.join(folder, name)) for name in names]
    publish = new_key(os.path.join(folder, PUBLISH_KEY))
    root = Root(version=1, expires=ends_in(ROOT_DAYS), consistent_snapshot=True)
    for signer in signers:
        root.add_key(signer.public_key, Root.type)
    root.roles[Root.type].threshold = threshold
    for role in _ONLINE:
        root.add_key(publish.public_key, role)
    metadata = Metadata(root)
    for signer in signers:
        metadata.sign(signer, append=True)
    write_root(folder, metadata)
    return [*names, PUBLISH_KEY, "root.json"]


def write_root(folder: str, metadata: Metadata[Root]) -> None:
    """Keep a root that is signed by enough keys as the newest of a folder."""
    text = text_of(metadata)
    with _file_errors(folder):
        disk.replace(os.path.join(folder, f"{metadata.signed.version}.root.json"), text, mode=0o644)
        disk.replace(os.path.join(folder, "root.json"), text, mode=0o644)


def roots(folder: str) -> dict[int, bytes]:
    """Every root that a folder holds, by its version.

    :raises SettingsError: if there is none
    """
    found = {}
    with _file_errors(folder):
        for name in os.listdir(folder):
            if (match := _ROOT_NAME.fullmatch(name)) is not None:
                with open(os.path.join(folder, name), "rb") as file:
                    found[int(match[1])] = file.read()
    if not found:
        raise SettingsError(f"{folder}: has no root.json: `geolookup fleet init {folder}` makes one, once for a fleet")
    return dict(sorted(found.items()))


def read_root(text: bytes, where: str) -> Metadata[Root]:
    """A root, whose own signatures are checked.

    :raises SettingsError: if it is not one
    """
    try:
        found = Metadata[Root].from_bytes(text)
        if not isinstance(found.signed, Root):
            raise ValueError(f"it is of the type {found.signed.type}")  # noqa: TRY004 - one way out
        found.verify_delegate(Root.type, found)
    except ERRORS as error:
        raise SettingsError(f"{where}: is not the root.json of a fleet: {reason(error)}") from error
    return found


def require_may_publish(root: Root, signer: CryptoSigner, where: str) -> None:
    """See that a root lets a key publish.

    :raises SettingsError: if it does not
    """
    if any(signer.public_key.keyid not in root.roles[role].keyids for role in _ONLINE):
        raise SettingsError(
            f"{where}: version {root.version} of root.json does not let this key publish: it is revoked"
        )


def signed(content: Any, signer: CryptoSigner) -> Metadata[Any]:
    """Metadata of one of the roles that publish, signed."""
    metadata: Metadata[Any] = Metadata(content)
    metadata.sign(signer)
    return metadata


def targets_of(version: int, manifest: bytes) -> Targets:
    """The role that names the manifest."""
    found = Targets(version=version, expires=ends_in(CONTENT_DAYS))
    found.targets[NAME] = TargetFile.from_data(NAME, manifest, ["sha256"])
    return found


def rotate(
    folder: str,
    *,
    new_publish: bool = False,
    add: Iterable[str] = (),
    drop: Iterable[str] = (),
    threshold: int | None = None,
    keys: Sequence[str] = (),
) -> tuple[Metadata[Root], str | None]:
    """Make the next root, with other keys, and sign it with those that are here.

    ``add`` names files in which new root keys are made; ``drop`` are identifiers of root keys, or the beginnings of
    such. Returns it, and the path at which it waits for more signatures, None if it has enough and is in force.

    :raises SettingsError: if that is no root that anybody could follow
    """
    known = roots(folder)
    before = read_root(known[max(known)], folder)
    root = Metadata[Root].from_bytes(known[max(known)]).signed
    root.version += 1
    root.expires = ends_in(ROOT_DAYS)
    own = [
        os.path.join(folder, name)
        for name in sorted(os.listdir(folder))
        if name.startswith("root") and name.endswith(".key")
    ]
    signers = [read_key(path) for path in (*own, *keys)]
    for path in add:
        signers.append(new_key(path))
        root.add_key(signers[-1].public_key, Root.type)
    for given in drop:
        matching = [keyid for keyid in root.roles[Root.type].keyids if keyid.startswith(given)]
        if len(matching) != 1:
            raise SettingsError(
                f"--drop {given}: {len(matching)} root keys begin so, of {', '.join(root.roles[Root.type].keyids)}"
            )
        root.revoke_key(matching[0], Root.type)
    if threshold is not None:
        root.roles[Root.type].threshold = threshold
    if not 1 <= root.roles[Root.type].threshold <= len(root.roles[Root.type].keyids):
        raise SettingsError("the threshold must be between 1 and the number of root keys")
    if new_publish:
        _replace_publish_key(folder, root)
    metadata = Metadata(root)
    _sign(metadata, signers, before.signed)
    return metadata, _kept(folder, metadata, before)


def _replace_publish_key(folder: str, root: Root) -> None:
    path = os.path.join(folder, PUBLISH_KEY)
    with _file_errors(path):
        if os.path.exists(path):
            os.rename(path, os.path.join(folder, f"publish-until-{root.version}.key.revoked"))
    signer = new_key(path)
    for role in _ONLINE:
        for keyid in list(root.roles[role].keyids):
            root.revoke_key(keyid, role)
        root.add_key(signer.public_key, role)


def sign(folder: str, path: str) -> tuple[Metadata[Root], str | None]:
    """Sign the root that waits in a folder with the key in a file; as `rotate`.

    :raises SettingsError: if none waits, or this key is none of its root keys
    """
    known = roots(folder)
    before = read_root(known[max(known)], folder)
    waiting = os.path.join(folder, "next.root.json")
    with _file_errors(waiting), open(waiting, "rb") as file:
        text = file.read()
    try:
        metadata = Metadata[Root].from_bytes(text)
    except ERRORS as error:
        raise SettingsError(f"{waiting}: is not a root.json: {reason(error)}") from error
    if metadata.signed.version != before.signed.version + 1:
        raise SettingsError(f"{waiting}: does not follow version {before.signed.version} of root.json")
    if not _sign(metadata, [read_key(path)], before.signed):
        raise SettingsError(f"{path}: is neither one of the root keys of {folder} nor of its next root")
    return metadata, _kept(folder, metadata, before)


def _sign(metadata: Metadata[Root], signers: Iterable[CryptoSigner], before: Root) -> int:
    allowed = {*metadata.signed.roles[Root.type].keyids, *before.roles[Root.type].keyids}
    count = 0
    for signer in signers:
        if signer.public_key.keyid in allowed:
            metadata.sign(signer, append=True)
            count += 1
    return count


def _kept(folder: str, metadata: Metadata[Root], before: Metadata[Root]) -> str | None:
    waiting = os.path.join(folder, "next.root.json")
    if missing(metadata, before) is None:
        write_root(folder, metadata)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(waiting)
        return None
    with _file_errors(waiting):
        disk.replace(waiting, text_of(metadata), mode=0o644)
    return waiting


def missing(metadata: Metadata[Root], before: Metadata[Root]) -> str | None:
    """The signatures that a root still needs, in words; None if it has all."""
    lacks = []
    for who, root in (("the root before", before.signed), ("itself", metadata.signed)):
        result = root.get_verification_result(Root.type, metadata.signed_bytes, metadata.signatures)
        if not result.verified:
            lacks.append(f"{result.threshold - len(result.signed)} more by the keys of {who}")
    return " and ".join(lacks) or None


@contextlib.contextmanager
def _file_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{error.filename or path}: {reason(error)}") from error
