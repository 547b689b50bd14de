// Prompts of `hexad generate`: texts to continue, or questions to a model of chats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/chat_form.h"
#include "framework/data/tokenizer.h"

namespace hexad::app {

struct Prompt {
  std::string text{};
  std::string system{};  // instructions before a question; only with a chat form
  std::string place{};   // FILE:LINE; empty if the prompt was given on the command line
};

/// Reads a file with one prompt per line, without blank lines. If the name ends in .jsonl, .ndjson or .json, each line
/// is an object with "prompt" and, if `chat`, optionally "system". A prompt without "system" has `system`. Throws
/// Error(data) with file and line if a line is invalid, or if there is no prompt.
std::vector<Prompt> read_prompts(const std::string& path, const std::string& system, bool chat);

/// Returns the ids of a question in the form of a chat, up to the mark before the answer. The parts are converted one
/// by one, as `hexad prepare` converts them. If the form has no system role but the prompt has a system text, throws
/// Error(usage) or, for a prompt of a file, Error(data).
std::vector<int32_t> chat_prompt(const data::Tokenizer& tokenizer, const data::ChatForm& form, const Prompt& prompt);

/// Returns the ids of the mark after an answer; none if the form has no such mark.
std::vector<int32_t> end_of_answer(const data::Tokenizer& tokenizer, const data::ChatForm& form);

/// Returns the ids of each prompt, in `form` unless it is null. Throws Error(usage) or, for a prompt of a file,
/// Error(data) if a question or a prompt of a file is longer than the model's context allows.
std::vector<std::vector<int32_t>> ids_of_prompts(const data::Tokenizer& tokenizer, const data::ChatForm* form,
                                                 const std::vector<Prompt>& prompts, int64_t context);

}  // namespace hexad::app
