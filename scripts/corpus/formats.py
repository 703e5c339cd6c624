"""Files as Troupe reads them, well-formed or wrong on purpose. Writers stream:
what they hold in memory stays small, whatever they write."""
import io
import json
import os
import random
import struct
import zipfile
import zlib

SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4,
         "F32": 4, "I64": 8, "F64": 8}


def put(path, content):
    """Writes bytes or text, with the folders it lies in."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(content.encode() if isinstance(content, str) else content)


def safetensors(tensors, data=None, metadata=None, header=None, length=None):
    """A safetensors file. `tensors`: name -> (dtype, shape) or a whole entry;
    `header`: raw bytes instead of theirs; `length`: a lie about its length."""
    entries, at = {}, 0
    if metadata is not None:
        entries["__metadata__"] = metadata
    for name, what in tensors.items():
        if isinstance(what, dict):
            entries[name] = what
            continue
        dtype, shape = what
        count = SIZES.get(dtype, 4)
        for extent in shape:
            count *= extent
        entries[name] = {"dtype": dtype, "shape": list(shape),
                         "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(entries).encode() if header is None else header
    if header is None:
        text += b" " * (-len(text) % 8)
    return (struct.pack("<Q", len(text) if length is None else length) + text +
            (bytes(at) if data is None else data))


def parse_safetensors(content):
    """(entries, data) of a well-formed file."""
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + size]), content[8 + size:]


SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name, content=b"", length=None, crc=None):
    name = name.encode("latin-1") if isinstance(name, str) else name
    if crc is None:
        crc = zlib.crc32(name + content)
    return (struct.pack(">I", len(content) if length is None else length) +
            name + content + struct.pack(">I", crc & 0xFFFFFFFF))


def ihdr(width=16, height=16, depth=8, colour=2, compression=0, filtering=0,
         interlace=0):
    return chunk("IHDR", struct.pack(">IIBBBBB", width, height, depth, colour,
                                     compression, filtering, interlace))


def itxt(keyword, text, compressed=False):
    data = text.encode() if isinstance(text, str) else text
    return chunk("iTXt", keyword.encode() + b"\0" +
                 (b"\1\0" if compressed else b"\0\0") + b"\0\0" +
                 (zlib.compress(data) if compressed else data))


def idat(width=16, height=16, channels=3):
    return chunk("IDAT", zlib.compress(bytes((width * channels + 1) * height)))


def zeros(count):
    """`count` zeros as zlib packs them best, made without packing them all."""
    unit = 1 << 20
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(unit)) + packer.flush(zlib.Z_FULL_FLUSH)
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    rest = last.compress(bytes(count % unit)) + last.flush()
    sum_of_all = (count % 65521) << 16 | 1  # adler32
    return (b"\x78\xda" + packed * (count // unit) + rest +
            struct.pack(">I", sum_of_all))


def png(*chunks, width=16, height=16):
    """Chunks between the header and the pixels of a black picture."""
    return (SIGNATURE + ihdr(width, height) + b"".join(chunks) +
            idat(width, height) + chunk("IEND"))


def npy(header, data=b"", version=b"\1\0"):
    text = header.encode("latin-1") if isinstance(header, str) else header
    if version[0] == 1:
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data
    text += b" " * (-(len(text) + 13) % 64) + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<I", len(text)) + text + data


def npy_of(shape, descr="<f4", fortran=False, data=None):
    count = int(descr[2:]) if descr[2:].isdigit() else 4
    for extent in shape:
        count *= extent
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (
        descr, fortran, tuple(shape))
    return npy(header, bytes(count) if data is None else data)


def npz(members, method=zipfile.ZIP_STORED):
    """`members`: pairs of name and content; names may stand twice."""
    import warnings
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(out, "w", method) as archive:
            for name, content in members:
                archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


class Golden:
    """The recorded little networks of tests/golden, read once."""

    def __init__(self, folder):
        read = lambda name: open(os.path.join(folder, name), "rb").read()
        self.dit_config = json.loads(read("dit_default/config.json"))
        self.dit_weights = read("dit_default/diffusion_pytorch_model.safetensors")
        self.vae_config = json.loads(read("vae_default/config.json"))
        self.vae_weights = read("vae_default/diffusion_pytorch_model.safetensors")


MODEL_INDEX = {"_class_name": "DiTPipeline", "id2label": {"0": "tench, fish",
                                                         "3": "owl"}}
SCHEDULER = {"_class_name": "DDIMScheduler", "num_train_timesteps": 1000,
             "beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear",
             "clip_sample": False, "prediction_type": "epsilon"}
WEIGHTS = "diffusion_pytorch_model.safetensors"

INDEX_FILE = "model_index.json"
SCHEDULER_FILE = "scheduler/scheduler_config.json"
CONFIG_FILE = "transformer/config.json"
WEIGHTS_FILE = "transformer/" + WEIGHTS
VAE_CONFIG_FILE = "vae/config.json"
VAE_WEIGHTS_FILE = "vae/" + WEIGHTS


def checkpoint(folder, golden, vae=False):
    """A folder as diffusers writes it."""
    files = {INDEX_FILE: json.dumps(MODEL_INDEX),
             SCHEDULER_FILE: json.dumps(SCHEDULER),
             CONFIG_FILE: json.dumps(golden.dit_config),
             WEIGHTS_FILE: golden.dit_weights}
    if vae:
        files[VAE_CONFIG_FILE] = json.dumps(golden.vae_config)
        files[VAE_WEIGHTS_FILE] = golden.vae_weights
    for name, content in files.items():
        put(os.path.join(folder, name), content)


def generator(seed, name):
    """Random numbers that depend on the corpus' seed and the case alone."""
    return random.Random("%s/%s" % (seed, name))
