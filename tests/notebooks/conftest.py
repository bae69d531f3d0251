"""Kernels that a test starts ignore the user's settings; later tests do not notice."""

import os
from unittest import mock

import pytest

import chapters


@pytest.fixture
def own_settings():
    with mock.patch.dict(os.environ):
        chapters.use_own_settings()
        yield
