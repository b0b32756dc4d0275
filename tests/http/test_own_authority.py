"""A service by TLS whose certificate an authority of one's own issued: who trusts it, and what the others are told."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geolookup.model.errors import UpstreamRefusedError, UpstreamUnavailableError
from geolookup.upstream.geolocations import GeolocationsClient
from geolookup.web.options import Options
from tests.support.services.certificates import Certificates
from tests.support.services.running_service import RunningService
from tests.upstream.helpers import transport

DEFAULTS = """locid,country,region,city,postalcode,latitude,longitude,dmacode,areacode,startip,endip
7,US,CA,Oakland,94601,37.8,-122.2,807,510,8.8.8.0,8.8.8.255
"""


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def service(tmp_path: Path, certificates: Certificates) -> Iterator[RunningService]:
    csv = tmp_path / "defaults.csv"
    csv.write_text(DEFAULTS)
    options = Options(tls_cert=str(certificates.cert), tls_key=str(certificates.key))
    with RunningService(tmp_path / "service.db", load=[csv], options=options) as running:
        yield running


def listed(url: str, *, trust_env: bool) -> list[int]:
    with (
        transport(url, secret=None, trust_env=trust_env) as connection,
        GeolocationsClient(connection).list() as listing,
    ):
        return [place.locid for place in listing]


def test_the_environments_authority_is_trusted_on_this_machine_too_if_the_settings_say_so(
    service: RunningService, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.bundle))
    assert listed(service.url, trust_env=True) == [7]
    with pytest.raises(
        UpstreamUnavailableError, match=r"certificate is not trusted: .*SSL_CERT_FILE.*trust_env = true"
    ):
        listed(service.url, trust_env=False)


def test_a_path_at_which_there_is_no_list_is_named_with_the_settings_to_check(
    service: RunningService, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.bundle))
    with pytest.raises(UpstreamRefusedError) as caught:
        listed(f"{service.url}/geolocations", trust_env=True)
    assert f"the service has no list at {service.url}/geolocations/geolocations: check `url` and `path_list`" in str(
        caught.value
    )
    assert (caught.value.status, caught.value.problem_type) == (404, "not-found")
