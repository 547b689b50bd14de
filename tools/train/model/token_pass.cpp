#include "tools/train/model/token_pass.h"

#include <algorithm>
#include <numeric>

#include "framework/base/placement.h"
#include "framework/tensor/host_read.h"
#include "parallel/pp/tape_stages.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
namespace {

pp::Schedule schedule_of(const ModelInstance& instance) {
  const int ranks = instance.mesh.size(Axis::pp);
  const pp::PipelineConfig config = ranks > 1 ? instance.schedule_config.pipeline : pp::PipelineConfig{};
  return pp::forwards_of(pp::make_schedule(config, ranks, 1));
}

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

std::vector<float> floats_of(const Tensor& x, device::Stream& stream) {
  std::vector<float> out(x.numel());
  with_dtype<float, double>("generate", x.dtype(), [&]<class T>() {
    const HostRead read = read_to_host("generation: logits", x, stream);
    const auto values = read.wait<T>();
    std::transform(values.begin(), values.end(), out.begin(), [](T v) { return static_cast<float>(v); });
  });
  return out;
}

}  // namespace

void require_whole_sequences(int64_t ranks, std::string_view purpose) {
  if (ranks > 1)
    fail(ExitCode::usage, "parallel.cp (", ranks, ") must be 1 to ", purpose,
         ", because a rank needs the keys and values of whole sequences");
}

TokenPasses::TokenPasses(ModelInstance& instance) : instance_(instance), policy_(keep_policy()) {
  require_whole_sequences(instance.mesh.size(Axis::cp), "cache the keys and values of tokens");
}

// Returns the new tokens as a micro-batch. If there is a single sequence, padding lengthens it. Otherwise, padding adds
// sequences.
MicroBatch TokenPasses::batch_of(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids) const {
  const int64_t tp = instance_.mesh.size(Axis::tp), rows = std::ssize(ids), sequences = std::ssize(caches);
  const int64_t length = rows / sequences;
  MicroBatch batch;
  batch.sequences = sequences == 1 ? 1 : round_up(sequences, tp / std::gcd(tp, length));
  batch.length = sequences == 1 ? round_up(length, tp) : length;
  const int64_t padded = batch.tokens();
  std::vector<int32_t> all_ids(ids.begin(), ids.end()), positions;
  for (const KeyValueCache* cache : caches)
    for (int64_t r = 0; r < length; ++r) positions.push_back(static_cast<int32_t>(cache->length + r));
  std::vector<uint8_t> valid(rows, 1);
  all_ids.resize(padded, ids.back());
  positions.resize(padded, positions.back());  // padding repeats the last position
  valid.resize(padded, 0);
  batch.ids = Tensor::from<int32_t>(all_ids, {padded}, instance_.context);
  batch.positions = Tensor::from<int32_t>(positions, {padded}, instance_.context);
  batch.first_token = caches[0]->length;
  if (padded == rows) return batch;
  batch.valid = Tensor::from<uint8_t>(valid, {padded}, instance_.context);
  batch.valid_tokens.assign(sequences, length);
  batch.valid_tokens.resize(batch.sequences, 0);
  return batch;
}

// Returns this tp rank's columns of the logits of `rows`. Returns an undefined tensor if `rows` is empty, and on ranks
// that lack the last part of the model.
Tensor TokenPasses::run_parts(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids,
                              std::span<const int64_t> rows) {
  const int64_t sequences = std::ssize(caches), count = std::ssize(ids);
  require(sequences > 0 && count > 0 && count % sequences == 0, "[generate] a pass has ", count, " ids for ", sequences,
          " sequences; expected the same number of ids, at least one, for each sequence");
  const MicroBatch batch = batch_of(caches, ids);
  const Transformer& model = instance_.model;
  Tensor logits;
  pp::TapeStages::Functions functions;
  functions.tape = [&] { return std::make_unique<Tape>(instance_.context.compute(), *policy_, Tape::Mode::forget); };
  functions.forward = [&](Tape& tape, int local_stage, int, const Value& input) -> pp::TapeStages::Output {
    const size_t part = local_stage;
    const Value value = model.activations(tape, {.batch = batch, .caches = caches}, part, input);
    if (model.parts()[part].last && !rows.empty()) logits = model.own_logits(tape, value, rows);
    return {value, {}};
  };
  const auto& pp = instance_.mesh[Axis::pp];
  const pp::Schedule schedule = schedule_of(instance_);
  pp::TapeStages stages(
      schedule, pp.rank(),
      [&](int) {
        return pp::StageWork::Boundary{model.activation_shape(batch), model.dtype()};
      },
      std::move(functions));
  pp::run(schedule, pp, stages, instance_.context);
  for (KeyValueCache* cache : caches) cache->length += count / sequences;
  return logits;
}

// Gathers the columns of all tp ranks, and returns rows of logits for the whole vocabulary.
std::vector<std::vector<float>> TokenPasses::whole_rows(const Tensor& own) const {
  const auto& tp = instance_.mesh[Axis::tp];
  device::Stream& stream = instance_.context.compute();
  const int64_t rows = own.dim(0), width = own.dim(1), vocab = instance_.model.config().vocab, ranks = tp.size();
  const int64_t widest = (vocab + ranks - 1) / ranks;
  const Tensor mine = Tensor::zeros({rows * widest}, own.dtype(), own.device(), device::Category::communication);
  for (int64_t r = 0; r < rows; ++r)
    kernels::kernels(own.device())
        .pointwise.copy(stream, mine.slice(0, r * widest, r * widest + width), own.slice(0, r, r + 1).reshape({width}));
  const Tensor all = Tensor::empty({ranks * rows * widest}, own.dtype(), own.device(), device::Category::communication);
  stream.wait(tp.all_gather(all, mine, stream));
  const std::vector<float> values = floats_of(all, stream);
  std::vector<std::vector<float>> out(rows);
  for (int rank = 0; rank < tp.size(); ++rank) {
    const Shard part{Axis::tp, 0, tp.size(), rank};
    const int64_t columns = part.end(vocab) - part.begin(vocab);
    for (int64_t r = 0; r < rows; ++r) {
      const auto begin = values.begin() + (rank * rows + r) * widest;
      out[r].insert(out[r].end(), begin, begin + columns);
    }
  }
  return out;
}

std::vector<std::vector<float>> TokenPasses::run(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids) {
  std::vector<int64_t> last_rows;
  for (int64_t s = 1; s <= std::ssize(caches); ++s) last_rows.push_back(s * (std::ssize(ids) / std::ssize(caches)) - 1);
  const Tensor own = run_parts(caches, ids, last_rows);
  return own.defined() ? whole_rows(own) : std::vector<std::vector<float>>{};
}

void TokenPasses::append(std::span<KeyValueCache* const> caches, std::span<const int32_t> ids) {
  run_parts(caches, ids, {});
}

}  // namespace hexad::train
