"""The two models that the kinds of change are made to: a convolutional network and a transformer, as a user's files."""

from __future__ import annotations

CONVOLUTIONS = '''
"""A small residual network."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.act1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.act2 = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.act1(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return self.act2(y + x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Block(32), Block(32))
        self.down = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.layer2 = nn.Sequential(Block(64), Block(64))
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        x = self.stem(images)
        x = self.layer1(x)
        x = self.down(x)
        x = self.layer2(x)
        return self.head(x.mean((2, 3)))


def build():
    return Net()
'''

TRANSFORMER = '''
"""A small transformer with tied embeddings."""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Feed(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x):
        y = self.act(self.fc1(x))
        return self.fc2(y)


class Layer(nn.Module):
    def __init__(self, width=128, heads=4, hidden=256):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feed = Feed(width, hidden)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.feed(self.norm2(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(500, 128)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm = nn.LayerNorm(128)
        self.head = nn.Linear(128, 500, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def build():
    return Net()
'''

INPUTS = {CONVOLUTIONS: "float32[batch,3,64,64]", TRANSFORMER: "int64[batch,64] < 500"}
