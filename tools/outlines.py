"""Get Natural Earth's outlines of the countries anew, and write them beside the bundled data: ``make outlines``.

Needs npm and node. What was fetched is compared with the checksum below; to take a newer release, change both.
"""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parents[1] / "src" / "geolookup_data"
VERSION = "2.0.2"
#: Of npm's archive of world-atlas, as its registry states it.
INTEGRITY = "sha512-IXfV0qwlKXpckz1FhwXVwKRjiIhOnWttOskm5CtxMsjgE/MXAYRHWJqgXOpM8IkcPBoXnyTU5lFHcYa5ChG0LQ=="
#: What the conversion is made with; none of it is in the files.
TOOLS = ("topojson-client@3.1.0", "topojson-simplify@3.0.3", "i18n-iso-countries@7.14.0")
WORLD, DETAIL, PAGE = "outlines-world.json", "outlines-detail.json.gz", "OUTLINES.md"

_PAGE = """# The outlines of the countries

Written by `make outlines`: do not edit.

| | |
| --- | --- |
| what | the countries of Natural Earth 4.1 at 1:50,000,000, as TopoJSON; ids are ISO 3166-1 codes of two letters |
| from | the npm package world-atlas {version}, `countries-50m.json` |
| checksum of the package | `{integrity}` |
| licence of the outlines | public domain (https://www.naturalearthdata.com/about/terms-of-use/) |
| licence of the package | ISC, Copyright 2013-2019 Michael Bostock |

| file | sha256 | what was done |
| --- | --- | --- |
| `{world}` | `{world_sum}` | simplified, and small islands left out, for maps of the world and of continents |
| `{detail}` | `{detail_sum}` | as it is, for maps of one country |
"""


def main() -> int:
    """Fetch, check, convert and write."""
    with tempfile.TemporaryDirectory() as folder:
        packages = [f"world-atlas@{VERSION}", *TOOLS]
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *packages]
        subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
        lock = json.loads(Path(folder, "package-lock.json").read_text("utf-8"))
        found = lock["packages"]["node_modules/world-atlas"]["integrity"]
        if found != INTEGRITY:
            print(f"world-atlas {VERSION} has the checksum {found}, and {INTEGRITY} is expected: nothing was changed")
            return 1
        script = shutil.copy(Path(__file__).with_suffix(".js"), folder)
        subprocess.run(["node", script, "world.json", "detail.json"], cwd=folder, check=True)
        world = Path(folder, "world.json").read_bytes()
        detail = gzip.compress(Path(folder, "detail.json").read_bytes(), 9, mtime=0)
    page = _PAGE.format(
        version=VERSION,
        integrity=INTEGRITY,
        world=WORLD,
        world_sum=hashlib.sha256(world).hexdigest(),
        detail=DETAIL,
        detail_sum=hashlib.sha256(detail).hexdigest(),
    )
    for name, content in ((WORLD, world), (DETAIL, detail), (PAGE, page.encode())):
        (DATA / name).write_bytes(content)
        print(f"written: {os.path.relpath(DATA / name)}, {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
