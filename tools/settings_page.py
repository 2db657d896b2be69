"""Write docs/settings.md from the table of settings.

python tools/settings_page.py
"""

from __future__ import annotations

from pathlib import Path

from autosparse.config import SETTINGS, Options

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
HEAD = """# Settings

Order of precedence: `with asp.options(name=value):`, then `asp.set_options(name=value)`, then the environment
variable, then the default. `python tools/settings_page.py` writes this page.

| name | environment | value | default | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the page as Markdown, with one row per setting."""
    default = Options()
    rows = (
        f"| `{row.name}` | `{row.env}` | {row.domain} | {getattr(default, row.name)} | {row.help} |\n"
        for row in SETTINGS.values()
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
