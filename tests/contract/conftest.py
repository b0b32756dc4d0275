"""Contract tests run against a real one."""

from tests.support.service_fixtures import client, db, reading, service

__all__ = ["client", "db", "reading", "service"]
