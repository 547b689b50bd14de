#include "framework/data/data_use.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/data/mixture_source.h"

namespace hexad::data {

using namespace base;

std::vector<DatasetUse> dataset_uses(const TrainingData& data, int64_t sequences) {
  const std::vector<int64_t> drawn = data.mixture ? data.mixture->drawn(sequences) : std::vector{sequences};
  std::vector<DatasetUse> uses;
  for (size_t i = 0; i < data.datasets.size(); ++i) {
    const OpenedDataset& dataset = data.datasets[i];
    const auto seen = static_cast<double>(drawn[i]) * static_cast<double>(data.train->context());
    uses.push_back({.dataset = dataset,
                    .sequences = drawn[i],
                    .share = data.mixture ? data.mixture->division().share(i) : 1,
                    .epochs = seen / static_cast<double>(dataset.tokens)});
  }
  return uses;
}

std::vector<std::string> lines_of(const std::vector<DatasetUse>& uses) {
  std::vector<std::string> lines;
  for (const DatasetUse& use : uses)
    lines.push_back(fmt::format("{}: {} of the sequences, {:.2f} epochs of {} tokens in {} {}", use.dataset.path,
                                human_percent(use.share), use.epochs, grouped(use.dataset.tokens),
                                grouped(use.dataset.documents), plural(use.dataset.documents, "document")));
  return lines;
}

std::string data_manifest(const TrainingData& data, int64_t sequences, int64_t step) {
  using OrderedJson = nlohmann::ordered_json;
  const int64_t context = data.train->context();
  OrderedJson datasets = OrderedJson::array();
  for (const DatasetUse& use : dataset_uses(data, sequences))
    datasets.push_back({{"dataset", use.dataset.path},
                        {"fingerprint", use.dataset.fingerprint.to_string()},
                        {"documents", use.dataset.documents},
                        {"tokens", use.dataset.tokens},
                        {"share", use.share},
                        {"sequences", use.sequences},
                        {"seen_tokens", use.sequences * context},
                        {"epochs", use.epochs}});
  const OrderedJson json{{"step", step}, {"sequences", sequences}, {"context", context}, {"datasets", datasets}};
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hexad::data
