"""Contract tests run against a real one."""

from tests.support.service_fixtures import client, service

__all__ = ["client", "service"]
