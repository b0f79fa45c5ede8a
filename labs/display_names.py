"""Names under which people let themselves be ranked: read by others, so neither markup nor anybody's login."""

import re
import unicodedata

from labs.models.leaderboard import NAME_LENGTH
from quiz.models import Learner
from quiz.names import is_seen, key_of

SHORTEST = 2
PUNCTUATION = " -_.'’"
# Letters and marks by category, and yet nothing to see: two names that differ in one of these look the same.
INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
# Scripts in wide use today (UAX 31, table 5), by which a whole name is written.
IN_WIDE_USE = (
    "ARABIC ARMENIAN BENGALI BOPOMOFO CYRILLIC DEVANAGARI ETHIOPIC GEORGIAN GREEK GUJARATI GURMUKHI HAN HANGUL HEBREW "
    "HIRAGANA KANNADA KATAKANA KHMER LAO LATIN MALAYALAM MYANMAR ORIYA SINHALA TAMIL TELUGU THAANA THAI TIBETAN"
)
SCRIPTS = frozenset(IN_WIDE_USE.split())
# Which may stand in one name: one of them, or those that Japanese, Chinese and Korean mix (UTS 39, highly restrictive).
MIXED = (
    {"LATIN", "HAN", "HIRAGANA", "KATAKANA"},
    {"LATIN", "HAN", "BOPOMOFO"},
    {"LATIN", "HAN", "HANGUL"},
)
SAME_SCRIPT = {"CJK": "HAN", "IDEOGRAPHIC": "HAN"}
OF_ANY_SCRIPT = {"COMBINING", "DIGIT", "MODIFIER"}
PILED_UP = 3  # marks on one letter, which would run over the lines above and below


def checked_name(text: str) -> str:
    """The name as it is kept. ValueError says what is wrong with it."""
    name = spelled(text)
    if not SHORTEST <= len(name) <= NAME_LENGTH:
        raise ValueError(f"must have {SHORTEST} to {NAME_LENGTH} characters")
    if INVISIBLE.search(name) or not all(is_readable(char) for char in name):
        raise ValueError("may have letters, digits, spaces and - _ . ' alone")
    if unicodedata.category(name[0])[0] == "M" or not is_seen(name[0]):
        raise ValueError("must begin with a letter or a digit")
    scripts = scripts_of(name)
    if not scripts <= SCRIPTS:
        raise ValueError("may have letters of the scripts in wide use today alone")
    if len(scripts) > 1 and not any(scripts <= mixed for mixed in MIXED):
        raise ValueError("mixes scripts; write it in one (Chinese, Japanese and Korean may go with Latin)")
    if PILED_UP * "M" in "".join(unicodedata.category(char)[0] for char in name):
        raise ValueError(f"may have fewer than {PILED_UP} marks on a letter")
    return name


def spelled(text: str) -> str:
    """One spelling of each letter, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def is_readable(char: str) -> bool:
    return char in PUNCTUATION or unicodedata.category(char)[0] in "LMN"


def scripts_of(name: str) -> set[str]:
    """Of its letters, by the first word of their Unicode names: the standard library knows no scripts."""
    names = [unicodedata.name(char, "").removeprefix("EXTENDED ") for char in name if char not in PUNCTUATION]
    words = {re.split("[ -]", named)[0] for named in names} - OF_ANY_SCRIPT
    return {SAME_SCRIPT.get(word, word) for word in words}


def is_own_login(name: str, learner: Learner) -> bool:
    """Whether it gives away how this person signs in or is written to."""
    local_part = learner.email.partition("@")[0]
    return key_of(name) in {key_of(text) for text in (learner.username, learner.email, local_part) if text}


def is_somebodys_login(name: str) -> bool:
    """Whether it passes for a username, as far as `key_of` can tell."""
    return Learner.objects.filter(name_key=key_of(name)).exists()
