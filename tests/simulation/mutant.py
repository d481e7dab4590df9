"""`python -m tests.simulation.mutant GUARD SEEDS`: simulate without one guard until a rule breaks."""

from __future__ import annotations

import json
import sys

from tests.simulation.guards import find_guard, install


def main() -> None:
    guard = find_guard(sys.argv[1])
    install(guard)
    from tests.simulation.staging import STAGINGS
    from tools.simulator.draw import make_plan
    from tools.simulator.run import simulate

    most = int(sys.argv[2])
    for seed in range(most):
        plan = make_plan(seed)
        staged = STAGINGS[guard.staging](plan) if guard.staging else plan
        if staged is None:
            continue
        result = simulate(staged)
        if not result.is_good:
            rules = sorted({found.rule for found in result.verdict.violations})
            story = [str(found) for found in result.verdict.violations[:1]] or list(result.errors[:1])
            print(json.dumps({"seeds": seed + 1, "rules": rules, "story": story}))
            return
    print(json.dumps({"seeds": most, "rules": [], "story": []}))


if __name__ == "__main__":
    main()
