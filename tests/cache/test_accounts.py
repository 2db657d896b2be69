"""Tests of the file of accounts: sums of rows, damaged rows, concurrent writers, and the limit on its size."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from autosparse.cache import trust
from autosparse.cache.accounts import ledger, rows
from autosparse.cache.accounts.rows import ACCOUNTS, ROW, Account, PlanNote, Spent
from autosparse.cache.store import Store
from hypothesis import given
from hypothesis import strategies as st

KEY, OTHER = b"k" * 16, b"o" * 16
NOTE = PlanNote(plan=b"p" * 16, stamp=b"s" * 16, default_s=2e-4, measured_s=1e-4, flags=rows.ASKED)
KERNEL = (b"n" * 16, b"d" * 16, b"t" * 16, (1 << 64) - 1)

amounts = st.floats(min_value=0.0, max_value=1e6)
counts = st.integers(min_value=0, max_value=1 << 20)
spents = st.builds(
    Spent, n_calls=counts, n_objects=counts, n_processes=counts, product_s=amounts, tuning_s=amounts, saved_s=amounts,
    life_s=amounts,
)  # fmt: skip


def spent_row(key: bytes = KEY, spent: Spent | None = None, *, now: float = 1.0) -> bytes:
    one = Spent(n_calls=10, n_processes=1, product_s=0.5, tuning_s=0.01, life_s=1.0)
    return rows.spent_row(key, spent or one, process=7, now=now)


def plan_row(key: bytes = KEY, note: PlanNote | None = NOTE, *, now: float = 1.0) -> bytes:
    return rows.plan_row(key, note, process=7, now=now)


def file_of(folder: Path) -> Path:
    return trust.root_of(folder) / ACCOUNTS


@given(st.lists(spents, max_size=6))
def test_an_account_is_the_sum_of_its_rows(parts):
    ((_, account),) = rows.folded([plan_row(), *(spent_row(KEY, one) for one in parts)]).values()
    assert account.spent.n_calls == sum(one.n_calls for one in parts)
    assert account.spent.product_s == pytest.approx(sum(one.product_s for one in parts))
    assert account.plan == NOTE


def search_row(key: bytes = KEY, next_step_s: float = 0.25, *, now: float = 1.0) -> bytes:
    return rows.search_row(key, next_step_s, process=7, now=now)


def test_the_last_step_cost_of_an_unfinished_search_counts_until_a_plan():
    found = rows.folded([search_row(), spent_row(), search_row(KEY, 0.5), spent_row()])[KEY][1]
    assert found.next_step_s == 0.5
    assert found.spent.n_processes == 2
    assert rows.folded([search_row(), plan_row()])[KEY][1].next_step_s == 0.0
    assert rows.folded([plan_row(), search_row()])[KEY][1].plan == NOTE


@given(at=st.integers(min_value=0, max_value=ROW.size - 1), bit=st.integers(min_value=0, max_value=7))
def test_a_step_cost_with_a_flipped_bit_is_ignored(at, bit):
    content = bytearray(search_row())
    content[at] ^= 1 << bit
    assert rows.folded([bytes(content)]).get(KEY, (0.0, Account()))[1].next_step_s == 0.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_an_impossible_step_cost_is_ignored(value):
    assert rows.folded([search_row(), search_row(KEY, value)])[KEY][1].next_step_s == 0.25


def test_compaction_keeps_the_step_cost_of_an_unfinished_search(tmp_path):
    ledger.append(tmp_path, [search_row(), plan_row(OTHER)])
    for at in range(40):
        assert ledger.append(tmp_path, [spent_row(OTHER, now=float(at))], max_bytes=16 * ROW.size)
    account = ledger.read(trust.root_of(tmp_path), KEY)
    assert account is not None
    assert account.next_step_s == 0.25


def test_the_last_note_counts_and_a_plan_is_forgotten():
    newer = PlanNote(plan=b"q" * 16, stamp=b"s" * 16)
    assert rows.folded([plan_row(), plan_row(KEY, newer)])[KEY][1].plan == newer
    assert rows.folded([plan_row(), plan_row(KEY, None)])[KEY][1].plan is None


def kernel_row(key: bytes = KEY, *, now: float = 1.0) -> bytes:
    return rows.kernel_row(key, KERNEL, process=7, now=now)


def test_a_kernel_is_noted_until_its_plan_is_replaced_or_forgotten():
    assert rows.folded([plan_row(), kernel_row(), spent_row()])[KEY][1].kernel == KERNEL
    assert rows.folded([plan_row(), kernel_row(), plan_row()])[KEY][1].kernel is None
    assert rows.folded([plan_row(), kernel_row(), plan_row(KEY, None)])[KEY][1].kernel is None


def test_compaction_keeps_a_noted_kernel(tmp_path):
    ledger.append(tmp_path, [plan_row(), kernel_row()])
    for at in range(40):
        assert ledger.append(tmp_path, [spent_row(OTHER, now=float(at))], max_bytes=16 * ROW.size)
    account = ledger.read(trust.root_of(tmp_path), KEY)
    assert account is not None
    assert (account.plan, account.kernel) == (NOTE, KERNEL)


def test_rows_are_found_by_their_key_alone(tmp_path):
    ledger.append(tmp_path, [spent_row(OTHER), spent_row(), plan_row(), plan_row(OTHER)])
    content = file_of(tmp_path).read_bytes()
    assert rows.with_key(content, KEY) == [spent_row(), plan_row()]
    assert ledger.read(trust.root_of(tmp_path), b"n" * 16) is None


@given(at=st.integers(min_value=0, max_value=2 * ROW.size - 1), bit=st.integers(min_value=0, max_value=7))
def test_a_row_with_a_wrong_bit_is_left_out(at, bit):
    content = bytearray(spent_row() + plan_row())
    content[at] ^= 1 << bit
    account = rows.folded(rows.rows_of(bytes(content))).get(KEY, (0.0, Account()))[1]
    if at < ROW.size:
        assert account.spent == Spent()
    else:
        assert account.plan is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 1e300])
def test_impossible_amounts_are_ignored(value):
    assert KEY not in rows.folded([spent_row(KEY, Spent(product_s=value))])
    assert KEY not in rows.folded([spent_row(now=value)])
    assert KEY not in rows.folded([plan_row(KEY, PlanNote(plan=b"p" * 16, stamp=b"s" * 16, default_s=value))])


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 1000, bytes(range(256)) * 10, b"k" * 960])
def test_invalid_account_file_is_ignored(tmp_path, content):
    ledger.append(tmp_path, [spent_row()])
    file_of(tmp_path).write_bytes(content)
    root = trust.root_of(tmp_path)
    assert ledger.read(root, KEY) is None
    assert ledger.append(tmp_path, [spent_row()])
    if len(content) % ROW.size:  # the next process that writes repairs a torn file
        account = ledger.read(root, KEY)
        assert account is not None
        assert account.spent.n_calls == 10


def test_a_torn_row_loses_nothing_else(tmp_path):
    ledger.append(tmp_path, [spent_row()])
    with file_of(tmp_path).open("ab") as file:
        file.write(spent_row()[:50])
    assert ledger.append(tmp_path, [spent_row(OTHER)])
    root = trust.root_of(tmp_path)
    found = [ledger.read(root, key) for key in (KEY, OTHER)]
    assert [one and one.spent.n_calls for one in found] == [10, 10]
    assert file_of(tmp_path).stat().st_size % ROW.size == 0


def test_the_file_is_bounded_and_keeps_what_was_used_last(tmp_path):
    most = 64 * ROW.size
    for at in range(300):
        key = at.to_bytes(16, "little")
        assert ledger.append(tmp_path, [spent_row(key, now=float(at)), plan_row(key, now=float(at))], max_bytes=most)
        assert file_of(tmp_path).stat().st_size <= most
    root = trust.root_of(tmp_path)
    newest, oldest = ledger.read(root, (299).to_bytes(16, "little")), ledger.read(root, (0).to_bytes(16, "little"))
    assert newest is not None
    assert newest.plan == NOTE
    assert oldest is None


def test_folding_keeps_the_sums(tmp_path):
    most = 16 * ROW.size
    for _ in range(100):
        assert ledger.append(tmp_path, [spent_row()], max_bytes=most)
    account = ledger.read(trust.root_of(tmp_path), KEY)
    assert account is not None
    assert (account.spent.n_calls, account.spent.n_processes) == (1000, 100)


WRITER = """
import sys
from pathlib import Path
from autosparse.cache.accounts import ledger, rows
key, most = sys.argv[2].encode() * 16, int(sys.argv[3])
for at in range(200):
    one = rows.Spent(n_calls=1, n_processes=int(at == 0), product_s=0.001)
    row = rows.spent_row(key, one, process=ledger.token(), now=float(at))
    assert ledger.append(Path(sys.argv[1]), [row], max_bytes=most)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks and signals of POSIX")
def test_processes_that_write_at_once_lose_nothing(tmp_path):
    """The file holds sixteen rows, so the processes fold it at nearly every write."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    keys = ["a", "a", "b", "c"]
    running = [subprocess.Popen([*command, key, str(16 * ROW.size)]) for key in keys]
    assert [process.wait(timeout=300) for process in running] == [0] * len(keys)
    found = [ledger.read(trust.root_of(tmp_path), key.encode() * 16) for key in "abc"]
    assert [one and one.spent.n_calls for one in found] == [400, 200, 200]
    assert not list((trust.root_of(tmp_path) / "staging").iterdir())


def test_a_folder_that_others_can_write_is_not_written(tmp_path):
    ledger.append(tmp_path, [spent_row()])
    root = trust.root_of(tmp_path)
    root.chmod(0o777)
    assert not ledger.append(tmp_path, [spent_row()])
    root.chmod(0o700)
    file_of(tmp_path).chmod(0o666)
    assert ledger.read(root, KEY) is None


def test_no_folder_can_be_made_where_a_file_lies(tmp_path):
    (tmp_path / "cache").write_text("")
    assert not ledger.append(tmp_path / "cache", [spent_row()])


def processes(calls: list[int], *, objects: int = 1) -> list[bytes]:
    """Return the rows of processes with these numbers of calls, one after the other."""
    return [
        rows.spent_row(KEY, Spent(n_calls=n, n_objects=objects, n_processes=1), process=at, now=float(at))
        for at, n in enumerate(calls)
    ]


@pytest.mark.parametrize("is_folded", [False, True])
def test_expected_calls_follow_what_processes_do_now(tmp_path, is_folded):
    """Check it from the second process on, also where the file was folded in between."""
    root = trust.made_root(tmp_path)

    def expected(calls: list[int], *, max_bytes: int = rows.MAX_BYTES) -> float | None:
        ledger.append(tmp_path, processes(calls), max_bytes=max_bytes)
        return ledger.read(root, KEY).expected_calls

    assert expected([1000]) is None
    assert expected([800]) == 800, "the last one"
    assert expected([1200]) == 1000, "the mean of all"
    assert expected([600]) == 600
    assert expected([900] * 18, max_bytes=rows.ROW.size * 4 if is_folded else rows.MAX_BYTES) == pytest.approx(
        900, rel=0.01
    )
    assert expected([10] * 20) == pytest.approx(10, rel=0.01)
    assert ledger.total(root).n_calls == 3600 + 900 * 18 + 200


def test_each_object_of_a_process_pays_for_itself(tmp_path):
    ledger.append(tmp_path, processes([1000, 1000], objects=50))
    assert ledger.read(trust.made_root(tmp_path), KEY).expected_calls == 20


@pytest.mark.parametrize("forget", [lambda store: store.clear(), lambda store: store.forget(["plan"])])
def test_accounts_go_with_the_plans(tmp_path, forget):
    store = Store(tmp_path)
    ledger.append(tmp_path, [spent_row()])
    forget(store)
    assert not file_of(tmp_path).exists()


def test_random_content_is_read_without_an_error(tmp_path):
    rng = random.Random(0)
    root = trust.made_root(tmp_path)
    for _ in range(50):
        (root / ACCOUNTS).write_bytes(KEY.join(rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(8))))
        assert ledger.read(root, KEY) is None
