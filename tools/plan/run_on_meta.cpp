#include "tools/plan/run_on_meta.h"

#include <utility>

#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using namespace train;

namespace {

std::shared_ptr<device::MetaRun> make_run(const Recipe& r, const mesh::Layout& layout, int rank,
                                          const RoutingLoad& load, RunOnMeta::Record record,
                                          const std::shared_ptr<SharedByRuns>& shared) {
  auto run = std::make_shared<device::MetaRun>(r.device,
                                               shared->choose(load, layout.coordinate(base::Axis::ep, rank),
                                                              layout.size(base::Axis::ep), r.model.moe.capacity_factor),
                                               std::shared_ptr<device::KnownResults>(shared, &shared->results));
  if (r.device == device::DeviceKind::cpu && r.schedule.lanes_have_threads(r.schedule.moe.settled()))
    run->imitate_lanes_with_threads();
  if (record != RunOnMeta::Record::nothing) run->record_issues();
  return run;
}

}  // namespace

bool reduces_on_two_stages(const Recipe& r) {
  return r.parallel.pp > 1 && r.parallel.zero >= 2 && r.model.embeds_at_the_end();
}

void TwoDocuments::fill(int64_t, const data::Row& row) const {
  const int64_t border = context_ / 2;
  for (int64_t t = 0; t < context_; ++t) {
    const size_t i = t;
    row.ids[i] = row.targets[i] = 0;
    row.first[i] = static_cast<int32_t>(t < border ? 0 : border);
    row.last[i] = static_cast<int32_t>(t < border ? border : context_);
  }
}

int64_t micro_batches_of(const Recipe& r, const mesh::Layout& layout) {
  return r.batch.global / r.batch.micro / layout.size(base::Axis::dp);
}

std::shared_ptr<const comm::ImaginedCards> imagined_cards(const Recipe& r, int world, std::vector<int> node_of_rank) {
  if (r.device != device::DeviceKind::cuda || world == 1 ||
      r.distributed.device_collectives == comm::DeviceCollectives::host)
    return nullptr;
  comm::ImaginedCards cards{.node_of_rank = std::move(node_of_rank), .sums_in_order = r.train.deterministic};
  if (cards.node_of_rank.empty())
    for (int rank = 0; rank < world; ++rank) cards.node_of_rank.push_back(rank / usual_ranks_per_node);
  return std::make_shared<const comm::ImaginedCards>(std::move(cards));
}

pp::Freeing freeing_of(const Recipe& r, int world) {
  return imagined_cards(r, world) ? pp::Freeing::early : pp::Freeing::latest;
}

RunOnMeta::RunOnMeta(const Recipe& r, const Extensions& extensions, const mesh::Layout& layout, int rank,
                     const RoutingLoad& load, Record record, const std::vector<int>& node_of_rank,
                     std::shared_ptr<SharedByRuns> shared, comm::ImaginedPeers peers)
    : recipe_(r),
      sequences_(r.batch.micro * layout.size(base::Axis::dp)),
      shared_(shared ? std::move(shared) : std::make_shared<SharedByRuns>()),
      run_(make_run(r, layout, rank, load, record, shared_)),
      world_(rank, layout.world(), run_->issues(), node_of_rank, imagined_cards(r, layout.world(), node_of_rank),
             peers),
      peers_are_late_(record != Record::issues && peers == comm::ImaginedPeers::late),
      instance_(r, extensions, world_, {}, run_),
      optimizer_(r.optim, instance_.parameters, r.offload.optimizer, extensions.optimizers, &instance_.mesh),
      step_(recipe_, instance_, optimizer_),
      source_(r.model.context) {
  instance_.schedules = std::shared_ptr<pp::CheckedSchedules>(shared_, &shared_->schedules);
  if (peers_are_late_) instance_.freeing = freeing_of(r, layout.world());
  if (record == Record::parts) log_pause_.emplace(run_->issues());
  ++shared_->runs;
}

void RunOnMeta::repeat_layers() {
  const bool counts_memory = log_pause_.has_value();
  using Memory = train::RepeatedLayers::Memory;
  instance_.repeated_layers = &layers_.emplace(*run_->issues(), parameter_recorder(), instance_,
                                               counts_memory ? Memory::counted : Memory::ignored);
}

pp::ParameterRecorder& RunOnMeta::parameter_recorder() {
  if (!recorder_) {
    instance_.parameter_recorder = &recorder_.emplace(instance_.weights);
    recorder_->take(instance_.parameters);
  }
  return *recorder_;
}

void RunOnMeta::repeat_passes() {
  device::SpanLog& spans = instance_.context.spans();
  // Micro-batches 0 and 1 record layers instead of passes if a micro-batch can repeat most of its layers.
  const bool records_layers = layers_ && layers_->repeat_most();
  const int first_recorded = records_layers ? 2 : 0;
  instance_.repeated_passes = &passes_.emplace(*run_->issues(), parameter_recorder(), first_recorded);
  spans.start();
  // dualpipe_v delays the weight gradients of some micro-batches. Micro-batches of both kinds, delayed or not, occur
  // among 2 x pp micro-batches.
  const bool delays_some = train::pipeline_of(recipe_).kind == pp::PipelineKind::dualpipe_v;
  step(delays_some ? 2 * recipe_.parallel.pp : records_layers ? 3 : pp::RepeatedPasses::recorded_micro_batches);
  spans.stop();
  passes_->end_recording();
}

void RunOnMeta::load_ahead(int64_t micro_batches) {
  const bool equal = recipe_.batch.global == micro_batches * sequences_;
  if (progress_.step == 0 || equal || !instance_.context.runs_ahead()) return;
  set_micro_batches(micro_batches);
  step_.load_ahead(source_, progress_.next_sequence);
}

void RunOnMeta::step(int64_t micro_batches) {
  set_micro_batches(micro_batches);
  if (run_->issues()) begin_of_last_step_ = run_->issues()->count();
  if (peers_are_late_ && reduces_on_two_stages(recipe_)) {
    const comm::ProcessGroup& pp = instance_.mesh[base::Axis::pp];
    const pp::CheckedSchedule& program =
        instance_.schedules->of(instance_.pipeline, pp.size(), static_cast<int>(micro_batches), instance_.freeing);
    step_.bound_two_stage_reductions(pp::sums_in_flight(program.schedule, program.merge, pp.rank()));
  }
  device::SpanLog& spans = instance_.context.spans();
  // Any step may record layers, and the recordings contain the names of spans.
  const bool names_spans = layers_ && !log_pause_ && !spans.recording();
  if (names_spans) spans.start();
  step_.run(source_, progress_, recipe_.optim.lr);
  if (names_spans) spans.stop();
}

}  // namespace hexad::plan
