// The composed recipe: every section with its owner's struct.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/config/recipe.h"
#include "framework/data/data_config.h"
#include "framework/device/device_kind.h"
#include "layers/model_config.h"
#include "layers/moe/schedule/moe_schedule_config.h"
#include "layers/recompute_config.h"
#include "parallel/comm/device_group.h"
#include "parallel/pp/pipeline_kind.h"
#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/parallel_config.h"

namespace hexad::train {

struct BatchConfig {
  int64_t global = 8;
  int64_t micro = 4;

  template <class V>
  void fields(V& v) {
    v("global", global, "sequences in an optimizer step, over all ranks", config::at_least(1),
      config::at_most(1 << 30));
    v("micro", micro, "sequences computed at a time; part of the meaning of a run (micro-batch scopes)",
      config::at_least(1));
  }
};

enum class Precision : uint8_t { f32, bf16, f64 };
constexpr auto enum_names(Precision) {
  return std::to_array<std::pair<Precision, std::string_view>>(
      {{Precision::f32, "f32"}, {Precision::bf16, "bf16"}, {Precision::f64, "f64"}});
}
base::Dtype dtype_of(Precision precision);

struct TrainConfig {
  int64_t steps = 100;
  Precision precision = Precision::f32;
  uint64_t seed = 1;
  std::optional<int64_t> threads;
  int64_t log_every = 10, router_every = 20, eval_every = 0, eval_sequences = 256;
  int64_t max_skipped = 5;
  bool deterministic = false;
  std::optional<double> peak_flops;
  std::string init_from;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::automatic, config::positive;
    v("steps", steps, "optimizer steps of the whole run", at_least(1));
    v("precision", precision, "of weights and activations; bf16 keeps f32 main weights, f64 is for comparisons");
    v("seed", seed, "of every random choice");
    v("threads", threads, "threads of a rank's kernels; auto: its share of the cores that its node's ranks may use",
      automatic, at_least(1));
    v("log_every", log_every, "steps between plain progress lines", at_least(1));
    v("router_every", router_every,
      "steps between records of every expert's load in metrics.jsonl, beside those of the first and the last step; 0: "
      "none",
      at_least(0));
    v("eval_every", eval_every, "steps between held-out evaluations; 0: only at the end", at_least(0));
    v("eval_sequences", eval_sequences,
      "sequences of a held-out evaluation during training, always the same ones, spread over the held-out set, which "
      "is "
      "evaluated whole at the end; 0: all",
      at_least(0));
    v("max_skipped", max_skipped, "consecutive steps without a finite loss and gradient before giving up (exit 5)",
      at_least(1));
    v("deterministic", deterministic,
      "every kernel gives the same bits whenever it is run, also where that costs speed or memory (attention's "
      "backward on a GPU); on the CPU all do anyway");
    v("peak_flops", peak_flops,
      "FLOP/s of a rank at full speed, for MFU; auto: measured with products at the start and now and then during the "
      "run, the best of each rank",
      automatic, positive());
    v("init_from", init_from, "checkpoint folder whose weights a new run starts from");
  }
};

enum class SaveFailure : uint8_t { stop, go_on };
constexpr auto enum_names(SaveFailure) {
  return std::to_array<std::pair<SaveFailure, std::string_view>>(
      {{SaveFailure::stop, "stop"}, {SaveFailure::go_on, "go_on"}});
}

struct CheckpointConfig {
  int64_t every = 0, keep = 3;
  bool at_end = true;
  std::string resume = "auto";
  SaveFailure on_failure = SaveFailure::stop;

  template <class V>
  void fields(V& v) {
    v("every", every, "steps between checkpoints; 0: none on the way", config::at_least(0));
    v("at_end", at_end, "save when the last step is done");
    v("keep", keep, "complete checkpoints kept; 0: all", config::at_least(0));
    v("resume", resume, "auto: the newest good checkpoint if there is one; none: start anew; or a step");
    v("on_failure", on_failure,
      "when a checkpoint cannot be written: stop (exit 4), or go_on training; the last one has to succeed");
  }
};

struct OffloadConfig {
  bool activations = false;
  optim::StateOffload optimizer = optim::StateOffload::none;
  config::ByteSize min_bytes = 1 << 16;
  std::string folder = "/tmp";

  bool any() const { return activations || optimizer != optim::StateOffload::none; }

  template <class V>
  void fields(V& v) {
    v("activations", activations, "saved activations wait for backward in a file");
    v("optimizer", optimizer, "file: main weights and moments wait in a file for the next update; or none");
    v("min_bytes", min_bytes, "smaller saved activations stay in memory", config::at_least(0));
    v("folder", folder, "where that file is made; on a GPU what is offloaded waits in host memory instead",
      config::non_empty());
  }
};

struct ScheduleConfig {
  pp::PipelineConfig pipeline;
  moe::MoeScheduleConfig moe;
  std::optional<bool> worker_lanes;
  int64_t trace = 0;
  std::string profile;

  bool lanes_run_by_themselves(const moe::MoeSchedule& s) const { return worker_lanes.value_or(s.uses_lanes()); }

  template <class V>
  void fields(V& v) {
    v("pipeline", pipeline, "over the stages of parallel.pp");
    v("moe", moe, "of an MoE layer; nothing but wire: fp8, which rounds, changes what is computed");
    v("trace", trace,
      "step whose MoE passes are recorded, in trace.json.gz, metrics.jsonl, the log and the report, beside what was "
      "predicted; 0: none",
      config::at_least(0));
    v("profile", profile,
      "cluster file of `hexad profile` that predictions are made from; empty: a plain machine is assumed");
    v("worker_lanes", worker_lanes,
      "lanes for communication and copies get a thread each, else all work is inline; auto: under schedules that "
      "overlap something",
      config::automatic);
  }
};

/// Traffic whose place among the others can be chosen; control traffic is always first.
enum class Traffic : uint8_t { tp, ep, pp, cp, dp };
constexpr auto enum_names(Traffic) {
  using enum Traffic;
  return std::to_array<std::pair<Traffic, std::string_view>>(
      {{tp, "tp"}, {ep, "ep"}, {pp, "pp"}, {cp, "cp"}, {dp, "dp"}});
}

struct DistributedConfig {
  config::ByteSize bucket_bytes = 1 << 22;
  double watchdog_seconds = 300;
  std::optional<bool> check_collectives;
  int64_t replica_check_every = 0;
  std::vector<Traffic> priority{Traffic::tp, Traffic::ep, Traffic::pp, Traffic::cp, Traffic::dp};
  config::ByteSize piece_bytes = 128 << 10;
  config::ByteSize window_bytes = 2 << 20;
  config::ByteSize low_window_bytes = 256 << 10;
  comm::DeviceCollectives device_collectives = comm::DeviceCollectives::automatic;
  bool register_buffers = false;
  std::vector<int64_t> network_classes;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::at_most, config::automatic;
    v("bucket_bytes", bucket_bytes,
      "gradients are reduced, and under zero 3 weights gathered, in units of about this size", at_least(1));
    v("watchdog_seconds", watchdog_seconds,
      "a collective that does not move for so long ends the job (exit 6), naming who is missing; 0: never",
      at_least(0));
    v("check_collectives", check_collectives,
      "ranks compare operation, type and sizes before every collective; auto: in debug builds", automatic);
    v("replica_check_every", replica_check_every,
      "steps between comparisons of the weights that several ranks hold (exit 5 when they differ); 0: never",
      at_least(0));
    v("priority", priority,
      "traffic that goes first when several collectives wait for the link, highest first (MoNTA); what is not listed "
      "comes after it, as it comes; []: everything as it comes, also what is waited for");
    v("piece_bytes", piece_bytes,
      "bytes that a rank sends, to all its peers together, in one piece of a collective or message (at least 16 KiB a "
      "peer); only between pieces can another class go first",
      at_least(1));
    v("window_bytes", window_bytes,
      "bytes in flight on a rank's link, in each direction, of traffic that gives way to no other: enough to keep the "
      "link busy",
      at_least(1));
    v("low_window_bytes", low_window_bytes,
      "the same of each class of traffic below another one in use: a higher class finds so much before itself when it "
      "comes; faster networks need more",
      at_least(1));
    v("device_collectives", device_collectives,
      "how tensors of GPUs come to other ranks: nccl, from GPU to GPU; host, through host memory; auto: nccl where "
      "every rank has a GPU of its own and NCCL is there, else by MPI, from GPU to GPU where that is CUDA-aware");
    v("register_buffers", register_buffers,
      "under NCCL buckets of gradients and weights from 4 MiB on are registered, so that NCCL need not copy them where "
      "links and algorithms allow that; each takes whole pages of 2 MiB of the GPU");
    v("network_classes", network_classes,
      "under NCCL the network's numbers (InfiniBand: service levels, RoCE: types of service) of the classes of traffic "
      "in priority, in its order; []: the network's own choice",
      at_least(0), at_most(255));
  }
};

struct ProfileConfig {
  std::string steps;

  template <class V>
  void fields(V& v) {
    v("steps", steps,
      "steps whose timeline is recorded, on all ranks and with the memory in use, in trace.json.gz: one step, or first "
      "and last as in 3..5; empty: none");
  }
};

struct RunConfig {
  std::string dir = "runs/default";
  std::vector<std::string> prompts;
  int64_t heldout_prompts = 0;

  template <class V>
  void fields(V& v) {
    v("dir", dir, "run directory: recipe, metrics, checkpoints, report", config::non_empty());
    v("prompts", prompts, "texts that the trained model continues in the report");
    v("heldout_prompts", heldout_prompts,
      "beginnings of so many held-out documents, which it continues there, too: prompts of the data's own kind",
      config::at_least(0));
  }
};

struct MemoryConfig {
  std::optional<config::ByteSize> limit_bytes = config::ByteSize(0);
  std::optional<config::ByteSize> pinned_bytes;

  /// Bytes that a rank may take for tensors; 0: any number.
  int64_t limit() const { return limit_bytes.value_or(0); }
  /// True if a run is refused that is estimated to need more memory than its machines have.
  bool checks_machine() const { return limit_bytes.has_value(); }

  template <class V>
  void fields(V& v) {
    v("limit_bytes", limit_bytes,
      "memory a rank may take for tensors: more is refused when it is asked for (exit 4), and `hexad validate` refuses "
      "(exit 2) what it estimates to need more; 0: no limit. A run that is estimated to need more than its machines "
      "have is "
      "refused at its start (exit 4); none: it is started all the same",
      config::at_least(0));
    v("pinned_bytes", pinned_bytes,
      "page-locked host memory a rank on a GPU may take for copies and for what is offloaded, more is refused (exit "
      "4); "
      "auto: half of what its node has available, over the ranks there; 0: no limit",
      config::automatic, config::at_least(0));
  }
};

struct Recipe {
  layers::ModelConfig model;
  device::DeviceKind device = device::DeviceKind::cpu;
  ParallelConfig parallel;
  BatchConfig batch;
  TrainConfig train;
  optim::OptimConfig optim;
  layers::Recompute recompute = layers::Recompute::none;
  OffloadConfig offload;
  ScheduleConfig schedule;
  DistributedConfig distributed;
  MemoryConfig memory;
  data::DataConfig data;
  CheckpointConfig checkpoint;
  ProfileConfig profile;
  RunConfig run;

  template <class V>
  void fields(V& v) {
    v("model", model, "what is trained");
    v("device", device, "what a rank computes on; the environment variable HEXAD_DEVICE goes before it");
    v("parallel", parallel, "how it is spread over ranks");
    v("batch", batch, "sequences a step");
    v("train", train, "the training run");
    v("optim", optim, "optimizer and learning rate");
    v("recompute", recompute, "what backward computes again instead of keeping it");
    v("offload", offload, "what leaves memory while it waits");
    v("schedule", schedule, "how work is ordered");
    v("distributed", distributed, "gradient reduction");
    v("memory", memory, "limits");
    v("data", data, "where the tokens come from");
    v("checkpoint", checkpoint, "saving and resuming");
    v("profile", profile, "what the steps of a run do when");
    v("run", run, "where results go");
  }
};

/// Reads and checks a recipe. `world` > 0 also checks it against that number of ranks. Throws Error(usage) with every
/// problem, each with file and line.
/// `warn` is told which keys have another name now, a line each.
Recipe load_recipe(config::Document document, const Extensions& extensions, int64_t world,
                   const std::function<void(const std::string&)>& warn = {});

/// Like load_recipe(), for training: also rejects a warm-up that the steps do not reach (but for a trial, whose steps
/// are given on the command line), and names the nearest values that mend what is wrong.
Recipe load_to_train(config::Document document, const Extensions& extensions, int64_t world,
                     const std::function<void(const std::string&)>& warn = {});

}  // namespace hexad::train
