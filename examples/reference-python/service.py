"""The reference application's routes that need no GPU: GET /health, GET /info, POST /analyze."""
import re

from capstan import Endpoint

api = Endpoint(name="reference-python", workers=(0, 2), idle_timeout=60, max_concurrency=16, scaler_value=16)

NAME = "text-service"
VERSION = "1.0.0"

ENDPOINTS = [
    {"method": "GET", "path": "/health", "description": "Says that the service is up."},
    {"method": "GET", "path": "/info", "description": "Names the service and its routes."},
    {"method": "POST", "path": "/analyze", "description": "Counts words, characters and sentences of a text."},
    {"method": "POST", "path": "/sentiment", "description": "Judges the mood of a text; served by the GPU endpoint."},
]

# What Unicode calls white space. str.split() would also split at the separators U+001C to U+001F.
WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


@api.get("/health")
def health() -> dict:
    return {"status": "healthy", "service": NAME, "version": VERSION}


@api.get("/info")
def info() -> dict:
    return {"name": NAME, "version": VERSION, "endpoints": ENDPOINTS}


@api.post("/analyze")
def analyze(text: str) -> dict:
    """Words are what white space separates; sentences are counted by the characters . ! ?"""
    words = [word for word in WHITE_SPACE.split(text) if word]
    in_words = sum(map(len, words))
    return {
        "text": text,
        "statistics": {
            "word_count": len(words),
            "character_count": len(text),
            "average_word_length": hundredths(in_words, len(words)) / 100 if words else 0,
            "sentence_count": len(re.findall("[.!?]", text)),
        },
    }


def hundredths(dividend: int, divisor: int) -> int:
    """The quotient in hundredths, halves rounded up; in whole numbers, since binary fractions lose halves."""
    return (200 * dividend + divisor) // (2 * divisor)
