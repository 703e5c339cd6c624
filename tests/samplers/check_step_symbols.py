"""A step calls nothing of libm whose bits vary by version and CPU.

  check_step_symbols.py NM OBJECT…
None of these object files may need exp, log, pow, sin and their kin. Roots and what rounds
to a whole number are exact. What makes a schedule may need them: it is made once, and
travels.
"""

import re
import subprocess
import sys

INEXACT = re.compile(r"^(?:__)?(?:a?(?:sin|cos|tan)h?(?:pi)?|atan2|sincos|exp(?:2|10|m1)?|log(?:2|10|1p)?|pow"
                     r"|cbrt|hypot|erfc?|[tl]?gamma|beta|[jy][01n]|cyl_\w+|riemann_zeta|expint)"
                     r"(?:f|l|f\d+x?)?(?:_r)?(?:_finite)?(?:@.*)?$")


def inexact_symbols(nm, path):
    listing = subprocess.run([nm, "-u", path], check=True, capture_output=True, text=True).stdout
    names = (line.split()[-1] for line in listing.splitlines() if line.strip())
    return sorted(name for name in names if INEXACT.match(name))


def main():
    nm, *paths = sys.argv[1:]
    found = {path: inexact_symbols(nm, path) for path in paths}
    wrong = {path: symbols for path, symbols in found.items() if symbols}
    for path, symbols in wrong.items():
        print(f"a step calls libm: {path}: {', '.join(symbols)}")
    print(f"{len(paths)} object files of steps, {len(wrong)} wrong")
    return 1 if wrong or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
