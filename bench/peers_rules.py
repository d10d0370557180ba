"""peers_rules.py -- the rules that a figure beside the other libraries keeps: whose turn it is, when a peer is warm, and what holds.

A peer is warm when two successive rounds agree within 2 %. Ahead of what is timed comes some work of the same peer,
and nobody always follows the same other: under load power sets the clock, some 50 ms late, so who follows one that
draws little would run at its clock. Two whole runs are made; of a figure that has to be large the lesser of the two
counts, of one that has to be small the larger, and a statement holds when it is true in both. Who is within half a
percent is not behind. Errors may be 1.3 times cuDNN's on the same data.
"""

AGREE = 1.02
WARM_MOST = 10  # rounds; who has not settled by then is timed as it is, and its row says so
BELOW = 0.995  # times the fastest peer's speed: less than that is "below 1.0"
RMS_MOST = 1.3  # times cuDNN's
RUNS = 2


def settled(times):
    """Whether the last two rounds agree."""
    return len(times) >= 2 and max(times[-2:]) <= AGREE * min(times[-2:])


def in_turn(names, i):
    """Round i's order, of a Williams square: over as many rounds as there are names, twice as many where these are odd, each follows
    each other one equally often."""
    n = len(names)
    forth = [(i + (j + 1) // 2 * (1 if j % 2 else -1)) % n for j in range(n)]
    return [names[x] for x in (forth if n % 2 == 0 or i // n % 2 == 0 else reversed(forth))]


def warm_up(watches, most=WARM_MOST):
    """{name: (rounds, whether it settled)}: rounds over all who have not settled yet. A watch's round() is its time."""
    times = {name: [] for name in watches}
    for i in range(most):
        for name in in_turn(list(watches), i):
            if not settled(times[name]):
                times[name].append(watches[name].round(kept=False))
    return {name: (len(of), settled(of)) for name, of in times.items()}


def measure(watches, rounds):
    """Rounds that count, over all in turn."""
    for i in range(rounds):
        for name in in_turn(list(watches), i):
            watches[name].round()


def holds(by_run, is_true):
    """True where a statement is true of each run's figure and there are two; False where it is not of one; None where one
    run alone says so, or none."""
    truths = [is_true(v) for v in by_run.values()]
    if not all(truths):
        return False
    return True if len(truths) >= RUNS else None


def verdict(held):
    return {True: "holds in both runs", False: "does not hold", None: "not shown yet: fewer than two runs"}[held]
