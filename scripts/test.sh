#!/usr/bin/env bash
# Installs what is needed, checks the format, builds and tests: an optimised build, one
# under ASan and UBSan, one under TSan, and fuzzers. Where the CUDA Toolkit is installed,
# the optimised build has the device layer and runs on emulated GPUs too; the sanitizers
# build without it.
#   scripts/test.sh          what every change must pass
#   scripts/test.sh full     everything, before an issue is called resolved
#   scripts/test.sh quick    the release build without CUDA alone
# Under the sanitizers go the tests of the labels parse, life and threads
# (tests/CMakeLists.txt); with full, all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
[[ $# == 0 || "$*" =~ ^(full|quick)$ ]] || die "got '$*', expected nothing, full or quick"
mode=${1:-}
scripts/setup.sh

# Says what begins, after how many seconds.
stage() {
  echo "== $1 == (after $SECONDS s)"
}

stage "format"
find actors config kernels models net samplers tests \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -n 100 -P "$(nproc)" clang-format-14 --dry-run --Werror

if [[ "$mode" == quick ]]; then
  scripts/build.sh release
  exec ctest --preset release -j 4
fi

# GoogleTest prints failures alone.
export GTEST_BRIEF=1
# Threads of the matrix library that wait for work spin; a thousand short runs of
# the program would pay for it.
export OMP_WAIT_POLICY=passive
# Shorter stacks of allocations: a tenth of the time.
export ASAN_OPTIONS=detect_leaks=1:malloc_context_size=8
preset=release
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
  preset=emulated
fi

stage "$preset: build"
targets=()
[[ "$mode" != full ]] || targets=(all tools troupe_header_check)
scripts/build.sh "$preset" "${targets[@]}"
# More than one test a core: many wait most of their time. Tests of one instruction
# set compare bits: without AVX-512 there is no other set, and AVX2 is tried each time.
# What .ci/run does: the program on emulated GPUs, two of them, and cuDNN's plans.
left_out='_avx512_core(_bf16)?$|^test_(cuda_emulated_2_gpus|program_emulated|dnn_plans)$'
[[ "$mode" != full ]] || left_out='^$'
grep -qm1 avx512f /proc/cpuinfo || left_out+='|_(avx2|avx512_core(_bf16)?)$'
stage "$preset: tests"
ctest --test-dir "build/$preset" --output-on-failure -j 4 -E "$left_out"

# The program under the sanitizer is run by tests of the optimised build. Left out are
# those that need minutes for what the optimised program did above: hundreds of thousands
# of keys and tensors, two jobs that wait for each other, workers lost in each way.
program_tests='BadCheckpoint*:BadFiles*:Checkpoint.*:ForeignTensors*:Hostile*:StrangeText*:Weights.*'
slow='StrangeText.Many*:InspectVerb.ListsSoManyTensors*:TwoJobs.KeepEachOthersSheetRowsAndTrace'
slow+=':WorkerProcess.MayBeKilledFrozenOrToldToLeave'
targets=(parse life troupe fuzz_configs fuzz_safetensors fuzz_tokenizers fuzz_records)
labels=(-L 'parse|life')
if [[ "$mode" == full ]]; then
  program_tests='*'
  targets=(all)
  labels=()
fi
stage "address and undefined behaviour sanitizers: build"
scripts/build.sh asan "${targets[@]}"
stage "address and undefined behaviour sanitizers: tests"
for shard in 0 1; do
  GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$shard SANITIZED_PROGRAM=$PWD/build/asan/troupe \
    timeout 3600 "build/$preset/tests/cli/cli_test" --gtest_filter="$program_tests-$slow" \
    >"build/asan/cli_test-$shard.log" 2>&1 &
  runs[shard]=$!
done
# The tests of one instruction set: natively. Those of the simulator take minutes here: a
# few schedules go through the same lines.
ctest --preset asan -j 4 "${labels[@]}" \
  -E '_(avx2|avx512_core|avx512_core_bf16)$|^test_simulator(_links)?$'
if [[ "$mode" == full ]]; then
  scripts/build.sh "$preset" simulate_schedules
  "build/$preset/tests/simulator/simulate_schedules" 3000
  "build/$preset/tests/simulator/simulate_schedules" --links 2500
  scripts/build.sh asan simulate_schedules
  build/asan/tests/simulator/simulate_schedules 40
  build/asan/tests/simulator/simulate_schedules --links 20
fi
for shard in 0 1; do
  wait "${runs[shard]}" || {
    cat "build/asan/cli_test-$shard.log" >&2
    die "cli_test with the sanitized program failed: see above"
  }
  tail -n 3 "build/asan/cli_test-$shard.log"
done

# The actors under CAF's test scheduler: on one thread, since ThreadSanitizer
# cannot see into Debian's libcaf.
targets=(threads)
labels=(-L threads)
if [[ "$mode" == full ]]; then
  targets+=(test_link_policies test_parallel test_wire)
  labels=(-R '^test_(core|hub|link_policies|parallel|policies|shells|wire)$')
fi
stage "thread sanitizer: build"
scripts/build.sh tsan "${targets[@]}"
stage "thread sanitizer: tests"
ctest --preset tsan -j 4 "${labels[@]}"

# Two fuzzers at a time, on a core each.
stage "hostile configurations, checkpoints, tokenizers and records"
# fuzz NAME RUNS: says what it printed only if it failed.
fuzz() {
  scripts/fuzz_"$1".sh "$2" >"build/asan/fuzz_$1.log" 2>&1 || {
    cat "build/asan/fuzz_$1.log" >&2
    die "scripts/fuzz_$1.sh $2 failed: see above"
  }
}
fuzz_runs=(20s 20s 20s 20s)
[[ "$mode" != full ]] || fuzz_runs=(100000 400000 100000 200000)
fuzz configs "${fuzz_runs[0]}" &
configs=$!
fuzz safetensors "${fuzz_runs[1]}"
wait "$configs"
fuzz tokenizers "${fuzz_runs[2]}" &
tokenizers=$!
fuzz records "${fuzz_runs[3]}"
wait "$tokenizers"

stage "hostile inputs to the program"
scripts/corpus.sh --self-test
# Some 1,260 of them; without --every it takes five minutes of one core.
every=8
every_sanitized=60
if [[ "$mode" == full ]]; then
  every=4
  every_sanitized=20
fi
scripts/corpus.sh --every "$every_sanitized" --sanitized --program build/asan/troupe \
  >build/asan/corpus.log 2>&1 &
sanitized=$!
scripts/corpus.sh --every "$every" --program "build/$preset/troupe"
wait "$sanitized" || {
  cat build/asan/corpus.log >&2
  die "corpus.sh with the sanitized program failed: see above"
}

if [[ "$mode" == full ]]; then
  # They need PyTorch 2, which Debian 12 has not: the venv of bench_forward.sh.
  bench_python=${BENCH_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/troupe/bench-venv/bin/python}
  if command -v "$bench_python" >/dev/null; then
    stage "scripts of the demo model"
    OMP_NUM_THREADS=1 "$bench_python" scripts/test_train_demo.py
  else
    echo "left out: scripts/test_train_demo.py needs PyTorch 2:" \
      "BENCH_PYTHON=…/python, or scripts/bench_forward.sh once (it makes a venv)"
  fi
fi
stage "done"
