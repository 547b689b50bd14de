#include "tools/train/checkpoint/checkpointing.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "framework/base/enum_names.h"
#include "framework/io/checkpoint_writer.h"
#include "framework/io/finite.h"
#include "framework/io/flat_regions.h"
#include "framework/tensor/host_read.h"
#include "parallel/comm/text_collectives.h"
#include "parallel/dp/owned.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/recipe/recipe_comparison.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

// Name and kind of an optimizer state in a checkpoint. The states of AdamW have their own kinds. States of other
// optimizers are stored as model states, named after the parameter.
struct StoredAs {
  std::string name;
  io::Kind kind;
};
StoredAs stored_as(const optim::Optimizer::State& s) {
  const std::string& name = s.parameter->name();
  for (const io::Kind kind : {io::Kind::main, io::Kind::moment1, io::Kind::moment2})
    if (io::name_of(kind) == s.kind) return {name, kind};
  return {cat(name, "/", s.kind), io::Kind::state};
}

io::Region region_of(const Parameter& p) {
  const auto r = p.region();
  return {r.begin, r.size};
}

io::Region whole(const Shape& shape) {
  Shape begin = shape;
  for (int d = 0; d < begin.rank(); ++d) begin[d] = 0;
  return {begin, shape};
}

// Calls f(rectangle, begin, end) for each rectangle of the global tensor that this rank owns of `p`. The rectangle has
// elements [begin, end) of the flat owned elements.
template <class F>
void for_each_rectangle(const Parameter& p, F&& f) {
  int64_t begin = 0;
  for (const io::Region& r : io::regions_of_flat_range(region_of(p), p.owned())) {
    const int64_t end = begin + r.size.numel();
    f(r, begin, end);
    begin = end;
  }
}

// Returns elements [begin, end) of a state in the shape of their rectangle. Main weights that are stored as rests are
// computed when they are written.
io::TensorSource source_of(const optim::Optimizer::State& s, int64_t begin, int64_t end, const Shape& shape) {
  if (!s.rests.defined()) return s.values(begin, end).reshape(shape);
  return {shape, s.dtype(), [=] { return s.values(begin, end).reshape(shape); }};
}

// Returns the tensors that this rank saves. If several ranks own the same elements, the first one saves them.
std::vector<io::ShardItem> items_of(ModelInstance& instance, const optim::Optimizer& optimizer) {
  std::vector<io::ShardItem> items;
  for (const auto& s : optimizer.states())
    if (dp::is_first_holder(*s.parameter, instance.mesh))
      for_each_rectangle(*s.parameter, [&](const io::Region& region, int64_t begin, int64_t end) {
        const auto [name, kind] = stored_as(s);
        items.push_back({name, kind, s.parameter->global_shape(), region, source_of(s, begin, end, region.size)});
      });
  if (instance.mesh.layout().first_holder(Placement{}, instance.mesh.world().rank()))
    for (const auto& s : instance.states)
      items.push_back({s.name, io::Kind::state, s.tensor.shape(), whole(s.tensor.shape()), s.tensor});
  return items;
}

void copy_into(const Tensor& target, const Tensor& source, Device device) {
  kernels::kernels(device).pointwise.copy(device.context().compute(), target, source);
}

// Throws Error(usage) unless the stored shape is `shape`, which is the shape in the recipe's model.
void require_shape(const io::Checkpoint& checkpoint, const std::string& name, io::Kind kind, const Shape& shape) {
  const Shape& stored = checkpoint.record(name, kind).shape;
  if (!(stored == shape))
    fail(ExitCode::usage, checkpoint.folder(), ": ", name, " is ", stored, " but the recipe's model has ", shape);
}

// Reads a region of a tensor to the host. Throws Error(numeric) if an element is not finite.
Tensor read_checked(io::Checkpoint& checkpoint, const std::string& name, io::Kind kind, const Shape& shape,
                    const io::Region& region, Device host) {
  require_shape(checkpoint, name, kind, shape);
  Tensor t = checkpoint.read(name, kind, region, host, Category::temporary);
  io::require_finite(t, checkpoint.folder(), name);
  return t;
}

// Reads (name, kind) into `target`. If `target` has another dtype, rounds the elements to the nearest value, ties to
// even. The dtypes differ if the run that saved the elements had another precision or another dtype of moments.
void read_into(io::Checkpoint& checkpoint, const std::string& name, io::Kind kind, const Shape& shape,
               const io::Region& region, const Tensor& target) {
  const Tensor t = read_checked(checkpoint, name, kind, shape, region, target.device().host());
  copy_into(target, on_device(t, target.device(), Category::temporary), target.device());
}

Shape without(const Shape& shape, int dim) {
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes.erase(sizes.begin() + dim);
  return Shape(sizes);
}

// Reads the parts of a stacked parameter from an older checkpoint, which stores the parts as separate tensors.
void read_stacked(io::Checkpoint& checkpoint, const Parameter& p, io::Kind kind, const io::Region& region,
                  const Tensor& target) {
  const Stack& stack = p.spec().stack;
  const Device host = target.device().host();
  const io::Region inside{without(region.begin, stack.dim), without(region.size, stack.dim)};
  Tensor all;
  for (int64_t i = 0; i < region.size[stack.dim]; ++i) {
    const std::string& name = stack.names[region.begin[stack.dim] + i];
    const Tensor part = read_checked(checkpoint, name, kind, without(p.global_shape(), stack.dim), inside, host);
    if (!all.defined()) all = Tensor::empty(region.size, part.dtype(), host);
    require(part.dtype() == all.dtype(), "[checkpoint] ", name, " is ", part.dtype(),
            " but other parts of its stack are ", all.dtype());
    Shape size = region.size;
    size[stack.dim] = 1;
    const size_t width = size_of(part.dtype());
    char* to = static_cast<char*>(all.raw()) + static_cast<size_t>(i * all.strides()[stack.dim]) * width;
    io::for_each_run(size, all.strides(), part.reshape(size).strides(), [&](int64_t there, int64_t here, int64_t n) {
      std::memcpy(to + static_cast<size_t>(there) * width,
                  static_cast<const char*>(part.raw()) + static_cast<size_t>(here) * width,
                  static_cast<size_t>(n) * width);
    });
  }
  copy_into(target, on_device(all, target.device(), Category::temporary), target.device());
}

// True if an older program stored the stacked parts as separate tensors.
bool stored_apart(const io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored) {
  const std::vector<std::string>& before = p.spec().stack.names;
  return !before.empty() && !checkpoint.contains(stored.name, stored.kind) &&
         checkpoint.contains(before[0], stored.kind);
}

void read_owned(io::Checkpoint& checkpoint, const Parameter& p, const StoredAs& stored, const Tensor& owned) {
  const bool stacked = stored_apart(checkpoint, p, stored);
  for_each_rectangle(p, [&](const io::Region& region, int64_t begin, int64_t end) {
    const Tensor part = owned.slice(0, begin, end).reshape(region.size);
    if (stacked)
      read_stacked(checkpoint, p, stored.kind, region, part);
    else
      read_into(checkpoint, stored.name, stored.kind, p.global_shape(), region, part);
  });
}

void load_state(io::Checkpoint& checkpoint, const optim::Optimizer::State& s) {
  s.load([&](const Tensor& target) { read_owned(checkpoint, *s.parameter, stored_as(s), target); });
}

void load_states(io::Checkpoint& checkpoint, ModelInstance& instance) {
  for (const auto& s : instance.states)
    if (checkpoint.contains(s.name, io::Kind::state))
      read_into(checkpoint, s.name, io::Kind::state, s.tensor.shape(), whole(s.tensor.shape()), s.tensor);
}

[[noreturn]] void refuse(const io::Checkpoint& checkpoint, const std::string& changes) {
  fail(ExitCode::usage, "cannot continue from ", checkpoint.folder(), ", because the recipe has changed:", changes,
       "\nuse another run.dir, or set train.init_from to start a new run from these weights");
}

// Failure of this rank in work that all ranks do. It is sent to the other ranks.
struct Failure {
  std::string text{};  // empty: no failure
  ExitCode code = ExitCode::done;
};

template <class F>
Failure attempted(F&& work) {
  try {
    work();
  } catch (const Error& e) {
    return {e.what(), e.code()};
  }
  return {};
}

// Throws the failure of the lowest failed rank on all ranks. All ranks must throw the same error, because the job's
// exit code is that of the rank that ends first. Collective.
void throw_first(const Failure& mine, const comm::ProcessGroup& world) {
  device::DeviceContext host;
  const std::vector<std::string> texts = gather_texts(mine.text, world, host);
  const auto first = std::find_if(texts.begin(), texts.end(), [](const std::string& t) { return !t.empty(); });
  if (first == texts.end()) return;
  const int64_t code[] = {static_cast<int64_t>(mine.code)};
  const auto codes = world.all_gather_values(code, host);
  fail(static_cast<ExitCode>(codes[first - texts.begin()]), *first);
}

// Verifies this rank's share of the shards. Collective.
void verify_together(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work) {
  const Failure failure = attempted([&] {
    io::Checkpoint::open(folder, io::Check::quick, work)
        .verify({static_cast<size_t>(world.rank()), static_cast<size_t>(world.size())});
  });
  throw_first(failure, world);
}

}  // namespace

void require_same_model(const io::Checkpoint& checkpoint, const Recipe& recipe) {
  std::string text;
  for (const std::string& line : changes_of_model(saved_recipe(checkpoint), recipe)) text += "\n  " + line;
  if (!text.empty()) refuse(checkpoint, text);
}

io::Checkpoint open_verified(const std::string& folder, const comm::ProcessGroup& world, const FileWork& work) {
  verify_together(folder, world, work);
  return io::Checkpoint::open(folder, io::Check::quick, work);
}

data::Shuffle data_order(const io::Checkpoint& checkpoint, const Recipe& recipe) {
  const std::string saved = saved_shuffle(checkpoint);
  if (const auto order = base::enum_named<data::Shuffle>(saved)) {
    data::DataConfig before = recipe.data;
    before.shuffle = order;
    if (recipe.data.shuffle.value_or(*order) != *order)
      refuse(checkpoint, "\n  data." + config::differences(before, recipe.data).front());
    return *order;
  }
  fail(ExitCode::data, checkpoint.folder(), ": the data are shuffled by '", saved,
       "', expected sequences or documents: a newer program wrote this checkpoint");
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
  // After each stage, all ranks agree on whether it failed. Only then does the next stage begin.
  std::string problem;
  const auto attempt = [&](ExitCode code, const std::function<void()>& stage) {
    problem.clear();
    try {
      stage();
    } catch (const std::exception& e) {
      problem = e.what();
    }
    const std::vector<std::string> problems = gather_texts(problem, world_, device);
    for (size_t r = 0; r < problems.size(); ++r) {
      if (problems[r].empty()) continue;
      if (world_.rank() == 0) writer.discard();
      fail(code, "checkpoint of step ", progress.step,
           " was not saved: ", problems.size() > 1 ? cat("rank ", r, ": ") : "", problems[r]);
    }
  };
  const std::vector<io::ShardItem> items = items_of(instance, optimizer);
  // Rejects weights that are not finite, because they must not replace the last good checkpoints.
  attempt(ExitCode::numeric, [&] {
    for (const io::ShardItem& item : items) io::require_finite(item.tensor.get(), io::name_of(item.kind), item.name);
  });
  attempt(ExitCode::resource, [&] {
    if (world_.rank() == 0) writer.create();
  });
  std::string part;
  attempt(ExitCode::resource, [&] { part = writer.write_shard(world_.rank(), world_.size(), items); });
  const std::vector<std::string> parts = gather_texts(part, world_, device);
  attempt(ExitCode::resource, [&] {
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
  // Rank 0 searches, and broadcasts the name of each folder to verify. All ranks verify their shares of that folder. An
  // empty name ends the search.
  Failure failure;
  std::string found;
  if (world_.rank() == 0) {
    failure = attempted([&] {
      const auto verify = [&](io::Checkpoint& c) { verify_together(say(c.folder()), world_, work); };
      if (const auto checkpoint = store_.find(io::Resume::parse(recipe_.checkpoint.resume), verify))
        found = checkpoint->folder();
    });
    say("");
  } else {
    for (std::string folder; !(folder = say("")).empty();) attempted([&] { verify_together(folder, world_, work); });
  }
  throw_first(failure, world_);
  found = say(found);
  if (found.empty()) return {};
  return io::Checkpoint::open(found, io::Check::quick, work);
}

Progress Checkpointer::load(io::Checkpoint& checkpoint, const Recipe& recipe, ModelInstance& instance,
                            optim::Optimizer& optimizer) {
  require_same_model(checkpoint, recipe);
  const Progress progress = saved_progress(checkpoint);
  Stream& stream = instance.context.compute();
  instance.weights.update(stream, [&] {
    for (const auto& s : optimizer.states()) load_state(checkpoint, s);
    optimizer.main_changed(stream);
  });
  for (const auto& s : instance.states)
    read_into(checkpoint, s.name, io::Kind::state, s.tensor.shape(), whole(s.tensor.shape()), s.tensor);
  return progress;
}

void Checkpointer::require_shapes(const io::Checkpoint& checkpoint, const ModelInstance& instance) {
  for (const auto& p : instance.parameters) {
    const StoredAs stored{p->name(), io::Kind::main};
    const Stack& stack = p->spec().stack;
    if (stored_apart(checkpoint, *p, stored))
      for (const std::string& name : stack.names)
        require_shape(checkpoint, name, stored.kind, without(p->global_shape(), stack.dim));
    else
      require_shape(checkpoint, stored.name, stored.kind, p->global_shape());
  }
  for (const auto& s : instance.states)
    if (checkpoint.contains(s.name, io::Kind::state))
      require_shape(checkpoint, s.name, io::Kind::state, s.tensor.shape());
}

void Checkpointer::load_weights(io::Checkpoint& checkpoint, ModelInstance& instance) {
  instance.weights.update(instance.context.compute(), [&] {
    for (const auto& p : instance.parameters)
      read_owned(checkpoint, *p, {p->name(), io::Kind::main}, p->owned_weights());
  });
  load_states(checkpoint, instance);
}

void Checkpointer::load_weights(io::Checkpoint& checkpoint, ModelInstance& instance, optim::Optimizer& optimizer) {
  Stream& stream = instance.context.compute();
  instance.weights.update(stream, [&] {
    for (const auto& s : optimizer.states())
      if (s.kind == "main") load_state(checkpoint, s);
    optimizer.main_changed(stream);
  });
  load_states(checkpoint, instance);
}

}  // namespace hexad::train
