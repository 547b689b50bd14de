#include "tools/train/report/peak_meter.h"

#include <algorithm>

#include "framework/base/clock.h"
#include "framework/kernels/gemm_rate.h"
#include "tools/train/model/model_instance.h"

namespace hexad::train {
namespace {

constexpr int samples_at_start = 3;
constexpr double longest_start = 1;  // seconds after which no new sample of the start begins
// Pauses between two samples: multiples of a sample's duration, and a share of the time of all steps so far.
constexpr double usual_pause = 50, shortest_pause = 10, share_of_run = 0.02;

}  // namespace

PeakMeter::PeakMeter(const Recipe& recipe, const comm::ProcessGroup& world) : recipe_(recipe), world_(world) {
  double cost = 0;
  if (recipe.train.peak_flops) {
    best_ = *recipe.train.peak_flops;
  } else {
    world.barrier(host_.compute()).wait();
    const double began = base::now();
    for (int i = 0; i < samples_at_start && (i == 0 || base::now() - began < longest_start); ++i) cost = sample();
  }
  agree(cost);
}

void PeakMeter::after_step(double seconds, double flops) {
  // On a GPU, the samples at the start are enough, because ranks do not share GPUs as they share cores. Later samples
  // would need GPU memory, which the run already occupies.
  if (recipe_.train.peak_flops || recipe_.device != device::DeviceKind::cpu) return;
  trained_ += seconds;
  const bool above_peak = flops > peak_ * seconds;
  if (trained_ >= (above_peak ? soonest_ : next_)) agree(sample());
}

double PeakMeter::sample() {
  const double began = base::now();
  // The sample has its own context, so that its matrices do not count as memory of the run.
  device::DeviceContext context({.kind = recipe_.device, .place = place_of(world_)});
  const kernels::GemmRate rate = kernels::sample_gemm_rate(context, dtype_of(recipe_.train.precision), size_);
  size_ = std::max(size_, rate.rows);
  best_ = std::max(best_, rate.flops_per_second);
  return base::now() - began;
}

void PeakMeter::agree(double cost) {
  peak_ = world_.all_reduce_value(best_, comm::Reduce::sum, host_);
  const double most = world_.all_reduce_value(cost, comm::Reduce::max, host_);
  next_ = trained_ + std::max(usual_pause * most, share_of_run * trained_);
  soonest_ = trained_ + shortest_pause * most;
}

}  // namespace hexad::train
