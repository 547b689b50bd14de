// Opens the training data on all ranks.
#pragma once

#include "framework/base/file_work.h"
#include "framework/data/training_data.h"
#include "parallel/comm/process_group.h"
#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

/// Opens the data of the recipe on all ranks. Under `data.check: everything`, only the lowest rank of each node reads
/// the whole files, and reports its progress to `work`. The other ranks check only the structure of the files. If any
/// rank fails, all ranks throw like data::open_training_data(). Throws Error(data) on all ranks if two ranks have
/// different datasets or numbers of held-out sequences, because their nodes have different copies. The weights of a
/// mixture apply from `mixture_start` on. Collective.
data::TrainingData open_data_on_ranks(const Recipe& recipe, const Extensions& extensions,
                                      const comm::ProcessGroup& world, const base::FileWork& work,
                                      const data::MixtureStart& mixture_start = {});

}  // namespace hexad::train
