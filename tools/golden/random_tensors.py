"""Random tensors that do not depend on the version of PyTorch, because Python's own generator fills them."""
import random

import torch


class RandomTensors:
    def __init__(self, seed):
        self.generator = random.Random(seed)

    def normal(self, *shape, std, mean=0.0):
        count = torch.Size(shape).numel()
        values = [self.generator.gauss(mean, std) for _ in range(count)]
        return torch.tensor(values, dtype=torch.float64).view(shape)

    def integers(self, *shape, below):
        count = torch.Size(shape).numel()
        values = [self.generator.randrange(below) for _ in range(count)]
        return torch.tensor(values, dtype=torch.int32).view(shape)
