from pathlib import Path

import pytest

from perfgate.github.client import Gateway, connect
from tests.github.helpers import BASE, HEAD, REPOSITORY
from tests.github.standin.server import StandIn
from tests.github.standin.spec import UnavailableError


@pytest.fixture
def stand_in():
    """A stand-in with pull request 7; whatever GitHub's description does not allow fails the test at the end."""
    try:
        server = StandIn(repository=REPOSITORY)
    except UnavailableError as error:
        pytest.skip(str(error))
    server.pulls[7] = (BASE, HEAD)
    yield server
    server.close()
    assert server.problems == []


@pytest.fixture
def waits() -> list[float]:
    """Seconds that the client asked to wait; it never does."""
    return []


@pytest.fixture
def environ(stand_in: StandIn, tmp_path: Path) -> dict[str, str]:
    return {
        "GITHUB_API_URL": stand_in.url,
        "GITHUB_SERVER_URL": "https://github.example",
        "GITHUB_REPOSITORY": REPOSITORY,
        "INPUT_TOKEN": stand_in.token,
    }


@pytest.fixture
def gateway(environ: dict[str, str], waits: list[float]) -> Gateway:
    return connect(environ, sleep=waits.append)
