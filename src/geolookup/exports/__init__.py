"""What lookups answer, written as files that other programs read: MMDB, geofeed, CSV, Parquet."""
