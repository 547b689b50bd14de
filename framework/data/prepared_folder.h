// Summary of a prepared folder: its inputs and options. It prevents making the same dataset twice and overwriting a
// different one.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "framework/data/digest.h"
#include "framework/data/prepare.h"

namespace hexad::data {

/// Names of all files of a prepared folder. A reader opens the first file first.
inline constexpr std::array<std::string_view, 4> prepared_file_names{train_file_name, tokenizer_file_name,
                                                                     heldout_file_name, summary_file_name};

/// Returns a digest of the requested dataset: equal requests make equal datasets. `inputs` is the digest of the text.
Digest request_digest(const PrepareOptions& options, Digest inputs);

/// Returns the text of summary.json, which lists every file that was taken or left out.
std::string summary_json(const PrepareOptions& options, Digest request, const PrepareSummary& summary);

/// Returns the result of an earlier run of the same request, if all its files still exist undamaged.
std::optional<PrepareSummary> earlier_run(const PrepareOptions& options, Digest request);

/// Throws Error(usage) if the folder holds a dataset, or part of one, from a different request. Accepts a damaged
/// dataset of the same request, which is then made again.
void refuse_to_replace(const PrepareOptions& options, Digest request);

}  // namespace hexad::data
