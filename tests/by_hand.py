"""What methods are checked against: a small stream, a small network with BatchNorm, and a copy of it trained by hand."""

import copy

import numpy as np
import torch
from torch import nn

from mnemon.learning.build import choose
from mnemon.learning.learner import Inputs
from mnemon.learning.learners import make_learner
from mnemon.learning.memory import replay_rows, reservoir_slots
from mnemon.learning.methods import methods

SHAPE = (2, 5, 5)
X = torch.randint(0, 256, (500, *SHAPE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
Y = torch.arange(500) // 40
Y[:30] = torch.arange(30) % 2  # two classes at first, then one after the other


def body():
    """A convolution with BatchNorm, so that a pass that should leave the running statistics alone can be caught."""
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6), nn.ReLU())


def make(method, loss=None, **options):
    lr = {"lr": 0.01 if method == "cope" else 0.1} if methods()[method].trains else {}
    choice = choose(method, loss, given=lr | options)
    return make_learner(choice.method, choice.objective, Inputs(SHAPE), backbone=body, dtype=torch.float64, seed=3)


def learn(learner, steps, start=0):
    rows = np.arange(start * 10, (start + steps) * 10).reshape(steps, 10)
    learner.learn(X, Y, rows)


def normalised(index):
    return (X[index].double() - 127.5) / 127.5


def planned(learner, classes):
    """The draws of the next step."""
    (block,) = learner.blocks(classes.numpy())
    return {key: torch.from_numpy(values)[0] for key, values in block.plan.items()}


class Reference:
    """A plain copy of a learner's network, trained by hand."""

    def __init__(self, learner):
        self.net, self.lr, self.seen = copy.deepcopy(learner.net).train(), learner.method.lr, set()
        self.size = learner.method.memory_size

    def losses(self, x, y, net=None):
        """Cross-entropy of each sample over the classes seen; a batch's own BatchNorm statistics."""
        logits = (net or self.net)(x).logits
        out = []
        for row, label in zip(logits, y.tolist(), strict=True):
            classes = sorted(self.seen)
            e = torch.stack([row[c] for c in classes])
            out.append(torch.logsumexp(e, 0) - row[label])
        return torch.stack(out)

    def virtual(self, x, y):
        """A copy of the network after one step on B_n."""
        other = copy.deepcopy(self.net)
        self.losses(x, y, other).mean().backward()
        with torch.no_grad():
            for p in other.parameters():
                p -= self.lr * p.grad
        return other

    def gradient(self, x, y, loss=None):
        value = self.losses(x, y).mean() if loss is None else loss
        return torch.autograd.grad(value, list(self.net.parameters()))

    def sgd(self, gradient):
        with torch.no_grad():
            for p, g in zip(self.net.parameters(), gradient, strict=True):
                p -= self.lr * g

    def equals(self, learner):
        mine, its = self.net.state_dict(), learner.net.state_dict()
        return all(torch.allclose(mine[k].double(), its[k].double(), rtol=1e-10, atol=1e-10) for k in its)


def entry(sample):
    return {"x": normalised([sample])[0], "y": int(Y[sample]), "k": 0, "sample": sample}


def reservoir(ref, memory, step, new):
    """Memory slots as the textbook has them."""
    for sample, slot in zip(new, reservoir_slots(3, step * 10, 1, 10, ref.size)[0].tolist(), strict=True):
        if slot < ref.size:
            memory[slot] = entry(sample)


def walk(learner, steps, one_step, write=reservoir):
    """Drive the reference by hand: `one_step(ref, memory, step, new)` retrieves, learns and may edit `memory`, `write`
    fills it."""
    ref, memory = Reference(learner), {}
    for step in range(steps):
        new = list(range(step * 10, step * 10 + 10))
        ref.seen |= set(Y[new].tolist())
        one_step(ref, memory, step, new)
        write(ref, memory, step, new)
    return ref, memory


def same_memory(memory, learner):
    """The same samples in the same rows, and no others."""
    size, held = learner.memory.size, learner.memory.y[: learner.memory.size]
    assert held.tolist() == [memory[r]["y"] if r in memory else -1 for r in range(size)]
    rows = sorted(memory)
    assert torch.equal(learner.memory.x[rows], X[[memory[r]["sample"] for r in rows]])


def drawn(learner, step, purpose, count):
    filled = min(step * 10, learner.method.memory_size)
    return replay_rows(3, step, np.array([filled]), count, purpose)[0].tolist()


def stack(memory, rows):
    return torch.stack([memory[r]["x"] for r in rows]), torch.tensor([memory[r]["y"] for r in rows])


def joint(ref, new, x_r, y_r):
    x = normalised(new) if x_r is None else torch.cat([normalised(new), x_r])
    y = Y[new] if x_r is None else torch.cat([Y[new], y_r])
    ref.sgd(ref.gradient(x, y))


def flat(gradient):
    return torch.cat([g.flatten() for g in gradient])
