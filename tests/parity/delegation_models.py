"""The models of `make_delegation.py`: ops that delegates take whole, split, fuse, or leave."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):  # type: ignore[misc]
    """matmul is expand_copy, view_copy and bmm, which share a debug handle."""

    def __init__(self, size: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.all, self.out = heads, nn.Linear(size, 3 * size), nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, size = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, size // self.heads).transpose(1, 2)
            for part in self.all(x).split(size, dim=2)
        )
        mixed = self.mix(q, k, v)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, length, size))

    def mix(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5, dim=-1), v)


class CausalAttention(Attention):
    """Its mask has minus infinity as an argument."""

    def mix(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


class Convolutions(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.groups = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GroupNorm(2, 8)
        self.classify = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = self.groups(functional.hardswish(self.depthwise(x)))
        x = functional.max_pool2d(x, 2, 2)
        x = x + torch.sin(x)
        return self.classify(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Lstm(nn.Module):  # type: ignore[misc]
    """All nodes of the LSTM share one handle."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0][:, -1])


class Mlp(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(16, 32), nn.Linear(32, 16), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.norm(self.down(torch.relu(self.up(x)))))


class Decomposed(nn.Module):  # type: ignore[misc]
    """Ops that become several nodes of one handle."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.rows, self.out = nn.Parameter(torch.randn(8, 8)), nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.einsum("bij,jk->bik", x, self.weight) + self.rows(i).unsqueeze(1)
        y = functional.normalize(torch.stack([y, y * 2], 1).sum(1), dim=-1)
        y = torch.matmul(y, y.transpose(1, 2))
        y = functional.silu(y) + functional.softplus(y) + functional.mish(y)
        y = torch.roll(y, 1, -1)
        z = torch.var(y, -1) + torch.max(y, -1)[0] + torch.std(y, -1)
        return functional.log_softmax(self.out(z), -1), functional.interpolate(y[:, None], scale_factor=2.0)


class Views(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.tanh(self.out(x.view(4, 2, 16)).view(8, 8))
        return y.reshape(4, 16).unsqueeze(0), torch.sin(y.flatten())


class Weights(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.randn(16, 8)), nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight.t() * torch.exp(self.scale).unsqueeze(1)
        return torch.relu(functional.linear(x.clone(), weight)).expand(2, -1, -1) + 0


class Activations(nn.Linear):  # type: ignore[misc]
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(functional.hardtanh(torch.topk(torch.relu(super().forward(x)), 16)[0]))
        y = torch.tanh(torch.relu(y) + y)
        return functional.leaky_relu(y) * torch.sqrt(torch.abs(y))


class Decoder(nn.Module):  # type: ignore[misc]
    def __init__(self, mlp: Mlp) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.matmul(torch.tanh(self.mlp.up(x)), self.mlp.down.weight.t()), -1)


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A block of mobile nets: convolutions of 1x1, of each channel, of 1x1; channels scaled in between, if `squeezed`."""

    def __init__(self, size: int, wide: int, activation: type[nn.Module], *, squeezed: bool) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(size, wide, 1, bias=False), nn.BatchNorm2d(wide), activation())
        self.depthwise = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), activation()
        )
        layers = [nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 8, 1), nn.ReLU(), nn.Conv2d(8, wide, 1), nn.Hardsigmoid()]
        self.scale = nn.Sequential(*layers) if squeezed else None
        self.project = nn.Sequential(nn.Conv2d(wide, size, 1, bias=False), nn.BatchNorm2d(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.depthwise(self.expand(x))
        return x + self.project(y if self.scale is None else y * self.scale(y))


class Mobile(nn.Module):  # type: ignore[misc]
    """As MobileNetV2, or as V3 with `nn.Hardswish` and squeezed blocks, in small."""

    def __init__(self, activation: type[nn.Module], *, squeezed: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), activation())
        self.blocks = nn.Sequential(*(Bottleneck(8, 16, activation, squeezed=squeezed) for _ in range(2)))
        self.head = nn.Sequential(nn.Conv2d(8, 24, 1, bias=False), nn.BatchNorm2d(24), activation())
        self.classify = nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.head(self.blocks(self.stem(x)))
        return self.classify(functional.adaptive_avg_pool2d(x, 1).flatten(1))
