"""NVIDIA apex."""

from apex import amp, optimizers, parallel
