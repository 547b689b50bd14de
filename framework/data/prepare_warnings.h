// Warnings about a prepared dataset.
#pragma once

#include <string>
#include <vector>

#include "framework/data/corpus.h"
#include "framework/data/prepare.h"

namespace hexad::data {

/// Returns warnings about files that were taken in an unexpected way or not taken, and about a held-out part that is
/// too small or has an unexpected share of the text.
std::vector<std::string> warnings_of(const PrepareSummary& summary, const CorpusScan& scan,
                                     const PrepareOptions& options);

}  // namespace hexad::data
