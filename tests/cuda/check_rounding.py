"""Kernels that promise the CPU's bits round every operation by itself.

  check_rounding.py NVCC ROOT SOURCE.cu…
A compiler may join a * b + c into one fused multiply-add, which rounds once. The
emulator cannot show it: its compiler is the host's. Here nvcc compiles the sources to
PTX, where an operation without a rounding modifier may still be joined (PTX ISA,
"mul", "add", "fma"), and every kernel with such a one, or with an fma, is named.
"""

import collections
import re
import subprocess
import sys
import tempfile

# Promise no bits: activations.
JOINED = {"ActivateProduct", "ActivateGated"}
# Not `.rn`: f32 arithmetic that may be joined, or is.
OPERATION = re.compile(r"\b(?:fma(?:\.\w+)*|(?:mul|add|sub)(?:\.ftz|\.sat)*)\.f32\b")
ENTRY = re.compile(r"\.entry\s+(\S+)\(")
# Of a mangled name such as "10run_kernelI…".
FUNCTOR = re.compile(r"(\d+)([A-Za-z_]\w*)")


def functors(mangled):
    """Names in a mangled one: lengths say where each ends."""
    names, at = [], 0
    while found := FUNCTOR.search(mangled, at):
        length = int(found.group(1))
        names.append(found.group(2)[:length])
        at = found.start(2) + length
    return names


def joined_operations(nvcc, source, root):
    """Kernel (mangled) to the operations in it that are not rounded alone."""
    with tempfile.NamedTemporaryFile(suffix=".ptx") as ptx:
        subprocess.run([nvcc, "-ptx", "-std=c++20", "-O3", "-arch=compute_90",
                        "--expt-relaxed-constexpr", f"-I{root}", source, "-o", ptx.name], check=True)
        with open(ptx.name, encoding="utf-8") as file:
            lines = file.readlines()
    found, kernel = {}, ""
    for line in lines:
        if entry := ENTRY.search(line):
            kernel = entry.group(1)
            found[kernel] = collections.Counter()
        elif operation := OPERATION.search(line):
            found[kernel][operation.group()] += 1
    return found


def main():
    nvcc, root, *sources = sys.argv[1:]
    kernels, wrong, excused = 0, [], set()
    for source in sources:
        for kernel, operations in joined_operations(nvcc, source, root).items():
            kernels += 1
            names = JOINED.intersection(functors(kernel))
            if operations and names:
                excused |= names
            elif operations:
                wrong.append(f"{source}: {kernel}: {dict(operations)}")
    for line in wrong:
        print(f"not rounded alone: {line}")
    for name in JOINED - excused:
        print(f"{name} is excused for nothing")
    print(f"{kernels} kernels of {len(sources)} sources, {len(wrong)} wrong")
    return 1 if wrong or excused != JOINED or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
