"""The OpenAPI document says everything, and brings nothing from elsewhere."""

from typing import Any

import httpx
import pytest

from geolookup.web.problems import ANYWHERE, PROBLEMS

#: By method and path: the name, and the statuses besides those that any operation may answer.
OPERATIONS = {
    ("get", "/geolocations"): ("listGeolocations", "200 304 400"),
    ("post", "/geolocations"): ("createGeolocation", "201 400 403 412 413 415 422"),
    ("put", "/geolocations"): ("updateGeolocation", "200 400 403 404 412 413 415 422"),
    ("delete", "/geolocations"): ("deleteGeolocation", "200 400 403 404 412"),
    ("post", "/geolocations/ipblocks"): ("createBlock", "201 400 403 404 409 412 413 415 422"),
    ("put", "/geolocations/ipblocks"): ("replaceBlock", "200 400 403 404 409 412 413 415 422"),
    ("delete", "/geolocations/ipblocks"): ("deleteBlocks", "200 400 403 404 412"),
    ("get", "/v1/api/hotel/{hotelId}/details"): ("hotelDetails", "200 400 404"),
    ("get", "/v1/api/hotel/list"): ("listHotels", "200 400"),
    ("post", "/admin/product/ratePlans"): ("putRatePlan", "200 201 400 403 404 413 415 422"),
    ("get", "/lookup/{ip}"): ("lookupAddress", "200 400 503"),
    ("post", "/lookup"): ("lookupAddresses", "200 400 403 413 415 422 503"),
    ("get", "/healthz"): ("healthz", "200"),
    ("get", "/readyz"): ("readyz", "200 503"),
    ("get", "/metrics"): ("metrics", "200"),
}
_BLOCKS = [key for key in OPERATIONS if key[1] == "/geolocations/ipblocks"]
_TO_ONE = [("put", "/geolocations"), ("delete", "/geolocations"), *_BLOCKS]


@pytest.fixture
def document(reading: httpx.Client) -> dict[str, Any]:
    return dict(reading.get("/schema/openapi.json").raise_for_status().json())


def parameters(document: dict[str, Any], method: str, path: str) -> dict[str, bool]:
    """Which parameters there are, and whether each is required."""
    found = document["paths"][path][method].get("parameters", [])
    return {one["name"]: one.get("required", False) for one in found}


def test_every_operation_is_there_and_no_other(document: dict[str, Any]) -> None:
    found = {(method, path) for path, item in document["paths"].items() for method in item}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_an_operation_says_every_answer_and_whether_it_has_a_body(
    document: dict[str, Any], method: str, path: str
) -> None:
    name, statuses = OPERATIONS[method, path]
    operation = document["paths"][path][method]
    assert operation["operationId"] == name
    assert operation["summary"]
    anywhere = {str(PROBLEMS[one][0]) for one in ANYWHERE}
    assert sorted(operation["responses"]) == sorted({*statuses.split(), *anywhere})
    for status, answer in operation["responses"].items():
        if int(status) >= 400:
            assert list(answer["content"]) == ["application/problem+json"]
        elif status != "304":
            assert list(answer["content"]) == ["text/plain" if name == "metrics" else "application/json"]
    assert ("requestBody" in operation) == (method in ("post", "put"))


@pytest.mark.parametrize(("method", "path"), _TO_ONE)
def test_an_operation_on_one_geolocation_requires_its_locid(document: dict[str, Any], method: str, path: str) -> None:
    found = parameters(document, method, path)
    assert found["locid"] is True
    assert found["If-Match"] is False


def test_parameters_are_those_of_the_interface(document: dict[str, Any]) -> None:
    assert set(parameters(document, "get", "/geolocations")) == {
        "top", "country", "region", "city", "postalcode", "locid", "If-None-Match",
    }  # fmt: skip
    assert set(parameters(document, "get", "/v1/api/hotel/list")) == {
        "city", "state", "postalCode", "country", "destinationId", "id", "amenity", "@include",
    }  # fmt: skip
    assert parameters(document, "get", "/v1/api/hotel/{hotelId}/details") == {"hotelId": True, "@include": False}
    assert parameters(document, "get", "/lookup/{ip}") == {"ip": True, "record": False}
    assert parameters(document, "post", "/lookup") == {"record": False}
    with_key = {key for key in OPERATIONS if "Idempotency-Key" in parameters(document, *key)}
    assert with_key == {("post", "/geolocations"), ("post", "/geolocations/ipblocks")}


def test_a_token_is_described_and_may_be_left_out_where_there_are_none(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["security"] == [{"token": []}, {}]


#: What is refused before there is an operation.
BEFORE_AN_OPERATION = {"bad-request", "method-not-allowed", "not-implemented"}
#: What only `geolookup share` refuses.
OF_SHARE = {
    "address-not-covered",
    "licence-forbids",
    "not-built",
    "range-not-satisfiable",
    "stale-data",
    "unknown-build",
    "unknown-edition",
}


def test_every_problem_of_an_operation_is_documented_by_its_name(reading: httpx.Client) -> None:
    text = reading.get("/schema/openapi.json").text
    assert {name for name in PROBLEMS if f"`{name}`" not in text} == BEFORE_AN_OPERATION | OF_SHARE


@pytest.mark.parametrize("path", ["/", "/schema", "/schema/openapi.json", "/schema/openapi.yaml", "/schema/swagger"])
def test_no_page_loads_anything_from_another_host(reading: httpx.Client, path: str) -> None:
    answer = reading.get(path)
    assert "html" not in answer.headers["content-type"]
    assert "<script" not in answer.text
