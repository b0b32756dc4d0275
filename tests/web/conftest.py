"""What stands around requests is tested against a real one."""

from tests.support.services.kept_service import kept_on_postgresql, kept_on_sqlite, service
from tests.support.services.long_lists import loaded_list, long_list
from tests.support.services.service_fixtures import client, db, reading

__all__ = [
    "client", "db", "kept_on_postgresql", "kept_on_sqlite", "loaded_list", "long_list", "reading", "service",
]  # fmt: skip
