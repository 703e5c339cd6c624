"""Checks of the demo model's scripts and of what lies in models/demo.

    python3 scripts/test_train_demo.py

Needs PyTorch and the two Debian packages of demo_data.py; what cannot be checked is skipped.
"""

import json
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

import demo_card
import demo_data
import demo_export
import train_classifier
import train_demo
from demo_model import DemoConfig, DemoDiT
from demo_optim import orthogonalise

MODEL = train_demo.REPOSITORY / "models" / "demo"
HAVE_EMOJI = demo_data.FONT.exists() and demo_data.EMOJI_LIST.exists()
TINY = DemoConfig(num_classes=len(demo_data.CLASSES), resolution=16, layers=2, heads=2, head_dim=16)


def random_model(cfg: DemoConfig) -> DemoDiT:
    """All weights non-zero: a fresh model predicts zero and would hide every mistake."""
    torch.manual_seed(3)
    model = DemoDiT(cfg)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.1)
    return model.eval()


class Rate(unittest.TestCase):
    def test_it_falls_to_nothing_over_the_last_quarter_of_the_minutes(self):
        args = train_demo.parse(["--procs", "1", "--minutes", "4"])
        late = train_demo.WARM_UP_STEPS  # steps after which the rate has risen
        for left, share in ((120, 1.0), (30, 0.5), (-5, 0.0)):
            args.ends = time.monotonic() + left
            self.assertAlmostEqual(train_demo.rate_share(args, late, 0), share, places=2)


@unittest.skipUnless(HAVE_EMOJI, "fonts-noto-color-emoji or unicode-data is not installed")
class Data(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pictures = demo_data.build(32)

    def test_every_class_has_pictures(self):
        sizes = np.bincount(self.pictures.labels, minlength=len(demo_data.CLASSES))
        self.assertGreaterEqual(sizes.min(), 10)
        self.assertGreater(len(self.pictures.labels), 1300)

    def test_no_picture_is_blank_and_margins_are_white(self):
        pixels = self.pictures.pixels
        self.assertTrue((pixels.reshape(len(pixels), -1).min(axis=1) < 240).all())
        self.assertTrue((pixels[:, :, 0] == 255).all() and (pixels[:, :, :, -1] == 255).all())

    def test_weights_are_a_distribution_that_favours_small_classes(self):
        weights = self.pictures.class_weights()
        self.assertAlmostEqual(weights.sum(), 1.0)
        sizes = np.bincount(self.pictures.labels)
        self.assertEqual(weights.argmax(), np.flatnonzero(self.pictures.labels == sizes.argmin())[0])

    def test_micro_batches_depend_on_their_number_only(self):
        batches = train_demo.MicroBatches(self.pictures, 4, 1, "cpu")
        first, other = batches(7), batches(8)
        for again, before in zip(batches(7), first):
            self.assertTrue(torch.equal(again, before))
        self.assertFalse(torch.equal(first[0], other[0]))

    def test_noise_and_picture_add_up_to_the_schedule(self):
        batches = train_demo.MicroBatches(self.pictures, 64, 1, "cpu")
        noisy, timestep, label, noise, weight = batches(0)
        self.assertLess(timestep.max(), 1000)
        self.assertLessEqual(label.max(), len(demo_data.CLASSES))
        alpha = batches.alphas[timestep][:, None, None, None]
        clean = (noisy - (1 - alpha).sqrt() * noise) / alpha.sqrt()
        early = timestep < 500  # beyond that the division amplifies rounding
        self.assertLess(clean[early].abs().max(), 1.001)

    def test_a_training_picture_is_its_own_nearest(self):
        forms, index = demo_card.variants(self.pictures)
        some = torch.from_numpy(self.pictures.pixels[[3, 600]]).float() / 255
        distance, _, found = demo_card.nearest(torch.roll(some, (1, -1), (2, 3)), forms, index)
        self.assertLess(distance.max(), 1e-3)
        self.assertEqual(found.tolist(), [3, 600])


class Network(unittest.TestCase):
    def test_export_and_import_are_inverse(self):
        model = random_model(TINY)
        weights = {k: v.to(torch.bfloat16).float() for k, v in model.state_dict().items()}
        back = demo_export.from_diffusers(demo_export.to_diffusers(weights, TINY), TINY)
        self.assertEqual(set(back), set(weights))
        for name, value in weights.items():
            self.assertTrue(torch.equal(back[name], value), name)

    def test_it_computes_what_diffusers_computes(self):
        with tempfile.TemporaryDirectory() as folder:
            demo_export.export(random_model(TINY).state_dict(), TINY, 1, Path(folder))
            difference = demo_export.check_against_diffusers(Path(folder))
        if difference is None:
            self.skipTest("diffusers is not installed")
        self.assertLess(difference, 1e-4)

    def test_ddim_is_that_of_diffusers(self):
        try:
            from diffusers import DDIMScheduler
        except ImportError:
            self.skipTest("diffusers is not installed")
        model, label = random_model(TINY), torch.tensor([2])
        ours = demo_export.ddim(model, label, seed=4, steps=10, guidance=1.0)
        scheduler = DDIMScheduler.from_config(demo_export.SCHEDULER)
        scheduler.set_timesteps(10)
        x = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(4))
        for t in scheduler.timesteps:
            with torch.no_grad():
                x = scheduler.step(model(x, t.expand(1), label), t, x).prev_sample
        self.assertLess((ours - x.clamp(-1, 1)).abs().max(), 1e-4)

    def test_orthogonalise_evens_out_singular_values(self):
        torch.manual_seed(1)
        for shape in ((2, 24, 24), (2, 48, 16), (2, 16, 48)):
            values = torch.linalg.svdvals(orthogonalise(torch.randn(shape), rounds=8))
            self.assertGreater(values.min(), 0.4)
            self.assertLess(values.max(), 1.4)


@unittest.skipUnless(HAVE_EMOJI, "fonts-noto-color-emoji or unicode-data is not installed")
class Resuming(unittest.TestCase):
    def test_a_stopped_training_ends_with_the_same_weights(self):
        """Eight steps at once, or four and four: equal, because nothing but the count is remembered."""
        def run(work: Path, images: int) -> dict:
            args = train_demo.parse([
                "--work", str(work), "--model", "/nonexistent", "--no-compile", "--procs", "1",
                "--batch", "8", "--micro", "4", "--images", str(images), "--resolution", "16",
                "--layers", "2", "--heads", "2", "--head-dim", "16"])
            train_demo.work(0, args, 0)
            return torch.load(work / "state.pt", weights_only=True)

        with tempfile.TemporaryDirectory() as folder:
            whole = run(Path(folder) / "a", 64)
            run(Path(folder) / "b", 32)
            halves = run(Path(folder) / "b", 64)
        self.assertEqual(halves["images"], 64)
        for kind in ("model", "average"):
            for name, value in whole[kind].items():
                self.assertTrue(torch.equal(halves[kind][name], value), name)


class Classifier(unittest.TestCase):
    def test_folding_keeps_the_function(self):
        torch.manual_seed(6)
        net = train_classifier.TrainingNet(len(demo_data.CLASSES))
        net.train()
        for _ in range(3):  # moves the running statistics away from their start
            net(torch.randn(8, 3, 32, 32))
        net.eval()
        x = torch.randn(4, 3, 32, 32)
        with torch.no_grad():
            difference = (train_classifier.as_classifier(net).scores(x) - net(x)).abs().max()
        self.assertLess(difference, 1e-4)


class Folder(unittest.TestCase):
    """What is committed under models/demo."""

    def setUp(self):
        if not (MODEL / demo_export.WEIGHTS).exists():
            self.skipTest("no exported model")

    def test_sizes_and_labels(self):
        self.assertLessEqual((MODEL / demo_export.WEIGHTS).stat().st_size, 20_000_000)
        index = json.loads((MODEL / "model_index.json").read_text())
        self.assertEqual(list(index["id2label"].values()), demo_data.class_names())
        classifier = MODEL / "classifier" / "model.safetensors"
        if classifier.exists():
            self.assertLessEqual(classifier.stat().st_size, 2_000_000)

    def test_embedders_of_all_blocks_are_equal(self):
        with safe_open(MODEL / demo_export.WEIGHTS, framework="pt") as file:
            for key in file.keys():
                if ".norm1.emb." in key:
                    first = "transformer_blocks.0." + key.split(".", 2)[2]
                    self.assertTrue(torch.equal(file.get_tensor(key), file.get_tensor(first)), key)

    def test_weights_are_finite(self):
        for name, value in demo_export.load_exported(MODEL).weights.items():
            self.assertTrue(value.isfinite().all(), name)


if __name__ == "__main__":
    torch.set_num_threads(1)
    unittest.main()
