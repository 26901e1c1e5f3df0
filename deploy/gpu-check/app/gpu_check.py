"""What the check of a GPU runs in workers. Each function does one thing; torch is loaded only where it is used."""
import ctypes
import importlib
import json
import os
import sys
import time
from typing import Any, Dict

from capstan import Endpoint

_loaded: Dict[str, Any] = {}


def _torch() -> Any:
    """The host's torch. No import statement names it: the functions also run on hosts without it."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        # Where a user has installed it for himself, workers do not look: their home is another one.
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch-folder.txt")
        if not os.path.exists(path):
            raise
        with open(path, encoding="utf-8") as file:
            sys.path.append(file.read().strip())
        return importlib.import_module("torch")


@Endpoint(name="gpu", gpu="ANY", workers=(0, 1), idle_timeout=1, max_concurrency=4)
def gpu(action: str, options: dict):
    """Calls one of the actions below."""
    return ACTIONS[action](**options)


def view() -> Dict[str, Any]:
    """What the worker sees: its variable, its device files, and what CUDA counts where torch is there."""
    seen: Dict[str, Any] = {
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "files": sorted(name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()),
        "pid": os.getpid(),
    }
    try:
        torch = _torch()
    except ImportError as error:
        return {**seen, "torch": None, "why": str(error), **_driver_view()}
    seen["torch"] = torch.__version__
    seen["count"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen["count"] > 0:
        properties = torch.cuda.get_device_properties(0)
        seen["name"] = properties.name
        seen["uuid"] = str(getattr(properties, "uuid", ""))
    return seen


def _driver_view() -> Dict[str, Any]:
    """What the driver's library counts, for a worker without torch; empty where there is no such library."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        count, device, uuid = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
        if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return {"count": 0}
        if count.value == 0 or cuda.cuDeviceGet(ctypes.byref(device), 0) != 0 or cuda.cuDeviceGetUuid(uuid, device) != 0:
            return {"count": count.value}
    except (OSError, AttributeError):
        return {}
    digits = bytes(uuid).hex()
    parts = [digits[start:end] for start, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]
    return {"count": count.value, "uuid": "-".join(parts)}


def first_call() -> Dict[str, float]:
    """Seconds for the import of torch, for the first CUDA call, and for a second one."""
    begun = time.perf_counter()
    torch = _torch()

    imported = time.perf_counter()
    torch.ones(8, device="cuda").sum().item()
    first = time.perf_counter()
    torch.ones(8, device="cuda").sum().item()
    return {"import": imported - begun, "first": first - imported, "second": time.perf_counter() - first}


def matmul(seconds: float, size: int = 8192) -> float:
    """bf16 matrix products, TFLOP/s over at least so many seconds."""
    torch = _torch()

    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    for _ in range(5):
        a @ b
    torch.cuda.synchronize()
    begun = time.perf_counter()
    count = 0
    while time.perf_counter() - begun < seconds:
        for _ in range(20):
            a @ b
        torch.cuda.synchronize()
        count += 20
    return 2 * size**3 * count / (time.perf_counter() - begun) / 1e12


def hold(mebibytes: int, seconds: float) -> int:
    """Holds memory of the device for a while."""
    torch = _torch()

    held = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda").fill_(1)
    time.sleep(seconds)
    return held.numel()


def out_of_memory() -> None:
    """Asks for more memory than any card has."""
    torch = _torch()

    torch.empty(1 << 44, dtype=torch.uint8, device="cuda")


def touch() -> str:
    """A CUDA context and some memory without torch: quick to start and to end."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    for code in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device),
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(256 << 20)),
    ):
        if code != 0:
            raise RuntimeError(f"CUDA error {code}")
    _loaded["context"] = context
    return "touched"


def load_weights(path: str) -> Dict[str, float]:
    """Bytes a second from a file of safetensors to the device, through two pinned buffers in turn."""
    torch = _torch()

    torch.ones(1, device="cuda").sum().item()
    size = os.path.getsize(path)
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        largest = max(entry["data_offsets"][1] - entry["data_offsets"][0] for entry in header.values())
        buffers = [torch.empty(largest, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        views = [memoryview((ctypes.c_char * largest).from_address(each.data_ptr())) for each in buffers]
        copied = [torch.cuda.Event(), torch.cuda.Event()]
        tensors: Dict[str, Any] = {}
        begun = time.perf_counter()
        for turn, (name, entry) in enumerate(header.items()):
            start, end = entry["data_offsets"]
            which = turn % 2
            # Until the copy before last has left this buffer.
            copied[which].synchronize()
            file.seek(8 + length + start)
            done = 0
            while done < end - start:
                read = file.readinto(views[which][done : end - start])
                if not read:
                    raise RuntimeError(f"{path} ends within {name}")
                done += read
            tensors[name] = torch.empty(end - start, dtype=torch.uint8, device="cuda")
            tensors[name].copy_(buffers[which][: end - start], non_blocking=True)
            copied[which].record()
        torch.cuda.synchronize()
        return {"rate": size / (time.perf_counter() - begun)}


def kernel(milliseconds: float) -> float:
    """A kernel of about this length; returns the ms that it and its synchronisation took."""
    torch = _torch()

    if "cycles" not in _loaded:
        torch.cuda._sleep(1_000_000)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        torch.cuda._sleep(10_000_000)
        torch.cuda.synchronize()
        _loaded["cycles"] = 10_000_000 / ((time.perf_counter() - begun) * 1000)
    begun = time.perf_counter()
    torch.cuda._sleep(int(_loaded["cycles"] * milliseconds))
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) * 1000


ACTIONS = {
    each.__name__: each for each in (view, first_call, matmul, hold, out_of_memory, touch, load_weights, kernel)
}
