"""Labs, their graded tasks, drawn instances, and runs."""

from labs.models.attempts import TaskAttempt
from labs.models.explanations import Explanation
from labs.models.lab import Lab, LabTask
from labs.models.leaderboard import FinalRun, LeaderboardEntry
from labs.models.runs import Figure, Run
from labs.models.sweeps import Sweep
from labs.models.tickets import StreamTicket
from labs.models.traces import Trace, TraceFile
from labs.models.workers import Worker

__all__ = [
    "Explanation",
    "Figure",
    "FinalRun",
    "Lab",
    "LabTask",
    "LeaderboardEntry",
    "Run",
    "StreamTicket",
    "Sweep",
    "TaskAttempt",
    "Trace",
    "TraceFile",
    "Worker",
]
