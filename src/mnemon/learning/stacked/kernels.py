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
ENOUGH = 4 * 132  # programs that keep a large device busy


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


# By channels, up to so many: the fastest of some tried on an H200 with 15 runs of 20 images.
FORWARD = {  # pixels × output channels
    16: Tiles(128, 16, 32),
    32: Tiles(256, 32, 32, stages=1),
    64: Tiles(128, 64, 32),
    80: Tiles(256, 32, 32),
    math.inf: Tiles(64, 64, 32, stages=4),
}
BACKWARD = {  # pixels × input channels. Two warps: with four the compiler takes wgmma, which wants the weights turned first
    16: Tiles(64, 16, 32, warps=2),
    32: Tiles(64, 32, 32, warps=2, stages=1),
    64: Tiles(64, 64, 32, warps=2),
    80: Tiles(64, 32, 32, warps=2),
    math.inf: Tiles(64, 64, 32, warps=2),
}
WEIGHTS = {  # output channels × weights of each; the depth is pixels
    16: Tiles(16, 128, 32),
    32: Tiles(32, 128, 32),
    64: Tiles(64, 64, 32, warps=2, stages=1),
    math.inf: Tiles(32, 128, 32),
}


def tiles_for(channels: int, table: dict[float, Tiles]) -> Tiles:
    return next(tiles for most, tiles in table.items() if channels <= most)


def split(pixels: int, programs: int, depth: int) -> tuple[int, int]:
    """Into how many parts of how many pixels a sum over pixels is split, so that there are some programs for every
    multiprocessor and yet some steps for every program."""
    parts = max(1, min(ENOUGH // programs, pixels // (4 * depth)))
    share = triton.cdiv(triton.cdiv(pixels, parts), depth) * depth
    return triton.cdiv(pixels, share), share


class Norm(NamedTuple):
    """One BatchNorm's forward pass: x̂ = (y − mean)·rstd, then γ·x̂ + β."""

    y: Tensor  # [R, N, H, W, C], the convolution's output
    mean: Tensor  # [R, C]
    rstd: Tensor  # [R, C]
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
def _convolve(
    x, w, y, stats, pixels, x_run, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, I: tl.constexpr, O: tl.constexpr,
    SIDE: tl.constexpr, STRIDE: tl.constexpr, STATS: tl.constexpr, DOT: tl.constexpr, BM: tl.constexpr,
    BO: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    K: tl.constexpr = SIDE * SIDE * C
    tile, run = tl.program_id(0), tl.program_id(2)
    m = tile * BM + tl.arange(0, BM)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    rows, columns = m < pixels, o < O
    # Rows past the end read the last pixel and are not written: the loop needs no mask for them.
    at = tl.minimum(m, pixels - 1)
    row, column, image = at // WO % HO, at % WO, at // (HO * WO)
    # The upper left pixel of the window; a window of 1 starts in its middle.
    corner = (image * (H + 2) + row * STRIDE + (3 - SIDE) // 2) * (W + 2) + column * STRIDE + (3 - SIDE) // 2
    from_x = x + run * x_run + corner[:, None] * C
    from_w = w + run * (O * SIDE * SIDE * I) + o[None, :] * (SIDE * SIDE * I)
    acc = tl.zeros((BM, BO), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        window = k // (SIDE * C) * ((W + 2) * C) + k % (SIDE * C)  # a row of the window is contiguous
        a = tl.load(from_x + window[None, :], mask=(k < K)[None, :], other=0.0)
        real = (k < K) & (k % C < I)  # the last channels of an image's pixel may be filling
        b = tl.load(from_w + (k // C * I + k % C)[:, None], mask=real[:, None] & columns[None, :], other=0.0)
        acc = tl.dot(a, b.to(a.dtype), acc, input_precision=DOT)
    value = acc.to(y.dtype.element_ty)
    tl.store(y + run * (pixels * O) + m[:, None] * O + o[None, :], value, mask=rows[:, None] & columns[None, :])
    if STATS:
        # The tile's mean and Σ(v − mean)², of the values as they are stored.
        v = tl.where(rows[:, None], value.to(tl.float32), 0.0)
        mean = tl.sum(v, axis=0) / tl.minimum(BM, pixels - tile * BM).to(tl.float32)
        d = tl.where(rows[:, None], v - mean[None, :], 0.0)
        to = stats + (run * tl.num_programs(0) + tile) * (2 * O) + o
        tl.store(to, mean, mask=columns)
        tl.store(to + O, tl.sum(d * d, axis=0), mask=columns)


def convolve(x: Tensor, w: Tensor, stride: int, numbers: Numbers, statistics: bool) -> tuple[Tensor, Tensor, int]:
    """x [R, N, H+2, W+2, C] with a halo, w [R, O, k, k, I] → y [R, N, Ho, Wo, O], and for BatchNorm the mean and the
    centred sum of squares of each tile [R, T, 2, O], and the pixels of a tile."""
    runs, outputs, side, _, inputs = w.shape
    n, h, width, channels = x.shape[1], x.shape[2] - 2, x.shape[3] - 2, x.shape[4]
    ho, wo = (h - 1) // stride + 1, (width - 1) // stride + 1
    pixels = n * ho * wo
    t = tiles_for(outputs, FORWARD)
    count = triton.cdiv(pixels, t.rows)
    y = room((runs, n, ho, wo, outputs), numbers.storage, x.device)
    stats = room((runs, count if statistics else 0, 2, outputs), torch.float32, x.device)
    _convolve[count, triton.cdiv(outputs, t.columns), runs](
        x, w, y, stats, pixels, 0 if len(x) == 1 else x[0].numel(),
        H=h, W=width, C=channels, I=inputs, O=outputs, SIDE=side, STRIDE=stride, STATS=statistics, DOT=numbers.dot,
        BM=t.rows, BO=t.columns, BK=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return y, stats, t.rows


# --- BatchNorm and ReLU


@triton.jit
def _statistics(
    stats, mean_, rstd_, running_mean, running_var, pixels, tiles, tile_pixels, C: tl.constexpr,
    TRAINING: tl.constexpr, BT: tl.constexpr, BC: tl.constexpr,
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
            count = tl.minimum(tile_pixels, pixels - t * tile_pixels).to(tl.float32)
            there = (t < tiles)[:, None] & columns[None, :]
            at = stats + (run * tiles + t)[:, None] * (2 * C) + c[None, :]
            sums += count[:, None] * tl.load(at, mask=there, other=0.0)
        mean = tl.sum(sums, axis=0) / n
        squares = tl.zeros((BT, BC), dtype=tl.float32)
        for start in range(0, tiles, BT):
            t = start + tl.arange(0, BT)
            count = tl.minimum(tile_pixels, pixels - t * tile_pixels).to(tl.float32)
            there = (t < tiles)[:, None] & columns[None, :]
            at = stats + (run * tiles + t)[:, None] * (2 * C) + c[None, :]
            d = tl.load(at, mask=there, other=0.0) - mean[None, :]
            squares += tl.where(there, tl.load(at + C, mask=there, other=0.0) + count[:, None] * d * d, 0.0)
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
    stats: Tensor, tile_pixels: int, pixels: int, running_mean: Tensor, running_var: Tensor, training: bool
) -> tuple[Tensor, Tensor]:
    """mean and rstd [R, C] of the batch, of which the running statistics take their share; or of the running ones."""
    runs, c = running_mean.shape
    mean, rstd = torch.empty_like(running_mean), torch.empty_like(running_var)
    _statistics[runs, triton.cdiv(c, 4)](
        stats, mean, rstd, running_mean, running_var, pixels, stats.shape[1], tile_pixels,
        C=c, TRAINING=training, BT=128, BC=4,
    )  # fmt: skip
    return mean, rstd


@triton.jit
def _normal(y, mean, rstd, gamma, beta):
    return gamma * ((y - mean) * rstd) + beta


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
    v = tl.where(inside, tl.maximum(v, 0.0), 0.0)
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


# --- gradients of BatchNorm and ReLU


@triton.jit
def _through_gate(
    d, there, pixel, haloed, c, columns, run, tile, tiles, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out, g, sums,
    pixels, out_pixels, C: tl.constexpr, GATE: tl.constexpr,
):  # fmt: skip
    """The gradient d [BM, BC] of a tile of pixels → g = d·(out > 0), written, and its sums for BatchNorm's gradient.

    GATE 0: nothing, g = d. 1: BatchNorm and ReLU. 2: with an identity shortcut. 3: with a shortcut that has a BatchNorm.
    `haloed` are the pixels' places in `out`.
    """
    at = run * (pixels * C) + pixel[:, None] * C + c[None, :]
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
            placed = run * (out_pixels * C) + haloed[:, None] * C + c[None, :]
            positive = tl.load(out + placed, mask=there, other=0.0).to(tl.float32) > 0
        d = tl.where(there & positive, d, 0.0)
    short = d.to(g.dtype.element_ty)
    tl.store(g + at, short, mask=there)
    if GATE > 0:
        d = short.to(tl.float32)
        to = sums + (run * tiles + tile) * (3 * C) + c
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
        rstd2, out, g, sums, pixels, out_pixels, C, GATE,
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
    dy, w, added, dx, y, mean, rstd, gamma, beta, y2, mean2, rstd2, out, sums, pixels, out_pixels, H: tl.constexpr,
    W: tl.constexpr, I: tl.constexpr, O: tl.constexpr, ADD: tl.constexpr, GATE: tl.constexpr, DOT: tl.constexpr,
    BM: tl.constexpr, BI: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Stride 1: the convolution of dy with the weights turned by 180° and transposed."""
    K: tl.constexpr = 9 * O
    tile, run = tl.program_id(0), tl.program_id(2)
    m = tile * BM + tl.arange(0, BM)
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    columns = i < I
    at = tl.minimum(m, pixels - 1)
    row, column, image = at // W % H, at % W, at // (H * W)
    corner = (image * (H + 2) + row) * (W + 2) + column
    from_dy = dy + run * (pixels // (H * W) * ((H + 2) * (W + 2) * O)) + corner[:, None] * O
    from_w = w + run * (O * 9 * I) + i[None, :]
    acc = tl.zeros((BM, BI), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        window = k // (3 * O) * ((W + 2) * O) + k % (3 * O)
        turned = k % O * (9 * I) + (8 - k // O) * I
        a = tl.load(from_dy + window[None, :], mask=(k < K)[None, :], other=0.0)
        b = tl.load(from_w + turned[:, None], mask=(k < K)[:, None] & columns[None, :], other=0.0)
        acc = tl.dot(a, b.to(a.dtype), acc, input_precision=DOT)
    there = (m < pixels)[:, None] & columns[None, :]
    if ADD:
        acc += tl.load(added + run * (pixels * I) + m[:, None] * I + i[None, :], mask=there, other=0.0).to(tl.float32)
    haloed = corner + (W + 2) + 1
    _through_gate(
        acc, there, at, haloed, i, columns, run, tile, tl.num_programs(0), y, mean, rstd, gamma, beta, y2, mean2,
        rstd2, out, dx, sums, pixels, out_pixels, I, GATE,
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
        dx, sums, images * (H * W), out_pixels, I, GATE,
    )  # fmt: skip


def input_gradient(
    dy: Tensor, w: Tensor, added: Tensor | None, gate: Gate | None, numbers: Numbers
) -> tuple[Tensor, Tensor]:
    """dy [R, N, H+2, W+2, O] of a 3×3 convolution of stride 1 → the gradient of its input [R, N, H, W, I], plus `added`;
    behind `gate` if there is one, with its sums [R, T, 3, I] (see `through_gate`)."""
    runs, outputs, _, _, inputs = w.shape
    n, h, width = dy.shape[1], dy.shape[2] - 2, dy.shape[3] - 2
    pixels = n * h * width
    t = tiles_for(inputs, BACKWARD)
    count = triton.cdiv(pixels, t.rows)
    dx = room((runs, n, h, width, inputs), torch.float32 if gate is None else numbers.storage, dy.device)
    sums = room((runs, 0 if gate is None else count, 3, inputs), torch.float32, dy.device)
    _input_gradient[count, triton.cdiv(inputs, t.columns), runs](
        dy, w, dx if added is None else added, dx, *((dx,) * 9 if gate is None else _gate_operands(gate)), sums,
        pixels, 0 if gate is None else _out_pixels(gate),
        H=h, W=width, I=inputs, O=outputs, ADD=added is not None, GATE=0 if gate is None else _gate_kind(gate),
        DOT=numbers.dot, BM=t.rows, BI=t.columns, BK=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return dx, sums


def strided_gradient(
    dy: Tensor, w: Tensor, dy2: Tensor, w2: Tensor, h: int, width: int, gate: Gate, numbers: Numbers,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same for a block of stride 2 on an input of h × width: w [R, O, 3, 3, I], and w2 [R, O, 1, 1, I] of the shortcut."""
    runs, outputs, _, _, inputs = w.shape
    n = dy.shape[1]
    most = n * ((h + 1) // 2) * ((width + 1) // 2)
    t = tiles_for(inputs, BACKWARD)
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
    x, dy, dw, pixels, x_run, share, S, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, I: tl.constexpr,
    O: tl.constexpr, SIDE: tl.constexpr, STRIDE: tl.constexpr, DOT: tl.constexpr, BO: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = (H - 1) // STRIDE + 1
    WO: tl.constexpr = (W - 1) // STRIDE + 1
    K: tl.constexpr = SIDE * SIDE * C
    k = tl.program_id(0) * BN + tl.arange(0, BN)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    part = tl.program_id(2)
    run = part // S
    window = k // (SIDE * C) * ((W + 2) * C) + k % (SIDE * C)
    from_x = x + run * x_run + window[None, :]
    from_dy = dy + run * (pixels // (HO * WO) * ((HO + 2) * (WO + 2) * O)) + o[None, :]
    first = part % S * share
    last = tl.minimum(first + share, pixels)
    acc = tl.zeros((BO, BN), dtype=tl.float32)
    for start in range(first, last, BM):
        m = start + tl.arange(0, BM)
        at = tl.minimum(m, pixels - 1)
        row, column, image = at // WO % HO, at % WO, at // (HO * WO)
        corner = (image * (H + 2) + row * STRIDE + (3 - SIDE) // 2) * (W + 2) + column * STRIDE + (3 - SIDE) // 2
        place = (image * (HO + 2) + row + 1) * (WO + 2) + column + 1
        g = tl.load(from_dy + place[:, None] * O, mask=(m < last)[:, None] & (o < O)[None, :], other=0.0)
        a = tl.load(from_x + corner[:, None] * C, mask=(k < K)[None, :], other=0.0)
        acc = tl.dot(tl.trans(g), a, acc, input_precision=DOT)
    to = dw + (part * O + o)[:, None] * (SIDE * SIDE * I) + (k // C * I + k % C)[None, :]
    tl.store(to, acc, mask=(o < O)[:, None] & ((k < K) & (k % C < I))[None, :])


def weight_gradient(x: Tensor, dy: Tensor, side: int, inputs: int, stride: int, numbers: Numbers) -> Tensor:
    """x [R, N, H+2, W+2, C] and dy [R, N, Ho+2, Wo+2, O] → the gradient of the weights [R, O, k, k, I].

    The pixels are split into parts where the weights alone would not fill the device; the parts are added afterwards.
    """
    runs, n, ho, wo, outputs = dy.shape
    channels, pixels = x.shape[4], n * (ho - 2) * (wo - 2)
    t = tiles_for(outputs, WEIGHTS)
    if side * side * channels <= 64:  # the stem has no more weights
        t = t._replace(columns=64)
    blocks = triton.cdiv(side * side * channels, t.columns), triton.cdiv(outputs, t.rows)
    parts, share = split(pixels, runs * blocks[0] * blocks[1], t.depth)
    dw = room((runs, parts, outputs, side, side, inputs), torch.float32, x.device)
    _weight_gradient[blocks[0], blocks[1], runs * parts](
        x, dy, dw, pixels, 0 if len(x) == 1 else x[0].numel(), share, parts,
        H=x.shape[2] - 2, W=x.shape[3] - 2, C=channels, I=inputs, O=outputs, SIDE=side, STRIDE=stride, DOT=numbers.dot,
        BO=t.rows, BN=t.columns, BM=t.depth, num_warps=t.warps, num_stages=t.stages,
    )  # fmt: skip
    return dw[:, 0] if parts == 1 else dw.sum(1)
