"""The interval index: arrays and files; no SQL, no HTTP."""
