"""Requests made up from the OpenAPI document, valid and invalid: every answer is one that the document has."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from geolookup.service.hotels import records as hotels_loader
from tests.support.services.running_service import RunningService
from tests.support.services.service_fixtures import DEFAULTS
from tests.web.test_openapi import OPERATIONS

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
_CUSTOM = 20
_LOCIDS = st.sampled_from([*range(-_CUSTOM, 0), 1])
_HOTELS = st.sampled_from(["H1001", "H1002"])
_ADDRESSES = st.ip_addresses().map(str)
_EXAMPLES = 15
_MANY_EXAMPLES = 400


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that all requests are sent to, so that there is always something that was created before."""
    folder = tmp_path_factory.mktemp("schemathesis")
    (folder / "defaults.csv").write_text(DEFAULTS)
    with RunningService(folder / "x.db", load=[folder / "defaults.csv"]) as running:
        hotels_loader.load_demo_hotels(running.store)
        for number in range(_CUSTOM):
            running.create((f"10.0.{number}.0", f"10.0.{number}.9"))
        yield running


@pytest.fixture(scope="module")
def api(service: RunningService) -> Any:
    """The document as it is served."""
    return schemathesis.openapi.from_url(f"{service.url}/schema/openapi.json")


def aim(case: Any, data: st.DataObject) -> None:
    """Let half of the requests be about something that is there: made-up identifiers hardly ever are."""
    if not data.draw(st.booleans()):
        return
    if "locid" in case.query:
        case.query["locid"] = data.draw(_LOCIDS)
    if "hotelId" in case.path_parameters:
        case.path_parameters["hotelId"] = data.draw(_HOTELS)
    if "ip" in case.path_parameters:
        case.path_parameters["ip"] = data.draw(_ADDRESSES)
    if isinstance(case.body, dict):
        for name in ("startip", "endip", "newstartip", "newendip"):
            if name in case.body:
                case.body[name] = data.draw(_ADDRESSES)
        if "hotelId" in case.body:
            case.body["hotelId"] = data.draw(_HOTELS)


#: Nothing about these can be invalid.
_WITHOUT_PARAMETERS = ("/healthz", "/readyz", "/metrics")


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        pytest.param(method, path, mode, id=f"{method} {path} {mode.value}")
        for method, path in OPERATIONS
        for mode in GenerationMode
        if mode is GenerationMode.POSITIVE or path not in _WITHOUT_PARAMETERS
    ],
)
def test_every_answer_is_one_that_the_document_has(
    api: Any, full_sweep: bool, method: str, path: str, mode: GenerationMode
) -> None:
    @given(case=api[path][method].as_strategy(mode), data=st.data())
    # The same requests each time: what lands depends on this change alone. More of them are a matter of --full-sweep.
    @settings(max_examples=_MANY_EXAMPLES if full_sweep else _EXAMPLES, derandomize=True, database=None)
    def check(case: Any, data: st.DataObject) -> None:
        aim(case, data)
        case.call_and_validate(checks=CHECKS)

    check()


def test_after_all_of_that_the_service_answers_as_before(service: RunningService) -> None:
    with service.client() as client:
        locid = service.create(("203.0.113.1", "203.0.113.1"))
        assert client.get("/geolocations", params={"locid": locid}).json()[0]["locid"] == locid
        assert client.get("/readyz").status_code == httpx.codes.OK
        for _ in range(200):  # a list gives its snapshot back just after the client has its end
            if not service.store.open_snapshots:
                break
            time.sleep(0.05)
        assert service.store.open_snapshots == 0
