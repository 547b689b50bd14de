// Numbers of sequences and epochs that a run takes from each dataset, and the text of data.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/training_data.h"

namespace hexad::data {

/// Use of one dataset by a run.
struct DatasetUse {
  OpenedDataset dataset;
  int64_t sequences = 0;  // number of training sequences drawn from the dataset
  double share = 1;       // fraction of the sequences, by the present weights of the mixture
  double epochs = 0;      // number of passes over the dataset
};

/// Returns the use of each dataset in the first `sequences` training sequences, in the order of the recipe; empty for a
/// registered source. Sequences that were drawn with earlier weights are included. `sequences` must be at least the
/// number of sequences that were drawn with earlier weights.
std::vector<DatasetUse> dataset_uses(const TrainingData& data, int64_t sequences);

/// Returns a line for each dataset, such as
/// "data/books: 75.0% of the sequences, 1.20 epochs of 65,000 tokens in 200 documents".
std::vector<std::string> lines_of(const std::vector<DatasetUse>& uses);

/// Returns the text of a run's data.json. The text describes the data of the first `sequences` sequences. The run has
/// used these sequences after `step` steps.
std::string data_manifest(const TrainingData& data, int64_t sequences, int64_t step);

}  // namespace hexad::data
