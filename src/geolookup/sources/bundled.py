"""The bundled data as a source, and what to say while nothing else answers.

Light, since ``geolookup 8.8.8.8`` passes here.
"""

#: The ``source`` of a generation that was built from the bundled registry data.
BUNDLED = "bundled"

#: How to get cities and fresher countries, in one line. Nothing of it is done unasked.
MORE = (
    "for cities: `geolookup source add dbip-city-lite`; for fresher countries: `geolookup source add rir`; "
    "then `geolookup sync`"
)
