"""Nine groups of architectures that timm's families belong to: what is held out together in the harder split."""

from __future__ import annotations

import re

PLAIN = "plain transformers"
HIERARCHICAL = "hierarchical transformers"
HYBRID = "convolution and attention"
MIXERS = "mixers and recurrent"
CONVNEXT = "large-kernel convolution"
MOBILE = "mobile convolution"
DESIGNED = "designed residual"
RESIDUAL = "residual"
OTHER = "other convolution"

# Beginnings of models' names, the longest that fits counts; what fits none is OTHER.
_BEGINNINGS = {
    MIXERS: "mixer gmixer resmlp gmlp sequencer poolformer caformer convformer metaformer",
    CONVNEXT: """convnext convmixer focalnet inception_next edgenext repvit fastvit fasternet starnet mambaout rdnet""",
    HYBRID: """coat maxvit maxxvit mobilevit levit efficientvit efficientformer visformer nextvit tiny_vit vitamin gcvit
        bat_ botnet eca_botnext lambda halonet haloregnetz sehalonet lamhalobotnet sebotnet hieradet""",
    HIERARCHICAL: "swin twins pvt mvitv nest davit hiera_ pit_ xcit crossvit volo tnt samvit",
    PLAIN: "vit_ deit beit eva cait flexivit naflexvit aimv convit test_vit",
    MOBILE: """efficientnet mobilenet mnasnet tf_ fbnet spnasnet ghostnet repghostnet hardcorenas lcnet tinynet mixnet
        rexnet semnasnet mobileone gernet tresnet test_efficientnet""",
    DESIGNED: "regnet nf dm_ eca_nfnet skres selecsls hgnet",
    RESIDUAL: """resnet resnext seresne wide_resnet ecaresne legacy_se res2ne resnest ese_ cs3 csp senet gcresne
        darknet sedarknet""",
}
_TABLE = tuple((name, tuple(beginnings.split())) for name, beginnings in _BEGINNINGS.items())
GROUPS = (*(name for name, _ in _TABLE), OTHER)


def group(model: str) -> str:
    """One of :data:`GROUPS`, by the longest beginning that fits a model's name."""
    name = re.sub(r"__s\d+$", "", model)
    fits = [(len(start), label) for label, starts in _TABLE for start in starts if name.startswith(start)]
    return max(fits)[1] if fits else OTHER
