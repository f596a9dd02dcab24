"""Every rank issues the same collectives, and files are written and read in order."""
