"""The ways to break a program, by the condition that breaks."""

from tests.mutation.operators import collectives, counting, data, objective, sync, weights

OPERATORS = (
    *weights.OPERATORS,
    *data.OPERATORS,
    *objective.OPERATORS,
    *sync.OPERATORS,
    *collectives.OPERATORS,
    *counting.OPERATORS,
)
