"""The pytest fixture `assert_equivalent`: see `dpcheck.testing`. torch is imported when a test uses it."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def assert_equivalent() -> Callable[..., None]:
    """`dpcheck.testing.assert_equivalent`."""
    from dpcheck import testing

    return testing.assert_equivalent
