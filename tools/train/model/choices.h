// Multiple-choice questions, answered by the log-likelihoods of the choices as in lm-evaluation-harness.
#pragma once

#include <string>
#include <vector>

#include "framework/data/tokenizer.h"
#include "tools/train/model/likelihood.h"

namespace hexad::train {

struct ChoiceItem {
  int64_t line = 0;            // line of the file, from 1
  std::string context{};       // text before the choices
  std::string delimiter{" "};  // text between the context and a choice
  std::vector<std::string> choices{};
  int64_t gold = 0;  // index of the right choice
};

/// Reads a file with one JSON object per line: "context" or "query", "choices", "gold" and, optionally, "delimiter".
/// Throws Error(data) with file and line if an object is invalid, or if the file has none.
std::vector<ChoiceItem> read_choice_items(const std::string& path);

/// Returns a request for the log-likelihood of a choice after its context. White space at the end of the context
/// becomes the beginning of the continuation. Context and continuation are converted together, and the ids after those
/// of the context alone are predicted. A beginning-of-document precedes the text if the tokenizer has one. Without a
/// context, the beginning-of-document or, if there is none, the end-of-document is the context. The beginning of a text
/// that is longer than the model's `context` is cut off. Throws Error(data), with `place` as FILE:LINE, if the choice
/// has no id or more than `context`.
LikelihoodRequest choice_request(const data::Tokenizer& tokenizer, const ChoiceItem& item, size_t choice,
                                 int64_t context, const std::string& place);

/// Choices of the model for one item. The first of equal choices is chosen.
struct ChoiceAnswer {
  std::vector<double> log_likelihoods{};  // in nats, for each choice
  int64_t chosen = 0;                     // choice with the largest log-likelihood
  int64_t chosen_norm = 0;                // choice with the largest log-likelihood per byte, without the delimiter
};
/// Throws Error(numeric) if a log-likelihood is NaN, which no choice could be compared with.
ChoiceAnswer answer_of(const ChoiceItem& item, std::vector<double> log_likelihoods);

struct ChoiceScores {
  std::vector<ChoiceAnswer> answers{};
  double acc = 0, acc_norm = 0;  // shares of right answers: by log-likelihood, and by log-likelihood per byte
  int64_t tokens = 0;            // ids in the forward passes, without padding
};
/// Answers all items, which were read from `path`. Collective: all ranks pass the same items and get the same scores.
ChoiceScores score_choices(ModelInstance& instance, const Recipe& recipe, const data::Tokenizer& tokenizer,
                           const std::vector<ChoiceItem>& items, const std::string& path);

}  // namespace hexad::train
