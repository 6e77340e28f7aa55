"""Which services there are. A name here is what `bat-events serve` takes; each is built in one place."""

import os
import socket
import uuid

from bat_events.deciders.bank import Bank
from bat_events.deciders.gate import Gate
from bat_events.deciders.planner import Planner
from bat_events.deciders.teacher import Teacher
from bat_events.errors import ConfigurationError
from bat_events.service.context import Context
from bat_events.service.services import Builder, Service, decider, join, reactor, worker


def instance_name() -> str:
    """A name for this process among its like: no two processes share one, so no one fences a working peer."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"


def _synthesizer(context: Context) -> Service:
    from bat_events.consumers.synthesizer import Synthesizer

    if context.settings.synthesis.endpoint is None:
        return worker(context, Synthesizer(context), instance=instance_name())
    from bat_events.consumers.wording_model import WordingModel

    wording = WordingModel(context.settings.synthesis, context.stop)
    service = worker(context, Synthesizer(context, wording), instance=instance_name())
    service.closers.append(wording.close)
    return service


def _leakage_gate(context: Context) -> Service:
    from bat_events.consumers.corpus_gate import CorpusGate
    from bat_events.consumers.leakage_gate import LeakageGate

    name = instance_name()
    return join(
        worker(context, CorpusGate(context), instance=f"{name}-c", group="leakage-gate-corpus"),
        worker(context, LeakageGate(context), instance=name),
    )


def _rollout(context: Context) -> Service:
    from bat_events.consumers.rollout import Rollout
    from bat_events.service.engines import Engines

    engines = Engines(context, owner="training")
    service = worker(context, Rollout(context, engines), instance=instance_name())
    service.closers.insert(0, engines.close)
    return service


def _judge(context: Context) -> Service:
    from bat_events.consumers.judge import Judge

    return worker(context, Judge(context), instance=instance_name())


def _evaluator(context: Context) -> Service:
    from bat_events.consumers.evaluator import Evaluator
    from bat_events.consumers.fingerprinter import Fingerprinter
    from bat_events.producers.external_evaluation import OutsideHarness
    from bat_events.service.engines import Engines

    engines = Engines(context, owner="heldout")
    outside = OutsideHarness(context) if context.settings.evaluation.command else None
    name = instance_name()
    service = join(
        worker(context, Fingerprinter(context), instance=f"{name}-f", group="evaluator-fingerprints"),
        worker(context, Evaluator(context, engines, outside.measure if outside else None), instance=name),
    )
    service.closers.insert(0, engines.close)
    if outside is not None:
        service.closers.insert(0, outside.close)
    return service


def _trainer(context: Context) -> Service:
    from bat_events.consumers.trainer import Trainer

    return reactor(context, Trainer(context))


def _auditor(context: Context) -> Service:
    from bat_events.consumers.auditor import build

    return build(context)


def _heldout_auditor(context: Context) -> Service:
    from bat_events.consumers.auditor import build

    return build(context, heldout=True)


def _notary(context: Context) -> Service:
    from bat_events.consumers.notary import build

    return build(context)


def _heldout_notary(context: Context) -> Service:
    from bat_events.consumers.notary import build

    return build(context, heldout=True)


SERVICES: dict[str, Builder] = {
    "synthesizer": _synthesizer,
    "leakage-gate": _leakage_gate,
    "bank": decider(Bank),
    "planner": decider(Planner),
    "rollout": _rollout,
    "judge": _judge,
    "trainer": _trainer,
    "evaluator": _evaluator,
    "gate": decider(Gate),
    "teacher": decider(Teacher),
    "auditor": _auditor,
    "heldout-auditor": _heldout_auditor,
    "notary": _notary,
    "heldout-notary": _heldout_notary,
}


def build(name: str, context: Context) -> Service:
    """The service of that name. Raises ConfigurationError listing the known ones."""
    if name not in SERVICES:
        raise ConfigurationError(f"service {name!r} is unknown: choose of {', '.join(SERVICES)}")
    return SERVICES[name](context)
