# Sourced by the other scripts, so that a failing script says why.

# die MESSAGE…: a mistake of the caller's, or something that is missing.
die() {
  echo "$(basename "$0" .sh): $*" >&2
  exit 2
}

# need_number NAME VALUE: a whole number of at least 1.
need_number() {
  [[ "$2" =~ ^[1-9][0-9]*$ ]] || die "$1: got '$2', expected a whole number of at least 1"
}

# Under `set -e`: which command ended the script, and how. Not in subshells: the
# script itself says it once.
say_why() {
  ((BASH_SUBSHELL)) ||
    echo "$(basename "$0" .sh): line $2: '${3%%$'\n'*}' ended with exit code $1" >&2
}
set -E
trap 'say_why "$?" "$LINENO" "$BASH_COMMAND"' ERR
