"""Files of --init-latents: .npy, .npz and .safetensors that lie."""
import os
import struct
import zipfile

from check import Case
from formats import checkpoint, npy, npy_of, npz, put, safetensors
from json_cases import ANSI, KINDS, LONG, SAMPLE

SHAPE = [1, 4, 8, 8]


def npy_files():
    count = 1024
    head = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }"
    good = npy_of(SHAPE)
    files = {
        "empty": b"", "magic": b"\x93NUMPY", "version_9": npy(
            head % ("'<f4'", False, "(1, 4, 8, 8)"), bytes(count), b"\x09\0"),
        "header_lie": b"\x93NUMPY\1\0\xff\xff" + good[10:],
        "header_lie_2": b"\x93NUMPY\2\0\xff\xff\xff\xff" + good[10:],
        "short": good[:-1], "no_data": good[:-count], "longer": good + b"more",
        "fortran": npy_of(SHAPE, fortran=True),
        "big_endian": npy_of(SHAPE, ">f4"), "text": npy_of(SHAPE, "<U4"),
        "object": npy_of(SHAPE, "|O8"), "complex": npy_of(SHAPE, "<c8"),
        "void": npy_of(SHAPE, "|V4"), "half": npy_of(SHAPE, "<f2"),
        "bool": npy_of(SHAPE, "|b1"), "int64": npy_of(SHAPE, "<i8"),
        "record": npy(head % ("[('a', '<f4')]", False, "(1,)"), bytes(4)),
        "negative": npy(head % ("'<f4'", False, "(-1, 4, 8, 8)"), bytes(count)),
        "overflow": npy(head % ("'<f4'", False, "(4611686018427387904, 4)")),
        "huge": npy(head % ("'<f4'", False, "(1000000000, 4, 8, 8)")),
        "two_64": npy(head % ("'<f4'", False, "(18446744073709551616,)")),
        "zero": npy_of([0, 4, 8, 8]), "scalar": npy_of([], data=bytes(4)),
        "rank_9": npy_of([1] * 9), "rank_5000": npy(
            head % ("'<f4'", False, "(" + "1," * 5000 + ")"), bytes(4)),
        "other_shape": npy_of([1, 3, 8, 8]), "other_side": npy_of([1, 4, 9, 8]),
        "two_images": npy_of([2, 4, 8, 8]),
        "nan": npy_of(SHAPE, data=struct.pack("<f", float("nan")) + bytes(count - 4)),
        "inf": npy_of(SHAPE, data=struct.pack("<f", float("inf")) + bytes(count - 4)),
        "no_descr": npy("{'fortran_order': False, 'shape': (1, 4, 8, 8), }",
                        bytes(count)),
        "not_dict": npy("[1, 2, 3]", bytes(count)),
        "code": npy("__import__('os').system('id')", bytes(count)),
        "nested": npy("(" * 30_000 + ")" * 30_000, bytes(count)),
        "escape": npy(head % (repr(ANSI), False, "(1, 4, 8, 8)"), bytes(count)),
        "long": npy(head % ("'" + "x" * 60_000 + "'", False, "(1,)"), bytes(count)),
        "ill_formed": npy(b"{'descr': '\xff\xfe', 'fortran_order': False, "
                          b"'shape': (1,), }", bytes(count)),
        "pickle": b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.",
    }
    return files


# Files that may be right: one image's latents are there.
MAY_RUN = {"two_images", "longer"}


def npz_files():
    good = ("latents.npy", npy_of(SHAPE))
    whole = npz([good])
    def patched(at, value):
        bad = bytearray(whole)
        bad[at:at + len(value)] = value
        return bytes(bad)
    directory = whole.index(b"PK\x01\x02")
    end = whole.index(b"PK\x05\x06")
    big = b"\xff\xff\xff\xfe"
    files = {
        "empty": b"", "no_members": npz([]), "text": b"hello",
        "packed": npz([good], zipfile.ZIP_DEFLATED),
        "bomb": npz([("latents.npy", bytes(50 << 20))], zipfile.ZIP_DEFLATED),
        "packed_lzma": npz([good], zipfile.ZIP_LZMA),
        "twice": npz([good, good]), "other": npz([("x.txt", b"hello")]),
        "two": npz([("a.npy", npy_of(SHAPE)), ("b.npy", npy_of(SHAPE))]),
        "upwards": npz([("../../latents.npy", npy_of(SHAPE))]),
        "absolute": npz([("/etc/latents.npy", npy_of(SHAPE))]),
        "escape": npz([(ANSI + ".npy", npy_of(SHAPE)), ("b.npy", npy_of(SHAPE))]),
        "long_name": npz([("n" * 60_000 + ".npy", npy_of([1, 3]))]),
        "many": npz([("t%d.npy" % i, npy_of([1])) for i in range(5000)]),
        "inner_lie": npz([("latents.npy", npy_of(SHAPE)[:-4])]),
        "local_size": patched(18, big), "local_name": patched(26, b"\xff\xff"),
        "local_method": patched(8, b"\x63\0"), "encrypted": patched(6, b"\1\0"),
        "crc": patched(14, b"abcd"),
        "directory_size": patched(directory + 20, big),
        "directory_name": patched(directory + 28, b"\xff\xff"),
        "directory_extra": patched(directory + 30, b"\xff\xff"),
        "directory_comment": patched(directory + 32, b"\xff\xff"),
        "directory_offset": patched(directory + 42, big),
        "directory_itself": patched(directory + 42, struct.pack("<I", directory)),
        "end_count": patched(end + 8, b"\xff\xff\xff\xff"),
        "end_size": patched(end + 12, big), "end_offset": patched(end + 16, big),
        "end_offset_self": patched(end + 16, struct.pack("<I", end)),
        "zip64": patched(end + 8, b"\xff" * 12),
        "comment": whole + b"trailing", "in_front": b"before" + whole,
        "no_end": whole[:end], "no_directory": whole[:directory],
        "pickle": npz([("latents.npy", npy_of(SHAPE, "|O8"))]),
    }
    for i in range(30):
        at = i * len(whole) // 30
        files["cut_%d" % at] = whole[:at]
    return files


def safetensors_files():
    return {
        "other_name": safetensors({"a": ("F32", SHAPE), "b": ("F32", SHAPE)}),
        "escape": safetensors({ANSI: ("F32", SHAPE), "b": ("F32", SHAPE)}),
        "half": safetensors({"latents": ("F16", SHAPE)}),
        "int": safetensors({"latents": ("I64", SHAPE)}),
        "shape": safetensors({"latents": ("F32", [4, 4, 4])}),
        "none": safetensors({}), "long": safetensors({"n" * LONG: ("F32", [3]),
                                                      "m": ("F32", [3])}),
        "nan": safetensors({"latents": ("F32", SHAPE)}, data=b"\xff" * 1024),
    }


# The reference of the other cases.
PLAIN = {"npy": npy_of(SHAPE), "npz": npz([("latents.npy", npy_of(SHAPE))]),
         "safetensors": safetensors({"latents": ("F32", SHAPE)})}


def cases(golden):
    for ending, files in (("npy", npy_files()), ("npz", npz_files()),
                          ("safetensors", safetensors_files())):
        for what, content in files.items():
            def build(folder, _, content=content, ending=ending):
                checkpoint(os.path.join(folder, "model"), golden)
                put(os.path.join(folder, "a." + ending), content)
                put(os.path.join(folder, "b." + ending), PLAIN[ending])
            path = "{in}/a." + ending
            sample = [a.replace("{in}", "{in}/model") for a in SAMPLE] + [
                "--init-latents", path]
            codes = (2, 6)
            if what in MAY_RUN or (ending, what) in {
                    ("npz", "twice"), ("npz", "crc"), ("npz", "comment"),
                    ("npz", "in_front"), ("npz", "upwards"),
                    ("npz", "directory_size"), ("npz", "end_size"),
                    ("npz", "absolute"), ("npz", "local_size"),
                    ("npz", "encrypted"), ("npz", "local_method"),
                    ("npy", "big_endian"), ("npy", "fortran"),
                    ("npy", "half"), ("npy", "int64"), ("npy", "bool"),
                    ("safetensors", "half"), ("safetensors", "int")}:
                codes = (0, 2, 6)
            yield Case("array-%s-%s" % (ending, what), build,
                       [sample], codes)
            yield Case("array-verify-%s-%s" % (ending, what), build,
                       [["verify", path, path], ["inspect", path, "--json"]],
                       (0, 2, 5, 6))
            against = ["verify", path, "--against", "{in}/b." + ending]
            yield Case("array-against-%s-%s" % (ending, what), build,
                       [against, against + ["--json"]], (0, 2, 5, 6),
                       prints_findings=True)
        for kind, make in KINDS.items():
            def build(folder, _, make=make, ending=ending):
                checkpoint(os.path.join(folder, "model"), golden)
                make(os.path.join(folder, "a." + ending))
            path = "{in}/a." + ending
            yield Case("array-kind-%s-%s" % (ending, kind), build,
                       [[a.replace("{in}", "{in}/model") for a in SAMPLE] +
                        ["--init-latents", path], ["inspect", path]],
                       needs_user=kind == "unreadable")
