"""Pages of the course, rendered on the server; small modules in static/ go on from there."""
