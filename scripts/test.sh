#!/usr/bin/env bash
# Installs what is needed, checks the format, builds, and runs every test:
# natively, with matrix products held to AVX2, under ASan+UBSan and under TSan.
# Where the CUDA Toolkit is installed, the optimised build has the device layer
# and runs on emulated GPUs too; the sanitizers build without it.
#   scripts/test.sh          everything
#   SANITIZED_PART=0 scripts/test.sh
#                            every fourth test under the sanitizers; 1, 2, 3: others
#   scripts/test.sh quick    the release build without CUDA only
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
[[ $# == 0 || "$*" == quick ]] || die "got '$*', expected nothing or quick"
part=${SANITIZED_PART:-all}
[[ "$part" =~ ^([0-3]|all)$ ]] || die "SANITIZED_PART: got '$part', expected 0, 1, 2 or 3"
scripts/setup.sh

# Says what begins, after how many seconds.
stage() {
  echo "== $1 == (after $SECONDS s)"
}

stage "format"
find actors config kernels models net samplers tests \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 clang-format-14 --dry-run --Werror

if [[ "${1:-}" == quick ]]; then
  scripts/build.sh release
  exec ctest --preset release -j 2
fi

# Threads of the matrix library that wait for work spin; a thousand short runs of
# the program would pay for it.
export OMP_WAIT_POLICY=passive
preset=release
if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
  preset=emulated
fi
stage "$preset"
scripts/build.sh "$preset"
# The tests of one instruction set compare bits. A processor without AVX-512 has
# one only, and would run them twice.
one_set='_(avx2|avx512_core|avx512_core_bf16)$'
left_out=$one_set
if grep -qm1 avx512f /proc/cpuinfo; then
  left_out='^$'
fi
ctest --test-dir "build/$preset" --output-on-failure -j 2 -E "$left_out"

stage "address and undefined behaviour sanitizers"
scripts/build.sh asan
# Shorter stacks of allocations: a tenth of the time.
export ASAN_OPTIONS=detect_leaks=1:malloc_context_size=8
shards=(0 1)
num_shards=2
of_part=()
if [[ "$part" != all ]]; then
  of_part=(GTEST_TOTAL_SHARDS=4 "GTEST_SHARD_INDEX=$part")
  shards=("$part" "$((part + 4))")
  num_shards=8
fi
# The tests of one instruction set: natively. Those of the simulator take minutes
# here: a few schedules go through the same lines.
env "${of_part[@]}" ctest --preset asan -j 2 -E "$one_set|^test_simulator(_links)?\$"
build/asan/tests/simulator/simulate_schedules 40 &
schedules=$!
build/asan/tests/simulator/simulate_schedules --links 20
wait "$schedules"
# Two at a time as well. Left out are those that need minutes for what the
# optimised program did above: hundreds of thousands of keys and tensors, two
# jobs that wait for each other, and workers that are lost in each way.
slow=StrangeText.Many*:InspectVerb.ListsSoManyTensors*
slow+=:TwoJobs.KeepEachOthersSheetRowsAndTrace
slow+=:WorkerProcess.MayBeKilledFrozenOrToldToLeave
for shard in "${shards[@]}"; do
  GTEST_TOTAL_SHARDS=$num_shards GTEST_SHARD_INDEX=$shard \
    SANITIZED_PROGRAM=$PWD/build/asan/troupe \
    timeout 1800 "build/$preset/tests/cli/cli_test" --gtest_filter="-$slow" \
    >"build/asan/cli_test-$shard.log" 2>&1 &
  runs[shard]=$!
done
failed=0
for shard in "${shards[@]}"; do
  if wait "${runs[shard]}"; then
    tail -n 3 "build/asan/cli_test-$shard.log"
  else
    cat "build/asan/cli_test-$shard.log" >&2
    failed=1
  fi
done
((failed == 0)) || die "cli_test with the sanitized program failed: see above"

# The actors under CAF's test scheduler: on one thread, since ThreadSanitizer
# cannot see into Debian's libcaf.
stage "thread sanitizer: executors, pool, channels, links, methods, policies, actors, codecs"
tsan_tests=(test_core test_link_policies test_hub test_parallel test_policies test_shells
  test_wire)
scripts/build.sh tsan "${tsan_tests[@]}"
env "${of_part[@]}" ctest --preset tsan -j 2 -R "^($(IFS='|' && echo "${tsan_tests[*]}"))\$"

# Other files and records each time. Configurations take as long as the rest.
stage "hostile configurations beside checkpoints, tokenizers and records"
scripts/fuzz_configs.sh 100000 >build/asan/fuzz_configs.log 2>&1 &
configs=$!
scripts/fuzz_safetensors.sh 400000

stage "hostile tokenizers"
scripts/fuzz_tokenizers.sh 100000

stage "hostile records"
scripts/fuzz_records.sh 200000
wait "$configs" || {
  cat build/asan/fuzz_configs.log >&2
  die "scripts/fuzz_configs.sh 100000 failed: see above"
}

stage "hostile inputs to the program"
scripts/corpus.sh --self-test
# Some 1,260 of them; without --every it takes five minutes of one core.
scripts/corpus.sh --every 4 --program "build/$preset/troupe"
scripts/corpus.sh --every 20 --sanitized --program build/asan/troupe

# They need PyTorch 2, which Debian 12 has not: the venv of bench_forward.sh.
bench_python=${BENCH_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/troupe/bench-venv/bin/python}
if command -v "$bench_python" >/dev/null; then
  echo "== scripts of the demo model =="
  OMP_NUM_THREADS=1 "$bench_python" scripts/test_train_demo.py
else
  echo "left out: scripts/test_train_demo.py needs PyTorch 2:" \
    "BENCH_PYTHON=…/python, or scripts/bench_forward.sh once (it makes a venv)"
fi
