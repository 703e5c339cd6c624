"""scripts/convert_checkpoint.py, and the command that the program prints about it. Skipped
where this Python has no torch.

  python3 test_converter.py TROUPE [unittest's arguments]
"""

import contextlib
import importlib.util
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

if importlib.util.find_spec("torch") is None:
    print("torch is not installed", file=sys.stderr)
    sys.exit(77)
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = str(pathlib.Path(sys.argv.pop(1)).resolve())
sys.path.insert(0, str(ROOT / "scripts"))
import convert_checkpoint  # noqa: E402

DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
          "BF16": torch.bfloat16, "BOOL": torch.bool}


def read_safetensors(path):
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(
                bytearray(data[8 + size + entry["data_offsets"][0]:
                               8 + size + entry["data_offsets"][1]]),
                dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            torch.save(content, path)

    def shards(self, name, *parts):
        """Pickled shards with their index, as save_pretrained names them."""
        names = [f"{name}-{i + 1:05}-of-{len(parts):05}.bin" for i in range(len(parts))]
        for shard, part in zip(names, parts):
            self.write(shard, part)
        index = {tensor: pathlib.Path(shard).name
                 for shard, part in zip(names, parts) for tensor in part}
        self.write(f"{name}.bin.index.json", json.dumps({"weight_map": index}).encode())

    def write_safe(self, name, *tensors):
        """The header of a file in the safetensors format."""
        header = json.dumps({tensor: {} for tensor in tensors}).encode()
        self.write(name, struct.pack("<Q", len(header)) + header)

    def names(self):
        return sorted(str(path.relative_to(self.folder))
                      for path in self.folder.rglob("*") if not path.is_dir())

    def convert(self, name=""):
        """Exit code and the lines of both streams."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "argv", ["convert", str(self.folder / name)]), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), \
                self.assertRaises(SystemExit) as ended:
            convert_checkpoint.main()
        return ended.exception.code, out.getvalue().splitlines(), err.getvalue().splitlines()

    def assert_refused(self, *says):
        before = self.names()
        code, _, err = self.convert()
        self.assertEqual((code, len(err)), (2, 1), err)
        for text in says:
            self.assertIn(text, err[0])
        self.assertEqual(self.names(), before)

    def assert_holds(self, name, tensors):
        found = read_safetensors(self.folder / name)
        self.assertEqual(sorted(found), sorted(tensors))
        for key, tensor in tensors.items():
            self.assertEqual(found[key].dtype, tensor.dtype)
            self.assertTrue(torch.equal(found[key], tensor), key)


A = {"a": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(True)}
B = {"b": torch.arange(4.0).bfloat16(), "d": torch.arange(3.0).double()}


class Conversion(Folder):
    def test_one_call_converts_every_part_under_the_names_that_are_read(self):
        self.write("model_index.json", b"{}")
        self.write("unet/diffusion_pytorch_model.bin", A)
        self.write("unet/diffusion_pytorch_model.fp16.bin", {"a": A["a"].half()})
        self.write("vae/diffusion_pytorch_model.bin", {"state_dict": B})
        self.write("text_encoder/pytorch_model.bin", A)
        self.shards("text_encoder_2/pytorch_model", A, B)
        self.shards("transformer/diffusion_pytorch_model", B, A)
        self.assertEqual(self.convert()[0], 0)
        self.assert_holds("unet/diffusion_pytorch_model.safetensors", A)
        self.assert_holds("unet/diffusion_pytorch_model.fp16.safetensors",
                          {"a": A["a"].half()})
        self.assert_holds("vae/diffusion_pytorch_model.safetensors", B)
        self.assert_holds("text_encoder/model.safetensors", A)
        self.assert_holds("text_encoder_2/model.safetensors", {**A, **B})
        self.assert_holds("transformer/diffusion_pytorch_model.safetensors", {**A, **B})

    def test_a_variant_of_shards_is_found_under_each_spelling(self):
        for name in ("model.bin.index.fp16.json", "model.fp16.bin.index.json",
                     "model.bin.fp16.index.json"):
            match = convert_checkpoint.PICKLED_INDEX.fullmatch("pytorch_" + name)
            self.assertEqual(convert_checkpoint.target_of(match), "model.fp16.safetensors")

    def test_every_tensor_of_every_shard_is_taken_as_the_libraries_take_them(self):
        stem = "unet/diffusion_pytorch_model"
        shards = [f"diffusion_pytorch_model-0000{i}-of-00002.bin" for i in (1, 2)]
        self.shards(stem, A, B)
        # The index gives one tensor to the other shard, and one to none.
        for weight_map in ({"a": shards[1], "n": shards[0], "b": shards[1], "d": shards[1]},
                           {"a": shards[0], "b": shards[1], "d": shards[1]}):
            self.write(f"{stem}.bin.index.json",
                       json.dumps({"weight_map": weight_map}).encode())
            self.assertEqual(self.convert()[0], 0)
            self.assert_holds(f"{stem}.safetensors", A | B)
            (self.folder / f"{stem}.safetensors").unlink()

    def test_other_files_are_no_weights(self):
        self.write("model_index.json", b"{}")
        self.write("v1-5-pruned.ckpt", A)
        self.write("unet/diffusion_pytorch_model.bin", A)
        self.write("unet/optimizer.bin", B)
        self.write("vae/random_states_0.pt", B)
        self.write("vae/diffusion_pytorch_model.safetensors", b"good")
        code, out, _ = self.convert()
        self.assertEqual((code, len(out)), (0, 1), out)
        self.assert_holds("unet/diffusion_pytorch_model.safetensors", A)
        self.assertEqual(len([n for n in self.names() if n.endswith(".safetensors")]), 2)

    def test_what_is_there_is_never_written_over(self):
        self.write("unet/diffusion_pytorch_model.safetensors", b"good")
        for name in ("vae/diffusion_pytorch_model", "text_encoder/model"):
            self.write_safe(f"{name}-1-of-1.safetensors", "a")
            self.write(f"{name}.safetensors.index.json", json.dumps(
                {"weight_map": {"a": f"{name.split('/')[1]}-1-of-1.safetensors"}}).encode())
        self.write("unet/diffusion_pytorch_model.bin", A)
        self.shards("unet/diffusion_pytorch_model", A, B)
        self.write("vae/diffusion_pytorch_model.bin", A)
        self.write("text_encoder/pytorch_model.bin", A)
        before = self.names()
        self.assertEqual(self.convert()[0], 0)
        self.assertEqual(self.names(), before)
        self.assertEqual((self.folder / "unet/diffusion_pytorch_model.safetensors")
                         .read_bytes(), b"good")

    def test_of_two_forms_the_one_is_taken_that_the_libraries_take(self):
        for name in ("unet/diffusion_pytorch_model", "text_encoder/pytorch_model"):
            self.write(f"{name}.bin", A)
            self.shards(name, B)
        self.assertEqual(self.convert()[0], 0)
        self.assert_holds("unet/diffusion_pytorch_model.safetensors", B)
        self.assert_holds("text_encoder/model.safetensors", A)

    def test_a_part_that_fails_keeps_no_other_from_being_converted(self):
        self.write("unet/diffusion_pytorch_model.bin", b"garbage")
        self.write("vae/diffusion_pytorch_model.bin", A)
        code, _, err = self.convert()
        self.assertEqual((code, len(err)), (2, 1), err)
        self.assertIn("unet/diffusion_pytorch_model.bin", err[0])
        self.assert_holds("vae/diffusion_pytorch_model.safetensors", A)
        self.assertNotIn("unet/diffusion_pytorch_model.safetensors", self.names())

    def test_nothing_stays_of_a_file_that_cannot_be_written(self):
        self.write("vae/diffusion_pytorch_model.bin", A)
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            self.assert_refused("No space left")
        self.assertEqual(self.convert()[0], 0)

    def test_a_folder_that_may_not_be_written_is_named(self):
        self.write("vae/diffusion_pytorch_model.bin", A)
        with mock.patch("tempfile.mkstemp", side_effect=PermissionError(13, "Permission denied")):
            self.assert_refused("vae/diffusion_pytorch_model.safetensors: cannot be written: "
                                "Permission denied")


class Refusals(Folder):
    def test_what_cannot_be_read_is_one_line(self):
        class Code:
            def __reduce__(self):
                return os.mkdir, ("code-has-run",)
        for content, says in (([A["a"]], "holds a list"),
                              ({"step": 3}, "expected tensors by name"),
                              (b"", "cannot be read"),
                              (b"version https://git-lfs.github.com\n", "git lfs pull"),
                              ({"a": Code()}, "cannot be read"),
                              ({"a": torch.complex(A["a"], A["a"])}, "torch.complex64"),
                              ({"a": A["a"].to_sparse()}, "torch.sparse_coo")):
            self.write("vae/diffusion_pytorch_model.bin", content)
            self.assert_refused("vae/diffusion_pytorch_model.bin", says)
        self.assertFalse(os.path.exists("code-has-run"))

    def test_a_dangling_link_is_named(self):
        self.write("vae/config.json", b"{}")
        (self.folder / "vae/diffusion_pytorch_model.bin").symlink_to("../blobs/01")
        self.assert_refused("a link to ../blobs/01")

    def test_shards_that_are_not_all_there_are_named(self):
        self.shards("vae/diffusion_pytorch_model", A, B)
        (self.folder / "vae/diffusion_pytorch_model-00002-of-00002.bin").unlink()
        self.assert_refused("00002-of-00002.bin: no such file")
        (self.folder / "vae/diffusion_pytorch_model.bin.index.json").unlink()
        self.assert_refused("the index of the shards")
        for index in (b"{}", b"[", b"[" * 100_000, b'{"weight_map": {"a": "../a.bin"}}'):
            self.write("vae/diffusion_pytorch_model.bin.index.json", index)
            self.assert_refused("vae/diffusion_pytorch_model.bin.index.json")

    def test_a_shard_that_lacks_a_tensor_of_the_index_is_named(self):
        stem = "unet/diffusion_pytorch_model"
        self.shards(stem, A, B)
        self.write(f"{stem}-00002-of-00002.bin", {"b": B["b"]})
        self.assert_refused(f"{stem}.bin.index.json", "tensor 'd' is not in "
                            "diffusion_pytorch_model-00002-of-00002.bin", "download")
        self.write(f"{stem}-00002-of-00002.bin", {"z": B["b"]})
        self.assert_refused("tensor 'b' (and 1 more) is not in")

    def test_safetensors_that_stand_in_for_pickles_are_all_there(self):
        stem = "vae/diffusion_pytorch_model"
        self.write(f"{stem}.bin", A)
        safe = self.folder / f"{stem}.safetensors"
        safe.symlink_to("../blobs/01")
        self.assert_refused(f"{stem}.safetensors: a link to ../blobs/01")
        safe.unlink()
        shard = f"{stem}-1-of-1.safetensors"
        self.write_safe(shard, "a")
        self.write(f"{stem}.safetensors.index.json", json.dumps(
            {"weight_map": {name: pathlib.Path(shard).name for name in "ab"}}).encode())
        self.assert_refused(f"{stem}.safetensors.index.json", "tensor 'b' is not in "
                            "diffusion_pytorch_model-1-of-1.safetensors")
        for broken in (b"", struct.pack("<Q", 1 << 60), struct.pack("<Q", 1) + b"3"):
            self.write(shard, broken)
            self.assert_refused(shard, "cannot be read as safetensors")
        (self.folder / shard).unlink()
        self.assert_refused(shard, "no such file")

    def test_a_part_that_is_a_dangling_link_is_named(self):
        self.write("vae/diffusion_pytorch_model.safetensors", b"")
        (self.folder / "unet").symlink_to("../gone")
        self.assert_refused("unet: a link to ../gone")

    def test_a_single_file_of_another_model_is_no_dit(self):
        self.write("v1-5-pruned.ckpt", {"state_dict": A})
        self.assert_refused("v1-5-pruned.ckpt", "from_single_file")
        self.write("other.pt", {"x_embedder.proj.weight": torch.ones(384, 4, 2, 2),
                                "pos_embed": torch.ones(1, 4, 384)})
        self.assert_refused("other.pt", "not all of a DiT checkpoint")

    def test_a_folder_without_pickles_is_said_to_be_one(self):
        self.assert_refused("no pickled weights")
        self.write("optimizer.bin", A)
        self.write("diffusion_pytorch_model.safetensors", b"good")
        self.assert_refused("no pickled weights")

    def test_a_python_without_torch_is_told_what_is_missing(self):
        self.write("vae/diffusion_pytorch_model.bin", A)
        with mock.patch.dict(sys.modules, {"torch": None}):
            self.assert_refused("torch is needed", "apt install python3-torch")


class PrintedCommand(Folder):
    def sample(self):
        return subprocess.run(
            [TROUPE, "sample", "-m", self.folder / "m", "-p", "a cat", "--steps", "2",
             "--dtype", "f32", "--seed", "1", "--progress", "none", "-o", "-"],
            capture_output=True, timeout=600)

    def test_it_makes_the_folder_run(self):
        shutil.copytree(ROOT / "tests/golden/pipeline_sdxl", self.folder / "m")
        drawn = self.sample().stdout
        for name in self.names():
            if name.endswith("model.safetensors"):
                file = self.folder / name
                stem = file.stem if file.stem != "model" else "pytorch_model"
                tensors = read_safetensors(file)
                half = sorted(tensors)[:len(tensors) // 2]
                self.shards(str(pathlib.Path(name).with_name(stem)),
                            {n: t for n, t in tensors.items() if n in half},
                            {n: t for n, t in tensors.items() if n not in half})
                file.unlink()
        refused = self.sample()
        self.assertEqual(refused.returncode, 2, refused)
        command = re.search("run: (.*)", refused.stderr.decode()).group(1)
        subprocess.run([sys.executable, *shlex.split(command)], check=True,
                       capture_output=True)
        again = self.sample()
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(again.stdout, drawn)


if __name__ == "__main__":
    unittest.main()
