"""The reference application's route that wants a GPU: POST /sentiment, by a small list of words."""
import os
import re

from capstan import Endpoint

gpu = Endpoint(name="reference-python-sentiment", gpu="ANY", workers=(0, 1), idle_timeout=60, max_concurrency=4)

POSITIVE = frozenset("amazing awesome best excellent good great happy like love loved nice wonderful".split())
NEGATIVE = frozenset("awful bad boring broken hate hated horrible poor sad terrible worst wrong".split())


@gpu.post("/sentiment")
def sentiment(text: str) -> dict:
    """
    `score`: the share of the words with a mood that have the label's, four decimals; 0.5 when none
    has one, or both moods weigh the same.
    """
    words = re.findall(r"[^\W\d_]+", text.lower())
    positive = sum(word in POSITIVE for word in words)
    negative = sum(word in NEGATIVE for word in words)
    label = "POSITIVE" if positive > negative else "NEGATIVE" if negative > positive else "NEUTRAL"
    share = 0.5 if positive == negative else max(positive, negative) / (positive + negative)
    # The agent names the devices of a worker here; none on a CPU.
    device = "GPU" if os.environ.get("CUDA_VISIBLE_DEVICES") else "CPU"
    return {"text": text, "sentiment": {"label": label, "score": round(share, 4)}, "device": device}
