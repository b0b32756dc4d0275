"""These tests run against a real service, too."""

from tests.support.services.service_fixtures import client, service, sqlite_db

__all__ = ["client", "service", "sqlite_db"]
