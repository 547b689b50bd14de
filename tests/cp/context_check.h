// Compares attention over whole sequences with attention over ranks that share the sequences. The ranks may be threads
// or processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/cp/context_attention.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/support/names.h"

namespace hexad::tests {

using comm::ProcessGroup;
using cp::ContextAttention;
using cp::ContextKind;
using cp::ContextSplit;

inline constexpr ContextKind context_kinds[] = {ContextKind::ring, ContextKind::all_gather, ContextKind::ulysses};

struct Case {
  std::string name;
  ContextKind kind;
  int ranks;
  int64_t sequences, length, heads, groups, size;
  bool causal;
  /// Lengths of the packed documents. An empty list means that there are no documents. Sequence s takes its documents
  /// from entry s on, cyclically. The end of a sequence cuts its last document.
  std::vector<int64_t> documents = {};
  int64_t padding = 0;  // number of tokens at the end of each sequence that attend to nothing
  Dtype dtype = Dtype::f64;
  int64_t window = 0;

  double scale() const;
};
void PrintTo(const Case& c, std::ostream* out);
/// Returns the cases for a group of `ranks` ranks: masks, grouped queries, packed documents that cross pieces, padding,
/// windows, odd sizes, f32. Cases of Ulysses have heads that the ranks can divide.
std::vector<Case> context_cases(int ranks);

/// Inputs of attention, and the gradient of its output, for the whole micro-batch or for a rank's rows.
struct Given {
  Tensor q, k, v, dout;
};
struct Results {
  Tensor out, dq, dk, dv;
};

/// Returns random inputs. They are the same on every rank if `lab` is new.
Given random_micro_batch(Lab& lab, const Case& c);
Results full_attention(Lab& lab, const Case& c, const Given& whole);

/// Returns the ContextAttention of this rank.
ContextAttention context_of(Lab& lab, const Case& c, const ProcessGroup& group);
/// Returns the rows of `whole` for these tokens, on the lab's device.
Tensor rows_of(Lab& lab, const Tensor& whole, const std::vector<int64_t>& tokens);
Given rows_of(Lab& lab, const Given& whole, const std::vector<int64_t>& tokens);
Results results_of(Tape& tape, const Given& in, const std::function<Value(Value q, Value k, Value v)>& f);
/// Returns the results of forward and backward for this rank's rows, computed on `stream`.
Results context_results(Lab& lab, Stream& stream, const Case& c, const Given& whole, const ProcessGroup& group);

/// Expects this rank's results to be close to its rows of `expected`.
void expect_rows(Lab& lab, const Case& c, const Results& expected, const Results& mine, const ProcessGroup& group);

}  // namespace hexad::tests
