"""A step calls nothing of libm whose bits vary by version and CPU.

  check_step_symbols.py [--self-test] NM OBJECT…
Object files of samplers and kernels. Those of samplers that make a schedule are
excused: it is made once, and travels. Every other one of samplers takes part in a step,
as do the kernels named here; none may need exp, log, pow, sin and their kin. Roots and
what rounds to a whole number are exact. --self-test excuses nothing.
"""

import os
import re
import subprocess
import sys

MAKE_A_SCHEDULE = {"betas.cpp", "flow_points.cpp", "make_schedule.cpp", "numeric.cpp", "sigma_points.cpp",
                   "beta_sigmas.cpp"}
KERNELS_OF_A_STEP = {"copy.cpp", "cpu/elementwise.cpp", "elementwise.cpp", "core/noise.cpp",
                     "core/torch_noise.cpp", "reduction.cpp"}
INEXACT = re.compile(r"^(?:__)?(?:a?(?:sin|cos|tan)h?(?:pi)?|atan2|sincos|exp(?:2|10|m1)?|log(?:2|10|1p)?|pow"
                     r"|cbrt|hypot|erfc?|[tl]?gamma|beta|[jy][01n]|cyl_\w+|riemann_zeta|expint)"
                     r"(?:f|l|f\d+x?)?(?:_r)?(?:_finite)?(?:@.*)?$")
# …/samplers/CMakeFiles/troupe_samplers.dir/parallel/sweep.cpp.o
OBJECT = re.compile(r"/troupe_(samplers|kernels)\.dir/(.+)\.o$")


def inexact_symbols(nm, path):
    listing = subprocess.run([nm, "-u", path], check=True, capture_output=True, text=True).stdout
    names = (line.split()[-1] for line in listing.splitlines() if line.strip())
    return sorted(name for name in names if INEXACT.match(name))


def main():
    arguments = sys.argv[1:]
    excused = MAKE_A_SCHEDULE
    if arguments[0] == "--self-test":
        excused = set()
        arguments = arguments[1:]
    nm, *paths = arguments
    wrong, needless, checked, kernels = [], set(excused), 0, set(KERNELS_OF_A_STEP)
    for path in paths:
        found = OBJECT.search(os.path.normpath(path))
        if not found:
            continue
        folder, source = found.groups()
        if folder == "kernels" and source not in KERNELS_OF_A_STEP:
            continue
        kernels.discard(source)
        symbols = inexact_symbols(nm, path)
        if folder == "samplers" and source in excused:
            needless -= {source} if symbols else set()
            continue
        checked += 1
        if symbols:
            wrong.append(f"{folder}/{source}: {', '.join(symbols)}")
    for line in wrong:
        print(f"a step calls libm: {line}")
    for source in sorted(needless):
        print(f"samplers/{source} is excused for nothing")
    for source in sorted(kernels):
        print(f"kernels/{source} was not among the object files")
    print(f"{checked} object files of steps, {len(wrong)} wrong")
    return 1 if wrong or needless or kernels or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
