#!/usr/bin/env python3
"""Trains the model of recipes/bench-cpu.yaml in plain PyTorch, as fast as possible, for comparison.

One step runs forward and backward on ACCUMULATE micro-batches of BATCH x CONTEXT random tokens, clips by global norm,
and updates by AdamW. Prints one JSON line. The model uses these optimizations:
- One parameter per expert. With a stacked weight, backward would fill a whole gradient with zeros for each expert.
- Fused q/k/v and gate/up products.
- Only gathers (no index_add) to move tokens to experts and back, in forward and backward.
- bf16 weights next to fp32 main weights, which are cast to bf16 once per step, not once per use as in autocast.
- scaled_dot_product_attention and the fused AdamW if this PyTorch has them; otherwise, AdamW in cache-sized pieces.

Run:  /usr/bin/python3 tools/bench/torch_peer.py --dtype f32 --threads 1 --steps 6
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time


def parse_arguments():
    parser = argparse.ArgumentParser(description="PyTorch training speed on the model of recipes/bench-cpu.yaml")
    sizes = dict(hidden=512, layers=4, heads=8, kv_heads=4, experts=8, top_k=2, expert_hidden=1024, vocab=8192)
    batch = dict(context=256, batch=4, accumulate=4, threads=1, steps=6, warmup=2)
    for name, value in (sizes | batch).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--attention", choices=["auto", "math", "sdpa"], default="auto")
    parser.add_argument("--compile", action="store_true", help="use torch.compile (PyTorch 2 and later)")
    arguments = parser.parse_args()
    if arguments.steps <= arguments.warmup:
        parser.error(f"--steps ({arguments.steps}) must be greater than --warmup ({arguments.warmup})")
    return arguments


def prepare_threads(threads):
    """Sets thread counts. Must be called before PyTorch is loaded, because its BLAS reads the environment only once."""
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(threads)
    # OpenBLAS 0.3.21 (Debian 12) treats newer processors as a Prescott, and is then 5 times slower.
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists() and " avx512bw " in cpuinfo.read_text():
        os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")


ARGUMENTS = parse_arguments()
prepare_threads(ARGUMENTS.threads)
try:
    import torch
except ImportError:
    sys.exit(f"PyTorch is missing for {sys.executable}; Debian: tools/install-dependencies.sh --bench")
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")
if ARGUMENTS.attention == "sdpa" and not HAS_SDPA:
    sys.exit(f"--attention sdpa needs PyTorch 2.0 or later; this is {torch.__version__}")
if ARGUMENTS.compile and not hasattr(torch, "compile"):
    sys.exit(f"--compile needs PyTorch 2.0 or later; this is {torch.__version__}")


class Gather(torch.autograd.Function):
    """Gathers rows of x [T, D] in expert order, [T * k, D]. Backward gathers each token's k rows and sums them."""

    @staticmethod
    def forward(ctx, x, order, inverse, top_k):
        ctx.save_for_backward(inverse)
        ctx.top_k = top_k
        return x.index_select(0, order.div(top_k, rounding_mode="floor"))

    @staticmethod
    def backward(ctx, dy):
        (inverse,) = ctx.saved_tensors
        return dy.index_select(0, inverse).view(-1, ctx.top_k, dy.shape[-1]).sum(1), None, None, None


class Permute(torch.autograd.Function):
    """Computes x.index_select(0, inverse). Backward is the gather by the inverse of `inverse`."""

    @staticmethod
    def forward(ctx, x, order, inverse):
        ctx.save_for_backward(order)
        return x.index_select(0, inverse)

    @staticmethod
    def backward(ctx, dy):
        return dy.index_select(0, ctx.saved_tensors[0]), None, None


class RMSNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.size = a.heads, a.kv_heads, a.hidden // a.heads
        self.sdpa = HAS_SDPA if a.attention == "auto" else a.attention == "sdpa"
        self.qkv = nn.Linear(a.hidden, (a.heads + 2 * a.kv_heads) * self.size, bias=False)
        self.output = nn.Linear(a.heads * self.size, a.hidden, bias=False)

    def forward(self, x, rotary, mask):
        batch, length, hidden = x.shape
        qkv = self.qkv(x).view(batch, length, -1, self.size)
        qk, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], 2)
        cos, sin = rotary
        first, second = qk.chunk(2, -1)
        qk = torch.cat([first * cos - second * sin, second * cos + first * sin], -1).transpose(1, 2)
        q, k = qk.split([self.heads, self.kv_heads], 1)
        v = v.transpose(1, 2)
        repeat = self.heads // self.kv_heads
        if self.sdpa:
            k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            # Stacks the query heads of each kv head, so that k and v are not copied.
            q = q.reshape(batch * self.kv_heads, repeat * length, self.size)
            k, v = (t.reshape(batch * self.kv_heads, length, self.size) for t in (k, v))
            scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=self.size**-0.5)
            mixed = (scores.softmax(-1) @ v).view(batch, self.heads, length, self.size)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, hidden))


class MoE(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.experts, self.top_k = a.experts, a.top_k
        self.router = nn.Linear(a.hidden, a.experts, bias=False)
        self.gate_up = nn.ModuleList(nn.Linear(a.hidden, 2 * a.expert_hidden, bias=False) for _ in range(a.experts))
        self.down = nn.ModuleList(nn.Linear(a.expert_hidden, a.hidden, bias=False) for _ in range(a.experts))

    def forward(self, x):
        batch, length, hidden = x.shape
        x = x.view(-1, hidden)
        probabilities = F.linear(x.float(), self.router.weight.float()).softmax(-1)
        weight, chosen = probabilities.topk(self.top_k, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        flat = chosen.flatten()
        order = flat.argsort(stable=True)
        inverse = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=x.device))
        counts = torch.bincount(flat, minlength=self.experts)

        parts = Gather.apply(x, order, inverse, self.top_k).split(counts.tolist())
        outputs = []
        for part, gate_up, down in zip(parts, self.gate_up, self.down):
            gate, up = gate_up(part).chunk(2, -1)
            outputs.append(down(F.silu(gate) * up))
        rows = Permute.apply(torch.cat(outputs), order, inverse).view(-1, self.top_k, hidden)
        y = (rows * weight.unsqueeze(-1).to(x.dtype)).sum(1)
        aux_loss = self.experts * (counts / flat.numel() * probabilities.mean(0)).sum()
        return y.view(batch, length, hidden), aux_loss


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(a.hidden), Attention(a)
        self.mlp_norm, self.moe = RMSNorm(a.hidden), MoE(a)

    def forward(self, x, rotary, mask):
        x = x + self.attention(self.attention_norm(x), rotary, mask)
        y, aux_loss = self.moe(self.mlp_norm(x))
        return x + y, aux_loss


class Model(nn.Module):
    def __init__(self, a, dtype):
        super().__init__()
        self.embedding = nn.Embedding(a.vocab, a.hidden)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = RMSNorm(a.hidden)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        size = a.hidden // a.heads
        angle = torch.outer(torch.arange(a.context).float(), 10000 ** (-torch.arange(0, size, 2) / size)).unsqueeze(1)
        self.rotary = angle.cos().to(dtype), angle.sin().to(dtype)
        future = torch.full((a.context, a.context), -torch.inf, dtype=dtype).triu(1)
        self.mask = future.repeat(a.heads // a.kv_heads, 1)
        self.to(dtype)

    def forward(self, ids, targets):
        x, aux_loss = self.embedding(ids), 0.0
        for block in self.blocks:
            x, layer_loss = block(x, self.rotary, self.mask)
            aux_loss = aux_loss + layer_loss
        logits = self.head(self.norm(x)).flatten(0, 1).float()
        return F.cross_entropy(logits, targets.flatten()) + 0.01 * aux_loss / len(self.blocks)


class PiecewiseAdamW:
    """AdamW over pieces that fit into the cache, because eager operations would read all memory a dozen times."""

    PIECE = 1 << 16

    def __init__(self, weights, lr):
        self.lr, self.steps = lr, 0
        self.state = [(w, torch.zeros_like(w), torch.zeros_like(w)) for w in weights]

    def step(self, gradients, scale, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01):
        self.steps += 1
        rate = self.lr / (1 - beta1**self.steps)
        correction = (1 - beta2**self.steps) ** -0.5
        for (weight, first, second), gradient in zip(self.state, gradients):
            flat = (t.view(-1).split(self.PIECE) for t in (weight, first, second, gradient))
            for w, m, v, g in zip(*flat):
                g = g * scale
                m.lerp_(g, 1 - beta1)
                v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
                w.mul_(1 - self.lr * decay).addcdiv_(m, v.sqrt().mul_(correction).add_(eps), value=-rate)


class FusedAdamW:
    """PyTorch's own single-pass update, available on the CPU since 2.4."""

    def __init__(self, weights, lr):
        self.weights = weights
        self.optimizer = torch.optim.AdamW(weights, lr=lr, fused=True)

    def step(self, gradients, scale):
        torch._foreach_mul_(gradients, scale)
        for weight, gradient in zip(self.weights, gradients):
            weight.grad = gradient
        self.optimizer.step()


class Trainer:
    """Trainer of the model. The model's weights have the chosen dtype; main weights and moments are fp32."""

    def __init__(self, arguments):
        self.dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[arguments.dtype]
        self.arguments = arguments
        self.model = Model(arguments, self.dtype)
        self.parameters = list(self.model.parameters())
        self.run = torch.compile(self.model) if arguments.compile else self.model
        with torch.no_grad():
            wide = self.dtype == torch.float32
            self.main = [p.detach() if wide else p.detach().float() for p in self.parameters]
        version = tuple(int(part) for part in torch.__version__.split(".")[:2])
        self.optimizer = (FusedAdamW if version >= (2, 4) else PiecewiseAdamW)(self.main, lr=3e-4)

    def step(self, batches):
        for p in self.parameters:
            p.grad = None
        loss = 0.0
        for tokens in batches:
            part = self.run(tokens[:, :-1], tokens[:, 1:]) / len(batches)
            part.backward()
            loss += part.item()
        with torch.no_grad():
            gradients = [p.grad if p.dtype == torch.float32 else p.grad.float() for p in self.parameters]
            norm = torch.stack([g.norm() for g in gradients]).norm().item()
            self.optimizer.step(gradients, scale=min(1.0, 1.0 / (norm + 1e-6)))
            if self.dtype != torch.float32:
                for p, main in zip(self.parameters, self.main):
                    p.copy_(main)
        return loss


def model_flops(a):
    """Returns the FLOPs of one step: 6 per token and active weight (without the embedding), plus half of the full
    square of attention scores, because attention is causal."""
    size = a.hidden // a.heads
    attention = a.hidden * (2 * a.heads + 2 * a.kv_heads) * size
    layer = attention + a.hidden * a.experts + a.top_k * 3 * a.hidden * a.expert_hidden
    active = a.layers * layer + a.hidden * a.vocab
    tokens = a.batch * a.context * a.accumulate
    return tokens * (6 * active + 6 * a.layers * a.context * a.hidden)


def main():
    a = ARGUMENTS
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    trainer = Trainer(a)
    seconds, loss = [], 0.0
    for _ in range(a.steps):
        batches = [torch.randint(0, a.vocab, (a.batch, a.context + 1)) for _ in range(a.accumulate)]
        start = time.perf_counter()
        loss = trainer.step(batches)
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[a.warmup :])
    result = {
        "tokens_per_second": a.batch * a.context * a.accumulate / median,
        "gflops": model_flops(a) / median / 1e9,
        "step_ms": median * 1e3,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "torch": torch.__version__,
        "dtype": a.dtype,
        "threads": a.threads,
        "parameters": sum(p.numel() for p in trainer.parameters),
        "loss": loss,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
