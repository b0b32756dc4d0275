"""The accelerator, and what pyproject.toml cannot say of it: how it is built depends on the interpreter and the folder.

With no compiler the install succeeds without it, and the pure reader serves. One build, to the stable ABI, serves every
release of Python from 3.11 on.
"""

import os
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup

# What it keeps between two calls is guarded by the GIL alone, and without one Python 3.13 and 3.14 have no stable ABI.
# Importing it would bring the GIL back for the whole process: there the pure reader serves.
WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# Whoever sets it, as for the library itself, gets a wheel for any platform.
PURE = os.environ.get("GEOLOOKUP_PURE", "0") not in ("", "0")


def accelerator() -> Extension:
    """The extension, whose bytes do not depend on where it is built."""
    arguments = []
    if sys.platform != "win32":
        arguments = ["-g0", f"-ffile-prefix-map={os.getcwd()}=."]
    return Extension(
        "geolookup.index._native",
        ["src/geolookup/index/_native.c"],
        depends=sorted(glob("src/geolookup/index/_*.h")),
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        extra_compile_args=arguments,
        py_limited_api=True,
        optional=True,
    )


if PURE or WITHOUT_GIL:
    setup()
else:
    setup(ext_modules=[accelerator()], options={"bdist_wheel": {"py_limited_api": "cp311"}})
