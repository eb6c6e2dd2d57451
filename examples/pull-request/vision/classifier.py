"""Image classifier: a ResNet-18 body with a small refinement of its features."""

import torch
from torch import nn
from torchvision.models import resnet18

REFINEMENTS = 1


class Refine(nn.Module):
    """Residual 3x3 convolution over the body's last features."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return features + torch.relu(self.norm(self.conv(features)))


class Classifier(nn.Module):
    """Ten classes; inputs are float32[batch, 3, 64, 64]."""

    def __init__(self) -> None:
        super().__init__()
        body = resnet18(weights=None)
        self.features = nn.Sequential(*list(body.children())[:-3])
        self.refine = nn.Sequential(*(Refine(256) for _ in range(REFINEMENTS)))
        self.head = nn.Linear(256, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.refine(self.features(images))
        return self.head(features.mean(dim=(2, 3)))


def classifier() -> nn.Module:
    """The model that the gate measures."""
    return Classifier()
