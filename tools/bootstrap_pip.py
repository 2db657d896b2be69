"""Install pip into the running environment from the package index, with the standard library alone.

The index is PIP_INDEX_URL, or pypi.org. The digest of the wheel must equal the digest that the index states.
"""

import hashlib
import html
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
LINK = re.compile(r'<a\s[^>]*href="([^"]*/(pip-(\d+(?:\.\d+)*)-py3-none-any\.whl))#sha256=([0-9a-f]{64})"([^>]*)>')


def fetch(address: str) -> bytes:
    """Return the bytes at `address`."""
    request = urllib.request.Request(address, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def newest_wheel() -> "tuple[str, str, str]":
    """Return address, file name and sha256 of the newest final release of pip."""
    page = f"{INDEX}/pip/"
    links = [m for m in LINK.finditer(html.unescape(fetch(page).decode())) if "data-yanked" not in m[5]]
    if not links:
        raise SystemExit(f"{page} lists no wheel of pip")
    best = max(links, key=lambda m: tuple(map(int, m[3].split("."))))
    return urljoin(page, best[1]), best[2], best[4]


def main() -> int:
    """Download the wheel of pip, check its digest and run its own installer."""
    address, name, digest = newest_wheel()
    wheel = fetch(address)
    if hashlib.sha256(wheel).hexdigest() != digest:
        sys.stderr.write(f"{address} does not have the digest {digest} that the index states\n")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(wheel)
        return subprocess.call([sys.executable, str(path / "pip"), "install", "--quiet", "--no-index", str(path)])


if __name__ == "__main__":
    sys.exit(main())
