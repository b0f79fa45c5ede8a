"""Progress of a run as a stream of events: tickets let a browser in, one poller a process watches the rows."""
