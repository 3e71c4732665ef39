"""`mnemon.losses`: the paper's losses, for use in any training loop."""

from mnemon.learning.losses import multi_similarity, proxy_nca

__all__ = ["multi_similarity", "proxy_nca"]
