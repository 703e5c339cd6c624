"""What the scripts say when they cannot do what is asked; bench_forward.sh without PyTorch;
which flags count for scripts that run the program.

  python3 test_scripts.py FORWARD_PROBE TROUPE [unittest's arguments]
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Parts of other scripts, which have said it already.
SOURCED = ("say_why.sh", "bench_python.sh", "fuzz_limit.sh")
PROBE, TROUPE = (str(pathlib.Path(sys.argv.pop(1)).resolve()) for _ in range(2))

# Stands for the program in a Slurm job: waits for the signal that comes before the time
# limit, and ends with the code that the test wants.
SLURM_PROGRAM = """#!/bin/sh
trap 'kill "$sleeper"; exit "$CODE"' TERM
sleep 60 >/dev/null 2>&1 &
sleeper=$!
kill -USR1 $PPID
wait
"""
SCONTROL = '#!/bin/sh\necho "$*" >>"$SEEN/scontrol"\n'

# Stands for a Python with PyTorch: leaves its arguments and the configuration
# it was given, and answers with a time.
PEER = """#!/bin/sh
printf '%s\\n' "$@" >"$SEEN/arguments"
[ "$2" = --config ] && cp "$3" "$SEEN/config.json"
echo "a warning of torch" >&2
echo '{"eager_s": 1.0}'
"""
BROKEN_PEER = "#!/bin/sh\necho 'No module named torch' >&2\nexit 3\n"


def run(*command, **variables):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600,
                          env={**os.environ, "FORWARD_PROBE": PROBE, **variables})


def bundled_models():
    return run(PROBE, "models").stdout.split()


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def peer(self, text):
        path = self.folder / "python"
        path.write_text(text)
        path.chmod(0o755)
        return {"BENCH_PYTHON": str(path), "SEEN": str(self.folder)}

    def assert_refused(self, done, *parts):
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def assert_in_force(self, done, *lines):
        """What --print-config says, without the spaces before its comments."""
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [" ".join(line.split()) for line in done.stdout.splitlines()]
        for line in lines:
            self.assertIn(line, said)

    def test_flags_count_more_than_what_the_demo_says(self):
        root = self.folder / "root"
        (root / "build/release").mkdir(parents=True)
        (root / "build/release/troupe").symlink_to(TROUPE)
        (root / "models").symlink_to(ROOT / "models")
        (root / "scripts").mkdir()
        for name in ("demo.sh", "say_why.sh"):
            shutil.copy(ROOT / "scripts" / name, root / "scripts")
        for name in ("setup.sh", "build.sh"):
            (root / "scripts" / name).write_text("#!/bin/sh\n")
            (root / "scripts" / name).chmod(0o755)
        demo = str(root / "scripts/demo.sh")
        self.assert_in_force(run(demo, "--print-config"), "samples = 16 # TROUPE_SAMPLES",
                             "seed = 2024 # TROUPE_SEED")
        self.assert_in_force(run(demo, "--samples", "4", "--seed", "1", "--print-config"),
                             "samples = 4 # --samples", "seed = 1 # --seed",
                             'out = "demo" # TROUPE_OUT')
        self.assert_in_force(run(demo, "--print-config", TROUPE_SAMPLES="3"),
                             "samples = 3 # TROUPE_SAMPLES")

    def test_flags_count_more_than_what_the_slurm_script_says(self):
        def job(*flags):
            return run("bash", "scripts/slurm.sbatch", "--model", "models/demo", *flags,
                       TROUPE=TROUPE, SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="1")
        self.assert_in_force(job("--print-config"), 'exists = "skip" # TROUPE_EXISTS')
        self.assert_in_force(job("--print-config", "--exists=replace"),
                             'exists = "replace" # --exists')
        refused = job("-n", "4", "--samples=8")
        self.assertEqual(refused.returncode, 2, refused)
        self.assertIn("'4' and '8'", refused.stderr)
        self.assert_in_force(job("-n", "4", "--samples=4", "--print-config"),
                             "samples = 4 # --samples")

    def test_the_tasks_of_a_slurm_array_share_the_pictures_of_all_prompts(self):
        prompts = self.folder / "p.txt"
        prompts.write_text("a fox\na hen\na cat\n")
        out = self.folder / "out"
        for count in (["-n4"], ["--num-samples", "4"], ["--num-images-per-prompt=4"], ["-n=4"]):
            shutil.rmtree(out, ignore_errors=True)
            counts = []
            for task in range(5):
                done = run("bash", "scripts/slurm.sbatch", "--random-weights",
                           "tiny-pixart-sigma", "--steps", "1", "--prompt-file",
                           str(prompts), *count, "--out", f"{out}/", "--json", "--quiet",
                           TROUPE=TROUPE, SLURM_JOB_ID="1", SLURM_JOB_NUM_NODES="1",
                           SLURM_ARRAY_TASK_ID=str(task), SLURM_ARRAY_TASK_COUNT="5",
                           SLURM_ARRAY_TASK_MIN="0", SLURM_ARRAY_TASK_MAX="4")
                self.assertEqual(done.returncode, 0, done.stderr)
                counts.append(len(json.loads(done.stdout.splitlines()[-1])["images"]))
            self.assertEqual(sorted(counts), [2, 2, 2, 3, 3])
            self.assertEqual(len(list(out.glob("*.png"))), 12)

    def test_every_bundled_model_has_a_configuration(self):
        models = bundled_models()
        self.assertIn("dit-xl-2-512", models)
        for name in models:
            done = run(PROBE, "config", name)
            self.assertEqual(done.returncode, 0, done.stderr)
            config = json.loads(done.stdout)
            self.assertIn("_class_name", config["denoiser"])
            self.assertIn("_class_name", config["scheduler"])
            self.assertIn("vae", config)
            self.assertIn("pipeline", config)

    def test_a_peer_gets_the_bundled_configuration(self):
        for name in ("dit-tiny", "dit-tiny-vae"):
            done = run("scripts/bench_forward.sh", name, "f32", "1", **self.peer(PEER))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{name} f32: troupe ", done.stdout)
            self.assertIn("PyTorch eager: 1000.0 ms", done.stdout)
            self.assertEqual(done.stderr, "")
            given = json.loads((self.folder / "config.json").read_text())
            self.assertEqual(given, json.loads(run(PROBE, "config", name).stdout))

    def test_a_peer_gets_the_folder(self):
        done = run("scripts/bench_forward.sh", "models/demo", "f32", "1", **self.peer(PEER))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("--folder\nmodels/demo\n", (self.folder / "arguments").read_text())

    def test_an_unknown_model_is_named_beside_those_there_are(self):
        self.assert_refused(run("scripts/bench_forward.sh", "dit-xl-3", **self.peer(PEER)),
                            "dit-xl-3", *bundled_models())

    def test_a_peer_that_fails_is_heard(self):
        done = run("scripts/bench_forward.sh", "dit-tiny", "f32", "1", **self.peer(BROKEN_PEER))
        self.assertEqual(done.returncode, 3)
        self.assertIn("No module named torch", done.stderr)
        self.assertIn("exit code 3", done.stderr)

    def test_a_python_that_is_not_there_is_named(self):
        self.assert_refused(run("scripts/bench_forward.sh", "dit-tiny", "f32", "1",
                                BENCH_PYTHON="/nowhere/python"), "/nowhere/python")

    def test_words_that_mean_nothing_are_refused_before_any_work(self):
        for command in (("bench_forward.sh", "dit-tiny", "f64"),
                        ("bench_forward.sh", "dit-tiny", "f32", "0"),
                        ("bench_forward.sh", "dit-tiny", "f32", "1", "2"),
                        ("bench_parallel.sh", "models/demo", "many"),
                        ("bench_cluster.sh", "many"),
                        ("bench_cluster.sh", "--repeats", "many"),
                        ("bench_cluster.sh", "--model"),
                        ("bench_coordination.sh", "many"),
                        ("bench_emulated.sh", "many"),
                        ("bench_startup.sh", "many"),
                        ("bench_writer.sh", "many"),
                        ("bench_kernels.sh", "many"),
                        ("fuzz_safetensors.sh", "many"),
                        ("corpus.sh", "many"),
                        ("soak.sh", "many"),
                        ("soak.sh", "--minutes"),
                        ("soak.sh", "--minutes", "0"),
                        ("soak.sh", "--seed", "none"),
                        ("corpus.sh", "--program", "/nowhere"),
                        ("hosts.sh",),
                        ("hosts.sh", "sideways"),
                        ("hosts.sh", "up"),
                        ("hosts.sh", "up", "0"),
                        ("hosts.sh", "up", "251"),
                        ("hosts.sh", "up", "2", "--mbit"),
                        ("hosts.sh", "up", "2", "--delay", "fast"),
                        ("hosts.sh", "up", "2", "--loss", "1"),
                        ("hosts.sh", "status", "1"),
                        ("setup.sh", "many"),
                        ("slurm_test.sh", "many"),
                        ("package.sh", "many"),
                        ("test.sh", "many")):
            self.assert_refused(run("scripts/" + command[0], *command[1:]), command[0][:-3])

    def test_the_probe_refuses_what_it_does_not_know(self):
        for arguments in (("dit-tiny", "f64", "1", "1"), ("dit-tiny", "f32", "x", "1"),
                          ("dit-tiny", "f32", "1", "1", "gpu"), ("dit-tiny",), ()):
            self.assert_refused(run(PROBE, *arguments), "forward_probe: ")

    def test_a_slurm_job_that_is_cancelled_does_not_go_back_to_the_queue(self):
        for name, text in (("troupe", SLURM_PROGRAM), ("scontrol", SCONTROL)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        for code, calls in ((75, ["requeue 7"]), (9, ["update JobId=7 Requeue=0"]),
                            (2, ["update JobId=7 Requeue=0"]), (3, [])):
            seen = self.folder / "scontrol.log"
            seen.mkdir(exist_ok=True)
            log = seen / "scontrol"
            log.unlink(missing_ok=True)
            done = run("scripts/slurm.sbatch", "--model", "m", SLURM_JOB_ID="7",
                       SLURM_JOB_NUM_NODES="1", CODE=str(code), SEEN=str(seen),
                       PATH=f"{self.folder}:{os.environ['PATH']}")
            self.assertEqual(done.returncode, code, done)
            self.assertEqual(log.read_text().splitlines() if log.exists() else [], calls)

    def test_a_kubernetes_job_fails_with_the_codes_that_no_new_pod_changes(self):
        job = (ROOT / "scripts/k8s-job.yaml").read_text()
        self.assertIn("restartPolicy: Never", job)
        _, _, policy = job.partition("  podFailurePolicy:\n")
        rule = [line.strip(" -") for line in policy.splitlines()[:9]]
        self.assertEqual(rule, ["rules:", "action: Ignore", "onPodConditions:",
                                "type: DisruptionTarget", "action: FailJob",
                                "onExitCodes:", "containerName: troupe",
                                "operator: In", "values: [2, 9]"])
        self.assertIn("- name: troupe\n          image:", job)

    def test_every_script_says_why_it_ends(self):
        for script in sorted((ROOT / "scripts").glob("**/*.sh")):
            if script.name not in SOURCED:
                self.assertIn("say_why.sh", script.read_text(), script)

    def test_what_fails_is_said_once(self):
        script = self.folder / "job.sh"
        script.write_text(f"set -euo pipefail\nsource '{ROOT}/scripts/say_why.sh'\n"
                          "f() { local x; x=$(exit 7); }\nf\n")
        done = run("bash", str(script))
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stderr, "job: line 3: 'x=$(exit 7)' ended with exit code 7\n")


if __name__ == "__main__":
    unittest.main()
