"""The answers of lookups, written as files that other programs read: MMDB, geofeed, CSV, Parquet."""
