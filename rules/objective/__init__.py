"""The averaged gradient is the gradient of the same objective."""
