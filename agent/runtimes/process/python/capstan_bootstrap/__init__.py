"""A Python worker host (agent/runtimes/host-protocol.ts): standard library only, Python 3.8 or newer."""
