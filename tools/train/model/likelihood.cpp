#include "tools/train/model/likelihood.h"

#include <algorithm>
#include <numeric>

#include "framework/tensor/host_read.h"
#include "tools/train/model/model_pipeline.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

int64_t inputs_of(const LikelihoodRequest& r) { return std::ssize(r.ids) - 1; }

// Returns the number of requests in a micro-batch. The number is 1 in two cases:
// - Experts have a capacity per micro-batch: tokens of one request could displace tokens of another request.
// - The index of a token determines its experts: a request's experts would depend on earlier requests.
int64_t requests_together(const Recipe& recipe) {
  const moe::MoeConfig& m = recipe.model.moe;
  const bool share_capacity = m.capacity_factor && m.capacity_scope == moe::CapacityScope::micro_batch;
  const bool apart = m.experts > 0 && (share_capacity || m.routing != moe::Routing::model);
  return apart ? 1 : recipe.batch.micro;
}

// Computes all requests, sorted by length, so that a micro-batch has requests of similar length.
class Computation {
 public:
  Computation(ModelInstance& instance, const Recipe& recipe, std::span<const LikelihoodRequest> requests)
      : instance_(instance),
        micro_(requests_together(recipe)),
        requests_(requests),
        policy_(keep_policy()),
        pipeline_(recipe, instance, *policy_),
        order_(requests.size()),
        sums_(requests.size(), 0) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_,
                             [&](size_t a, size_t b) { return inputs_of(requests_[a]) > inputs_of(requests_[b]); });
  }

  std::vector<double> run() {
    const auto& mesh = instance_.mesh;
    const size_t micro = micro_, ranks = mesh.size(Axis::dp);
    const size_t at_once = 4 * static_cast<size_t>(mesh.size(Axis::pp));  // enough to fill a pipeline
    // All ranks run the same passes with the same lengths, because experts are shared among ranks.
    for (size_t begin = 0; begin < order_.size(); begin += at_once * micro * ranks) {
      const int64_t length = padded(inputs_of(requests_[order_[begin]]));
      std::vector<MicroBatch> batches;
      std::vector<size_t> firsts;
      for (size_t i = 0; i < at_once && begin + i * micro * ranks < order_.size(); ++i) {
        firsts.push_back(begin + (i * ranks + static_cast<size_t>(mesh.coordinate(Axis::dp))) * micro);
        batches.push_back(batch_of(firsts.back(), length));
      }
      const std::vector<Tensor> losses = pipeline_.row_losses(batches);
      for (size_t i = 0; i < batches.size(); ++i)
        if (losses[i].defined() && mesh.coordinate(Axis::tp) == 0) subtract(losses[i], batches[i], firsts[i]);
    }
    if (sums_.empty()) return {};
    Stream& stream = instance_.context.compute();
    const Tensor all = Tensor::from<double>(sums_, {std::ssize(sums_)}, instance_.context);
    stream.wait(mesh.world().all_reduce(all, comm::Reduce::sum, stream));
    const HostRead read = read_to_host("evaluation: log-likelihoods", all, stream);
    const auto values = read.wait<double>();
    return {values.begin(), values.end()};
  }

 private:
  // Returns `length`, rounded up to a multiple of tp, or of 2 x tp x cp if cp is larger than 1 (see cp::ContextSplit).
  int64_t padded(int64_t length) const {
    const auto& mesh = instance_.mesh;
    const int64_t unit = mesh.size(Axis::tp) * (mesh.size(Axis::cp) > 1 ? 2 * mesh.size(Axis::cp) : 1);
    return (length + unit - 1) / unit * unit;
  }

  const LikelihoodRequest* request_at(size_t place) const {
    return place < order_.size() ? &requests_[order_[place]] : nullptr;
  }

  // Returns a micro-batch of the requests from position `first` of order_ on, each padded at its end to `length`.
  MicroBatch batch_of(size_t first, int64_t length) const {
    const int64_t context = instance_.model.config().context;
    data::Batch batch(micro_, length);
    std::ranges::fill(batch.ids, 0);
    std::ranges::fill(batch.targets, data::ignored);
    std::ranges::fill(batch.first, 0);
    std::ranges::fill(batch.last, static_cast<int32_t>(length));
    std::vector<int64_t> valid(micro_, 0);
    for (int64_t s = 0; s < micro_; ++s) {
      const int64_t row = s * length;
      for (int64_t t = 0; t < length; ++t)  // positions of padding must also be below the context
        batch.positions[row + t] = static_cast<int32_t>(std::min(t, context - 1));
      const LikelihoodRequest* r = request_at(first + s);
      if (!r) continue;
      valid[s] = inputs_of(*r);
      std::copy(r->ids.begin(), r->ids.end() - 1, batch.ids.begin() + row);
      for (int64_t t = valid[s] - r->predicted; t < valid[s]; ++t) batch.targets[row + t] = r->ids[t + 1];
    }
    const auto& mesh = instance_.mesh;
    // The indices of tokens begin at 0 in every micro-batch. A request's experts therefore do not depend on its
    // position in order_.
    MicroBatch out =
        make_micro_batch(batch, 0, micro_, instance_.context, {mesh.size(Axis::cp), mesh.coordinate(Axis::cp)}, 0,
                         instance_.model.config().attention_chunk);
    std::vector<uint8_t> flags;
    for (int64_t r = 0; r < out.rows(); ++r) flags.push_back(out.token(r) % length < valid[out.token(r) / length]);
    out.valid = Tensor::from<uint8_t>(flags, {out.rows()}, instance_.context);
    out.valid_tokens = std::move(valid);
    return out;
  }

  // Subtracts the losses of this rank's rows from the sums of their requests. Rows without a target have no loss.
  void subtract(const Tensor& losses, const MicroBatch& batch, size_t first) {
    with_dtype<float, double>("log_likelihoods", losses.dtype(), [&]<class T>() {
      const HostRead read = read_to_host("evaluation: losses", losses, instance_.context.compute());
      const auto values = read.wait<T>();
      for (int64_t r = 0; r < batch.rows(); ++r) {
        const int64_t sequence = batch.token(r) / batch.length, t = batch.token(r) % batch.length;
        const LikelihoodRequest* request = request_at(first + sequence);
        if (!request || t >= inputs_of(*request) || t < inputs_of(*request) - request->predicted) continue;
        sums_[order_[first + sequence]] -= static_cast<double>(values[r]);
      }
    });
  }

  ModelInstance& instance_;
  const int64_t micro_;  // number of requests in a micro-batch
  const std::span<const LikelihoodRequest> requests_;
  const std::unique_ptr<SavePolicy> policy_;
  ModelPipeline pipeline_;
  std::vector<size_t> order_;
  std::vector<double> sums_;
};

}  // namespace

std::vector<double> log_likelihoods(ModelInstance& instance, const Recipe& recipe,
                                    std::span<const LikelihoodRequest> requests) {
  const int64_t context = instance.model.config().context;
  for (const LikelihoodRequest& r : requests)
    require(1 <= r.predicted && r.predicted <= inputs_of(r) && inputs_of(r) <= context, "[log_likelihoods] ",
            r.predicted, " of ", r.ids.size(), " ids are predicted; expected from 1 to ", inputs_of(r),
            " predicted ids, and from 2 to ", context + 1, " ids");
  return Computation(instance, recipe, requests).run();
}

}  // namespace hexad::train
