"""The same service by another address: the content decides whether there is anything new."""

import os
from pathlib import Path

from geolookup.settings.table import Settings
from geolookup.state.base.current import read_current
from geolookup.state.publishing.directory import StateDirectory
from geolookup.state.publishing.verify import verify
from geolookup.sync.pull.pull import pull
from tests.support.services.running_service import RunningService


def test_the_same_list_from_another_address_makes_no_generation_and_the_state_belongs_to_it(
    home: str, tmp_path: Path
) -> None:
    with RunningService(tmp_path / "service.db") as service:
        service.create(("10.0.0.0", "10.0.0.9"))
        directory, elsewhere = StateDirectory(home), service.url.replace("127.0.0.1", "localhost")
        pull(directory, Settings(url=service.url))
        first = read_current(home)
        report = pull(directory, Settings(url=elsewhere))
        assert (report.outcome, report.generation) == ("unchanged", 1)
        (warning,) = report.warnings
        assert warning.startswith(f"{elsewhere} has exactly what {service.url} had, so nothing new was published: ")
        second = read_current(home)
        assert (second.generation, second.digest) == (1, first.digest)
        assert (second.source, second.published["url"], directory.upstream_url()) == (elsewhere, elsewhere, elsewhere)
        assert os.listdir(os.path.join(home, "snapshots")) == ["000001"]
        assert pull(directory, Settings(url=elsewhere)).warnings == []  # by its ETag
        service.create(("10.9.0.0", "10.9.0.9"))
        assert pull(directory, Settings(url=elsewhere)).outcome == "published"
        assert verify(home) == []
