#include "tools/train/checkpoint/checkpointing.h"

#include <algorithm>

#include "framework/base/enum_names.h"
#include "framework/base/failure.h"
#include "framework/base/name_pattern.h"
#include "framework/io/checkpoint_writer.h"
#include "framework/io/finite.h"
#include "framework/tensor/host_read.h"
#include "parallel/comm/text_collectives.h"
#include "parallel/dp/owned.h"
#include "tools/train/checkpoint/parameter_reader.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/process/first_failure.h"
#include "tools/train/recipe/recipe_comparison.h"
#include "tools/train/recipe/training_stages.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

// Returns elements [begin, end) of a state as a rectangle of shape `shape`. Main weights that are stored as rests, and
// moments that contain marks (optim::Rests), are converted only when they are written.
io::TensorSource source_of(const optim::Optimizer::State& s, int64_t begin, int64_t end, const Shape& shape) {
  if (!s.rests.defined()) return s.values(begin, end).reshape(shape);
  return {shape, s.dtype(), [=] { return s.values(begin, end).reshape(shape); }};
}

// Returns the tensors that this rank saves. Frozen weights have the dtype of the model. If several ranks own the same
// elements, the first of these ranks saves them.
std::vector<io::ShardItem> items_of(ModelInstance& instance, const optim::Optimizer& optimizer) {
  std::vector<io::ShardItem> items;
  for (const auto& s : optimizer.states())
    if (dp::is_first_holder(*s.parameter, instance.mesh))
      for_each_rectangle(*s.parameter, [&](const io::Region& region, int64_t begin, int64_t end) {
        const auto [name, kind] = stored_as(s);
        items.push_back({name, kind, s.parameter->global_shape(), region, source_of(s, begin, end, region.size)});
      });
  for_each_frozen(instance, [&](const Parameter& p, const Tensor& weights) {
    if (dp::is_first_holder(p, instance.mesh))
      for_each_rectangle(p, weights, [&](const io::Region& region, const Tensor& part) {
        items.push_back({p.name(), io::Kind::main, p.global_shape(), region, part});
      });
  });
  if (instance.mesh.layout().first_holder(Placement{}, instance.mesh.world().rank()))
    for (const auto& s : instance.states)
      items.push_back({s.name, io::Kind::state, s.tensor.shape(), io::whole(s.tensor.shape()), s.tensor});
  return items;
}

[[noreturn]] void refuse_changes(const io::Checkpoint& checkpoint, const std::string& changes) {
  fail(ExitCode::usage, "cannot continue from ", checkpoint.folder(), ", because the recipe has changed:", changes,
       "\nuse another run.dir, or set train.init_from to start a new run from these weights");
}

// Opens the checkpoint on every rank and verifies this rank's share of its files. Only rank 0 reads the manifest, and
// broadcasts its text. A rank looks only for files that this rank verifies or reads. Later reads do not check digests,
// because all ranks together have verified all files. Collective.
io::Checkpoint open_together(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work) {
  device::DeviceContext host;
  std::string text;
  const Failure unread = attempted([&] {
    if (world.rank() == 0) text = io::Checkpoint::read_manifest(folder);
  });
  throw_first(unread, world);
  text = broadcast_text(text, 0, world, host);
  std::optional<io::Checkpoint> checkpoint;
  const Failure failure = attempted([&] {
    checkpoint = io::Checkpoint::open_read(folder, text, work);
    checkpoint->verify({static_cast<size_t>(world.rank()), static_cast<size_t>(world.size())});
  });
  throw_first(failure, world);
  checkpoint->skip_digests();
  return std::move(*checkpoint);
}

}  // namespace

void require_same_model(const io::Checkpoint& checkpoint, const Recipe& recipe) {
  std::string text;
  const Recipe saved = saved_recipe(checkpoint);
  for (const std::string& line : changes_of_model(saved, recipe)) text += "\n  " + line;
  // changes_of_model() permits another context if the recipe has stages. If the checkpoint's run had no stages, its
  // steps now belong to a stage of the recipe. The run's context must equal the context of this stage.
  const int64_t step = std::max<int64_t>(1, checkpoint.step());
  const int64_t context = with_stage(recipe, stage_at(recipe, step)).model.context;
  if (saved.stages.empty() && !recipe.stages.empty() && context != saved.model.context)
    text += cat("\n  model.context of step ", step, ": ", saved.model.context, " -> ", context);
  if (!text.empty()) refuse_changes(checkpoint, text);
}

io::Checkpoint open_verified(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work) {
  return open_together(folder, world, work);
}

data::Shuffle data_order(const io::Checkpoint& checkpoint, const Recipe& recipe) {
  const std::string saved = saved_shuffle(checkpoint);
  if (const auto order = base::enum_named<data::Shuffle>(saved)) {
    data::DataConfig before = recipe.data;
    before.shuffle = order;
    if (recipe.data.shuffle.value_or(*order) != *order)
      refuse_changes(checkpoint, "\n  data." + config::differences(before, recipe.data).front());
    return *order;
  }
  fail(ExitCode::data, checkpoint.folder(), ": the data are shuffled by '", saved,
       "', expected sequences or documents; continue with the newer program that wrote this checkpoint");
}

data::MixtureStart mixture_start(const io::Checkpoint& checkpoint, const Recipe& recipe) {
  const Recipe saved = saved_recipe(checkpoint);
  const size_t parts = saved.data.mixture.size();
  if (parts < 2 || recipe.data.mixture.size() != parts) return {};
  data::MixtureStart start = saved_mixture_start(checkpoint);
  const data::MixtureDivision before(saved.data.weights()), now(recipe.data.weights());
  if (!(before == now)) {
    const int64_t next = saved_progress(checkpoint).next_sequence;
    start = {next, start.drawn_until(next, before)};
  }
  const auto continued = [&](int64_t& count) {
    count = continued_sequence(count, saved.model.context, recipe.model.context);
  };
  continued(start.sequence);
  std::ranges::for_each(start.drawn, continued);
  return start;
}

std::vector<std::string> changes_since(const io::Checkpoint& checkpoint, const Recipe& recipe, int64_t world) {
  std::vector<std::string> changes = changes_of_recipe(saved_recipe(checkpoint), recipe);
  const std::string was = saved_layout(checkpoint), is = describe(recipe.parallel, world);
  if (was != is) changes.push_back(cat("layout: ", was, " -> ", is));
  return changes;
}

Checkpointer::Checkpointer(const Recipe& recipe, const comm::ProcessGroup& world, io::StoreOptions store_options)
    : recipe_(recipe), world_(world), store_(recipe.run.dir + "/checkpoints", std::move(store_options)) {}

void Checkpointer::clean() const {
  const auto phase = store_.options().work.announce("removing leftovers of killed saves");
  if (world_.rank() == 0) store_.clean();
}

std::vector<std::string> Checkpointer::abandon_after(int64_t step) const {
  if (io::Resume::parse(recipe_.checkpoint.resume).mode == io::Resume::Mode::automatic) return {};
  const auto phase = store_.options().work.announce(cat("moving the checkpoints after step ", step, " aside"));
  return store_.abandon_after(step);
}

int64_t Checkpointer::save(const Progress& progress, ModelInstance& instance, const optim::Optimizer& optimizer) const {
  const Device device = instance.context;
  const auto phase = store_.options().work.announce(cat("saving the checkpoint of step ", progress.step));
  io::CheckpointWriter writer(store_, progress.step);
  // Throws on all ranks if a rank failed in this stage of the save, so no rank begins the next stage.
  const auto throw_together = [&](const Failure& mine) {
    const auto problem = first_text(mine.text, static_cast<int>(mine.code), world_, device);
    if (!problem) return;
    if (world_.rank() == 0) writer.discard();
    fail(static_cast<ExitCode>(problem->code), "checkpoint of step ", progress.step,
         " was not saved: ", world_.size() > 1 ? cat("rank ", problem->rank, ": ") : "", problem->text);
  };
  // Runs a stage that writes files. Reports an error of the file system as a fault of the storage, not as damaged data.
  const auto attempt = [&](const std::function<void()>& stage) {
    Failure mine = attempted(stage);
    if (mine.code == ExitCode::data) mine.code = ExitCode::resource;
    throw_together(mine);
  };
  const std::vector<io::ShardItem> items = items_of(instance, optimizer);
  // Rejects tensors that are not finite, because such tensors must not replace the last good checkpoints. Also checks
  // the generation of the run. A damaged generation file keeps its exit code (data), unlike the errors of the later
  // stages.
  throw_together(attempted([&] {
    for (const io::ShardItem& item : items) io::require_finite(item.tensor.get(), io::name_of(item.kind), item.name);
    if (world_.rank() == 0) store_.require_current();
  }));
  attempt([&] {
    if (world_.rank() == 0) writer.create();
  });
  std::string part;
  attempt([&] { part = writer.write_shard(world_.rank(), world_.size(), items); });
  std::vector<std::string> parts;  // empty except on rank 0
  gather_bytes({part.begin(), part.end()}, world_, device,
               [&](int, const std::vector<uint8_t>& bytes) { parts.emplace_back(bytes.begin(), bytes.end()); });
  attempt([&] {
    if (world_.rank() != 0) return;
    writer.commit(saved_run(progress, recipe_, world_.size()), parts);
  });
  int64_t bytes = 0;
  for (const io::ShardItem& item : items) bytes += item.tensor.bytes();
  return bytes;
}

std::optional<io::Checkpoint> Checkpointer::find() const {
  const FileWork& work = store_.options().work;
  const auto phase = work.announce("looking for the checkpoint to resume from");
  device::DeviceContext host;
  const auto say = [&](const std::string& text) { return broadcast_text(text, 0, world_, host); };
  // Rank 0 searches, and broadcasts the name of each folder to verify. Then every rank opens the folder and verifies
  // its share of the files. An empty name ends the search. If the search finds a checkpoint, the ranks have opened this
  // checkpoint last.
  Failure failure;
  std::string found;
  std::optional<io::Checkpoint> opened;
  const auto open = [&](const std::string& folder) {
    opened.reset();
    opened = open_together(folder, world_, work);
  };
  if (world_.rank() == 0) {
    failure = attempted([&] {
      const auto verify = [&](io::Checkpoint& c) { open(say(c.folder())); };
      if (const auto checkpoint = store_.find(io::Resume::parse(recipe_.checkpoint.resume), verify))
        found = checkpoint->folder();
    });
    say("");
  } else {
    for (std::string folder; !(folder = say("")).empty();) {
      try {
        open(folder);
      } catch (const Error&) {  // rank 0 throws it, too, and then ends the search or opens another checkpoint
      }
    }
  }
  throw_first(failure, world_);
  if (say(found).empty()) return {};
  return opened;
}

Progress Checkpointer::load(io::Checkpoint& checkpoint, const Recipe& recipe, ModelInstance& instance,
                            optim::Optimizer& optimizer) {
  require_same_model(checkpoint, recipe);
  const Progress progress = saved_progress(checkpoint);
  // The checkpoint has no moments of parameters that its run froze. These moments remain zero.
  const std::vector<std::string> frozen = saved_recipe(checkpoint).optim.freeze;
  const auto is_frozen = [&](const std::string& name) { return matches_any(frozen, name); };
  Stream& stream = instance.context.compute();
  instance.weights.update(stream, [&] {
    for (const auto& s : optimizer.states())
      if (s.kind == "main" || !is_frozen(s.parameter->name()))
        s.load([&](const Tensor& values) { read_owned(checkpoint, *s.parameter, stored_as(s), values); });
    optimizer.main_changed(stream);
    for_each_frozen(instance, [&](const Parameter& p, const Tensor& weights) {
      read_owned(checkpoint, p, {p.name(), io::Kind::main}, weights);
    });
  });
  for (const auto& s : instance.states)
    read_into(checkpoint, {s.name, io::Kind::state}, s.tensor.shape(), io::whole(s.tensor.shape()), s.tensor);
  return progress;
}

void Checkpointer::load_weights(io::Checkpoint& checkpoint, ModelInstance& instance) {
  instance.weights.update(instance.context.compute(), [&] {
    for (const auto& p : instance.parameters)
      read_owned(checkpoint, *p, {p->name(), io::Kind::main}, p->owned_weights());
  });
  load_states(checkpoint, instance);
}

}  // namespace hexad::train
