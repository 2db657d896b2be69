"""Sharing: what one worker finds by tuning, the others use; the scheduler keeps it when workers are lost.

A worker tells the scheduler of each plan that it remembers; the scheduler tells the other workers, and those that join
later. Messages are the text of wisdom files: data only, checked where they arrive. (As text, because Dask's own format
makes tuples of lists, and a record with tuples is not the record that was sealed.)
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from autosparse import cache
from autosparse.cache import wisdom
from autosparse.cache.records import WISDOM_KINDS
from autosparse.cache.store import LISTENERS
from autosparse.errors import CacheError, MissingExtraError
from autosparse.log import event

try:
    from distributed import SchedulerPlugin, WorkerPlugin
except ImportError as error:
    raise MissingExtraError.needed("distributed", extra="dask", purpose="autosparse.dask.share_plans") from error

if TYPE_CHECKING:
    from distributed import Client

NAME: Final = "autosparse-plans"
PUSH: Final = "autosparse_plans"
PULL: Final = "autosparse_known_plans"
MAX_KEPT: Final = 100_000
"""Records that the scheduler keeps; the oldest go first."""
SHARED_KINDS: Final = tuple(kind for kind in WISDOM_KINDS if kind != "history")
"""Histories count the calls of one process, at every flush: they stay where they are."""


def share_plans(client: Client, *, known: bool = True) -> None:
    """Let the workers of `client` tell each other what they find by tuning, those that join later too.

    `known`: this process's own plans go to them as well. Twice does no harm.

    >>> with distributed.Client(processes=False, dashboard_address=None) as client:
    ...     asp.dask.share_plans(client)  # before the work begins
    """
    client.register_plugin(SchedulerSide(), name=NAME)
    client.register_plugin(WorkerSide(), name=NAME)
    if known and (mine := cache.open_store().envelopes(SHARED_KINDS)):
        client.run_on_scheduler(_take, text=_text_of(wisdom.document_of(mine)["entries"]))


def fetch_plans(client: Client) -> int:
    """Merge what the cluster has found so far into this process's cache; how many records were kept.

    Then `autosparse.wisdom_export` writes them to a file. CacheError where `share_plans` was not called.

    >>> with distributed.Client(processes=False, dashboard_address=None) as client:
    ...     asp.dask.share_plans(client)
    ...     asp.dask.fetch_plans(client)  # nothing was tuned
    0
    """
    found = client.run_on_scheduler(_known)
    if found is None:
        cure = "call share_plans(client) before the work begins."
        raise CacheError.failed("fetch plans from", client.scheduler.address, reason="they are not shared", cure=cure)
    return wisdom.merge(cache.open_store(), json.loads(found), name="the scheduler")


def _text_of(entries: list[Any]) -> str:
    """What a wisdom file with these records says."""
    return json.dumps({**wisdom.document_of(()), "entries": entries})


def _take(dask_scheduler: Any, text: str) -> None:
    dask_scheduler.plugins[NAME].take(text)


def _known(dask_scheduler: Any) -> str | None:
    plugin = dask_scheduler.plugins.get(NAME)
    return None if plugin is None else plugin.text()


class SchedulerSide(SchedulerPlugin):  # type: ignore[misc]
    """Keeps the newest record of each key, and passes on what is new."""

    name = NAME

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Any] = {}
        self.scheduler: Any = None

    def start(self, scheduler: Any) -> None:
        """Listen to workers; what an earlier plugin of this name knew is kept."""
        self.scheduler = scheduler
        earlier = scheduler.plugins.get(NAME)
        if isinstance(earlier, SchedulerSide) and earlier is not self:
            self.records.update(earlier.records)
        scheduler.stream_handlers[PUSH] = self.take
        scheduler.handlers[PULL] = self.pulled

    async def pulled(self) -> str:
        """Everything, for a worker that joins."""
        return self.text()

    def text(self) -> str:
        """Everything that is known, as wisdom."""
        return _text_of(list(self.records.values()))

    def take(self, text: str, worker: str | None = None, **_: Any) -> None:
        """Keep the records that are new and tell all workers but the one that sent them."""
        new = [entry for entry in json.loads(text)["entries"] if self._is_new(entry)]
        if not new:
            return
        message = {"op": PUSH, "text": _text_of(new)}
        for address, comm in self.scheduler.stream_comms.items():
            if address != worker:
                comm.send(message)

    def _is_new(self, entry: Any) -> bool:
        name = (entry["kind"], entry["key"])
        if (mine := self.records.get(name)) is not None and mine["checksum"] == entry["checksum"]:
            return False
        self.records[name] = entry
        if len(self.records) > MAX_KEPT:
            del self.records[next(iter(self.records))]
        return True


class WorkerSide(WorkerPlugin):  # type: ignore[misc]
    """Tells the scheduler what this worker remembers, and remembers what the scheduler tells."""

    name = NAME

    def __init__(self) -> None:
        self.worker: Any = None
        self.heard: set[str] = set()

    async def setup(self, worker: Any) -> None:
        """Ask for what is known, then listen to both sides."""
        self.worker = worker
        worker.stream_handlers[PUSH] = self.adopt
        self.adopt(await getattr(worker.scheduler, PULL)())
        LISTENERS.append(self.tell)

    def teardown(self, worker: Any) -> None:
        """Stop listening."""
        if self.tell in LISTENERS:
            LISTENERS.remove(self.tell)

    def adopt(self, text: str, **_: Any) -> None:
        """Remember what others found."""
        document = json.loads(text)
        self.heard.update(entry["checksum"] for entry in document["entries"])
        try:
            n_kept = wisdom.merge(cache.open_store(), document, name="the scheduler")
        except CacheError as err:  # a scheduler of another release
            event("fallback", f"plans from the scheduler are not used: {err}")
            return
        event("cache", "plans came from other workers", kept=n_kept)

    def tell(self, envelope: cache.Envelope) -> None:
        """A record was kept in this process: the scheduler hears of it, unless it came from there."""
        if envelope.kind not in SHARED_KINDS:
            return
        self.worker.loop.add_callback(self._send, envelope)

    def _send(self, envelope: cache.Envelope) -> None:
        entry = envelope.to_json()
        stream = self.worker.batched_stream
        if entry["checksum"] not in self.heard and stream is not None and not stream.closed():
            stream.send({"op": PUSH, "text": _text_of([entry])})
