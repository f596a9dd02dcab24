"""dpcheck: does data-parallel training compute the update that one process would have computed?"""

__version__ = "0.1.0"
