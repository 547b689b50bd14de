// Prompts of `hexad generate`: texts to continue, or questions to a chat model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/conversation.h"
#include "framework/data/packed_source.h"
#include "framework/data/tokenizer.h"

namespace hexad::app {

struct Prompt {
  std::string text{};
  std::string system{};  // instructions before a question; only with a chat form
  std::string place{};   // FILE:LINE of the prompt; empty if it was given on the command line
  bool own_system{};     // true if `system` is from the line of the file, not from the command line
};

/// Reads a file with one prompt per line, and skips blank lines. If the name ends in .jsonl, .ndjson or .json, each
/// line is an object with "prompt". If `chat` is true, the object may also have "system". The argument `system` is the
/// default of "system". Throws Error(data) if a line is invalid (the message names file and line), or if there is no
/// prompt.
std::vector<Prompt> read_prompts(const std::string& path, const std::string& system, bool chat);

/// Returns the ids of a question in a chat form, up to the mark before the answer. Encodes like `hexad prepare`. The id
/// that precedes a text in training comes first (train::begin_prompt()). Throws if the form cannot write the prompt,
/// for example because the form has no system role. The error is Error(data) if the rejected text is from a file, and
/// Error(usage) if the text is from the command line.
std::vector<int32_t> chat_prompt(const data::Tokenizer& tokenizer, const data::ConversationForm& form,
                                 const Prompt& prompt, data::Packing packing);

/// Returns the ids of the mark that ends an answer, up to and including its first special token. If the mark has no
/// special token, returns all of its ids. If the form has no such mark, returns an empty list.
std::vector<int32_t> end_of_answer(const data::Tokenizer& tokenizer, const data::ConversationForm& form);

/// Properties of the model on which prompts depend.
struct PromptRules {
  int64_t context;        // model.context
  data::Packing packing;  // data.packing of the run
};

/// Returns the ids of each prompt, formatted with `form` if `form` is not null. Questions and prompts from a file must
/// not be longer than the model's context allows. Throws Error(data) for a prompt from a file, otherwise Error(usage).
std::vector<std::vector<int32_t>> ids_of_prompts(const data::Tokenizer& tokenizer, const data::ConversationForm* form,
                                                 const std::vector<Prompt>& prompts, const PromptRules& rules);

}  // namespace hexad::app
