"""Get what the console's pages are made with anew, and write it beside them: ``make vendored``.

Needs npm. What was fetched is compared with the checksums below; to take a newer release, change both.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "src" / "geolookup" / "console" / "vendored"
PAGE = "VENDORED.md"


@dataclass(frozen=True)
class Package:
    """A package of npm: its name, its version, the checksum that the registry states, and which files are taken."""

    name: str
    version: str
    integrity: str
    licence: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "htmx.org",
        "2.0.11",
        "sha512-Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
        "0BSD",
        {"dist/htmx.min.js": "htmx.js", "LICENSE": "htmx.LICENSE"},
    ),
    Package(
        "leaflet",
        "1.9.4",
        "sha512-nxS1ynzJOmOlHp+iL3FyWqK89GtNL8U8rvlMOsQdTTssxZwCXh8N2NB3GDQOL+YR3XnWyZAxwQixURb+FA74PA==",
        "BSD-2-Clause",
        {"dist/leaflet.js": "leaflet.js", "dist/leaflet.css": "leaflet.css", "LICENSE": "leaflet.LICENSE"},
    ),
)

_HEAD = """# What the pages of the console are made with

Written by `make vendored`: do not edit. The files are as they come from npm.

| package | version | licence | checksum of the package |
| --- | --- | --- | --- |
"""


def fetched(folder: str) -> dict[str, bytes]:
    """The files of all packages, by the names that they have here."""
    wanted = [f"{package.name}@{package.version}" for package in PACKAGES]
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted]
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
    lock = json.loads(Path(folder, "package-lock.json").read_text("utf-8"))
    found = {}
    for package in PACKAGES:
        integrity = lock["packages"][f"node_modules/{package.name}"]["integrity"]
        if integrity != package.integrity:
            raise SystemExit(
                f"{package.name} {package.version} has the checksum {integrity}, and {package.integrity} is expected: "
                "nothing was changed"
            )
        for path, name in package.files.items():
            found[name] = Path(folder, "node_modules", package.name, path).read_bytes()
    return found


def page(files: dict[str, bytes]) -> str:
    """The page that says what is here, and whose it is."""
    packages = [f"| {each.name} | {each.version} | {each.licence} | `{each.integrity}` |" for each in PACKAGES]
    sums = [f"| `{name}` | `{hashlib.sha256(content).hexdigest()}` |" for name, content in sorted(files.items())]
    return _HEAD + "\n".join([*packages, "", "| file | sha256 |", "| --- | --- |", *sums, ""])


def main() -> int:
    """Fetch, check and write."""
    with tempfile.TemporaryDirectory() as folder:
        files = fetched(folder)
    FOLDER.mkdir(exist_ok=True)
    for name, content in files.items():
        (FOLDER / name).write_bytes(content)
    (FOLDER / PAGE).write_text(page(files), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
