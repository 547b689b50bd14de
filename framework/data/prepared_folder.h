// Summary of a prepared folder: its inputs and options, so that the same dataset is not made twice and a different one
// is not overwritten.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "framework/data/digest.h"
#include "framework/data/prepare.h"

namespace hexad::data {

/// Names of all files of a prepared folder. A reader of the folder begins with the first.
inline constexpr std::array<std::string_view, 4> prepared_file_names{train_file_name, tokenizer_file_name,
                                                                     heldout_file_name, summary_file_name};

/// Identifies what would be made: equal requests make equal datasets. `inputs` is the digest of the text.
Digest request_digest(const PrepareOptions& options, Digest inputs);

/// The text of summary.json, which lists every file that was taken or left out.
std::string summary_json(const PrepareOptions& options, Digest request, const PrepareSummary& summary);

/// Returns the result of an earlier run of the same request, if all its files are still there and undamaged.
std::optional<PrepareSummary> earlier_run(const PrepareOptions& options, Digest request);

/// Throws Error(usage) when the folder holds a dataset, or part of one, and it was not made from the same request. What
/// was may be damaged, and is then made again.
void refuse_to_replace(const PrepareOptions& options, Digest request);

}  // namespace hexad::data
