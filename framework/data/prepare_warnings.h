// Warnings about a prepared dataset.
#pragma once

#include <string>
#include <vector>

#include "framework/data/corpus.h"
#include "framework/data/prepare.h"

namespace hexad::data {

/// Returns warnings about files that were skipped or read in a possibly unintended form. Also warns if the held-out
/// part is too small or its share of the text is unexpected.
std::vector<std::string> warnings_of(const PrepareSummary& summary, const CorpusScan& scan,
                                     const PrepareOptions& options);

}  // namespace hexad::data
