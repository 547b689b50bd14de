"""torch_peer.py: trains the model of recipes/bench-gpu.yaml in PyTorch, as fast as possible: compiled as a whole, with
grouped products, cuDNN's attention, fused AdamW on f32 main weights, bf16 weights and gradients. Prints a JSON line
with the median step time. The model here and the recipe must remain equal. (PyTorch 2.11 has
torch.nn.functional.grouped_mm; older versions have torch._grouped_mm.)"""

import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD = 12, 2048, 16, 4, 128
EXPERTS, TOP_K, WIDTH, VOCABULARY, CONTEXT = 32, 4, 1024, 32768, 4096
SEQUENCES, MICRO_BATCHES, STEPS, WARM_UP = 4, 2, 12, 3
AUX, Z = 0.01, 0.001
BF16, DEVICE = torch.bfloat16, "cuda"
grouped_mm = getattr(F, "grouped_mm", None) or torch._grouped_mm


def rotated(x, cosine, sine):
    left, right = x.float().chunk(2, -1)
    return torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1).to(x.dtype)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.rms_norm(x, (HIDDEN,), self.gain, 1e-5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD, bias=False)
        self.output = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, x, cosine, sine):
        batch, length, _ = x.shape
        parts = self.qkv(x).split([HEADS * HEAD, KV_HEADS * HEAD, KV_HEADS * HEAD], -1)
        q, k, v = (t.view(batch, length, -1, HEAD).transpose(1, 2) for t in parts)
        y = F.scaled_dot_product_attention(rotated(q, cosine, sine), rotated(k, cosine, sine), v, is_causal=True,
                                           enable_gqa=True)
        return self.output(y.transpose(1, 2).reshape(batch, length, HEADS * HEAD))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Parameter(torch.empty(EXPERTS, HIDDEN))
        self.gate_up = nn.Parameter(torch.empty(EXPERTS, HIDDEN, 2 * WIDTH))
        self.down = nn.Parameter(torch.empty(EXPERTS, WIDTH, HIDDEN))
        self.shared_gate_up = nn.Linear(HIDDEN, 2 * WIDTH, bias=False)
        self.shared_down = nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, HIDDEN)
        logits = (x @ self.router.t()).float()
        scores = logits.softmax(-1)
        weights, ids = scores.topk(TOP_K, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        slots = ids.reshape(-1)
        order = slots.argsort(stable=True)
        counts = torch.histc(slots.float(), EXPERTS, 0, EXPERTS - 1)
        offsets = counts.cumsum(0).to(torch.int32)
        gate, up = grouped_mm(x[order // TOP_K], self.gate_up, offs=offsets).chunk(2, -1)
        rows = grouped_mm(F.silu(gate) * up, self.down, offs=offsets)
        rows = rows * weights.reshape(-1)[order].unsqueeze(-1).to(x.dtype)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=x.device))
        y = rows[place].view(-1, TOP_K, HIDDEN).sum(1)
        gate, up = self.shared_gate_up(x).chunk(2, -1)
        y = y + self.shared_down(F.silu(gate) * up)
        balance = EXPERTS * ((counts / slots.numel()) * scores.mean(0)).sum()
        return y.view(shape), AUX * balance + Z * logits.logsumexp(-1).pow(2).mean()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = Norm(), Attention()
        self.experts_norm, self.experts = Norm(), Experts()

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        y, penalty = self.experts(self.experts_norm(x))
        return x + y, penalty


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, ids, targets, cosine, sine):
        x, penalties = self.embedding(ids), 0.0
        for block in self.blocks:
            x, penalty = block(x, cosine, sine)
            penalties = penalties + penalty
        logits = self.head(self.norm(x)).view(-1, VOCABULARY).float()
        return F.cross_entropy(logits, targets.reshape(-1)) + penalties / LAYERS


def step(model, weights, main, optimizer, tables):
    for w in weights:
        w.grad = None
    for _ in range(MICRO_BATCHES):
        tokens = torch.randint(0, VOCABULARY, (SEQUENCES, CONTEXT + 1), device=DEVICE)
        (model(tokens[:, :-1], tokens[:, 1:], *tables) / MICRO_BATCHES).backward()
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    for m, w in zip(main, weights):
        m.grad = w.grad.float()
        w.grad = None
    optimizer.step()
    for m in main:
        m.grad = None
    with torch.no_grad():
        torch._foreach_copy_(weights, main)


def main():
    torch.manual_seed(0)
    with torch.device(DEVICE):
        model = Model()
        angles = torch.outer(torch.arange(CONTEXT).float(), 10000 ** (-torch.arange(0, HEAD, 2).float() / HEAD))
    with torch.no_grad():
        for w in model.parameters():
            if w.dim() > 1:
                w.normal_(0, 0.02)
    model = model.to(BF16)
    weights = list(model.parameters())
    mains = [w.detach().float().clone() for w in weights]
    optimizer = torch.optim.AdamW(mains, lr=3e-4, betas=(0.9, 0.999), weight_decay=0.01, fused=True)
    compiled = torch.compile(model)
    seconds = []
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for _ in range(STEPS):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            step(compiled, weights, mains, optimizer, (angles.cos(), angles.sin()))
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    median = statistics.median(seconds[WARM_UP:])
    print(json.dumps({"torch": torch.__version__, "parameters": sum(w.numel() for w in weights), "seconds": median,
                      "tokens_per_second": SEQUENCES * MICRO_BATCHES * CONTEXT / median,
                      "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
                      "all_ms": [round(1e3 * s) for s in seconds]}))


if __name__ == "__main__":
    main()
