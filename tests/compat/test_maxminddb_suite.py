"""maxminddb's own tests of its reader, with the import changed."""

from collections.abc import Iterator

import pytest

from tests.compat.suites import DATABASES, left_out, loaded, named_in, states

SUITE = "maxminddb/reader_test.py"
UPSTREAMS_IMPORT = """import maxminddb

try:
    import maxminddb.extension
except ImportError:
    maxminddb.extension = None  # type: ignore[assignment]

from maxminddb import InvalidDatabaseError, open_database
"""
IMPORT = """from types import SimpleNamespace
from geolookup.compat import maxminddb as ours
from geolookup.compat.maxminddb import InvalidDatabaseError, open_database
maxminddb = SimpleNamespace(extension=None, reader=ours, Reader=ours.Reader, open_database=open_database)
"""
#: The records of this file are texts, which a sync refuses.
_ROWS = """            {{
                "ip": "{0}",
                "file_name": "MaxMind-DB-no-ipv4-search-tree.mmdb",
                "expected_prefix_len": {1},
                "expected_record": {2},
            }},
"""
_OF_TEXTS = (
    *(("200.0.2.1", 0, '"::/64"'), ("::200.0.2.1", 64, '"::/64"')),
    *(("0:0:0:0:ffff:ffff:ffff:ffff", 64, '"::/64"'), ("ef00::", 1, "None")),
)
_suite = loaded(SUITE, {UPSTREAMS_IMPORT: IMPORT, **{_ROWS.format(*row): "" for row in _OF_TEXTS}})

_LIMITS = "of a file made to use up memory: a sync reads files, within limits of its own, and a state has none of it"
_DAMAGED = "of a damaged file, which a sync refuses: no state is made of it"
_DESCRIPTOR = "of file descriptors: a state is a directory"
LEFT_OUT = {
    "test_payload_amplification_is_rejected": _LIMITS,
    "test_payload_amplification_string_is_rejected": _LIMITS,
    "test_payload_amplification_worst_case_is_rejected": _LIMITS,
    "test_pointer_fan_out_fixture_is_rejected": _LIMITS,
    "test_pointer_fan_out_ipv6_fixture_is_rejected": _LIMITS,
    "test_value_count_boundary": _LIMITS,
    "test_payload_at_limit_is_accepted": _LIMITS,
    "test_payload_one_over_limit_is_rejected": _LIMITS,
    "test_metadata_payload_limit_is_enforced_on_open": _LIMITS,
    "test_broken_database": _DAMAGED,
    "test_search_tree_past_end_of_file": _DAMAGED,
    "test_database_with_invalid_utf8_key": _DAMAGED,
    "test_metadata_pointers": "of a file without any record, of which a sync makes no state",
    "test_no_ipv4_search_tree": "of a file whose records are texts, which a sync refuses",
    "test_no_extension_exception": "of upstream's extension: there is one reader here, whatever the mode",
    "test_reading_from_buffer": _DESCRIPTOR,
}
# All modes mean the same for a state, so one of the classes that differ in the mode runs, and the one that asks with
# objects of ipaddress. TestFDReader is of file descriptors; TestReaderInitialization and TestSearchTreeNodes are of the
# insides of upstream's reader.
TestAutoReader = left_out(_suite.TestAutoReader, LEFT_OUT)
TestMMAPReaderWithIPObjects = left_out(_suite.TestMMAPReaderWithIPObjects, LEFT_OUT)
TestOldReader = _suite.TestOldReader


@pytest.fixture(autouse=True, scope="module")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("maxminddb")
    (folder / "README.rst").write_text("No database.\n")
    files = [DATABASES / name for name in _names() if (DATABASES / name).exists()]
    assert len(files) >= 12
    states(folder / "tests/data/test-data", files)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield


def _names() -> list[str]:
    made = [f"MaxMind-DB-test-{kind}-{bits}.mmdb" for kind in ("ipv4", "ipv6", "mixed") for bits in (24, 28, 32)]
    return sorted({*made, *named_in(SUITE)})


def test_the_reader_of_the_suite_is_ours() -> None:
    assert _suite.open_database.__module__ == "geolookup.compat.maxminddb"
