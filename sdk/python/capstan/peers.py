"""Finds the endpoints of this worker's environment, through the control plane."""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Optional, Set, Tuple

from .errors import DispatchError
from .exchange import Connection, Flow, Pause, call

#: Time for which a URL is cached, seconds.
TRUSTED_FOR = 300.0
#: Interval at which a caller checks whether another look-up has finished, seconds.
_LOOK_AGAIN = 0.005

QUERY = "query($environment: String!, $name: String!) { endpoint(environment: $environment, name: $name) { id name kind url } }"


@dataclass(frozen=True)
class Peer:
    id: str
    name: str
    is_load_balanced: bool
    #: Base URL of its calls.
    url: str


class PeerCache:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Dict[Tuple[str, str, str], Tuple[float, Peer]] = {}
        #: Look-ups in progress: threads and coroutines that need the same endpoint share one.
        self._asking: Set[Tuple[str, str, str]] = set()

    def get(self, service: str, environment: str, name: str) -> Optional[Peer]:
        with self._lock:
            found = self._known.get((service, environment, name))
        return found[1] if found is not None and self._clock() - found[0] < TRUSTED_FOR else None

    def put(self, service: str, environment: str, name: str, peer: Peer) -> None:
        with self._lock:
            self._known[(service, environment, name)] = (self._clock(), peer)

    def drop(self, service: str, environment: str, name: str) -> None:
        with self._lock:
            self._known.pop((service, environment, name), None)

    def find(self, connection: Connection, environment: str, name: str) -> Flow[Peer]:
        """Returns the endpoint of this name, from the cache or the control plane. Raises what :func:`ask` raises."""
        key = (connection.base_url, environment, name)
        while True:
            known = self.get(*key)
            if known is not None:
                return known
            with self._lock:
                asks = key not in self._asking
                self._asking.add(key)
            if asks:
                break
            # A lock would block the event loop of asynchronous callers.
            yield Pause(_LOOK_AGAIN)
        try:
            peer = yield from ask(connection, environment, name)
            self.put(*key, peer)
            return peer
        finally:
            with self._lock:
                self._asking.discard(key)


peers = PeerCache()


def ask(connection: Connection, environment: str, name: str) -> Flow[Peer]:
    """Queries the control plane. Raises DispatchError when it has no such endpoint; ApiError, ConnectionFailed."""
    document = yield from call(connection, "POST", "/graphql", body={"query": QUERY, "variables": {"environment": environment, "name": name}})
    answer = document if isinstance(document, dict) else {}
    errors = answer.get("errors")
    if errors:
        first = errors[0] if isinstance(errors, list) and isinstance(errors[0], dict) else {}
        raise DispatchError(f"the control plane refused to look up the endpoint {name}: {first.get('message', 'no reason given')}")
    found = (answer.get("data") or {}).get("endpoint")
    if not isinstance(found, dict):
        raise DispatchError(f"the endpoint {name} does not exist in the environment {environment}")
    return Peer(str(found["id"]), name, found.get("kind") == "LOAD_BALANCED", str(found.get("url") or "").rstrip("/"))
