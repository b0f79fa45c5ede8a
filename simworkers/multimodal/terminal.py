"""A terminal in which an engineer looks at a failing pod: what kubectl prints, names and numbers drawn by chance."""

from dataclasses import dataclass

from simworkers.multimodal.canvas import Canvas, Colour
from simworkers.rng import Stream

BACK, BAR, TEXT, DIM = (17, 20, 27), (43, 47, 58), (214, 219, 228), (128, 136, 150)
GREEN, RED, YELLOW, BLUE = (126, 211, 133), (255, 107, 104), (240, 200, 104), (112, 173, 255)
NAMESPACES = ("shop", "payments", "search", "media")
SERVICES = (
    "cart",
    "catalog",
    "checkout",
    "email",
    "gateway",
    "inventory",
    "ledger",
    "profile",
    "quotes",
    "shipping",
)
HEX, SUFFIX = "0123456789abcdef", "bcdfghjklmnpqrstvwxz2456789"
Span = tuple[str, Colour]


@dataclass(frozen=True)
class Failure:
    """One way in which a pod fails: its status, the lines of its events and of its log."""

    status: str
    restarts: bool
    events: tuple[tuple[str, str, str], ...]  # (reason, from, message)
    log: tuple[str, ...]


FAILURES = (
    Failure(
        "CrashLoopBackOff",
        True,
        (
            ("Pulled", "kubelet", "Container image already present on machine"),
            ("Unhealthy", "kubelet", "Liveness probe failed: HTTP probe failed with statuscode: 503"),
            ("BackOff", "kubelet", "Back-off restarting failed container"),
        ),
        (
            "connecting to postgres at db-primary:5432",
            "FATAL: too many connections for role",
            "exit status 1",
        ),
    ),
    Failure(
        "OOMKilled",
        True,
        (
            ("Started", "kubelet", "Started container"),
            ("OOMKilling", "kernel", "Memory cgroup out of memory: killed process"),
            ("BackOff", "kubelet", "Back-off restarting failed container"),
        ),
        ("cache warmed: 1,048,576 entries", "heap 498 MiB of 512 MiB", "signal: killed"),
    ),
    Failure(
        "ImagePullBackOff",
        False,
        (
            ("Scheduled", "scheduler", "Successfully assigned to node"),
            ("Failed", "kubelet", "Failed to pull image: manifest unknown"),
            ("BackOff", "kubelet", "Back-off pulling image"),
        ),
        ("container is waiting to start: image can't be pulled",),
    ),
    Failure(
        "CreateContainerConfigError",
        False,
        (
            ("Scheduled", "scheduler", "Successfully assigned to node"),
            ("Pulled", "kubelet", "Container image already present on machine"),
            ("Failed", "kubelet", 'Error: secret "db-credentials" not found'),
        ),
        ("container is waiting to start: CreateContainerConfigError",),
    ),
)


def draw_terminal(stream: Stream, width: int, height: int) -> Canvas:
    """A window full of it; what does not fit is cut off, as a terminal does."""
    unit = max(2, min(width // 300, height // 160))
    line_px = 21 * unit // 4
    bar_px = 8 * unit
    canvas = Canvas(width, height, BACK)
    canvas.fill(0, 0, width, bar_px, BAR)
    for place, colour in enumerate(((255, 95, 86), (255, 189, 46), (39, 201, 63))):
        centre = (bar_px * 2 + place * 5 * unit * 4, bar_px * 2)
        canvas.polyline([centre, centre], colour, radius=40 * unit)
    namespace = NAMESPACES[stream.integer(len(NAMESPACES))]
    title = f"ops@bastion: ~ ({namespace})"
    canvas.text((width - len(title) * 9 * unit // 4) // 2, bar_px // 2 - 2 * unit, title, DIM, unit)
    for row, line in enumerate(_screen(stream, namespace)):
        x = 3 * unit
        for text, colour in line:
            canvas.text(x, bar_px + unit + row * line_px, text, colour, unit)
            x += len(text) * 9 * unit // 4
    return canvas


def _screen(stream: Stream, namespace: str) -> list[list[Span]]:
    failure = FAILURES[stream.integer(len(FAILURES))]
    services = [SERVICES[place] for place in sorted(stream.permutation(len(SERVICES))[:8])]
    pods = [_pod_name(stream, name) for name in services]
    failing = stream.integer(len(pods))
    pod = pods[failing]
    return [
        _command(f"kubectl get pods -n {namespace}"),
        [(f"{'NAME':<33}{'READY':<8}{'STATUS':<29}{'RESTARTS':<17}AGE", DIM)],
        *(_pod_line(stream, name, failure if name == pod else None) for name in pods),
        [],
        _command(f"kubectl describe pod {pod} -n {namespace} | tail -n 5"),
        [("Events:", TEXT)],
        [(f"  {'Type':<10}{'Reason':<13}{'Age':<8}{'From':<12}Message", DIM)],
        *_event_lines(stream, failure),
        [],
        _command(f"kubectl logs {pod} -n {namespace} --tail=6"),
        *_log_lines(stream, services[failing], failure),
        [],
        _command(f"kubectl top pods -n {namespace} | head -n 5"),
        [(f"{'NAME':<33}{'CPU(cores)':<13}MEMORY(bytes)", DIM)],
        *(_usage_line(stream, name) for name in [name for name in pods if name != pod][:4]),
        [],
        _command(
            f"kubectl get deploy {services[failing]} -n {namespace} -o jsonpath='{{.status.unavailableReplicas}}'"
        ),
        [("1", TEXT)],
        _command("_"),
    ]


def _command(text: str) -> list[Span]:
    return [("ops@bastion", GREEN), (":", TEXT), ("~", BLUE), ("$ ", TEXT), (text, TEXT)]


def _pod_name(stream: Stream, service: str) -> str:
    replica_set = "".join(HEX[place] for place in stream.integers(16, 9))
    return f"{service}-{replica_set}-" + "".join(SUFFIX[place] for place in stream.integers(len(SUFFIX), 5))


def _pod_line(stream: Stream, name: str, failure: Failure | None) -> list[Span]:
    age = f"{1 + stream.integer(20)}d{stream.integer(24)}h"
    restarts = f"{stream.integer(3)}"
    if failure is None:
        return [(f"{name:<33}{'1/1':<8}", TEXT), (f"{'Running':<29}", GREEN), (f"{restarts:<17}{age}", TEXT)]
    if failure.restarts:
        restarts = f"{5 + stream.integer(40)} ({1 + stream.integer(4)}m{stream.integer(60)}s ago)"
    return [(f"{name:<33}{'0/1':<8}", TEXT), (f"{failure.status:<29}", RED), (f"{restarts:<17}{age}", TEXT)]


def _event_lines(stream: Stream, failure: Failure) -> list[list[Span]]:
    """The oldest event first."""
    ages = sorted(stream.integers(59, len(failure.events)) + 1, reverse=True)
    lines = []
    for age, (reason, source, message) in zip(ages, failure.events, strict=True):
        normal = reason in ("Pulled", "Started", "Scheduled")
        kind = ("  Normal    ", DIM) if normal else ("  Warning   ", YELLOW)
        lines.append([kind, (f"{reason:<13}{f'{age}m':<8}{source:<12}{message}", TEXT)])
    return lines


def _usage_line(stream: Stream, name: str) -> list[Span]:
    return [(f"{name:<33}{f'{3 + stream.integer(900)}m':<13}{40 + stream.integer(460)}Mi", TEXT)]


def _log_lines(stream: Stream, service: str, failure: Failure) -> list[list[Span]]:
    second = stream.integer(50)
    hour, minute = stream.integer(24), stream.integer(60)
    stamps = [f"{hour:02}:{minute:02}:{second + place:02}.{stream.integer(1000):03}" for place in range(6)]
    texts = (
        f"starting {service} v{1 + stream.integer(4)}.{stream.integer(30)}.{stream.integer(10)}",
        *failure.log,
    )
    last = len(texts) - 1
    return [
        [
            (f"{stamps[place]} ", DIM),
            ("ERROR " if place == last else "INFO  ", RED if place == last else BLUE),
            (text, TEXT),
        ]
        for place, text in enumerate(texts)
    ]
