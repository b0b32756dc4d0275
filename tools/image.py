"""Lint the Dockerfile; where a Docker engine runs, build the image and use it as the guide says: ``make image``."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME, VOLUME = "geolookup:tried", "geolookup-tried"
#: Nothing is granted, and nothing but the state can be written.
BARE = ["--rm", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--network", "none"]


def docker(*arguments: str) -> str:
    print("$ docker", *arguments, flush=True)
    return subprocess.run(["docker", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def has_engine() -> bool:
    """Whether an engine answers, not only whether the command exists."""
    try:
        return not subprocess.run(["docker", "info"], capture_output=True).returncode
    except FileNotFoundError:
        return False


def main() -> int:
    """Lint, build, and answer from a state that another container made."""
    subprocess.run([Path(sys.executable).parent / "hadolint", "Dockerfile"], cwd=ROOT, check=True)
    print("hadolint: no problems in the Dockerfile")
    if not has_engine():
        print("no Docker engine runs here: the image was not built")
        return 0
    docker("build", "--tag", NAME, ".")
    docker("volume", "create", VOLUME)
    try:
        docker("run", *BARE, "--volume", f"{VOLUME}:/state", NAME, "sync", "--bundled")
        answer = docker("run", *BARE, "--volume", f"{VOLUME}:/state:ro", NAME, "8.8.8.8")
        assert answer.startswith("8.8.8.8\tUS\t"), answer
        assert docker("run", *BARE, "--entrypoint", "id", NAME, "-u").strip() == "10001"
    finally:
        docker("volume", "rm", VOLUME)
    return 0


if __name__ == "__main__":
    sys.exit(main())
