#!/usr/bin/env python3
"""Prints the golden vectors of tests/core/noise_test.cpp.

An independent implementation: Philox4x32-10 from the paper (Salmon et al.
2011), logarithm, sine and cosine in decimal arithmetic, rounded to float once.
"""
import struct
from decimal import Decimal, getcontext

getcontext().prec = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937510582")
MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK,
             (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def sine(x):
    term, total, n = x, x, 1
    while abs(term) > Decimal("1e-45"):
        term *= -x * x / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    return total


def normals(seed, sample, step, purpose, count):
    out = []
    for block in range((count + 3) // 4):
        r = philox([block, step, sample & MASK, sample >> 32 | purpose << 16],
                   [seed & MASK, seed >> 32])
        for a, b in ((r[0], r[1]), (r[2], r[3])):
            u = (Decimal(a) + Decimal("0.5")) / 2**32
            angle = (Decimal(b) + Decimal("0.5")) / 2**32 * 2 * PI
            radius = (-2 * u.ln()).sqrt()
            out += [radius * sine(angle + PI / 2), radius * sine(angle)]
    return out[:count]


def show(*key):
    print(key, ", ".join(
        f"0x{struct.unpack('<I', struct.pack('<f', float(v)))[0]:08x}"
        for v in normals(*key)))


show(0, 0, 0, 0, 8)
show(0x0123456789ABCDEF, 0xFEDCBA987654, 999, 1, 11)
