"""Try the geolookup that is installed in this environment: its accelerator is built and in use, and answers are right.

    python tools/tried.py          # in any environment: cibuildwheel calls it in each one, `make wheels` in a bare one
    python tools/tried.py --pure   # the accelerator must be missing

Nothing of the repository is imported.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ANSWERS = {"8.8.8.8": "US", "1.1.1.1": "AU", "2001:4860:4860::8888": "US"}
EACH = """
import geolookup, sys
with geolookup.open() as geo:
    print(*(geo.lookup(address).country for address in sys.argv[1:]))
"""


def main() -> int:
    """Import, look up by the command and by the library, both with the accelerator and without."""
    sys.path = [each for each in sys.path if Path(each or ".").resolve() != Path(__file__).resolve().parent]
    import geolookup
    from geolookup.index.accelerator import accelerator

    is_pure = "--pure" in sys.argv
    native = accelerator()
    assert (native is None) == is_pure, f"the accelerator: {native}"
    with tempfile.TemporaryDirectory() as folder:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GEOLOOKUP_", "XDG_"))}
        environment = {**kept, "HOME": folder}
        command = [sys.executable, "-m", "geolookup", *ANSWERS]
        for more in ({}, {"GEOLOOKUP_PURE": "1"}):
            done = subprocess.run(
                command,
                env={**environment, **more},
                cwd=folder,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=300,
            )
            found = dict(line.split("\t")[:2] for line in done.stdout.splitlines())
            assert found == ANSWERS, done.stdout
            each = [sys.executable, "-c", EACH, *ANSWERS]
            done = subprocess.run(
                each,
                env={**environment, **more},
                cwd=folder,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=300,
            )
            assert done.stdout.split() == list(ANSWERS.values()), done.stdout
    print(f"geolookup {geolookup.__version__}, Python {sys.version.split()[0]}, {sys.platform}: ", end="")
    print("answers without the accelerator" if native is None else f"answers by {native.__file__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
