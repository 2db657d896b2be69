"""Exchange of tuned plans between the workers of a cluster; the scheduler keeps them when workers are lost.

A worker sends each new plan to the scheduler. The scheduler sends it to the other workers, and to those that join
later. Messages are the text of wisdom files: data only, checked on arrival. They are text because Dask's own format
converts lists to tuples, which changes the checksum of a record.
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
"""Name of the plugins on the scheduler and the workers."""
PUSH: Final = "autosparse_plans"
"""Name of the message with new records, in both directions."""
PULL: Final = "autosparse_known_plans"
"""Name of the scheduler's handler that returns all records."""
MAX_KEPT: Final = 100_000
"""Maximum number of records that the scheduler keeps; the oldest are removed first."""
SHARED_KINDS: Final = WISDOM_KINDS
"""Kinds of records that are shared."""


def share_plans(client: Client, *, known: bool = True) -> None:
    """Share tuned plans between the workers of `client`, including workers that join later.

    `known`: also send them this process's own plans. Repeated calls have no further effect.

    >>> with distributed.Client(processes=False, dashboard_address=None) as client:
    ...     asp.dask.share_plans(client)  # before the work begins
    """
    client.register_plugin(SchedulerSide(), name=NAME)
    client.register_plugin(WorkerSide(), name=NAME)
    if known and (mine := cache.open_store().envelopes(SHARED_KINDS)):
        client.run_on_scheduler(_take, text=_text_of(wisdom.document_of(mine)["entries"]))


def fetch_plans(client: Client) -> int:
    """Merge the cluster's plans into this process's cache; return the number of records kept.

    `autosparse.wisdom_export` can then write them to a file. Raises CacheError where `share_plans` was not called.

    >>> with distributed.Client(processes=False, dashboard_address=None) as client:
    ...     asp.dask.share_plans(client)
    ...     asp.dask.fetch_plans(client)  # nothing was tuned
    0
    """
    found = client.run_on_scheduler(_known)
    if found is None:
        hint = "call share_plans(client) before the work begins."
        raise CacheError.failed("fetch plans from", client.scheduler.address, reason="they are not shared", hint=hint)
    return wisdom.merge(cache.open_store(), json.loads(found), name="the scheduler")


def _text_of(entries: list[Any]) -> str:
    """Return the text of a wisdom file with these records, given as JSON objects."""
    return json.dumps({**wisdom.document_of(()), "entries": entries})


def _take(dask_scheduler: Any, text: str) -> None:
    dask_scheduler.plugins[NAME].take(text)


def _known(dask_scheduler: Any) -> str | None:
    plugin = dask_scheduler.plugins.get(NAME)
    return None if plugin is None else plugin.text()


class SchedulerSide(SchedulerPlugin):  # type: ignore[misc]
    """Scheduler plugin that keeps the newest record of each key and sends new records to the workers."""

    name = NAME

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Any] = {}
        self.scheduler: Any = None

    def start(self, scheduler: Any) -> None:
        """Register the message handlers; take over the records of an earlier plugin of this name."""
        self.scheduler = scheduler
        earlier = scheduler.plugins.get(NAME)
        if isinstance(earlier, SchedulerSide) and earlier is not self:
            self.records.update(earlier.records)
        scheduler.stream_handlers[PUSH] = self.take
        scheduler.handlers[PULL] = self.pulled

    async def pulled(self) -> str:
        """Return all records, for a worker that joins."""
        return self.text()

    def text(self) -> str:
        """Return all records as the text of a wisdom file."""
        return _text_of(list(self.records.values()))

    def take(self, text: str, worker: str | None = None, **_: Any) -> None:
        """Keep the new records in the wisdom text, and send them to all workers except the sender `worker`."""
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
    """Worker plugin that sends new records to the scheduler and stores the records it receives."""

    name = NAME

    def __init__(self) -> None:
        self.worker: Any = None
        self.heard: set[str] = set()

    async def setup(self, worker: Any) -> None:
        """Fetch the scheduler's records, and register the handlers of both directions."""
        self.worker = worker
        worker.stream_handlers[PUSH] = self.adopt
        self.adopt(await getattr(worker.scheduler, PULL)())
        LISTENERS.append(self.tell)

    def teardown(self, worker: Any) -> None:
        """Unregister the handler of new records."""
        if self.tell in LISTENERS:
            LISTENERS.remove(self.tell)

    def adopt(self, text: str, **_: Any) -> None:
        """Merge received records into the cache."""
        document = json.loads(text)
        self.heard.update(entry["checksum"] for entry in document["entries"])
        try:
            n_kept = wisdom.merge(cache.open_store(), document, name="the scheduler")
        except CacheError as err:  # the scheduler has another release
            event("fallback", f"plans from the scheduler are not used: {err}")
            return
        event("cache", "plans came from other workers", kept=n_kept)

    def tell(self, envelope: cache.Envelope) -> None:
        """Send a new record of a shared kind to the scheduler, unless this process received it from there."""
        if envelope.kind not in SHARED_KINDS:
            return
        self.worker.loop.add_callback(self._send, envelope)

    def _send(self, envelope: cache.Envelope) -> None:
        entry = envelope.to_json()
        stream = self.worker.batched_stream
        if entry["checksum"] not in self.heard and stream is not None and not stream.closed():
            stream.send({"op": PUSH, "text": _text_of([entry])})
