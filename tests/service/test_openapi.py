"""The OpenAPI document says everything, and brings nothing from elsewhere."""

from typing import Any

import httpx
import pytest

from geolookup.service.problems import PROBLEMS

OPERATIONS = {
    ("get", "/geolocations"): ("listGeolocations", ["200", "304", "400"]),
    ("post", "/geolocations"): ("createGeolocation", ["201", "400", "403", "412", "413", "422"]),
    ("put", "/geolocations"): ("updateGeolocation", ["200", "400", "403", "404", "412", "413", "422"]),
    ("delete", "/geolocations"): ("deleteGeolocation", ["200", "400", "403", "404", "412"]),
    ("post", "/geolocations/ipblocks"): ("createBlock", ["201", "400", "403", "404", "409", "412", "413", "422"]),
    ("put", "/geolocations/ipblocks"): ("replaceBlock", ["200", "400", "403", "404", "409", "412", "413", "422"]),
    ("delete", "/geolocations/ipblocks"): ("deleteBlocks", ["200", "400", "403", "404", "412"]),
}


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    return dict(client.get("/schema/openapi.json").raise_for_status().json())


def test_every_operation_is_there_and_no_other(document: dict[str, Any]) -> None:
    found = {(method, path) for path, item in document["paths"].items() for method in item}
    assert found == set(OPERATIONS)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_an_operation_says_its_parameters_body_and_every_answer(
    document: dict[str, Any], method: str, path: str
) -> None:
    name, statuses = OPERATIONS[method, path]
    operation = document["paths"][path][method]
    assert operation["operationId"] == name
    assert operation["summary"]
    assert sorted(operation["responses"]) == sorted([*statuses, "421", "500", "503"])
    for status, answer in operation["responses"].items():
        if int(status) >= 400:
            assert list(answer["content"]) == ["application/problem+json"]
    parameters = {one["name"]: one.get("required", False) for one in operation["parameters"]}
    if method == "get":
        assert set(parameters) > {"top", "country", "region", "city", "postalcode"}
    elif name != "createGeolocation":
        assert parameters["locid"] is True
    assert ("requestBody" in operation) == (method in ("post", "put"))
    assert ("Idempotency-Key" in parameters) == (method == "post")


def test_every_problem_of_an_operation_is_documented_by_its_name(client: httpx.Client) -> None:
    text = client.get("/schema/openapi.json").text
    elsewhere = {"bad-request", "not-found", "method-not-allowed"}
    assert [name for name in PROBLEMS if f"`{name}`" not in text] == [n for n in PROBLEMS if n in elsewhere]


@pytest.mark.parametrize("path", ["/", "/schema", "/schema/openapi.json", "/schema/openapi.yaml", "/schema/swagger"])
def test_no_page_loads_anything_from_another_host(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert "html" not in answer.headers["content-type"]
    assert "<script" not in answer.text
