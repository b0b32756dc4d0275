"""These tests run against a real service, too."""

from tests.support.services.kept_service import kept_on_sqlite, service_on_sqlite
from tests.support.services.service_fixtures import client, sqlite_db

__all__ = ["client", "kept_on_sqlite", "service_on_sqlite", "sqlite_db"]
