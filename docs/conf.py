"""Configuration of the documentation site; `make docs` builds it, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from autosparse import __version__

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "autosparse"
author = "The autosparse developers"
copyright = "the autosparse developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "_site",  # makes tables and plots from benchmarks/results, checks links
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_generated", "gallery_src", "README.md", "design/archive"]
suppress_warnings = ["config.cache", "myst.xref_missing"]  # _site.py checks links to files
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"

sphinx_gallery_conf = {
    "examples_dirs": ["gallery_src"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = f"autosparse {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
# Pages without a toctree have no sidebar, which leaves the width to their tables.
html_sidebars = {page.stem: [] for page in HERE.glob("*.md") if "toctree" not in page.read_text(encoding="utf-8")} | {
    "index": []
}
