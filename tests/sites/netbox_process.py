"""`NetBoxServer` as a process of its own: its address is printed; after a line of input it has other sites."""

import sys

from tests.sites.netbox_server import Made, NetBoxServer


def _before() -> Made:
    made = Made()
    germany = made.region("Germany", "de")
    for name, latitude, prefix in (("Bonn", 50.7, "10.77.0.0/16"), ("Köln", 50.9, "172.16.0.0/16")):
        site = made.site(name, germany, latitude=latitude, longitude=7.1, time_zone="Europe/Berlin")
        made.prefix(prefix, site)
    made.prefix("10.77.0.0/16", made.sites[0], vrf=made.vrf("CUST-A", "65000:1"))
    return made


def _change(made: Made) -> None:
    made.sites[0]["latitude"] = 51.0
    made.prefixes[1]["status"] = {"value": "deprecated", "label": "Deprecated"}
    essen = made.site("Essen", made.regions[0], latitude=51.4, longitude=7.0)
    made.prefix("172.17.0.0/16", essen)
    made.prefix("10.78.0.0/16", essen, vrf=made.vrf("CUST-A", "65000:1"))


def main() -> None:
    """Serve until the input ends."""
    with NetBoxServer(_before()) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            _change(server.made)
            print("changed", flush=True)


if __name__ == "__main__":
    main()
