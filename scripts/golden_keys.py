#!/usr/bin/env python3
"""Keys that tests/net/keys_test.cpp expects, by Python's BLAKE2b and a textbook X25519.

Neither libsodium nor ZeroMQ has a part in it. The company's key is 00 01 02 … 1f.
"""

import hashlib

PRIME = 2**255 - 19


def derive(company, role):
    """crypto_kdf of libsodium: the number is BLAKE2b's salt, the context its person."""
    return hashlib.blake2b(digest_size=32, key=company, salt=role.to_bytes(16, "little"),
                           person=b"TroupeN1".ljust(16, b"\0")).digest()


def public_key(secret):
    """The Montgomery ladder of RFC 7748, section 5, for the point u = 9."""
    scalar = int.from_bytes(secret, "little")
    scalar = scalar & ~7 & (1 << 255) - 1 | 1 << 254
    x2, z2, x3, z3 = 1, 0, 9, 1
    for bit in reversed(range(255)):
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
        sum2, difference2 = (x2 + z2) % PRIME, (x2 - z2) % PRIME
        sum3, difference3 = (x3 + z3) % PRIME, (x3 - z3) % PRIME
        square, other = sum2 * sum2, difference2 * difference2
        one, two = difference3 * sum2, sum3 * difference2
        x3, z3 = (one + two) ** 2 % PRIME, 9 * (one - two) ** 2 % PRIME
        x2 = square * other % PRIME
        z2 = (square - other) * (square + 121665 * (square - other)) % PRIME
        if scalar >> bit & 1:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


for name, role in (("coordinator", 1), ("worker", 2)):
    secret = derive(bytes(range(32)), role)
    print(name, "secret", secret.hex())
    print(name, "public", public_key(secret).hex())
