"""Run PyTorch's own tests of sparse CSR tensors with and without the override: the same tests must pass.

    python tests/torch/upstream.py ~/pytorch/test/test_sparse_csr.py
    python tests/torch/upstream.py ~/pytorch/test/test_sparse_csr.py --all
    python tests/torch/upstream.py ~/pytorch/test/test_sparse_csr.py --control

The file comes from a checkout of PyTorch that fits the installed version (with `expecttest` installed), or is a port
of it to another device that runs on the CPU, such as test/xpu/test_sparse_csr_xpu.py of intel/torch-xpu-ops. It is run
three times, each in a process of its own: by PyTorch, under the override, and under the override without the small
products of the C++ module, which would otherwise compute most of the tests' products. `--control` makes our products
wrong by 1 in the last element: tests that fail then do check our answers. Exit status 0: outcomes are equal (with
--control: some tests fail).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PRODUCTS = "(addmm or addmv or matmul or mm or mv or sampled or autograd or mul or baddbmm) and not Triton"
MODE, OUT = "AUTOSPARSE_UPSTREAM_MODE", "AUTOSPARSE_UPSTREAM_OUT"
KERNELS = {
    "native": ("mm", "sddmm", "extreme", "extreme_backward"), "products": ("mm",),
    "dispatcher.direct": ("multiply", "sample"),
}  # fmt: skip
WRONG = ("mm", "sddmm", "multiply", "sample")  # functions whose results --control changes


class Outcomes:
    """Pytest plugin that writes the outcome of every test and the calls of our kernels as JSON."""

    def __init__(self, mode: str, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        if mode != "stock":
            import autosparse.torch
            from autosparse.torch.dispatcher import extension

            self._count(spoil=mode == "control")
            if mode != "override" and extension.library is not None:
                extension.library.compute(False)
            autosparse.torch.install()

    def _count(self, *, spoil: bool) -> None:
        from importlib import import_module

        for module, names in KERNELS.items():
            home = import_module(f"autosparse.torch.{module}")
            for name in names:
                setattr(home, name, self._counting(getattr(home, name), name, spoil=spoil and name in WRONG))

    def _counting(self, function, name, *, spoil):
        def call(*args, **kwargs):
            result = function(*args, **kwargs)
            if result is not None:
                self.calls[name] += 1
                if spoil:
                    values = result.values() if name == "sample" else result
                    values.view(-1)[-1:] += 1
            return result

        return call

    def pytest_runtest_logreport(self, report) -> None:
        """Record the outcome of a test; failures of set-up and tear-down count too."""
        if report.when == "call" or report.outcome != "passed":
            kind = "xfailed" if hasattr(report, "wasxfail") and report.skipped else report.outcome
            self.outcomes[report.nodeid.split("::", 1)[-1]] = kind

    def pytest_sessionfinish(self) -> None:
        """Write outcomes and calls for the parent process."""
        self.path.write_text(json.dumps({"outcomes": self.outcomes, "calls": self.calls}))


def pytest_configure(config) -> None:
    """Register the plugin in the child process."""
    if MODE in os.environ:
        config.pluginmanager.register(Outcomes(os.environ[MODE], Path(os.environ[OUT])), "upstream-outcomes")


def run(file: Path, mode: str, selection: str) -> dict[str, dict[str, str]]:
    """Return outcomes and calls of one process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outcomes.json"
        here = str(Path(__file__).resolve().parent)
        paths = os.pathsep.join(filter(None, (here, str(file.parent), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {
            "PYTHONPATH": paths, "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu", MODE: mode, OUT: str(out),
        }  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "upstream", "-p", "no:cacheprovider", "-p", "no:randomly",
            "-c", os.devnull, "--rootdir", str(file.parent), "--tb=no", "--no-header", "-W", "ignore", "-k", selection,
            str(file),
        ]  # fmt: skip
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(f"pytest did not run:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        found: dict[str, dict[str, str]] = json.loads(out.read_text())
        return found


def main() -> int:
    """Run the tests in each mode, compare the outcomes, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", type=Path, help="test_sparse_csr.py of a checkout of PyTorch, or a port of it")
    parser.add_argument("--all", action="store_true", help="every test but Triton's, not only products")
    parser.add_argument("--control", action="store_true", help="with wrong products: how many tests notice")
    args = parser.parse_args()
    selection = "not Triton" if args.all else PRODUCTS
    file = args.file.resolve()
    stock = run(file, "stock", selection)
    modes = {"with wrong products": "control"} if args.control else {"override": "override", "the long way": "long way"}
    found = {name: run(file, mode, selection) for name, mode in modes.items()}
    for name, one in ({"stock": stock} | found).items():
        counts = Counter(one["outcomes"].values())
        print(f"{name}: {len(one['outcomes'])} tests, " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    differ = set()
    for name, one in found.items():
        print(f"calls of our kernels, {name}: " + ", ".join(f"{kind} {n}" for kind, n in sorted(one["calls"].items())))
        for test in sorted(stock["outcomes"].keys() | one["outcomes"].keys()):
            pair = stock["outcomes"].get(test), one["outcomes"].get(test)
            if pair[0] != pair[1]:
                differ.add(test)
                if not args.control:
                    print(f"  {test}: {pair[0]} -> {pair[1]}")
    print(f"{len(differ)} tests differ")
    return int(bool(differ) is not args.control)


if __name__ == "__main__":
    raise SystemExit(main())
