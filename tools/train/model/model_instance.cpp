#include "tools/train/model/model_instance.h"

#include <algorithm>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/data/source.h"
#include "framework/schedule/executor.h"
#include "layers/base/attention_chunks.h"
#include "tools/train/model/connections.h"
#include "tools/train/model/pass_recorder.h"
#include "tools/train/process/machine_memory.h"
#include "tools/train/recipe/stages.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::train {

using namespace base;
using namespace layers;
using namespace tensor;
namespace {

mesh::SharedPieces shared_pieces(const Recipe& r) {
  const int64_t groups = r.model.key_value_heads();
  const bool loop = pipeline_of(r).placing() ==
                    pp::Placing::loop;  // with other placings, the first and the last part of the model are on one rank
  return {.tensor_pieces = groups < r.parallel.tp ? static_cast<int>(groups) : 0,
          .first_and_last = r.model.embeds_at_the_end() && r.parallel.pp > 1 && loop};
}

std::vector<ModelPart> parts_of(const Recipe& r, const Extensions& extensions, const mesh::Mesh& mesh) {
  const pp::StageSplit split = stage_split(r, extensions);
  const int rank = mesh.coordinate(Axis::pp);
  std::vector<ModelPart> parts;
  for (int local = 0; local < split.stages().stages_a_rank; ++local) {
    const auto layers = split.layers(rank, local);
    parts.push_back({layers.begin, layers.end, split.has_embedding(rank, local), split.has_head(rank, local)});
  }
  return parts;
}

// Connects the ranks now, because connections need device memory, which weights and activations may use up later.
// Returns `context`.
device::DeviceContext& connected(device::DeviceContext& context, const Recipe& recipe, const Extensions& extensions,
                                 const mesh::Mesh& mesh) {
  connect_layers(recipe, parts_of(recipe, extensions, mesh), mesh, context);
  return context;
}

std::unique_ptr<comm::ProcessGroup> make_cards(const Recipe& recipe, const comm::ProcessGroup& world,
                                               device::DeviceContext& context,
                                               std::function<void(const std::string&)> info) {
  if (context.kind() == device::DeviceKind::meta)
    return nullptr;  // groups of simulated ranks accept tensors of any device
  comm::DeviceGroupOptions options = device_group_options(recipe, world, context);
  options.info = std::move(info);
  if (context.kind() == device::DeviceKind::cuda)
    options.groups = traffic_of_groups(recipe, world, shared_pieces(recipe));
  return comm::make_device_group(world, context, options);
}

// True if any sequence contains several documents. Without such sequences, attention needs no document boundaries.
bool has_documents(const data::Batch& batch) {
  for (size_t t = 0; t < batch.first.size(); ++t)
    if (batch.first[t] != 0 || batch.last[t] != batch.context) return true;
  return false;
}

// Returns this rank's limit of page-locked memory, in bytes; 0 for device: cpu. By default, the limits of a node's
// ranks together leave half of the available memory for other purposes.
int64_t pinned_limit(const Recipe& recipe, const comm::ProcessGroup& world) {
  if (recipe.device == device::DeviceKind::cpu) return 0;
  if (recipe.memory.pinned_bytes) return *recipe.memory.pinned_bytes;
  const std::vector<int>& nodes = world.node_of_rank();
  const auto ranks = std::count(nodes.begin(), nodes.end(), nodes[world.rank()]);
  return available_memory_bytes() / 2 / ranks;
}

// Returns the threads that post collectives of MoE passes. If micro-batches overlap, lanes may post while the rank's
// thread posts other collectives. Lanes post only under some values of schedule.moe.memory_reuse, but this value is not
// checked, because reschedule() may change it. Lanes that are queues of a device never post.
mesh::Posting posting(const Recipe& recipe, const device::DeviceContext& context) {
  const bool in_turns = recipe.schedule.pipeline.overlap == pp::Overlap::micro_batches;
  return in_turns && context.on_host() ? mesh::Posting::lanes : mesh::Posting::rank;
}

device::ContextOptions context_options(const Recipe& recipe, const comm::ProcessGroup& world,
                                       std::shared_ptr<device::MetaRun> meta) {
  if (meta) return {.kind = device::DeviceKind::meta, .meta = std::move(meta)};
  return {.kind = recipe.device,
          .place = place_of(world),
          .memory_limit = recipe.memory.limit(),
          .pinned_limit = pinned_limit(recipe, world),
          .reserved_multiprocessors = static_cast<int>(recipe.distributed.reserve_multiprocessors.value_or(0)),
          .worker_lanes = recipe.schedule.lanes_have_threads(recipe.schedule.moe.settled()),
          .update_queue = recipe.optim.overlap,
          .offload_folder = recipe.offload.folder};
}

}  // namespace

int64_t unit_bytes(const Recipe& recipe, int ranks) {
  if (recipe.distributed.bucket_bytes) return *recipe.distributed.bucket_bytes;
  return dp::suitable_unit_bytes(ranks, recipe.device == device::DeviceKind::cuda);
}

ModelInstance::ModelInstance(const Recipe& recipe, const Extensions& known, const comm::ProcessGroup& world,
                             std::function<void(const std::string&)> info, std::shared_ptr<device::MetaRun> meta)
    : extensions(known),
      schedule_config(recipe.schedule),
      context(context_options(recipe, world, std::move(meta))),
      cards(make_cards(recipe, world, context, std::move(info))),
      mesh(cards ? *cards : world, recipe.parallel.sizes(), shared_pieces(recipe), posting(recipe, context)),
      parameters(connected(context, recipe, extensions, mesh), recipe.optim.freeze),
      model(recipe.model, extensions, recipe.schedule.moe.settled(),
            Builder(parameters, states, mesh, dtype_of(recipe.train.precision),
                    {.sequence = recipe.parallel.sp,
                     .context = recipe.parallel.cp_kind,
                     .deterministic = recipe.train.deterministic}),
            parts_of(recipe, extensions, mesh)),
      buckets(parameters, mesh,
              {.zero = static_cast<dp::Zero>(recipe.parallel.zero),
               .unit_bytes = unit_bytes(recipe, mesh.reducers({}).size())}),
      weights(buckets),
      pipeline(pipeline_of(recipe)) {
  weights.initialize(recipe.train.seed);
  run_passes_by(nullptr);
  time_layers_by(nullptr);
}

std::string ModelInstance::connection_text() const {
  const auto memory = cards ? comm::connection_memory(*cards) : std::nullopt;
  if (!memory) return {};
  return cat("NCCL has connected ", counted(memory->communicators, "communicator"), " of this rank, with ",
             human_bytes(static_cast<double>(memory->bytes)), " of GPU memory in total");
}

int place_of(const comm::ProcessGroup& world) {
  if (world.in_one_process()) return world.rank();
  const std::vector<int>& nodes = world.node_of_rank();
  const auto end = nodes.begin() + world.rank();
  return static_cast<int>(std::count(nodes.begin(), end, *end));
}

void ModelInstance::run_passes_by(schedule::GraphRunner* runner) {
  for (const auto& place : model.moe_layers()) place.layer->run_passes_by(runner ? runner : &passes);
}

void ModelInstance::time_layers_by(schedule::LayerClock* clock) {
  for (const auto& place : model.moe_layers()) place.layer->time_by(clock ? clock : &passes);
}

void PassesAsFibers::run(const schedule::PassName& name, const schedule::TaskGraph& graph,
                         device::DeviceContext& context) {
  if (recorders.empty()) return schedule::execute(graph, context, nullptr, &fibers_);
  const schedule::ReadTimes times = schedule::execute_measured(graph, context, &fibers_);
  if (graph.tasks().empty()) return;
  for (PassRecorder* recorder : recorders) recorder->add({name, schedule::without_work(graph), {}}, times);
}

std::shared_ptr<schedule::PartTimer> PassesAsFibers::start(const schedule::PassName& name, device::Stream& stream) {
  if (recorders.empty()) return nullptr;
  const auto timer = std::make_shared<schedule::StreamTimer>(stream);
  for (PassRecorder* recorder : recorders) recorder->add(name, timer);
  return timer;
}

void ModelInstance::reschedule(const moe::MoeSchedule& s) {
  context.run_lanes_on_threads(!context.meta() && schedule_config.lanes_have_threads(s));
  for (const auto& place : model.moe_layers()) place.layer->reschedule(s, extensions.moe_order_of(s));
}

MicroBatch make_micro_batch(const data::Batch& batch, int64_t first_sequence, int64_t valid_sequences, Device device,
                            ContextRank context, int64_t prediction_blocks, std::optional<int64_t> attention_chunk) {
  MicroBatch out;
  out.sequences = batch.count, out.length = batch.context;
  out.context_ranks = context.ranks, out.context_rank = context.rank;
  out.first_token = first_sequence * batch.context;
  const cp::ContextSplit split = out.split();
  const auto tensor = [&](const std::vector<int32_t>& values) {
    return Tensor::from<int32_t>(context.ranks == 1 ? values : split.cut(values), {out.rows()}, device,
                                 Category::activation);
  };
  out.ids = tensor(batch.ids);
  out.positions = tensor(batch.positions);
  if (has_documents(batch)) {
    out.first = tensor(batch.first), out.last = tensor(batch.last);
    out.documents = batch.document_count();
  }
  if (attention_chunk) {
    const layers::AttentionChunks chunks =
        layers::attention_chunks(batch.first, batch.last, batch.context, *attention_chunk);
    out.chunk_first = tensor(chunks.first), out.chunk_last = tensor(chunks.last), out.chunks = chunks.count;
  }
  if (context.ranks > 1) out.row_tokens = split.tokens();

  const int64_t valid_tokens = valid_sequences * batch.context;
  std::vector<uint8_t> valid;
  for (int64_t r = 0; r < out.rows(); ++r) valid.push_back(out.token(r) < valid_tokens);
  const auto own_targets = [&](const std::vector<int32_t>& all) {
    std::vector<int32_t> own;
    for (int64_t r = 0; r < out.rows(); ++r) own.push_back(valid[r] ? all[out.token(r)] : data::ignored);
    return own;
  };
  const auto of_rows = [&](const std::vector<int32_t>& own) {
    return Tensor::from<int32_t>(own, {out.rows()}, device, Category::activation);
  };
  const std::vector<int32_t> targets = own_targets(batch.targets);
  out.predicted = out.rows() - std::count(targets.begin(), targets.end(), data::ignored);
  out.targets = of_rows(targets);
  for (int64_t k = 1; k <= prediction_blocks; ++k) {
    const data::Batch::Further further = batch.further(k);
    out.further.push_back({tensor(further.ids), of_rows(own_targets(further.targets))});
  }
  if (valid_sequences == batch.count) return out;
  out.valid = Tensor::from<uint8_t>(valid, {out.rows()}, device, Category::activation);
  for (int64_t s = 0; s < batch.count; ++s) out.valid_tokens.push_back(s < valid_sequences ? batch.context : 0);
  return out;
}

}  // namespace hexad::train
