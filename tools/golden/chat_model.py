"""Makes a small random model, a tokenizer and chats about sums; answers questions about sums; compares answers. See chats.sh."""
import argparse
import json
import pathlib
import random

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

NAMES = ["Ada", "Emil", "Noor", "Ravi", "Lena", "Tom", "Mia", "Yuki"]
THINGS = ["apples", "pears", "books", "stones", "coins", "cups"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def question(name, thing, a, b):
    return f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have?"


def make_chats(count, draw):
    for i in range(count):
        name, thing, a, b = draw.choice(NAMES), draw.choice(THINGS), draw.randint(1, 9), draw.randint(1, 9)
        turns = [("user", question(name, thing, a, b)), ("assistant", f"{name} has {a + b} {thing}.")]
        if i % 3 == 0:
            turns.insert(0, ("system", "Answer in one sentence."))
        if i % 4 == 0:
            turns += [("user", f"And if {name} gives 1 away?"), ("assistant", f"Then {name} has {a + b - 1} {thing}.")]
        yield {"messages": [{"role": role, "content": content} for role, content in turns]}


def make_tokenizer(chats):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([m["content"] for chat in chats for m in chat["messages"]], trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return fast


def make(folder):
    chats = list(make_chats(1200, random.Random(1)))
    (folder / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    tokenizer = make_tokenizer(chats)
    torch.manual_seed(1)
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=16,
        num_experts=8,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        max_position_embeddings=256,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


def answer(folder):
    """Writes 20 random questions, their text and ids as prompts, and the model's most probable answers, next to FOLDER."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    draw, lines, prompts = random.Random(2), [], ""
    for _ in range(20):
        name, thing, a, b = draw.choice(NAMES), draw.choice(THINGS), draw.randint(1, 9), draw.randint(1, 9)
        prompt = question(name, thing, a, b)
        chat = [{"role": "user", "content": prompt}]
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        prompts += tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        out = model.generate(ids, max_new_tokens=24, do_sample=False, pad_token_id=0)
        text = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        lines.append({"prompt": prompt, "ids": ids[0].tolist(), "answer": text, "right": f"{name} has {a + b} {thing}."})
    (folder.parent / "prompts.txt").write_text(prompts)
    (folder.parent / "questions.jsonl").write_text("".join(json.dumps({"prompt": line["prompt"]}) + "\n" for line in lines))
    (folder.parent / "transformers.json").write_text(json.dumps(lines))


def compare(folder):
    """Prints the answers of transformers. Exits with 1 if Hexad's ids or answers differ, or if fewer than 15 are right."""
    lines = json.loads((folder / "transformers.json").read_text())
    if [int(i) for i in (folder / "ids.txt").read_text().split()] != [i for line in lines for i in line["ids"]]:
        raise SystemExit("the ids of the prompts in ids.txt differ from those of transformers; expected equal ids")
    ours = [text["text"] for text in json.loads((folder / "answers.json").read_text())["results"]]
    for line, own in zip(lines, ours, strict=True):
        print(line["prompt"], line["answer"], "" if own == line["answer"] else f"(Hexad: {own})")
    right = sum(line["answer"] == line["right"] for line in lines)
    same = sum(own == line["answer"] for line, own in zip(lines, ours))
    print(f"right: {right} of {len(lines)}; equal answers of Hexad: {same} of {len(lines)}")
    if right < 15 or same < len(lines):
        raise SystemExit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    actions = {"make": make, "answer": answer, "compare": compare}
    parser.add_argument("action", choices=actions)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    actions[options.action](options.folder)


if __name__ == "__main__":
    main()
