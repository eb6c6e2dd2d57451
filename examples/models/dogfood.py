"""Two small models that perfgate gates in its own repository: one of convolutions, one of attention."""

import torch
from torch import nn


class ConvNet(nn.Module):
    """Residual convolutions; inputs are float32[batch, 3, 32, 32]."""

    def __init__(self, channels: int = 48, depth: int = 6) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, channels, kernel_size=3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(channels, channels, kernel_size=3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
            for _ in range(depth)
        )
        self.head = nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.stem(images)
        for block in self.blocks:
            features = features + block(features)
        return self.head(features.mean(dim=(2, 3)))


class Encoder(nn.Module):
    """Transformer encoder over token ids; inputs are int64[batch, 64] below 1000."""

    def __init__(self, width: int = 128, depth: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(tokens)).mean(dim=1))


def conv_net() -> nn.Module:
    """The convolutional model."""
    return ConvNet()


def encoder() -> nn.Module:
    """The attention model."""
    return Encoder()
