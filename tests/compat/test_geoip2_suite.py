"""geoip2's own tests of its database reader, with the import changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.suites import DATABASES, loaded, named_in, states

SUITE = "geoip2/database_test.py"
IMPORT = """
from types import SimpleNamespace
import geoip2.errors, geoip2.models
from geolookup.compat import geoip2 as database, maxminddb
geoip2 = SimpleNamespace(database=database, errors=geoip2.errors, models=geoip2.models)
"""
_suite = loaded(
    SUITE,
    {
        "import maxminddb\n\nimport geoip2.database\nimport geoip2.errors\n": IMPORT,
        '@patch("maxminddb.open_database")': '@patch("geolookup.compat.maxminddb.open_database")',
    },
)
TestReader = _suite.TestReader


@pytest.fixture(autouse=True, scope="module")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("geoip2")
    states(folder / "tests/data/test-data", [DATABASES / name for name in named_in(SUITE)])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def test_the_reader_of_the_suite_is_ours(tmp_path: Path) -> None:
    assert _suite.geoip2.database.Reader.__module__ == "geolookup.compat.geoip2"
