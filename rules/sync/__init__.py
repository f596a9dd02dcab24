"""The gradients really are synchronized."""
