"""
The host process of one worker. The main thread loads the module and runs handlers where possible; a reader thread
receives the agent's messages. When its channel closes, the agent is gone and this process group ends completely.
"""
import asyncio
import importlib
import os
import queue
import sys
import threading
import traceback

from .attempt_processes import processes_of
from .calls import Calls
from .channel import Channel, kill_group, tie_to_agent, utf8
from .culprit import watch_exits
from .http_functions import HttpFunctions
from .interrupts import MainInterrupts
from .loading import load_function, prepare_path
from .logs import capture_output
from .methods import choice_of
from .output import error_message, error_stack
from .recalls import recalls_of
from .runners import runner_for
from .task import Task
from .work_folder import enter_work_folder


class Host:
    def __init__(self):
        self._interrupts = MainInterrupts()
        self._channel = Channel(self._interrupts)
        self._orders = queue.SimpleQueue()
        self._calls = None
        # Who takes back what no handler has entered; None where nothing waits.
        self._recalls = None
        self._runner = None
        # Of a load-balanced endpoint.
        self._http = None

    def serve(self, ties):
        if ties:
            tie_to_agent()
        threading.Thread(target=self._read, name="capstan-channel", daemon=True).start()
        self._interrupts.install()
        watch_exits(self._channel)
        self._channel.send({"t": "up"})
        preload(os.environ.pop("CAPSTAN_PRELOAD", "").split())
        self._load(self._orders.get())

    def _load(self, order):
        end_lines = capture_output(self._channel, self._interrupts, self._sole_task)
        os.environ.update(order["env"])
        enter_work_folder(order["workFolder"], order["folder"])
        prepare_path(order["folder"])
        # Before user code runs.
        self._recalls = recalls_of(order)
        # Before the module is loaded: asyncio objects that it creates may bind to the current loop.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            if order["httpFunctions"]:
                self._http = HttpFunctions(order, self._channel)
            else:
                choice = choice_of(load_function(order["folder"], order["function"]["module"], order["function"]["name"]))
        except BaseException as error:
            sys.stderr.write(error_stack(error))
            self._channel.send({"t": "load-failed"}, utf8(error_message(error)))
            # The agent ends this process.
            threading.Event().wait()
        if self._http is not None:
            self._channel.send({"t": "loaded"})
            # What ends it ends this process, as below.
            self._http.serve()
        self._calls = Calls(choice, order["endpointId"], self._channel, end_lines, processes_of(order))
        at_once = order["maxConcurrency"]
        self._runner = runner_for(self._calls, self._interrupts, loop if choice.is_async else None, at_once, self._channel)
        self._channel.send({"t": "loaded"})
        self._runner.serve()

    def _sole_task(self):
        return None if self._calls is None else self._calls.sole_task()

    def _read(self):
        try:
            for header, body in self._channel.frames():
                self._hear(header, body)
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            kill_group()

    def _hear(self, header, body):
        kind = header["t"]
        if kind == "load":
            self._orders.put(header)
            return
        if kind == "run":
            task = Task(header, body, self._recalls)
            self._calls.running[task.key] = task
            self._runner.add(task)
            return
        if kind.startswith("http"):
            self._http.hear(header, body)
            return
        task = self._calls.running.get(header["key"])
        if task is None:
            return
        if kind == "cancel":
            self._runner.stop(task)
        elif kind == "credit":
            task.grant(header["count"])


def preload(names):
    """Imports modules while the host is a spare. A module that fails reports its error when the worker imports it."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            sys.modules.pop(name, None)


def main(ties=True):
    Host().serve(ties)
