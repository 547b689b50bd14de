#include "tools/train/data_on_ranks.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/failure.h"
#include "parallel/comm/text_collectives.h"
#include "tools/train/process/first_failure.h"

namespace hexad::train {

using namespace base;
namespace {

bool is_lowest_of_node(const comm::ProcessGroup& world) {
  const std::vector<int>& nodes = world.node_of_rank();
  const auto mine = nodes.begin() + world.rank();
  return std::find(nodes.begin(), mine, *mine) == mine;
}

// Compares the datasets of this rank with those of rank 0. Collective.
Failure difference(const data::TrainingData& data, const comm::ProcessGroup& world) {
  std::string mine;
  for (const data::Digest& fingerprint : data.fingerprints) mine += fingerprint.to_string();
  device::DeviceContext host;
  const std::string first = comm::broadcast_text(mine, 0, world, host);
  for (size_t i = 0; i < data.fingerprints.size(); ++i) {
    const std::string here = data.fingerprints[i].to_string(), there = first.substr(i * here.size(), here.size());
    if (here != there)
      return {cat(data.datasets[i].path, ": rank ", world.rank(), " has another dataset than rank 0: fingerprint ",
                  here, ", expected ", there, "; copy the same files to all nodes"),
              ExitCode::data};
  }
  return {};
}

}  // namespace

data::TrainingData open_data_on_ranks(const Recipe& recipe, const Extensions& extensions,
                                      const comm::ProcessGroup& world, const FileWork& work) {
  data::DataConfig config = recipe.data;
  if (!is_lowest_of_node(world)) config.check = data::DatasetCheck::structure;
  std::optional<data::TrainingData> data;
  const Failure failure = attempted([&] {
    data = data::open_training_data(
        config,
        {.context = recipe.model.context, .vocab_size = recipe.model.vocab, .seed = recipe.train.seed, .work = work},
        extensions.sources);
  });
  throw_first(failure, world);
  throw_first(difference(*data, world), world);
  return std::move(*data);
}

}  // namespace hexad::train
