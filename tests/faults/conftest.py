"""These tests run against a real service, too."""

from tests.support.service_fixtures import client, service

__all__ = ["client", "service"]
