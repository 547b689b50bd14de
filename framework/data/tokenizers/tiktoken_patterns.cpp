#include "framework/data/tokenizers/tiktoken_patterns.h"

namespace hexad::data {
namespace {

constexpr std::string_view gpt2_regex = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s+(?!\S)|\s+)";
constexpr std::string_view cl100k_regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view qwen_regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view o200k_regex =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<SpecialRange> llama3_tokens() {
  return {{"<|begin_of_text|>", 128000},
          {"<|end_of_text|>", 128001},
          {"<|reserved_special_token_{}|>", 128002, 2},
          {"<|finetune_right_pad_id|>", 128004},
          {"<|step_id|>", 128005},
          {"<|start_header_id|>", 128006},
          {"<|end_header_id|>", 128007},
          {"<|eom_id|>", 128008},
          {"<|eot_id|>", 128009},
          {"<|python_tag|>", 128010},
          {"<|image|>", 128011},
          {"<|reserved_special_token_{}|>", 128012, 244, 2}};
}

std::vector<SpecialRange> llama4_tokens() {
  return {{"<|begin_of_text|>", 200000},
          {"<|end_of_text|>", 200001},
          {"<|fim_prefix|>", 200002},
          {"<|fim_middle|>", 200003},
          {"<|fim_suffix|>", 200004},
          {"<|header_start|>", 200005},
          {"<|header_end|>", 200006},
          {"<|eom|>", 200007},
          {"<|eot|>", 200008},
          {"<|step|>", 200009},
          {"<|text_post_train_reserved_special_token_{}|>", 200010, 6},
          {"<|python_start|>", 200016},
          {"<|python_end|>", 200017},
          {"<|finetune_right_pad|>", 200018},
          {"<|text_post_train_reserved_special_token_{}|>", 200019, 61, 8},
          {"<|image_start|>", 200080},
          {"<|image_end|>", 200081},
          {"<|vision_reserved_special_token_{}|>", 200082, 2},
          {"<|tile_x_separator|>", 200084},
          {"<|tile_y_separator|>", 200085},
          {"<|vision_reserved_special_token_{}|>", 200086, 4, 2},
          {"<|image|>", 200090},
          {"<|vision_reserved_special_token_{}|>", 200091, 1, 6},
          {"<|patch|>", 200092},
          {"<|vision_reserved_special_token_{}|>", 200093, 1041, 7},
          {"<|reasoning_reserved_special_token_{}|>", 201134, 8},
          {"<|reasoning_thinking_start|>", 201142},
          {"<|reasoning_thinking_end|>", 201143},
          {"<|reserved_special_token_{}|>", 201144, 904}};
}

}  // namespace

std::span<const TiktokenPattern> tiktoken_patterns() {
  static const std::vector<TiktokenPattern> patterns{
      {.name = "gpt2",
       .ranks = 50256,
       .regex = gpt2_regex,
       .special = {{"<|endoftext|>", 50256}},
       .end_of_document = 50256},
      {.name = "p50k",
       .ranks = 50280,
       .regex = gpt2_regex,
       .special = {{"<|endoftext|>", 50256}},
       .end_of_document = 50256},
      {.name = "cl100k",
       .ranks = 100256,
       .regex = cl100k_regex,
       .special = {{"<|endoftext|>", 100257},
                   {"<|fim_prefix|>", 100258},
                   {"<|fim_middle|>", 100259},
                   {"<|fim_suffix|>", 100260},
                   {"<|endofprompt|>", 100276}},
       .end_of_document = 100257},
      {.name = "o200k",
       .ranks = 199998,
       .regex = o200k_regex,
       .special = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}},
       .end_of_document = 199999},
      {.name = "qwen",
       .ranks = 151643,
       .regex = qwen_regex,
       .special =
           {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}, {"<|extra_{}|>", 151646, 205}},
       .end_of_document = 151643,
       .nfc = true},
      {.name = "llama3",
       .ranks = 128000,
       .regex = cl100k_regex,
       .special = llama3_tokens(),
       .end_of_document = 128001,
       .beginning_of_document = 128000},
      {.name = "llama4",
       .ranks = 200000,
       .regex = o200k_regex,
       .special = llama4_tokens(),
       .end_of_document = 200001,
       .beginning_of_document = 200000}};
  return patterns;
}

}  // namespace hexad::data
