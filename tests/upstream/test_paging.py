"""Lists that come in pages: one page is never taken for the whole list, and a whole list never for a page."""

import json
from typing import Any

import pytest

from geolookup.cli.app import run
from geolookup.model.errors import UpstreamAnswerError
from geolookup.upstream.geolocations import GeolocationsClient
from tests.faults.raw_server import RawServer, answer
from tests.support.data.lists import many
from tests.upstream.helpers import locids, transport

ROWS = many(3)


def around(text: str) -> bytes:
    """An object with the list in the place of LIST."""
    return text.replace("LIST", f'"items":{json.dumps(ROWS)}').encode()


PAGES = {
    '{"page":1,"pages":9,LIST}': "`pages` is 9",
    '{LIST,"page":1,"total_pages":"2"}': "`total_pages` is 2",
    '{"page":9,"pages":9,LIST}': "`pages` is 9",
    '{LIST,"meta":{"pagination":1,"lastPage":4}}': "`meta.lastPage` is 4",
    '{"total":4,LIST}': "`total` is 4, and it has 3 geolocations",
    '{LIST,"count":27}': "`count` is 27, and it has 3 geolocations",
    '{LIST,"@odata.count":4}': "`@odata.count` is 4, and it has 3 geolocations",
    '{"x":[],LIST,"page":{"size":3,"totalElements":4}}': "`page.totalElements` is 4, and it has 3 geolocations",
    '{LIST,"next":"https://x/geolocations?page=2&key=abc"}': "`next` says that more follow",
    '{LIST,"next_page":2}': "`next_page` says that more follow",
    '{LIST,"@odata.nextLink":"https://x/2"}': "`@odata.nextLink` says that more follow",
    '{"has_more":true,LIST}': "`has_more` says that more follow",
    '{"cursor":"abc",LIST}': "`cursor` says that more follow",
    '{LIST,"_links":{"self":{"href":"/1"},"next":{"href":"/2"}}}': "`_links.next` says that more follow",
    '{LIST,"pageInfo":{"hasNextPage":true}}': "`pageInfo.hasNextPage` says that more follow",
}  # fmt: skip
WHOLE = (
    '{"count":3,LIST}',
    '{LIST,"count":3,"total":3,"page":1,"pages":1,"limit":100}',
    '{"total":"3",LIST,"next":null,"previous":null}',
    '{LIST,"next":"","cursor":null,"has_more":false,"hasMore":"false"}',
    '{LIST,"_links":{"self":{"href":"/1"},"next":{"href":null}}}',
    '{LIST,"links":{"self":"/1","next":null,"last":"/1"},"meta":{"total":3,"cursor":""}}',
    '{LIST,"pages":null,"total":true,"count":{"blocks":9},"stats":{"total":900}}',
    '{LIST,"total":0}',
    '{LIST,"count":1}',
    '{"cursors":[],LIST,"page":{"size":3}}',
)


@pytest.mark.parametrize(("text", "said"), PAGES.items())
def test_one_page_of_several_is_refused_with_what_says_so(text: str, said: str) -> None:
    with RawServer(answer(around(text))) as server, pytest.raises(UpstreamAnswerError) as caught:
        locids(server)
    message = str(caught.value)
    assert message.startswith(f"the answer is one page of a list, not all of it: {said}. geolookup does not read pages")
    assert "path_list" in message
    assert "key=abc" not in message


@pytest.mark.parametrize("text", WHOLE)
def test_a_whole_list_is_not_taken_for_a_page(text: str) -> None:
    with RawServer(answer(around(text))) as server:
        assert locids(server) == [1, 2, 3]


@pytest.mark.parametrize("asked", [{"top": 3}, {"country": "US"}], ids=str)
def test_who_asks_for_a_part_may_get_one(asked: dict[str, Any]) -> None:
    with (
        RawServer(answer(around('{"total":900,LIST}'))) as server,
        transport(server) as connection,
        GeolocationsClient(connection).list(**asked) as listing,
    ):
        assert len(list(listing)) == 3


def test_the_size_of_a_page_may_be_asked_for_in_the_path() -> None:
    with RawServer(answer(around('{"pages":1,LIST}'))) as server:
        assert locids(server, path_list="/geolocations?per_page=1000000") == [1, 2, 3]
    assert server.requests[0].target == "/geolocations?per_page=1000000"


@pytest.mark.parametrize(
    ("link", "is_page"),
    [
        ('<https://x/geolocations?page=2>; rel="next", <https://x/geolocations?page=9>; rel="last"', True),
        ("</1>; rel=prev, </3>; title=a; rel=next", True),
        ('</1>; rel="self next"', True),
        ('</1>; rel="prev", </a>; rel="nextension"', False),
        ('</next>; rel="self"', False),
        ("", False),
    ],
)
def test_a_header_that_links_to_the_next_page_counts_too(link: str, is_page: bool) -> None:
    with RawServer(answer(json.dumps(ROWS).encode(), headers=[f"Link: {link}"])) as server:
        if not is_page:
            assert locids(server) == [1, 2, 3]
            return
        with pytest.raises(
            UpstreamAnswerError, match="the list is one page of several: its header Link names the next"
        ):
            locids(server)


def test_a_sync_and_a_check_refuse_a_saved_page_and_say_what_to_save(
    capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEOLOOKUP_HOME", str(tmp_path / "state"))
    file = tmp_path / "page.json"
    file.write_bytes(around('{"page":1,"pages":9,LIST}'))
    for command in ("sync", "check"):
        assert run([command, str(file)]) == 1
        said = "".join(capsys.readouterr())
        assert "the file is one page of a list, not all of it: `pages` is 9" in said
        assert "Save all pages in one file: as one JSON array, or one geolocation a line" in said
