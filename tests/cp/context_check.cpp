#include "tests/cp/context_check.h"

#include <cmath>
#include <cstring>

#include "framework/base/enum_names.h"
#include "framework/tensor/host_read.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

struct Bounds {
  std::vector<int32_t> first, last;  // bounds for every token of the micro-batch; empty: no documents
};

Bounds bounds_of(const Case& c) {
  Bounds b;
  if (c.documents.empty()) return b;
  for (int64_t s = 0; s < c.sequences; ++s) {
    size_t document = s;
    for (int64_t begin = 0; begin < c.length;) {
      const int64_t end = std::min(begin + c.documents[document++ % c.documents.size()], c.length);
      for (int64_t i = begin; i < end; ++i) {
        const bool padding = i >= c.length - c.padding;
        b.first.push_back(static_cast<int32_t>(padding ? 0 : begin));
        b.last.push_back(static_cast<int32_t>(padding ? 0 : end));
      }
      begin = end;
    }
  }
  return b;
}

}  // namespace

double Case::scale() const { return 1 / std::sqrt(static_cast<double>(size)); }
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> context_cases(int ranks) {
  std::vector<Case> all;
  for (ContextKind kind : context_kinds) {
    const auto add = [&](Case c) {
      if (kind == ContextKind::ulysses && !cp::ulysses_fits(c.heads, c.groups, ranks)) return;
      c.name = cat(base::enum_name(kind), "_", ranks, "_", c.name);
      all.push_back(std::move(c));
    };
    const int64_t pieces = 2 * ranks;
    add({"causal", kind, ranks, 1, 3 * pieces, 12, 12, 4, true});
    add({"bidirectional", kind, ranks, 1, 3 * pieces, 12, 12, 4, false});
    add({"sequences", kind, ranks, 3, 5 * pieces, 12, 4, 3, true});
    add({"grouped_queries", kind, ranks, 2, 3 * pieces, 12, 2, 5, true});
    add({"one_key_head", kind, ranks, 2, 3 * pieces, 12, 1, 7, false});
    add({"one_token_a_piece", kind, ranks, 2, pieces, 12, 12, 4, false});
    add({"documents", kind, ranks, 2, 5 * pieces, 12, 4, 4, true, {7, 1, 4, 30}});
    add({"documents_bidirectional", kind, ranks, 2, 5 * pieces, 12, 1, 4, false, {7, 1, 4, 30}});
    add({"padding", kind, ranks, 2, 5 * pieces, 12, 12, 4, true, {7, 1, 4, 30}, 6});
    add({"padding_bidirectional", kind, ranks, 1, 5 * pieces, 12, 1, 4, false, {11, 40}, 6});
    add({"more_than_a_key_block", kind, ranks, 1, 131 * pieces, 12, 4, 4, true, {200, 5, 390}});
    for (const int64_t window : {int64_t{2}, int64_t{4}, 5 * pieces / 2, 5 * pieces - 1})
      add({cat("window_of_", window), kind, ranks, 2, 5 * pieces, 12, 4, 4, true, {}, 0, Dtype::f64, window});
    add({"window_of_documents", kind, ranks, 2, 5 * pieces, 12, 4, 4, true, {7, 1, 4, 30}, 0, Dtype::f64, 6});
    add({"f32", kind, ranks, 2, 5 * pieces, 12, 4, 4, true, {}, 0, Dtype::f32});
  }
  return all;
}

Results results_of(Tape& tape, const Given& in, const std::function<Value(Value q, Value k, Value v)>& f) {
  const Value q = tape.leaf(in.q), k = tape.leaf(in.k), v = tape.leaf(in.v), out = f(q, k, v);
  Replay replay(tape, std::vector<Replay::Root>{{out, in.dout}});
  replay.run();
  return {out.data, replay.take_gradient(q), replay.take_gradient(k), replay.take_gradient(v)};
}

Given random_micro_batch(Lab& lab, const Case& c) {
  const int64_t tokens = c.sequences * c.length;
  return {lab.randn({tokens, c.heads, c.size}, c.dtype), lab.randn({tokens, c.groups, c.size}, c.dtype),
          lab.randn({tokens, c.groups, c.size}, c.dtype), lab.randn({tokens, c.heads, c.size}, c.dtype)};
}

Results full_attention(Lab& lab, const Case& c, const Given& in) {
  const Bounds b = bounds_of(c);
  const auto tensor = [&](const std::vector<int32_t>& v) { return v.empty() ? Tensor{} : lab.values(v); };
  const auto policy = keep_policy();
  Tape tape(lab.stream(), *policy);
  return results_of(tape, in, [&](Value q, Value k, Value v) {
    return attention(tape, q, k, v, tensor(b.first), tensor(b.last),
                     {.sequences = c.sequences,
                      .queries = c.length,
                      .keys = c.length,
                      .scale = c.scale(),
                      .causal = c.causal,
                      .window = c.window});
  });
}

Tensor rows_of(Lab& lab, const Tensor& whole, const std::vector<int64_t>& tokens) {
  const Tensor all = to_host(whole),
               rows = Tensor::empty({static_cast<int64_t>(tokens.size()), whole.dim(1), whole.dim(2)}, whole.dtype(),
                                    lab.context.host());
  const int64_t bytes = whole.bytes() / whole.dim(0);
  for (size_t r = 0; r < tokens.size(); ++r)
    std::memcpy(static_cast<std::byte*>(rows.raw()) + static_cast<int64_t>(r) * bytes,
                static_cast<const std::byte*>(all.raw()) + tokens[r] * bytes, bytes);
  return on_device(rows, lab.context, Category::temporary);
}

Given rows_of(Lab& lab, const Given& in, const std::vector<int64_t>& tokens) {
  return {rows_of(lab, in.q, tokens), rows_of(lab, in.k, tokens), rows_of(lab, in.v, tokens),
          rows_of(lab, in.dout, tokens)};
}

ContextAttention context_of(Lab& lab, const Case& c, const ProcessGroup& group) {
  ContextAttention a{
      .split = {.sequences = c.sequences, .length = c.length, .ranks = group.size(), .rank = group.rank()},
      .kind = c.kind,
      .group = &group,
      .causal = c.causal,
      .scale = c.scale(),
      .window = c.window};
  const Bounds b = bounds_of(c);
  if (!b.first.empty()) a.first = lab.values(a.split.cut(b.first)), a.last = lab.values(a.split.cut(b.last));
  return a;
}

Results context_results(Lab& lab, Stream& stream, const Case& c, const Given& whole, const ProcessGroup& group) {
  const ContextAttention a = context_of(lab, c, group);
  const auto policy = keep_policy();
  Tape tape(stream, *policy);
  return results_of(tape, rows_of(lab, whole, a.split.tokens()),
                    [&](Value q, Value k, Value v) { return context_attention(tape, q, k, v, a); });
}

void expect_rows(Lab& lab, const Case& c, const Results& expected, const Results& mine, const ProcessGroup& group) {
  const auto tokens = context_of(lab, c, group).split.tokens();
  const double allowed = tolerance(c.dtype, c.length * c.heads / c.groups);
  const Zeros zeros = c.documents.empty() ? Zeros::mistrusted : Zeros::expected;
  for (Tensor Results::*t : {&Results::out, &Results::dq, &Results::dk, &Results::dv})
    expect_close(rows_of(lab, expected.*t, tokens), mine.*t, allowed, zeros);
}

}  // namespace hexad::tests
