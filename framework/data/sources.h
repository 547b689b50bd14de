// Registered data sources, which a recipe may choose by name (data.source) instead of a prepared dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/named.h"
#include "framework/config/options.h"
#include "framework/data/source.h"

namespace hexad::data {

/// Properties of a run on which its data source depends.
struct SourceContext {
  int64_t context;  // number of tokens in a sequence
  int64_t vocab;    // size of the model's vocabulary; all ids must be smaller
  uint64_t seed;    // value of the recipe key train.seed
};

/// Arguments of the function that makes a source.
struct SourceSpec : SourceContext {
  config::Options options;

  /// Returns an option of data.source_options; `fallback` if it is not set. Throws std::logic_error if the option was
  /// not declared. number() throws Error(usage) if the recipe's value is not a finite number.
  double number(const std::string& name, double fallback) const { return options.number(name, fallback); }
  std::string text(const std::string& name, const std::string& fallback) const { return options.text(name, fallback); }
};

/// Data of a source: training sequences, which are repeated if there are finitely many, and optionally held-out
/// sequences.
struct NamedData {
  std::shared_ptr<const Source> train;
  std::shared_ptr<const Source> heldout = nullptr;  // finite; null if there are none
};

/// Function that makes a source. Every rank calls it, and all ranks must get the same sequences.
using SourceFactory = std::function<NamedData(const SourceSpec&)>;

/// A source that a recipe may choose: the options that it reads, and the function that makes it. A recipe with any
/// other option is rejected before a source is made.
struct SourceDeclaration {
  config::OptionNames options{};  // names of the options in data.source_options
  SourceFactory make;
};

/// Returns the recipe key that contains the options of the source `name`, and the name of their owner.
config::OptionsOwner source_options(const std::string& name);

/// Sources that a recipe may choose by data.source: synthetic (random tokens; also chosen by data.synthetic: true), and
/// the sources that a program adds.
class Sources : public base::Named<SourceDeclaration> {
 public:
  Sources();
  /// Makes a source and checks it. Throws Error(usage) for an unknown name or an undeclared option. Throws Error(data)
  /// if the source has no sequences, or if its sequences do not have run.context tokens. Also throws Error(data) if its
  /// sequence 0 differs when it is read again. Throws std::logic_error if the source has no training data. Errors that
  /// the source throws are passed on.
  /// Every sequence is checked when it is read. fill() throws Error(data) if an id or target is outside the vocabulary,
  /// or if the range of a document is invalid. The error names the sequence and the token.
  NamedData open(const std::string& name, const SourceContext& run,
                 const std::vector<config::TextOption>& options = {}) const;
};

}  // namespace hexad::data
