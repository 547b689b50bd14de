// Ulysses attention (DeepSpeed Ulysses, Jacobs et al. 2023), which exchanges tokens for heads. After all-to-alls of q,
// k and v, a rank has the whole sequences for a part of the heads. It computes plain attention for these heads. Another
// all-to-all returns the result.
#include <algorithm>

#include "parallel/cp/kinds.h"
#include "parallel/cp/sequence_rows.h"

namespace hexad::cp {

using device::Category;
using namespace autograd;
using namespace base;

namespace {

// Conversion between two forms of a tensor. One form has all heads of this rank's rows: [R, H, C], in the order of the
// split. The other form has this rank's heads of all tokens: [S * L, heads, C] for S sequences of L tokens, in the
// order of the sequences. Several ranks have a copy of the same head if there are fewer heads than ranks.
class HeadExchange {
 public:
  HeadExchange(const ContextAttention& c, int64_t heads)
      : split_(c.split), group_(c.group), all_(heads), mine_(std::max<int64_t>(heads / c.split.ranks, 1)) {}

  InFlight send_heads(const Tensor& x, Stream& stream) const {
    const Tensor pieces = buffer(x);
    const auto& copy = kernels::kernels(x.device()).pointwise.copy;
    for (int r = 0; r < split_.ranks; ++r) copy(stream, piece(pieces, r), x.slice(1, first(r), first(r) + mine_));
    return exchange(pieces, stream);
  }
  Tensor receive_heads(const InFlight& pieces, Stream& stream) const {
    stream.wait(pieces.arrived);
    return in_sequence_order(pieces.data, split_, stream);
  }

  InFlight send_tokens(const Tensor& y, Stream& stream) const {
    return exchange(in_rank_order(y, split_, stream), stream);
  }
  /// Receives the tokens and adds the copies of a head, in the accumulator dtype. After send_tokens(), this is the
  /// adjoint of receive_heads(send_heads(x)).
  Tensor receive_tokens(const InFlight& pieces, Stream& stream) const {
    stream.wait(pieces.arrived);
    const Tensor& y = pieces.data;
    const auto& pointwise = kernels::kernels(y.device()).pointwise;
    const Tensor x = Tensor::empty({split_.rows(), all_, y.dim(2)}, y.dtype(), y.device());
    for (int r = 0; r < split_.ranks;) {
      const int64_t head = first(r);
      const Tensor to = x.slice(1, head, head + mine_);
      if (all_ >= split_.ranks) {
        pointwise.copy(stream, to, piece(y, r++));
        continue;
      }
      const Tensor sum = Tensor::empty(to.shape(), accumulator_dtype(y.dtype()), y.device());
      pointwise.copy(stream, sum, piece(y, r++));
      for (; r < split_.ranks && first(r) == head; ++r) pointwise.axpy(stream, sum, 1, piece(y, r));
      pointwise.copy(stream, to, sum);
    }
    return x;
  }

  /// Returns this rank's first head.
  int64_t first_head() const { return first(split_.rank); }

 private:
  int64_t first(int rank) const { return rank * all_ / split_.ranks; }
  Tensor buffer(const Tensor& like) const {
    return Tensor::empty({split_.ranks * split_.rows(), mine_, like.dim(2)}, like.dtype(), like.device(),
                         Category::communication);
  }
  // Returns the rows of `pieces` that are sent to, or received from, rank `r`.
  Tensor piece(const Tensor& pieces, int r) const {
    return pieces.slice(0, r * split_.rows(), (r + 1) * split_.rows());
  }
  InFlight exchange(const Tensor& pieces, Stream& stream) const {
    const std::vector<int64_t> rows(split_.ranks, split_.rows());
    const Tensor received = buffer(pieces);
    return {received, group_->all_to_all(received, pieces, {rows, rows}, stream)};
  }

  ContextSplit split_;
  const comm::ProcessGroup* group_;
  int64_t all_, mine_;  // number of heads on all ranks, and on this rank
};

// Gathers the entries of `first` or `last` for all tokens.
Tensor whole(const Tensor& bounds, const ContextAttention& c, Stream& stream) {
  if (!bounds.defined()) return {};
  const InFlight all = gather_rows(bounds.reshape({c.split.rows(), 1}), *c.group, stream);
  stream.wait(all.arrived);
  return in_sequence_order(all.data, c.split, stream);
}

}  // namespace

Value ulysses_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c) {
  const HeadExchange queries(c, q.data.dim(1)), keys(c, k.data.dim(1));
  const InFlight moving[] = {queries.send_heads(q.data, tape.stream), keys.send_heads(k.data, tape.stream),
                             keys.send_heads(v.data, tape.stream)};
  const std::vector<Tensor> whole_qkv = {queries.receive_heads(moving[0], tape.stream),
                                         keys.receive_heads(moving[1], tape.stream),
                                         keys.receive_heads(moving[2], tape.stream)};
  const std::vector<Value> qkv = tape.record_many(
      "ulysses_heads", whole_qkv, std::vector{q, k, v}, {}, [queries, keys](Backward& b, const Tensor&, const Saved&) {
        const InFlight back[] = {queries.send_tokens(b.output_gradient(0), b.stream),
                                 keys.send_tokens(b.output_gradient(1), b.stream),
                                 keys.send_tokens(b.output_gradient(2), b.stream)};
        b.accumulate(0, queries.receive_tokens(back[0], b.stream));
        b.accumulate(1, keys.receive_tokens(back[1], b.stream));
        b.accumulate(2, keys.receive_tokens(back[2], b.stream));
      });
  const Value out =
      attention(tape, qkv[0], qkv[1], qkv[2], whole(c.first, c, tape.stream), whole(c.last, c, tape.stream),
                {.sequences = c.split.sequences,
                 .queries = c.split.length,
                 .keys = c.split.length,
                 .scale = c.scale,
                 .causal = c.causal,
                 .deterministic = c.deterministic,
                 .documents = c.documents,
                 .window = c.window,
                 .value_size = c.value_size},
                c.sinks.from(queries.first_head()));
  const Tensor mine = queries.receive_tokens(queries.send_tokens(out.data, tape.stream), tape.stream);
  return tape.record("ulysses_tokens", mine, {out}, {}, [queries](Backward& b, const Tensor& dout, const Saved&) {
    b.accumulate(0, queries.receive_heads(queries.send_heads(dout, b.stream), b.stream));
  });
}

}  // namespace hexad::cp
