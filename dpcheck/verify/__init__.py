"""The verifier: runs an unmodified script on N ranks and says whether it computed the single-process update."""
