"""gpt.py -- a small GPT that trains on text which every Python has (its own help pages), with fatune's attention and with PyTorch's
from the same seed: losses and tokens per second beside each other.

    python3 examples/gpt.py                                # 300 steps, context 2048, bf16
    python3 examples/gpt.py --context 16384 --dtype float16 --dropout 0.1
    python3 examples/gpt.py --json curves.json             # the losses of every step

Needs PyTorch, a GPU and fatune (`pip install .` in the checkout). Exit 1 where the final losses differ by more than 0.5 %."""

import argparse
import functools
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from pydoc_data import topics

import fatune

TOKENS = 16384  # of a step


def fatune_attention(q, k, v, dropout):
    return fatune.attention(q, k, v, causal=True, dropout=dropout)


def pytorch_attention(q, k, v, dropout):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)


class Block(nn.Module):
    def __init__(self, width, heads, attention):
        super().__init__()
        self.heads, self.attention = heads, attention
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, n, width = x.shape
        qkv = self.qkv(self.before(x)).view(b, n, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # views: no copy is made for attention
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).reshape(b, n, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class GPT(nn.Module):
    def __init__(self, context, attention, width=512, heads=8, layers=6):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, attention) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def text():
    """Bytes of the language reference that comes with Python."""
    return torch.tensor(list("\n".join(topics.topics[name] for name in sorted(topics.topics)).encode()), dtype=torch.long)


def train(attention, given, data, device):
    """(loss of each step, tokens per second of the later ones)"""
    torch.manual_seed(given.seed)
    model = GPT(given.context, functools.partial(attention, dropout=given.dropout)).to(device)
    best = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), fused=device == "cuda")
    scaler = torch.amp.GradScaler(device, enabled=given.dtype == "float16")
    lot = torch.Generator().manual_seed(given.seed)
    batch, losses, began = max(1, given.tokens // given.context), [], 0.0
    warm = min(20, given.steps // 2)
    for step in range(given.steps):
        at = torch.randint(len(data) - given.context - 1, (batch,), generator=lot)
        rows = torch.stack([data[i:i + given.context + 1] for i in at]).to(device)
        for group in best.param_groups:
            group["lr"] = 6e-4 * min(1, (step + 1) / 20)
        with torch.autocast(device, dtype=getattr(torch, given.dtype)):
            loss = model(rows[:, :-1], rows[:, 1:])
        scaler.scale(loss).backward()
        scaler.unscale_(best)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(best)
        scaler.update()
        best.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        if step + 1 == warm:
            loss.item()  # waits: what was compiled and warmed up does not count
            began = time.perf_counter()
    losses = [one.item() for one in losses]
    return losses, (given.steps - warm) * batch * given.context / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a step")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--dropout", type=float, default=0.0, help="of attention's weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpt.py: PyTorch sees no GPU")
    data, found = text(), {}
    for name, attention in (("fatune", fatune_attention), ("pytorch", pytorch_attention)):
        losses, rate = train(attention, given, data, "cuda")
        last = sum(losses[-20:]) / len(losses[-20:])
        found[name] = {"losses": losses, "last": last, "tokens_per_second": rate}
        print(f"{name:8} first loss {losses[0]:.4f}, last {last:.4f} (mean of 20), {rate:,.0f} tokens/s", flush=True)
    apart = abs(found["fatune"]["last"] / found["pytorch"]["last"] - 1)
    print(f"context {given.context}, {given.dtype}: losses {100 * apart:.2f} % apart, "
          f"{found['fatune']['tokens_per_second'] / found['pytorch']['tokens_per_second']:.3f} times PyTorch's tokens per second")
    if given.json:
        with open(given.json, "w", encoding="ascii") as f:
            json.dump({"context": given.context, "dtype": given.dtype, "seed": given.seed, **found}, f)
    return 1 if apart > 0.005 else 0


if __name__ == "__main__":
    sys.exit(main())
