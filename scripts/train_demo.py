"""Trains the demo model: a class-conditional DiT that draws small emoji.

    python3 scripts/train_demo.py                       # trains, or goes on where it was stopped
    python3 scripts/train_demo.py --background          # the same with idle cycles only
    python3 scripts/train_demo.py --export models/demo  # writes the current average weights
    python3 scripts/train_demo.py --samples grid.png    # draws a few of every class
    python3 scripts/train_demo.py --card                # models/demo: MODEL_CARD.md and samples.png

State is kept in --work, outside the repository, and is replaced every few minutes. Without a state
there, training starts from the weights in --model if these have the asked shape. On a CPU it runs as
one process per core with one thread each: a team of threads collapses when one of its cores is busy
with something else, whereas here the micro-batches of a step simply go to whoever is free.
"""

import argparse
import math
import os
import signal
import sys
import time
from pathlib import Path

# The allocator gives every large tensor back to the system and page-faults it in again, which costs a
# quarter of the speed; and a team of OpenMP threads per process is not wanted. Both are read at start-up,
# so they are set for the worker processes, which are started afresh.
WORKER_ENVIRONMENT = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0"
                      ":glibc.malloc.trim_threshold=100000000000:glibc.malloc.top_pad=268435456",
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

import demo_data
import demo_export
from demo_model import DemoConfig, DemoDiT
from demo_optim import DemoOptimizer

REPOSITORY = Path(__file__).resolve().parent.parent
LABEL_DROPOUT = 0.1  # how often the class is hidden, which is what guidance needs
SNR_CAP = 5.0  # noise levels with a better signal than this count less (Min-SNR weighting)
WARM_UP_STEPS = 100
SAVE_SECONDS = 180
REPORT_SECONDS = 30
COOL_SHARE = 0.25  # of --minutes, in which the learning rate falls


class MicroBatches:
    """Micro-batch number n of the whole training, as a pure function of n and the seed.

    Nothing needs to be remembered for a restart except how many were used, and it does not matter
    which process works on which.
    """

    def __init__(self, pictures: demo_data.PictureSet, size: int, seed: int, device: str,
                 coarse: bool = False):
        def on_device(array):
            return torch.from_numpy(array).to(device)

        self.pixels, self.labels = on_device(pictures.pixels), on_device(pictures.labels)
        self.mirrored = on_device(pictures.mirrored)
        self.weights = on_device(pictures.class_weights())
        self.size, self.seed, self.device, self.coarse = size, seed, device, coarse
        self.null_label = len(demo_data.CLASSES)
        self.alphas = demo_export.alphas_cumprod().to(device)
        self.loss_weights = (SNR_CAP * (1 - self.alphas) / self.alphas).clamp(max=1.0)
        self.loss_weights /= self.loss_weights.mean()

    def __call__(self, number: int) -> tuple[torch.Tensor, ...]:
        """noisy [B,3,S,S], timestep [B], label [B], noise [B,3,S,S], loss weight [B]"""
        n, device = self.size, self.device
        g = torch.Generator(device).manual_seed(self.seed * (1 << 40) + number)
        chosen = torch.multinomial(self.weights, n, replacement=True, generator=g)
        clean = self.augment(self.pixels[chosen].float() / 127.5 - 1, self.mirrored[chosen], g)
        # One timestep from each of n equal ranges: the loss then jumps less from batch to batch.
        place = torch.arange(n, device=device) + torch.rand(n, generator=g, device=device)
        timestep = (place * (1000 / n)).long().clamp(max=999)
        noise = torch.randn(clean.shape, generator=g, device=device)
        alpha = self.alphas[timestep][:, None, None, None]
        noisy = alpha.sqrt() * clean + (1 - alpha).sqrt() * noise
        hidden = torch.rand(n, generator=g, device=device) < LABEL_DROPOUT
        label = self.labels[chosen].masked_fill(hidden, self.null_label)
        if self.coarse:
            # The same process seen through a coarser grid, so that a timestep keeps its meaning; the
            # noise to be predicted is scaled back to variance 1.
            noisy, noise = F.avg_pool2d(noisy, 2), 2 * F.avg_pool2d(noise, 2)
        return noisy, timestep, label, noise, self.loss_weights[timestep]

    def augment(self, images, mirrored, g):
        """Mirrors half of those that may be, and moves most of them by a pixel (of 32)."""
        n, side, device = len(images), images.shape[-1], self.device
        flip = (torch.rand(n, generator=g, device=device) < 0.5) & mirrored
        images = torch.where(flip[:, None, None, None], images.flip(3), images)
        # -1, 0, 0 or 1 pixel. Going round the edge is harmless: the margin is white.
        moves = (torch.randint(0, 4, (2, n), generator=g, device=device) + 1) // 2 - 1
        places = torch.arange(side, device=device) - max(1, side // 32) * moves[:, :, None]
        rows, columns = places % side  # [n, side] each
        one = torch.arange(n, device=device)[:, None, None, None]
        channel = torch.arange(3, device=device)[None, :, None, None]
        return images[one, channel, rows[:, None, :, None], columns[:, None, None, :]]


def copied(weights: dict) -> dict:
    return {name: value.detach().clone() for name, value in weights.items()}


class Training:
    """Weights, their average, the optimiser and the count of images; what a save holds."""

    def __init__(self, cfg: DemoConfig, device: str, use_muon: bool):
        self.cfg = cfg
        self.model = DemoDiT(cfg).to(device).use_low_precision(True)
        # All gradients are views of one buffer, so one exchange sums the gradients of all processes.
        parameters = list(self.model.parameters())
        self.gradient = torch.zeros(sum(p.numel() for p in parameters), device=device)
        at = 0
        for p in parameters:
            p.grad = self.gradient[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.average = copied(self.model.state_dict())
        self.optimizer = DemoOptimizer(self.model, use_muon)
        self.step = 0
        self.images = 0
        self.coarse = False
        self.averaged = 0  # steps since the average was last restarted

    def update_average(self) -> None:
        """Short memory at first, longer the longer training has gone on."""
        self.averaged += 1
        ceiling = 0.999 if self.averaged < 10_000 else 0.9995
        decay = min(ceiling, self.averaged / (9 + self.averaged))
        for name, value in self.model.state_dict().items():
            self.average[name].lerp_(value, 1 - decay)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        state = {"config": self.cfg.to_dict(), "classes": demo_data.class_names(),
                 "model": self.model.state_dict(), "average": self.average,
                 "optimizer": self.optimizer.state_dict(), "step": self.step,
                 "images": self.images, "coarse": self.coarse, "averaged": self.averaged}
        partial = folder / f"state.{os.getpid()}.partial"
        torch.save(state, partial)
        os.replace(partial, folder / "state.pt")

    def resume(self, folder: Path, exported: Path) -> str:
        """Takes up a save, else exported weights, else starts afresh; says which."""
        path = folder / "state.pt"
        if path.exists():
            state = torch.load(path, map_location="cpu", weights_only=True)
            if state["config"] != self.cfg.to_dict() or \
                    state["classes"] != demo_data.class_names():
                raise SystemExit(f"[train_demo] {path} is of another model: got "
                                 f"{state['config']}; use another --work")
            self.model.load_state_dict(state["model"])
            for name, value in state["average"].items():
                self.average[name].copy_(value)
            self.optimizer.load_state_dict(state["optimizer"])
            self.step, self.images = state["step"], state["images"]
            self.averaged = state.get("averaged", 0)
            if state.get("coarse") != self.coarse:
                # Weights of the other resolution would spoil the average for a long time.
                self.average = copied(self.model.state_dict())
                self.averaged = 0
            return f"resumed {path}"
        found = demo_export.load_exported(exported)
        if found and found.config == self.cfg and found.classes == demo_data.class_names():
            self.model.load_state_dict(found.weights)
            self.average = copied(self.model.state_dict())
            # The step stays 0: the optimiser is new and needs its warm-up.
            self.images = found.images
            return f"started from the weights in {exported}"
        return "started from random weights"


def rate_share(args, step: int, images: int) -> float:
    """What part of the learning rate counts now: rises over the first steps, falls at the end."""
    warm = min(1.0, (step + 1) / WARM_UP_STEPS)
    if args.minutes:
        left = (args.ends - time.monotonic()) / (60 * args.minutes)
        return min(warm, max(0.0, left) / COOL_SHARE)
    return min(warm, (args.images - images) / args.cool) if args.cool else warm


def train_step(training, forward, batches, args, tickets, in_hand) -> tuple[torch.Tensor, int]:
    """One optimiser step. Each process takes the next micro-batch until the step has none left; the
    number that already belongs to the next step is kept in hand. Returns (loss, number in hand)."""
    per_step = args.batch // args.micro
    end = (training.step + 1) * per_step
    training.gradient.zero_()
    loss_sum = torch.zeros((), device=args.device)
    while in_hand < end:
        noisy, timestep, label, noise, weight = batches(args.first_ticket + in_hand)
        error = (forward(noisy, timestep, label) - noise).square().mean(dim=(1, 2, 3))
        loss = (error * weight).mean() / per_step
        loss.backward()
        loss_sum += loss.detach()
        in_hand = tickets()
    if dist.is_initialized():
        dist.all_reduce(training.gradient)
        dist.all_reduce(loss_sum)
    norm = training.gradient.norm()
    training.gradient.mul_((args.clip / (norm + 1e-6)).clamp(max=1.0))
    share = rate_share(args, training.step, training.images)
    training.optimizer.step(share * args.lr, share * args.matrix_lr)
    training.step += 1
    training.images += args.batch
    training.update_average()
    return loss_sum, in_hand


def work(rank: int, args, port: int) -> None:
    """One training process."""
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
    if args.device == "cpu":
        torch.set_num_threads(1)
    if args.procs > 1:
        store = dist.TCPStore("127.0.0.1", port, is_master=False)
        dist.init_process_group("gloo", store=dist.PrefixStore("group", store), rank=rank,
                                world_size=args.procs)
    torch.manual_seed(args.seed)
    args.ends = time.monotonic() + 60 * args.minutes if args.minutes else math.inf
    cfg = config_of(args)
    training = Training(cfg, args.device, args.optimizer == "muon")
    training.coarse = args.coarse
    origin = training.resume(args.work, args.model)
    batches = MicroBatches(demo_data.build(cfg.resolution), args.micro, args.seed, args.device,
                           args.coarse)
    forward = torch.compile(training.model) if args.compile else training.model

    # Tickets count from the step at which this run begins; micro-batches from the beginning of time.
    per_step = args.batch // args.micro
    first = training.step * per_step
    args.first_ticket = training.images // args.micro - first
    drawn = [first - 1]

    def tickets() -> int:
        if args.procs > 1:
            return first + store.add("ticket", 1) - 1
        drawn[0] += 1
        return drawn[0]

    say = (lambda text: print(text, flush=True)) if rank == 0 else (lambda text: None)
    say(f"{origin}: {training.images} images, {training.step} steps, pid {os.getpid()}")
    in_hand = tickets()
    saved = reported = time.monotonic()
    losses, images_then = [], training.images
    while training.images < args.images:
        loss, in_hand = train_step(training, forward, batches, args, tickets, in_hand)
        losses.append(loss.item())
        now = time.monotonic()
        if now - reported > REPORT_SECONDS:
            rate = (training.images - images_then) / (now - reported)
            clock = time.strftime("%H:%M:%S")
            say(f"{clock}  images {training.images}  step {training.step}  "
                f"loss {np.mean(losses):.4f}  {rate:.1f} images/s")
            losses, images_then, reported = [], training.images, now
        if rank == 0 and now - saved > SAVE_SECONDS:
            training.save(args.work)
            saved = time.monotonic()
        if agreed(bool(stopping) or now > args.ends, args):
            break
    if rank == 0:
        training.save(args.work)
        say(f"saved {args.work / 'state.pt'} at {training.images} images")
    if args.procs > 1:
        # Saving takes seconds: who leaves in the meantime pulls the connections away.
        dist.barrier()
        dist.destroy_process_group()


def agreed(mine: bool, args) -> bool:
    """Whether any process was asked to stop: all must leave after the same step."""
    if args.procs == 1:
        return mine
    flag = torch.tensor([float(mine)])
    dist.all_reduce(flag)
    return flag.item() > 0


def config_of(args) -> DemoConfig:
    return DemoConfig(num_classes=len(demo_data.CLASSES), resolution=args.resolution,
                      patch=args.patch, layers=args.layers, heads=args.heads,
                      head_dim=args.head_dim)


def step_back() -> None:
    """Leaves the processor to everybody else. With autogroups the kernel weighs sessions, not
    processes, so a nice value alone changes nothing between two terminals."""
    try:
        os.setsid()
    except PermissionError:
        pass  # already the leader of a session
    os.nice(19 - os.nice(0))
    try:
        Path("/proc/self/autogroup").write_text("19")
    except OSError:
        pass  # a kernel without autogroups


def launch(args) -> None:
    if args.background:
        step_back()
    if args.procs == 1:
        if args.device == "cpu":
            os.environ.update(WORKER_ENVIRONMENT)
            mp.spawn(work, (args, 0), nprocs=1)
        else:
            work(0, args, 0)
        return
    os.environ.update(WORKER_ENVIRONMENT)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    # A Ctrl-C or SIGTERM is passed on, so that the workers save before they leave.
    context = mp.spawn(work, (args, store.port), nprocs=args.procs, join=False)

    def pass_on(signum, _frame):
        for pid in context.pids():
            os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    while not context.join():
        pass


def parse(argv) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--work", type=Path, default=home / "troupe" / "train-demo",
                        help="folder of the training state (default %(default)s)")
    parser.add_argument("--model", type=Path, default=REPOSITORY / "models" / "demo",
                        help="exported weights to start from, and the folder --card writes to")
    parser.add_argument("--export", type=Path, metavar="DIR", help="write a diffusers folder")
    parser.add_argument("--raw", action="store_true",
                        help="use the weights of the last step instead of their average")
    parser.add_argument("--samples", type=Path, metavar="PNG", help="draw a grid of samples")
    parser.add_argument("--card", action="store_true", help="write the card and its picture")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--procs", type=int, help="processes (default: one per core; 1 on cuda)")
    parser.add_argument("--background", action="store_true", help="use idle cycles only")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--images", type=int, default=10_000_000, help="stop after so many")
    parser.add_argument("--cool", type=int, default=0, metavar="N",
                        help="lower the learning rate over the last N of --images")
    parser.add_argument("--minutes", type=float, default=0, metavar="M",
                        help="stop after so long, the learning rate falling over the last quarter: "
                             "for a machine that is lent; one process only")
    parser.add_argument("--coarse", action="store_true",
                        help="train at half the resolution, at a quarter of the cost per image: "
                             "a good beginning where time is short")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--micro", type=int, help="images per forward (default 16; batch on cuda)")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--matrix-lr", type=float, default=4e-3, help="of the part Muon trains")
    parser.add_argument("--clip", type=float, default=1.0, help="largest gradient norm")
    parser.add_argument("--optimizer", choices=["muon", "adamw"], default="muon")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resolution", type=int, default=32)
    parser.add_argument("--patch", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--head-dim", type=int, default=32)
    args = parser.parse_args(argv)
    if args.procs is None:
        args.procs = len(os.sched_getaffinity(0)) if args.device == "cpu" else 1
    if args.micro is None:
        args.micro = 16 if args.device == "cpu" else args.batch
    if args.minutes and (args.procs > 1 or args.cool):
        parser.error("--minutes goes with --procs 1 and without --cool")
    if args.batch % args.micro:
        parser.error(f"--batch must be a multiple of --micro: got {args.batch} and {args.micro}")
    return args


def main() -> None:
    args = parse(sys.argv[1:])
    if args.export or args.samples or args.card:
        demo_export.run(args)
    else:
        launch(args)


if __name__ == "__main__":
    main()
