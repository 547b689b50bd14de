// The recipe, which has one struct for each section.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/config/typed_recipe.h"
#include "framework/data/data_config.h"
#include "framework/device/device_kind.h"
#include "layers/base/model_config.h"
#include "layers/recompute_config.h"
#include "parallel/comm/device_group.h"
#include "parallel/comm/traffic_class.h"
#include "tools/train/recipe/batch_config.h"
#include "tools/train/recipe/extensions.h"
#include "tools/train/recipe/parallel_config.h"
#include "tools/train/recipe/schedule_config.h"
#include "tools/train/recipe/stage_config.h"

namespace hexad::train {

enum class Precision : uint8_t { f32, bf16, f64 };
constexpr auto enum_names(Precision) {
  return std::to_array<std::pair<Precision, std::string_view>>(
      {{Precision::f32, "f32"}, {Precision::bf16, "bf16"}, {Precision::f64, "f64"}});
}
base::Dtype dtype_of(Precision precision);

/// Dtype of the logits of a model in bf16. In other runs, logits have the dtype of the model.
enum class LogitsDtype : uint8_t { f32, bf16 };
constexpr auto enum_names(LogitsDtype) {
  return std::to_array<std::pair<LogitsDtype, std::string_view>>(
      {{LogitsDtype::f32, "f32"}, {LogitsDtype::bf16, "bf16"}});
}

/// Method that makes the weights of experts that the model train.init_from does not have.
enum class InitExperts : uint8_t { none, copy, split };
constexpr auto enum_names(InitExperts) {
  return std::to_array<std::pair<InitExperts, std::string_view>>(
      {{InitExperts::none, "none"}, {InitExperts::copy, "copy"}, {InitExperts::split, "split"}});
}

/// Method that makes the rows of embedding and head beyond the vocabulary of train.init_from.
enum class InitVocabulary : uint8_t { none, grow, mean };
constexpr auto enum_names(InitVocabulary) {
  return std::to_array<std::pair<InitVocabulary, std::string_view>>(
      {{InitVocabulary::none, "none"}, {InitVocabulary::grow, "grow"}, {InitVocabulary::mean, "mean"}});
}

struct TrainConfig {
  int64_t steps = 100;
  Precision precision = Precision::f32;
  LogitsDtype logits_dtype = LogitsDtype::f32;
  uint64_t seed = 1;
  std::optional<int64_t> threads;
  int64_t log_every = 10, router_every = 20, eval_every = 0, eval_sequences = 256;
  int64_t max_skipped = 5;
  bool deterministic = false;
  std::optional<double> peak_flops;
  std::string init_from;
  InitExperts init_experts = InitExperts::none;
  double init_noise = 0;
  InitVocabulary init_vocabulary = InitVocabulary::none;

  /// Returns CrossEntropyOptions::logits_dtype.
  std::optional<base::Dtype> dtype_of_logits() const;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::automatic, config::positive;
    v("steps", steps, "optimizer steps of the whole run", at_least(1));
    v("precision", precision,
      "dtype of weights and activations; with bf16, the optimizer also keeps main weights (optim.main_weights); f64 is "
      "for comparisons");
    v("logits_dtype", logits_dtype,
      "dtype of the logits from which the loss of a bf16 run is computed: f32, or bf16, which needs less memory and "
      "traffic; the loss is computed in f32 from either");
    v("seed", seed, "seed of all random choices");
    v("threads", threads,
      "threads of a rank's kernels; auto: the rank's share of the cores that the ranks of its node may use", automatic,
      at_least(1));
    v("log_every", log_every, "steps between plain progress lines", at_least(1));
    v("router_every", router_every,
      "steps between records of every expert's load in metrics.jsonl; the first step of each start and stage, and the "
      "last step, are also recorded; 0: no records",
      at_least(0));
    v("eval_every", eval_every, "steps between held-out evaluations; 0: only at the end", at_least(0));
    v("eval_sequences", eval_sequences,
      "number of sequences in a held-out evaluation during training, always the same ones, spread over the held-out "
      "set; 0: all; the evaluation at the end uses the whole set",
      at_least(0));
    v("max_skipped", max_skipped,
      "consecutive steps without a finite loss and gradient after which training stops (exit 5)", at_least(1));
    v("deterministic", deterministic,
      "use only kernels whose results are bitwise identical in every run, even if that costs speed or memory "
      "(attention's backward on a GPU); all CPU kernels qualify");
    v("peak_flops", peak_flops,
      "FLOP/s of a rank at full speed, for MFU; auto: the best rate of each rank, measured with matrix products at the "
      "start and, on a CPU, repeatedly during the run",
      automatic, positive());
    v("init_from", init_from,
      "folder with the initial weights of a new run: a checkpoint, or a Hugging Face model; empty: random weights",
      config::file_path);
    v("init_experts", init_experts,
      "weights of experts that init_from lacks: none (such a start is refused); copy: copies of the block's "
      "dense MLP or, if the stored block has experts, of these experts in turn; split: each group of (width of "
      "the dense MLP) / expert_hidden experts forms the dense MLP");
    v("init_noise", init_noise,
      "with init_experts, copied weights are multiplied by 1 + init_noise x a standard normal number", at_least(0));
    v("init_vocabulary", init_vocabulary,
      "rows of embedding and head beyond the vocabulary of init_from: none (such a start is refused), grow (drawn as "
      "for a new model) or mean (the mean of the stored rows)");
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
    v("every", every, "steps between checkpoints; 0: none before the end", config::at_least(0));
    v("at_end", at_end, "save a checkpoint after the last step");
    v("keep", keep, "number of complete checkpoints to keep; 0: all", config::at_least(0));
    v("resume", resume,
      "checkpoint to resume from: auto (the newest good one, if any), none (start from the beginning) or a step");
    v("on_failure", on_failure,
      "reaction to a checkpoint that cannot be written: stop (exit 4) or go_on (training continues). If the "
      "last checkpoint of a stage, or the last one before the program ends, cannot be written, the run always stops");
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
    v("activations", activations, "keep saved activations in a file until backward");
    v("optimizer", optimizer,
      "storage of main weights and moments between updates: file, or none (they stay in memory)");
    v("min_bytes", min_bytes, "smallest size of a saved activation that is offloaded", config::at_least(0));
    v("folder", folder, "folder of the offload file; on a GPU offloaded data is kept in host memory instead",
      config::file_path, config::non_empty());
  }
};

struct DistributedConfig {
  std::optional<config::ByteSize> bucket_bytes;
  double watchdog_seconds = 300;
  std::optional<bool> check_collectives;
  int64_t replica_check_every = 0;
  std::vector<comm::TrafficClass> priority{comm::TrafficClass::tp, comm::TrafficClass::ep, comm::TrafficClass::pp,
                                           comm::TrafficClass::cp, comm::TrafficClass::dp};
  config::ByteSize piece_bytes = 128 << 10;
  config::ByteSize window_bytes = 2 << 20;
  config::ByteSize low_window_bytes = 256 << 10;
  comm::DeviceCollectives device_collectives = comm::DeviceCollectives::automatic;
  bool register_buffers = false;
  std::vector<int64_t> network_classes;
  std::optional<int64_t> reserve_multiprocessors;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::at_most, config::automatic;
    v("bucket_bytes", bucket_bytes,
      "approximate size of the units in which gradients are reduced and, under zero 3, weights are gathered; auto: 4 "
      "MiB on CPUs; on GPUs 4 MiB for each rank that holds the same dense weights, from 32 to 512 MiB",
      automatic, at_least(1));
    v("watchdog_seconds", watchdog_seconds,
      "seconds without progress after which a collective ends the job (exit 6) and names the missing ranks; 0: never",
      at_least(0));
    v("check_collectives", check_collectives,
      "compare operation, type and sizes between ranks before every collective; auto: true in debug builds", automatic);
    v("replica_check_every", replica_check_every,
      "steps between comparisons of the weights that several ranks hold (exit 5 if they differ); 0: never",
      at_least(0));
    v("priority", priority,
      "classes of traffic by priority, highest first, when several collectives wait for the link (MoNTA); unlisted "
      "classes follow in order of arrival; []: all in order of arrival, even collectives that a rank waits for");
    v("piece_bytes", piece_bytes,
      "bytes that a rank sends to all its peers together in one piece of a collective or message (at least 16 KiB per "
      "peer); another class can go first only between pieces",
      at_least(1));
    v("window_bytes", window_bytes,
      "maximum bytes in flight on a rank's link, in each direction, for the class of highest priority in use; must be "
      "large enough to keep the link busy",
      at_least(1));
    v("low_window_bytes", low_window_bytes,
      "like window_bytes, for each class of lower priority than another class in use; the higher class waits for at "
      "most this number of bytes; faster networks need a larger value",
      at_least(1));
    v("device_collectives", device_collectives,
      "path of GPU tensors to other ranks: nccl (from GPU to GPU), host (through host memory) or auto (nccl if every "
      "rank has its own GPU and NCCL is installed; otherwise MPI, which sends from GPU to GPU if it is CUDA-aware)");
    v("register_buffers", register_buffers,
      "register buckets of gradients and weights of at least 4 MiB with NCCL, so that NCCL can avoid copying them if "
      "links and algorithms allow that; each bucket takes whole pages of 2 MiB of GPU memory");
    v("network_classes", network_classes,
      "numbers that NCCL passes to the network (InfiniBand: service levels, RoCE: types of service) for the classes of "
      "traffic that priority lists, in the same order; []: the network's own choice",
      at_least(0), at_most(255));
    v("reserve_multiprocessors", reserve_multiprocessors,
      "multiprocessors of a GPU that GEMMs leave to communication, which can otherwise double the time of a GEMM; "
      "rounded up so that an even number remains, because GEMMs take pairs; auto: as many as NCCL may use for traffic "
      "that overlaps GEMMs (pipelines, gradients, weights, tensor parallelism, overlapped all-to-alls), 0 without NCCL",
      automatic, at_least(0), at_most(1024));
  }
};

struct ProfileConfig {
  std::string steps;

  template <class V>
  void fields(V& v) {
    v("steps", steps,
      "steps whose timeline, with memory in use on all ranks, is written to trace.json.gz: one step, or a range such "
      "as 3..5; empty: none");
  }
};

struct RunConfig {
  std::string dir = "runs/default";
  std::vector<std::string> prompts;
  int64_t heldout_prompts = 0;

  template <class V>
  void fields(V& v) {
    v("dir", dir, "run directory: recipe, metrics, checkpoints, report", config::file_path, config::non_empty());
    v("prompts", prompts, "texts that the trained model continues in the report");
    v("heldout_prompts", heldout_prompts,
      "number of held-out documents whose beginnings the trained model also continues in the report",
      config::at_least(0));
  }
};

struct MemoryConfig {
  std::optional<config::ByteSize> limit_bytes = config::ByteSize(0);
  std::optional<config::ByteSize> pinned_bytes;

  /// Returns the bytes that a rank may use for tensors; 0: no limit.
  int64_t limit() const { return limit_bytes.value_or(0); }
  /// Returns the limit for messages: "1.50 GiB" or, without a limit, the value in the recipe with its meaning: "none:
  /// no limit".
  std::string limit_text() const;
  /// True if a run whose estimated memory exceeds the memory of its machines is refused.
  bool checks_machine() const { return limit_bytes.has_value(); }

  template <class V>
  void fields(V& v) {
    v("limit_bytes", limit_bytes,
      "largest memory of a rank for tensors: an allocation beyond it fails (exit 4), and `hexad validate` refuses "
      "(exit 2) a recipe that is estimated to need more. A run that is estimated to need more memory than its machines "
      "have is refused at its start (exit 4). 0: no limit; none: no limit, and such a run is started nevertheless",
      config::at_least(0));
    v("pinned_bytes", pinned_bytes,
      "largest page-locked host memory for copies and offloaded data of a rank with a GPU; more is refused (exit 4); "
      "auto: half of the memory available on the node, divided by its ranks; 0: no limit",
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
  std::vector<StageConfig> stages;

  // recipe.cpp defines these members, because generating them costs each source file half a second of compile time.
  Recipe();
  Recipe(const Recipe&);
  Recipe(Recipe&&) noexcept;
  Recipe& operator=(const Recipe&);
  Recipe& operator=(Recipe&&) noexcept;
  ~Recipe();

  template <class V>
  void fields(V& v) {
    v("model", model, "architecture of the model");
    v("device", device,
      "device on which a rank computes; the environment variable HEXAD_DEVICE replaces it, and sets keys to auto if "
      "only "
      "the replaced device has their values");
    v("parallel", parallel, "distribution of the model over ranks");
    v("batch", batch, "sequences in a step");
    v("train", train, "training run");
    v("optim", optim, "optimizer and learning rate");
    v("recompute", recompute, "activations that backward recomputes instead of keeping them");
    v("offload", offload, "data that are moved out of memory until they are needed");
    v("schedule", schedule, "order of computation and communication");
    v("distributed", distributed, "gradient reduction and other collectives");
    v("memory", memory, "memory limits");
    v("data", data, "source of the tokens");
    v("checkpoint", checkpoint, "saving and resuming");
    v("profile", profile, "timeline profiling");
    v("run", run, "run directory and report");
    v("stages", stages,
      "stages of training, one after the other, each with its own context, batch, layout and schedule; "
      "train.steps is the sum of their steps; []: the whole run is one stage");
  }
};

/// Reads and checks a recipe. If `world` > 0, also checks that the recipe can run on `world` ranks. `warn` receives a
/// line for each key with an old name. `device` replaces the recipe's device (replace_device()); HEXAD_DEVICE is then
/// ignored. If the recipe has stages, the result has the keys of the first stage (see with_stage()). Throws
/// Error(usage) with every problem, each with file and line.
Recipe load_recipe(config::Document document, const Extensions& extensions, int64_t world,
                   const std::function<void(const std::string&)>& warn = {},
                   std::optional<device::DeviceKind> device = {});

/// Reads and checks a recipe like load_recipe(), for training. Errors suggest legal values. Also rejects:
/// - optim.warmup > train.steps, except in a short trial: the command line sets train.steps, but not optim.warmup
/// - a decay that begins before the warm-up ends
Recipe load_to_train(config::Document document, const Extensions& extensions, int64_t world,
                     const std::function<void(const std::string&)>& warn = {});

}  // namespace hexad::train
