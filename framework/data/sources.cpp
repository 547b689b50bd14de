#include "framework/data/sources.h"

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/data/synthetic_source.h"

namespace hexad::data {

using namespace base;

namespace {

// A source that checks the ids, targets and documents of another source's sequences. Embedding and loss do not check
// ids on a device. Repeats the sequences of a finite source endlessly if `repeats` is true.
class CheckedSource final : public Source {
 public:
  CheckedSource(std::string name, int64_t vocab, bool repeats, std::shared_ptr<const Source> source)
      : name_(std::move(name)),
        vocab_(vocab),
        repeats_(repeats && source->size() != endless),
        source_(std::move(source)) {}

  int64_t context() const override { return source_->context(); }
  int64_t size() const override { return repeats_ ? endless : source_->size(); }
  int64_t epoch(int64_t index) const override { return repeats_ ? index / source_->size() : source_->epoch(index); }
  void fill(int64_t index, const Row& row) const override {
    const int64_t there = repeats_ ? index % source_->size() : index;
    source_->fill(there, row);
    for (size_t t = 0; t < row.ids.size(); ++t) check(there, t, row);
  }

 private:
  void check(int64_t sequence, size_t t, const Row& row) const {
    const auto refuse = [&](const auto&... what) {
      fail(ExitCode::data, "data.source ", name_, ": sequence ", sequence, ", token ", t, ": ", what...);
    };
    if (row.ids[t] < 0 || row.ids[t] >= vocab_)
      refuse("id ", row.ids[t], " is outside the vocabulary (model.vocab: ", vocab_, "), expected 0 to ", vocab_ - 1);
    if (row.targets[t] < ignored || row.targets[t] >= vocab_)
      refuse("target ", row.targets[t], " is outside the vocabulary (model.vocab: ", vocab_, "), expected 0 to ",
             vocab_ - 1, ", or ", ignored, " for no target");
    const auto at = static_cast<int32_t>(t), end = static_cast<int32_t>(row.ids.size());
    if (row.first[t] < 0 || row.first[t] > at || row.last[t] <= at || row.last[t] > end)
      refuse("the document is tokens [", row.first[t], ", ", row.last[t],
             "), expected a range that contains the token, inside the sequence");
  }

  std::string name_;
  int64_t vocab_;
  bool repeats_;
  std::shared_ptr<const Source> source_;
};

std::vector<int32_t> contents(const Source& source, int64_t index) {
  Batch b = source.batch(index, 1);
  std::vector<int32_t> all;
  for (const auto* column : {&b.ids, &b.targets, &b.first, &b.last})
    all.insert(all.end(), column->begin(), column->end());
  return all;
}

// Throws Error(data) if sequence 0 differs when it is read again after sequence 1. Resumed runs and runs with another
// layout read sequences again, in a different order.
void require_addressable(const std::string& name, const Source& source) {
  const auto first = contents(source, 0);
  if (source.size() > 1) contents(source, 1);
  if (contents(source, 0) != first)
    fail(ExitCode::data, "data.source ", name,
         ": sequence 0 differs when it is read a second time; a sequence must depend only on its index");
}

}  // namespace

config::OptionsOwner source_options(const std::string& name) { return {"data.source_options", "the source " + name}; }

Sources::Sources()
    : Named("data sources", {{"synthetic", {.make = [](const SourceSpec& s) -> NamedData {
                                return {std::make_shared<SyntheticSource>(s.vocab, s.context, s.seed)};
                              }}}}) {}

NamedData Sources::open(const std::string& name, const SourceContext& run,
                        const std::vector<config::TextOption>& options) const {
  const SourceDeclaration* declared = find(name);
  if (!declared)
    fail(ExitCode::usage, "data.source (", config::shown(name),
         ") is not a registered source; registered: ", config::nearest_first(name, names()));
  NamedData data = declared->make({run, {source_options(name), declared->options, options}});
  require(data.train != nullptr, "[data] the factory of data.source ", name,
          " returned null as NamedData::train; expected a data::Source");
  const auto checked = [&](std::shared_ptr<const Source> source, bool repeats) -> std::shared_ptr<const Source> {
    if (source->context() != run.context)
      fail(ExitCode::data, "data.source ", name, ": has sequences of ", source->context(), " tokens, expected ",
           run.context, " (model.context)");
    if (source->size() < 1) fail(ExitCode::data, "data.source ", name, ": has no sequences, expected at least one");
    auto out = std::make_shared<CheckedSource>(name, run.vocab, repeats, std::move(source));
    require_addressable(name, *out);
    return out;
  };
  data.train = checked(std::move(data.train), true);
  if (data.heldout) data.heldout = checked(std::move(data.heldout), false);
  return data;
}

}  // namespace hexad::data
