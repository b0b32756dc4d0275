"""Write every generated page: ``make docs``, or ``python -m tests.docs``."""

from tests.docs.pages import FOLDER, PAGES

for name, page in PAGES.items():
    (FOLDER / name).write_text(page(), encoding="utf-8")
