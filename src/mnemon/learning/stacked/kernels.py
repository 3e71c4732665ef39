"""Triton kernels for R stacked convolutional networks: every launch does one layer of all runs.

Activations are NHWC. What a convolution reads has a halo: [R, N, H+2, W+2, C] with a border of zeros, so that neither
the convolution nor its gradients need masks for the border, and an address is (offset of the pixel) + (offset of k).
What only element-wise work reads has none: [R, N, H, W, C]. Weights lie as [R, O, kh, kw, I], so k = (tap, channel) is
contiguous. Offsets are int32: no tensor may hold 2³¹ numbers (`room` checks it).

Sums over pixels are taken tile by tile, written, and added in a fixed order: no atomics, the same bits every time.
"""

# ruff: noqa: E741 (I inputs, O outputs)

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

EPS = tl.constexpr(1e-5)  # of nn.BatchNorm2d
MOMENTUM = tl.constexpr(0.1)

FLAT = 1024  # numbers a program of an element-wise kernel does
ENOUGH = 4 * 132  # programs: four for each multiprocessor of an H200


class Numbers(NamedTuple):
    """How activations are stored and multiplied; sums, statistics and gradients of parameters are float32 always."""

    storage: torch.dtype
    dot: str  # Triton's input_precision, for float32


NUMBERS = {
    "fp32": Numbers(torch.float32, "ieee"),
    "tf32": Numbers(torch.float32, "tf32"),
    "bf16": Numbers(torch.bfloat16, "tf32"),
}


class Tiles(NamedTuple):
    """Block sizes of a matrix product: a program's rows and columns of the result, and the depth of a step."""

    rows: int
    columns: int
    depth: int
    warps: int = 4
    stages: int = 3
    group: int = 1  # neighbouring pixels that make one row of the matrix (see `arrange`)


# Keyed by the largest number of channels. The fastest of those tried on an H200 with 15 runs of 20 images, 84×84 and 32×32.
FORWARD = {  # (groups of) pixels × output channels
    16: Tiles(128, 16, 32),
    32: Tiles(128, 64, 16, stages=4, group=2),
    64: Tiles(128, 64, 32),
    80: Tiles(64, 128, 32),
    math.inf: Tiles(64, 64, 32, stages=4),
}
BACKWARD = {  # (groups of) pixels × input channels
    16: Tiles(64, 16, 32, warps=2),
    32: Tiles(64, 64, 32, group=2),
    64: Tiles(64, 64, 32),
    80: Tiles(64, 128, 32),
    math.inf: Tiles(64, 64, 32, stages=4),
}
STRIDED = {  # the same at stride 2. Two warps: with four, Triton uses wgmma and must transpose the weights first
    16: Tiles(64, 16, 32, warps=2),
    32: Tiles(64, 32, 32, warps=2, stages=1),
    64: Tiles(64, 64, 32, warps=2),
    80: Tiles(64, 32, 32, warps=2),
    math.inf: Tiles(64, 64, 32, warps=2),
}
WEIGHTS = {  # output channels × weights of each; the depth is (groups of) pixels
    16: Tiles(16, 128, 32),
    32: Tiles(32, 128, 32),
    64: Tiles(64, 64, 32, warps=2, stages=1),
    math.inf: Tiles(32, 128, 32),
}
STEM_WEIGHTS = {math.inf: Tiles(64, 64, 32, warps=2, stages=1, group=3)}  # the same, of images


def tiles_for(channels: int, width: int, table: dict[float, Tiles]) -> Tiles:
    tiles = next(tiles for most, tiles in table.items() if channels <= most)
    return tiles if width >= tiles.group else tiles._replace(group=1)


def split(pixels: int, programs: int, depth: int) -> tuple[int, int]:
    """Split a sum over pixels: (number of parts, pixels of each). Aims at ENOUGH programs of at least 4 steps each, or at
    4·ENOUGH programs of at least 40 steps, whichever gives more parts: the last programs then leave less of the device idle."""
    some = min(ENOUGH // programs, pixels // (4 * depth))
    many = min(4 * ENOUGH // programs, pixels // (40 * depth))
    share = triton.cdiv(triton.cdiv(pixels, max(some, many, 1)), depth) * depth
    return triton.cdiv(pixels, share), share


class Norm(NamedTuple):
    """One BatchNorm's forward pass: x̂ = (y − mean)·rstd, then γ·x̂ + β."""

    y: Tensor  # [R, N, H, W, C], the convolution's output
    mean: Tensor  # [R, C]
    rstd: Tensor  # [R, C]
    gamma: Tensor  # [R, C]
    beta: Tensor  # [R, C]


class Running(NamedTuple):
    """One BatchNorm in eval mode."""

    mean: Tensor  # [R, C]
    var: Tensor  # [R, C]
    gamma: Tensor  # [R, C]
    beta: Tensor  # [R, C]


class Gate(NamedTuple):
    """The ReLU and BatchNorm a gradient passes next: out = relu(norm + shortcut)."""

    norm: Norm
    out: Tensor | None = None  # what the ReLU gave; None if there is no shortcut, for then y tells the sign
    short: Norm | None = None  # the shortcut's BatchNorm, if it has one


def room(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """An empty tensor whose offsets fit into 32 bits; one that is too large is as good as one there is no room for: fewer runs
    at once have it."""
    if math.prod(shape) >= 2**31:
        raise torch.OutOfMemoryError(f"{shape} needs offsets of 64 bits.")
    return torch.empty(shape, dtype=dtype, device=device)


# --- input


@triton.jit
def _load_input(
    x, out, total, run_, image_, channel_, row_, column_, H: tl.constexpr, W: tl.constexpr, I: tl.constexpr,
    C: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    run = tl.program_id(1)
    c, p = i % C, i // C
    column, row, image = p % (W + 2) - 1, p // (W + 2) % (H + 2) - 1, p // ((W + 2) * (H + 2))
    inside = (i < total) & (column >= 0) & (column < W) & (row >= 0) & (row < H) & (c < I)
    source = run * run_ + image * image_ + c * channel_ + row * row_ + column * column_
    v = tl.load(x + source, mask=inside, other=0.0)
    tl.store(out + run * total + i, v.to(out.dtype.element_ty), mask=i < total)


def load_input(x: Tensor, numbers: Numbers) -> Tensor:
    """Images [R, N, I, H, W] of any strides → [R or 1, N, H+2, W+2, I'] with a halo; I' is I rounded up to 4, for wide
    loads."""
    if x.stride(0) == 0:
        x = x[:1]  # the same images for all runs
    runs, n, channels, h, w = x.shape
    out = room((runs, n, h + 2, w + 2, -(-channels // 4) * 4), numbers.storage, x.device)
    total = out[0].numel()
    _load_input[triton.cdiv(total, FLAT), runs](
        x, out, total, *x.stride(), H=h, W=w, I=channels, C=out.shape[-1], BLOCK=FLAT
    )
    return out


# --- convolution


@triton.jit
def _arrange(
    w, out, total, O: tl.constexpr, SIDE: tl.constexpr, I: tl.constexpr, C: tl.constexpr, STRIDE: tl.constexpr,
    G: tl.constexpr, TURN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WIDE: tl.constexpr = SIDE + (G - 1) * STRIDE
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    run = tl.program_id(1)
    c, row, o, g = i % C, i // (C * WIDE) % SIDE, i // (C * WIDE * SIDE) % O, i // (C * WIDE * SIDE * O)
    column = i // C % WIDE - g * STRIDE
    inside = (i < total) & (column >= 0) & (column < SIDE) & (c < I)
    if TURN:
        source = ((c * SIDE + SIDE - 1 - row) * SIDE + SIDE - 1 - column) * O + o
    else:
        source = ((o * SIDE + row) * SIDE + column) * I + c
    v = tl.load(w + run * (O * SIDE * SIDE * I) + source, mask=inside, other=0.0)
    tl.store(out + run * total + i, v, mask=i < total)


def arrange(w: Tensor, group: int, stride: int, channels: int, turn: bool = False) -> Tensor:
    """Weights [R, O, k, k, I] → [R, group·O, k, k', channels]: the matrix that computes `group` neighbouring outputs of a row
    from one window of k' = k + (group − 1)·stride columns. Entries outside an output's own k columns are 0. `turn`: rotate
    by 180° and exchange inputs and outputs, for the gradient of the input.

    With few channels, a product for single pixels is narrower than a tile and loads each pixel nine times; one for pairs is
    twice as wide and loads each six times."""
    runs, outputs, side, _, inputs = w.shape
    if turn:
        outputs, inputs = inputs, outputs
    elif group == 1 and inputs == channels:
        return w
    out = room((runs, group * outputs, side, side + (group - 1) * stride, channels), w.dtype, w.device)
    total = out[0].numel()
    _arrange[triton.cdiv(total, FLAT), runs](
        w, out, total, O=outputs, SIDE=side, I=inputs, C=channels, STRIDE=stride, G=group, TURN=turn, BLOCK=FLAT
    )
    return out


def rearranged(dw: Tensor, group: int, stride: int, outputs: int, inputs: int) -> Tensor:
    """From the gradient of what `arrange` made to that of the weights [R, O, k, k, I]."""
    if group == 1:
        return dw[..., :inputs].contiguous()
    side = dw.shape[2]
    each = dw.unflatten(1, (group, outputs))[..., :inputs]
    return torch.stack([each[:, g, :, :, g * stride : g * stride + side] for g in range(group)]).sum(0)


@triton.jit
def _place(m, groups, H: tl.constexpr, W: tl.constexpr, G: tl.constexpr):
    """For each group m of G neighbouring pixels on maps of H × W: row, column and image of its first pixel, and the first
    column that it may write. Where G does not divide W, the last group of a row is shifted left so that it fits, and its
    first pixels belong to the group before."""
    WG: tl.constexpr = (W + G - 1) // G
    at = tl.minimum(m, groups - 1)  # rows past the end read the last group and are not written
    own = at % WG * G
    return at // WG % H, tl.minimum(own, W - G), at // (H * WG), own


@triton.jit
def _product(
    x, w, x_run, groups, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr, SIDE: tl.constexpr,
    STRIDE: tl.constexpr, DOT: tl.constexpr, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One tile [BM, BN] of (input windows) × (weights). Returns the sums; n = (pixel in the group)·O + channel of each column;
    the mask of the values to write; row, column and image of each group's first pixel."""
    WIDE: tl.constexpr = (SIDE + (G - 1) * STRIDE) * C  # numbers in a row of a window, one after the other
    K: tl.constexpr = SIDE * WIDE
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    run = tl.program_id(2)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    columns = n < G * O
    row, column, image, own = _place(m, groups, HO, WO, G)
    # The upper left pixel of the window; a window of 1 starts in its middle.
    corner = (image * (H + 2) + row * STRIDE + (3 - SIDE) // 2) * (W + 2) + column * STRIDE + (3 - SIDE) // 2
    from_x = x + run * x_run + corner[:, None] * C
    from_w = w + run * (G * O * K) + n[None, :] * K
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        window = k // WIDE * ((W + 2) * C) + k % WIDE
        a = tl.load(from_x + window[None, :], mask=(k < K)[None, :], other=0.0)
        b = tl.load(from_w + k[:, None], mask=(k < K)[:, None] & columns[None, :], other=0.0)
        acc = tl.dot(a, b.to(a.dtype), acc, input_precision=DOT)
    there = (m < groups)[:, None] & columns[None, :] & (column[:, None] + n[None, :] // O >= own[:, None])
    return acc, n, there, row, column, image


@triton.jit
def _convolve(
    x, w, y, stats, groups, x_run, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, STATS: tl.constexpr, DOT: tl.constexpr, G: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    acc, n, there, row, column, image = _product(x, w, x_run, groups, H, W, C, O, SIDE, STRIDE, DOT, G, BM, BN, BK)
    tile, run, columns = tl.program_id(0), tl.program_id(2), n < G * O
    value = acc.to(y.dtype.element_ty)
    pixel = (image * HO + row) * WO + column
    tl.store(y + run * (groups // ((WO + G - 1) // G) * (WO * O)) + pixel[:, None] * O + n[None, :], value, mask=there)
    if STATS:
        # Of each column, over the tile's values as they are stored: mean, Σ(v − mean)² and how many they are.
        count = tl.sum(there.to(tl.float32), axis=0)
        v = tl.where(there, value.to(tl.float32), 0.0)
        mean = tl.sum(v, axis=0) / tl.maximum(count, 1.0)
        d = tl.where(there, v - mean[None, :], 0.0)
        to = stats + ((run * tl.num_programs(0) + tile) * G + n // O) * (3 * O) + n % O
        tl.store(to, mean, mask=columns)
        tl.store(to + O, tl.sum(d * d, axis=0), mask=columns)
        tl.store(to + 2 * O, count, mask=columns)


def convolve(x: Tensor, w: Tensor, stride: int, numbers: Numbers, statistics: bool) -> tuple[Tensor, Tensor]:
    """x [R, N, H+2, W+2, C] with a halo, w [R, O, k, k, I] → y [R, N, Ho, Wo, O], and for BatchNorm the mean, the centred
    sum of squares and the number of pixels of each tile [R, T, 3, O]."""
    runs, outputs, side, _, _ = w.shape
    n, h, width, channels = x.shape[1], x.shape[2] - 2, x.shape[3] - 2, x.shape[4]
    ho, wo = (h - 1) // stride + 1, (width - 1) // stride + 1
    t = tiles_for(outputs, wo, FORWARD)
    groups = n * ho * triton.cdiv(wo, t.group)
    count = triton.cdiv(groups, t.rows)
    y = room((runs, n, ho, wo, outputs), numbers.storage, x.device)
    stats = room((runs, count * t.group if statistics else 0, 3, outputs), torch.float32, x.device)
    _convolve[count, triton.cdiv(t.group * outputs, t.columns), runs](
        x, arrange(w, t.group, stride, channels), y, stats, groups, 0 if len(x) == 1 else x[0].numel(),
        H=h, W=width, C=channels, O=outputs, SIDE=side, STRIDE=stride, STATS=statistics, DOT=numbers.dot,
        G=t.group, BM=t.rows, BN=t.columns, BK=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return y, stats


# --- BatchNorm and ReLU


@triton.jit
def _statistics(
    stats, mean_, rstd_, running_mean, running_var, pixels, tiles, C: tl.constexpr, TRAINING: tl.constexpr,
    BT: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    run = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    columns = c < C
    old_mean = tl.load(running_mean + run * C + c, mask=columns, other=0.0)
    old_var = tl.load(running_var + run * C + c, mask=columns, other=1.0)
    if TRAINING:
        # The tiles' means and squares together (Chan et al.).
        n = pixels.to(tl.float32)
        sums = tl.zeros((BT, BC), dtype=tl.float32)
        for start in range(0, tiles, BT):
            t = start + tl.arange(0, BT)
            there = (t < tiles)[:, None] & columns[None, :]
            at = stats + (run * tiles + t)[:, None] * (3 * C) + c[None, :]
            sums += tl.load(at + 2 * C, mask=there, other=0.0) * tl.load(at, mask=there, other=0.0)
        mean = tl.sum(sums, axis=0) / n
        squares = tl.zeros((BT, BC), dtype=tl.float32)
        for start in range(0, tiles, BT):
            t = start + tl.arange(0, BT)
            there = (t < tiles)[:, None] & columns[None, :]
            at = stats + (run * tiles + t)[:, None] * (3 * C) + c[None, :]
            d = tl.load(at, mask=there, other=0.0) - mean[None, :]
            count = tl.load(at + 2 * C, mask=there, other=0.0)
            squares += tl.where(there, tl.load(at + C, mask=there, other=0.0) + count * d * d, 0.0)
        total = tl.sum(squares, axis=0)
        var = total / n
        tl.store(running_mean + run * C + c, old_mean * (1 - MOMENTUM) + mean * MOMENTUM, mask=columns)
        tl.store(running_var + run * C + c, old_var * (1 - MOMENTUM) + total / (n - 1) * MOMENTUM, mask=columns)
    else:
        mean = old_mean
        var = old_var
    tl.store(mean_ + run * C + c, mean, mask=columns)
    tl.store(rstd_ + run * C + c, 1 / tl.sqrt(var + EPS), mask=columns)


def statistics(
    stats: Tensor, pixels: int, running_mean: Tensor, running_var: Tensor, training: bool
) -> tuple[Tensor, Tensor]:
    """mean and rstd [R, C] of the batch, of which the running statistics take their share; or of the running ones."""
    runs, c = running_mean.shape
    mean, rstd = torch.empty_like(running_mean), torch.empty_like(running_var)
    _statistics[runs, triton.cdiv(c, 4)](
        stats, mean, rstd, running_mean, running_var, pixels, stats.shape[1], C=c,
        TRAINING=training, BT=128, BC=4,
    )  # fmt: skip
    return mean, rstd


@triton.jit
def _normal(y, mean, rstd, gamma, beta):
    return gamma * ((y - mean) * rstd) + beta


@triton.jit
def _relu(v):
    # A NaN stays one, as in PyTorch: else the loss of a run that diverged could be finite.
    return tl.maximum(v, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _activate(
    y, mean, rstd, gamma, beta, y2, mean2, rstd2, gamma2, beta2, out, total, pixels, H: tl.constexpr, W: tl.constexpr,
    C: tl.constexpr, HALO: tl.constexpr, SHORT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    run = tl.program_id(1)
    c, p = i % C, i // C
    column, row = p % (W + 2 * HALO) - HALO, p // (W + 2 * HALO) % (H + 2 * HALO) - HALO
    image = p // ((W + 2 * HALO) * (H + 2 * HALO))
    inside = (i < total) & (column >= 0) & (column < W) & (row >= 0) & (row < H)
    source = run * (pixels * C) + ((image * H + row) * W + column) * C + c
    of = run * C + c
    v = _normal(
        tl.load(y + source, mask=inside, other=0.0).to(tl.float32),
        tl.load(mean + of), tl.load(rstd + of), tl.load(gamma + of), tl.load(beta + of),
    )  # fmt: skip
    if SHORT == 1:  # the block's input, which has a halo
        images = pixels // (H * W)
        at = ((run * images + image) * (H + 2) + row + 1) * (W + 2) + column + 1
        v += tl.load(y2 + at * C + c, mask=inside, other=0.0).to(tl.float32)
    if SHORT == 2:  # a convolution of it with a BatchNorm of its own
        v += _normal(
            tl.load(y2 + source, mask=inside, other=0.0).to(tl.float32),
            tl.load(mean2 + of), tl.load(rstd2 + of), tl.load(gamma2 + of), tl.load(beta2 + of),
        )  # fmt: skip
    v = tl.where(inside, _relu(v), 0.0)
    tl.store(out + run * total + i, v.to(out.dtype.element_ty), mask=i < total)


def activate(norm: Norm, short: Tensor | Norm | None, numbers: Numbers, halo: bool = True) -> Tensor:
    """relu(norm + short), with a halo for the next convolution; without one in float32, for what follows the network.

    `short` is the block's input (with a halo) or the shortcut's own BatchNorm.
    """
    runs, n, h, w, c = norm.y.shape
    shape, dtype = ((runs, n, h + 2, w + 2, c), numbers.storage) if halo else ((runs, n, h, w, c), torch.float32)
    out = room(shape, dtype, norm.y.device)
    second = short if isinstance(short, Norm) else norm if short is None else norm._replace(y=short)
    total = out[0].numel()
    _activate[triton.cdiv(total, FLAT), runs](
        *norm, *second, out, total, n * h * w,
        H=h, W=w, C=c, HALO=int(halo), SHORT=0 if short is None else 2 if isinstance(short, Norm) else 1, BLOCK=FLAT,
    )  # fmt: skip
    return out


# --- inference: convolution, BatchNorm with running statistics, shortcut and ReLU in one kernel


@triton.jit
def _infer(
    x, w, out, mean, var, gamma, beta, short, groups, x_run, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    O: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, SHORT: tl.constexpr, RELU: tl.constexpr,
    HALO: tl.constexpr, DOT: tl.constexpr, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    acc, n, there, row, column, image = _product(x, w, x_run, groups, H, W, C, O, SIDE, STRIDE, DOT, G, BM, BN, BK)
    run = tl.program_id(2)
    of = run * O + n % O
    rstd = 1 / tl.sqrt(tl.load(var + of)[None, :] + EPS)
    v = _normal(acc, tl.load(mean + of)[None, :], rstd, tl.load(gamma + of)[None, :], tl.load(beta + of)[None, :])
    images = groups // (HO * ((WO + G - 1) // G))
    plain = ((run * images + image) * HO + row) * WO + column
    haloed = ((run * images + image) * (HO + 2) + row + 1) * (WO + 2) + column + 1
    if SHORT == 1:  # the block's input, which has a halo
        v += tl.load(short + haloed[:, None] * O + n[None, :], mask=there, other=0.0).to(tl.float32)
    if SHORT == 2:  # a convolution of it, normalised
        v += tl.load(short + plain[:, None] * O + n[None, :], mask=there, other=0.0).to(tl.float32)
    if RELU:
        v = _relu(v)
    at = haloed if HALO else plain
    tl.store(out + at[:, None] * O + n[None, :], v.to(out.dtype.element_ty), mask=there)


def infer(
    x: Tensor, w: Tensor, stride: int, norm: Running, short: Tensor | None, numbers: Numbers, *, relu: bool = True,
    halo: bool = True, dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """relu(norm(convolve(x, w)) + short) with running statistics, in one kernel; the convolution's output is not stored.
    `short` is the block's input (with a halo) or the shortcut's own output."""
    runs, outputs, side, _, _ = w.shape
    n, h, width, channels = x.shape[1], x.shape[2] - 2, x.shape[3] - 2, x.shape[4]
    ho, wo = (h - 1) // stride + 1, (width - 1) // stride + 1
    t = tiles_for(outputs, wo, FORWARD)
    groups = n * ho * triton.cdiv(wo, t.group)
    shape = (runs, n, ho + 2, wo + 2, outputs) if halo else (runs, n, ho, wo, outputs)
    out = room(shape, dtype or numbers.storage, x.device)
    if halo:
        out[:, :, :: ho + 1] = 0  # the border: first and last row, then columns
        out[:, :, :, :: wo + 1] = 0
    kind = 0 if short is None else 1 if short.shape[2] == ho + 2 else 2
    _infer[triton.cdiv(groups, t.rows), triton.cdiv(t.group * outputs, t.columns), runs](
        x, arrange(w, t.group, stride, channels), out, *norm, out if short is None else short, groups,
        0 if len(x) == 1 else x[0].numel(),
        H=h, W=width, C=channels, O=outputs, SIDE=side, STRIDE=stride, SHORT=kind, RELU=relu, HALO=halo,
        DOT=numbers.dot, G=t.group, BM=t.rows, BN=t.columns, BK=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return out


# --- gradients of BatchNorm and ReLU


@triton.jit
def _through_gate(
    d, there, pixel, haloed, n, columns, run, tile, tiles, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out, g, sums,
    pixels, out_pixels, C: tl.constexpr, GATE: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """The gradient d [BM, BN] of a tile of groups of pixels, G each → g = d·(out > 0), written, and its sums for
    BatchNorm's gradient, for each place in a group.

    GATE 0: nothing, g = d. 1: BatchNorm and ReLU. 2: with an identity shortcut. 3: with a shortcut that has a BatchNorm.
    `haloed` are the places of the groups' first pixels in `out`; n is (pixel of the group, channel).
    """
    c = n % C
    at = run * (pixels * C) + pixel[:, None] * C + n[None, :]
    if GATE > 0:
        of = run * C + c
        m = tl.load(mean + of, mask=columns, other=0.0)[None, :]
        s = tl.load(rstd + of, mask=columns, other=0.0)[None, :]
        value = tl.load(y + at, mask=there, other=0.0).to(tl.float32)
        if GATE == 1:
            scale = tl.load(gamma + of, mask=columns, other=0.0)[None, :]
            shift = tl.load(beta + of, mask=columns, other=0.0)[None, :]
            positive = _normal(value, m, s, scale, shift) > 0
        else:
            placed = run * (out_pixels * C) + haloed[:, None] * C + n[None, :]
            positive = tl.load(out + placed, mask=there, other=0.0).to(tl.float32) > 0
        d = tl.where(there & positive, d, 0.0)
    short = d.to(g.dtype.element_ty)
    tl.store(g + at, short, mask=there)
    if GATE > 0:
        d = short.to(tl.float32)
        to = sums + ((run * tiles + tile) * G + n // C) * (3 * C) + c
        tl.store(to, tl.sum(d, axis=0), mask=columns)
        tl.store(to + C, tl.sum(d * ((value - m) * s), axis=0), mask=columns)
        if GATE == 3:
            m2 = tl.load(mean2 + of, mask=columns, other=0.0)[None, :]
            s2 = tl.load(rstd2 + of, mask=columns, other=0.0)[None, :]
            value2 = tl.load(y2 + at, mask=there, other=0.0).to(tl.float32)
            tl.store(to + 2 * C, tl.sum(d * ((value2 - m2) * s2), axis=0), mask=columns)


@triton.jit
def _gate(
    d, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out, g, sums, pixels, out_pixels, H: tl.constexpr,
    W: tl.constexpr, C: tl.constexpr, GATE: tl.constexpr, HALO: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    tile, run = tl.program_id(0), tl.program_id(1)
    m = tile * BM + tl.arange(0, BM)
    c = tl.arange(0, BC)
    columns = c < C
    there = (m < pixels)[:, None] & columns[None, :]
    value = tl.load(d + run * (pixels * C) + m[:, None] * C + c[None, :], mask=there, other=0.0).to(tl.float32)
    haloed = (m // (H * W) * (H + 2 * HALO) + m // W % H + HALO) * (W + 2 * HALO) + m % W + HALO
    _through_gate(
        value, there, m, haloed, c, columns, run, tile, tl.num_programs(0), y, mean, rstd, gamma, beta, y2, mean2,
        rstd2, out, g, sums, pixels, out_pixels, C, GATE, 1,
    )  # fmt: skip


def _gate_operands(gate: Gate) -> tuple[Tensor, ...]:
    """y, mean, rstd, γ, β; y, mean, rstd of the shortcut; out. What a kernel does not read is any tensor."""
    short = gate.short or gate.norm
    return (*gate.norm, short.y, short.mean, short.rstd, gate.norm.y if gate.out is None else gate.out)


def _gate_kind(gate: Gate) -> int:
    return 1 if gate.out is None else 2 if gate.short is None else 3


def _out_pixels(gate: Gate) -> int:
    """Places of one run in gate.out."""
    out = gate.norm.y if gate.out is None else gate.out
    return out.shape[1] * out.shape[2] * out.shape[3]


def through_gate(d: Tensor, gate: Gate, numbers: Numbers) -> tuple[Tensor, Tensor]:
    """The gradient of `gate`'s output [R, N, H, W, C] → g behind the ReLU, and the tiles' sums [R, T, 3, C]: Σg, Σg·x̂ and
    Σg·x̂ of the shortcut. Only the network's last gate needs this kernel; the others are the end of `input_gradient`."""
    runs, n, h, w, c = d.shape
    pixels, block = n * h * w, triton.next_power_of_2(c)
    per_tile = max(1, 4096 // block)
    count = triton.cdiv(pixels, per_tile)
    g = room((runs, n, h, w, c), numbers.storage, d.device)
    sums = room((runs, count, 3, c), torch.float32, d.device)
    halo = 0 if gate.out is None else (gate.out.shape[2] - h) // 2
    _gate[count, runs](
        d, *_gate_operands(gate), g, sums, pixels, _out_pixels(gate),
        H=h, W=w, C=c, GATE=_gate_kind(gate), HALO=halo, BM=per_tile, BC=block,
    )  # fmt: skip
    return g, sums


@triton.jit
def _add_tiles(sums, total, tiles, C: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr):
    run = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)  # of the 3·C sums
    columns = c < 3 * C
    acc = tl.zeros((BT, BC), dtype=tl.float32)
    for start in range(0, tiles, BT):
        t = start + tl.arange(0, BT)
        at = sums + (run * tiles + t)[:, None] * (3 * C) + c[None, :]
        acc += tl.load(at, mask=(t < tiles)[:, None] & columns[None, :], other=0.0)
    tl.store(total + (c // C * tl.num_programs(0) + run) * C + c % C, tl.sum(acc, axis=0), mask=columns)


def add_tiles(sums: Tensor, kinds: int) -> Tensor:
    """[R, T, 3, C] → [kinds, R, C]: dβ, dγ, and of the shortcut dγ (its dβ is the same)."""
    runs, tiles, _, c = sums.shape
    total = torch.empty((3, runs, c), dtype=torch.float32, device=sums.device)
    _add_tiles[runs, triton.cdiv(kinds * c, 4)](sums, total, tiles, C=c, BT=128, BC=4)
    return total[:kinds]


@triton.jit
def _norm_gradient(
    g, y, mean, rstd, gamma, y2, mean2, rstd2, gamma2, sums, dy, dy2, total, pixels, H: tl.constexpr, W: tl.constexpr,
    C: tl.constexpr, SHORT: tl.constexpr, TRAINING: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    run = tl.program_id(1)
    c, p = i % C, i // C
    column, row, image = p % (W + 2) - 1, p // (W + 2) % (H + 2) - 1, p // ((W + 2) * (H + 2))
    inside = (i < total) & (column >= 0) & (column < W) & (row >= 0) & (row < H)
    source = run * (pixels * C) + ((image * H + row) * W + column) * C + c
    of = run * C + c
    s = tl.load(rstd + of)
    v = tl.load(g + source, mask=inside, other=0.0).to(tl.float32)
    centred = v
    n = pixels.to(tl.float32)
    if TRAINING:
        centred = v - tl.load(sums + of) / n
        x = (tl.load(y + source, mask=inside, other=0.0).to(tl.float32) - tl.load(mean + of)) * s
        v = centred - x * (tl.load(sums + tl.num_programs(1) * C + of) / n)
    v = tl.where(inside, tl.load(gamma + of) * s * v, 0.0)
    tl.store(dy + run * total + i, v.to(dy.dtype.element_ty), mask=i < total)
    if SHORT:
        s2 = tl.load(rstd2 + of)
        if TRAINING:
            x2 = (tl.load(y2 + source, mask=inside, other=0.0).to(tl.float32) - tl.load(mean2 + of)) * s2
            centred -= x2 * (tl.load(sums + tl.num_programs(1) * (2 * C) + of) / n)
        v2 = tl.where(inside, tl.load(gamma2 + of) * s2 * centred, 0.0)
        tl.store(dy2 + run * total + i, v2.to(dy2.dtype.element_ty), mask=i < total)


def norm_gradient(
    g: Tensor, norm: Norm, short: Norm | None, sums: Tensor, training: bool, numbers: Numbers
) -> tuple[Tensor, Tensor]:
    """dy = γ·rstd·(g − dβ/n − x̂·dγ/n) with a halo [R, N, H+2, W+2, C], and the same for the shortcut's BatchNorm.

    In eval mode the statistics do not depend on y, and dy = γ·rstd·g.
    """
    runs, n, h, w, c = g.shape
    dy = room((runs, n, h + 2, w + 2, c), numbers.storage, g.device)
    dy2 = dy if short is None else torch.empty_like(dy)
    second = short or norm
    total = dy[0].numel()
    _norm_gradient[triton.cdiv(total, FLAT), runs](
        g, *norm[:4], *second[:4], sums, dy, dy2, total, n * h * w,
        H=h, W=w, C=c, SHORT=short is not None, TRAINING=training, BLOCK=FLAT,
    )  # fmt: skip
    return dy, dy2


# --- gradients of the convolution


@triton.jit
def _input_gradient(
    dy, w, added, dx, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out, sums, groups, pixels, out_pixels,
    H: tl.constexpr, W: tl.constexpr, I: tl.constexpr, O: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr,
    DOT: tl.constexpr, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Stride 1: convolve dy with w, which `arrange(turn=True)` has rotated and transposed."""
    dy_run = pixels // (H * W) * ((H + 2) * (W + 2) * O)
    acc, n, there, row, column, image = _product(dy, w, dy_run, groups, H, W, O, I, 3, 1, DOT, G, BM, BN, BK)
    tile, run = tl.program_id(0), tl.program_id(2)
    pixel = (image * H + row) * W + column
    if ADD:
        at = run * (pixels * I) + pixel[:, None] * I + n[None, :]
        acc += tl.load(added + at, mask=there, other=0.0).to(tl.float32)
    haloed = (image * (H + 2) + row + 1) * (W + 2) + column + 1
    _through_gate(
        acc, there, pixel, haloed, n, n < G * I, run, tile, tl.num_programs(0), y, mean, rstd, gamma, beta, y2, mean2,
        rstd2, out, dx, sums, pixels, out_pixels, I, GATE, G,
    )  # fmt: skip


@triton.jit
def _strided_gradient(
    dy, w, dy2, w2, dx, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out, sums, images, out_pixels, H: tl.constexpr,
    W: tl.constexpr, I: tl.constexpr, O: tl.constexpr, GATE: tl.constexpr, DOT: tl.constexpr, BM: tl.constexpr,
    BI: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Stride 2, of a 3×3 convolution and the 1×1 convolution of the shortcut together.

    Row 2·r of the input is met by tap 1 of output row r; row 2·r + 1 by tap 0 of row r + 1 and tap 2 of row r. The same
    for columns: the four parities are four products with 1, 2, 2 and 4 taps, and none multiplies by a zero. The shortcut
    meets even rows and columns.
    """
    HO: tl.constexpr = (H + 1) // 2
    WO: tl.constexpr = (W + 1) // 2
    tile, run = tl.program_id(0), tl.program_id(2)
    tiles = tl.num_programs(0)
    parity = tile % 4
    down, right = 1 - parity // 2, 1 - parity % 2  # 1 on odd rows, columns
    high, wide = (H + 1 - down) // 2, (W + 1 - right) // 2  # how many of them there are
    m = tile // 4 * BM + tl.arange(0, BM)
    mine = images * high * wide
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    columns = i < I
    at = tl.minimum(m, mine - 1)
    row, column, image = at // wide % high, at % wide, at // (high * wide)
    place = (image * (HO + 2) + row + 1) * (WO + 2) + column + 1
    dy_run = images * ((HO + 2) * (WO + 2) * O)
    acc = tl.zeros((BM, BI), dtype=tl.float32)
    K = (1 + down) * (1 + right) * O
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        o, tap = k % O, k // O
        tap_row, tap_column = tap >> right, tap & right
        window = ((down - tap_row) * (WO + 2) + right - tap_column) * O + o
        taps = (1 - down + 2 * tap_row) * 3 + 1 - right + 2 * tap_column
        a = tl.load(dy + run * dy_run + place[:, None] * O + window[None, :], mask=(k < K)[None, :], other=0.0)
        from_w = w + run * (O * 9 * I) + (o * (9 * I) + taps * I)[:, None] + i[None, :]
        b = tl.load(from_w, mask=(k < K)[:, None] & columns[None, :], other=0.0)
        acc = tl.dot(a, b.to(a.dtype), acc, input_precision=DOT)
    K2 = (1 - down) * (1 - right) * O
    for start in range(0, K2, BK):
        o2 = start + tl.arange(0, BK)
        a2 = tl.load(dy2 + run * dy_run + place[:, None] * O + o2[None, :], mask=(o2 < O)[None, :], other=0.0)
        from_w2 = w2 + run * (O * I) + o2[:, None] * I + i[None, :]
        b2 = tl.load(from_w2, mask=(o2 < O)[:, None] & columns[None, :], other=0.0)
        acc = tl.dot(a2, b2.to(a2.dtype), acc, input_precision=DOT)
    there = (m < mine)[:, None] & columns[None, :]
    pixel = (image * H + 2 * row + down) * W + 2 * column + right
    haloed = (image * (H + 2) + 2 * row + down + 1) * (W + 2) + 2 * column + right + 1
    # A tile past the end of its parity has no pixels and sums of 0.
    acc = tl.where(there, acc, 0.0)
    _through_gate(
        acc, there, pixel, haloed, i, columns, run, tile, tiles, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out,
        dx, sums, images * (H * W), out_pixels, I, GATE, 1,
    )  # fmt: skip


def input_gradient(
    dy: Tensor, w: Tensor, added: Tensor | None, gate: Gate | None, numbers: Numbers
) -> tuple[Tensor, Tensor]:
    """dy [R, N, H+2, W+2, O] of a 3×3 convolution of stride 1 → the gradient of its input [R, N, H, W, I], plus `added`;
    behind `gate` if there is one, with its sums [R, T, 3, I] (see `through_gate`)."""
    runs, outputs, _, _, inputs = w.shape
    n, h, width = dy.shape[1], dy.shape[2] - 2, dy.shape[3] - 2
    t = tiles_for(inputs, width, BACKWARD)
    groups = n * h * triton.cdiv(width, t.group)
    count = triton.cdiv(groups, t.rows)
    dx = room((runs, n, h, width, inputs), torch.float32 if gate is None else numbers.storage, dy.device)
    sums = room((runs, 0 if gate is None else count * t.group, 3, inputs), torch.float32, dy.device)
    _input_gradient[count, triton.cdiv(t.group * inputs, t.columns), runs](
        dy, arrange(w, t.group, 1, outputs, turn=True), dx if added is None else added, dx,
        *((dx,) * 9 if gate is None else _gate_operands(gate)), sums, groups, n * h * width,
        0 if gate is None else _out_pixels(gate),
        H=h, W=width, I=inputs, O=outputs, ADD=added is not None, GATE=0 if gate is None else _gate_kind(gate),
        DOT=numbers.dot, G=t.group, BM=t.rows, BN=t.columns, BK=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return dx, sums


def strided_gradient(
    dy: Tensor, w: Tensor, dy2: Tensor, w2: Tensor, h: int, width: int, gate: Gate, numbers: Numbers,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same for a block of stride 2 on an input of h × width: w [R, O, 3, 3, I], and w2 [R, O, 1, 1, I] of the shortcut."""
    runs, outputs, _, _, inputs = w.shape
    n = dy.shape[1]
    most = n * ((h + 1) // 2) * ((width + 1) // 2)
    t = tiles_for(inputs, width, STRIDED)
    count = 4 * triton.cdiv(most, t.rows)
    dx = room((runs, n, h, width, inputs), numbers.storage, dy.device)
    sums = room((runs, count, 3, inputs), torch.float32, dy.device)
    _strided_gradient[count, triton.cdiv(inputs, t.columns), runs](
        dy, w, dy2, w2, dx, *_gate_operands(gate), sums, n, _out_pixels(gate),
        H=h, W=width, I=inputs, O=outputs, GATE=_gate_kind(gate), DOT=numbers.dot,
        BM=t.rows, BI=t.columns, BK=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return dx, sums


@triton.jit
def _weight_gradient(
    x, dy, dw, groups, x_run, share, S, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, O: tl.constexpr,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, DOT: tl.constexpr, G: tl.constexpr, BO: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    WIDE: tl.constexpr = (SIDE + (G - 1) * STRIDE) * C
    K: tl.constexpr = SIDE * WIDE
    k = tl.program_id(0) * BN + tl.arange(0, BN)
    o = tl.program_id(1) * BO + tl.arange(0, BO)  # (pixel of the group, output channel)
    part = tl.program_id(2)
    run = part // S
    from_x = x + run * x_run + (k // WIDE * ((W + 2) * C) + k % WIDE)[None, :]
    from_dy = dy + run * (groups // (HO * ((WO + G - 1) // G)) * ((HO + 2) * (WO + 2) * O)) + o[None, :]
    first = part % S * share
    last = tl.minimum(first + share, groups)
    acc = tl.zeros((BO, BN), dtype=tl.float32)
    for start in range(first, last, BM):
        m = start + tl.arange(0, BM)
        row, column, image, own = _place(m, groups, HO, WO, G)
        corner = (image * (H + 2) + row * STRIDE + (3 - SIDE) // 2) * (W + 2) + column * STRIDE + (3 - SIDE) // 2
        place = (image * (HO + 2) + row + 1) * (WO + 2) + column + 1
        there = (m < last)[:, None] & (o < G * O)[None, :]
        if WO % G != 0:
            there &= column[:, None] + o[None, :] // O >= own[:, None]
        g = tl.load(from_dy + place[:, None] * O, mask=there, other=0.0)
        a = tl.load(from_x + corner[:, None] * C, mask=(k < K)[None, :], other=0.0)
        acc = tl.dot(tl.trans(g), a, acc, input_precision=DOT)
    to = dw + (part * (G * O) + o)[:, None] * K + k[None, :]
    tl.store(to, acc, mask=(o < G * O)[:, None] & (k < K)[None, :])


def weight_gradient(x: Tensor, dy: Tensor, side: int, inputs: int, stride: int, numbers: Numbers) -> Tensor:
    """x [R, N, H+2, W+2, C] and dy [R, N, Ho+2, Wo+2, O] → the gradient of the weights [R, O, k, k, I].

    The pixels are split into parts where the weights alone would not fill the device; the parts are added afterwards.
    """
    runs, n, ho, wo, outputs = dy.shape
    channels = x.shape[4]
    t = tiles_for(outputs, wo - 2, STEM_WEIGHTS if channels == 4 else WEIGHTS)
    wide = side + (t.group - 1) * stride
    groups = n * (ho - 2) * triton.cdiv(wo - 2, t.group)
    blocks = triton.cdiv(side * wide * channels, t.columns), triton.cdiv(t.group * outputs, t.rows)
    parts, share = split(groups, runs * blocks[0] * blocks[1], t.depth)
    dw = room((runs, parts, t.group * outputs, side, wide, channels), torch.float32, x.device)
    _weight_gradient[blocks[0], blocks[1], runs * parts](
        x, dy, dw, groups, 0 if len(x) == 1 else x[0].numel(), share, parts,
        H=x.shape[2] - 2, W=x.shape[3] - 2, C=channels, O=outputs, SIDE=side, STRIDE=stride, DOT=numbers.dot,
        G=t.group, BO=t.rows, BN=t.columns, BM=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    whole = dw[:, 0] if parts == 1 else dw.sum(1)
    return rearranged(whole, t.group, stride, outputs, inputs)
