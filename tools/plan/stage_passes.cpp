#include "tools/plan/stage_passes.h"

#include "parallel/pp/dependencies.h"
#include "tools/train/stages.h"

namespace hexad::plan {

using namespace train;

namespace {

using Kind = pp::Action::Kind;

struct Flight {
  MemoryTape tape;
  Place input, output;
};

class Course {
 public:
  void go(std::span<const Stretch> stretches, const PassBytes& beside) {
    for (const Stretch& s : stretches) go(s, beside);
  }
  void go(const Stretch& s, const PassBytes& beside) {
    peak_ = most_of(peak_, now_ + s.peak + beside);
    now_ = now_ + s.end;
  }
  // pp::run(): the backward begins, and they hand over at every stretch.
  void in_turns(std::span<const Stretch> backward, std::span<const Stretch> forward, const PassBytes& beside) {
    for (size_t i = 0; i < std::max(backward.size(), forward.size()); ++i) {
      if (i < backward.size()) go(backward[i], beside);
      if (i < forward.size()) go(forward[i], beside);
    }
  }
  const PassBytes& peak() const { return peak_; }

 private:
  PassBytes now_, peak_;
};

std::span<const Stretch> stretches(const ChunkPasses& passes, Kind kind) {
  switch (kind) {
    case Kind::forward:
      return passes.forward;
    case Kind::backward:
      return passes.backward;
    case Kind::backward_input:
      return passes.backward_input;
    case Kind::backward_weight:
      return passes.backward_weight;
  }
  base::fail_invariant("[memory] no such action");
}

}  // namespace

ChunkPasses chunk_passes(const Recipe& r, const mesh::Layout& layout, int stage, int chunk, RoutingLoad load) {
  const pp::StageSplit split = stage_split(r);
  const bool first = split.has_embedding(stage, chunk), last = split.has_head(stage, chunk);
  const LayerSketch sketch(r, layout, load);
  const MemoryTape::Options options{.recompute_norms = r.recompute == layers::Recompute::norms,
                                    .offload = r.offload.activations,
                                    .offload_from = static_cast<double>(r.offload.min_bytes)};
  ChunkPasses passes;
  for (const bool delayed : {false, true}) {
    MemoryAccount account;
    Flight flight{MemoryTape(account, options, MemoryTape::Mode::record), {}, {}};
    MemoryTape& tape = flight.tape;
    {
      Place x;
      if (first)
        x = sketch.embed(tape);
      else
        x = flight.input = tape.leaf(tape.room(sketch.boundary_bytes()));
      for (int64_t l = split.layers(stage, chunk).begin; l < split.layers(stage, chunk).end; ++l)
        x = sketch.block(tape, x, l);
      flight.output = last ? sketch.head(tape, x) : x;
      flight.input.data = flight.output.data = {};
    }
    passes.forward = account.take();
    {
      MemoryReplay replay(tape, {flight.output}, {tape.room(last ? 1 : sketch.boundary_bytes())}, delayed);
      while (replay.step()) {
      }
      if (!first) replay.take_gradient(flight.input);
      (delayed ? passes.backward_input : passes.backward) = account.take();
      while (replay.step_weights()) {
      }
    }
    if (delayed) passes.backward_weight = account.take();
  }
  return passes;
}

PassBytes peak_of_step(const Recipe& r, const mesh::Layout& layout, int stage, const pp::Schedule& schedule,
                       RoutingLoad load) {
  std::vector<ChunkPasses> chunks;
  for (int c = 0; c < schedule.stages.chunks; ++c) chunks.push_back(chunk_passes(r, layout, stage, c, load));
  const double boundary = LayerSketch(r, layout, load).boundary_bytes();
  const auto& actions = schedule.ranks[static_cast<size_t>(stage)];
  const bool in_turns = r.schedule.pipeline.overlap == pp::Overlap::micro_batches;
  Course course;
  for (size_t i = 0, next = 0; i < actions.size(); i = next) {
    const bool pair = in_turns && actions[i].merged;
    next = i + (pair ? 2 : 1);
    // What the next action needs of another rank may arrive meanwhile.
    const bool arrives = schedule.stages.ranks > 1 && next < actions.size() &&
                         pp::needed(schedule.stages, stage, actions[next]).has_value();
    const PassBytes beside{0, arrives ? boundary : 0, arrives ? boundary : 0};
    const auto of = [&](const pp::Action& a) { return stretches(chunks[static_cast<size_t>(a.chunk)], a.kind); };
    if (pair)
      course.in_turns(of(actions[i + 1]), of(actions[i]), beside);
    else
      course.go(of(actions[i]), beside);
  }
  return course.peak();
}

}  // namespace hexad::plan
