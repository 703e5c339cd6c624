"""A job that listens, and workers that come and go, for soak.py."""

import json
import signal
import subprocess
import time

# Started processes end with the script, even if the script is killed.
BOUND = ["setpriv", "--pdeathsig", "KILL"]
# How a worker may end: the job is over, it was killed, it was asked to leave, also
# before the program had begun.
FINE_ENDS = {0, -signal.SIGKILL, 75, -signal.SIGTERM}


class Broken(Exception):
    """Something ended that should not have, or as it should not have."""


class Place:
    """The program, and where all that it writes lies."""

    def __init__(self, troupe, folder):
        self.troupe, self.folder = troupe, folder
        self.key = folder / "company.key"
        subprocess.run([troupe, "keys", "new", "-q", "--out", self.key], check=True)
        self.started = []

    def start(self, name, arguments, **options):
        log = self.folder / f"{name}.log"
        with open(log, "a", encoding="utf-8") as to:
            process = subprocess.Popen(
                [*BOUND, *map(str, [self.troupe, *arguments])], stderr=to,
                stdin=subprocess.DEVNULL, start_new_session=True, **options)
        process.log = log
        self.started = [one for one in self.started if one.poll() is None]
        self.started.append(process)
        return process

    def end_all(self):
        for process in self.started:
            process.kill()
            process.wait()


class Worker:
    def __init__(self, place, name, endpoint, stays):
        self.place, self.name, self.endpoint, self.stays = place, name, endpoint, stays
        self.begin()

    def begin(self):
        self.thaws = self.begins = None
        self.process = self.place.start(
            self.name, ["worker", "-q", "--join", self.endpoint, "--secret-file",
                        self.place.key, "--workers", "1", "--threads", "1",
                        *(["--stay"] if self.stays else ["--wait", "60"])],
            stdout=subprocess.DEVNULL)

    def freeze(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        self.thaws = time.monotonic() + seconds

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)
        self.thaws = None

    def look_after(self, rng):
        """Thaws and starts it again when it is time."""
        now = time.monotonic()
        if self.begins is not None:
            if now >= self.begins:
                self.begin()
            return
        code = self.process.poll()
        if code is not None:
            if self.stays or code not in FINE_ENDS:
                raise Broken(f"{self.name} ended with exit code {code}: "
                             f"{self.process.log.read_text()}")
            self.begins = now + rng.uniform(0, 2)
        elif self.thaws is not None and now >= self.thaws:
            self.thaw()

    def is_there(self):
        return self.begins is None and self.thaws is None and self.process.poll() is None


class Company:
    """Jobs that listen at one place."""

    def __init__(self, place, name, endpoint, stays, others):
        self.place, self.name, self.endpoint, self.head = place, name, endpoint, None
        self.stay = Worker(place, f"{name}-stay", endpoint, True) if stays else None
        self.others = [Worker(place, f"{name}-{number}", endpoint, False)
                       for number in range(others)]

    def workers(self):
        return [*self.others, *([self.stay] if self.stay else [])]

    def begin(self, arguments):
        self.head = self.place.start(
            f"{self.name}-head", [*arguments, "--listen", self.endpoint,
                                  "--secret-file", self.place.key],
            stdout=subprocess.PIPE, text=True)

    def summary(self, codes, patience=300):
        """Of the job, when it is over."""
        try:
            out, _ = self.head.communicate(timeout=patience)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"{self.name}: not over after {patience} s") from error
        if self.head.returncode not in codes:
            raise Broken(f"{self.name}: exit code {self.head.returncode}: "
                         f"{self.head.log.read_text()}{out}")
        return json.loads(out.splitlines()[-1])
