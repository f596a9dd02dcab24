"""Programs executed abstractly, as one rank of many: `execute` gives one `TrainingRun` for each entry point."""

from dpcheck.execution.describe import describe
from dpcheck.execution.entry import Execution, execute
from dpcheck.execution.run import TrainingRun

__all__ = ["Execution", "TrainingRun", "describe", "execute"]
