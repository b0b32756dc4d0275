"""The parts that describe an operation in the OpenAPI document: parameters, bodies, answers and every problem."""

from dataclasses import dataclass
from typing import Any

from litestar.openapi.spec import (
    Components,
    OpenAPIFormat,
    OpenAPIHeader,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Operation,
    Parameter,
    RequestBody,
    Schema,
    SecurityScheme,
)

from geolookup.web.problems import ANYWHERE, MEDIA_TYPE, PROBLEMS

TEXT = Schema(type=OpenAPIType.STRING)
INTEGER = Schema(type=OpenAPIType.INTEGER)
#: Formats of JSON Schema (draft 2020-12, validation, section 7.3.4), which are as strict as `model.addresses`.
ADDRESS = Schema(
    any_of=[
        Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.IPV4),
        Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.IPV6),
    ],
    description="A strict dotted quad, or IPv6 (RFC 4291) without a zone.",
)
NULLABLE_NUMBER = Schema(type=[OpenAPIType.NUMBER, OpenAPIType.NULL])


def object_of(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """An object with these members, all required except the optional ones; it may have others."""
    required = [name for name in properties if name not in optional]
    return Schema(type=OpenAPIType.OBJECT, properties=dict(properties), required=required)


def array_of(items: Schema) -> Schema:
    """An array of any length."""
    return Schema(type=OpenAPIType.ARRAY, items=items)


_PROBLEM = Schema(
    type=OpenAPIType.OBJECT,
    properties={
        "type": TEXT,
        "title": TEXT,
        "status": INTEGER,
        "detail": TEXT,
        "errors": array_of(object_of({"pointer": TEXT, "detail": TEXT})),
    },
    required=["type", "title", "status", "detail"],
)


def query(name: str, schema: Schema, description: str, *, required: bool = False) -> Parameter:
    """A query parameter."""
    return Parameter(name=name, param_in="query", schema=schema, description=description, required=required)


def header(name: str, description: str) -> Parameter:
    """A request header, which may be left out."""
    return Parameter(name=name, param_in="header", schema=TEXT, description=description, required=False)


def path(name: str, schema: Schema, description: str) -> Parameter:
    """A part of the path."""
    return Parameter(name=name, param_in="path", schema=schema, description=description, required=True)


def content(media_type: str, schema: Schema) -> dict[str, OpenAPIMediaType]:
    """A body of one media type."""
    return {media_type: OpenAPIMediaType(schema=schema)}


def _problems(names: tuple[str, ...]) -> dict[str, OpenAPIResponse]:
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys((*names, *ANYWHERE)):
        by_status.setdefault(PROBLEMS[name][0], []).append(name)
    return {
        str(status): OpenAPIResponse(
            description="Problem: " + ", ".join(f"`{name}`" for name in found),
            content=content(MEDIA_TYPE, _PROBLEM),
            headers={"Retry-After": OpenAPIHeader(schema=INTEGER)} if status in (429, 503) else None,
        )
        for status, found in sorted(by_status.items())
    }


def operation(
    summary: str,
    parameters: list[Parameter],
    body: Schema | None,
    answers: dict[str, OpenAPIResponse],
    refusals: tuple[str, ...],
) -> type[Operation]:
    """A class that Litestar fills in from the handler, and that adds what the handler's signature cannot say.

    ``answers`` are by status; ``refusals`` are names of `problems.PROBLEMS`, in addition to those of every operation.
    """

    @dataclass
    class Described(Operation):
        def __post_init__(self) -> None:
            self.summary = summary
            self.parameters = list(parameters)
            self.request_body = None if body is None else RequestBody(content("application/json", body), required=True)
            self.responses: Any = {**answers, **_problems(refusals)}

    return Described


def answer(schema: Schema, description: str, *headers: str) -> OpenAPIResponse:
    """An answer in JSON, with the headers that it always has."""
    return OpenAPIResponse(
        description=description,
        content=content("application/json", schema),
        headers={name: OpenAPIHeader(schema=TEXT) for name in headers} or None,
    )


#: What any operation with a body refuses.
NOT_JSON = ("malformed-json", "body-too-large", "encoded-body", "invalid-body")
_STATUS = object_of({"status": TEXT})
HEALTHZ = operation("Whether this process is alive", [], None, {"200": answer(_STATUS, "It is.")}, ())
READYZ = operation(
    "Whether this process should get requests",
    [],
    None,
    {
        "200": answer(
            object_of({"status": TEXT, "remark": TEXT}, optional=("remark",)),
            "It should. The remark says that the database is empty.",
        )
    },
    ("not-ready",),
)
METRICS = operation(
    "What this service has done, for Prometheus",
    [],
    None,
    {"200": OpenAPIResponse(description="Prometheus's text format.", content=content("text/plain", TEXT))},
    (),
)

COMPONENTS = Components(
    security_schemes={
        "token": SecurityScheme(
            type="http", scheme="bearer", description="With the scope read or write, if the service has tokens."
        )
    }
)
#: A token, or none: a service on loopback may have none.
SECURITY: list[dict[str, list[str]]] = [{"token": []}, {}]
