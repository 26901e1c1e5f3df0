"""The rate of bf16 matrix products in a process of its own, which the rate in a worker is compared with: seconds, size."""
import sys
import time

import torch

seconds, size = float(sys.argv[1]), int(sys.argv[2])
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
print(2 * size**3 * count / (time.perf_counter() - begun) / 1e12)
