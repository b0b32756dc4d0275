"""Django's own tests of its class for lookups (gis_tests/test_geoip2.py), with the import changed."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

django = pytest.importorskip("django", reason="Django comes with the extra test")

from django.conf import settings  # noqa: E402
from django.core.exceptions import ImproperlyConfigured  # noqa: E402

from tests.compat.suites import DATABASES, UPSTREAM, left_out, loaded, named_in, states  # noqa: E402

if not settings.configured:
    settings.configure()

SUITE = "django/test_geoip2.py"
#: The suite looks for data/geoip2 beside itself.
_folder = tempfile.TemporaryDirectory(prefix="geolookup-tests-")
BESIDE = Path(_folder.name).resolve()
CHANGES = {
    "    from django.contrib.gis.geoip2 import GeoIP2, GeoIP2Exception\n": (
        "    from geolookup.compat.django import GeoIP2, GeoIP2Exception\n"
    )
}
LEFT_OUT = {}
try:
    import django.contrib.gis.geos
except ImproperlyConfigured:
    #: Of these lines there is no test: `geos` needs the libraries GDAL and GEOS, and is Django's own method here.
    CHANGES |= {
        "from django.contrib.gis.geos import GEOSGeometry\n": "",
        "functions = (g.city, g.geos, ": "functions = (g.city, ",
        "                geom = g.geos(query)\n"
        "                self.assertIsInstance(geom, GEOSGeometry)\n"
        "                self.assertEqual(geom.srid, 4326)\n": "",
        "                self.assertEqual(geom.tuple, (expected_lon, expected_lat))\n": "",
    }
if django.VERSION >= (6, 0):
    CHANGES["from django.utils.deprecation import RemovedInDjango60Warning\n"] = (
        "RemovedInDjango60Warning = DeprecationWarning\n"
    )
    LEFT_OUT["test_coords_deprecation_warning"] = "of a method that Django 6 has no more"
_suite = loaded(SUITE, CHANGES, at=BESIDE / "test_geoip2.py")
GeoLite2Test = left_out(_suite.GeoLite2Test, LEFT_OUT)
GeoIP2Test = _suite.GeoIP2Test
DBIPLiteTest = _suite.DBIPLiteTest
ErrorTest = _suite.ErrorTest


@pytest.fixture(autouse=True, scope="module")
def _states() -> Iterator[None]:
    own = UPSTREAM / "django/data/geoip2"
    files = [own / name if (own / name).exists() else DATABASES / name for name in named_in(SUITE)]
    assert len(files) == 7
    states(BESIDE / "data/geoip2", files)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GEOLOOKUP_HOME", raising=False)
        yield


def test_the_class_of_the_suite_is_ours() -> None:
    assert _suite.GeoIP2.__module__ == "geolookup.compat.django"
