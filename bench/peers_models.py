"""peers_models.py -- the attention calls of models that people run: shapes for peers.py's set `models` and for lot.py --models.

Sizes are those of the models' published configurations, lengths and batches what they are commonly run with; where two models ask for
the same call the line names both. Calls that have more than Q, K, V and a causal mask (biases, softcap, windows) are not here.
Standard library only.
"""

FEW = 32  # rows of Q or fewer: what they read is K and V, a cache that another layer has driven out of L2

# model, what it does, b, h, hk, rows of Q, keys, d, causal
FORWARD = (
    ("Llama 3 8B, Mistral 7B", "prompt", 1, 32, 8, 512, 512, 128, True),
    ("Llama 3 8B, Mistral 7B", "prompt", 1, 32, 8, 8192, 8192, 128, True),
    ("Llama 3 8B, Mistral 7B", "16 prompts", 16, 32, 8, 1024, 1024, 128, True),
    ("Llama 3 8B, Mistral 7B", "512 more rows of a prompt", 1, 32, 8, 512, 8192, 128, True),
    ("Llama 3 70B on 8 GPUs", "prompt", 1, 8, 1, 8192, 8192, 128, True),
    ("Llama 3 70B on 8 GPUs", "prompt", 1, 8, 1, 32768, 32768, 128, True),
    ("Llama 3 70B on 8 GPUs", "512 more rows of a long prompt", 1, 8, 1, 512, 32768, 128, True),
    ("Qwen 2.5 7B", "prompt", 1, 28, 4, 4096, 4096, 128, True),
    ("Qwen 3 0.6B", "8 prompts", 8, 16, 8, 1024, 1024, 128, True),
    ("Phi 3 mini", "prompt", 1, 32, 32, 2048, 2048, 96, True),
    ("Pythia 2.8B", "prompt", 1, 32, 32, 2048, 2048, 80, True),
    ("GPT-NeoX 20B", "prompt", 1, 64, 64, 2048, 2048, 96, True),
    ("Gemma 7B", "prompt", 1, 16, 16, 4096, 4096, 256, True),
    ("Gemma 3 4B", "prompt", 1, 8, 4, 4096, 4096, 256, True),
    ("Falcon 7B", "prompt", 1, 71, 1, 2048, 2048, 64, True),
    ("StarCoder", "prompt", 1, 48, 1, 8192, 8192, 128, True),
    ("GPT-2", "8 prompts", 8, 12, 12, 1024, 1024, 64, True),
    ("BERT base", "32 texts", 32, 12, 12, 128, 128, 64, False),
    ("BERT large", "32 texts", 32, 16, 16, 512, 512, 64, False),
    ("ModernBERT base", "text", 1, 12, 12, 8192, 8192, 64, False),
    ("ESM-2 650M", "8 proteins", 8, 20, 20, 1022, 1022, 64, False),
    ("ViT-B/16", "256 images", 256, 12, 12, 197, 197, 64, False),
    ("ViT-L/14, CLIP", "64 images", 64, 16, 16, 257, 257, 64, False),
    ("ViT-H/14", "64 images", 64, 16, 16, 257, 257, 80, False),
    ("SigLIP so400m", "16 images", 16, 16, 16, 729, 729, 72, False),
    ("DINOv2 giant", "8 images", 8, 24, 24, 1370, 1370, 64, False),
    ("SAM ViT-H", "image, without its bias", 1, 16, 16, 4096, 4096, 80, False),
    ("Whisper large", "8 x 30 seconds", 8, 20, 20, 1500, 1500, 64, False),
    ("SD 1.5", "64 x 64", 2, 8, 8, 4096, 4096, 40, False),
    ("SD 1.5", "32 x 32", 2, 8, 8, 1024, 1024, 80, False),
    ("SD 1.5", "16 x 16", 2, 8, 8, 256, 256, 160, False),
    ("SD 1.5", "64 x 64 on the text", 2, 8, 8, 4096, 77, 40, False),
    ("SDXL", "64 x 64", 2, 10, 10, 4096, 4096, 64, False),
    ("SDXL", "32 x 32", 2, 20, 20, 1024, 1024, 64, False),
    ("SDXL", "64 x 64 on the text", 2, 10, 10, 4096, 77, 64, False),
    ("SD 3 medium", "1024 x 1024", 2, 24, 24, 4250, 4250, 64, False),
    ("FLUX.1", "1024 x 1024", 1, 24, 24, 4608, 4608, 128, False),
    ("DiT-XL/2", "32 images of 256 x 256", 32, 16, 16, 256, 256, 72, False),
    ("CogVideoX 5B", "49 frames", 2, 48, 48, 17776, 17776, 64, False),
    ("Wan 2.1 14B", "81 frames", 1, 40, 40, 32760, 32760, 128, False),
    ("Llama 3 8B, Mistral 7B", "next word", 1, 32, 8, 1, 2048, 128, False),
    ("Llama 3 8B, Mistral 7B", "next word of 32", 32, 32, 8, 1, 2048, 128, False),
    ("Llama 3 8B, Mistral 7B", "8 words to be checked", 4, 32, 8, 8, 4096, 128, False),
    ("Llama 3 8B, Mistral 7B", "64 words to be checked", 1, 32, 8, 64, 16384, 128, True),
    ("Llama 3 70B on 8 GPUs", "next word of 32", 32, 8, 1, 1, 8192, 128, False),
    ("Qwen 2.5 7B", "next word of 16", 16, 28, 4, 1, 4096, 128, False),
    ("Gemma 3 4B", "next word of 8", 8, 8, 4, 1, 8192, 256, False),
    ("Phi 3 mini", "next word of 8", 8, 32, 32, 1, 4096, 96, False),
    ("GPT-2", "next word", 1, 12, 12, 1, 1024, 64, False),
    ("Whisper large", "next word of 8, on the sound", 8, 20, 20, 1, 1500, 64, False),
    ("MiniLM-L6, BGE small", "64 texts", 64, 12, 12, 128, 128, 32, False),
    ("BGE small", "32 texts", 32, 12, 12, 512, 512, 32, False),
    ("Swin-T", "windows of 64 images, without their bias", 4096, 3, 3, 49, 49, 32, False),
    ("Swin-T", "64 images, last stage", 64, 24, 24, 49, 49, 32, False),
    ("DETR", "8 images", 8, 8, 8, 850, 850, 32, False),
    ("DETR", "queries on 8 images", 8, 8, 8, 100, 850, 32, False),
    ("SegFormer B0", "8 images, first stage", 8, 1, 1, 16384, 256, 32, False),
    ("Evoformer", "128 rows, without their bias", 128, 8, 8, 256, 256, 32, False),
    ("SAM's decoder", "16 prompts on the image", 16, 8, 8, 7, 4096, 16, False),
    ("ESM-2 8M", "8 proteins", 8, 20, 20, 1022, 1022, 16, False),
)

# what a step of training has of one layer
BACKWARD = (
    ("Llama 3 8B", "", 2, 32, 8, 8192, 8192, 128, True),
    ("Llama 2 7B", "", 4, 32, 32, 4096, 4096, 128, True),
    ("Llama 3 70B on 8 GPUs", "", 1, 8, 1, 8192, 8192, 128, True),
    ("Qwen 2.5 7B", "", 4, 28, 4, 4096, 4096, 128, True),
    ("Qwen 3 0.6B", "", 8, 16, 8, 2048, 2048, 128, True),
    ("Phi 3 mini", "", 4, 32, 32, 4096, 4096, 96, True),
    ("Pythia 2.8B", "", 4, 32, 32, 2048, 2048, 80, True),
    ("GPT-NeoX 20B", "", 2, 64, 64, 2048, 2048, 96, True),
    ("Gemma 7B", "", 2, 16, 16, 4096, 4096, 256, True),
    ("Falcon 7B", "", 4, 71, 1, 2048, 2048, 64, True),
    ("GPT-2", "", 16, 12, 12, 1024, 1024, 64, True),
    ("GPT-2 XL", "", 8, 25, 25, 1024, 1024, 64, True),
    ("BERT large", "", 32, 16, 16, 512, 512, 64, False),
    ("ESM-2 650M", "", 16, 20, 20, 1022, 1022, 64, False),
    ("ViT-B/16", "", 256, 12, 12, 197, 197, 64, False),
    ("ViT-L/16", "", 128, 16, 16, 197, 197, 64, False),
    ("ViT-H/14", "", 64, 16, 16, 257, 257, 80, False),
    ("SigLIP so400m", "", 32, 16, 16, 729, 729, 72, False),
    ("DINOv2 giant", "", 16, 24, 24, 1370, 1370, 64, False),
    ("Whisper large", "", 16, 20, 20, 1500, 1500, 64, False),
    ("SD 1.5", "64 x 64", 8, 8, 8, 4096, 4096, 40, False),
    ("SDXL", "64 x 64", 4, 10, 10, 4096, 4096, 64, False),
    ("SDXL", "64 x 64 on the text", 4, 10, 10, 4096, 77, 64, False),
    ("FLUX.1", "", 2, 24, 24, 4608, 4608, 128, False),
    ("DiT-XL/2", "", 64, 16, 16, 256, 256, 72, False),
    ("MiniLM-L6, BGE small", "", 256, 12, 12, 128, 128, 32, False),
    ("BGE small", "", 64, 12, 12, 512, 512, 32, False),
    ("Swin-T", "", 4096, 3, 3, 49, 49, 32, False),
    ("DETR", "", 8, 8, 8, 850, 850, 32, False),
    ("Evoformer", "", 128, 8, 8, 256, 256, 32, False),
)

MODELS = {"fwd": FORWARD, "bwd": BACKWARD}


def shapes(op):
    """(b, h, hk, q, k, d, causal) of each line."""
    return [line[2:] for line in MODELS[op]]


def name_of(line):
    """What a table calls it."""
    return f"{line[0]}: {line[1]}" if line[1] else line[0]
