"""Times several ranks on one machine.

    python bench/ranks.py bandwidth             # all_reduce beside mpi4py's Allreduce
    python bench/ranks.py gpt                   # a training step on one rank and on two
    python bench/ranks.py hidden [--mbit 1000]  # how much of the transfers a step hides
    python bench/ranks.py overlap --link        # how much of one transfer products hide

Each rank has one thread. What is compared alternates, and the best of many counts. ``hidden`` slows
transfers down to a link of so many megabits per second: an engine that holds each back until its
bytes would have passed. With ``--link`` (Linux, root) there is such a link: each rank is in a
network namespace, both are joined by a pair of virtual interfaces, and MPI uses TCP. The interfaces
send large packets as a whole and then wait (`htb`), as network cards cut them up by themselves: a
token bucket (`--cut`) has the kernel cut everything into packets of 1,500 bytes, on ranks' cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Function = Callable[[], Any]


class Wire:
    """A link that sends one thing after the other.

    Attributes:
        rate: bytes a second; it passes everything at once while that is 0.
        busy: seconds that it has been sending.
        is_real: whether the network is as slow: then it only counts.
    """

    def __init__(self, rate: float, is_real: bool, latency: float = 5e-5) -> None:
        self.rate, self.latency, self.is_real = rate, latency, is_real
        self.free = self.busy = 0.0

    def set(self, rate: float) -> None:
        """Sets the rate, of the network's interface, too."""
        self.rate = rate
        if self.is_real:
            limit(os.environ["LINK_INTERFACE"], rate)

    def send(self, nbytes: int) -> float:
        """When so many bytes have passed."""
        if not self.rate:
            return 0.0
        seconds = nbytes / self.rate
        self.busy += seconds
        if self.is_real:
            return 0.0
        self.free = max(time.monotonic(), self.free) + seconds
        return self.free + self.latency


class Held:
    """A transfer that is complete no sooner than a wire allows."""

    def __init__(self, inner: Any, until: float) -> None:
        self.inner, self.until = inner, until

    def test(self) -> bool:
        """Whether it is complete."""
        return bool(self.inner.test()) and time.monotonic() >= self.until

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Throttled:
    """A communicator behind a wire."""

    def __init__(self, inner: Any, wire: Wire) -> None:
        self.inner, self.wire = inner, wire
        self.rank, self.size = inner.rank, inner.size

    def all_gather(self, source: Any, target: Any) -> Held:
        """See ``Communicator``."""
        until = self.wire.send(source.nbytes * (self.size - 1))
        return Held(self.inner.all_gather(source, target), until)

    def all_to_all(
        self, source: Any, sent: Sequence[int], target: Any, received: Sequence[int]
    ) -> Held:
        """See ``Communicator``."""
        until = self.wire.send(sum(sent) - sent[self.rank])
        return Held(self.inner.all_to_all(source, sent, target, received), until)

    def broadcast(self, memory: Any, root: int) -> Held:
        """See ``Communicator``."""
        until = self.wire.send(memory.nbytes if root == self.rank else 0)
        return Held(self.inner.broadcast(memory, root), until)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


#: The namespaces of two ranks, their interfaces and addresses.
ENDS = (("lazyt-a", "lazyt-va", "10.77.0.1"), ("lazyt-b", "lazyt-vb", "10.77.0.2"))


def limit(interface: str, rate: float) -> None:
    """Lets an interface of this namespace send so many bytes a second, or all for 0."""
    begin = ["tc", "qdisc"]
    subprocess.run([*begin, "del", "dev", interface, "root"], stderr=subprocess.DEVNULL)
    bits = f"{int(rate * 8)}bit"
    if rate and "LINK_CUT" in os.environ:
        settings = ["tbf", "rate", bits, "burst", "128kbit", "latency", "50ms"]
        subprocess.run([*begin, "add", "dev", interface, "root", *settings], check=True)
    elif rate:
        root = ["root", "handle", "1:", "htb", "default", "1"]
        subprocess.run([*begin, "add", "dev", interface, *root], check=True)
        settings = ["rate", bits, "burst", "1600b", "cburst", "1600b", "quantum", "65536"]
        command = ["tc", "class", "add", "dev", interface, "parent", "1:", "classid", "1:1", "htb"]
        subprocess.run([*command, *settings], check=True)


@contextmanager
def link() -> Iterator[None]:
    """Two namespaces, joined, while it is entered."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    try:
        for name, _, _ in ENDS:
            ip("netns", "add", name)
        ip("link", "add", ENDS[0][1], "type", "veth", "peer", "name", ENDS[1][1])
        for name, interface, address in ENDS:
            ip("link", "set", interface, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", interface)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", interface, "up")
        yield
    finally:
        for name, _, _ in ENDS:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def start_on_link(environment: dict[str, str]) -> int:
    """Starts a rank in each namespace."""
    environment = environment | {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}
    launch = [sys.executable, "-m", "lazyt.distributed.run", "--nnodes", "2", "--nproc-per-node",
              "1", "--master-addr", ENDS[0][2], "--master-port", "29511"]  # fmt: skip
    with link():
        started = []
        for number, (name, interface, _) in enumerate(ENDS):
            words = ["ip", "netns", "exec", name, *launch, "--node-rank", str(number)]
            words += ["--lazyt", __file__, *sys.argv[1:]]
            own = environment | {"UCX_NET_DEVICES": interface, "LINK_INTERFACE": interface}
            started.append(subprocess.Popen(words, env=own))
        return max(process.wait() for process in started)


def throttle(rate: float, is_real: bool) -> Wire:
    """Puts a wire before the group of all ranks."""
    import lazyt.distributed as dist

    wire, group = Wire(rate, is_real), dist.group.WORLD._group
    wire.set(rate)
    group.lanes = tuple(Throttled(comm, wire) for comm in group.lanes)
    return wire


def best(functions: dict[str, Function], times: int, before: Function) -> dict[str, list[float]]:
    """The seconds of each, alternately."""
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(times):
        for name, function in functions.items():
            before()
            begin = time.perf_counter()
            function()
            found[name].append(time.perf_counter() - begin)
    return found


def bandwidth(options: argparse.Namespace) -> None:
    """``all_reduce`` of several sizes, and mpi4py's ``Allreduce``."""
    import numpy as np
    from mpi4py import MPI

    import lazyt
    import lazyt.distributed as dist

    comm = MPI.COMM_WORLD.Dup()
    if options.link:
        limit(os.environ["LINK_INTERFACE"], options.mbit * 1e6 / 8)
    if dist.get_rank() == 0:
        print(f"{'bytes':>9}  {'mpi4py':>9}  {'all_reduce':>10}  {'captured':>9}  ratios")
    for power in (10, 14, 18, 20, 22, 24, 26):
        count = (1 << power) // 4
        a, b = np.ones(count, np.float32), np.empty(count, np.float32)
        x = lazyt.ones(count) * 2
        y = (lazyt.ones(count) * 2).realize()
        x.realize()

        @lazyt.jit
        def captured(y: Any) -> Any:
            total = y.clone()
            dist.all_reduce(total)
            return total

        functions: dict[str, Function] = {
            "raw": lambda a=a, b=b: comm.Allreduce(a, b),
            "lazyt": lambda x=x: dist.all_reduce(x),
            "captured": lambda f=captured, y=y: f(y).realize(),
        }
        best(functions, 4, comm.Barrier)
        found = best(functions, max(8, min(100, (1 << 28) >> power)), comm.Barrier)
        raw, own, replay = (min(found[name]) for name in functions)
        if dist.get_rank() == 0:
            micro = [f"{value * 1e6:.0f} us" for value in (raw, own, replay)]
            print(f"{1 << power:9}  {micro[0]:>9}  {micro[1]:>10}  {micro[2]:>9}  "
                  f"{raw / own:.2f} {raw / replay:.2f}", flush=True)  # fmt: skip


def _gpt() -> tuple[Any, Any, Any]:
    """The example's module, a network and a batch that all ranks have."""
    sys.path.insert(0, str(ROOT / "examples"))
    import char_gpt
    import torch

    torch.manual_seed(1)
    text = char_gpt.Text()
    net = char_gpt.GPT(len(text.letters))
    return char_gpt, net, char_gpt.draw_batch(text.train)


def _steps(kind: str, parallel: bool) -> tuple[Function, Any]:
    """A training step on this rank's part of the batch, or on all of it; and the network."""
    import torch
    import torch.distributed as dist

    example, net, batch = _gpt()
    if parallel:
        rank, size = dist.get_rank(), dist.get_world_size()
        batch = batch[rank * len(batch) // size : (rank + 1) * len(batch) // size].clone()
        wrapped = torch.nn.parallel.DistributedDataParallel(net)
        wrapped.loss = lambda codes: torch.nn.functional.cross_entropy(
            wrapped(codes[:, :-1]).flatten(0, 1), codes[:, 1:].flatten()
        )
    else:
        wrapped = net
    optimizer, _ = example.make_optimizer(net, 100)

    def step(codes: Any) -> Any:
        optimizer.zero_grad()
        loss = wrapped.loss(codes)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    called = torch.compile(step) if kind == "captured" else step
    parameter = next(net.parameters())

    def run() -> None:
        called(batch).item()
        parameter.sum().item()

    return run, wrapped


def gpt(options: argparse.Namespace) -> None:
    """A step of the example's GPT: 16 pieces on one rank, and 8 on each of two. Beside other work
    on the machine, the processor's time of rank 0, waits included, says more than the clock."""
    import torch.distributed as dist

    rank = dist.get_rank()
    for kind in ("eager", "captured"):
        alone, _ = _steps(kind, False)
        both, _ = _steps(kind, True)
        for _ in range(4):
            if rank == 0:
                alone()
            both()
        times: dict[str, list[float]] = {"one": [], "two": []}
        work: dict[str, list[float]] = {"one": [], "two": []}
        for _ in range(options.times):
            dist.barrier()
            if rank == 0:
                begin, used = time.perf_counter(), time.thread_time()
                alone()
                times["one"].append(time.perf_counter() - begin)
                work["one"].append(time.thread_time() - used)
            dist.barrier()
            begin, used = time.perf_counter(), time.thread_time()
            both()
            times["two"].append(time.perf_counter() - begin)
            work["two"].append(time.thread_time() - used)
        if rank == 0:
            one, two = min(times["one"]), min(times["two"])
            used = min(work["one"]) / min(work["two"])
            print(f"{kind}: one rank {one * 1e3:.1f} ms, two ranks {two * 1e3:.1f} ms, "
                  f"{one / two:.2f} times; by processor time {used:.2f} times",
                  flush=True)  # fmt: skip


def hidden(options: argparse.Namespace) -> None:
    """A step of the GPT on two ranks, behind a slow link and without it."""
    import torch.distributed as dist

    rate = options.mbit * 1e6 / 8
    wire = throttle(rate, options.link)
    for kind in ("eager", "captured"):
        wire.set(rate)
        both, net = _steps(kind, True)  # buckets are sized by the slow link
        for _ in range(4):
            both()
        times: dict[float, list[float]] = {0.0: [], rate: []}
        busy = 0.0
        for _ in range(options.times):
            for each in times:
                wire.set(each)
                dist.barrier()
                wire.busy = 0.0
                begin = time.perf_counter()
                both()
                times[each].append(time.perf_counter() - begin)
                busy = wire.busy or busy
        plain, slow = min(times[0.0]), min(times[rate])
        if dist.get_rank() == 0:
            share = 1 - (slow - plain) / busy
            print(f"{kind}: {len(net._buckets.groups)} buckets of {net._buckets.size} bytes, step "
                  f"{plain * 1e3:.1f} ms, behind {options.mbit} Mbit/s {slow * 1e3:.1f} ms, "
                  f"transfers {busy * 1e3:.1f} ms, {share:.0%} hidden", flush=True)  # fmt: skip


def overlap(options: argparse.Namespace) -> None:
    """One transfer, products that take about twice as long, and both: by the clock, and what the
    products take of the processor's time with and without a transfer beside them."""
    import numpy as np

    import lazyt
    import lazyt.distributed as dist
    from lazyt.runtime.ranks.groups import Collective

    rate, group = options.mbit * 1e6 / 8, dist.group.WORLD._group
    Wire(rate, options.link).set(rate)
    x = lazyt.randn(256, 256).realize()

    @lazyt.jit
    def work(x: Any) -> Any:
        for _ in range(6):
            x = (x @ x) * 0.06
        return x

    def compute(times: int) -> None:
        for _ in range(times):
            work(x).realize()

    def measure(times: int, what: Collective | None, name: str) -> tuple[float, float, float]:
        dist.barrier()
        begin, used, waited = time.perf_counter(), time.process_time(), 0.0
        if what is None:
            compute(times)
        else:
            number = group.come_to(name, "a benchmark")
            transfer = group.start(what, source, target)
            compute(times)
            waited = time.perf_counter()
            group.wait(transfer, number, nbytes=2 * source.nbytes)
            waited = time.perf_counter() - waited
        return time.perf_counter() - begin, time.process_time() - used, waited

    each = min(measure(4, None, "")[0] for _ in range(20)) / 4
    for nbytes in (1 << 16, 1 << 18, 1 << 20, 1 << 22):
        source, target = np.ones(2 * nbytes, np.uint8), np.empty(2 * nbytes, np.uint8)
        what = Collective("all_to_all", (nbytes,) * 2, (nbytes,) * 2)
        times = int(2 * nbytes / 125e6 / each) + 1
        found: dict[str, list[tuple[float, float, float]]] = {
            "moved": [],
            "computed": [],
            "both": [],
        }
        for _ in range(options.times):
            found["moved"].append(measure(0, what, f"{nbytes}"))
            found["computed"].append(measure(times, None, ""))
            found["both"].append(measure(times, what, f"{nbytes}"))
        if dist.get_rank() == 0:
            moved, computed, both = (min(item[0] for item in some) for some in found.values())
            work_alone, work_both = (min(i[1] for i in found[k]) for k in ("computed", "both"))
            wait = min(item[2] for item in found["both"])
            share = 1 - (both - computed) / moved
            print(f"{nbytes:8} bytes: moved in {moved * 1e3:.2f} ms, products {computed * 1e3:.2f}"
                  f", both {both * 1e3:.2f}: {share:.0%} hidden; processor {work_alone * 1e3:.2f} "
                  f"and {work_both * 1e3:.2f} ms, waits {wait * 1e3:.2f} ms",
                  flush=True)  # fmt: skip


def main() -> int:
    """Starts two ranks, or is one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["bandwidth", "gpt", "hidden", "overlap"])
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--link", action="store_true", help="two network namespaces (as root)")
    parser.add_argument("--cut", action="store_true", help="a link of packets of 1,500 bytes")
    options = parser.parse_args()
    if options.cut:
        os.environ["LINK_CUT"] = "1"
    if "RANK" not in os.environ:
        command = [sys.executable, "-m", "lazyt.distributed.run", "--nproc-per-node", "2",
                   "--lazyt", __file__, *sys.argv[1:]]  # fmt: skip
        environment = os.environ | {"LAZYT_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment |= {"LAZYT_TIER": "1"}  # the kernels of the step from the first call on
        if options.link:
            return start_on_link(environment)
        return subprocess.call(command, env=environment)
    import lazyt.distributed as dist

    dist.init_process_group("gloo")
    what = {"bandwidth": bandwidth, "gpt": gpt, "hidden": hidden, "overlap": overlap}
    what[options.what](options)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
