"""gpt.py -- a small GPT that trains on text which every Python has (its own help pages), with fatune's attention and with PyTorch's
from the same seed: losses and tokens per second beside each other.

    python3 examples/gpt.py                                # 300 steps, context 2048, bf16
    python3 examples/gpt.py --context 16384 --dtype float16 --dropout 0.1
    python3 examples/gpt.py --json curves.json             # the losses of every step
    python3 examples/gpt.py --eager                        # without CUDA graphs: Python is as busy as the GPU

A step, from the first embedding to the optimizer, is captured once as a CUDA graph; dropout draws anew in each replay.

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


class Training:
    """A model in training: steps of one attention, queued by Python or replayed as a CUDA graph."""

    def __init__(self, attention, given, data, device):
        torch.manual_seed(given.seed)
        self.given, self.data, self.device = given, data.to(device), device
        self.model = GPT(given.context, functools.partial(attention, dropout=given.dropout)).to(device)
        self.rate = torch.zeros((), device=device)  # of learning: a tensor, which a graph reads anew
        fast = {"fused": True, "capturable": True} if device == "cuda" else {}
        self.best = torch.optim.AdamW(self.model.parameters(), lr=self.rate, betas=(0.9, 0.95), **fast)
        self.scaler = torch.amp.GradScaler(device, enabled=given.dtype == "float16")
        batch = max(1, given.tokens // given.context)
        lot = torch.Generator().manual_seed(given.seed)
        self.starts = torch.randint(len(data) - given.context - 1, (given.steps, batch, 1), generator=lot).to(device)
        self.span = torch.arange(given.context + 1, device=device)
        self.rows = torch.zeros(batch, given.context + 1, dtype=torch.long, device=device)
        self.losses, self.graph, self.loss = [], None, None

    def compute(self):
        """Forward, backward and update by self.rows."""
        with torch.autocast(self.device, dtype=getattr(torch, self.given.dtype)):
            self.loss = self.model(self.rows[:, :-1], self.rows[:, 1:])
        self.scaler.scale(self.loss).backward()
        self.scaler.unscale_(self.best)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.best)
        self.scaler.update()

    def capture(self):
        """From now on a step is one launch: gradients lie where the graph has put them."""
        self.best.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.compute()

    def step(self):
        at = len(self.losses)
        self.rows.copy_(self.data[self.starts[at] + self.span])
        self.rate.fill_(6e-4 * min(1, (at + 1) / 20))
        if self.graph:
            self.graph.replay()
        else:
            self.best.zero_grad(set_to_none=True)
            self.compute()
        self.losses.append(self.loss.detach().clone())

    def round(self, steps):
        """Seconds of so many steps more."""
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        torch.cuda.synchronize()
        return time.perf_counter() - began


def train_both(given, data, steps_of_round=20):
    """{name: losses and tokens per second}: rounds of the two take turns, since a GPU's clocks drift; the first round, which compiles and
    warms up, does not count."""
    trainings = {"fatune": Training(fatune_attention, given, data, "cuda"), "pytorch": Training(pytorch_attention, given, data, "cuda")}
    side, seconds, warm = torch.cuda.Stream(), dict.fromkeys(trainings, 0.0), min(steps_of_round, given.steps // 2)
    for training in trainings.values():
        with torch.cuda.stream(side):  # what is captured must have run before, on another stream than the default one
            training.round(warm)
        if not given.eager:
            training.capture()
    while any(len(training.losses) < given.steps for training in trainings.values()):
        for name, training in trainings.items():
            seconds[name] += training.round(min(steps_of_round, given.steps - len(training.losses)))
    tokens = (given.steps - warm) * trainings["fatune"].rows[:, 1:].numel()
    found = {}
    for name, training in trainings.items():
        losses = [one.item() for one in training.losses]
        last = losses[-20:]
        found[name] = {"losses": losses, "last": sum(last) / len(last), "tokens_per_second": tokens / seconds[name]}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of a step")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16"))
    parser.add_argument("--dropout", type=float, default=0.0, help="of attention's weights")
    parser.add_argument("--eager", action="store_true", help="Python queues every kernel of a step, instead of a CUDA graph of the whole")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpt.py: PyTorch sees no GPU")
    found = train_both(given, text())
    for name, one in found.items():
        print(f"{name:8} first loss {one['losses'][0]:.4f}, last {one['last']:.4f} (mean of 20), {one['tokens_per_second']:,.0f} tokens/s")
    apart = abs(found["fatune"]["last"] / found["pytorch"]["last"] - 1)
    print(f"context {given.context}, {given.dtype}, {'eager' if given.eager else 'graphs'}: losses {100 * apart:.2f} % apart, "
          f"{found['fatune']['tokens_per_second'] / found['pytorch']['tokens_per_second']:.3f} times PyTorch's tokens per second")
    if given.json:
        with open(given.json, "w", encoding="ascii") as f:
            json.dump({"context": given.context, "dtype": given.dtype, "seed": given.seed, **found}, f)
    return 1 if apart > 0.005 else 0


if __name__ == "__main__":
    sys.exit(main())
