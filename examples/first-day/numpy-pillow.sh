#!/usr/bin/env bash
# A class with numpy and pillow, from an empty folder to an answer.
set -euo pipefail

printf 'numpy\npillow\n' > requirements.txt
cat > images.py <<'PY'
import base64
import io

import numpy
from capstan import Endpoint
from PIL import Image


@Endpoint(name="images", workers=(0, 1))
class Images:
    def __init__(self):
        self.weights = numpy.array([0.299, 0.587, 0.114])

    def brightness(self, png: bytes):
        pixels = numpy.asarray(Image.open(io.BytesIO(png)).convert("RGB"))
        return {"shape": pixels.shape, "brightness": (pixels @ self.weights).mean().round(1)}
PY

capstan deploy --bundle-base-packages
png=iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGNImXYCiBggFAAvtgcJN0Q6YQAAAABJRU5ErkJggg==
capstan call images png="$png"
