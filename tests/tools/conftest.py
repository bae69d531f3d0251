"""Kernels that a test starts ignore the user's settings; later tests do not notice."""

import os
from unittest import mock

import chapters
import pytest


@pytest.fixture
def own_settings():
    with mock.patch.dict(os.environ):
        chapters.use_own_settings()
        yield
