"""Metrics. What is added on a rank is that rank's own."""

from dpcheck_intrinsics import unknown


class EvaluationModule:
    def __init__(self):
        self.held = []

    def add_batch(self, *args, predictions=None, references=None, **kwargs):
        self.held.append(predictions)

    add = add_batch

    def compute(self, *args, predictions=None, references=None, **kwargs):
        return {"score": unknown(predictions, references, *self.held)}


def load(path, *args, **kwargs):
    return EvaluationModule()


def combine(evaluations, *args, **kwargs):
    return EvaluationModule()
