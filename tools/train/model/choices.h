// Answers multiple-choice questions by the log-likelihood of each choice, as lm-evaluation-harness does.
#pragma once

#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "tools/train/model/likelihood.h"

namespace hexad::train {

struct ChoiceItem {
  int64_t line = 0;            // line number in the file, counted from 1
  std::string context{};       // text before the choices
  std::string delimiter{" "};  // text between the context and a choice
  std::vector<std::string> choices{};
  int64_t gold = 0;  // index of the right choice
};

/// Reads a file with one JSON object per line: "context" or "query", "choices", "gold" and, optionally, "delimiter".
/// Throws Error(data) with file and line if an object is invalid. Throws Error(data) if the file has no object or
/// cannot be read.
std::vector<ChoiceItem> read_choice_items(const std::string& path);

/// Returns a request for the log-likelihood of a choice after its context. Converts the text to ids as follows:
/// - White space at the end of the context becomes the beginning of the continuation.
/// - Context and continuation are converted together. The ids that follow the ids of the context alone are predicted.
/// - The id beginning-of-document precedes the text if the tokenizer has this id.
/// - A context of only white space is replaced by beginning-of-document or, if the tokenizer lacks this id, by
///   end-of-document.
/// - Only the last `context` + 1 ids of a longer text remain.
///
/// Throws Error(data) if the choice adds no id to the context, or if more than `context` ids are predicted. The message
/// begins with `place`, FILE:LINE.
LikelihoodRequest choice_request(const data::Tokenizer& tokenizer, const ChoiceItem& item, size_t choice,
                                 int64_t context, const std::string& place);

/// The model's answer to one item. Among equally likely choices, the first one is chosen.
struct ChoiceAnswer {
  std::vector<double> log_likelihoods{};  // in nats, for each choice
  int64_t chosen = 0;                     // index of the choice with the largest log-likelihood
  int64_t chosen_norm = 0;   // index of the choice with the largest log-likelihood per character, without the delimiter
  int64_t chosen_bytes = 0;  // index of the choice with the largest log-likelihood per byte, without the delimiter
};
/// Returns the answer. Throws Error(numeric) if a log-likelihood is NaN, because choices then cannot be compared.
ChoiceAnswer answer_of(const ChoiceItem& item, std::vector<double> log_likelihoods);

struct ChoiceScores {
  std::vector<ChoiceAnswer> answers{};
  // Shares of right answers: by log-likelihood, by log-likelihood per character, and by log-likelihood per byte.
  double acc = 0, acc_norm = 0, acc_bytes = 0;
  int64_t tokens = 0;  // ids in the forward passes, without padding
};
/// Answers all items, which were read from `path`. Throws like choice_request() and answer_of(). Collective: all ranks
/// pass the same items and get the same scores.
ChoiceScores score_choices(ModelInstance& instance, const Recipe& recipe, const data::Tokenizer& tokenizer,
                           const std::vector<ChoiceItem>& items, const std::string& path);

}  // namespace hexad::train
