"""Experience replay and the paper's method, whole, in plain PyTorch: handwritten digits, two new classes at a time.

    python examples/plain_loop.py

The same, resumable, stacked on a GPU and for every method: mnemon run --method hybrid --stream split-digits. All but the random
numbers is as in `mnemon demo`, whose intervals say how much these matter.
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

MEMORY, BATCH, REPLAY, SEEDS = 200, 10, 10, 5


def multi_similarity(z, y, alpha=2.0, beta=50.0, lam=0.5, eps=0.1):
    """Pull pairs of one class together, push others apart, the hard ones only (Eq. 3 and 4); z [n, d] unit rows."""
    similarity, same = z @ z.T, y[:, None] == y  # [n, n]
    positive = same & ~torch.eye(len(y), dtype=torch.bool)
    hardest_negative = similarity.masked_fill(same, -torch.inf).amax(1, keepdim=True)
    hardest_positive = similarity.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    P, N = positive & (similarity < hardest_negative + eps), ~same & (similarity > hardest_positive - eps)
    pull = torch.log1p((torch.exp(-alpha * (similarity - lam)) * P).sum(1)) / alpha
    push = torch.log1p((torch.exp(beta * (similarity - lam)) * N).sum(1)) / beta
    return (pull + push).mean()


def batches(x, y):
    """Task after task, in random order; a batch has samples of one task, and an incomplete one at its end is left out."""
    for task in range(5):  # classes 0 and 1, then 2 and 3, …
        rows = torch.randperm(len(y))
        yield from ((x[b], y[b]) for b in rows[y[rows] // 2 == task].split(BATCH) if len(b) == BATCH)


def learn(x, y, hybrid, lr, gamma=0.1):
    """One pass over the stream. Returns the network, its softmax head, and the memory."""
    net = nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
    head, proxies = nn.Linear(400, 10), nn.Parameter(F.normalize(torch.randn(10, 400), dim=1))  # one of them is used
    optimizer = torch.optim.SGD([*net.parameters(), *([proxies] if hybrid else head.parameters())], lr=lr)
    memory_x, memory_y, count = torch.empty(0, 64), torch.empty(0, dtype=torch.long), 0
    seen = torch.zeros(10, dtype=torch.bool)
    for new_x, new_y in batches(x, y):
        seen[new_y] = True
        replayed = torch.randperm(len(memory_y))[:REPLAY]
        f, by = net(torch.cat([new_x, memory_x[replayed]])), torch.cat([new_y, memory_y[replayed]])
        if hybrid:  # L_MS + γ·L_PNCA (Eq. 8); the logits are −‖z − p_c‖² up to a constant (Eq. 7)
            z = F.normalize(f, dim=1)
            logits = 2 * z @ proxies.T - proxies.square().sum(1)
            loss = multi_similarity(z, by) + gamma * F.cross_entropy(logits.masked_fill(~seen, -torch.inf), by)
        else:  # cross-entropy over the classes seen so far (Eq. 1)
            loss = F.cross_entropy(head(f).masked_fill(~seen, -torch.inf), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if hybrid:
            proxies.data = F.normalize(proxies.data, dim=1)
        for sample, label in zip(new_x, new_y, strict=True):  # reservoir: every sample so far is kept with equal chance
            count += 1
            if len(memory_y) < MEMORY:
                memory_x, memory_y = torch.cat([memory_x, sample[None]]), torch.cat([memory_y, label[None]])
            elif (place := int(torch.randint(count, ()))) < MEMORY:
                memory_x[place], memory_y[place] = sample, label
    return net, head, memory_x, memory_y


def by_class_means(net, x, memory_x, memory_y):
    """Eq. 2: the class whose mean, over the memory's normalised features, is nearest."""
    z, kept = F.normalize(net(x), dim=1), F.normalize(net(memory_x), dim=1)
    means = torch.stack([kept[memory_y == c].mean(0) for c in range(10)])
    return torch.cdist(z, means).argmin(1)


def main():
    images, labels = map(torch.tensor, load_digits(return_X_y=True))  # [n, 64] from 0 to 16
    images = images.float() / 16
    found = {"ER + softmax": [], "ER + nearest class mean": [], "hybrid + nearest class mean": []}
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        x, x_test, y, y_test = train_test_split(images, labels, test_size=0.3, random_state=seed, stratify=labels)
        for name, hybrid, lr in (("ER", False, 0.2), ("hybrid", True, 0.45)):
            net, head, memory_x, memory_y = learn(x, y, hybrid, lr)
            with torch.no_grad():
                read = {"nearest class mean": by_class_means(net, x_test, memory_x, memory_y)}
                read |= {} if hybrid else {"softmax": head(net(x_test)).argmax(1)}
            for way, predicted in read.items():
                found[f"{name} + {way}"].append((predicted == y_test).float().mean().item())
    for name, right in found.items():
        print(f"{name}: {100 * sum(right) / SEEDS:.1f} %, mean of {SEEDS} seeds ({min(right):.0%} to {max(right):.0%})")
    return sum(right) / SEEDS


if __name__ == "__main__":
    main()
