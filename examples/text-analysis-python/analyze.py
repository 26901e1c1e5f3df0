"""Counts of a text. The keys are those of POST /analyze in the reference application."""
import re

# What Unicode calls white space. str.split() would also split at the separators U+001C to U+001F.
WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


def analyze(text: str) -> dict:
    """Words are what white space separates; sentences are counted by the characters . ! ?"""
    words = [word for word in WHITE_SPACE.split(text) if word]
    in_words = sum(map(len, words))
    return {
        "text": text,
        "statistics": {
            "word_count": len(words),
            # Code points: an emoji is one.
            "character_count": len(text),
            # Code points per word, two decimals, halves rounded up; 0 without words.
            "average_word_length": hundredths(in_words, len(words)) / 100 if words else 0,
            "sentence_count": len(re.findall("[.!?]", text)),
        },
    }


def hundredths(dividend: int, divisor: int) -> int:
    """
    The quotient in hundredths, halves rounded up. In whole numbers: a half such as 0.125 × 100
    would not survive binary fractions in general.
    """
    return (200 * dividend + divisor) // (2 * divisor)
