"""Language models: tiny configurations with tokens that both frameworks have."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import agree, fill, integers, normal

_SIZES = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def _logits(found: Any) -> Any:
    return found.logits


def _loss(found: Any) -> Any:
    return found.loss


def _continued(module: Any) -> dict[str, Any]:
    """Greedy continuation, with the cache of keys and values and without."""
    import torch

    training = module.training
    module.eval()
    start = integers(2, 5, below=96, seed=3)
    attended = torch.ones_like(start)
    known = {"attention_mask": attended, "do_sample": False, "max_new_tokens": 6, "pad_token_id": 0}
    found = module.generate(start, **known)
    agree(module.generate(start, use_cache=False, **known), found)
    module.train(training)
    return {"tokens": found}


def _causal(module: Any) -> Case:
    ids = integers(2, 12, below=96)
    given = {"input_ids": ids, "labels": ids}
    return Case(module, given, loss=_loss, outputs=_logits, more=_continued)


@program("transformers: GPT-2")
def gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=96,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=1,
        eos_token_id=2,
    )
    return _causal(GPT2LMHeadModel(config))


@program("transformers: Llama")
def llama() -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    return _causal(LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **_SIZES)))


@program("transformers: Mistral")
def mistral() -> Case:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(num_key_value_heads=2, sliding_window=8, head_dim=8, **_SIZES)
    return _causal(MistralForCausalLM(config))


@program("transformers: Qwen2")
def qwen() -> Case:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return _causal(Qwen2ForCausalLM(Qwen2Config(num_key_value_heads=2, **_SIZES)))


@program("transformers: BERT")
def bert() -> Case:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    ids = integers(3, 10, below=96)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    given = {"input_ids": ids, "attention_mask": mask, "labels": integers(3, below=2)}
    module = BertForSequenceClassification(BertConfig(**_SIZES))
    return Case(module, given, loss=_loss, outputs=_logits)


@program("transformers: T5")
def t5() -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=96, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    ids = integers(2, 9, below=96)
    given = {"input_ids": ids, "labels": integers(2, 7, below=96, seed=1)}
    module = T5ForConditionalGeneration(config)
    return Case(module, given, loss=_loss, outputs=_logits, more=_continued)


@program("transformers: ViT")
def vit() -> Case:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {k: v for k, v in _SIZES.items() if k not in ("vocab_size", "max_position_embeddings")}
    config = ViTConfig(image_size=16, patch_size=4, num_labels=5, **sizes)
    given = {"pixel_values": normal(2, 3, 16, 16), "labels": integers(2, below=5)}
    return Case(ViTForImageClassification(config), given, loss=_loss, outputs=_logits)


@program("transformers: Whisper")
def whisper() -> Case:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=96, num_mel_bins=16, encoder_layers=2, decoder_layers=2, d_model=32,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_source_positions=20, max_target_positions=24, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None,
        begin_suppress_tokens=None,
    )  # fmt: skip
    given = {"input_features": normal(2, 16, 40), "labels": integers(2, 7, below=96)}
    return Case(WhisperForConditionalGeneration(config), given, loss=_loss, outputs=_logits)


@program("transformers: Trainer", seconds=400)
def trainer() -> Steps:
    import tempfile

    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    module = BertForSequenceClassification(BertConfig(**_SIZES))
    fill(module)
    ids, labels = integers(16, 8, below=96), integers(16, below=2, seed=1)
    data = [{"input_ids": ids[i], "labels": labels[i]} for i in range(16)]
    folder = tempfile.mkdtemp(prefix="trainer-")

    def make() -> Any:
        told = TrainingArguments(
            folder, per_device_train_batch_size=4, max_steps=4, report_to=[], use_cpu=True,
            logging_steps=1, save_steps=2, learning_rate=1e-3, disable_tqdm=True,
            train_sampling_strategy="sequential",
        )  # fmt: skip
        return Trainer(model=module, args=told, train_dataset=data, eval_dataset=data)

    made: dict[str, Any] = {}

    def forward() -> Any:
        made["trainer"] = make()
        return {"loss": made["trainer"].evaluate()["eval_loss"]}

    def step() -> Any:
        made["trainer"].train()
        history = made["trainer"].state.log_history
        return {"losses": [line["loss"] for line in history if "loss" in line]}

    def save() -> Any:
        made["trainer"].save_model(folder)
        read = BertForSequenceClassification.from_pretrained(folder)
        agree(dict(read.named_parameters()), dict(module.named_parameters()))
        return {"loss": made["trainer"].evaluate()["eval_loss"]}

    return {"forward": forward, "step": step, "save": save}
