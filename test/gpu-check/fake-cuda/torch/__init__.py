"""The part of torch that the check of a GPU uses, on a device that only the fake driver library and the fake nvidia-smi know."""
import ctypes
import time
from types import SimpleNamespace

__version__ = "0.0-fake"
version = SimpleNamespace(cuda="12.4")
uint8 = "uint8"
bfloat16 = "bfloat16"
_driver = ctypes.CDLL("libcuda.so.1")
_queued = [0]
DEVICE_BYTES = 80 << 30


class Tensor:
    def __init__(self, size, device="cpu"):
        if device == "cuda":
            if size > DEVICE_BYTES:
                raise RuntimeError(f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB.")
            if _driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size)) != 0:
                raise RuntimeError("the fake driver cannot write")
            self.data = None
        else:
            self.data = ctypes.create_string_buffer(size)
        self.size = size

    def __matmul__(self, other):
        _queued[0] += 1
        return self

    def __getitem__(self, part):
        return self

    def sum(self):
        return self

    def item(self):
        return 1

    def fill_(self, value):
        return self

    def numel(self):
        return self.size

    def data_ptr(self):
        return ctypes.addressof(self.data)

    def copy_(self, source, non_blocking=False):
        return self


class _Event:
    def record(self):
        pass

    def synchronize(self):
        pass


def _synchronize():
    time.sleep(_queued[0] / 1000)
    _queued[0] = 0


def _sleep(cycles):
    _queued[0] += max(1, cycles // 1_000_000)


def empty(size, dtype=None, device="cpu", pin_memory=False):
    return Tensor(size, device)


def ones(size, device="cpu"):
    return Tensor(1 << 20, device)


def randn(rows, columns, device="cpu", dtype=None):
    return Tensor(1 << 20, device)


cuda = SimpleNamespace(
    is_available=lambda: True,
    device_count=lambda: 1,
    get_device_properties=lambda index: SimpleNamespace(name="NVIDIA A100", uuid="a"),
    synchronize=_synchronize,
    Event=_Event,
    _sleep=_sleep,
)
