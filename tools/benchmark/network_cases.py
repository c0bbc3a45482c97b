"""Networks that `tools.network_benchmark` times: what they are, how they run, in which types."""

from __future__ import annotations

from typing import NamedTuple


class NetworkCase(NamedTuple):
    """A network of models/vision.py, models/language.py, models/lstm.py or models/kinds.

    Attributes:
        mode: train, infer, backward (the loss and its gradients, without an optimizer).
        policy: of element types, as Keras names it.
        size: height and width of images; 0 is what the network has by itself.
    """

    network: str
    mode: str
    batch: int
    policy: str = "mixed_bfloat16"
    size: int = 224


CASES = {
    "resnet50_train": NetworkCase("ResNet50", "train", 32, "float32"),
    "resnet50_train_1": NetworkCase("ResNet50", "train", 1, "float32"),
    "resnet50_infer": NetworkCase("ResNet50", "infer", 1, "float32"),
    "resnet50_infer_32": NetworkCase("ResNet50", "infer", 32, "float32"),
    "mobilenet_v3_large_train": NetworkCase("MobileNetV3Large", "train", 32, "float32"),
    "mobilenet_v3_large_train_1": NetworkCase("MobileNetV3Large", "train", 1, "float32"),
    "mobilenet_v3_large_infer": NetworkCase("MobileNetV3Large", "infer", 1, "float32"),
    "mobilenet_v3_large_infer_32": NetworkCase("MobileNetV3Large", "infer", 32, "float32"),
    "efficientnet_b0_train": NetworkCase("EfficientNetB0", "train", 32, "float32"),
    "efficientnet_b0_train_1": NetworkCase("EfficientNetB0", "train", 1, "float32"),
    "efficientnet_b0_infer": NetworkCase("EfficientNetB0", "infer", 1, "float32"),
    "efficientnet_b0_infer_32": NetworkCase("EfficientNetB0", "infer", 32, "float32"),
    "densenet121_train": NetworkCase("DenseNet121", "train", 32, "float32"),
    "densenet121_train_1": NetworkCase("DenseNet121", "train", 1, "float32"),
    "densenet121_infer": NetworkCase("DenseNet121", "infer", 1, "float32"),
    "densenet121_infer_32": NetworkCase("DenseNet121", "infer", 32, "float32"),
    "convnext_tiny_train": NetworkCase("ConvNeXtTiny", "train", 16),
    "convnext_tiny_train_1": NetworkCase("ConvNeXtTiny", "train", 1),
    "convnext_tiny_train_32": NetworkCase("ConvNeXtTiny", "train", 32),
    "convnext_tiny_infer": NetworkCase("ConvNeXtTiny", "infer", 1),
    "convnext_tiny_infer_32": NetworkCase("ConvNeXtTiny", "infer", 32),
    "unet_train": NetworkCase("UNet", "train", 16, size=64),
    "unet_train_1": NetworkCase("UNet", "train", 1, size=64),
    "unet_train_32": NetworkCase("UNet", "train", 32, size=64),
    "unet_infer": NetworkCase("UNet", "infer", 1, size=64),
    "unet_infer_32": NetworkCase("UNet", "infer", 32, size=64),
    "gpt2_train": NetworkCase("GPT2", "train", 16, size=0),
    "gpt2_train_f32": NetworkCase("GPT2", "train", 16, "float32", 0),
    "gpt2_infer": NetworkCase("GPT2", "infer", 16, size=0),
    "gpt2_infer_1": NetworkCase("GPT2", "infer", 1, "float32", 0),
    "llama_train": NetworkCase("Llama", "train", 4, size=0),
    "llama_infer": NetworkCase("Llama", "infer", 4, size=0),
    "bert_train": NetworkCase("BERT", "train", 8, "mixed_float16", 0),
    "bert_infer": NetworkCase("BERT", "infer", 8, "mixed_float16", 0),
    "vit_train": NetworkCase("ViT", "train", 32, size=0),
    "vit_infer": NetworkCase("ViT", "infer", 32, size=0),
    "vit_infer_1": NetworkCase("ViT", "infer", 1, size=0),
    "t5_train": NetworkCase("T5", "train", 8, size=0),
    "t5_infer": NetworkCase("T5", "infer", 8, size=0),
    "moe_train": NetworkCase("MoE", "train", 8, size=0),
    "moe_infer": NetworkCase("MoE", "infer", 8, size=0),
    **{f"{name}_{mode}": NetworkCase(network, mode, 32, "float32", 0)
       for name, network in {"lstm": "LSTM", "lstm_cudnn": "LSTMByCuDNN"}.items() for mode in ("infer", "backward")},
    **{f"{name}_train": NetworkCase(network, "train", 32, "float32", 0)
       for name, network in {"lstm_language": "LSTMLanguage", "lstm_language_cudnn": "LSTMLanguageByCuDNN"}.items()},
    "swin_train": NetworkCase("Swin", "train", 32, size=0),
    "swin_infer": NetworkCase("Swin", "infer", 32, size=0),
    "deeplab_train": NetworkCase("DeepLab", "train", 16, "float32", 0),
    "dit_train": NetworkCase("DiT", "train", 32, size=0),
    "spectral_gan_train": NetworkCase("SpectralGAN", "train", 64, "float32", 0),
    "conformer_train": NetworkCase("Conformer", "train", 16, size=0),
    "conformer_infer": NetworkCase("Conformer", "infer", 16, size=0),
    "wavenet_train": NetworkCase("WaveNet", "train", 8, "float32", 0),
    "lora_train": NetworkCase("LoRA", "train", 8, size=0),
    "tabnet_train": NetworkCase("TabNet", "train", 4096, "float32", 0),
    "graph_net_train": NetworkCase("GraphNet", "train", 8, "float32", 0),
    **{f"{network.lower()}_train": NetworkCase(network, "train", batch, "float32", 0)
       for network, batch in {
           "StateSpace": 4, "VAE": 128, "VQVAE": 64, "CycleGAN": 1, "WGANGP": 64, "RealNVP": 256, "PixelCNN": 64,
           "ConvLSTM": 8, "PointNet": 32, "EDSR": 16, "Capsules": 64, "NeRF": 1024, "PINN": 100, "SIREN": 16384,
           "PPO": 2048, "DQN": 64, "MAML": 64, "BYOL": 256, "GCN": 1, "RWKV": 16, "TCN": 64, "TextCNN": 64,
           "FNet": 32, "Style": 1}.items()},
    **{f"{network.lower()}_train": NetworkCase(network, "train", batch, size=0)
       for network, batch in {"Diffusion": 64, "UNet3D": 2, "Performer": 8, "Perceiver": 16, "Mixer": 64,
                              "MaskedLanguage": 32}.items()},
}
