"""scripts/hosts.sh: hosts in network namespaces reach each other and nobody else.

  python3 test_hosts.py DELAY_SWITCH COMMUNICATOR_RANKS [unittest's arguments]

Needs root; ends with 77 (skipped) where namespaces cannot be made. Nothing here depends on
how fast the machine is.
"""

import errno
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import host_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOSTS = str(ROOT / "scripts/hosts.sh")
DELAY_SWITCH = str(pathlib.Path(sys.argv.pop(1)).resolve())
COMMUNICATOR_RANKS = str(pathlib.Path(sys.argv.pop(1)).resolve())
PREFIX = f"troupe-test{os.getpid()}"
PATIENCE = 120  # seconds, for what is not expected to take one

# Answers every connection with the SHA-256 of what came, once the peer has sent it all.
SERVER = """
import hashlib, socket
server = socket.create_server(("0.0.0.0", 7000))
print("ready", flush=True)
while True:
    peer, _ = server.accept()
    digest = hashlib.sha256()
    while piece := peer.recv(1 << 20):
        digest.update(piece)
    peer.sendall(digest.digest())
    peer.close()
"""

# Connects to an address, prints how long that took, and sends as many bytes; with one more
# argument not before it is told to.
CLIENT = """
import hashlib, random, socket, sys, time
start = time.monotonic()
peer = socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[3]))
print(time.monotonic() - start, flush=True)
if len(sys.argv) > 4:
    input()
data = random.Random(1).randbytes(int(sys.argv[2]))
peer.sendall(data)
peer.shutdown(socket.SHUT_WR)
answer = b""
while piece := peer.recv(64):
    answer += piece
sys.exit(0 if answer == hashlib.sha256(data).digest() else "other bytes came")
"""


def hosts(*arguments, prefix=PREFIX, command=(HOSTS,), **variables):
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, "HOSTS_PREFIX": prefix,
                                                 "DELAY_SWITCH": DELAY_SWITCH, **variables})


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          timeout=PATIENCE).stdout


def all_namespaces():
    folder = pathlib.Path("/run/netns")
    return os.listdir(folder) if folder.exists() else []


def namespaces(prefix=PREFIX):
    return [name for name in all_namespaces()
            if re.fullmatch(prefix + "-([0-9]+|net)", name)]


def remove_what_a_killed_test_left():
    for name in all_namespaces():
        left = re.match("(troupe-test([0-9]+))-", name)
        if left and not os.path.exists(f"/proc/{left[2]}"):
            hosts("down", prefix=left[1])


def outside():
    """What the machine itself sees of its network."""
    links = sorted(re.sub("^[0-9]+: ", "", line).split()[0]
                   for line in output("ip", "-o", "link").splitlines())
    return links, output("ip", "-4", "-o", "address"), output("ip", "route")


class Case(unittest.TestCase):
    def succeed(self, *arguments, **variables):
        done = hosts(*arguments, **variables)
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stderr, "", arguments)
        return done.stdout

    def assert_refused(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def start(self, host, *command):
        """A process on a host; it has printed a line."""
        process = subprocess.Popen([HOSTS, "run", str(host), *command], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, "HOSTS_PREFIX": PREFIX})
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertNotEqual(process.stdout.readline(), "")
        return process

    def serve(self, host):
        return self.start(host, "python3", "-c", SERVER)

    def send(self, host, to, size, patience=PATIENCE):
        return hosts("run", host, "python3", "-c", CLIENT, f"10.77.0.{to}", size, patience)


class Plugged(Case):
    """Three hosts at 100 Mbit/s."""

    @classmethod
    def setUpClass(cls):
        cls.before = outside()
        cls.addClassCleanup(hosts, "down")
        done = hosts("up", 3, "--mbit", 100)
        assert done.returncode == 0, done

    def test_each_reaches_each(self):
        for to in (1, 2, 3):
            self.serve(to)
        for host in (1, 2, 3):
            for to in (1, 2, 3):
                done = self.send(host, to, 10_000)
                self.assertEqual(done.returncode, 0, (host, to, done))

    def test_a_link_holds_back_what_is_too_fast(self):
        self.serve(2)
        self.assertEqual(self.send(1, 2, 2_000_000).returncode, 0)
        for namespace, link in ((f"{PREFIX}-1", "eth0"), (f"{PREFIX}-net", "port2")):
            limit, = json.loads(output("tc", "-n", namespace, "-s", "-j", "qdisc", "show",
                                       "dev", link))
            self.assertEqual(limit["kind"], "tbf")
            self.assertEqual(limit["options"]["rate"], 100_000_000 // 8)
            self.assertGreater(limit["bytes"], 2_000_000)
            self.assertGreater(limit["overlimits"], 0)

    def ranks(self, *more):
        """A rank on each host: exit codes and what they printed."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        started = [subprocess.Popen(
            [HOSTS, "run", str(rank + 1), COMMUNICATOR_RANKS, f"10.77.0.{rank + 1}", str(rank),
             "3", folder.name, "60", *(more if rank == 2 else ())],
            text=True, stdout=subprocess.PIPE, env={**os.environ, "HOSTS_PREFIX": PREFIX})
            for rank in range(3)]
        said = [process.communicate(timeout=PATIENCE)[0] for process in started]
        return [process.returncode for process in started], said

    def test_ranks_exchange_what_those_of_one_process_do(self):
        codes, said = self.ranks()
        self.assertEqual(codes, [0, 0, 0], said)
        for rank, line in enumerate(said):
            self.assertRegex(line, f"^rank {rank}: 60 programs and [0-9]{{5,}} bytes equal$")

    def test_ranks_learn_of_one_that_is_killed(self):
        codes, said = self.ranks("20")
        self.assertEqual(codes, [3, 3, -signal.SIGKILL], said)
        for line in said[:2]:
            self.assertIn("rank 2 has ended", line)

    def test_nothing_leaves(self):
        self.assertEqual(outside(), self.before)
        for host in (1, 2, 3):
            routes = self.succeed("run", host, "ip", "route").splitlines()
            self.assertEqual(len(routes), 1, routes)
            self.assertTrue(routes[0].startswith("10.77.0.0/24 dev eth0"), routes)
        listener = socket.create_server(("0.0.0.0", 0))
        self.addCleanup(listener.close)
        connect = ("import socket, sys; "
                   "sys.exit(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))")
        port = str(listener.getsockname()[1])
        addresses = re.findall(r"inet ([0-9.]+)/", output("ip", "-4", "-o", "address"))
        for address in addresses:
            # Of 127.0.0.1 each host has its own.
            expected = (errno.ECONNREFUSED if address.startswith("127.")
                        else errno.ENETUNREACH)
            done = hosts("run", 1, "python3", "-c", connect, address, port)
            self.assertEqual(done.returncode, expected, (address, done))
        self.assertEqual(subprocess.run(["python3", "-c", connect, "127.0.0.1", port],
                                        timeout=PATIENCE).returncode, 0)

    def test_an_unplugged_host_is_alone_until_it_is_plugged_in_again(self):
        self.serve(3)
        self.succeed("unplug", 3)
        self.addCleanup(hosts, "plug", 3)
        self.assertIn("3 10.77.0.3 unplugged", self.succeed("status"))
        self.assertIn("NO-CARRIER", hosts("run", 3, "ip", "link", "show", "eth0").stdout)
        self.assertNotEqual(self.send(1, 3, 10, patience=1).returncode, 0)
        self.succeed("plug", 3)
        self.assertIn("3 10.77.0.3 plugged", self.succeed("status"))
        self.assertEqual(self.send(1, 3, 10_000).returncode, 0)

    def test_run_is_the_command(self):
        done = hosts("run", 2, "sh", "-c", "echo out; echo err >&2; exit 9")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (9, "out\n", "err\n"))
        process = self.start(2, "sh", "-c", "echo $$; exec sleep 1000")
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), -signal.SIGTERM)

    def test_a_host_that_is_not_there_is_named(self):
        for verb in (("run", 4, "true"), ("plug", 4), ("unplug", 4)):
            self.assert_refused(hosts(*verb), 2, f"{verb[0]}: there is no host 4")
        self.assert_refused(hosts("run", 1), 2, "run: got no command")

    def test_status_has_a_line_for_each(self):
        self.start(2, "sh", "-c", "echo; exec sleep 1000")
        lines = self.succeed("status").splitlines()
        self.assertEqual(lines[0], "1 10.77.0.1 plugged 100Mbit 0 processes")
        self.assertEqual(lines[1], "2 10.77.0.2 plugged 100Mbit 1 processes")
        self.assertEqual(len(lines), 3)

    def test_others_have_hosts_of_their_own(self):
        other = PREFIX + "-other"
        self.addCleanup(hosts, "down", prefix=other)
        self.succeed("up", 1, prefix=other)
        self.assertEqual(self.succeed("status", prefix=other),
                         "1 10.77.0.1 plugged unlimited 0 processes\n")
        self.succeed("down", prefix=other)
        self.assertEqual(namespaces(other), [])
        self.assertEqual(len(namespaces()), 4)


class UpAndDown(Case):
    def setUp(self):
        self.before = outside()
        self.addCleanup(hosts, "down")

    def assert_gone(self):
        self.assertEqual(namespaces(), [])
        self.assertEqual(outside(), self.before)
        self.assertEqual(self.succeed("status"), "")

    def test_down_ends_what_runs_and_leaves_nothing(self):
        self.succeed("up", 2, "--mbit", 100, "--delay", 1)
        stubborn = self.start(1, "sh", "-c", "trap '' TERM; sh -c 'echo; sleep 1000'")
        self.assertEqual(len(namespaces()), 3)
        pids = [pid for name in namespaces() for pid in
                output("ip", "netns", "pids", name).split()]
        self.assertGreaterEqual(len(pids), 3, "two shells or more, and the switch")
        self.succeed("down")
        self.assertEqual(stubborn.wait(PATIENCE), -signal.SIGKILL)
        self.assert_gone()
        self.succeed("down")

    def test_up_replaces_what_is_there(self):
        self.succeed("up", 3)
        old = self.start(3, "sh", "-c", "echo; exec sleep 1000")
        self.succeed("up", 2)
        self.assertEqual(old.wait(PATIENCE), -signal.SIGKILL)
        self.assertEqual(len(self.succeed("status").splitlines()), 2)

    def test_down_and_up_clean_up_after_a_killed_up(self):
        for count in (1, 2, 4, 8):
            for then in ("down", "up"):
                up = subprocess.Popen([HOSTS, "up", "8", "--delay", "1"], start_new_session=True,
                                      env={**os.environ, "HOSTS_PREFIX": PREFIX,
                                           "DELAY_SWITCH": DELAY_SWITCH})
                while len(namespaces()) < count and up.poll() is None:
                    pass
                os.killpg(up.pid, signal.SIGKILL)
                up.wait(PATIENCE)
                self.assertNotEqual(namespaces(), [])
                if then == "up":
                    self.succeed("up", 1)
                    self.assertEqual(len(namespaces()), 2)
                self.succeed("down")
                self.assert_gone()

    def test_half_a_network_does_not_stay(self):
        broken = "/bin/false"
        done = hosts("up", 2, "--delay", 1, DELAY_SWITCH=broken)
        self.assert_refused(done, 2, broken)
        self.assert_gone()
        done = hosts("up", 2, "--delay", 1, DELAY_SWITCH="/nowhere/switch")
        self.assert_refused(done, 2, "/nowhere/switch", "scripts/build.sh")

    def test_who_is_not_root_is_told_and_skips(self):
        nobody = ("unshare", "--user")
        if subprocess.run([*nobody, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no user namespaces")
        for verb in (("up", 1), ("run", 1, "true"), ("plug", 1), ("status",), ("down",)):
            self.assert_refused(hosts(*verb, command=(*nobody, HOSTS)), 77, "needs root")

    def test_a_kernel_that_cannot_is_told_and_skips(self):
        # Root, but without the right to make namespaces.
        poor = ("setpriv", "--bounding-set", "-sys_admin,-net_admin", "--inh-caps",
                "-sys_admin,-net_admin")
        self.assert_refused(hosts("up", 1, command=(*poor, HOSTS)), 77, "unshare")


class Delayed(Case):
    """Two hosts that are 20 ms from each other."""

    DELAY = 0.020

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(hosts, "down")
        done = hosts("up", 2, "--mbit", 1000, "--delay", 20)
        assert done.returncode == 0, done

    def test_nothing_arrives_before_its_time(self):
        self.serve(2)
        for _ in range(3):
            done = self.send(1, 2, 10)
            self.assertEqual(done.returncode, 0, done)
            # There and back. Only a delay that is missing makes it shorter.
            self.assertGreaterEqual(float(done.stdout), 2 * self.DELAY)

    def test_all_bytes_arrive(self):
        self.serve(1)
        self.serve(2)
        for host, to in ((1, 2), (2, 1)):
            done = self.send(host, to, 8_000_000)
            self.assertEqual(done.returncode, 0, done)

    def test_a_connection_outlives_a_pulled_plug(self):
        self.serve(2)
        client = self.start(1, "python3", "-c", CLIENT, "10.77.0.2", "1000000", str(PATIENCE),
                            "wait")
        for _ in range(2):
            self.succeed("unplug", 2)
            self.assertIn("2 10.77.0.2 unplugged", self.succeed("status"))
            self.succeed("plug", 2)
        self.succeed("unplug", 2)
        client.stdin.write("\n")
        client.stdin.flush()
        self.assertIsNone(client.poll(), "nothing can have answered")
        self.succeed("plug", 2)
        self.assertEqual(client.wait(PATIENCE), 0)


if __name__ == "__main__":
    host_tests.main(hosts, remove_what_a_killed_test_left)
