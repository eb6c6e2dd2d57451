"""Kinds of change that slow models down in practice, each as an edit of a small model, and what must be named first.

In: :data:`KINDS`. ``first`` is a regular expression for the first finding, written as ``name | op | what it says``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.counting.detection_models import CONVOLUTIONS, TRANSFORMER


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``before`` edits the model for base, ``edits`` then for head; ``setting`` are lines of ``[models.net]``.

    ``why`` True: the change shows in no operator, so the Why line itself has to match ``first``.
    """

    model: str
    edits: dict[str, str]
    first: str
    before: dict[str, str] = field(default_factory=dict)
    setting: tuple[str, ...] = ()
    why: bool = False

    @property
    def base(self) -> str:
        """The file on base."""
        return _edited(self.model, self.before)

    @property
    def head(self) -> str:
        """The file on head."""
        return _edited(self.base, self.edits)


def _edited(text: str, edits: dict[str, str]) -> str:
    for old, new in edits.items():
        if old not in text:
            msg = f"the model does not hold {old!r}"
            raise ValueError(msg)
        text = text.replace(old, new)
    return text


_LAST_NAME = "self.layer2 = nn.Sequential(Block(64), Block(64))"
_SDPA = "y = F.scaled_dot_product_attention(q, k, v)"
_AMP = ('dtype = ["amp-bfloat16"]',)
_TRAIN = ('modes = ["train"]',)

KINDS: dict[str, Kind] = {
    "layer precision": Kind(
        model=TRANSFORMER,
        edits={
            "return self.fc2(y)": ("with torch.autocast('cpu', enabled=False):\n            return self.fc2(y.float())")
        },
        first=r"feed\.fc2.*(bfloat16 → float32|float32)",
        setting=_AMP,
    ),
    "channels_last lost": Kind(
        model=CONVOLUTIONS,
        before={
            "return Net()": "return Net().to(memory_format=torch.channels_last)",
            "x = self.stem(images)": "x = self.stem(images.contiguous(memory_format=torch.channels_last))",
        },
        edits={"x = self.down(x)": "x = self.down(x).contiguous()"},
        first=r"(down|layer2|contiguous|clone).*channels_last",
    ),
    "extra cat": Kind(
        model=CONVOLUTIONS,
        edits={"y = self.norm2(self.conv2(y))": "y = self.norm2(self.conv2(torch.cat((y, x), 1)[:, : x.shape[1]]))"},
        first=r"layer\S* \| \S*cat\b",
    ),
    "attention backend": Kind(
        model=TRANSFORMER,
        edits={_SDPA: "y = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1) @ v"},
        first=r"layers\.\S*attention",
    ),
    "unfused bias": Kind(
        model=TRANSFORMER,
        edits={
            "self.fc1 = nn.Linear(width, hidden)": (
                "self.fc1 = nn.Linear(width, hidden, bias=False)\n"
                "        self.bias1 = nn.Parameter(torch.zeros(hidden))"
            ),
            "self.act(self.fc1(x))": "self.act(self.fc1(x) + self.bias1)",
        },
        first=r"layers\.\S*feed\S*.*\| \S*(add|addmm|mm)",
    ),
    "duplicate layer": Kind(
        model=CONVOLUTIONS,
        edits={_LAST_NAME: "self.layer2 = nn.Sequential(Block(64), Block(64), Block(64))"},
        first=r"layer2\.[2*].*\| .*added",
    ),
    "larger hidden size": Kind(
        model=TRANSFORMER,
        edits={"hidden=256": "hidden=384"},
        first=r"layers\.\S*feed\.fc1.*256.*384",
    ),
    "inplace removed": Kind(
        model=CONVOLUTIONS,
        edits={"self.act1 = nn.ReLU(inplace=True)": "self.act1 = nn.ReLU()"},
        first=r"layer\S*act1.*relu",
    ),
    "added cast": Kind(
        model=CONVOLUTIONS,
        edits={"y = self.norm2(self.conv2(y))": "y = self.norm2(self.conv2(y.double().float()))"},
        first=r"layer\S* \| \S*_to_copy.*added",
    ),
    "changed stride": Kind(
        model=CONVOLUTIONS,
        edits={"self.down = nn.Conv2d(32, 64, 3, stride=2, padding=1)": "self.down = nn.Conv2d(32, 64, 3, padding=1)"},
        first=r"^down .*stride",
    ),
    "dropout left on": Kind(
        model=TRANSFORMER,
        edits={"y = self.act(self.fc1(x))": "y = F.dropout(self.act(self.fc1(x)), 0.1)"},
        first=r"layers\.\S*feed\S* \| \S*(dropout|bernoulli|rand)",
    ),
    "graph break": Kind(
        model=CONVOLUTIONS,
        edits={"x = self.down(x)": "x = self.down(x)\n        print('down', end='')"},
        first=r"graph breaks? 0 → 1.*net\.py:\d+",
        setting=('compile = ["default"]',),
        why=True,
    ),
    "synchronising .item()": Kind(
        model=CONVOLUTIONS,
        edits={
            "x = self.down(x)": (
                "x = self.down(x)\n        if x.abs().max().item() > 1e6:\n            x = x.clamp(-1e6, 1e6)"
            )
        },
        first=r"\| \S*(_local_scalar_dense|item|abs|max)",
    ),
    "input resized on the CPU": Kind(
        model=CONVOLUTIONS,
        edits={
            "x = self.stem(images)": (
                "images = F.interpolate(images, size=(256, 256), mode='bicubic', antialias=True)\n"
                "        images = F.interpolate(images, size=(64, 64), mode='bilinear', antialias=True)\n"
                "        x = self.stem(images)"
            )
        },
        first=r"\| \S*upsample",
    ),
    "norm replaced": Kind(
        model=CONVOLUTIONS,
        edits={"self.norm1 = nn.BatchNorm2d(width)": "self.norm1 = nn.GroupNorm(8, width)"},
        first=r"layer\S*norm1.*group_norm",
    ),
    "activation replaced": Kind(
        model=CONVOLUTIONS,
        edits={"self.act2 = nn.ReLU(inplace=True)": "self.act2 = nn.GELU()"},
        first=r"layer\S*act2.*gelu",
    ),
    "checkpointing on": Kind(
        model=CONVOLUTIONS,
        edits={
            "x = self.layer2(x)": (
                "from torch.utils.checkpoint import checkpoint\n"
                "        x = checkpoint(self.layer2, x, use_reentrant=False)"
            )
        },
        first=r"layer2\..*added.*backward",
        setting=_TRAIN,
    ),
    "tied weights untied": Kind(
        model=TRANSFORMER,
        edits={"        self.head.weight = self.embed.weight\n": ""},
        first=r"^(head|embed)\b",
    ),
    "padding added": Kind(
        model=CONVOLUTIONS,
        edits={"self.conv2(y)": "self.conv2(F.pad(y, (0, 1, 0, 1)))[:, :, :-1, :-1]"},
        first=r"layer\S* \| \S*pad",
    ),
    "groups changed": Kind(
        model=CONVOLUTIONS,
        edits={
            "self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)": (
                "self.conv2 = nn.Conv2d(width, width, 3, padding=1, groups=4, bias=False)"
            )
        },
        first=r"layer\S*conv2.*groups 1 → 4",
    ),
    "Python loop": Kind(
        model=TRANSFORMER,
        edits={
            _SDPA: (
                "y = torch.stack([F.scaled_dot_product_attention(q[:, n : n + 1], k[:, n : n + 1], "
                "v[:, n : n + 1])[:, 0] for n in range(self.heads)], 1)"
            )
        },
        first=r"layers\.\S*attention",
    ),
}
