"""Where and how exactly runs are computed: the device, the precision of its products, deterministic kernels."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from mnemon.errors import MnemonError, check_known
from mnemon.runtime.precision import products

PRECISIONS = ("fp32", "tf32", "bf16")


class Engine(NamedTuple):
    """A device and how it computes; runs are made within `in_use`."""

    device: torch.device
    precision: str = "tf32"
    deterministic: bool = False
    elsewhere: str = ""  # the name of a device that other machines have, and not this one

    @property
    def name(self) -> str:
        """The device as records name it."""
        if self.elsewhere:
            return self.elsewhere
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type

    @property
    def exact(self) -> str:
        """The precision as records name it: a CPU has but one."""
        return "fp32" if self.device.type == "cpu" else self.precision

    @property
    def stacks(self) -> bool:
        """Whether runs of a kind take their steps as one: on a GPU, unless each bit must be the same however many there are."""
        return self.device.type == "cuda" and not self.deterministic

    @property
    def here(self) -> torch.device:
        """Where this process keeps what it reads: the device, if it is one of this machine."""
        return torch.device("cpu") if self.elsewhere else self.device

    def identity(self) -> dict[str, Any]:
        """What tells runs apart: the device, and how it computes where that is not the default."""
        found: dict[str, Any] = {"device": self.name}
        if self.precision != "tf32" and self.device.type != "cpu":
            found["precision"] = self.precision
        return found | ({"deterministic": True} if self.deterministic else {})

    def check(self) -> None:
        check_known("precision", self.precision, PRECISIONS)
        if self.precision == "bf16" and self.device.type == "cpu":
            raise MnemonError("bf16 is for GPUs; a CPU computes in fp32: leave --precision out.")

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Within, torch's switches are set; bf16 is for the backbone alone, and beside it TF32."""
        enabled, cudnn = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
        only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
        fills = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
        if self.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS starts
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.deterministic = True
            # Nothing here reads what it has not written.
            torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        try:
            with products(tf32=self.exact != "fp32"):
                yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=only_warns)
            torch.backends.cudnn.deterministic = cudnn
            torch.utils.deterministic.fill_uninitialized_memory = fills  # type: ignore[attr-defined]


def choose_device(name: str | torch.device) -> torch.device:
    """auto: the GPU where there is one."""
    if not isinstance(name, str | torch.device):
        raise MnemonError(f"a device is auto, cpu, cuda (or cuda:1, …), mps or a torch.device, not {name!r}.")
    return _device(str(name))


@lru_cache
def _device(name: str) -> torch.device:
    # As many queues to the device as it has, lest runs side by side share one; read when CUDA starts. 8 by default.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        if name.split(":")[0] not in ("cpu", "cuda", "mps"):
            raise RuntimeError
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise MnemonError(
            f"there is no device {name!r} here; auto takes the one there is, cpu is always there."
        ) from None
    return device
