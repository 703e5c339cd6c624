# Sourced by scripts that compare with PyPI's torch 2: sets `python` to BENCH_PYTHON
# or to a venv that is made once (bench/requirements.txt, some gigabytes).
python=${BENCH_PYTHON:-}
if [[ -z "$python" ]]; then
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/bench-venv
  python=$venv/bin/python
  if ! cmp -s scripts/bench/requirements.txt "$venv/requirements.txt"; then
    echo "$(basename "$0" .sh): installing PyTorch into $venv, some gigabytes" >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
      -r scripts/bench/requirements.txt
    cp scripts/bench/requirements.txt "$venv/"
  fi
fi
command -v "$python" >/dev/null || die "BENCH_PYTHON: no such program: $python"
