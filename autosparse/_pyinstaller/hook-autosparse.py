"""Modules, data and sources that a program with autosparse needs and that PyInstaller does not find by itself.

Names of the package are looked up at first use, so no import statement names their modules. The digest of generated
kernels reads the sources.
"""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

hiddenimports = collect_submodules("autosparse", filter=lambda name: ".research" not in name, on_error="ignore")
datas = collect_data_files("autosparse", include_py_files=True, excludes=["tuner/research", "**/__pycache__"])
