"""What may be a learner's own text. Standard library alone."""

import unicodedata

MAX_OWN_TEXT_BYTES = 256 * 1024
ALLOWED_CONTROLS = "\t\n\r"


def refuse_what_is_no_text(text: str) -> None:
    """ValueError for text over the limit, or with characters that only a binary file has."""
    encoded_bytes = len(text.encode())
    if encoded_bytes > MAX_OWN_TEXT_BYTES:
        raise ValueError(f"has {encoded_bytes:,} bytes as UTF-8; at most {MAX_OWN_TEXT_BYTES:,}")
    for place, character in enumerate(text):
        if unicodedata.category(character) == "Cc" and character not in ALLOWED_CONTROLS:
            raise ValueError(
                f"character {place} is the control character U+{ord(character):04X}: this is no plain text"
            )
