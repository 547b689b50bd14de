// Registered data sources, which a recipe chooses by name (data.source) instead of a prepared dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/named.h"
#include "framework/config/options.h"
#include "framework/data/source.h"

namespace hexad::data {

/// Properties of a run that are passed to its source.
struct SourceContext {
  int64_t context;  // tokens in a sequence
  int64_t vocab;    // size of the model's vocabulary; ids are below it
  uint64_t seed;    // train.seed
};

/// Arguments for making a source.
struct SourceSpec : SourceContext {
  config::Options options;

  /// Return the value of data.source_options, or `fallback`. Throw std::logic_error if the option is not declared.
  double number(const std::string& name, double fallback) const { return options.number(name, fallback); }
  std::string text(const std::string& name, const std::string& fallback) const { return options.text(name, fallback); }
};

/// Data of a source: sequences to train on, repeated if they are finite, and optionally held-out sequences.
struct NamedData {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> heldout = nullptr;  // finite
};

/// Makes a source. Every rank calls it; all ranks must get the same sequences.
using SourceFactory = std::function<NamedData(const SourceSpec&)>;

/// A source that a recipe may choose: the options that it reads, and its factory. A recipe with other options is
/// rejected before any source is made.
struct SourceDeclaration {
  config::OptionNames options{};  // names of options in data.source_options
  SourceFactory make;
};

/// Returns key and owner of the options of the source `name`.
config::OptionsOwner source_options(const std::string& name);

/// Sources that data.source may name: synthetic (random tokens; data.synthetic: true also chooses it), and sources that
/// a program adds.
class Sources : public base::Named<SourceDeclaration> {
 public:
  Sources();
  /// Makes the source and checks it. Throws Error(usage) for an unknown name or an undeclared option. Throws
  /// Error(data) if the source has no sequence, or returns a different one when the same index is read again. Sequences
  /// that are read later are checked too: ids outside the vocabulary and invalid document ranges throw Error(data) with
  /// sequence and token.
  NamedData open(const std::string& name, const SourceContext& run,
                 const std::vector<config::TextOption>& options = {}) const;
};

}  // namespace hexad::data
