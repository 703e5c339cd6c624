"""Runs the checks and benches of gpu_check.sh; prints what each found and one table last.

  python3 gpu_table.py PROGRAMS
PROGRAMS is a build folder, or what `gpu_check.sh --pack` put together.
Exit code 1 when a test, a sanitizer or a comparison of bytes failed; times never fail.
"""

import concurrent.futures
import functools
import glob
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

if len(sys.argv) != 2:
    raise SystemExit("usage: gpu_table.py PROGRAMS")
PROGRAMS = pathlib.Path(sys.argv[1])
PYTHON = os.environ.get("BENCH_PYTHON", "python3")
DEVICE = os.environ.get("DEVICE", "cuda:0")
SCALE = os.environ.get("SCALE", "1")
CHECK = os.environ.get("CHECK", "tests,sanitizers,ranks,speed,peers").split(",")
LOGS = os.environ.get("LOGS")
DEMO = "models/demo"
STEPS = os.environ.get("STEPS", "50")
PROMPTED = ("pixart-sigma-xl-2", "sd15", "sdxl")
rows = []
failed = []


def row(name, value, target=""):
    rows.append((name, value, target))
    print(f"{name}: {value}", flush=True)


def program(name):
    found = sorted(glob.glob(str(PROGRAMS / "**" / name), recursive=True))
    if not found:
        raise SystemExit(f"gpu_check: {name} is not in {PROGRAMS}")
    return found[0]


def joined_paths(*paths):
    return ":".join(str(path) for path in paths if path)


@functools.cache
def wheel_libraries():
    """Folders of CUDA's libraries that came with PyTorch's wheels, which no loader knows."""
    found = subprocess.run([PYTHON, "-c", "import nvidia; print(*nvidia.__path__, sep='\\n')"],
                           capture_output=True, text=True)
    return [folder for root in found.stdout.split()
            for folder in sorted(pathlib.Path(root).glob("*/lib"))]


def run(*command, limit=1200, **variables):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=limit,
                              env={**os.environ, **variables})
    except subprocess.TimeoutExpired as ended:
        said = (ended.stdout or b"").decode(errors="replace")
        return subprocess.CompletedProcess(command, 124, said, f"ended after {limit} s")


def run_ours(*command, **options):
    """With the libraries that came with the programs, if any, and PyTorch's copies of CUDA's."""
    if (PROGRAMS / "lib").is_dir():
        options["LD_LIBRARY_PATH"] = joined_paths(
            PROGRAMS / "lib", os.environ.get("LD_LIBRARY_PATH"), *wheel_libraries())
    return run(*command, **options)


def run_python(*command, **options):
    """With the diffusers that came with the programs, if any."""
    return run(PYTHON, *command, PYTHONPATH=joined_paths(
        PROGRAMS / "python", os.environ.get("PYTHONPATH")), **options)


def json_lines(done):
    if done.returncode != 0:
        print(f"{' '.join(map(str, done.args))}: exit code {done.returncode}",
              done.stdout[-2000:], done.stderr[-2000:], sep="\n")
        return []
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def suites():
    """Those of test_cuda. Each runs in a process of its own: a fault of one kernel makes every
    later call of its process fail, and most of a test is the processor's work."""
    listed = run_ours(program("test_cuda"), "--gtest_list_tests")
    if listed.returncode != 0:
        raise SystemExit(f"gpu_check: {listed.stdout[-2000:]}{listed.stderr[-2000:]}")
    return [line.split()[0] for line in listed.stdout.splitlines() if re.match(r"\S+\.", line)]


def run_suites(what, processes, *command, limit):
    """Every suite under `command`, so many at a time; {suite: what it did}. LOGS keeps what
    each said."""
    def one(suite):
        found = run_ours(*command, program("test_cuda"), f"--gtest_filter={suite}*", limit=limit)
        if LOGS:
            file = pathlib.Path(LOGS, f"{what}-{re.sub('[^A-Za-z0-9]', '-', suite)}log")
            file.write_text(f"exit {found.returncode}\n{found.stdout}\n{found.stderr}")
        return found

    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        names = suites()
        return dict(zip(names, pool.map(one, names)))


def count(output, what):
    """Of GoogleTest's last lines, such as "[  PASSED  ] 515 tests."."""
    found = re.findall(rf"^\[ +{what} +\] (\d+) tests?\b", output, re.MULTILINE)
    return int(found[-1]) if found else 0


def show_failures(done):
    """Of each suite that failed, what each failed test said first."""
    for suite, found in done.items():
        if found.returncode == 0:
            continue
        tests = re.split(r"^\[ RUN +\] ", found.stdout, flags=re.MULTILINE)[1:]
        bad = [text for text in tests if not re.search(r"^\[ +(OK|SKIPPED) +\]", text, re.M)]
        print(f"{suite} exit {found.returncode}, {len(bad)} of {len(tests)} failed",
              found.stderr[-300:], *(text[:600] for text in bad[:2]), sep="\n", flush=True)


def tests():
    done = run_suites("tests", os.cpu_count() or 1, limit=1200)
    broken = {suite: found for suite, found in done.items() if found.returncode != 0}
    passed, skipped, bad = (sum(count(found.stdout, what) for found in done.values())
                            for what in ("PASSED", "SKIPPED", "FAILED"))
    row("tests", f"{passed} passed, {skipped} skipped, {bad} failed; "
        f"{len(broken)} of {len(done)} suites failed {' '.join(broken)}", "few skipped")
    if broken or skipped > passed:
        failed.append("tests")
        show_failures(broken)


def sanitizers():
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        row("compute-sanitizer", "not installed")
        return
    # Some tests ask for what CUDA must refuse; a refusal that none expects fails its test.
    for tool, *options in (("memcheck", "--report-api-errors", "no"), ("racecheck",)):
        done = run_suites(tool, max(1, (os.cpu_count() or 1) // 2), sanitizer, "--tool", tool,
                          *options, "--require-cuda-init", "no", "--error-exitcode", "9",
                          limit=3600)
        broken = {suite: found for suite, found in done.items()
                  if found.returncode != 0 and not only_cudnn_races(found)}
        found = list(dict.fromkeys(
            line for one in broken.values() for line in one.stdout.splitlines()
            if "SUMMARY" in line or "Error" in line))
        row(f"compute-sanitizer {tool}",
            f"{len(broken)} of {len(done)} suites failed {' '.join(broken)}"
            f"{'; '.join(['', *found[-2:]])}", "none")
        show_failures(broken)
        if broken:
            failed.append(tool)


def only_cudnn_races(done):
    """Racecheck does not see how cuDNN's attention orders its bulk copies, and calls that a
    race. (To leave its kernels out by name made racecheck itself fail on an H200.)"""
    races = [line for line in done.stdout.splitlines() if "Race reported between" in line]
    return (races and all("cudnn_" in line for line in races)
            and count(done.stdout, "FAILED") == 0)


def run_sample(*arguments, steps=STEPS, **variables):
    """Latents are what is kept: pictures would be timed too."""
    with tempfile.TemporaryDirectory() as folder:
        return run_ours(
            program("troupe"), "sample", "--device", DEVICE, "--json", "-q", "--steps", str(steps),
            "--seed", "1", "--save", f"latents={folder}/latents.npz", *arguments, **variables)


def sample(*arguments, **options):
    """A job's summary."""
    found = json_lines(run_sample(*arguments, **options))
    return found[-1] if found else {}


def equal_bytes():
    """Every exact method gives the bytes of the sequential run, alone or in a batch."""
    common = ("--model", DEMO, "--samples", "4", "--class", "0", "--guidance", "1.5")
    want = sample(*common, "--method", "sequential").get("latents_xxh3", "nothing")
    cases = {
        "again": ("--method", "sequential"),
        "batch": ("--method", "batch"),
        "picard, tolerance 0": ("--method", "picard", "--window", "4", "--tolerance", "0"),
        "pipeline": ("--method", "pipeline", "--segments", "2"),
        "stale, age 0": ("--method", "stale", "--segments", "2", "--age", "0"),
    }
    differing = [name for name, arguments in cases.items()
                 if sample(*common, *arguments).get("latents_xxh3") != want]
    row("bytes equal to sequential", ", ".join(differing) + " differ" if differing
        else ", ".join(cases), "all")
    failed.extend(differing)


def ranks():
    """Shards that share this one GPU give the bytes of one."""
    tiny = SCALE != "1"
    for model, *more in (("dit-tiny" if tiny else "dit-xl-2-512", "--class", "0"),
                         ("tiny-uvit" if tiny else "uvit-large-256", "--class", "0"),
                         ("tiny-pixart-sigma" if tiny else "pixart-sigma-xl-2", "--prompt", "a fox"),
                         ("tiny-sd15" if tiny else "sd15", "--prompt", "a fox"),
                         ("tiny-sdxl" if tiny else "sdxl", "--prompt", "a fox")):
        common = ("--random-weights", model, *more)
        want = sample(*common, steps=2).get("latents_xxh3", "nothing")
        found = {}
        for count in (2, 3):
            for plan in ("gather", "ulysses"):
                done = run_sample(*common, "--shards", str(count), "--shard-plan", plan, steps=2,
                                  RANKS_ON_ONE_GPU="1")
                said = done.stderr.strip().splitlines()[-1:]
                found[f"{plan} {count}"] = (
                    f"refused ({' '.join(said)})" if done.returncode == 2 else
                    f"exit code {done.returncode} ({' '.join(said)})" if done.returncode != 0 else
                    "equal" if json_lines(done)[-1]["latents_xxh3"] == want else "differs")
        row(f"{model}: shards against one",
            "; ".join(f"{name} {what}" for name, what in found.items()), "equal, or refused")
        failed.extend(f"{model} {name}" for name, what in found.items()
                      if not what.startswith(("equal", "refused")))


def rank_processes(programs, dies_at=None):
    """Two ranks of NCCL, a process each, on one GPU: what each did."""
    one_gpu = {"NCCL_MULTI_RANK_GPU_ENABLE": "1",
               "CUDA_VISIBLE_DEVICES": DEVICE.removeprefix("cuda:")}
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor() as pool:
        return list(pool.map(
            lambda rank: run_ours(
                program("communicator_ranks"), "nccl", str(rank), "2", folder, str(programs),
                *([str(dies_at)] if rank and dies_at is not None else []), limit=300, **one_gpu),
            range(2)))


def nccl():
    """Random programs in two processes through the real NCCL; a rank that is killed, and two
    new ones behind it."""
    for name, want, options in (("random programs", (0, 0), {"programs": 500}),
                                ("a rank killed", (3, -9), {"programs": 500, "dies_at": 50}),
                                ("the next group", (0, 0), {"programs": 50})):
        done = rank_processes(**options)
        said = [(one.stdout + one.stderr).strip().splitlines()[-1:] for one in done]
        row(f"NCCL, two processes, {name}", "; ".join(line for lines in said for line in lines),
            "equal, or two ranks refused before 2.30.3")
        refused = any("NCCL says" in one.stderr for one in done)
        if tuple(one.returncode for one in done) != want and not refused:
            failed.append(f"NCCL, {name}")


def forward(model, samples, mode):
    found = json_lines(run_ours(program("forward_probe"), model, "bf16", "1", "50", DEVICE,
                                str(samples), mode))
    return found[-1] if found else None


def peers():
    """PyTorch's milliseconds by case."""
    if "peers" not in CHECK:
        return {}
    configs = {}
    for name in ("dit-xl-2-256", "dit-xl-2-512", *PROMPTED):
        done = run_ours(program("forward_probe"), "config", name)
        if done.returncode != 0:
            raise SystemExit(f"gpu_check: {done.stderr}")
        configs[name] = json.loads(done.stdout)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(configs, file)
        file.flush()
        done = run_python("scripts/bench/pytorch_gpu.py", "--configs", file.name, limit=1800)
    found = {line["case"]: line for line in json_lines(done)}
    if not found:
        row("PyTorch", "left out: needs torch with CUDA and diffusers (BENCH_PYTHON)")
    return found


def against(peer, ms):
    text = f"{ms:.3f} ms"
    for key, name in (("compile_ms", "torch.compile"), ("eager_ms", "eager")):
        if key in peer:
            text += f"; {peer[key] / ms:.2f} x {name} ({peer[key]:.3f} ms)"
    return text


def speed():
    torch = peers()
    cases = {mode: {line["case"]: line for line in json_lines(
        run_ours(program("gpu_probe"), DEVICE, mode, SCALE))} for mode in ("invariant", "free")}
    copy = cases["invariant"].get("copy", {}).get("gb_per_s")
    matmul = cases["free"].get("matmul", {}).get("tflop_per_s")
    row("copy, matmul (ceilings)", f"{copy} GB/s, {matmul} TFLOP/s bf16")
    held_to_copy = ("adaln", "qk-norm-rope", "gate-residual", "gate-residual-adaln")
    for name in held_to_copy:
        found = cases["invariant"].get(name)
        if found and copy:
            row(name, f"{found['gb_per_s']:.0f} GB/s, {found['gb_per_s'] / copy:.0%} of copy",
                ">= 80 %")
    # All others have no target.
    for name, found in cases["invariant"].items():
        if name in ("copy", "matmul", "flux-stack", "vae-512", *held_to_copy):
            continue
        kind, unit, ceiling, of = (("gb_per_s", "GB/s", copy, "copy") if "gb_per_s" in found else
                                   ("tflop_per_s", "TFLOP/s", matmul, "matmul"))
        share = f", {found[kind] / ceiling:.0%} of {of}" if ceiling else ""
        row(name, f"{found['ms']:.3f} ms, {found[kind]} {unit}{share}")
    for mode, by_case in cases.items():
        stack = by_case.get("flux-stack")
        if stack and matmul:
            row(f"flux-stack, {mode}", against(torch.get("flux-stack", {}), stack["ms"]) +
                f"; {stack['tflop_per_s'] / matmul:.0%} of matmul", ">= 1.1 x, >= 65 %")
        if "vae-512" in by_case:
            row(f"vae-512, {mode}", against(torch.get("vae-512", {}), by_case["vae-512"]["ms"]),
                ">= 1 x")
    for model, samples, target in (("dit-xl-2-256", 1, ">= 1.5 x, eager 3 x, <= 1.5 ms (free)"),
                                   ("dit-xl-2-512", 8, ">= 1.1 x, >= 65 %")):
        for mode in ("invariant", "free"):
            found = forward(model, samples, mode)
            if found:
                ms = found["queued_s"] * 1e3
                rate = found["gflops"] * found["forward_s"] / found["queued_s"] / 1e3
                share = f"; {rate / matmul:.0%} of matmul" if matmul else ""
                row(f"{model}, {samples} guided, {mode}",
                    against(torch.get(model, {}), ms) + share, target)
    for model in PROMPTED:
        found = forward(model, 1, "invariant")
        if found:
            row(f"{model}, 1 guided, invariant",
                against(torch.get(model, {}), found["queued_s"] * 1e3), ">= 1 x")
    for name, model, tiny in (("CLIP of sd15", "sd15", "tiny-sd15"),
                              ("T5-XXL of PixArt", "pixart-sigma-xl-2", "tiny-pixart-sigma")):
        encoder(name, model if SCALE == "1" else tiny)
    jobs()


def encoder(name, model):
    """What each prompt after the first takes, on the GPU and on the processor."""
    prompts = pathlib.Path("scripts/prompts.txt").read_text().splitlines()
    found = []
    for device in (DEVICE, "cpu"):
        with tempfile.TemporaryDirectory() as folder:
            took = []
            for count in (1, 41):
                lines = pathlib.Path(folder, f"{count}.txt")
                lines.write_text("\n".join(prompts[:count]) + "\n")
                took += json_lines(run_ours(
                    program("troupe"), "encode", "--random-weights", model, "--device", device,
                    "--prompt-file", lines, "--out", f"{folder}/{count}.safetensors", "--json"))
        if len(took) == 2:
            ms = (took[1]["encode_seconds"] - took[0]["encode_seconds"]) / 40 * 1e3
            found.append(f"{ms:.2f} ms on {device} in {took[0]['dtype']}")
    row(f"{name}, a prompt", "; ".join(found))


def jobs():
    """Whole jobs: control between steps, Picard on one GPU, the packer."""
    for name, source, target in (
            ("demo", ("--model", DEMO), ">= 2 x"),
            ("dit-xl-2-256", ("--random-weights", "dit-xl-2-256"), ">= 1.2 x")):
        common = (*source, "--class", "0", "--guidance", "1.5", "--samples", "1")
        control(name, common)
        for tolerance in ("0", "0.01", "0.03", "0.1"):
            picard(name, common, tolerance, target)
    packer()


def control(name, common):
    """What a step of a sample that is alone takes beside its forward pass: the wall time of
    a long run less a short one's, so that what happens once is in neither."""
    found = forward(DEMO if name == "demo" else name, 1, "invariant")
    short, long = 2 * int(STEPS), 10 * int(STEPS)
    walls = {n: [] for n in (short, long)}
    for _ in range(3):
        for n, seconds in walls.items():
            done = sample(*common, "--method", "sequential", steps=n)
            if done:
                seconds.append(done["wall_seconds"] - done["load_seconds"])
    if not found or not all(walls.values()):
        return
    each = ((statistics.median(walls[long]) - statistics.median(walls[short])) / (long - short))
    row(f"{name}: control and solver between steps",
        f"{(each - found['forward_s']) * 1e6:.0f} us of {each * 1e6:.0f}", "<= 30 us")


def picard(name, common, tolerance, target):
    found = json_lines(run_ours(
        program("troupe"), "bench", "--device", DEVICE, "--json", "-q", "--steps", STEPS,
        "--seed", "1", *common, "--method", "picard", "--window", "8", "--tolerance", tolerance,
        "--guess", "constant_x0"))
    if found:
        sequential, parallel = found[-1]["rows"]
        row(f"{name}: picard 8, tolerance {tolerance}",
            f"{sequential['seconds'] / parallel['seconds']:.2f} x sequential, "
            f"relative RMSE {parallel['relative_rmse']:.4f}, {parallel['rounds']} rounds",
            f"{target}, RMSE <= 0.02")


def packer():
    """The batch that is chosen against every fixed one: medians of runs in turns."""
    samples = max(1, round(64 * float(SCALE)))
    fixed = [n for n in (1, 2, 4, 8, 16, 32) if n <= samples]
    rates = {n: [] for n in (0, *fixed)}  # 0: chosen
    for _ in range(3):
        for n, found in rates.items():
            done = sample("--model", DEMO, "--class", "0", "--guidance", "1.5", "--samples",
                          str(samples), "--method", "batch", "--batch", str(n))
            if done:
                found.append(done["images_per_second"])
    if not all(rates.values()):
        return
    rates = {n: statistics.median(found) for n, found in rates.items()}
    best = max(fixed, key=rates.get)
    row(f"packer, demo, {samples} samples",
        f"{rates[0]:.1f} images/s, {rates[0] / rates[best]:.2f} x the best --batch; "
        + ", ".join(f"{n}: {rates[n]:.1f}" for n in fixed), ">= 0.95 x")


def main():
    if shutil.which("nvidia-smi"):
        done = run("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                   "--format=csv,noheader")
        row("GPU", done.stdout.strip())
    else:
        row("GPU", "nvidia-smi is not there")
    print(run_ours(program("troupe"), "doctor").stdout)
    if "tests" in CHECK:
        tests()
        equal_bytes()
    if "sanitizers" in CHECK:
        sanitizers()
    if "ranks" in CHECK:
        ranks()
        nccl()
    if "speed" in CHECK:
        speed()
    width = max(len(name) for name, _, _ in rows)
    print("\n" + "\n".join(f"{name:{width}}  {value}{'  [' + target + ']' if target else ''}"
                           for name, value, target in rows))
    print("failed: " + ", ".join(failed) if failed else "nothing failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
