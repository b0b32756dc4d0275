"""The bundled data, as a package so that wheels and editable installs both carry it."""

#: When the ranges were aggregated; README.md beside this file says by whom.
DATED = "2026-02-01T00:00:00.000Z"
