"""The places of the state directory and the settings file, without importing platformdirs if possible.

The two rules for Linux (the XDG Base Directory Specification) stand here again because the import would double the
start-up time of ``geolookup 8.8.8.8``; a test holds them against platformdirs. Elsewhere platformdirs is asked.
"""

import os
import sys

SETTINGS_FILE = "geolookup.toml"

#: The names of the other variables ``GEOLOOKUP_X``, which are not settings: the place of the file, the secrets, the
#: choice of reader.
NOT_SETTINGS = frozenset({"CONFIG", "TOKEN", "PING_URL", "PURE", "SERVE_TOKENS"})

#: The variable that keeps lookups to the reader in Python.
PURE = "GEOLOOKUP_PURE"


def _xdg(variable: str, *fallback: str) -> str:
    base = os.environ.get(variable, "").strip()
    if not os.path.isabs(base):  # the specification says that relative ones are ignored
        base = os.path.join(os.path.expanduser("~"), *fallback)
    return os.path.join(base, "geolookup")


def default_home() -> str:
    """The state directory if no setting names one: the platform's user data directory."""
    if sys.platform == "linux" and "ANDROID_DATA" not in os.environ:
        return _xdg("XDG_DATA_HOME", ".local", "share")
    from platformdirs import user_data_dir

    return user_data_dir("geolookup", appauthor=False)


def plain_home() -> str | None:
    """The state directory if only ``home`` is set, and by its variable; else None: then read the settings.

    With this, a lookup on a machine without a settings file imports nothing that reads or checks settings.
    """
    home = ""
    for name, value in os.environ.items():
        if name == "GEOLOOKUP_HOME":
            home = value
        elif name.startswith("GEOLOOKUP_") and (name == "GEOLOOKUP_CONFIG" or name[10:] not in NOT_SETTINGS):
            return None
    try:
        os.stat(settings_path())
    except FileNotFoundError:
        return os.path.abspath(os.path.expanduser(home)) if home else default_home()
    except (OSError, ValueError):
        pass  # for the reading to say
    return None


def settings_path() -> str:
    """The settings file: ``GEOLOOKUP_CONFIG``, else one in the user's configuration directory.

    Never one in the working directory: a stranger's folder must not redirect a token.
    """
    named = os.environ.get("GEOLOOKUP_CONFIG")
    if named:
        return named
    if sys.platform == "linux" and "ANDROID_DATA" not in os.environ:
        return os.path.join(_xdg("XDG_CONFIG_HOME", ".config"), SETTINGS_FILE)
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("geolookup", appauthor=False), SETTINGS_FILE)
