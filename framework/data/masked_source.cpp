#include "framework/data/masked_source.h"

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::data {
using namespace base;

void mask_for_mlm(const Row& row, int64_t sequence, const MaskingOptions& options) {
  const Philox choose(options.seed, Purpose::mask, "choose"), act(options.seed, Purpose::mask, "act"),
      replace(options.seed, Purpose::mask, "replace");
  for (size_t t = 0; t < row.ids.size(); ++t) {
    const uint64_t token = static_cast<uint64_t>(sequence) * row.ids.size() + t;
    const int32_t id = row.ids[t];
    row.targets[t] = ignored;
    if (id >= options.text_ids || choose.uniform_double(token) >= options.probability) continue;
    row.targets[t] = id;
    const uint64_t action = act.below(token, 10);
    if (action < 8) {
      row.ids[t] = options.mask_id;
    } else if (action == 8) {
      row.ids[t] = static_cast<int32_t>(replace.below(token, static_cast<uint64_t>(options.text_ids)));
    }
  }
}

MaskedSource::MaskedSource(std::shared_ptr<const Source> text, MaskingOptions options)
    : text_(std::move(text)), options_(options) {
  require(options_.probability > 0 && options_.probability <= 1, "[mlm] probability is ", options_.probability,
          "; expected above 0 and at most 1");
  require(options_.text_ids >= 1, "[mlm] text_ids is ", options_.text_ids, "; expected at least 1");
}

void MaskedSource::fill(int64_t index, const Row& row) const {
  text_->fill(index, row);
  mask_for_mlm(row, index, options_);
}

}  // namespace hexad::data
