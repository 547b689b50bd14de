#include "framework/data/mixture_source.h"

#include "framework/base/error.h"

namespace hexad::data {
using namespace base;
namespace {

std::vector<double> weights_of(const std::vector<MixtureSource::Part>& parts) {
  std::vector<double> weights;
  for (const MixtureSource::Part& part : parts) weights.push_back(part.weight);
  return weights;
}

}  // namespace

MixtureSource::MixtureSource(std::vector<Part> parts, MixtureStart start)
    : parts_(std::move(parts)), division_(weights_of(parts_)), start_(std::move(start)) {
  for (size_t p = 0; p < parts_.size(); ++p) {
    const Source& source = *parts_[p].source;
    require(source.size() == endless && source.context() == context(), "[mixture] source ", p, " is ",
            source.size() == endless ? "endless" : "finite", ", with sequences of ", source.context(),
            " tokens; expected an endless source, with sequences of ", context(), " tokens");
  }
  require(start_.drawn.empty() || start_.drawn.size() == parts_.size(), "[mixture] the start has counts for ",
          start_.drawn.size(), " parts; expected ", parts_.size());
}

MixtureSource::Place MixtureSource::place(int64_t index) const {
  require(index >= start_.sequence, "[mixture] sequence ", index, " was drawn with earlier weights; expected at least ",
          start_.sequence);
  Place at = division_.place(index - start_.sequence);
  if (!start_.drawn.empty()) at.index += start_.drawn[at.part];
  return at;
}

int64_t MixtureSource::epoch(int64_t index) const {
  const Place at = place(index);
  return parts_[at.part].source->epoch(at.index);
}

void MixtureSource::fill(int64_t index, const Row& row) const {
  const Place at = place(index);
  parts_[at.part].source->fill(at.index, row);
}

ConcatenatedSource::ConcatenatedSource(std::vector<std::shared_ptr<const Source>> parts) : parts_(std::move(parts)) {
  require(!parts_.empty(), "[data] there are no sources to concatenate; expected at least one");
  for (const auto& part : parts_) {
    require(part->size() != endless && part->context() == context(), "[data] a concatenated source is ",
            part->size() == endless ? "endless" : "finite", ", with sequences of ", part->context(),
            " tokens; expected finite sources, with sequences of ", context(), " tokens, as in the first");
  }
}

int64_t ConcatenatedSource::size() const {
  int64_t total = 0;
  for (const auto& part : parts_) total += part->size();
  return total;
}

void ConcatenatedSource::fill(int64_t index, const Row& row) const {
  size_t p = 0;
  while (index >= parts_[p]->size()) index -= parts_[p++]->size();
  parts_[p]->fill(index, row);
}

}  // namespace hexad::data
