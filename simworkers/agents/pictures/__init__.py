"""What a run draws, from its report alone."""
