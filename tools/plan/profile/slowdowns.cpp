#include <fmt/format.h>

#include <algorithm>
#include <latch>
#include <memory>

#include "framework/base/median.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/kernel_table.h"
#include "tools/plan/profile/parts.h"
#include "tools/plan/profile/repeated_collective.h"

namespace hexad::plan {
namespace {

using base::Dtype;
using kernels::GroupOffsets;
using kernels::Write;
using tensor::Tensor;

// Times at which the units of a load end. The threads that execute the units write these times.
struct Stamps {
  explicit Stamps(size_t units) : times(units), open(static_cast<std::ptrdiff_t>(units)) {}
  void set(size_t unit) {
    times[unit] = now();
    open.count_down();
  }
  std::vector<double> times;
  std::latch open;
};
using StampsPtr = std::shared_ptr<Stamps>;

// Equal units of work on one lane. Without other work, all units together take about as long as the argument `seconds`
// of Loads.
struct Load {
  Lane lane;
  size_t units;
  std::function<device::Event(const StampsPtr&)> start;  // starts all units; returns the event of the last unit
};

// Returns the number of units done at `time`, including the finished fraction of the current unit.
double done_at(const Stamps& stamps, double begin, double time) {
  double before = begin;
  for (size_t i = 0; i < stamps.times.size(); ++i) {
    const double end = stamps.times[i];
    if (end > time) return static_cast<double>(i) + std::max(0.0, time - before) / (end - before);
    before = end;
  }
  return static_cast<double>(stamps.times.size());
}

// Returns the units per second of each load while all loads run, up to the end of the first load that ends.
std::vector<double> speeds(const std::vector<const Load*>& loads, const Timer& timer) {
  std::vector<StampsPtr> stamps;
  for (const Load* load : loads) stamps.push_back(std::make_shared<Stamps>(load->units));
  timer.wait_for_ranks();
  const double begin = now();
  std::vector<device::Event> last;
  for (size_t i = 0; i < loads.size(); ++i) last.push_back(loads[i]->start(stamps[i]));
  for (const device::Event& event : last) event.wait();
  for (const StampsPtr& s : stamps) s->open.wait();
  double end = stamps.front()->times.back();
  for (const StampsPtr& s : stamps) end = std::min(end, s->times.back());
  std::vector<double> result;
  for (const StampsPtr& s : stamps) result.push_back(done_at(*s, begin, end) / (end - begin));
  return result;
}

// Makes the loads. Chooses sizes and numbers of units so that a whole load takes about `seconds` without other work. A
// unit takes at most a sixteenth of `seconds` if a measured size is that fast.
class Loads {
 public:
  Loads(const Cluster& cluster, const Timer& timer, const ProfileOptions& options, double seconds)
      : cluster_(cluster),
        timer_(timer),
        seconds_(seconds),
        lanes_({.worker_lanes = true, .offload_folder = options.offload_folder}) {}

  std::vector<Load> all(const std::vector<MeasuredGroup>& groups) {
    std::vector<Load> loads;
    for (GroupKind kind : {GroupKind::inter, GroupKind::intra}) {
      const MeasuredGroup* widest = nullptr;
      for (const MeasuredGroup& g : groups)
        if (g.kind == kind) widest = &g;
      if (widest) loads.push_back(communication(*widest));
    }
    loads.push_back(copying());
    return loads;
  }

  // Returns a load that computes on this thread and on `threads` - 1 other threads. The load must start after other
  // loads, because it occupies this thread.
  Load computing(int threads) {
    const MeasuredProduct& p = cluster_.products.front();
    const Unit unit = unit_of(p.points);
    const int64_t rows = static_cast<int64_t>(unit.size);
    const Tensor w = Tensor::zeros({p.experts, p.outputs, p.inputs}, Dtype::f32, timer_.device());
    const Tensor x = Tensor::zeros({rows, p.inputs}, Dtype::f32, timer_.device());
    const Tensor y = Tensor::zeros({rows, p.outputs}, Dtype::f32, timer_.device());
    std::vector<int64_t> offsets;
    for (int64_t e = 0; e <= p.experts; ++e) offsets.push_back(rows / p.experts * e);
    const auto& k = kernels::kernels(timer_.device());
    return {Lane::compute, unit.count, [=, this, &k](const StampsPtr& stamps) {
              const int all = kernels::cpu::thread_count();
              kernels::cpu::set_thread_count(threads);
              for (size_t i = 0; i < unit.count; ++i) {
                k.grouped_matmul.forward(timer_.device().context().compute(), y, x, w, GroupOffsets::on_host(offsets),
                                         Write::replace);
                stamps->set(i);
              }
              kernels::cpu::set_thread_count(all);
              return device::Event();
            }};
  }

 private:
  struct Unit {
    double size;
    size_t count;
  };
  Unit unit_of(const Curve& curve) const {
    Curve::Point best = curve.points.front();
    for (const Curve::Point& p : curve.points)
      if (p.y <= seconds_ / 16) best = p;
    return {best.x, static_cast<size_t>(std::clamp(seconds_ / best.y, 4.0, 1000.0))};
  }

  // Returns a load that communicates in the group. It uses the collectives that MoE layers use most: all-to-all between
  // nodes, and all-gather inside nodes.
  Load communication(const MeasuredGroup& g) const {
    const bool inter = g.kind == GroupKind::inter;
    const Collective operation = inter ? Collective::all_to_all : Collective::all_gather;
    const MeasuredLink* link = nearest_link(cluster_, operation, {"", g.ranks, g.nodes});
    const Unit unit = unit_of(link->points);
    const Exchange exchange = make_exchange(operation, *g.group, static_cast<int64_t>(unit.size), timer_.device());
    return {inter ? Lane::inter : Lane::intra, unit.count, [=](const StampsPtr& stamps) {
              device::Event last;
              for (size_t i = 0; i < unit.count; ++i) {
                last = exchange.start();
                last.then([=] { stamps->set(i); });
              }
              return last;
            }};
  }

  Load copying() {
    const auto measured = std::find_if(cluster_.copies.begin(), cluster_.copies.end(),
                                       [](const MeasuredCopy& c) { return c.kind == CopyKind::copy; });
    const Unit unit = unit_of(measured->points);
    const Tensor from = Tensor::zeros({static_cast<int64_t>(unit.size) / 4}, Dtype::f32, timer_.device());
    const Tensor to = Tensor::zeros(from.shape(), Dtype::f32, timer_.device());
    device::Stream* stream = &lanes_.stream(device::Lane::copy);
    const auto& k = kernels::kernels(timer_.device());
    return {Lane::copy, unit.count, [=, &k](const StampsPtr& stamps) {
              for (size_t i = 0; i < unit.count; ++i)
                stream->run([=, &k] {
                  kernels::cpu::set_thread_count(1);
                  device::InlineStream here;
                  k.pointwise.copy(here, to, from);
                  stamps->set(i);
                });
              return stream->record();
            }};
  }

  const Cluster& cluster_;
  const Timer& timer_;
  double seconds_;
  device::DeviceContext lanes_;
};

// Loads that run at the same time, and the speed of each load relative to its speed alone, in every round.
struct Mix {
  std::vector<size_t> loads;
  std::vector<std::vector<double>> speeds;  // speeds[i][r]: speed of load loads[i] in round r
};

// Returns every pair of loads, and all loads together.
std::vector<Mix> mixes_of(size_t loads) {
  std::vector<Mix> mixes;
  Mix all;
  for (size_t i = 0; i < loads; ++i) {
    for (size_t j = i + 1; j < loads; ++j) mixes.push_back({{i, j}, {{}, {}}});
    all.loads.push_back(i), all.speeds.emplace_back();
  }
  if (loads > 2) mixes.push_back(all);
  return mixes;
}

// Returns numbers of threads below `threads`, ascending: all numbers, or eight evenly spaced numbers that include 1 and
// threads - 1.
std::vector<int> fewer_than(int threads) {
  std::vector<int> counts;
  const int most = threads - 1, measured = std::min(most, 8);
  for (int i = 0; i < measured; ++i) counts.push_back(measured == 1 ? 1 : 1 + i * (most - 1) / (measured - 1));
  return counts;
}

}  // namespace

void measure_slowdowns(Cluster& cluster, const std::vector<MeasuredGroup>& groups, const Timer& timer,
                       const ProfileOptions& options, double seconds, const Progress& progress) {
  // Time of the measurements, as multiples of the time of a load. In a round:
  // - Each of at most four loads takes 1, each of six pairs up to 2, and all loads together up to 4: 20 in total.
  // - The product on all threads but one adds three pairs and one mix of all loads: 10.
  // - Each product on fewer than all threads runs alone, and adds 1.
  // Before the rounds, each load runs once.
  const std::vector<int> counts = fewer_than(options.threads);
  const auto fewer = static_cast<double>(counts.size());
  const double times = counts.empty() ? 20 : 30 + fewer;
  Loads make(cluster, timer, options, seconds / (times * options.rounds + 4 + fewer));
  std::vector<Load> loads = make.all(groups);
  const size_t whole = loads.size();  // index of the product on all threads
  loads.push_back(make.computing(options.threads));
  std::vector<Mix> mixes = mixes_of(loads.size());
  for (const int threads : counts) loads.push_back(make.computing(threads));
  // Index of the product on all threads but one. A rank with one thread has no such product; the index is then `whole`.
  const size_t capped = loads.size() - 1;
  if (capped != whole)
    for (const Mix& mix : mixes_of(whole + 1))
      if (mix.loads.back() == whole) {
        mixes.push_back(mix);
        mixes.back().loads.back() = capped;
      }
  for (const Load& load : loads) speeds({&load}, timer);  // warm-up: packs weights and touches memory pages
  std::vector<std::vector<double>> on_fewer(counts.size());
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<double> alone;
    for (const Load& load : loads) alone.push_back(speeds({&load}, timer).front());
    for (size_t i = 0; i < counts.size(); ++i) on_fewer[i].push_back(timer.mean(alone[whole + 1 + i] / alone[whole]));
    for (Mix& mix : mixes) {
      std::vector<const Load*> running;
      for (size_t i : mix.loads) running.push_back(&loads[i]);
      const std::vector<double> together = speeds(running, timer);
      for (size_t i = 0; i < together.size(); ++i)
        mix.speeds[i].push_back(timer.mean(together[i] / alone[mix.loads[i]]));
    }
    progress(
        fmt::format("{} combinations of concurrent work, round {} of {}", mixes.size(), round + 1, options.rounds));
  }
  for (size_t i = 0; i < counts.size(); ++i)
    cluster.fewer_threads.push_back({counts[i], rounded(base::median(on_fewer[i]))});
  for (const Mix& mix : mixes)
    for (size_t i = 0; i < mix.loads.size(); ++i) {
      MeasuredSlowdown s{loads[mix.loads[i]].lane, {}, rounded(base::median(mix.speeds[i]))};
      for (size_t other : mix.loads)
        if (other != mix.loads[i]) s.beside.push_back(loads[other].lane);
      const bool leaves_a_thread = capped != whole && mix.loads.back() == capped;
      (leaves_a_thread ? cluster.capped_slowdowns : cluster.slowdowns).push_back(std::move(s));
    }
}

}  // namespace hexad::plan
