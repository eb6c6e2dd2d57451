"""A checkout of small models, each with one habit that the tests of models are about."""

from __future__ import annotations

FILES = {
    "zoo.py": """
        import dataclasses
        import json
        import pathlib
        import torch
        from torch import nn

        HERE = pathlib.Path(__file__).parent

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.one = nn.Linear(4, 8)
                self.drop = nn.Dropout(0.5)
                self.norm = nn.BatchNorm1d(8)
                self.two = nn.Linear(8, 3)

            def forward(self, x):
                return {"logits": self.two(self.drop(self.norm(self.one(x))))}

        class Longer(Net):
            def __init__(self):
                extra = None
                nn.Module.__init__(self)
                self.extra = nn.Linear(4, 4)
                self.one = nn.Linear(4, 8)
                self.drop = nn.Dropout(0.5)
                self.norm = nn.BatchNorm1d(8)
                self.two = nn.Linear(8, 3)

        class Tells(nn.Module):
            '''Answers with what it was called in.'''

            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.drop = nn.Dropout(0.5)

            def forward(self, x):
                y = self.layer(x)
                flags = [self.training, self.drop.training, torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
                return torch.tensor([float(f) for f in flags]), str(y.dtype), str(x.dtype), str(self.layer.weight.dtype)

        def lazily():
            return lambda x: (row for row in x)

        def later():
            async def call(x):
                return x

            return call

        class NoInference(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                if torch.is_inference_mode_enabled():
                    raise RuntimeError("Inference tensors cannot be saved for backward.")
                return self.layer(x)

        @dataclasses.dataclass
        class Config:
            mask: torch.Tensor
            name: str = "config"

        class Nested(nn.Module):
            def forward(self, x, cfg, *, mask=None, names=()):
                assert cfg.name == "config" and mask is None and names == ["a", 1]
                return {"out": (Config(mask=x + cfg.mask), [x.sum()])}

        def nested_inputs(batch):
            x = torch.ones(batch, 2)
            return {"x": x, "cfg": Config(mask=torch.zeros(batch, 2)), "mask": None, "names": ["a", 1]}

        class Keywords(nn.Module):
            def forward(self, *, tokens, extra, flag):
                assert flag is True and tokens.max() < 5
                return tokens.float() + extra["bias"] * extra["scale"]

        class Not(nn.Module):
            def forward(self, x):
                y = x.clone()
                y[0, 0] = float("nan")
                y[0, 1] = float("inf")
                return y

        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                with torch.no_grad():
                    self.layer.weight.fill_(1e-40)

            def forward(self, x):
                return self.layer(x)

        class Changes(nn.Module):
            def forward(self, x):
                torch.set_grad_enabled(True)
                torch.backends.cudnn.benchmark = True
                torch.set_default_dtype(torch.float64)
                torch.use_deterministic_algorithms(True)
                return x + 1

        class Reads(nn.Module):
            def forward(self, x):
                json.loads((HERE / "data" / "config.json").read_text())
                open("data/table.txt").close()
                open("written.txt", "w").close()
                from late import THING
                return x * THING

        class NoGrad(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x).detach()

        class Half(nn.Module):
            def forward(self, x):
                raise RuntimeError("\\"slow_conv2d_cpu\\" not implemented for 'Half'")

        class Lazy(nn.Module):
            def __init__(self, extra=False):
                super().__init__()
                self.layer = nn.LazyLinear(3)

            def forward(self, x):
                return self.layer(x)

        class Broken(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                x = self.one(x)
                torch._dynamo.graph_break()
                return self.two(x)

        class SlowStart(nn.Module):
            started = False

            def forward(self, x):
                if not self.started:
                    self.started = True
                    import time
                    time.sleep(0.4)
                return x + 1

        def step(model, x):
            y = model(x)["logits"]
            yield "first"
            for _ in range(3):
                y = y + 1
                yield "token"
            return 4

        def plain_step(model, x):
            return model(x)["logits"].sum()

        def no_model(x):
            return x.square().sum()

        def unequal(model, x):
            model.count = getattr(model, "count", 0) + 1
            yield "all"
            return model.count

        def lambda_model():
            return lambda x: x * 2

        def my_loss(output, x):
            return (output["logits"].mean() - x.mean()) ** 2

        def vector_loss(output):
            return output["logits"].mean(0)

        def my_optimizer(parameters):
            return torch.optim.Adam(parameters, lr=0.1)

        instance = Net()
    """,
    "late.py": "THING = 2\n",
    "unused.py": "raise RuntimeError('nobody imports me')\n",
    "data/config.json": "{}",
    "data/table.txt": "1 2 3",
    "data/unused.txt": "",
}
