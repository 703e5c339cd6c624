"""How fast a file is read at best into memory that stays: what weights need, and dd does not.

  python3 scripts/bench/read_fresh.py FILE [THREADS]
Reads FILE from its disk through one buffer, as dd does, and by THREADS (2) threads into memory
that was never touched, which the system clears first. In turns, three times; medians.
"""

import concurrent.futures
import mmap
import os
import statistics
import sys
import time

PIECE = 4 << 20


def forget(file):
    """The next read comes from the disk."""
    os.fsync(file)  # what is not written yet stays in memory
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def read_piece(file, memory, at, size):
    with memoryview(memory)[at:at + size] as piece:
        done = 0
        while done < size:
            done += os.preadv(file, [piece[done:]], at + done)


def through_a_buffer(file, size):
    buffer = bytearray(PIECE)
    for at in range(0, size, PIECE):
        os.preadv(file, [buffer], at)


def into_fresh_memory(file, size, threads):
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda at: read_piece(file, memory, at, min(PIECE, size - at)),
                          range(0, size, PIECE)))


def seconds_of(fn, file, *arguments):
    forget(file)
    start = time.monotonic()
    fn(file, *arguments)
    return time.monotonic() - start


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    threads = int(sys.argv[2]) if len(sys.argv) == 3 else 2
    file = os.open(sys.argv[1], os.O_RDONLY)
    size = os.fstat(file).st_size
    buffered, fresh = [], []
    for _ in range(3):
        buffered.append(seconds_of(through_a_buffer, file, size))
        fresh.append(seconds_of(into_fresh_memory, file, size, threads))
    rates = [size / statistics.median(taken) / 1e9 for taken in (buffered, fresh)]
    print(f"through one buffer {rates[0]:.2f} GB/s; into fresh memory by {threads} threads "
          f"{rates[1]:.2f} GB/s: {rates[1] / rates[0]:.2f} of it")


if __name__ == "__main__":
    main()
