"""The bundled data as a source: their file, their date, and the advice to give while nothing else answers.

Light, since ``geolookup 8.8.8.8`` passes here.
"""

import os

#: The ``source`` of a generation that was built from the bundled registry data.
BUNDLED = "bundled"

#: How to get cities and fresher countries, in one line. Nothing of it is done unasked.
MORE = (
    "for cities: `geolookup source add dbip-city-lite`; for fresher countries: `geolookup source add rir`; "
    "then `geolookup sync`"
)


def bundled_ranges_path() -> str:
    """The file of the bundled registry data."""
    import geolookup_data

    return os.path.join(os.path.dirname(geolookup_data.__file__), "rir-country-ranges.csv.gz")


def bundled_date() -> str:
    """The moment of the bundled registry data, as `state.base.clock.now_text` writes moments."""
    import geolookup_data

    return str(geolookup_data.DATED)
