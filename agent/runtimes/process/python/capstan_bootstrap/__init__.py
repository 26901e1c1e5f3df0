"""A Python worker host (agent/runtimes/hosted/protocol.ts): standard library only, Python 3.8 or newer."""
