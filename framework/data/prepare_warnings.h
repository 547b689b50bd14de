// Warnings about a prepared dataset.
#pragma once

#include <string>
#include <vector>

#include "framework/data/corpus.h"
#include "framework/data/prepare.h"
#include "framework/data/tokenizer.h"

namespace hexad::data {

/// Returns warnings about:
/// - files that were read as text, but are probably JSON lines, JSON with another key, or damaged JSON;
/// - bytes or characters that the tokenizer leaves out;
/// - marks of the chat form that the tokenizer spells as text;
/// - patterns that match no file;
/// - skipped binary files whose text can be extracted;
/// - a held-out part that is too small, or whose share of the text is unexpected.
std::vector<std::string> warnings_of(const PrepareSummary& summary, const CorpusScan& scan,
                                     const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace hexad::data
