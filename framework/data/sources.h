// Data sources by the name that a recipe gives (data.source), beside prepared datasets.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/named.h"
#include "framework/config/options.h"
#include "framework/data/source.h"

namespace hexad::data {

/// Facts of a run that a source is made for.
struct SourceContext {
  int64_t context;  // tokens in a sequence
  int64_t vocab;    // of the model: ids are below it
  uint64_t seed;    // train.seed
};

/// Arguments for making a source.
struct SourceSpec : SourceContext {
  config::Options options;

  /// From data.source_options, or `fallback`. These throw std::logic_error for an option that is not declared.
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

/// A source that a recipe may choose: the options that it reads, and how it is made. A recipe with other options is
/// refused before any source is made.
struct SourceDeclaration {
  config::OptionNames options{};  // in data.source_options
  SourceFactory make;
};

/// Key and owner of the options of the source `name`.
config::OptionsOwner source_options(const std::string& name);

/// Sources that data.source may name: synthetic (random tokens; data.synthetic: true chooses it, too), and those that a
/// program adds.
class Sources : public base::Named<SourceDeclaration> {
 public:
  Sources();
  /// Makes the source and looks at it: Error(usage) for an unknown name or an option that it does not declare,
  /// Error(data) for one that has no sequence, or gives another one when it is asked for the same a second time.
  /// Whatever is taken from it later is checked, too: ids outside of the vocabulary and documents that are none are
  /// Error(data) with sequence and token.
  NamedData open(const std::string& name, const SourceContext& run,
                 const std::vector<config::TextOption>& options = {}) const;
};

}  // namespace hexad::data
