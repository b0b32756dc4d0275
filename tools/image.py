"""Lint the Dockerfile; where a Docker engine runs, build the image and use it as the guide says: ``make image``.

Where none runs, root on Linux tries what a container asks of geolookup: a read-only root, no HOME, no capabilities.
"""

import os
import subprocess
import sys
import tempfile
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


#: For a shell in a mount namespace of its own. Its arguments: the folder of the state, and that of the commands.
NAMESPACE = """
set -e
state=$1; bin=$2
as_image() {
    setpriv --no-new-privs --bounding-set=-all --inh-caps=-all env -i "PATH=$bin:/usr/bin:/bin" \
        "GEOLOOKUP_HOME=$state" "TMPDIR=$state" PYTHONDONTWRITEBYTECODE=1 "$@"
}
refused() { if touch "$1" 2>/dev/null; then echo "$1 can be written" >&2; exit 1; fi; }
mount --make-rprivate /
mount --bind "$state" "$state"
mount -o remount,bind,ro /
if grep -q ' /tmp ' /proc/mounts; then mount -o remount,bind,ro /tmp; fi
cd /
refused /written
refused /tmp/written
as_image geolookup sync --bundled
mount -o remount,bind,ro "$state"
refused "$state/written"
as_image geolookup 8.8.8.8
"""


def without_docker() -> None:
    """The same in a mount namespace, with the geolookup of this environment; nothing of it is left behind."""
    if os.geteuid() or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        print("mount namespaces are not allowed here: a read-only root was not tried")
        return
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state")
        state.mkdir()
        shell = ["unshare", "--mount", "bash", "-c", NAMESPACE, "bash", str(state), str(Path(sys.executable).parent)]
        done = subprocess.run(shell, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1].startswith("8.8.8.8\tUS\t"), done.stdout
    print("a sync and a lookup without HOME and capabilities, on a read-only root: answered")


def main() -> int:
    """Lint, build, and answer from a state that another container made."""
    subprocess.run([Path(sys.executable).parent / "hadolint", "Dockerfile"], cwd=ROOT, check=True)
    print("hadolint: no problems in the Dockerfile")
    if not has_engine():
        print("no Docker engine runs here: the image was not built")
        if sys.platform == "linux":
            without_docker()
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
