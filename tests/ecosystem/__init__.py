"""dpcheck on pinned packages that ship training code, against recorded verdicts: `python -m tests.ecosystem`."""
