"""Experience replay and the paper's method, complete, in plain PyTorch: handwritten digits, two new classes at a time.

    python examples/plain_loop.py

mnemon does the same for every method, resumably and stacked on a GPU:

    mnemon run --method hybrid --stream split-digits
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

MEMORY, BATCH, REPLAY = 200, 10, 10


def multi_similarity(z, y, alpha=2.0, beta=50.0, lam=0.5, eps=0.1):
    """Pull pairs of one class together and push others apart, hard pairs only (Eq. 3 and 4); z: [n, d], unit rows."""
    similarity, same = z @ z.T, y[:, None] == y  # [n, n]
    positive = same & ~torch.eye(len(y), dtype=torch.bool)
    hardest_negative = similarity.masked_fill(same, -torch.inf).amax(1, keepdim=True)
    hardest_positive = similarity.masked_fill(~positive, torch.inf).amin(1, keepdim=True)
    P, N = positive & (similarity < hardest_negative + eps), ~same & (similarity > hardest_positive - eps)
    pull = torch.log1p((torch.exp(-alpha * (similarity - lam)) * P).sum(1)) / alpha
    push = torch.log1p((torch.exp(beta * (similarity - lam)) * N).sum(1)) / beta
    return (pull + push).mean()


def learn(x, y, hybrid, lr, gamma=0.1, seed=0):
    """Learn in one pass over the stream. Returns the network, its head or proxies [classes, d], and the memory."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(64, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU())
    rows = nn.Parameter(F.normalize(torch.randn(10, 400), dim=1) if hybrid else torch.randn(10, 400) / 20)
    optimizer = torch.optim.SGD([*net.parameters(), rows], lr=lr)
    memory_x, memory_y, count = torch.empty(0, 64), torch.empty(0, dtype=torch.long), 0
    seen = torch.zeros(10, dtype=torch.bool)
    for new_x, new_y in zip(x.split(BATCH), y.split(BATCH), strict=True):
        seen[new_y] = True
        replayed = torch.randperm(len(memory_y))[:REPLAY]
        bx, by = torch.cat([new_x, memory_x[replayed]]), torch.cat([new_y, memory_y[replayed]])
        f = net(bx)
        if hybrid:  # L_MS + γ·L_PNCA (Eq. 8); the logits are −‖z − p_c‖² up to a constant (Eq. 7)
            z = F.normalize(f, dim=1)
            logits = 2 * z @ rows.T - rows.square().sum(1)
            loss = multi_similarity(z, by) + gamma * F.cross_entropy(logits.masked_fill(~seen, -torch.inf), by)
        else:  # cross-entropy over the classes seen so far (Eq. 1)
            loss = F.cross_entropy((f @ rows.T).masked_fill(~seen, -torch.inf), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if hybrid:
            rows.data = F.normalize(rows.data, dim=1)
        for sample, label in zip(new_x, new_y, strict=True):  # reservoir: each sample so far is kept with equal chance
            count += 1
            if len(memory_y) < MEMORY:
                memory_x, memory_y = torch.cat([memory_x, sample[None]]), torch.cat([memory_y, label[None]])
            elif (place := int(torch.randint(count, ()))) < MEMORY:
                memory_x[place], memory_y[place] = sample, label
    return net, rows, memory_x, memory_y


def by_class_means(net, x, memory_x, memory_y):
    """Predict the class whose mean, over the memory's normalised features, is nearest (Eq. 2)."""
    z, kept = F.normalize(net(x), dim=1), F.normalize(net(memory_x), dim=1)
    means = torch.stack([kept[memory_y == c].mean(0) for c in range(10)])
    return torch.cdist(z, means).argmin(1)


def main():
    x, y = load_digits(return_X_y=True)
    x = torch.tensor(x / 8 - 1, dtype=torch.float32)
    x, x_test, y, y_test = train_test_split(x, torch.tensor(y), test_size=0.25, random_state=0, stratify=y)
    order = torch.argsort(y // 2, stable=True)  # classes 0 and 1 first, then 2 and 3, …
    for name, hybrid, lr in (("ER", False, 0.1), ("hybrid", True, 0.45)):
        net, head, memory_x, memory_y = learn(x[order], y[order], hybrid, lr)
        with torch.no_grad():
            if not hybrid:
                right = ((net(x_test) @ head.T).argmax(1) == y_test).float().mean().item()
                print(f"{name} + softmax: {100 * right:.1f} %")
            right = (by_class_means(net, x_test, memory_x, memory_y) == y_test).float().mean().item()
            print(f"{name} + nearest class mean: {100 * right:.1f} %")
    return right


if __name__ == "__main__":
    main()
