"""Programs that the process tests start as `python writers.py NAME FOLDER`. Each prints one JSON line."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from autosparse.cache import artefacts, locks
from autosparse.cache import store as records
from autosparse.cache.folder import Folder
from autosparse.cache.store import Store

N_PAYLOAD = 3000


def _content(number: int) -> bytes:
    """Return file content that shows whether it is complete."""
    return b"%08d" % number * N_PAYLOAD


def _is_whole(content: bytes) -> bool:
    return content == _content(int(content[:8]))


def _count(old: dict[str, object] | None) -> dict[str, object]:
    number = int(str((old or {"n": 0})["n"])) + 1
    return {"n": number, "payload": f"{number:08d}" * N_PAYLOAD}


def _work_until_killed(folder: Path, report: int) -> None:
    """Write counters, plans and kernels until killed, and report each counter value once it is saved."""
    roomy, tight = Store(folder / "roomy"), Store(folder / "tight", max_bytes=30 * 4096)
    number = 0
    while True:
        number += 1
        done = roomy.update("machine", "counter", _count)
        os.write(report, b"%08d" % int(str(done["n"])))
        for store in (roomy, tight):
            store.save("plan", f"plan{number % 3}", _count({"n": number}))
            store.artefact(f"kernel{number % 5}", partial(_write_kernel, number=number))
            store.remove("plan", "plan1")
        if number % 7 == 0:
            tight.clear()


def _write_kernel(path: Path, *, number: int) -> None:
    for name in ("kernel.so", "kernel.c"):
        with (path / name).open("wb") as file:
            for start in range(0, 8 * N_PAYLOAD, 4096):
                file.write(_content(number)[start : start + 4096])


def _check(folder: Path) -> Store:
    """Check what a process started after the kill must find: whole records, no locks, no quarantine."""
    store = Store(folder)
    names = [("machine", "counter"), *(("plan", f"plan{number}") for number in range(3))]
    for kind, key in names:
        record = store.load(kind, key)
        assert record is None or record["payload"] == f"{record['n']:08d}" * N_PAYLOAD, (kind, key)
        with store.exclusive(kind, key, wait_s=0.0) as is_held:
            assert is_held, f"leftover lock of {kind} {key}"
    for number in range(5):
        path = store.artefact(f"kernel{number}", partial(_write_kernel, number=0), wait_s=0.0)
        assert folder in path.parents, "leftover lock of a kernel"
        contents = [(path / name).read_bytes() for name in ("kernel.so", "kernel.c")]
        assert contents[0] == contents[1]
        assert _is_whole(contents[0])
    assert store.stats().n_quarantined == 0, "a reader met half a file"
    assert store.stats().access == "read and write"
    return store


def kill_loop(folder: Path, *, n_kills: int = 60) -> dict[str, object]:
    """Fork a writer, kill it at a random moment and check what it left, many times."""
    rng = random.Random(0)
    n_reports = n_left = 0
    for _ in range(n_kills):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _work_until_killed(folder, write_end)
            finally:
                os._exit(1)  # reached by an exception only: the parent then sees that the writer was not killed
        os.close(write_end)
        first = os.read(read_end, 8)  # the writer has begun
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "the writer failed by itself"
        rest = b""
        while piece := os.read(read_end, 1 << 16):
            rest += piece
        os.close(read_end)
        reports = first + rest
        n_reports += len(reports) // 8
        last = int(reports[-8:])
        counter = _check(folder / "roomy").load("machine", "counter")
        assert counter is not None
        assert counter["n"] in (last, last + 1), "a saved update was lost"
        _check(folder / "tight")
        n_left += sum(1 for _ in folder.glob("*/*/staging/*"))
        for part in ("roomy", "tight"):
            for name in ("kernel0", "kernel1"):  # so that the kill also interrupts builds
                shutil.rmtree(Folder.open(folder / part).kernel_path(artefacts.versioned_key(name)))
    for part in ("roomy", "tight"):
        Folder.open(folder / part).sweep(now=time.time() + 7200)
    assert not list(folder.glob("*/*/staging/*"))
    assert not list(folder.glob("*/*/locks/*"))
    return {"kills": n_kills, "reports": n_reports, "left": n_left}


def contend(folder: Path) -> dict[str, object]:
    """Build the same kernel and count in the same record as other processes at the same time."""
    records.UPDATE_WAIT_S = 60.0  # type: ignore[misc]  # on a busy machine each process waits long for the others
    store = Store(folder)

    def build(path: Path) -> None:
        (folder / f"built.{os.getpid()}").touch()
        time.sleep(0.2)
        _write_kernel(path, number=1)

    (folder / f"ready.{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.001)
    path = store.artefact("kernel", build)
    for _ in range(20):
        store.update("machine", "counter", lambda old: {"n": (old or {"n": 0})["n"] + 1})
    return {"path": str(path), "whole": _is_whole((path / "kernel.so").read_bytes())}


def fork_while_locked(folder: Path) -> dict[str, object]:
    """Fork while another thread holds locks and mutexes.

    The child must be able to work, and must not inherit the lock.
    """
    store = Store(folder)
    entered, leave = threading.Event(), threading.Event()

    def hold_everything() -> None:
        with store.exclusive("plan", "k"), store._mutex, store._memory._mutex:
            entered.set()
            leave.wait()

    from autosparse.cache import stores

    stores._stores["test"] = store
    thread = threading.Thread(target=hold_everything)
    thread.start()
    entered.wait()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(200)  # a deadlock must not outlive the test
        try:
            with store.exclusive("plan", "k") as is_held:
                while_parent_holds = is_held
            store.save("plan", "j", {"from": "child"})
            seen = [while_parent_holds, store.load("plan", "j"), len(locks._held)]
            os.write(write_end, json.dumps(seen).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    held, record, n_held = json.loads(os.read(read_end, 1000))
    leave.set()
    thread.join()
    with store.exclusive("plan", "k") as again:
        return {"child held": held, "child record": record, "child locks": n_held, "parent again": again}


def orphan_lock(folder: Path) -> dict[str, object]:
    """Kill a process that holds a lock and has a forked child that lives on."""
    read_end, write_end = os.pipe()
    victim = os.fork()
    if victim == 0:
        entered, store = threading.Event(), Store(folder)

        def hold() -> None:
            with store.exclusive("plan", "k"):
                entered.set()
                time.sleep(600)

        threading.Thread(target=hold, daemon=True).start()
        entered.wait()
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        os.write(write_end, b"%08d" % child)
        time.sleep(600)
    child = int(os.read(read_end, 8))
    with Store(folder).exclusive("plan", "k") as before:
        pass
    os.kill(victim, signal.SIGKILL)
    os.waitpid(victim, 0)
    with Store(folder).exclusive("plan", "k", wait_s=60.0) as after:
        pass
    os.kill(child, signal.SIGKILL)
    return {"before": before, "after": after}


PROGRAMS = {
    "kill_loop": kill_loop,
    "contend": contend,
    "fork_while_locked": fork_while_locked,
    "orphan_lock": orphan_lock,
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]](Path(sys.argv[2]))))
