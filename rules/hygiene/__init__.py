"""What keeps a check honest: readable files and ignore comments that mean something.

These rules have no `check`: `dpcheck.check` reports them, since they look at files and comments and not at runs.
"""
