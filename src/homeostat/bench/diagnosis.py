"""How far confidences can be believed: simulated illnesses whose cause is known, seen by the real watch."""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from msgspec import structs

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, Luck, ProjectId, TraceId, chance
from homeostat.core.machines.phase import Phase
from homeostat.core.records.call import ToolUse
from homeostat.core.records.immune import Diagnosis, Evidence, Patient, Spread
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Hearsay, Vitals
from homeostat.immune.baseline import Baselines
from homeostat.immune.diagnostician import Diagnostician
from homeostat.immune.observer import Observer
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.watch import Watch

HEALTHY_SAMPLES: Final = 120
SICK_SAMPLES: Final = 30
CALLS_PER_RUN: Final = 4
SUSPECT_SAMPLES: Final = 3
SEVERE_SIGMA: Final = 6.0
SPACING_MS: Final = 5_000
BINS: Final = 10

D = Diagnosis


@dataclass(frozen=True, slots=True)
class Case:
    """One simulated illness: what it really was, and what the watch saw of it."""

    truth: Diagnosis
    evidence: tuple[Evidence, ...]
    spread: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """How an agent is when it is well."""

    tokens_in: float
    tokens_out: float
    spread: float
    token_ms: float
    price: float
    tools: tuple[str, ...]
    clumsiness: float  # how often it fails or has to try again

    @staticmethod
    def draw(luck: Luck) -> "Nature":
        return Nature(
            tokens_in=math.exp(luck.uniform(5, 9)),
            tokens_out=math.exp(luck.uniform(4, 6.5)),
            spread=luck.uniform(0.15, 0.6),
            token_ms=luck.uniform(5, 30),
            price=luck.choice([2e-7, 1e-6, 5e-6]),
            tools=tuple(f"tool_{number}" for number in luck.sample(range(20), luck.randint(0, 5))),
            clumsiness=luck.uniform(0, 0.02),
        )

    def sample(self, luck: Luck, number: int, key: AgentKey) -> Vitals:
        tokens_in = int(self.tokens_in * luck.lognormvariate(0, self.spread))
        tokens_out = 1 + int(self.tokens_out * luck.lognormvariate(0, self.spread))
        tools = tuple(
            ToolUse(luck.choice(self.tools), f"{luck.random():.17f}")
            for _ in range(luck.randint(0, 2) if self.tools else 0)
        )
        return Vitals(
            sample_id=f"{key[1]}:{number}",
            project=key[0],
            agent_id=key[1],
            at_ms=Millis(number * SPACING_MS),
            source="gateway",
            latency_ms=300 + tokens_out * self.token_ms * luck.lognormvariate(0, 0.2),
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            cost_usd=(tokens_in + 4 * tokens_out) * self.price,
            retries=int(luck.random() < self.clumsiness),
            error=luck.random() < self.clumsiness,
            prompt_hash="usual",
            tools=tools,
            trace_id=TraceId(f"{key[1]}:{number // CALLS_PER_RUN}"),
        )


Ailment = Callable[[Vitals, int], Vitals]
"""What an illness does to a sample; the number says how long it has lasted."""


def _scaled(sample: Vitals, *, out: float = 1.0, into: float = 1.0, price: float = 1.0, wait: float = 1.0) -> Vitals:
    """More of the same: longer answers take longer, and all tokens are paid for."""
    assert sample.tokens_in is not None
    assert sample.tokens_out is not None
    assert sample.latency_ms is not None
    assert sample.cost_usd is not None
    tokens_in, tokens_out = int(sample.tokens_in * into), int(sample.tokens_out * out)
    share = (tokens_in + 4 * tokens_out) / max(sample.tokens_in + 4 * sample.tokens_out, 1)
    return structs.replace(
        sample,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=sample.cost_usd * share * price,
        latency_ms=sample.latency_ms * out * wait,
    )


def prompt_drift(luck: Luck) -> Ailment:
    factor, slow = luck.uniform(3, 30), luck.random() < 0.3
    prompt = "another" if luck.random() < 0.5 else "usual"

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        grown = min(factor, 1.3**lasted) if slow else factor
        return structs.replace(_scaled(sample, out=grown, into=1 + 0.1 * grown), prompt_hash=prompt)

    return fall_ill


def prompt_injection(luck: Luck) -> Ailment:
    told = Hearsay(orders=luck.uniform(3, 8), cues=("override",), borrowed=luck.random() < 0.7)
    stranger = luck.random() < 0.7
    growth = luck.uniform(1, 1.5)

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        tools = (ToolUse("send_money", f"{lasted}"),) if stranger and lasted % 2 else sample.tools
        return structs.replace(_scaled(sample, into=growth), hearsay=told, tools=tools)

    return fall_ill


def infinite_loop(luck: Luck) -> Ailment:
    busy, growth = luck.randint(1, 6), luck.uniform(0, 0.1)
    talking = luck.random() < 0.3  # it asks its model the same again and again, and no tool

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        if talking:
            return structs.replace(sample, tokens_in=1000, tokens_out=40, latency_ms=800.0, cost_usd=0.001, tools=())
        again = _scaled(sample, into=1 + growth * lasted)
        return structs.replace(again, tools=(ToolUse("tool_1", "same"),) * busy)

    return fall_ill


def tool_instability(luck: Luck) -> Ailment:
    often, tries, wait = luck.uniform(0.2, 0.9), luck.randint(1, 5), luck.uniform(1, 3)

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        del lasted
        failing = luck.random() < often
        return structs.replace(_scaled(sample, wait=wait if failing else 1.0), retries=tries * failing, error=failing)

    return fall_ill


def memory_corruption(luck: Luck) -> Ailment:
    factor, confused = luck.uniform(3, 50), luck.uniform(0, 0.3)
    frozen = luck.random() < 0.1

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        del lasted
        if frozen:
            return structs.replace(sample, tokens_in=4096, tokens_out=64, latency_ms=900.0, cost_usd=0.002)
        return structs.replace(_scaled(sample, into=factor), error=luck.random() < confused)

    return fall_ill


def cost_overrun(luck: Luck) -> Ailment:
    price, talk, wait = luck.uniform(5, 60), luck.uniform(1, 2), luck.uniform(1, 2)
    return lambda sample, _lasted: _scaled(sample, price=price, out=talk, wait=wait)


def external_cause(luck: Luck) -> Ailment:
    wait, failing = luck.uniform(5, 100), luck.random() < 0.4

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        del lasted
        if failing:
            return structs.replace(sample, error=luck.random() < 0.95, retries=int(luck.random() < 0.3))
        return _scaled(sample, wait=wait)

    return fall_ill


def unknown(luck: Luck) -> Ailment:
    """Anything at all, and none of the above: one or two vitals out of bounds for no reason that has a name."""
    factors = {name: luck.uniform(3, 30) for name in luck.sample(["out", "into", "price", "wait"], luck.randint(1, 2))}
    noisy = luck.uniform(0, 0.3)

    def fall_ill(sample: Vitals, lasted: int) -> Vitals:
        del lasted
        return structs.replace(_scaled(sample, **factors), retries=2 * int(luck.random() < noisy))

    return fall_ill


AILMENTS: Final[dict[Diagnosis, Callable[[Luck], Ailment]]] = {
    D.PROMPT_DRIFT: prompt_drift,
    D.PROMPT_INJECTION: prompt_injection,
    D.INFINITE_LOOP: infinite_loop,
    D.TOOL_INSTABILITY: tool_instability,
    D.MEMORY_CORRUPTION: memory_corruption,
    D.COST_OVERRUN: cost_overrun,
    D.EXTERNAL_CAUSE: external_cause,
    D.UNKNOWN: unknown,
}


def cases(each: int, seed: str) -> Iterator[Case]:
    """So many agents fall ill with each; those whose illness the watch never noticed are no cases."""
    baselines = Baselines(capacity=each * len(AILMENTS))
    observer = Observer(baselines=baselines, sentinel=Sentinel(baselines))
    project = ProjectId("simulated")
    watches: dict[AgentKey, Watch] = {}
    people: dict[AgentKey, tuple[Diagnosis, Luck, Nature, Ailment]] = {}
    for truth, draw in AILMENTS.items():
        for number in range(each):
            key = (project, AgentId(f"{truth}-{number}"))
            luck = chance(seed, truth, number)
            people[key] = (truth, luck, Nature.draw(luck), draw(luck))
            patient = Patient(project=project, agent_id=key[1], version=1, phase=Phase.INITIALIZING, since_ms=Millis(0))
            watches[key] = Watch(patient)
    for number in range(HEALTHY_SAMPLES):
        waiting = {key: deque([nature.sample(luck, number, key)]) for key, (_, luck, nature, _) in people.items()}
        observer.rounds(waiting, watches)
    for watch in watches.values():
        watch.patient = replace(watch.patient, phase=Phase.HEALTHY)
        watch.overlook()
    for lasted in range(SICK_SAMPLES):
        number = HEALTHY_SAMPLES + lasted
        waiting = {
            key: deque([people[key][3](people[key][2].sample(people[key][1], number, key), lasted)]) for key in people
        }
        observer.rounds(waiting, watches)
        for key in list(people):
            watch = watches[key]
            if watch.streak >= SUSPECT_SAMPLES or watch.sigma > SEVERE_SIGMA:
                truth, luck, _, _ = people.pop(key)
                shared = luck.random() < (0.5 if truth is D.EXTERNAL_CAUSE else 0.03)
                spread = Spread.PARTIAL if shared else Spread.AGENT_SPECIFIC
                yield Case(truth, tuple(watch.evidence), spread)


def judge(found: list[Case], diagnostician: Diagnostician) -> dict[str, Any]:
    """Brier score over all diagnoses, expected calibration error of all confidences, how often the first is right."""
    brier = first = 0.0
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for case in found:
        told = {one.diagnosis: one.confidence for one in diagnostician.diagnose(case.evidence, spread=case.spread)}
        for diagnosis in Diagnosis:
            said, true = told.get(diagnosis, 0.0), diagnosis is case.truth
            brier += (said - true) ** 2
            bins[min(int(said * BINS), BINS - 1)].append((said, true))
        first += max(told, key=lambda one: told[one]) is case.truth
    shares = [
        (len(one), sum(said for said, _ in one) / len(one), sum(true for _, true in one) / len(one))
        for one in bins
        if one
    ]
    total = sum(size for size, _, _ in shares)
    return {
        "cases": len(found),
        "brier": brier / len(found),
        "calibration_error": sum(size * abs(said - true) for size, said, true in shares) / total,
        "first_right": first / len(found),
        "reliability": [{"said": said, "true": true, "cases": size} for size, said, true in shares],
        "by_truth": dict(Counter(case.truth.value for case in found)),
    }


def measure(each: int = 60, seed: str = "held out") -> dict[str, Any]:
    """Illnesses that no number of the diagnostician was fitted to."""
    return judge(list(cases(each, seed)), Diagnostician())
