#include "tools/train/model/evaluation.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numbers>

#include "framework/tensor/host_read.h"
#include "tools/train/model/model_pipeline.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

// Returns the index, in the source, of the i-th of `count` evaluated sequences.
int64_t sequence_at(int64_t i, int64_t count, const data::Source& source) {
  if (source.size() == data::Source::endless) return i;
  return i * (source.size() / count) + i * (source.size() % count) / count;
}

}  // namespace

Evaluation evaluate(ModelInstance& instance, const Recipe& recipe, const data::Source& source, int64_t sequences,
                    std::span<const int32_t> bytes_per_id) {
  const auto start = std::chrono::steady_clock::now();
  const mesh::Mesh& mesh = instance.mesh;
  const int64_t total = sequences > 0 ? std::min(sequences, source.size()) : source.size();
  const int64_t micro = recipe.batch.micro, ranks = mesh.size(Axis::dp);
  const auto policy = keep_policy();
  ModelPipeline pipeline(recipe, instance, *policy);
  const bool counts =
      mesh.coordinate(Axis::pp) == 0 && mesh.coordinate(Axis::tp) == 0 && mesh.coordinate(Axis::cp) == 0;
  const Tensor losses = Tensor::zeros({1}, Dtype::f64, instance.device());  // added on the device, and read once
  double targets = 0, bytes = 0;
  const int64_t rounds = (total + micro * ranks - 1) / (micro * ranks);
  const int64_t at_once = 4 * mesh.size(Axis::pp);  // enough to fill a pipeline
  // All ranks run the same number of passes, because experts are shared among ranks. Sequences past the end are
  // padding.
  for (int64_t first = 0; first < rounds; first += at_once) {
    std::vector<MicroBatch> batches;
    for (int64_t round = first; round < std::min(rounds, first + at_once); ++round) {
      const int64_t begin = (round * ranks + mesh.coordinate(Axis::dp)) * micro;
      const int64_t valid = std::clamp<int64_t>(total - begin, 0, micro);
      data::Batch batch(micro, source.context());
      for (int64_t s = 0; s < micro; ++s) {
        source.fill(s < valid ? sequence_at(begin + s, total, source) : 0, batch.row(s));
        for (int64_t t = s * source.context(); t < (s + 1) * source.context(); ++t)
          batch.positions[t] = static_cast<int32_t>(t % source.context()) - batch.first[t];
      }
      batches.push_back(make_micro_batch(batch, begin, valid, instance.context,
                                         {mesh.size(Axis::cp), mesh.coordinate(Axis::cp)}, 0,
                                         instance.model.config().attention_chunk));
      for (int64_t t = 0; counts && t < valid * source.context(); ++t) {
        const int32_t target = batch.targets[t];
        if (target < 0) continue;
        targets += 1;
        if (!bytes_per_id.empty()) bytes += bytes_per_id[target];
      }
    }
    kernels::kernels(instance.device())
        .pointwise.sum(instance.context.compute(), losses, pipeline.evaluate(batches), kernels::Write::add);
  }
  const auto sum = [&](double x) { return mesh.world().all_reduce_value(x, comm::Reduce::sum, instance.context); };
  const double loss = sum(read_to_host("evaluation: loss", losses, instance.context.compute()).scalar());
  targets = sum(targets), bytes = sum(bytes);
  Evaluation result;
  result.tokens = static_cast<int64_t>(targets);
  result.processed = total * source.context();
  result.loss = targets > 0 ? loss / targets : std::numeric_limits<double>::quiet_NaN();
  result.bits_per_byte = bytes > 0 ? loss / std::numbers::ln2 / bytes : 0;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.sequences = total;
  result.total_sequences = source.size();
  return result;
}

telemetry::EvalMetrics metrics_of(const Evaluation& e, int64_t step) {
  telemetry::EvalMetrics m{.step = step,
                           .tokens = e.tokens,
                           .sequences = e.sequences,
                           .total_sequences = e.total_sequences,
                           .seconds = e.seconds,
                           .time = telemetry::utc_time()};
  if (e.tokens > 0) m.loss = e.loss;
  if (e.bits_per_byte > 0) m.bits_per_byte = e.bits_per_byte;
  return m;
}

}  // namespace hexad::train
