// Summary of a prepared folder (summary.json): inputs, options and results. prepare() uses the summary to skip a
// dataset that already exists, and to overwrite a different dataset only with --force.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/data/digest.h"
#include "framework/data/prepare.h"

namespace hexad::data {

/// Largest size of summary.json in bytes. It suffices to list millions of files.
inline constexpr int64_t largest_summary = int64_t{1} << 30;

/// Names of all files of a prepared folder. StagedFiles::commit() moves train.hxd away before the other files, and into
/// place after them. While train.hxd exists, the other files therefore belong to the same dataset.
inline constexpr std::array<std::string_view, 4> prepared_file_names{train_file_name, tokenizer_file_name,
                                                                     heldout_file_name, summary_file_name};

/// Returns a digest of the requested dataset: equal requests result in equal datasets. `inputs` is the digest of the
/// text.
Digest request_digest(const PrepareOptions& options, Digest inputs);

/// Returns the settings of a preparation by their names on the command line, as a JSON object.
std::string settings_json(const PrepareOptions& options);

/// Returns the settings that were different in an earlier preparation, for a message; "the text" if none differ.
/// Returns a text that says so if `record` has no settings.
/// `record` is a JSON object of the earlier preparation. Its member `settings` is a result of settings_json().
std::string differences_to(const std::string& record, const PrepareOptions& options);

/// Returns the text of summary.json, which lists every file that was taken or skipped.
std::string summary_json(const PrepareOptions& options, Digest request, const PrepareSummary& summary);

/// Returns the result of an earlier run of the same request if all of its files still exist undamaged, otherwise
/// nullopt. The members `inputs`, `warnings` and `resumed_documents` are not set.
std::optional<PrepareSummary> earlier_run(const PrepareOptions& options, Digest request);

/// Throws Error(usage) if the folder contains a dataset, or a part of a dataset, from a different request. Files
/// without a readable summary count as a different request. A damaged dataset of the same request is accepted, because
/// prepare() makes it again.
void refuse_to_replace(const PrepareOptions& options, Digest request);

}  // namespace hexad::data
