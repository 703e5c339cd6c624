#!/usr/bin/env bash
# Compares Troupe with diffusers: fresh random configurations each time, every
# scheduler over full loops, whole runs. Prints the worst error of each kind.
#   scripts/parity.sh                  random models (what CI runs)
#   scripts/parity.sh --seed 7         the same draw again
#   scripts/parity.sh --model DIR      your own checkpoint folder
# PARITY_TEXTS is the number of texts that tokenizers are compared over (20000),
# PARITY_PYTHON names a Python that already has torch and diffusers,
# PARITY_PRESET a build (release).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/say_why.sh
python=${PARITY_PYTHON:-}
if [[ -z "$python" ]]; then
  scripts/setup.sh parity
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/troupe/parity-venv
  python=$venv/bin/python
  if ! cmp -s scripts/parity/requirements.txt "$venv/requirements.txt"; then
    rm -rf "$venv"
    /usr/bin/python3 -m venv --system-site-packages "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
      -r scripts/parity/requirements.txt
    cp scripts/parity/requirements.txt "$venv/"
  fi
fi
export PARITY_PRESET=${PARITY_PRESET:-release}
scripts/build.sh "$PARITY_PRESET" troupe model_probe forward_probe schedule_probe \
  token_probe text_encoder_probe
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
status=0
"$python" scripts/parity/parity.py "$@" || status=1
if [[ "$*" != *--model* ]]; then
  echo "schedules and solvers, full loops:"
  "$python" scripts/parity/compare_schedules.py \
    "build/$PARITY_PRESET/tests/samplers/schedule_probe" --cases 240 || status=1
  echo "tokenizers:"
  "$python" scripts/parity/tokens.py \
    "build/$PARITY_PRESET/tests/probes/token_probe" \
    --count "${PARITY_TEXTS:-20000}" "$@" || status=1
fi
((status == 0)) || echo "parity: not within the bounds: see above" >&2
exit "$status"
