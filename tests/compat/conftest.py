"""Where the suites of other projects run."""

#: They are run by modules here, which change their imports.
collect_ignore = ["upstream"]
