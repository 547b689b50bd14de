// Data sources by the name that a recipe gives (data.source), beside prepared datasets.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/base/named.h"
#include "framework/config/options.h"
#include "framework/data/source.h"

namespace hexad::data {

/// Arguments that a source is made from.
struct SourceSpec {
  int64_t context;  // tokens in a sequence
  int64_t vocab;    // of the model: ids are below it
  uint64_t seed;    // train.seed
  config::Options options;

  /// From data.source_options, or `fallback`. Asked for while the source is made.
  double number(const std::string& name, double fallback) const { return options.number(name, fallback); }
  std::string text(const std::string& name, const std::string& fallback) const { return options.text(name, fallback); }
};

/// Data of a source: sequences to train on, repeated if they are finite, and optionally others to evaluate on.
struct NamedData {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> heldout = nullptr;  // finite
};

/// Every rank makes its own: all must get the same sequences.
using SourceFactory = std::function<NamedData(const SourceSpec&)>;

/// Sources that data.source may name: synthetic (random tokens; data.synthetic: true chooses it, too), and those that a
/// program adds.
class Sources : public base::Named<SourceFactory> {
 public:
  Sources();
  /// Makes the source and looks at it: Error(usage) for an unknown name or an option that it does not ask for,
  /// Error(data) for one that has no sequence, or gives another one when it is asked for the same a second time.
  /// Whatever is taken from it later is checked, too: ids outside of the vocabulary and documents that are none are
  /// Error(data) with sequence and token.
  NamedData open(const std::string& name, const SourceSpec& spec) const;
};

}  // namespace hexad::data
