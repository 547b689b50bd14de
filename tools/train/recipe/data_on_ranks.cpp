#include "tools/train/recipe/data_on_ranks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/counted.h"
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

std::string rank_has(const comm::ProcessGroup& world) { return cat("rank ", world.rank(), " has "); }

// Returns a failure if this rank's datasets, or its number of held-out sequences, differ from those of rank 0.
// Collective.
Failure difference(const data::TrainingData& data, const comm::ProcessGroup& world) {
  constexpr size_t digest_length = 32;  // length of the text of Digest::to_string()
  constexpr std::string_view remedy = "; copy the same files to all nodes";
  const int64_t heldout = data.heldout ? data.heldout->size() : 0;
  std::string mine;
  for (const data::Digest& fingerprint : data.fingerprints) mine += fingerprint.to_string();
  device::DeviceContext host;
  const std::string first = comm::broadcast_text(mine, 0, world, host);
  const std::string first_heldout = comm::broadcast_text(cat(heldout), 0, world, host);
  if (first.size() != mine.size())
    return {cat("data: ", rank_has(world), counted(std::ssize(data.fingerprints), "dataset"), ", but rank 0 has ",
                first.size() / digest_length, "; expected the same datasets on all ranks"),
            ExitCode::data};
  for (size_t i = 0; i < data.fingerprints.size(); ++i) {
    const std::string here = data.fingerprints[i].to_string(), there = first.substr(i * digest_length, digest_length);
    if (here != there)
      return {cat(data.datasets[i].path, ": ", rank_has(world), "a different dataset from rank 0: fingerprint ", here,
                  ", expected ", there, remedy),
              ExitCode::data};
  }
  if (cat(heldout) != first_heldout)
    return {cat("data: ", rank_has(world), counted(heldout, "held-out sequence"), ", but rank 0 has ", first_heldout,
                remedy),
            ExitCode::data};
  return {};
}

}  // namespace

data::TrainingData open_data_on_ranks(const Recipe& recipe, const Extensions& extensions,
                                      const comm::ProcessGroup& world, const FileWork& work,
                                      const data::MixtureStart& mixture_start) {
  data::DataConfig config = recipe.data;
  if (!is_lowest_of_node(world)) config.check = data::DatasetCheck::structure;
  std::optional<data::TrainingData> data;
  const Failure failure = attempted([&] {
    data = data::open_training_data(config,
                                    {.context = recipe.model.context,
                                     .vocab_size = recipe.model.vocab,
                                     .seed = recipe.train.seed,
                                     .work = work,
                                     .mixture_start = mixture_start},
                                    extensions.sources);
  });
  throw_first(failure, world);
  throw_first(difference(*data, world), world);
  return std::move(*data);
}

}  // namespace hexad::train
