"""For a conftest: what the processes of a failed test printed stands in its report."""
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed and call.when == "call" and "started" in item.funcargs:
        for process in item.funcargs["started"]:
            report.sections.append((process.name, process.report()))
