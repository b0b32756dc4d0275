"""The places of the state directory and the settings file, without importing platformdirs if possible.

The two rules for Linux (the XDG Base Directory Specification) stand here again because the import would double the
start-up time of ``geolookup 8.8.8.8``; a test holds them against platformdirs. Elsewhere platformdirs is asked.
"""

import os
import sys

SETTINGS_FILE = "geolookup.toml"

#: The state directory of the machine's service: the units name it, and so does the error of a user without a state.
SYSTEM_HOME = "/var/lib/geolookup"

#: The names of the other variables ``GEOLOOKUP_X``, which are not settings: the place of the file, the secrets, the
#: choice of reader.
NOT_SETTINGS = frozenset({"CONFIG", "TOKEN", "PING_URL", "PURE", "SERVE_TOKENS", "FLEET_KEY"})

#: The variable that keeps lookups to the reader in Python.
PURE = "GEOLOOKUP_PURE"


def _xdg(variable: str, *fallback: str) -> str:
    base = os.environ.get(variable, "").strip()
    if not os.path.isabs(base):  # the specification says that relative ones are ignored
        user = os.path.expanduser("~")
        # A user whom the system does not know has none; as in containers, it is the root directory then.
        base = os.path.join(user if os.path.isabs(user) else "/", *fallback)
    return os.path.join(base, "geolookup")


def default_home() -> str:
    """The state directory if no setting names one: the platform's user data directory."""
    if sys.platform == "linux" and "ANDROID_DATA" not in os.environ:
        return _xdg("XDG_DATA_HOME", ".local", "share")
    from platformdirs import user_data_dir

    return user_data_dir("geolookup", appauthor=False)


def default_reason() -> str:
    """Why `default_home` is where it is."""
    data, home = os.environ.get("XDG_DATA_HOME", "").strip(), os.environ.get("HOME")
    if os.path.isabs(data):
        return f"XDG_DATA_HOME is {data}"
    if not home:
        return "HOME is not set"
    return (
        f"HOME is {home}, which this user may not enter"
        if is_below_anothers_home(default_home())
        else f"HOME is {home}"
    )


def may_make_default_home() -> bool:
    """True if the environment says whose the directory is: without HOME, or if that is missing, nothing is made."""
    home = os.environ.get("HOME", "")
    return os.path.isabs(os.environ.get("XDG_DATA_HOME", "").strip()) or (os.path.isabs(home) and os.path.isdir(home))


def is_below_anothers_home(path: str) -> bool:
    """True if ``path`` is below HOME, and this user may not enter HOME: it was left over from another user."""
    home = os.environ.get("HOME", "").rstrip("/")
    return path.startswith(f"{home}/") and os.path.isdir(home) and not os.access(home, os.X_OK)


def is_own_settings(path: str) -> bool:
    """True if the settings file of a state directory is there, and this user's or root's to write alone.

    Another user's could name a file of this user as the secret for a service of theirs.
    """
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return not hasattr(os, "geteuid") or (found.st_uid in (0, os.geteuid()) and not found.st_mode & 0o022)


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


def settings_path(home: str | None = None) -> str:
    """The settings file: ``GEOLOOKUP_CONFIG``, else the state directory's own, else that of the user.

    The state directory is ``home``, else that which ``GEOLOOKUP_HOME`` names. Never one in the working directory: a
    stranger's folder must not redirect a token.
    """
    named = os.environ.get("GEOLOOKUP_CONFIG")
    if named:
        return named
    home = home or os.environ.get("GEOLOOKUP_HOME")
    if home and is_own_settings(own := os.path.join(os.path.abspath(os.path.expanduser(home)), SETTINGS_FILE)):
        return own
    if sys.platform == "linux" and "ANDROID_DATA" not in os.environ:
        return os.path.join(_xdg("XDG_CONFIG_HOME", ".config"), SETTINGS_FILE)
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("geolookup", appauthor=False), SETTINGS_FILE)
