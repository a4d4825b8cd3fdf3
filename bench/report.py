"""Turning measured blocks into Markdown tables, and judging them by the bars."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from measure import Block
from scenarios import Scenario


@dataclass
class Row:
    """One proxy in one scenario."""

    name: str
    is_floor: bool
    blocks: list[Block]

    def cpu(self) -> list[float]:
        return [b.cpu_us for b in self.blocks]

    def of(self, key: str) -> float:
        return median(b.result[key] for b in self.blocks)

    def errors(self) -> int:
        return sum(b.errors for b in self.blocks)

    def statuses(self) -> str:
        seen: dict[str, int] = {}
        for block in self.blocks:
            for status, count in block.result["status"].items():
                seen[status] = seen.get(status, 0) + count
        return " ".join(seen)


@dataclass(frozen=True)
class Reference:
    """What a figure is divided by: the cheapest of several rows (nginx's variants, the relays)."""

    least: float
    middle: float


def reference(rows: list[Row], wanted) -> Reference | None:
    chosen = [r for r in rows if wanted(r) and r.blocks]
    if not chosen:
        return None
    return Reference(min(min(r.cpu()) for r in chosen), min(median(r.cpu()) for r in chosen))


def nginx_of(rows: list[Row]) -> Reference | None:
    return reference(rows, lambda r: r.name.startswith("nginx"))


def floor_of(rows: list[Row]) -> Reference | None:
    return reference(rows, lambda r: r.is_floor)


def ratios(row: Row, base: Reference | None) -> str:
    if base is None:
        return "–"
    return f"{min(row.cpu()) / base.least:.2f} / {median(row.cpu()) / base.middle:.2f}"


def table(head: list[str], lines: list[list[str]]) -> str:
    align = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, align, *lines])


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cpu_table(rows: list[Row]) -> str:
    nginx, floor = nginx_of(rows), floor_of(rows)
    lines = []
    for row in rows:
        cpu = row.cpu()
        user = median(b.user_share for b in row.blocks)
        lines.append([
            row.name, number(min(cpu)), number(median(cpu)), number(max(cpu)), ratios(row, nginx), ratios(row, floor),
            f"{100 * user:.0f} %", number(row.of("rps")), number(row.of("p50_us")), number(row.of("p99_us")),
            str(row.errors()), row.statuses(),
        ])
    head = ["proxy", "CPU µs/request min", "median", "max", "× nginx (min / median)", "× floor (min / median)",
            "user", "requests/s", "p50 µs", "p99 µs", "errors", "status"]
    return table(head, lines)


def idle_table(seen: dict[str, dict], connections: int) -> str:
    lines = []
    for name, s in seen.items():
        per = (s["idle"]["Private_Dirty"] - s["start"]["Private_Dirty"]) * 1024 / connections
        lines.append([
            name, number(s["start"]["Private_Dirty"]), number(s["idle"]["Private_Dirty"]), number(per),
            number(s["after"]["Private_Dirty"]), number(s["start"]["Rss"]), number(s["idle"]["Rss"]),
            str(s["threads"]), number(s["idle_cpu_us_per_s"]),
            number((s["slab_idle"] - s["slab_start"]) * 1024 / connections),
        ])
    head = ["proxy", "private dirty KiB at start", f"with {connections:,} idle", "bytes per connection",
            "after they left", "RSS KiB at start", "RSS with idle", "threads", "CPU µs/s while idle",
            "kernel bytes per connection, both ends"]
    return table(head, lines)


def slow_table(seen: dict[str, dict]) -> str:
    lines = [[name, number(s["private_dirty_kib"]), number(s["socket_kib"]), number(s["mib"]),
              number(s["cpu_us_per_mib"]), " ".join(f"{k}:{v}" for k, v in s["faults"].items()) or "none"]
             for name, s in seen.items()]
    head = ["proxy", "peak private dirty KiB", "peak KiB waiting in its sockets",
            "MiB delivered", "CPU µs/MiB", "faults"]
    return table(head, lines)


@dataclass
class Bar:
    says: str
    value: float | None  # None: could not be measured
    limit: float
    strictly_below: bool = False

    def is_met(self) -> bool:
        if self.value is None:
            return False
        return self.value < self.limit if self.strictly_below else self.value <= self.limit


# What the project promises of itself: scenario -> (limit × floor, limit × nginx); nginx strictly below.
LIMITS = {
    "1k@32": (1.08, 1.0),
    "1k@256": (1.08, 1.0),
    "1m@8": (1.05, 1.0),
    "put-1m@8": (1.10, 1.0),
    "log-1k@32": (1.20, 1.0),
    "tls-1k@32": (None, 1.0),
    "tls-1m@8": (None, 1.0),
}
COPIED = {"put-1m@8"}  # measured by the relay that copies: uploads are not spliced
IDLE_LIMIT_KIB = 2048
IDLE_LIMIT_BYTES = 256


def idle_bars(scenario: Scenario, idle: dict[str, dict]) -> list[Bar]:
    if "fairlead" not in idle:
        return []
    seen = idle["fairlead"]
    per = (seen["idle"]["Private_Dirty"] - seen["start"]["Private_Dirty"]) * 1024 / scenario.connections
    start = seen["start"]["Private_Dirty"]
    return [Bar(f"fairlead {scenario.name}: private dirty at start, KiB", start, IDLE_LIMIT_KIB),
            Bar(f"fairlead {scenario.name}: bytes per idle connection", per, IDLE_LIMIT_BYTES)]


def bars(scenario: Scenario, rows: list[Row], idle: dict[str, dict]) -> list[Bar]:
    """The bars this scenario carries; by minima, the figures least disturbed by whatever else the machine does."""
    if scenario.kind == "idle":
        return idle_bars(scenario, idle)
    ours = next((r for r in rows if r.name == "fairlead"), None)
    if scenario.name not in LIMITS or ours is None:
        return []
    floor_limit, nginx_limit = LIMITS[scenario.name]
    copied = scenario.name in COPIED
    nginx, floor = nginx_of(rows), reference(rows, lambda r: r.name == "relay") if copied else floor_of(rows)
    least = min(ours.cpu())
    found = [Bar(f"fairlead {scenario.name}: CPU, × nginx", least / nginx.least if nginx else None, nginx_limit, True)]
    if floor_limit is not None:
        of = "the copying relay" if copied else "floor"
        found.append(Bar(f"fairlead {scenario.name}: CPU, × {of}", least / floor.least if floor else None, floor_limit))
    return found


def bars_table(found: list[Bar]) -> str:
    lines = [[b.says, "not measured" if b.value is None else number(b.value),
              ("< " if b.strictly_below else "≤ ") + number(b.limit), "met" if b.is_met() else "**missed**"]
             for b in found]
    return table(["bar", "measured", "limit", ""], lines)
