"""How tests on the hosts of scripts/hosts.sh begin."""

import sys
import unittest


def main(hosts, prepare=None):
    """Runs the tests; ends with 77 (skipped) where hosts cannot be made. hosts: runs
    scripts/hosts.sh with its arguments. prepare: called before the tests."""
    probe = hosts("up", 1)
    hosts("down")
    if probe.returncode == 77:
        print(probe.stderr, end="", file=sys.stderr)
        sys.exit(77)
    if prepare is not None:
        prepare()
    unittest.main()
