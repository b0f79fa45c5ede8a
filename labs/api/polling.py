"""How soon it is worth asking again."""

POLL_S = "1"  # a Retry-After, while an attempt is prepared or a run is under way
