"""From recordings to a report: what the ranks did, held against each other and against one process. No torch here."""
