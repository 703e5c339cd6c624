# Sourced by the scripts of fuzzers, after say_why.sh.

# fuzz_limit RUNS: sets `limit`, libFuzzer's flag for so many inputs (100000), or for as
# many as fit into some seconds (60s).
fuzz_limit() {
  if [[ "$1" =~ ^([1-9][0-9]*)s$ ]]; then
    limit=-max_total_time=${BASH_REMATCH[1]}
  else
    [[ "$1" =~ ^[1-9][0-9]*$ ]] ||
      die "RUNS: got '$1', expected a whole number of at least 1, or seconds (60s)"
    limit=-runs=$1
  fi
}
