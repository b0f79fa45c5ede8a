"""Pages of the labs, rendered on the server; small modules in static/ go on from there."""
