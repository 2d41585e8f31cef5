#!/usr/bin/env python3
"""Runs the module tests of web3.py against a development node: `run.py http://127.0.0.1:8545`.

expected_failures.txt lists the tests that fail, each with the reason. A test that fails and is not listed, and a listed
test that passes, are errors. A test that fails is run again, because some tests depend on the time between blocks."""

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = "test_modules.py"
MAX_ATTEMPTS = 3
MAX_SECONDS_PER_TEST = 60


def expected_failures():
    lines = (HERE / "expected_failures.txt").read_text().splitlines()
    entries = [line.split(" # ", 1) for line in lines if line and not line.startswith("#")]
    without_reason = [entry[0] for entry in entries if len(entry) < 2]
    assert not without_reason, f"these entries have no reason: {without_reason}"
    return {name for name, _ in entries}


def run(url, names):
    """Returns the outcome and the first line of the failure for each test."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            *(sys.executable, "-m", "pytest", "--tb=line", "-W", "ignore"),
            *("--timeout", str(MAX_SECONDS_PER_TEST)),
            *("--junitxml", str(report), "-o", "junit_family=xunit1"),
            *([f"{FILE}::{name}" for name in names] or [FILE]),
        ]
        environment = {**os.environ, "RPC_URL": url, "PYTHONDONTWRITEBYTECODE": "1"}
        finished = subprocess.run(
            command, cwd=HERE, env=environment, capture_output=True, text=True
        )
        if finished.returncode not in (0, 1) or not report.exists():
            sys.exit(f"pytest failed: {finished.stdout[-4000:]}{finished.stderr[-4000:]}")
        return dict(outcome(case) for case in ElementTree.parse(report).getroot().iter("testcase"))


def outcome(case):
    name = f"{case.get('classname').split('.')[-1]}::{case.get('name')}"
    for part in case:
        if part.tag in ("failure", "error"):
            return name, ("failed", (part.get("message") or "").split("\n")[0])
        if part.tag == "skipped":
            kind = "xfailed" if part.get("type") == "pytest.xfail" else "skipped"
            return name, (kind, "")
    return name, ("passed", "")


def main(url):
    expected = expected_failures()
    outcomes = run(url, [])
    for _ in range(MAX_ATTEMPTS - 1):
        again = [
            name
            for name, (kind, _) in outcomes.items()
            if kind == "failed" and name not in expected
        ]
        if not again:
            break
        outcomes.update(run(url, again))
    failed = {name: why for name, (kind, why) in outcomes.items() if kind == "failed"}
    counts = {}
    for kind, _ in outcomes.values():
        counts[kind] = counts.get(kind, 0) + 1
    print(f"{len(outcomes)} tests: {counts}")
    errors = [f"{name} failed: {failed[name]}" for name in failed.keys() - expected]
    errors += [
        f"{name} no longer fails: remove it from expected_failures.txt"
        for name in expected - failed.keys()
    ]
    if errors:
        sys.exit("\n".join(sorted(errors)))
    print("ok")


main(sys.argv[1])
