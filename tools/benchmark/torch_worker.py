"""A process with one network in PyTorch, by Inductor with CUDA graphs: `torch_worker.py CASE` answers as TimedCalls;
`torch_worker.py CASE max` has the optimizer compiled, too, kernels found by `max-autotune`, and for inference weights
in halves and frozen into the program. Without TensorFlow.

Networks of torchvision and transformers with random weights; the ways that PyTorch's own documents advise: channels
last, TF32 for float32, autocast for halves, fused and capturable optimizers. They differ from Keras' in small things,
such as biases and the norms' order. The peak of memory is PyTorch's allocator's from the start on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tools.benchmark.device_time import summed
from tools.benchmark.network_cases import CASES
from tools.benchmark.timed_calls import TimedCalls, looked_at
from tools.benchmark.workers import serve

VISION = {"ResNet50": "resnet50", "MobileNetV3Large": "mobilenet_v3_large", "EfficientNetB0": "efficientnet_b0",
          "DenseNet121": "densenet121", "ConvNeXtTiny": "convnext_tiny", "ViT": "vit_b_16"}  # fmt: skip
HAVE = (*VISION, "GPT2", "Llama", "BERT", "T5")


def start(case: str, how: str = "") -> TimedCalls:
    import torch

    name, mode, batch, policy, _ = CASES[case]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    model, given, wanted = _of_images(name, batch) if name in VISION else _of_words(name, batch)
    model = model.cuda().train(mode == "train")
    halves = {"float32": torch.float32, "mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}[policy]
    step = (_trained(name, model, given, wanted, halves, how == "max") if mode == "train" else
            _inferred(model, given, halves, how == "max"))

    def values(result: Any) -> Any:
        return looked_at(result.detach().float().cpu().numpy())

    return TimedCalls(step, lambda _: torch.cuda.synchronize(), values,
                      lambda: {"gpu_mib": torch.cuda.max_memory_allocated() / 2**20}, _profiled)


def _trained(name: str, model: Any, given: tuple[Any, ...], wanted: Any, halves: Any, most: bool) -> Callable[[], Any]:
    import torch
    from torch import nn

    weights, scaled = list(model.parameters()), halves == torch.float16
    compiled = most and not scaled  # scaled losses ask, on the host, whether gradients are finite
    if name in VISION and name != "ViT":
        optimizer: Any = torch.optim.SGD(weights, 0.01, momentum=0.9, fused=not compiled, foreach=compiled)
    else:
        optimizer = torch.optim.AdamW(weights, 1e-4, fused=not compiled, foreach=compiled, capturable=True)
    scaler = torch.amp.GradScaler(enabled=scaled)

    def loss_of(*inputs: Any) -> Any:
        logits = _answer(model, inputs, halves)
        return nn.functional.cross_entropy(logits.float().reshape(-1, logits.shape[-1]), wanted.reshape(-1))

    def update() -> None:
        optimizer.step()

    how = "max-autotune" if most else "reduce-overhead"
    loss = torch.compile(loss_of, mode=how)
    moved: Any = torch.compile(update, mode=how) if compiled else lambda: scaler.step(optimizer)

    def step() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        found = loss(*given)
        scaler.scale(found).backward()
        moved()
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return found

    return step


def _inferred(model: Any, given: tuple[Any, ...], halves: Any, most: bool) -> Callable[[], Any]:
    import torch

    if most:
        from torch._inductor import config

        config.freezing = True
        model = model.to(halves)
        given = tuple(x.to(halves) if x is not None and x.is_floating_point() else x for x in given)
    types = torch.float32 if most else halves
    infer = torch.compile(lambda *inputs: _answer(model, inputs, types),
                          mode="max-autotune" if most else "reduce-overhead")

    def step() -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        with torch.no_grad():
            return infer(*given)

    return step


def _answer(model: Any, inputs: tuple[Any, ...], halves: Any) -> Any:
    """The logits, under autocast to halves where they are asked for."""
    import torch

    with torch.autocast("cuda", halves, enabled=halves != torch.float32):
        out = model(*inputs)
        return out if isinstance(out, torch.Tensor) else out.logits


def _profiled(call: Callable[[], object], calls: int) -> dict[str, Any]:
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(calls):
            call()
    return summed([(event.name, event.time_range.start, event.time_range.elapsed_us()) for event in seen.events()
                   if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation], calls)


def _of_images(name: str, batch: int) -> tuple[Any, tuple[Any, ...], Any]:
    import torch
    import torchvision

    image = torch.randn(batch, 3, 224, 224, device="cuda")
    model = getattr(torchvision.models, VISION[name])(weights=None)
    if name != "ViT":
        model, image = (x.to(memory_format=torch.channels_last) for x in (model, image))
    return model, (image,), torch.randint(0, 1000, (batch,), device="cuda")


def _of_words(name: str, batch: int) -> tuple[Any, tuple[Any, ...], Any]:
    """With the sizes of models/language.py, which this process cannot import."""
    import torch
    import transformers as hf

    make, length, config = {
        "GPT2": (hf.GPT2LMHeadModel, 256, hf.GPT2Config(use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)),
        "Llama": (hf.LlamaForCausalLM, 512, hf.LlamaConfig(
            vocab_size=32000, hidden_size=1024, intermediate_size=2730, num_hidden_layers=8, num_attention_heads=16,
            num_key_value_heads=8, use_cache=False)),
        "BERT": (hf.BertForMaskedLM, 256, hf.BertConfig()),
        "T5": (hf.T5ForConditionalGeneration, 256, hf.T5Config(
            vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, use_cache=False,
            dropout_rate=0)),
    }[name]  # fmt: skip
    text = torch.randint(0, config.vocab_size, (batch, length + 1), device="cuda")
    given = (text[:, :-1].contiguous(),)
    if name == "T5":
        given = (given[0], None, given[0])
    return make(config), given, text[:, 1:].contiguous()


if __name__ == "__main__":
    serve(lambda: start(*sys.argv[1:]))
