from concurrent.futures import ThreadPoolExecutor

import torch

from mnemon.learning import backbones


def test_networks_made_by_many_threads_at_once_depend_on_their_seeds_alone():
    def made(seed):
        return torch.cat([p.detach().flatten() for p in backbones.build("mlp:width=50", (100,), seed).parameters()])

    alone = [made(seed) for seed in range(8)]
    before = torch.random.get_rng_state()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(made, list(range(8)) * 20))
    assert all(torch.equal(each, alone[i % 8]) for i, each in enumerate(found))
    assert torch.equal(torch.random.get_rng_state(), before)
