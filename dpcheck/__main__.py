"""`python -m dpcheck`."""

from dpcheck.cli import main

main()
