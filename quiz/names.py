"""When one name passes for another: what the eye overlooks, and letters that are drawn alike."""

import unicodedata

# In lower case: letters and figures, and below each the one that is drawn so too, in lower case or else as a capital.
# From Unicode's table of confusables (UTS 39), the alphabets nearest to Latin alone; "1", "l" and capital "i" are one.
_DRAWN_ALIKE = (
    ("01iıɩɑɡ", "ollllag"),
    ("аеорсухіӏјѕԁһԛԝүѵѡҽԍгвкмнтьзб", "aeopcyxlljsdhqwyvwegrbkmhtb36"),  # Cyrillic
    ("αβγεζηικμνορστυχωϝ", "abyezhlkmvopotuxwf"),  # Greek
    ("օոռսհցքգզատ", "onnuhgfqqws"),  # Armenian
    ("カエニロハタトヘリ", "力工二口八夕卜へり"),
)
_ACCENTED = ("LATIN ", "GREEK ", "CYRILLIC ")
_ALIKE = str.maketrans("".join(one for one, _ in _DRAWN_ALIKE), "".join(other for _, other in _DRAWN_ALIKE))


def key_of(name: str) -> str:
    """Equal for names that differ in capitals, spaces, punctuation, accents and letters drawn alike, and no further."""
    folded = unicodedata.normalize("NFKD", name).casefold()
    seen = "".join(char for char in folded if is_seen(char))
    return unicodedata.normalize("NFC", without_accents(seen).translate(_ALIKE))


def without_accents(decomposed: str) -> str:
    """Marks are accents in three alphabets, and on what is drawn like a letter of these; elsewhere they are vowels, or
    make another letter."""
    kept, is_accented = [], False
    for char in decomposed:
        if not unicodedata.category(char).startswith("M"):
            drawn_as = char.translate(_ALIKE)
            is_accented = any(unicodedata.name(one, "").startswith(_ACCENTED) for one in (char, drawn_as))
        elif is_accented:
            continue
        kept.append(char)
    return "".join(kept)


def is_seen(char: str) -> bool:
    """A letter, mark or figure. Letters that modify others (Lm) look like punctuation, or stretch a word."""
    category = unicodedata.category(char)
    return category[0] in "LMN" and category != "Lm"
