"""Write the bill of materials of an installation, in CycloneDX's JSON: ``make sbom``.

    python tools/sbom.py WHEEL FILE

An environment is made of the wheel, its extras `serve` and `postgres`, and the releases in constraints-image.txt, whose
checksums pip compares. Beside what is installed there, the bill has what others made and the wheel carries in itself.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
VENDORED = ROOT / "src" / "geolookup" / "console" / "vendored" / "VENDORED.md"


def vendored() -> list[dict[str, Any]]:
    """The libraries of the console, as components."""
    rows = re.findall(
        r"^\| (\S+) \| ([\d.]+) \| (\S+) \| `sha512-(\S+)` \|$", VENDORED.read_text("utf-8"), re.MULTILINE
    )
    assert rows, VENDORED
    return [
        {
            "bom-ref": f"pkg:npm/{name}@{version}",
            "type": "library",
            "name": name,
            "version": version,
            "licenses": [{"license": {"id": licence}}],
            "purl": f"pkg:npm/{name}@{version}",
            "description": "a part of geolookup's wheel, for the pages of its console",
        }
        for name, version, licence, _ in rows
    ]


def main() -> int:
    """Make the environment, list it, add what the wheel carries, and check the whole against CycloneDX's schema."""
    wheel, target = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    here = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", f"{folder}/env"], check=True)
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", f"{folder}/env/bin/python"]
        pinned = ROOT / "constraints-image.txt"
        subprocess.run([*pip, "install", "--quiet", "--require-hashes", "-r", pinned], check=True)
        subprocess.run([*pip, "install", "--quiet", "--no-deps", wheel], check=True)
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools"], check=True)
        command = [
            here / "cyclonedx-py",
            "environment",
            "--pyproject",
            ROOT / "pyproject.toml",
            "--output-reproducible",
        ]
        listed = subprocess.run([*command, f"{folder}/env"], stdout=subprocess.PIPE, check=True).stdout
    bill = json.loads(listed)
    bill["components"] = sorted([*bill["components"], *vendored()], key=lambda one: one["bom-ref"])
    text = json.dumps(bill, indent=2, sort_keys=True) + "\n"
    problem = invalid(text, bill["specVersion"])
    if problem:
        raise SystemExit(f"the bill of materials is not CycloneDX: {problem}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    print(f"{target}: CycloneDX {bill['specVersion']}, {len(bill['components'])} components")
    return 0


def invalid(text: str, version: str) -> object:
    """What is wrong with a bill of materials, None if nothing is."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.from_version(version)).validate_str(text)


if __name__ == "__main__":
    sys.exit(main())
